"""Dask: programs over chunked arrays, block by block, and parameter studies on a cluster.

    value, (dx, dw) = adc.dask.value_and_grad(f)(x, w)  # lazy; x is a dask.array
    dask.compute(value, dw)

A function, or any derivative of one, is a program; `passes/chunks/partition.py` splits it into programs for
blocks, `graph.py` makes a task graph of these, and `worker.py` runs them. Nothing is computed before Dask is
asked to. Calls of functions with Dask arrays run in the same way (`call`). `study.py` maps a function over
many cases.
"""

from adcompiler.interop.dask.derivatives import grad, hvp, jvp, value_and_grad, vjp
from adcompiler.interop.dask.lazy import Blockwise, blockwise, call, plain
from adcompiler.interop.dask.study import map

__all__ = ["Blockwise", "blockwise", "call", "grad", "hvp", "jvp", "map", "plain", "value_and_grad", "vjp"]
