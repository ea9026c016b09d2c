"""Programs specialised to argument types, compiled once and cached."""
