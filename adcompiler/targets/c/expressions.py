"""Expressions of the loop IR in C, with the meaning that they have in `targets/llvm/instructions.py`.

Integers wrap, indices are unsigned, booleans are bytes in memory. No product is contracted with a sum.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from adcompiler.loopir.intrinsics import BY_TEXT, CASTS
from adcompiler.loopir.nodes import Access, Choice, Expr, UnsupportedError
from adcompiler.loopir.translator import Translator
from adcompiler.loopir.types import Number, common
from adcompiler.targets.c.names import local
from adcompiler.targets.c.values import (
    AND,
    ATOM,
    BIT,
    CHOICE,
    EQUAL,
    INDEX_BITS,
    LESS,
    OR,
    PREFIX,
    PRODUCT,
    SUM,
    WHOLE_BITS,
    CArray,
    CValue,
    cast,
    number,
)

WRAPPING: Mapping[str, str] = {"+": "adc_add", "-": "adc_sub", "*": "adc_mul"}
FOLDED: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": lambda x, y: x // y if y else 0
}  # fmt: skip
LEVELS: Mapping[str, int] = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT}
ROUNDINGS = ("np.floor", "np.ceil", "np.trunc", "np.rint")


class Expressions(Translator[CValue, CArray]):
    """The expressions of one C function. `kinds` are the types of its variables, `bits` the magnitudes of
    those that are surely small, and `helpers` the functions of `helpers.py` that are called.

    Where numbers are `small`, sums and products of integers cannot overflow.
    """

    small = False

    def __init__(self, helpers: set[str]) -> None:
        self.helpers = helpers
        self.kinds: dict[str, Number] = {}
        self.bits: dict[str, int] = {}
        self.arrays: dict[str, CArray] = {}
        self.lengths: dict[str, None] = {}  # the names of lengths that are used

    def knows(self, name: str) -> bool:
        return name in self.kinds

    def variable(self, name: str) -> CValue:
        if name not in self.kinds:
            raise UnsupportedError(name)
        return CValue(self.name(name), self.kinds[name], bits=self.bits.get(name, 64))

    def constant(self, value: float) -> CValue:
        return number(value)

    def access(self, at: Access) -> CValue:
        return self.element(at.array, at.indices)

    def extent(self, array: str, axis: int) -> CValue:
        return self.length(self.arrays[array].lengths[axis])

    def logical(self, op: str, args: Sequence[CValue]) -> CValue:
        sign, level = ("&&", AND) if op == "and" else ("||", OR)
        return CValue(f" {sign} ".join(cast(a, "bool").within(EQUAL) for a in args), "bool", level)

    def choice(self, node: Choice) -> CValue:
        return self.chosen(*map(self.value, (node.test, node.then, node.otherwise)))

    def name(self, name: str) -> str:
        """The C name of a variable."""
        return local(name)

    # -- arrays --------------------------------------------------------------------------------

    def length(self, text: str) -> CValue:
        """A length of an array: a number, or a name that is noted as used."""
        if text.isdigit():
            return number(int(text))
        self.lengths[text] = None
        return CValue(text, "i64", bits=INDEX_BITS)

    def place(self, array: CArray, indices: Sequence[Expr]) -> str:
        """The number of an element, or of the first one of a part, in an array."""
        found: CValue | None = None
        for k, length in enumerate(array.lengths):
            index = self.value(indices[k]) if k < len(indices) else number(0)
            if found is not None:
                if found.literal == 0:
                    found = index
                    continue
                text = f"{found.within(PRODUCT)} * {self.length(length).within(PREFIX)}"
                found = CValue(text, "i64", PRODUCT)
                if index.literal == 0:
                    continue
                index = CValue(f"{found.text} + {index.within(PRODUCT)}", "i64", SUM)
            found = index
        return "0" if found is None else found.text

    def element(self, name: str, indices: Sequence[Expr]) -> CValue:
        """An element of an array."""
        array = self.arrays[name]
        text = f"{array.address}[{self.place(array, indices)}]"
        if array.dtype == "bool":
            return CValue(f"{text} != 0", "bool", EQUAL)
        return CValue(text, array.dtype)

    # -- operators -----------------------------------------------------------------------------

    def together(self, *values: CValue) -> list[CValue]:
        """The values converted to their common type."""
        kind = common(*(v.type for v in values))
        return [cast(v, kind) for v in values]

    def helper(self, name: str, args: Sequence[CValue], kind: Number) -> CValue:
        """A call of a function of `helpers.py`."""
        self.helpers.add(name)
        return CValue(f"{name}({', '.join(a.text for a in args)})", kind)

    def whole(self, value: CValue) -> CValue:
        """A value as an int64_t."""
        if value.is_float:
            return self.helper("adc_i64", [cast(value, "f64")], "i64")
        return cast(value, "i64")

    def converted(self, value: CValue, kind: Number) -> CValue:
        """A value as another type."""
        return self.whole(value) if kind == "i64" else cast(value, kind)

    def unary(self, op: str, x: CValue) -> CValue:
        """An operator with one operand."""
        match op:
            case "not":
                return CValue(f"!{cast(x, 'bool').within(PREFIX)}", "bool", PREFIX)
            case "-" if x.literal is not None and x.type != "bool":
                return number(-x.literal, x.type)
            case "-" if x.is_float:
                return CValue(f"-{x.within(ATOM)}", x.type, PREFIX)
            case "-" if x.type != "bool" and x.bits <= WHOLE_BITS:
                return CValue(f"-{x.within(ATOM)}", x.type, PREFIX, x.bits)
            case "-":
                return self.integers("-", number(0), cast(x, "i64"))
            case "~" if x.type == "i64":
                return CValue(f"~{x.within(PREFIX)}", x.type, PREFIX)
        raise UnsupportedError(op)

    def binary(self, op: str, x: CValue, y: CValue) -> CValue:
        """An arithmetic operation, or one of bits."""
        if op in ("&", "|", "^"):
            x, y = self.together(x, y)
            return CValue(f"{x.within(ATOM)} {op} {y.within(ATOM)}", x.type, BIT)
        if op in ("<<", ">>"):
            name = "adc_shl" if op == "<<" else "adc_shr"
            return self.helper(name, [cast(x, "i64"), cast(y, "i64")], "i64")
        if op == "/":
            x, y = (v if v.is_float else cast(v, "f64") for v in (x, y))
        x, y = self.together(x, y)
        if x.type == "bool":
            x, y = cast(x, "i64"), cast(y, "i64")
        if not x.is_float:
            return self.integers(op, x, y)
        end = "f" if x.type == "f32" else ""
        if op == "**":
            if y.literal == 2 and x.text.isidentifier():
                return CValue(f"{x.text} * {x.text}", x.type, PRODUCT)
            return CValue(f"pow{end}({x.text}, {y.text})", x.type)
        if op in ("//", "%"):
            return self.helper(("adc_fdiv" if op == "//" else "adc_fmod") + end, [x, y], x.type)
        level = LEVELS[op]
        return CValue(f"{x.within(level)} {op} {y.within(level + 1)}", x.type, level)

    def integers(self, op: str, x: CValue, y: CValue) -> CValue:
        """An operation on integers of one type; it calls a helper where it may overflow."""
        if op in FOLDED and isinstance(x.literal, int) and isinstance(y.literal, int):
            folded = FOLDED[op](x.literal, y.literal)
            if abs(folded) < 2**WHOLE_BITS:
                return number(folded, x.type)
        if op in ("//", "%"):
            if x.type == "u64":
                raise UnsupportedError(op)
            return self.helper("adc_div" if op == "//" else "adc_mod", [x, y], "i64")._replace(bits=x.bits)
        if op == "**":
            if y.literal == 2:
                return self.integers("*", x, x)
            return self.power(x, y)
        bits = x.bits + y.bits if op == "*" else max(x.bits, y.bits) + 1
        if x.type == "u64" or bits <= WHOLE_BITS or self.small:
            level = LEVELS[op]
            text = f"{x.within(level)} {op} {y.within(level + 1)}"
            return CValue(text, x.type, level, min(bits, 64))
        return self.helper(WRAPPING[op], [x, y], "i64")

    def power(self, x: CValue, y: CValue) -> CValue:
        """A power of integers."""
        raise UnsupportedError("**")

    def compare(self, op: str, x: CValue, y: CValue) -> CValue:
        """A comparison."""
        if "u64" in (x.type, y.type) and x.type != y.type and None not in (x.literal, y.literal):
            raise UnsupportedError(op)
        x, y = self.together(x, y)
        return CValue(f"{x.within(SUM)} {op} {y.within(SUM)}", "bool", EQUAL if op in ("==", "!=") else LESS)

    def chosen(self, test: CValue, then: CValue, otherwise: CValue) -> CValue:
        """A choice that computes one side only."""
        x, y = self.together(then, otherwise)
        text = f"{cast(test, 'bool').within(OR)} ? {x.within(OR)} : {y.within(OR)}"
        return CValue(text, x.type, CHOICE, max(x.bits, y.bits))

    # -- functions -----------------------------------------------------------------------------

    def function(self, name: str, args: list[CValue]) -> CValue:
        """A call of a function of kernels."""
        match name, args:
            case _, [x] if name in CASTS:
                return self.converted(x, CASTS[name])
            case "uint64", [x] if x.type in ("i64", "u64"):
                return cast(x, "u64")
            case "reduce_add", [x, y]:
                return self.binary("+", x, y)
            case "mul_rn", [x, y]:
                return self.binary("*", x, y)
            case "reduce_max" | "reduce_min", [x, y]:
                x, y = self.together(x, y)
                extremum = "adc_greatest" if name == "reduce_max" else "adc_least"
                return self.helper(extremum + "f" * (x.type == "f32"), [x, y], x.type)
            case "max" | "min", [x, *others]:
                for y in others:
                    x = self.extremum(name, *self.together(x, y))
                return x
            case "select", [test, then, otherwise]:
                return self.chosen(test, then, otherwise)
            case "abs", [x] if not x.is_float:
                return self.helper("adc_abs", [cast(x, "i64")], "i64")
            case "np.sign", [x] if x.is_float:
                return self.helper("adc_fsign" + "f" * (x.type == "f32"), [x], x.type)
            case "np.sign", [x]:
                return self.helper("adc_sign", [cast(x, "i64")], "i64")
            case _, [x] if name in ROUNDINGS and not x.is_float:
                return cast(x, "i64")
            case "rsqrt", [x]:
                root = self.function("math.sqrt", [x])
                return self.binary("/", number(1.0, root.type), root)
            case "np.signbit" | "math.isinf" | "math.isfinite", [x]:
                x = x if x.is_float else cast(x, "f64")
                return CValue(f"{name.partition('.')[2]}({x.text}) != 0", "bool", EQUAL)
        called = BY_TEXT[name].name if name in BY_TEXT else ""
        if not called:
            raise UnsupportedError(name)
        args = self.together(*(a if a.is_float else cast(a, "f64") for a in args))
        kind = args[0].type
        return CValue(f"{called}{'f' * (kind == 'f32')}({', '.join(a.text for a in args)})", kind)

    def extremum(self, name: str, x: CValue, y: CValue) -> CValue:
        """The extremum of two numbers; the first one if they do not compare."""
        if x.is_float:
            return self.helper(f"adc_f{name}{'f' * (x.type == 'f32')}", [x, y], x.type)
        if isinstance(x.literal, int) and isinstance(y.literal, int):
            return number(max(x.literal, y.literal) if name == "max" else min(x.literal, y.literal))
        return self.helper(f"adc_{name}", [cast(x, "i64"), cast(y, "i64")], "i64")._replace(
            bits=max(x.bits, y.bits)
        )
