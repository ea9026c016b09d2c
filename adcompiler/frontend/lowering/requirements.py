"""`require(condition, cause, remedy)` in the prelude: what a function demands of its arguments.

A condition that is known while compiling is an error at once, one on lengths is compared at each call, and
one on values is a check of the program. Texts may name arguments: "{x}" is "an array of rank 2" or a number.
"""

from __future__ import annotations

from typing import Any

from adcompiler import errors
from adcompiler.errors import Error, OutOfRangeError, ShapeError
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import integer
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.frontend.values.values import AnyValue, Value, as_array, describe, is_number
from adcompiler.ir.nodes import Element, is_const
from adcompiler.ops.build import cast


class Described:
    """An argument in a text."""

    def __init__(self, value: AnyValue) -> None:
        self.value = value

    def __str__(self) -> str:
        plain = is_number(self.value) or isinstance(self.value, str)
        return repr(self.value) if plain else describe(self.value)

    def __format__(self, how: str) -> str:
        return str(self)

    @property
    def ndim(self) -> int:
        """Its rank."""
        return getattr(self.value, "rank", 0)


def require(context: Context, call: tree.Call, scope: dict[str, Any]) -> None:
    """Demand the condition of a call of `require`."""
    condition, *texts = call.arguments
    names = {name: Described(value) for name, value in scope.items()} | {"name": context.blame.name}
    cause, remedy, *kinds = (_text(part).format_map(names) for part in texts)
    kind: type[Error] = getattr(errors, kinds[0]) if kinds else ShapeError
    if isinstance(condition, tree.Compare) and condition.ops in (("==",), (">=",)):
        sides = [as_array(context.expression(operand, scope)) for operand in condition.operands]
        if _of_lengths(context, sides, condition.ops[0], cause, remedy, call):
            return
    holds = as_array(context.expression(condition, scope))
    if isinstance(holds, Value):
        element = cast(holds.element, "bool")
        error = kind if kinds else OutOfRangeError
        context.binders.check(element, holds.shape, cause, remedy, call.span, error)
    elif not holds:
        context.fail(kind, cause, call.span, remedy)


def _text(node: tree.Expression) -> str:
    assert isinstance(node, tree.Text)
    return node.value


def _of_lengths(
    context: Context, sides: list[AnyValue], op: str, cause: str, remedy: str, call: tree.Call
) -> bool:
    """Compare two lengths, if both are; at the call if they are not known."""
    if not any(isinstance(side, Value) for side in sides):
        return False
    lengths = [_length(context, side) for side in sides]
    left, right = lengths
    if left is None or right is None:
        return False
    if op == "==":
        if not context.sizes.merge(left, right, cause, call.span, remedy):
            found = " and ".join(context.sizes.describe(n) for n in (left, right))
            context.fail(ShapeError, f"{cause}: the lengths {found} differ", call.span, remedy)
    elif not (is_const(left) and is_const(right)):
        context.sizes.require(Constraint(left, right, cause, call.span, remedy, False, True))
    elif left.value < right.value:
        context.fail(OutOfRangeError, cause, call.span, remedy)
    return True


def _length(context: Context, side: AnyValue) -> Element | None:
    """A length, if a value is one: a whole number that depends on no element."""
    if isinstance(side, int):
        return integer(side)
    scalar = isinstance(side, Value) and not side.rank and side.dtype == "i64" and not side.element.axes
    return context.sizes.find(side.element) if scalar else None
