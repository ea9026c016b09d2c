"""Kernels through numba: modules, the function around a kernel, and files of Python."""
