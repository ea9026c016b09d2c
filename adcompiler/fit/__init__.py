"""Solvers with exact derivatives: SciPy's `minimize`, `least_squares`, `root` and `curve_fit`, and nonlinear
programs."""
