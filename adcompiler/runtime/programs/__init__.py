"""Programs specialised to arguments, compiled once and remembered."""
