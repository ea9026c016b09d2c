"""Say primitives that kernels do not know by others, as the rule table says."""

from __future__ import annotations

from adcompiler.ir.nodes import Apply, Element, Func
from adcompiler.ir.types import DTYPES
from adcompiler.ir.walk import Rewriter, rewrite
from adcompiler.ops.table import TABLE
from adcompiler.syntax.scalar import element_of


def expand(func: Func) -> Func:
    """The program in primitives that have a kernel."""
    return _Expand().func(func)


class _Expand(Rewriter):
    def element(self, element: Element) -> Element:
        if not isinstance(element, Apply) or element.op in DTYPES or not TABLE[element.op].expand:
            return element
        entry = TABLE[element.op]
        scope = dict(zip(entry.params, element.args, strict=True))
        made = element_of(entry.expand, scope, element.dtype)
        # The text may use primitives that expand in turn; its operands are expanded already.
        memo: dict[Element, Element] = {a: a for a in element.args}
        return rewrite((made,), lambda e: e if e is element else self.element(e), memo)[0]
