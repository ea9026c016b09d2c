"""Passes that choose the order and bounds of loops: matrix products, triangles, interchange."""
