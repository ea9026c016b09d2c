"""`Variable`: its operators, methods, NumPy protocol, and operations in place."""
