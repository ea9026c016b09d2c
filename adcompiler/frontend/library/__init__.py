"""The builtin functions, most of them NumPy's and SciPy's."""
