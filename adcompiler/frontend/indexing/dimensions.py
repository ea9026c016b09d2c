"""Lengths in annotations: names, numbers, and sums and products of them, as in `f64[n + 1, 2 * m]`.

Names that occur alone are bound first. Then a length with one unknown name is solved for it, and a length
without unknown names is an equality that each call must satisfy.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, NoReturn

from adcompiler.errors import ParseError, ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.values.open_axes import ZERO
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import combine
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.ir.nodes import Element, const, is_const
from adcompiler.ir.walk import postorder
from adcompiler.lazy_dataclass import dataclass

FIT = "pass arrays that match the annotations"
WRITE = "write f64[n, 3], or f64[n + 1, 2 * m]"
CONSTANTS = " "  # the key of the names of a text's constants in a scope; no variable can have this name
OPERATIONS = {"+": "add", "-": "subtract", "*": "multiply", "//": "floor_divide"}


@dataclass(frozen=True, slots=True)
class Axis:
    """One annotated axis: a description, its length, and its annotation."""

    what: str
    length: Element
    given: tree.Expression


def names_in(annotation: tree.Expression | None) -> Iterator[str]:
    """The names of lengths in an annotation."""
    if isinstance(annotation, tree.Subscript):
        nodes = postorder(list[tree.Tree](annotation.indices), tree.children)
        yield from (node.id for node in nodes if isinstance(node, tree.Name))


class Dimensions:
    """The lengths named by the annotations of one call. `around` is the scope of the definition: its
    constants are lengths too, unless a parameter (in `own`) has the same name."""

    def __init__(
        self, context: Context, named: dict[str, Element], around: Mapping[str, Any], own: Container[str]
    ) -> None:
        self.context, self.named = context, named
        constants = {name: around.get(name) for name in around.get(CONSTANTS, ()) if name not in own}
        self.around = {name: n for name, n in constants.items() if type(n) is int and n >= 0}
        self.later: list[Axis] = []

    def take(self, axis: Axis) -> None:
        """Name or check one length, or defer it until its names are known."""
        match axis.given:
            case tree.Slice(start=None, stop=None, step=None):
                pass  # any length, as in f64[:, 3]
            case tree.Name(id=name) if name not in self.around:
                self.equal(axis, self.named.setdefault(name, axis.length))
            case tree.Name() | tree.Number():
                self.equal(axis, self.value(axis.given))
            case _:
                self.check(axis.given)
                self.later.append(axis)

    def check(self, given: tree.Expression) -> None:
        """Require that an annotation consists of names, integers, and operations on them."""
        for node in postorder(list[tree.Tree]([given]), tree.children):
            match node:
                case tree.Binary(op=op) if op in OPERATIONS:
                    pass
                case tree.Name() | tree.Number(value=int()):
                    pass
                case _:
                    cause = "a size is a name, a number, or a sum or product of sizes"
                    self.context.fail(ParseError, cause, node.span, WRITE)

    def settle(self) -> None:
        """Solve for the names that occur only in sums and products, and check the others."""
        while self.later:
            known = [axis for axis in self.later if len(self.unknown(axis.given)) <= 1]
            if not known:
                self.unsolved(self.later[0].given)
            axis = min(known, key=lambda a: len(self.unknown(a.given)))
            self.later.remove(axis)
            for name in self.unknown(axis.given):
                self.named[name] = self.solved(axis.given, axis.length, axis.given)
                self.at_least(axis, self.named[name], name)
            self.equal(axis, self.value(axis.given))

    def unknown(self, given: tree.Expression) -> list[str]:
        """The names in an annotation that have no length yet, once per occurrence."""
        nodes = postorder(list[tree.Tree]([given]), tree.children)
        names = [node.id for node in nodes if isinstance(node, tree.Name)]
        return [name for name in names if name not in self.named and name not in self.around]

    def value(self, given: tree.Expression) -> Element:
        """The length given by an annotation with known names."""
        match given:
            case tree.Name(id=name) if name in self.around:
                return const(self.around[name], "i64")
            case tree.Name(id=name):
                return self.named[name]
            case tree.Number(value=int(number)) if number >= 0:
                return const(number, "i64")
            case tree.Binary(op=op, left=left, right=right) if op in OPERATIONS:
                return combine(OPERATIONS[op], self.value(left), self.value(right))
        self.context.fail(ParseError, "a size is a name or a number", given.span, WRITE)

    def solved(self, given: tree.Expression, length: Element, whole: tree.Expression) -> Element:
        """The value of the one unknown name in an annotation."""
        match given:
            case tree.Name():
                return length
            case tree.Binary(op="+" | "*" as op, left=left, right=right):
                one, other = (left, right) if self.unknown(left) else (right, left)
                inverse = "subtract" if op == "+" else "floor_divide"
                return self.solved(one, combine(inverse, length, self.value(other)), whole)
            case tree.Binary(op="-", left=left, right=right) if self.unknown(left):
                return self.solved(left, combine("add", length, self.value(right)), whole)
            case tree.Binary(op="-", left=left, right=right):
                return self.solved(right, combine("subtract", self.value(left), length), whole)
        self.unsolved(whole)

    def unsolved(self, given: tree.Expression) -> NoReturn:
        """An annotation that does not determine its names."""
        names = " and ".join(dict.fromkeys(self.unknown(given)))
        remedy = "use it alone on another axis, or give this length another name"
        self.context.fail(ParseError, f"{names} cannot follow from this length alone", given.span, remedy)

    # -- requirements on calls ---------------------------------------------------------------------

    def equal(self, axis: Axis, wanted: Element) -> None:
        """Require that an axis has the annotated length."""
        sizes, span = self.context.sizes, axis.given.span
        what = f"{axis.what}, annotated {text_of(axis.given)}"
        if is_const(wanted) and is_const(length := sizes.find(axis.length)) and wanted.value != length.value:
            self.differ(what, wanted, length, span)
        if sizes.define(axis.length, wanted, what, span, FIT):
            return
        if not sizes.merge(wanted, axis.length, what, span, FIT):
            self.differ(what, wanted, axis.length, span)

    def differ(self, what: str, one: Element, other: Element, span: Span) -> None:
        """Refuse two lengths that differ."""
        lengths = f"{self.context.sizes.describe(one)} and {self.context.sizes.describe(other)}"
        self.context.fail(ShapeError, f"{what}: the lengths {lengths} differ", span, FIT)

    def at_least(self, axis: Axis, size: Element, name: str) -> None:
        """Require that a solved name is not negative."""
        what = f"{axis.what}, annotated {text_of(axis.given)}: {name}"
        constraints = self.context.sizes.constraints
        constraints.append(Constraint(size, ZERO, what, axis.given.span, FIT, False, True))


def text_of(given: tree.Expression) -> str:
    """An annotated length as text."""
    match given:
        case tree.Name(id=name):
            return name
        case tree.Number(value=number):
            return str(number)
        case tree.Binary(op=op, left=left, right=right):
            return f"{_operand(left, op)} {op} {_operand(right, op)}"
    return "..."


def _operand(given: tree.Expression, op: str) -> str:
    loose = isinstance(given, tree.Binary) and given.op in "+-" and op not in "+"
    return f"({text_of(given)})" if loose else text_of(given)
