"""Operations on values: promotion, broadcasting and reduction, as defined by NumPy 2."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn, Protocol

import numpy as np

from adcompiler.analysis.affine import linear
from adcompiler.errors import DtypeError, Error, LimitError, OutOfRangeError, ShapeError, Source, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.limits import INTEGER_BITS, MOST_AXES
from adcompiler.frontend.values.aliases import Aliases
from adcompiler.frontend.values.blame import Blame
from adcompiler.frontend.values.integer_widths import are_single
from adcompiler.frontend.values.open_axes import ZERO, Binders
from adcompiler.frontend.values.sizes import Sizes, unit
from adcompiler.frontend.values.unmasked import has_selection, unmasked
from adcompiler.frontend.values.values import (
    PARTS,
    AnyValue,
    Frame,
    Unset,
    Value,
    as_array,
    describe,
    instead_of,
    is_number,
    plain,
)
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Const,
    Element,
    Index,
    Node,
    Read,
    Reduce,
    Shape,
    closed,
    const,
    select,
)
from adcompiler.ir.origins import Origin, Within, tracked
from adcompiler.ir.types import Dtype, as_float, is_float, promote
from adcompiler.ir.walk import elements_of, is_computed, read_by, substitute
from adcompiler.ops.build import apply, cast, order_of, result_dtype
from adcompiler.ops.table import TABLE
from adcompiler.pytree.containers import Container

# -- powers ------------------------------------------------------------------------------------------
# Powers of integers: a negative exponent has no integer result.


CAUSE = "an integer to a negative integer power"
REMEDY = "powers of integers are integers, as in NumPy: use a float base, as in 2.0 ** k"


class Calculus(Protocol):
    """Derivatives of arrays, program to program."""

    def along(self, result: Array, tangents: Mapping[Array, Array], order: int) -> Array | None:
        """The derivative of `order` along fixed tangents of some arrays; None if it is zero."""

    def pull(self, result: Array, cotangent: Array, wanted: Sequence[Array]) -> list[Array | None]:
        """The cotangents of `wanted`; None for zeros."""

    def pointwise(self, result: Array, argument: Array) -> bool:
        """Whether each entry of `result` depends on at most one entry of `argument`."""


def exponent(binders: Binders, base: AnyValue, given: AnyValue, span: Span) -> AnyValue:
    """The exponent of an integer power: a float if it is a negative constant, so that the result is one, as
    in Python. If it is known only at the call, it is proved or checked to be nonnegative, except for bases 1
    and -1."""
    known = constant(given)
    if known is not None:
        return float(known) if known < 0 else given
    assert isinstance(given, Value)
    element = given.element
    if given.dtype == "bool":
        return given
    if constant(base) in (1, -1):
        return Value(given.shape, apply("bitwise_and", element, ONE), given.weak)
    proved = binders.sure(linear(element), given.shape)
    if not proved:
        binders.check(apply("less_equal", ZERO, element), given.shape, CAUSE, REMEDY, span)
    if proved and not binders.path:
        return given
    return Value(
        given.shape, apply("maximum", element, ZERO), given.weak
    )  # the untaken side is computed, too


def constant(value: AnyValue) -> int | None:
    """The integer that a value is known to be."""
    if isinstance(value, Value):
        return int(value.element.value) if isinstance(value.element, Const) else None
    return int(value)


# -- narrow ------------------------------------------------------------------------------------------
# Slices of length 1 by construction, such as `x[:1]` and `x[i : i + 1]`, broadcast.
#
# Such a slice keeps its length, which is 0 if the array ends before it, until it is combined with a longer
# axis: it is then an axis of length 1, and the array's length is checked once per call.


EMPTY = "a slice of length 1 is outside its array"
INSIDE = "it must be inside the axis: an empty slice does not broadcast"


def narrowed(sizes: Sizes, binders: Binders, args: Sequence[AnyValue], span: Span) -> Sequence[AnyValue]:
    """Operands whose axes of at most one element have length 1 where another operand's may be longer."""
    if not sizes.single:
        return args
    found = list(args)
    for k in range(max((v.rank for v in args if isinstance(v, Value)), default=0)):
        facing = [(n, a.rank - 1 - k) for n, a in enumerate(args) if isinstance(a, Value) and a.rank > k]
        lengths = {(n, axis): sizes.find(args[n].shape[axis]) for n, axis in facing}
        longer = [m for m in lengths.values() if not unit(m) and m not in sizes.single]
        for (n, axis), length in lengths.items():
            if longer and length in sizes.single:
                _demand(sizes, binders, length, longer[0], span)
                found[n] = _first_along(found[n], axis)
    return found


def _first_along(value: Value, axis: int) -> Value:
    """A value with one axis reduced to length 1."""
    shape = (*value.shape[:axis], ONE, *value.shape[axis + 1 :])
    return Value(shape, substitute(value.element, {axis: ZERO}), value.weak)


def _demand(sizes: Sizes, binders: Binders, length: Element, longer: Element, span: Span) -> None:
    """Require that a slice is not empty, unless the axis it broadcasts to is."""
    if binders.around or is_computed(longer):
        holds = apply("logical_or", apply("less_equal", ONE, length), apply("less_equal", longer, ZERO))
        binders.check(holds, (), EMPTY, INSIDE, span)
    else:
        sizes.demand(length, ONE, "a slice of length 1", span, longer)


ONE = const(1, "i64")
NOTHING: Mapping[str, AnyValue] = MappingProxyType({})
OF_TRUTH = {
    "add": "logical_or", "multiply": "logical_and", "maximum": "logical_or", "minimum": "logical_and",
    "fmax": "logical_or", "fmin": "logical_and", "bitwise_or": "logical_or", "bitwise_and": "logical_and",
    "bitwise_xor": "logical_xor", "invert": "logical_not",
}  # fmt: skip
UNCHANGED = ("abs", "floor", "ceil", "trunc")  # identity on booleans
INTEGERS_ONLY = {
    "bitwise_and": "use `and` for conditions",
    "bitwise_or": "use `or` for conditions",
    "bitwise_xor": "write ** for powers",
    "invert": "use `not` for conditions",
    "left_shift": "multiply by a power of 2",
    "right_shift": "divide by a power of 2",
}


class Context:
    """The state of one lowering, and the operations on values."""

    def __init__(self, source: Source | None, calculus: Calculus | None = None) -> None:
        self.source, self.calculus = source, calculus
        self.own_source = source  # of the program; `source` is that of the definition being lowered
        self.blame = Blame()
        self.binders = Binders(self.blame)
        self.sizes = Sizes(self.binders.check, self.blame)
        self.names: dict[Node, str] = {}
        self.spans: dict[Node, Span] = {}
        self.widths: dict[Array, np.dtype | None] = {}  # of arguments that are integers
        self.aliases = Aliases(self)
        self.stores = True  # whether the value of a name is an array of its own
        self.frame = Frame(NOTHING)  # of the current call
        self.body: tuple[tree.Tree, ...] = ()  # the parameters and statements of the current definition
        self.within: tuple[Within, ...] = ()  # the enclosing loops and calls
        self.returned: list[Any] = []  # the ranks of the values returned by the current loop
        self.repeated: set[tree.Expression] = set()  # repeated list displays (`sequences.py`)

    def fail(self, kind: type[Error], cause: str, span: Span | None, remedy: str | None = None) -> NoReturn:
        """Raise an error that points at `span`."""
        cause, span = self.blame.cause(cause), self.blame.place(span)
        raise kind(cause, remedy=remedy, source=self.source, span=span)

    def expression(self, root: tree.Expression, scope: dict[str, AnyValue]) -> AnyValue:
        """The value of an expression."""
        raise NotImplementedError

    def invoke(
        self, function: AnyValue, args: list[Any], keywords: Mapping[str, Any], span: Span
    ) -> AnyValue:
        """The value of a function on these arguments."""
        raise NotImplementedError

    def composed(
        self, definition: tree.Def, scope: dict[str, AnyValue], span: Span, rule: tree.Def | None = None
    ) -> AnyValue:
        """The value of a definition of the prelude, whose arguments are in its scope; `rule` has its
        cotangents."""
        raise NotImplementedError

    def bound(self, span: Span, given: Mapping[str, AnyValue] = NOTHING) -> None:
        """A hook that runs when a builtin has bound its arguments."""

    def ranked(self, shape: Shape, span: Span) -> Shape:
        """A shape, checked against the maximum rank."""
        if len(shape) > MOST_AXES:
            self.fail(LimitError, f"an array of rank {len(shape)}", span, f"use at most {MOST_AXES} axes")
        return shape

    def place(self, node: Node, span: Span) -> None:
        """Record where a node comes from; while explaining a program, also where its operands do."""
        span = self.blame.place(span)
        self.spans.setdefault(node, span)
        if self.source is not None and (table := tracked()) is not None:
            table.cover((node,), Origin(self.source, span, self.within))

    # -- elementwise ---------------------------------------------------------------------------

    def elementwise(self, op: str, args: Sequence[AnyValue], span: Span) -> AnyValue:
        """The primitive `op` at each point of the broadcast shape; constants fold."""
        args = [as_array(arg) for arg in args]
        if has_selection(args):
            one, args = unmasked(self, args, span)
            return replace(one, value=self.elementwise(op, args, span))
        for arg in args:
            if not (isinstance(arg, Value) or is_number(arg)):
                remedy = instead_of(arg, PARTS if isinstance(arg, tuple | Container) else None)
                self.fail(DtypeError, f"{op} takes numbers and arrays, not {describe(arg)}", span, remedy)
        if TABLE[op].orders is not None:
            args = (self.order(op, args[0], span), *args[1:])
        args = narrowed(self.sizes, self.binders, args, span)
        common, weak = self.meet(args)
        if op == "reciprocal" and not is_float(common):
            self.fail(
                DtypeError, f"{op} of {common}, which NumPy rounds down", span, "write 1 / x, or 1 // x"
            )
        if not any(isinstance(arg, Value) for arg in args):
            return self.fold(op, args, span)
        if op == "power" and common in ("i64", "bool"):
            args = (args[0], exponent(self.binders, args[0], args[1], span))
            common, weak = self.meet(args)
        if TABLE[op].kind == "integer" and common not in ("i64", "bool"):
            self.fail(DtypeError, f"{op} takes integers, not {common}", span, INTEGERS_ONLY.get(op))
        if common == "bool":
            if op in UNCHANGED:
                return args[0]
            op = self.of_truth(op, span)
        operand, result = result_dtype(op, (common,) * len(args))
        shape = self.broadcast(op, args, span)
        element = Apply(op, tuple(over(a, shape, operand) for a in args), result)
        self.place(element, span)
        return Value(shape, element, weak)

    def order(self, op: str, value: AnyValue, span: Span) -> int:
        """The first argument of a function with an order: a number known at compile time."""
        known = value.element if isinstance(value, Value) else None
        found = order_of(op, known.value if isinstance(known, Const) else value)
        if found is None:
            given = describe(value) if isinstance(value, Value) else f"{value}"
            orders = TABLE[op].orders or range(0)
            self.fail(
                DtypeError,
                f"the order of {op} cannot be {given}",
                span,
                f"write an integer from {orders[0]} to {orders[-1]}, or make it a static parameter",
            )
        return found

    def of_truth(self, op: str, span: Span) -> str:
        """The operation on booleans: as in NumPy, + is `or`, * is `and`, and there is no -."""
        if op in ("subtract", "negative", "sign"):
            self.fail(DtypeError, f"{op} of booleans", span, "write 1 * x to count, or `not x`")
        return OF_TRUTH.get(op, op)

    def meet(self, args: Sequence[AnyValue]) -> tuple[Dtype, bool]:
        """The common type of values, and whether it is weak: Python numbers yield to arrays."""
        strong = [a.dtype for a in args if isinstance(a, Value) and not a.weak]
        weak = [_weak_dtype(a) for a in args if not isinstance(a, Value) or a.weak]
        if not strong:
            return promote(*weak), True
        if {"i64", "f32"} == {*strong} - {"bool"}:
            integers = [a.element for a in args if isinstance(a, Value) and not a.weak and a.dtype == "i64"]
            strong = ["f32"] if are_single(integers, self.widths) else strong
        common = promote(*strong)
        for dtype in weak:
            if dtype == "f64":
                common = as_float(common)
            elif common == "bool":
                common = promote(common, dtype)
        return common, False

    def broadcast(self, what: str, args: Sequence[AnyValue], span: Span | None) -> Shape:
        """The common shape by NumPy's rule."""
        values = [a for a in args if isinstance(a, Value) and a.rank]
        rank = max((v.rank for v in values), default=0)
        return tuple(self.axis(what, values, rank, k, span) for k in range(rank))

    def axis(self, what: str, values: Sequence[Value], rank: int, k: int, span: Span | None) -> Element:
        """The length of axis `k` of the broadcast of `values`."""
        chosen: Element | None = None
        for value in values:
            size = value.shape[k - rank + value.rank] if k >= rank - value.rank else ONE
            if unit(self.sizes.find(size)):
                continue
            if chosen is None:
                chosen = size
            elif not self.sizes.merge(chosen, size, f"{what}: axis {k - rank} of its operands", span):
                self.fail(
                    ShapeError,
                    f"{what}: axis {k - rank} of {self.operands(values)} has the lengths "
                    f"{self.sizes.describe(chosen)} and {self.sizes.describe(size)}",
                    span,
                    "lengths must be equal or 1",
                )
            elif self.sizes.find(size) in elements_of(self.sizes.found((chosen,))):
                chosen = size  # rather than a length computed from it: loops over equal lengths are one
        return ONE if chosen is None else self.sizes.find(chosen)

    def operands(self, values: Sequence[Value]) -> str:
        """A description of operands, by the names in them."""
        return " and ".join(self.operand(v) for v in values)

    def operand(self, value: Value) -> str:
        """A description of an operand."""
        read = read_by((value.element,))
        names = [self.names[a] for a in read if a in self.names]
        whole_array = isinstance(value.element, Read) and names
        made = (
            names[0] if whole_array else f"an operand made of {', '.join(names)}" if names else "an operand"
        )
        return f"{made} (rank {value.rank})"

    def fold(self, op: str, args: Sequence[AnyValue], span: Span) -> AnyValue:
        """The primitive on constants: integers exactly, floats in float64 by the reference."""
        if all(isinstance(a, int) for a in args) and TABLE[op].kind in ("arithmetic", "integer"):
            exact = _exact(op, [int(a) for a in args])
            if exact is not None:
                return exact
        if op == "divide" and all(isinstance(a, int) for a in args) and args[1]:
            return _quotient(args[0], args[1])
        if TABLE[op].kind == "integer":
            if not all(isinstance(a, int) for a in args):
                self.fail(DtypeError, f"{op} takes integers", span, INTEGERS_ONLY.get(op))
            self.fail(LimitError, f"{op}: the constant does not fit", span)
        whole = TABLE[op].kind == "arithmetic" and op != "power" and all(_fits(a) for a in args)
        with np.errstate(all="ignore"):
            result = TABLE[op].numpy(*(np.int64(a) if whole else np.float64(_float(a)) for a in args))
        if TABLE[op].kind in ("bool", "logical"):
            return bool(result)
        return int(result) if whole else float(result)

    def where(self, guard: AnyValue, then: AnyValue, otherwise: AnyValue, span: Span) -> AnyValue:
        """`then` where `guard` holds; the other side has no effect."""
        guard, then, otherwise = as_array(guard), as_array(then), as_array(otherwise)
        if has_selection(parts := (guard, then, otherwise)):
            one, (guard, then, otherwise) = unmasked(self, parts, span)
            return replace(one, value=self.where(guard, then, otherwise, span))
        for part in parts:
            if not (isinstance(part, Value) or is_number(part)):
                self.fail(DtypeError, f"where takes numbers and arrays, not {describe(part)}", span)
        guard, then, otherwise = narrowed(self.sizes, self.binders, (guard, then, otherwise), span)
        dtype, weak = self.meet((then, otherwise))
        shape = self.broadcast("where", (guard, then, otherwise), span)
        g, a, b = over(guard, shape, "bool"), over(then, shape, dtype), over(otherwise, shape, dtype)
        return Value(shape, select(g, a, b), weak)

    # -- reductions ----------------------------------------------------------------------------

    def reduce(
        self, op: str, value: AnyValue, axes: tuple[int, ...] | None, keepdims: bool, span: Span
    ) -> AnyValue:
        """Reduce over `axes` (all of them for None); axes of length 1 need no reduction."""
        if not isinstance(value, Value):
            return value
        if value.dtype == "bool":
            value = Value(value.shape, cast(value.element, "i64"), value.weak)
        gone = self.normalise(axes, value.rank, span)
        kept = [k for k in range(value.rank) if k not in gone]
        over = [k for k in gone if not unit(self.sizes.find(value.shape[k]))]
        element: Element = value.element
        shape = tuple(value.shape[k] for k in kept)
        if over:
            moved: dict[int, Element] = {k: Index(p) for p, k in enumerate((*kept, *over))}
            body = substitute(element, moved)
            reduced = tuple(value.shape[k] for k in over)
            element = self.binders.enclose(lambda s, e: Reduce(op, s, reduced, e), shape, body)
            self.place(element.array, span)
        elif kept != list(range(len(kept))):
            element = substitute(element, {k: Index(p) for p, k in enumerate(kept)})
        if keepdims:
            element = substitute(element, {p: Index(k) for p, k in enumerate(kept)})
            shape = tuple(ONE if k in gone else n for k, n in enumerate(value.shape))
        return Value(shape, element, value.weak)

    def contract(self, value: AnyValue, axes: tuple[int, ...], span: Span) -> AnyValue:
        """The sum of products over axes; for booleans whether any is true, as in NumPy's @."""
        found = self.reduce("sum", value, axes, False, span)
        if value.dtype != "bool":
            return found
        return Value(found.shape, Apply("greater", (found.element, const(0, "i64")), "bool"), found.weak)

    def normalise(self, axes: tuple[int, ...] | None, rank: int, span: Span) -> tuple[int, ...]:
        """Axes counted from 0, each once, in order."""
        if axes is None:
            return tuple(range(rank))
        for axis in axes:
            if not -rank <= axis < rank:
                self.fail(
                    OutOfRangeError,
                    f"axis {axis} is out of range for an array of rank {rank}",
                    span,
                    f"use an axis from {-rank} to {rank - 1}" if rank else "a scalar has no axes: omit axis",
                )
        if len({a % rank for a in axes}) < len(axes):
            self.fail(OutOfRangeError, "an axis is given twice", span, "give each axis once")
        return tuple(sorted(a % rank for a in axes))

    # -- names ---------------------------------------------------------------------------------

    def bind(self, name: str, value: AnyValue, span: Span) -> AnyValue:
        """The value under a user's name: it becomes a separate array, so that the name is kept.

        Integers and conditions are unchanged, to keep what is known of indices.
        """
        if not isinstance(value, Value) or not self.stores:
            return value
        if not value.rank and not is_float(value.dtype):
            if not self.blame.elsewhere:
                self.names.setdefault(value.element, plain(name))
            return value
        read = self.binders.enclose(closed, value.shape, value.element)
        if not self.blame.elsewhere:
            self.names.setdefault(read.array, name)
        if (table := tracked()) is not None:
            table.inherit(read)
        self.place(read.array, span)
        return Value(value.shape, read, value.weak, value.held)


def over(value: AnyValue, shape: Shape, dtype: Dtype) -> Element:
    """The element of a value broadcast to a shape and converted to `dtype`."""
    if not isinstance(value, Value):
        return const(value, dtype)
    offset = len(shape) - value.rank
    moved: dict[int, Element] = {k: Index(k + offset) for k in range(value.rank)} if offset else {}
    return cast(substitute(value.element, moved), dtype)


def close(value: Value) -> Array:
    """The array of a value."""
    return closed(value.shape, value.element)


def _weak_dtype(value: AnyValue) -> Dtype:
    if isinstance(value, Value):
        return value.dtype
    return "bool" if isinstance(value, bool | Unset) else "i64" if _fits(value) else "f64"


def _quotient(x: int, y: int) -> float:
    """x / y of integers of any size, rounded once."""
    try:
        return x / y
    except OverflowError:
        return math.inf if (x > 0) == (y > 0) else -math.inf


def _fits(value: int | float) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _exact(op: str, args: list[int]) -> int | None:
    """Exact integer arithmetic on constants; None if the result is not an integer or is too large."""
    match op, args:
        case "add", [x, y]:
            return x + y
        case "subtract", [x, y]:
            return x - y
        case "multiply", [x, y]:
            return x * y if x.bit_length() + y.bit_length() <= INTEGER_BITS else None
        case "negative", [x]:
            return -x
        case "power", [x, y] if y >= 0 and x.bit_length() * y <= INTEGER_BITS:
            return int(x**y)
        case "floor_divide", [x, y] if y:
            return x // y
        case "remainder", [x, y] if y:
            return x % y
        case "bitwise_and", [x, y]:
            return x & y
        case "bitwise_or", [x, y]:
            return x | y
        case "bitwise_xor", [x, y]:
            return x ^ y
        case "left_shift", [x, y] if 0 <= y <= INTEGER_BITS:
            return x << y
        case "right_shift", [x, y] if y >= 0:
            return x >> min(y, INTEGER_BITS)
        case "invert", [x]:
            return ~x
        case "abs", [x]:
            return abs(x)
        case "square", [x] if x.bit_length() * 2 <= INTEGER_BITS:
            return x * x
        case "sign", [x]:
            return (x > 0) - (x < 0)
        case "minimum", [x, y]:
            return min(x, y)
        case "maximum", [x, y]:
            return max(x, y)
    return None
