"""Limits of the scalar special functions."""

SERIES_TERMS = 300  # of a power series, which is used where it needs fewer; only NaN takes longer with more
FRACTION_TERMS = 300  # of a continued fraction, likewise
# Parts of an area under a density, in each of which its exponent falls by 9, or less far from the mean. More
# take longer for parameters such as 1e300.
PANELS = 64
QUANTILE_STEPS = 200  # of Newton's method or bisection, which takes 60; more are never taken
