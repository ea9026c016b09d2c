"""The widths of integers, which decide what they are with float32: float32 holds all integers of at most 16
bits, and is NumPy's type of both.

Programs compute with 64 bits. The widths are those that NumPy would have, found from the arguments that an
expression reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from adcompiler.ir.nodes import Apply, Array, Const, Element, Index, Map, Node, Read, Reduce, Select, Size
from adcompiler.ir.types import DTYPES
from adcompiler.ir.walk import postorder
from adcompiler.ops.table import TABLE

WIDE = np.dtype(np.int64)
SINGLE = np.dtype(np.float32)
Widths = Mapping[Array, np.dtype | None]  # of integer inputs and arrays; None for Python's integers


def are_single(elements: Iterable[Element], widths: Widths) -> bool:
    """Whether each of some integers has the type float32 together with one."""
    return bool(widths) and all(np.result_type(width(e, widths), SINGLE) == SINGLE for e in elements)


def width(element: Element, widths: Widths) -> np.dtype:
    """The type that an integer has in NumPy."""
    found: dict[Node, np.dtype | None] = {}

    def parts(node: Node) -> Sequence[Node]:
        if isinstance(node, Array) and node in widths:
            return ()
        match node:
            case Read(array=array):
                return (array,)
            case Map(body=body) | Reduce(op="min" | "max", body=body):
                return (body,)
            case Select():
                return node.args[1:]
            case Apply() if _keeps_width(node):
                return node.args
        return ()

    for node in postorder(list[Node]([element]), lambda n: list(parts(n))):
        if isinstance(node, Array) and node in widths:
            found[node] = widths[node]
        elif inner := parts(node):
            known = [w for p in inner if (w := found[p]) is not None]
            found[node] = np.result_type(*known) if known else None
        elif isinstance(node, Const | Index | Size):
            found[node] = np.dtype(bool) if node.dtype == "bool" else None
        else:
            found[node] = np.dtype(bool) if getattr(node, "dtype", "") == "bool" else WIDE
    return found[element] or WIDE


def _keeps_width(node: Apply) -> bool:
    """Whether an operation on integers gives the type of its operands; truth values become integers."""
    if node.op in DTYPES:
        return node.op == "i64" and node.args[0].dtype == "bool"
    return node.dtype == "i64" and TABLE[node.op].kind in ("arithmetic", "integer")
