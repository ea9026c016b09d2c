"""`Variable`: its operators, methods, NumPy protocol and in-place operations."""
