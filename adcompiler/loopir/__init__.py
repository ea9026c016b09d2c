"""The loop IR: typed loops and statements, their text, and transforms of them."""
