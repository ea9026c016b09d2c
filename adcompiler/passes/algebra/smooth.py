"""Smooth functions of kinks without the kinks: before differentiation, abs(x)**2 becomes x**2.

At a kink the derivative is 0 by convention, so the chain rule gives wrong higher derivatives to functions
that are smooth there. The form without kinks has the same value and its own derivatives, to every order:

- an even function of abs(x), of a product with it, or of an odd function of it, is that function of x;
- a power of a root is a power of what the root is taken of, if their exponents cancel: sqrt(s)**2 is s,
  norm(x)**4 is sum(x * x)**2, and hypot(x, y)**2 is x * x + y * y;
- abs(s), relu(s) and maximum(s, 0) are s where the form of s shows that it is not negative.

The square of a product with a root, (c * norm(x))**2, could overflow or underflow in parts. It stays as it
is, and only where the root is 0 it is c * sum(x * x) * c, which is 0 as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce as fold_left
from math import inf, nan
from typing import NamedTuple, TypeVar

from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Func,
    Map,
    Read,
    Reduce,
    Select,
    closed,
    const,
    is_const,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import DTYPES, is_float
from adcompiler.ir.walk import Rewriter, postorder, with_args
from adcompiler.ops.build import apply
from adcompiler.ops.parity import EVEN, ODD
from adcompiler.passes.algebra.square_roots import mean_square, scaled_mean_square
from adcompiler.passes.limits import MOST_FACTORS

MONOTONE = frozenset(("exp", "exp2", "abs", "square", "cosh", "hypot"))  # never negative, never -0.0
ROOTS = {"sqrt": 2.0, "cbrt": 3.0}
PRODUCTS = frozenset(("multiply", "divide"))
T = TypeVar("T")


def smooth(func: Func) -> Func:
    """The program with smooth functions of kinks written without the kinks."""
    return _Smooth().func(func)


def smoothed(results: Iterable[Array]) -> tuple[Array, ...]:
    """The same for arrays of a program that is being built."""
    return _Smooth().run(results)


class _Root(NamedTuple):
    """The root of an `order` of a smooth element."""

    of: Element
    order: float


class _Smooth(Rewriter):
    def __init__(self) -> None:
        super().__init__()
        self.signless: dict[Element, Element] = {}
        self.positive: dict[Element, bool] = {}
        self.squares: dict[Element, Element | None] = {}

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        return None if isinstance(loop, Ruled) else type(self)()

    def element(self, element: Element) -> Element:
        if not isinstance(element, Apply) or not is_float(element.dtype):
            return element
        match element:
            case Apply(op="square", args=(x,)):
                return self.power(x, 2.0) or element
            case Apply(op="power", args=(x, Const(value=exponent))):
                return self.power(x, float(exponent), True) or element
            case Apply(op="multiply", args=(x, y)):
                return (self.power(x, 2.0) if x is y else self.product(element)) or element
            case Apply(op="abs" | "relu", args=(x,)) if self.is_positive(x):
                return x
            case Apply(op="maximum", args=(x, y)):
                for value, bound in ((x, y), (y, x)):
                    if isinstance(bound, Const) and bound.value <= 0 and self.is_positive(value):
                        return value
            case Apply(op=op) if op in EVEN:
                return self.even(element)
        return element

    def even(self, element: Apply) -> Element:
        """An even function of arguments without signs."""
        found = with_args(element, tuple(map(self.without_sign, element.args)))
        if isinstance(found, Apply) and found.op == "abs" and self.is_positive(found.args[0]):
            return found.args[0]
        return found

    def power(self, x: Element, exponent: float, written: bool = False) -> Element | None:
        """A power without the kinks of its base; None if it has none that the power makes smooth. Squares of
        roots that may be NaN are rewritten only if they are `written` as powers: derivatives of roots are
        products."""
        changed = False
        while exponent:
            base = self.without_sign(x) if exponent % 2 == 0 else x
            changed, x = changed or base is not x, base
            root = self.root(x) or (self.real_root(x) if written else None)
            if root is not None and (exponent / root.order).is_integer():
                x, exponent, changed = root.of, exponent / root.order, True
            elif exponent % 2 == 0 and (square := self.square(x)) is not None:
                x, exponent, changed = square, exponent / 2, True
            else:
                break
        return _powered(x, exponent) if changed else None

    def squared(self, x: Element) -> Element:
        """A square without kinks that it makes smooth."""
        return self.power(x, 2.0) or _squared(x)

    # -- signs -------------------------------------------------------------------------------------------

    def without_sign(self, element: Element) -> Element:
        """An element of the same magnitude, without kinks that change the sign only."""

        def made(e: Element) -> Element:
            known = self.signless
            match e:
                case Apply(op="abs" | "negative" | "copysign", args=(x, *_)):
                    return known[x]
                case Apply(op="multiply", args=(Apply(op="sign", args=(x,)), y)) if x is y:
                    return known[x]
                case Apply(op="multiply", args=(x, Apply(op="sign", args=(y,)))) if x is y:
                    return known[x]
                case Apply(op="maximum" | "minimum", args=(x, y)) if _are_opposite(x, y):
                    return known[x]
                case Select(guard=guard, then=x, otherwise=y):
                    one, other = known[x], known[y]
                    return one if one is other else select(guard, one, other)
                case Read(array=Map(body=body) as array, args=places) if known[body] is not body:
                    return Read(closed(array.shape, known[body]), places)
            return with_args(e, tuple(known[a] for a in e.args)) if _signed_parts(e) == e.args else e

        return _computed(element, self.signless, _signed_parts, made)

    def is_positive(self, element: Element) -> bool:
        """Whether the form of an element shows that it is 0, not -0.0, or more, or NaN."""

        def shows(e: Element) -> bool:
            known = self.positive
            match e:
                case Const(value=value):
                    return not str(value).startswith("-")
                case Read(array=Map(body=body) | Reduce(op="sum" | "max" | "min" | "prod", body=body)):
                    return known[body]
                case Read(array=Ruled() as array):
                    return mean_square(array, e.args, _squared) is not None
                case Select(then=x, otherwise=y):
                    return known[x] and known[y]
                case Apply(op="power", args=(x, Const(value=k))):
                    return known[x] or k % 2 == 0
                case Apply(op="multiply", args=(x, y)):
                    return x is y or (known[x] and known[y])
                case Apply(op="add" | "divide" | "sqrt"):
                    return all(known[a] for a in e.args)
                case Apply(op=op):
                    return op in MONOTONE
            return False

        return _computed(element, self.positive, _summed_parts, shows)

    # -- roots -------------------------------------------------------------------------------------------

    def root(self, element: Element) -> _Root | None:
        """An element as a root, which does not depend on how it is computed."""
        match element:
            case Apply(op="sqrt" | "cbrt" as op, args=(x,)) if op == "cbrt" or self.is_positive(x):
                return _Root(x, ROOTS[op])
            case Apply(op="power", args=(x, Const(value=exponent))) if 0 < exponent < 1:
                return _Root(x, 1 / float(exponent)) if self.is_positive(x) else None
            case Apply(op="hypot", args=(x, y)):
                return _Root(self.sum_of_squares(x, y), 2.0)
            case Read(array=Ruled() as array):
                total = mean_square(array, element.args, self.squared)
                return None if total is None else _Root(total, 2.0)
            case Read(array=Map(body=body) as array, args=places) if (found := self.root(body)) is not None:
                return _Root(Read(closed(array.shape, found.of), places), found.order)
            case Select():
                total = scaled_mean_square(element)
                return self.guarded(element) if total is None else _Root(total, 2.0)
        return None

    def guarded(self, element: Select) -> _Root | None:
        """The root of `where(s == 0, 0, where(s == 0, 1, s)**p)`, which is a power of s."""
        match element:
            case Select(guard=Apply(op="equal", args=(s, zero)) as guard, then=then, otherwise=otherwise):
                match otherwise:
                    case Apply(op="power", args=(Select(guard=same, otherwise=x), Const(value=exponent))):
                        is_power = same is guard and x is s and is_const(zero, 0) and is_const(then, 0)
                        if is_power and 0 < exponent < 1 and self.is_positive(s):
                            return _Root(s, 1 / float(exponent))
        return None

    def real_root(self, element: Element) -> _Root | None:
        """A square root of what may be negative, which is NaN then."""
        match element:
            case Apply(op="sqrt", args=(x,)) | Apply(op="power", args=(x, Const(value=0.5))):
                valid = apply("greater_equal", x, const(0, x.dtype))
                factor = select(valid, const(1, x.dtype), const(nan, x.dtype))
                return _Root(apply("multiply", x, factor), 2.0)
        return None

    def sum_of_squares(self, x: Element, y: Element) -> Element:
        """The square of hypot(x, y), which is infinite if either is, whatever the other one is."""
        pair = tuple(map(self.without_sign, (x, y)))
        squares = []
        for one, other in (pair, pair[::-1]):
            infinite = apply("equal", apply("abs", other), const(inf, other.dtype))
            ignored = apply("logical_and", apply("not_equal", one, one), infinite)
            squares.append(select(ignored, const(0, one.dtype), self.squared(one)))
        return apply("add", *squares)

    def square(self, element: Element) -> Element | None:
        """The square of an element with roots, without their kinks; None if it has none."""

        def made(e: Element) -> Element | None:
            root = self.root(e)
            if root is not None and root.order == 2:
                return root.of
            known = self.squares
            match e:
                case Apply(op="multiply", args=(x, y)):
                    for one, other in ((x, y), (y, x)):
                        if (found := known[one]) is not None:
                            if (rest := known[other]) is not None:
                                return _at_zeros((x, y), _times(found, rest), _squared(e))
                            return _at_zeros((one,), _times(_times(other, found), other), _squared(e))
                case Apply(op="divide", args=(x, y)) if (found := known[x]) is not None:
                    return _at_zeros((x,), apply("divide", apply("divide", found, y), y), _squared(e))
                case Apply(op="subtract", args=(x, y)):
                    if (found := known[x]) is not None and _is_zero_or_nan(y):
                        return apply("subtract", found, y)  # NaN for the mean of nothing
                case Select(guard=guard, then=x, otherwise=y):
                    if known[x] is not None or known[y] is not None:
                        return select(guard, known[x] or _squared(x), known[y] or _squared(y))
                case Read(array=Map(body=body) as array, args=places) if (found := known[body]) is not None:
                    return Read(closed(array.shape, found), places)
            return None

        return _computed(element, self.squares, _rooted_parts, made)

    def product(self, element: Apply) -> Element | None:
        """A product with two equal kinks among its factors, x * abs(y) * abs(y), without them."""
        factors = _factors(element)
        if len(factors) < 3:
            return None
        for k, factor in enumerate(factors):
            again = next((n for n in range(k + 1, len(factors)) if factors[n] is factor), None)
            if again is None:
                continue
            rest = [f for n, f in enumerate(factors) if n not in (k, again)]
            plain = self.without_sign(factor)
            if plain is not factor and self.square(plain) is None:
                return fold_left(_times, (plain if f is factor else f for f in factors))
            if (found := self.square(plain)) is not None:
                return _at_zeros((factor,), fold_left(_times, (*rest, found)), element)
        return None


# -- elements --------------------------------------------------------------------------------------------


def _computed(
    element: Element, known: dict[Element, T], parts: Callable[[Element], Iterable[Element]],
    made: Callable[[Element], T],
) -> T:  # fmt: skip
    """What is `made` of an element, after what is made of its parts; all are `known` then."""
    for e in postorder((element,), lambda e: () if e in known else parts(e)):
        if e not in known:
            known[e] = made(e)
    return known[element]


def _signed_parts(element: Element) -> Iterable[Element]:
    """The elements whose sign decides that of an element, and nothing else about it."""
    match element:
        case Apply(op="copysign", args=(x, _)):
            return (x,)
        case Apply(op="abs" | "multiply" | "divide", args=args):
            return args
        case Apply(op="maximum" | "minimum", args=(x, y)) if _are_opposite(x, y):
            return (x,)
        case Apply(op="power", args=(_, Const(value=exponent))) if exponent % 2 == 1:
            return element.args
        case Apply(op=op, args=args) if op in ODD or (op in DTYPES and is_float(args[0].dtype)):
            return args
        case Select(then=x, otherwise=y):
            return x, y
        case Read(array=Map(body=body)):
            return (body,)
    return ()


def _summed_parts(element: Element) -> Iterable[Element]:
    """The elements that decide whether an element is negative."""
    match element:
        case Read(array=Map(body=body) | Reduce(body=body)):
            return (body,)
        case Select(then=x, otherwise=y):
            return x, y
        case Apply(op="add" | "multiply" | "divide" | "sqrt" | "power", args=args):
            return args
    return ()


def _rooted_parts(element: Element) -> Iterable[Element]:
    """The elements whose squares give that of an element."""
    match element:
        case Apply(op=op, args=args) if op in PRODUCTS or op == "subtract":
            return args
        case Select(then=x, otherwise=y):
            return x, y
        case Read(array=Map(body=body)):
            return (body,)
    return ()


def _are_opposite(x: Element, y: Element) -> bool:
    """Whether one element is written as the negative of the other."""
    return any(isinstance(a, Apply) and a.op == "negative" and a.args[0] is b for a, b in ((x, y), (y, x)))


def _is_zero_or_nan(element: Element) -> bool:
    """Whether an element is written as 0 over a number."""
    while isinstance(element, Apply) and element.op in DTYPES:
        (element,) = element.args
    return isinstance(element, Apply) and element.op == "divide" and is_const(element.args[0], 0)


def _factors(product: Element) -> list[Element]:
    """The factors of a product in order; none if they are many, as those of a power by repeated squares."""
    found: list[Element] = []
    work = [product]
    while work and len(found) + len(work) <= MOST_FACTORS:
        element = work.pop()
        if isinstance(element, Apply) and element.op == "multiply":
            work += reversed(element.args)
        else:
            found.append(element)
    return [] if work else found


def _at_zeros(roots: Iterable[Element], plain: Element, element: Element) -> Element:
    """An element, or where one of the roots in it is 0, the same without roots."""
    zeros = (apply("equal", r, const(0, r.dtype)) for r in roots)
    return select(fold_left(lambda a, b: apply("logical_or", a, b), zeros), plain, element)


def _times(x: Element, y: Element) -> Element:
    return apply("multiply", x, y)


def _squared(x: Element) -> Element:
    return apply("multiply", x, x)


def _powered(x: Element, exponent: float) -> Element:
    """A power with a constant exponent."""
    if exponent == 1:
        return x
    return _squared(x) if exponent == 2 else apply("power", x, const(exponent, x.dtype))
