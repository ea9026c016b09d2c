"""Loop orders chosen by passes; others follow from accesses (`analysis/loop_order.py`)."""

from __future__ import annotations

from adcompiler.ir.nodes import Array, Func
from adcompiler.passes.order.interchange import interchanged_order
from adcompiler.passes.order.triangles import across_order


def settled_orders(func: Func) -> dict[Array, tuple[int, ...]]:
    """The axes of arrays, outermost loop first, if a pass has chosen their order."""
    found = {a: interchanged_order(a) for a in func.interchanged}
    return found | {a: across_order(a, lanes) for a, lanes in func.across.items()}
