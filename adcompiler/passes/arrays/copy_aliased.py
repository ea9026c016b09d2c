"""Copy aliased outputs: each result becomes a separate array, which kernels fill.

A result may be an input, or the same node as another result. A caller that changes one array must not change
another.
"""

from __future__ import annotations

from adcompiler.ir.nodes import Array, Func, Input, Map, element_of


def copy_aliased(func: Func) -> Func:
    """The program with copies of arrays that are inputs or stand among the results before."""
    found: dict[Array, None] = {}
    results = []
    for result in func.results:
        while result.rank and (isinstance(result, Input) or result in found):
            result = Map(result.shape, element_of(result))
        found[result] = None
        results.append(result)
    return func.with_(results=tuple(results))
