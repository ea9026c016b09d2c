"""The text form of programs: printer, reader, verifier."""
