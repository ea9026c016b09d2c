"""Routines on whole matrices, as Python functions that are compiled into kernels."""
