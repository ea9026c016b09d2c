"""Passes over program loops: checkpoints, distribution, sums, invariants."""
