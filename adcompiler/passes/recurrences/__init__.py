"""Passes over program loops: checkpoints, distribution, sums, running totals, invariants."""
