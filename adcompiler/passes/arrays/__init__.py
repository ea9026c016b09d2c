"""Passes that decide which values are arrays: inlining, hoisting, fusion, pruning."""
