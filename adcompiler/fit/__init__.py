"""SciPy's solvers with exact derivatives: `minimize`, `least_squares`, `root` and `curve_fit`."""
