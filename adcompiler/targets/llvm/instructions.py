"""Instructions of LLVM, one after the other: registers, conversions, and sums that contract products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_float

from adcompiler.targets.llvm.tables import RANKS
from adcompiler.targets.llvm.values import Needs, Value, literal, suffix, typed, uniform


class Instructions:
    """Instructions of one function."""

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.lines: list[str] = []
        self.factors: dict[str, tuple[Value, Value]] = {}  # of the registers that are products of floats

    def emit(self, instruction: str, kind: str) -> Value:
        """A new register that holds what the instruction computes."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"{name} = {instruction}")
        return Value(name, kind)

    def call(
        self, function: str, kind: str, args: Sequence[Value], attributes: str = "", flags: str = ""
    ) -> Value:
        """A call of a function of C or of LLVM, declared when first called."""
        types = ", ".join(a.type for a in args)
        self.needs.declared[function] = f"declare {kind} @{function}({types}) {attributes}".rstrip()
        text = f"call {flags}{kind} @{function}({', '.join(map(str, args))})"
        if kind != "void":
            return self.emit(text, kind)
        self.lines.append(text)
        return Value("", "void")

    def cast(self, value: Value, kind: str) -> Value:
        """The value, lane by lane, converted as numba converts it."""
        if value.element == kind:
            return Value(value.text, value.type)
        if kind == "float" and value.type == "double" and not value.text.startswith("%"):
            return literal(c_float(value.number).value, kind)
        whole = value.typed(kind)
        if kind == "i1":
            zero = "zeroinitializer" if value.lanes > 1 else "0.0" if value.is_float else "0"
            return self.emit(f"{'fcmp une' if value.is_float else 'icmp ne'} {value}, {zero}", whole)
        if value.is_float:
            how = "fptosi" if kind == "i64" else "fptrunc" if kind == "float" else "fpext"
        else:
            how = "zext" if kind == "i64" else "uitofp" if value.element == "i1" else "sitofp"
        return self.emit(f"{how} {value} to {whole}", whole)

    def spread(self, value: Value, lanes: int) -> Value:
        """The value, in all lanes if it is one number."""
        if lanes == value.lanes:
            return value
        if not value.text.startswith("%"):
            return uniform(value, lanes)
        kind = typed(value.type, lanes)
        first = self.emit(f"insertelement {kind} poison, {value}, i64 0", kind)
        zeros = f"<{lanes} x i32> zeroinitializer"
        found = self.emit(f"shufflevector {first}, {kind} poison, {zeros}", kind)
        if value.text in self.factors:
            self.factors[found.text] = self.factors[value.text]
        return found

    def together(self, *values: Value) -> list[Value]:
        """The values in the type in which they meet: an integer meets a float in float64."""
        kinds, lanes = {v.element for v in values}, max(v.lanes for v in values)
        kind = "double" if {"i64", "float"} <= kinds else max(kinds, key=RANKS.index)
        return [self.spread(self.cast(v, kind), lanes) for v in values]

    # -- contraction (`contraction.py`) -------------------------------------------------------------

    def plus(self, x: Value, y: Value, flags: str = "") -> Value:
        """x + y of floats, rounded once if one of them is a product (`contraction.py`)."""
        for product, other in ((x, y), (y, x)):
            if product.text in self.factors:
                factors = (self.spread(f, x.lanes) for f in self.factors[product.text])
                name = f"llvm.fmuladd.{suffix(x)}"
                return self.call(name, x.type, [*factors, other], flags=flags)
        return self.emit(f"fadd {flags}{x}, {y.text}", x.type)

    def negative(self, x: Value) -> Value:
        """-x of floats. That of a product is one too, by its second factor: the first may be one itself,
        which LLVM would negate instead of fusing the sign."""
        found = self.emit(f"fsub {x.type} {literal(-0.0, x.type).text}, {x.text}", x.type)
        if x.text in self.factors:
            first, second = self.factors[x.text]
            self.factors[found.text] = first, self.negative(second)
        return found

    def chosen(self, how: Callable[[Value, Value], Value], then: Value, otherwise: Value) -> Value:
        """A choice; that of a product or 0 is the product of its factors or 0."""
        found = how(then, otherwise)
        if then.text in self.factors and otherwise == literal(0.0, then.type):
            first, second = (how(f, literal(0.0, f.type)) for f in self.factors[then.text])
            self.factors[found.text] = first, second
        return found
