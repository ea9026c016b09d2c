"""The types of the loop IR: of variables, results and expressions, from those of a function's parameters.

As in numba, a variable has one type, the widest of its assigned values. LLVM and C declare variables with
these types, and `verify.py` checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Literal as OneOf
from typing import NamedTuple

from adcompiler.ir.types import Dtype
from adcompiler.loopir.intrinsics import BY_TEXT, CASTS
from adcompiler.loopir.nodes import (
    Access,
    Allocate,
    Assign,
    AssignAll,
    Binary,
    Call,
    Choice,
    Compare,
    Expand,
    Expr,
    For,
    Function,
    Invoke,
    Length,
    Literal,
    Logical,
    Return,
    Stmt,
    Store,
    Unary,
    UnsupportedError,
    Update,
    Var,
)
from adcompiler.loopir.printer import text
from adcompiler.loopir.python_modules import ORDER, is_special, source
from adcompiler.loopir.transformed_loops import LANE, Jam, Lane, LaneByLane, Lanes

Number = OneOf["bool", "u64", "i64", "f32", "f64"]  # only indices are unsigned
RANKS: Sequence[Number] = ("bool", "i64", "f32", "f64")
WHOLE = ("u64", "i64")
FLOATS = ("f32", "f64")


class ArrayType(NamedTuple):
    """An array."""

    dtype: Dtype
    rank: int


Type = Number | ArrayType
Called = Callable[[str, Sequence[Type]], Type | None]


def common(*found: Number) -> Number:
    """The common type: an integer and a float32 give float64."""
    kinds = {*found}
    if "u64" in kinds:
        return "u64"
    return "f64" if {"i64", "f32"} <= kinds else max(kinds, key=RANKS.index)


def as_float(kind: Number) -> Number:
    """The type of a number that a function of floats gets."""
    return kind if kind in FLOATS else "f64"


class Types:
    """The types of one function's variables and of its result, None if there is none. `called` gives the
    results of functions that are no intrinsics; `names` are constants and tables of its module, and `others`
    the functions without results that it invokes."""

    def __init__(
        self,
        function: Function,
        params: Sequence[Type],
        called: Called,
        names: Mapping[str, object],
        others: Mapping[str, Function] = MappingProxyType({}),
    ) -> None:
        self.called, self.names, self.others = called, names, others
        self.variables: dict[str, Type] = dict(zip(function.params, params, strict=True))
        self.result: Type | None = None
        self.widened = True
        while self.widened:  # a type that is wider than those of earlier reads
            self.widened = False
            self.body(function.body)

    def set(self, name: str, kind: Type) -> None:
        """Note that a variable is assigned a value."""
        old = self.variables.get(name, kind)
        if isinstance(old, ArrayType) or isinstance(kind, ArrayType):
            self.variables[name] = kind
            return
        if (old == "u64") != (kind == "u64"):
            raise UnsupportedError(f"an index and a number in {name}")
        self.variables[name] = common(old, kind)
        self.widened |= self.variables[name] != old

    # -- statements ----------------------------------------------------------------------------

    def body(self, found: Sequence[Stmt]) -> None:
        """Statements in order."""
        for s in found:
            self.statement(s)

    def statement(self, s: Stmt) -> None:
        """The types that a statement gives to variables."""
        match s:
            case Assign(name=name, value=value):
                self.set(name, self.number(value))
            case AssignAll(targets=targets, values=values):
                for target, kind in zip(targets, [self.number(v) for v in values], strict=True):
                    if isinstance(target, Var):
                        self.set(target.name, kind)
                    else:
                        self.number(target)
            case Update(at=at, op=op, value=value):
                self.number(Binary(op, at, value))
            case Store(at=at, value=value):
                self.number(at)
                self.number(value)
            case Expand(name=name, shape=shape, like=like):
                kind = self.number(Var(like))
                assert kind != "u64"
                self.set(name, ArrayType(kind, len(shape)))
            case Allocate(name=name, dtype=dtype, shape=shape):
                self.whole(*shape)
                self.set(name, ArrayType(dtype, len(shape)))
            case LaneByLane(loop=loop, names=names):
                for used in names:
                    self.set(used, self.variables[used + LANE])
                self.statement(loop)
            case For():
                self.loop(s)
            case Return(values=values):
                for made in map(self.of, values):
                    if isinstance(made, str) and isinstance(self.result, str):
                        made = common(self.result, made)
                    self.result = made
            case Invoke(name=name, args=args):
                self.invoked(name, [self.of(a) for a in args])
            case _:
                for part in s.parts:
                    if isinstance(part, Stmt):
                        self.statement(part)
                    elif isinstance(part, Expr):
                        self.number(part)

    def invoked(self, name: str, args: Sequence[Type]) -> None:
        """A call of one of the `others`, whose types have to fit too."""
        if name in self.others:
            types_of_kernel(self.others[name], args, self.others)

    def loop(self, loop: For) -> None:
        """The variables of a loop, and what is in it."""
        kind = self.whole(loop.start, loop.stop, *([] if loop.step is None else [loop.step]))
        for name in (loop.axis, *(loop.axes if isinstance(loop, Jam) else ())):
            self.set(name, kind)
        if isinstance(loop, Lanes):
            self.set(loop.axis + LANE, kind)
            for name in loop.totals:
                self.set(name + LANE, self.variables[name])
        for part in loop.parts:
            if isinstance(part, Stmt):
                self.statement(part)

    # -- expressions ---------------------------------------------------------------------------

    def number(self, e: Expr) -> Number:
        """The type of an expression that is a number."""
        kind = self.of(e)
        if isinstance(kind, ArrayType):
            raise UnsupportedError(f"the array {text(e)}, where a number is expected")
        return kind

    def whole(self, *found: Expr) -> Number:
        """The type of integers: of indices, lengths and bounds."""
        kinds = [self.number(e) for e in found]
        for e, kind in zip(found, kinds, strict=True):
            if kind not in WHOLE:
                raise UnsupportedError(f"{text(e)}, where an integer is expected")
        return common(*kinds)

    def of(self, e: Expr) -> Type:
        """The type of an expression."""
        match e:
            case Var(name=name):
                return self.variable(name)
            case Literal(dtype=dtype):
                return dtype
            case Access(array=name, indices=indices):
                return self.element(e, name, indices)
            case Length() | Call(name="len"):  # of an array, or of a table
                return "i64"
            case Compare() | Logical() | Unary(op="not"):
                for part in e.parts:
                    assert isinstance(part, Expr)
                    self.number(part)
                return "bool"
            case Unary(operand=operand):
                return self.number(operand)
            case Binary(op=op, left=left, right=right):
                return self.binary(op, self.number(left), self.number(right))
            case Choice(test=test, then=then, otherwise=otherwise):
                self.number(test)
                return common(self.number(then), self.number(otherwise))
            case Call(name=name, args=args):
                return self.function(e, name, [self.of(a) for a in args])
        raise UnsupportedError(f"the expression {text(e)}")

    def variable(self, name: str) -> Type:
        """The type of a variable, or of a constant of the module."""
        if name in self.variables:
            return self.variables[name]
        value = self.names.get(name)
        if not isinstance(value, int | float):
            raise UnsupportedError(f"the name {name}")
        return "bool" if isinstance(value, bool) else "i64" if isinstance(value, int) else "f64"

    def element(self, e: Access, name: str, indices: Sequence[Expr]) -> Type:
        """The type of an element, or of a part of an array."""
        self.whole(*indices)
        if isinstance(self.names.get(name), tuple):
            return "f64"
        array = self.variable(name)
        if not isinstance(array, ArrayType):
            raise UnsupportedError(f"{name}, where an array is expected")
        left = array.rank - len(indices)
        if isinstance(e, Lane) or not left:
            return array.dtype
        if left < 0:
            raise UnsupportedError(f"{len(indices)} indices of {name}, which has {array.rank}")
        return ArrayType(array.dtype, left)

    def binary(self, op: str, x: Number, y: Number) -> Number:
        """The type of an operation on two numbers."""
        if op == "/":
            return common(as_float(x), as_float(y))
        if (x == "u64") != (y == "u64"):
            raise UnsupportedError(f"{op} of an index and a number")
        found = common(x, y)
        return found if op in ("&", "|", "^") or found != "bool" else "i64"

    def function(self, e: Expr, name: str, args: Sequence[Type]) -> Type:
        """The type of a function's result."""
        if name == "transpose":
            return args[0]
        if (found := self.called(name, args)) is not None:
            return found
        numbers: list[Number] = [a for a in args if isinstance(a, str)]
        if len(numbers) < len(args):
            raise UnsupportedError(f"the array in {text(e)}")
        if name in CASTS:
            return CASTS[name]
        match BY_TEXT[name].result if name in BY_TEXT else "float":
            case "float":
                return common(*map(as_float, numbers))
            case "number":
                return numbers[0] if numbers[0] in FLOATS else common("i64", numbers[0])
            case "common":
                return common(*numbers[-2:])
            case kind:
                return kind


# -- functions -------------------------------------------------------------------------------------


def types_of_kernel(
    function: Function, params: Sequence[Type], others: Mapping[str, Function] = MappingProxyType({})
) -> Types:
    """The types of a function of a kernel, and of those `others` that it calls."""
    return Types(function, params, _special, {}, others)


def _special(name: str, args: Sequence[Type]) -> Type | None:
    """The result of a special function, which has the type of its points."""
    if not is_special(name):
        return None
    module, _, function = name.partition(".")
    if function not in source(module).definitions:
        raise UnsupportedError(f"the function {name}")
    ordered = source(module).definitions[function].params[0] == ORDER and args[0] == "i64"
    return common(*(as_float(a) for a in args[ordered:] if isinstance(a, str)))


@cache
def types_of_routine(module: str, function: str, params: tuple[Type, ...]) -> Types:
    """The types of a function written in Python."""
    definitions, names = source(module)
    if function not in definitions:
        raise UnsupportedError(f"the function {module}.{function}")

    def called(name: str, args: Sequence[Type]) -> Type | None:
        return types_of_routine(module, name, tuple(args)).result if name in definitions else None

    return Types(definitions[function], params, called, names)
