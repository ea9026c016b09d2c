"""Kernels written by hand for numba: derivatives on paper, vector mathematics, blocks in a fixed order.

Each module's functions take a workload's inputs and return a call that gives its results. Buffers for the
results are made once and written again by every call, as one would by hand.
"""
