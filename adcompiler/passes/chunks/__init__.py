"""Passes that split a program into blocks of chunked arrays."""
