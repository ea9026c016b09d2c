"""Subscripts, comprehensions, stores and selections."""
