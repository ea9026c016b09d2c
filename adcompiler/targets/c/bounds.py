"""Upper bounds of lengths that a kernel computes, in terms of the lengths of its arrays.

The array of an iteration, such as `[x[j] for j in range(i)]`, has a length that changes from one iteration to
the next. Its memory is as large as the longest one needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from adcompiler.ir.types import Dtype
from adcompiler.lazy_dataclass import dataclass
from adcompiler.loopir.nodes import (
    Allocate,
    Assign,
    Binary,
    Break,
    Call,
    Choice,
    Compare,
    Expr,
    For,
    Function,
    If,
    Literal,
    Logical,
    Stmt,
    Unary,
    Var,
    While,
    literal,
    unsigned,
)
from adcompiler.loopir.walk import sets, statements

SAME = ("uint64", "np.int64", "int")  # functions that leave an integer what it is


class Interval(NamedTuple):
    """The least and the greatest value; None if it is unknown."""

    low: Expr | None
    high: Expr | None


UNKNOWN = Interval(None, None)


@dataclass(frozen=True)
class Allocation:
    """An array that a function allocates, and upper bounds of its lengths; None if there are none."""

    name: str
    dtype: Dtype
    shape: tuple[Expr | None, ...]


def allocations(function: Function, known: Collection[str]) -> list[Allocation]:
    """The arrays that a function allocates with lengths that are not constant, bounded by `known` variables,
    none of which is negative."""
    bounds = _Bounds(function, known)
    return [
        Allocation(s.name, s.dtype, tuple(bounds.of(n).high for n in s.shape))
        for s in statements(function.body)
        if isinstance(s, Allocate) and not all(isinstance(n, Literal) for n in s.shape)
    ]


class _Bounds:
    """Intervals of the expressions of a function."""

    def __init__(self, function: Function, known: Collection[str]) -> None:
        self.known = known
        self.settings: dict[str, list[Stmt]] = {}
        for s in statements(function.body):
            for name in sets(s):
                self.settings.setdefault(name, []).append(s)
        self.found: dict[str, Interval] = {}
        self.loops = [s for s in statements(function.body) if isinstance(s, While)]

    def variable(self, name: str) -> Interval:
        """A variable that is known, is assigned once, or counts the iterations of loops."""
        if name in self.known:
            return Interval(Var(name), Var(name))
        if name not in self.found:
            self.found[name] = UNKNOWN  # of one that depends on itself
            settings = self.settings.get(name, [])
            match settings:
                case [Assign(value=value)]:
                    self.found[name] = self.of(value)
                case [Assign(value=zero), Assign(value=Binary(op="+", left=Var(name=same))) as step] if (
                    zero == unsigned(literal(0)) and same == name
                ):
                    self.found[name] = Interval(literal(0), self.iterations(name, step))
                case [For(), *_] if all(isinstance(s, For) and s.step is None for s in settings):
                    self.found[name] = _either([self.axis(s) for s in settings if isinstance(s, For)])
        return self.found[name]

    def axis(self, loop: For) -> Interval:
        """The variable of a loop."""
        last = self.of(loop.stop).high
        return Interval(self.of(loop.start).low, None if last is None else Binary("-", last, literal(1)))

    def iterations(self, counter: str, step: Stmt) -> Expr | None:
        """The most iterations of a loop that counts them, and ends when its test fails. Of a loop with
        `break` the test is that the counter is less than a number, and more."""
        for loop in self.loops:
            if any(s is step for s in loop.body):
                tests = (s.test for s in loop.body if isinstance(s, If) and isinstance(s.body[0], Break))
                parts = (p for t in tests if isinstance(t, Unary) for p in self.conjuncts(t.operand))
                most = (p.right for p in parts if isinstance(p, Compare) and _is_below(p, counter))
                return next((_call("max", [self.of(n).high, literal(0)]) for n in most), None)
        return None

    def conjuncts(self, test: Expr) -> Iterator[Expr]:
        """The conditions of a conjunction, also of variables that are assigned once."""
        match test:
            case Binary(op="&", left=left, right=right):
                yield from self.conjuncts(left)
                yield from self.conjuncts(right)
            case Logical(op="and", args=args):
                for part in args:
                    yield from self.conjuncts(part)
            case Var(name=name) if len(self.settings.get(name, ())) == 1:
                (setting,) = self.settings[name]
                if isinstance(setting, Assign):
                    yield from self.conjuncts(setting.value)
            case _:
                yield test

    def of(self, e: Expr) -> Interval:
        """The interval of an integer."""
        match e:
            case Literal(value=value) if isinstance(value, int):
                return Interval(e, e)
            case Var(name=name):
                return self.variable(name)
            case Call(name=name, args=(x,)) if name in SAME:
                return self.of(x)
            case Call(name="max" | "min" as name, args=args):
                return self.extremum(name, [self.of(a) for a in args])
            case Call(name="select", args=(_, x, y)) | Choice(then=x, otherwise=y):
                return _either([self.of(x), self.of(y)])
            case Binary(op=op, left=left, right=right):
                return self.binary(op, self.of(left), self.of(right))
        return UNKNOWN

    def extremum(self, name: str, parts: Sequence[Interval]) -> Interval:
        """Of several numbers the least, or the greatest: one known bound is enough on one side."""
        lows, highs = [p.low for p in parts], [p.high for p in parts]
        if name == "max":
            return Interval(_call(name, lows, any_of=True), _call(name, highs))
        return Interval(_call(name, lows), _call(name, highs, any_of=True))

    def binary(self, op: str, x: Interval, y: Interval) -> Interval:
        """A sum, a difference, a product with a number that is not negative, or a quotient or remainder by a
        positive number."""
        match op, y.low:
            case "+", _:
                return Interval(_pair("+", x.low, y.low), _pair("+", x.high, y.high))
            case "-", _:
                return Interval(_pair("-", x.low, y.high), _pair("-", x.high, y.low))
            case "*", Literal(value=value) if y.low == y.high and value >= 0:
                return Interval(_pair("*", x.low, y.low), _pair("*", x.high, y.high))
            case "*", _ if isinstance(x.low, Literal) and x.low == x.high and x.low.value >= 0:
                return Interval(_pair("*", x.low, y.low), _pair("*", x.high, y.high))
            case "//", Literal(value=value) if y.low == y.high and value > 0:
                return Interval(_pair("//", x.low, y.low), _pair("//", x.high, y.high))
            case "%", Literal(value=value) if y.low == y.high and value > 0:
                return Interval(literal(0), literal(value - 1))
            case "%", Var(name=name) if y.low == y.high and name in self.known:
                return Interval(literal(0), Call("max", (Binary("-", Var(name), literal(1)), literal(0))))
        return UNKNOWN


def _is_below(test: Compare, counter: str) -> bool:
    """Whether a comparison is that a counter is less than something."""
    return test.op == "<" and test.left == Call("np.int64", (Var(counter),))


def _either(parts: Sequence[Interval]) -> Interval:
    """A number of one of several intervals."""
    return Interval(_call("min", [p.low for p in parts]), _call("max", [p.high for p in parts]))


def _call(name: str, parts: Sequence[Expr | None], any_of: bool = False) -> Expr | None:
    """The extremum of bounds; those that are unknown are left out if `any_of` the others is enough."""
    found = list(dict.fromkeys(p for p in parts if p is not None))
    if not found or (len(parts) != sum(p is not None for p in parts) and not any_of):
        return None
    return found[0] if len(found) == 1 else Call(name, tuple(found))


def _pair(op: str, x: Expr | None, y: Expr | None) -> Expr | None:
    return None if x is None or y is None else Binary(op, x, y)
