"""Copy aliased outputs, so that each result is a separate array filled by kernels.

A result may be an input, or the same node as another result. Modifying one must not modify another.
"""

from __future__ import annotations

from adcompiler.ir.nodes import Array, Func, Input, Map, element_of


def copy_aliased(func: Func) -> Func:
    """The program with copies of results that are inputs or earlier results."""
    found: dict[Array, None] = {}
    results = []
    for result in func.results:
        while result.rank and (isinstance(result, Input) or result in found):
            result = Map(result.shape, element_of(result))
        found[result] = None
        results.append(result)
    return func.with_(results=tuple(results))
