"""Explanations: where a NaN comes from, why a gradient is None, what the tape holds."""
