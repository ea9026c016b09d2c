"""Solvers with exact derivatives: SciPy's `minimize`, `least_squares`, `root` and `curve_fit`, nonlinear
programs, and many fits at once: `batch`."""

from adcompiler.fit.batched import batch

__all__ = ["batch"]
