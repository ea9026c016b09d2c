"""Kernels through numba: modules, `jitted`, `cfunc`, `adc build`."""
