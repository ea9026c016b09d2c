"""Even and odd functions: f(-x) is f(x) or -f(x), to the last bit."""

from __future__ import annotations

EVEN = frozenset(
    ("square", "abs", "cos", "cospi", "cosh", "hypot", "norm_pdf", "norm_logpdf", "j0", "i0", "i0e", "sinc",
     "one_minus_square", "sigmoid_slope", "tanh_slope")
)  # fmt: skip
ODD = frozenset(
    ("negative", "cbrt", "sin", "sinpi", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf",
     "erfinv", "deg2rad", "rad2deg", "j1", "i1")
)  # fmt: skip
