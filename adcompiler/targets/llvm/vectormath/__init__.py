"""Elementary functions of vectors."""
