"""Subscripts, comprehensions, stores, selections: how elements of arrays are named."""
