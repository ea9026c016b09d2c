"""Kernels on the CPU: configurations by lengths, threads, calls."""
