"""Passes that choose the order and bounds of loops: products, triangles, interchange."""
