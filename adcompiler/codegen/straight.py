"""From the text of a straight-line kernel to LLVM: a second compiler of generated source, for scalars.

numba takes 2 ms an operation, and 0.3 s to start; here it is some microseconds. The meaning is numba's,
instruction by instruction, and so are the bits. A text that has anything beyond this (loops, arrays,
a function that is not in the tables) is `UnsupportedError`, and numba compiles it.
"""

from __future__ import annotations

import ast
import math
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from adcompiler.ir.types import Dtype

TYPES: Mapping[Dtype, str] = {"bool": "i1", "i64": "i64", "f32": "float", "f64": "double"}
RANKS = ("i1", "i64", "float", "double")

# What `math` and NumPy name, in numba's choice: intrinsics of LLVM, else functions of the C library.
INTRINSICS: Mapping[str, str] = {
    **{f"math.{f}": f for f in ("exp", "exp2", "log", "log10", "sin", "cos", "copysign")},
    **{f"np.{f}": f for f in ("floor", "ceil", "trunc", "rint")},
}
LIBRARY: Mapping[str, str] = {
    f"math.{f}": f
    for f in ("log1p", "expm1", "log2", "sqrt", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh",
              "sinh", "cosh", "tanh", "erf", "erfc", "lgamma", "atan2", "hypot")
}  # fmt: skip
CASTS: Mapping[str, str] = {
    "bool": "i1", "np.int64": "i64", "np.float32": "float", "np.float64": "double"
}  # fmt: skip
FLOATS: Mapping[type[ast.operator], str] = {
    ast.Add: "fadd contract", ast.Sub: "fsub contract", ast.Mult: "fmul contract", ast.Div: "fdiv contract"
}  # fmt: skip
INTEGERS: Mapping[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "ashr",
}  # fmt: skip
BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)
COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str, str]] = {  # of floats, integers and truth values
    ast.Lt: ("olt", "slt", "ult"), ast.LtE: ("ole", "sle", "ule"), ast.Gt: ("ogt", "sgt", "ugt"),
    ast.GtE: ("oge", "sge", "uge"), ast.Eq: ("oeq", "eq", "eq"), ast.NotEq: ("une", "ne", "ne"),
}  # fmt: skip
CONSTANTS: Mapping[str, float] = {"math.inf": math.inf, "math.nan": math.nan}
INFINITIES = (math.inf, -math.inf)


class UnsupportedError(Exception):
    """The text has something that only numba compiles."""


class Value(NamedTuple):
    """An LLVM value: a register or a constant, and its type."""

    text: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    @property
    def is_float(self) -> bool:
        return self.type in ("float", "double")


class Straight:
    """The instructions of one function: parameters first, then `run` on the body of the text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: dict[str, Value] = {}
        self.declared: dict[str, str] = {}
        self.externals: set[str] = set()

    # -- instructions --------------------------------------------------------------------------

    def emit(self, instruction: str, kind: str) -> Value:
        """A new register that holds what the instruction computes."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"{name} = {instruction}")
        return Value(name, kind)

    def call(self, function: str, kind: str, args: Sequence[Value], attributes: str = "") -> Value:
        """A call of a function of C or of LLVM, declared when first called."""
        types = ", ".join(a.type for a in args)
        self.declared[function] = f"declare {kind} @{function}({types}) {attributes}".rstrip()
        flags = " contract" if kind in ("float", "double") else ""
        return self.emit(f"call{flags} {kind} @{function}({', '.join(map(str, args))})", kind)

    def cast(self, value: Value, kind: str) -> Value:
        """The value converted as numba converts it."""
        if value.type == kind:
            return value
        if kind == "i1":
            zero = "0.0" if value.is_float else "0"
            return self.emit(f"{'fcmp contract une' if value.is_float else 'icmp ne'} {value}, {zero}", "i1")
        if value.is_float:
            how = "fptosi" if kind == "i64" else "fptrunc" if kind == "float" else "fpext"
        else:
            how = "zext" if kind == "i64" else "uitofp" if value.type == "i1" else "sitofp"
        return self.emit(f"{how} {value} to {kind}", kind)

    def together(self, *values: Value) -> list[Value]:
        """The values in the type in which they meet: an integer meets a float in float64."""
        kinds = {v.type for v in values}
        kind = "double" if {"i64", "float"} <= kinds else max(kinds, key=RANKS.index)
        return [self.cast(v, kind) for v in values]

    # -- the text ------------------------------------------------------------------------------

    def run(self, text: str) -> list[Value]:
        """The instructions of the function `run` in a kernel's text, and the values that it returns."""
        found = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
        if len(found) != 1:
            raise UnsupportedError
        for statement in found[0].body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.values[name] = self.value(value)
                case ast.Return(value=ast.Tuple(elts=results)):
                    return [self.value(r) for r in results]
                case _:
                    raise UnsupportedError
        raise UnsupportedError

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        match node:
            case ast.Name(id=name):
                return self.values[name]
            case ast.Constant(value=value):
                return literal(value)
            case ast.Attribute() if (name := ast.unparse(node)) in CONSTANTS:
                return literal(CONSTANTS[name])
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return literal(-value)
            case ast.UnaryOp(op=op, operand=operand):
                return self.unary(op, self.value(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(op, self.value(left), self.value(right))
            case ast.Compare():
                return self.compare(node)
            case ast.BoolOp(op=op, values=values):
                truths = [self.cast(self.value(v), "i1") for v in values]
                return self.both("and" if isinstance(op, ast.And) else "or", truths)
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return self.select(*map(self.value, (test, body, otherwise)))
            case ast.Call(func=function, args=args, keywords=[]):
                return self.function(ast.unparse(function), [self.value(a) for a in args])
        raise UnsupportedError

    def both(self, how: str, truths: Sequence[Value]) -> Value:
        """All of some conditions, or any of them."""
        result, *others = truths
        for other in others:
            result = self.emit(f"{how} {result}, {other.text}", "i1")
        return result

    def unary(self, op: ast.unaryop, x: Value) -> Value:
        match op:
            case ast.Not():
                return self.emit(f"xor {self.cast(x, 'i1')}, true", "i1")
            case ast.USub() if x.is_float:
                return self.emit(f"fsub contract {x.type} {literal(-0.0, x.type).text}, {x.text}", x.type)
            case ast.USub() if x.type == "i64":
                return self.emit(f"sub i64 0, {x.text}", "i64")
            case ast.Invert() if x.type == "i64":
                return self.emit(f"xor {x}, -1", "i64")
        raise UnsupportedError

    def binary(self, op: ast.operator, x: Value, y: Value) -> Value:
        if isinstance(op, BITS) and x.type == y.type == "i1":
            return self.emit(f"{INTEGERS[type(op)]} {x}, {y.text}", "i1")
        if isinstance(op, ast.Div):
            x, y = (v if v.is_float else self.cast(v, "double") for v in (x, y))
        x, y = self.together(x, y)
        if isinstance(op, ast.Pow) and x.is_float:
            return self.intrinsic("pow", [x, y])
        known = FLOATS if x.is_float else INTEGERS if x.type == "i64" else {}
        if type(op) not in known:
            raise UnsupportedError
        return self.emit(f"{known[type(op)]} {x}, {y.text}", x.type)

    def compare(self, node: ast.Compare) -> Value:
        values = [self.value(v) for v in (node.left, *node.comparators)]
        found = []
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            x, y = self.together(a, b)
            of_floats, of_integers, of_truths = COMPARISONS[type(op)]
            how = of_floats if x.is_float else of_truths if x.type == "i1" else of_integers
            found.append(self.emit(f"{'fcmp contract' if x.is_float else 'icmp'} {how} {x}, {y.text}", "i1"))
        return self.both("and", found)

    def select(self, guard: Value, then: Value, otherwise: Value) -> Value:
        """Both values are computed anyway: none has an effect."""
        x, y = self.together(then, otherwise)
        return self.emit(f"select {self.cast(guard, 'i1')}, {x}, {y}", x.type)

    def function(self, name: str, args: list[Value]) -> Value:
        """A call of a function that the tables know."""
        match name, args:
            case _, [x] if name in CASTS:
                return self.cast(x, CASTS[name])
            case "select", [guard, then, otherwise]:
                return self.select(guard, then, otherwise)
            case "abs", [x] if x.is_float:
                return self.intrinsic("fabs", args)
            case "abs", [x] if x.type == "i64":
                negative = self.emit(f"icmp slt {x}, 0", "i1")
                return self.select(negative, self.emit(f"sub i64 0, {x.text}", "i64"), x)
            case "np.sign", [x] if x.is_float:
                above = self.emit(f"fcmp contract ogt {x}, 0.0", "i1")
                below = self.emit(f"fcmp contract olt {x}, 0.0", "i1")
                one, less = literal(1.0, x.type), literal(-1.0, x.type)
                return self.select(above, one, self.select(below, less, x))
            case "np.cbrt", [x] if x.is_float:
                below = self.emit(f"fcmp contract olt {x}, 0.0", "i1")
                root = self.library("cbrt", [self.select(below, self.unary(ast.USub(), x), x)])
                return self.select(below, self.unary(ast.USub(), root), root)
            case "np.fmod", [x, y] if x.is_float and x.type == y.type:
                return self.emit(f"frem contract {x}, {y.text}", x.type)
        if name.startswith("math."):  # which takes integers as float64
            args = self.together(*(a if a.is_float else self.cast(a, "double") for a in args))
        match name, args:
            case "math.isinf", [x]:
                found = (self.emit(f"fcmp oeq {x}, {literal(s, x.type).text}", "i1") for s in INFINITIES)
                return self.both("or", list(found))
            case "math.isfinite", [x]:
                nothing = self.emit(f"fsub contract {x}, {x.text}", x.type)
                return self.emit(f"fcmp ord {nothing}, {nothing.text}", "i1")
        if not all(a.is_float for a in args):
            raise UnsupportedError
        if name in INTRINSICS:
            return self.intrinsic(INTRINSICS[name], args)
        if name in LIBRARY:
            return self.library(LIBRARY[name], args)
        raise UnsupportedError

    def library(self, name: str, args: Sequence[Value]) -> Value:
        """A call of the C library, which leaves `errno` to itself."""
        kind = args[0].type
        return self.call(self.external(name, kind), kind, args, "nounwind readonly")

    def intrinsic(self, name: str, args: Sequence[Value]) -> Value:
        """An operation that LLVM knows, and makes a call of the C library of if need be."""
        kind = args[0].type
        self.external(name, kind)
        return self.call(f"llvm.{name}.{'f64' if kind == 'double' else 'f32'}", kind, args)

    def external(self, name: str, kind: str) -> str:
        """The C library's function for a type."""
        name += "" if kind == "double" else "f"
        self.externals.add(name)
        return name


def literal(value: object, kind: str = "double") -> Value:
    """A constant; floats are written by their bits."""
    match value:
        case bool():
            return Value(str(value).lower(), "i1")
        case int() if -(2**63) <= value < 2**63:
            return Value(str(value), "i64")
        case float():
            return Value(f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}", kind)
    raise UnsupportedError
