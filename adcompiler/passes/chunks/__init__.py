"""Passes that cut a program into blocks of chunked arrays."""
