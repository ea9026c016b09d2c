"""Arguments with parts: containers, records, rows, and the kinds of their leaves."""
