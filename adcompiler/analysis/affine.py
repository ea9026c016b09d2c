"""Affine forms: integers as sums of atoms times constants, such as `i + 2 * n - 1`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from adcompiler.analysis.limits import MOST_TERMS
from adcompiler.ir.nodes import Apply, Const, Element, Index, Size, const, is_const
from adcompiler.ir.walk import elements_of
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply

Atom = Element | None  # None stands for 1


@dataclass(frozen=True, slots=True)
class Linear:
    """The sum of `terms`, each an atom times an integer."""

    terms: Mapping[Atom, int]

    def __add__(self, other: Linear) -> Linear:
        terms = dict(self.terms)
        for atom, factor in other.terms.items():
            terms[atom] = terms.get(atom, 0) + factor
        return Linear({atom: factor for atom, factor in terms.items() if factor})

    def __sub__(self, other: Linear) -> Linear:
        return self + other * -1

    def __mul__(self, factor: int) -> Linear:
        return Linear({a: f * factor for a, f in self.terms.items()} if factor else {})

    @property
    def atoms(self) -> list[Element]:
        """The atoms other than 1."""
        return [a for a in self.terms if a is not None]

    @property
    def constant(self) -> int | None:
        """The value of a form without atoms."""
        return None if set(self.terms) - {None} else self.terms.get(None, 0)

    @property
    def axes(self) -> frozenset[int]:
        """The axes that the form depends on."""
        return frozenset(k for a in self.atoms for k in a.axes)

    def element(self) -> Element:
        """The form as an element: axes first, then sizes, then the constant."""
        order = sorted(
            self.atoms,
            key=lambda a: (not a.axes, min(a.axes, default=0), a.number if isinstance(a, Size) else -1),
        )
        parts: list[tuple[Element, int]] = [(a, self.terms[a]) for a in order]
        if None in self.terms or not parts:
            parts.append((const(1, "i64"), self.terms.get(None, 0)))
        parts.sort(key=lambda part: part[1] < 0)  # subtracted terms come last
        return reduce(_plus, parts[1:], _scaled(*parts[0]))


def _scaled(atom: Element, factor: int) -> Element:
    if is_const(atom):
        return const(factor, "i64")
    return atom if factor == 1 else apply("multiply", const(factor, "i64"), atom)


def _plus(total: Element, part: tuple[Element, int]) -> Element:
    atom, factor = part
    if factor < 0:
        return apply("subtract", total, _scaled(atom, -factor))
    return apply("add", total, _scaled(atom, factor))


def linear_constant(value: int) -> Linear:
    """A constant."""
    return Linear({None: value} if value else {})


def linear(element: Element) -> Linear:
    """An int64 element as a sum; an element that is not a sum is an atom."""
    stack: list[tuple[Element, int]] = [(element, 1)]
    terms: dict[Atom, int] = {}
    while stack:
        e, factor = stack.pop()
        match e:
            case Const():
                terms[None] = terms.get(None, 0) + factor * int(e.value)
            case Apply(op="add", args=(x, y)):
                stack += (x, factor), (y, factor)
            case Apply(op="subtract", args=(x, y)):
                stack += (x, factor), (y, -factor)
            case Apply(op="negative", args=(x,)):
                stack.append((x, -factor))
            case Apply(op="multiply", args=(Const() as c, x)) | Apply(op="multiply", args=(x, Const() as c)):
                stack.append((x, factor * int(c.value)))
            case _:
                terms[e] = terms.get(e, 0) + factor
        if len(terms) > MOST_TERMS:
            return Linear({element: 1})
    return Linear({a: f for a, f in terms.items() if f})


def differ(x: Element, y: Element) -> bool:
    """Whether two integers differ by a constant, such as i and i + 1."""
    return bool((linear(x) - linear(y)).constant)


def shifted(element: Element) -> tuple[Element | None, int]:
    """An integer as a variable part and a constant that is added to it."""
    match element:
        case Const(value=value):
            return None, int(value)
        case Apply(op="add", args=(x, Const(value=value))) | Apply(op="add", args=(Const(value=value), x)):
            return x, int(value)
        case Apply(op="subtract", args=(x, Const(value=value))):
            return x, -int(value)
    return element, 0


def _is_kept(atom: Element) -> bool:
    """Whether an atom is an index, or a quotient that strips of iterations keep: the number by which they
    divide is a length."""
    return isinstance(atom, Index) or (
        isinstance(atom, Apply) and atom.op == "floor_divide" and not isinstance(atom.args[1], Const)
    )


def is_counter(element: Element) -> bool:
    """Whether loops count a number from iteration to iteration: it follows from indices and lengths, with
    quotients and remainders of affine forms by the same number everywhere, and of such quotients."""
    if element.dtype != "i64" or not element.axes:
        return False
    for e in elements_of((element,)):
        match e:
            case Apply(op="floor_divide" | "remainder", args=(x, y)):
                if y.axes or not all(_is_kept(a) for a in linear(x).atoms if a.axes):
                    return False
            case Apply(op="add" | "subtract" | "multiply" | "negative") | Index() | Size() | Const():
                continue
            case Apply(op="maximum") if not e.axes:
                continue
            case _:
                return False
    return True
