"""Kernels through numba: modules, `jitted`, `cfunc`, files of Python."""
