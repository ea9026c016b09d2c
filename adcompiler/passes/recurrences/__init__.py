"""Passes over loops of programs: checkpoints, distribution, sums, invariants."""
