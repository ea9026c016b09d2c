"""Lowers the loop IR of a kernel to LLVM, as an alternative to numba; here, expressions.

numba takes 2 ms per operation, and 0.3 s to start; this takes microseconds. Semantics are numba's,
instruction by instruction and bit for bit, except for mathematical functions on vectors (`vectors.py`).
Anything else in a kernel raises `UnsupportedError`, and numba compiles its text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_float

from adcompiler.loopir.nodes import Binary, Call, Choice, Compare, Expr, Literal, Logical, Unary, Var
from adcompiler.targets.function_table import BY_NAME, BY_TEXT
from adcompiler.targets.llvm.libmvec import WIDEST, Set
from adcompiler.targets.llvm.tables import BITS, CASTS, COMPARISONS, FLOATS, INFINITIES, INTEGERS, RANKS
from adcompiler.targets.llvm.values import Needs, UnsupportedError, Value, literal, suffix, typed, uniform
from adcompiler.targets.llvm.vectors import vector_call

# -- instructions ------------------------------------------------------------------------------------
# Straight-line LLVM instructions: registers, conversions, and sums that contract products.


class Instructions:
    """The instructions of one function."""

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.lines: list[str] = []
        self.factors: dict[str, tuple[Value, Value]] = {}  # the factors of registers that are float products

    def emit(self, instruction: str, kind: str) -> Value:
        """A new register for the result of an instruction."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"{name} = {instruction}")
        return Value(name, kind)

    def call(
        self, function: str, kind: str, args: Sequence[Value], attributes: str = "", flags: str = ""
    ) -> Value:
        """A call of a C or LLVM function, declared when first called."""
        types = ", ".join(a.type for a in args)
        self.needs.declared[function] = f"declare {kind} @{function}({types}) {attributes}".rstrip()
        text = f"call {flags}{kind} @{function}({', '.join(map(str, args))})"
        if kind != "void":
            return self.emit(text, kind)
        self.lines.append(text)
        return Value("", "void")

    def cast(self, value: Value, kind: str) -> Value:
        """The value, lane by lane, converted as numba does."""
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
        """The value, broadcast to all lanes if it is scalar."""
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
        """The values converted to their common type: an integer and a float give float64."""
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
        """-x of floats. A negated product is a product whose second factor is negated: the first may be a
        product itself, which LLVM would negate instead of fusing the sign."""
        found = self.emit(f"fsub {x.type} {literal(-0.0, x.type).text}, {x.text}", x.type)
        if x.text in self.factors:
            first, second = self.factors[x.text]
            self.factors[found.text] = first, self.negative(second)
        return found

    def chosen(self, how: Callable[[Value, Value], Value], then: Value, otherwise: Value) -> Value:
        """A select. If it selects a product or 0, it is the product of selected factors."""
        found = how(then, otherwise)
        if then.text in self.factors and otherwise == literal(0.0, then.type):
            first, second = (how(f, literal(0.0, f.type)) for f in self.factors[then.text])
            self.factors[found.text] = first, second
        return found


class Expressions(Instructions):
    """The instructions of one function; `values` are its variables."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self.values: dict[str, Value] = {}

    # -- the loop IR ---------------------------------------------------------------------------

    def value(self, node: Expr) -> Value:
        """The value of an expression."""
        match node:
            case Var(name=name) if name in self.values:
                return self.values[name]
            case Literal(value=value):
                return literal(value)
            case Unary(op=op, operand=operand):
                return self.unary(op, self.value(operand))
            case Binary(op=op, left=left, right=right):
                return self.binary(op, self.value(left), self.value(right))
            case Compare(op=op, left=left, right=right):
                return self.compare(op, self.value(left), self.value(right))
            case Logical(op=op, args=args):
                return self.both(op, [self.cast(self.value(a), "i1") for a in args])
            case Choice(test=test, then=then, otherwise=otherwise):
                return self.select(*map(self.value, (test, then, otherwise)))
            case Call(name=name, args=args):
                return self.function(name, [self.value(a) for a in args])
        raise UnsupportedError

    def both(self, how: str, truths: Sequence[Value]) -> Value:
        """The conjunction or disjunction of conditions."""
        result, *others = self.together(*truths)
        for other in others:
            result = self.emit(f"{how} {result}, {other.text}", result.type)
        return result

    def unary(self, op: str, x: Value) -> Value:
        match op:
            case "not":
                truth = self.cast(x, "i1")
                return self.emit(f"xor {truth}, {literal(True, truth.type).text}", truth.type)
            case "-" if x.is_float:
                return self.negative(x)
            case "-" if x.element == "i64":
                return self.emit(f"sub {literal(0, x.type)}, {x.text}", x.type)
            case "~" if x.element == "i64":
                return self.emit(f"xor {x}, {literal(-1, x.type).text}", x.type)
        raise UnsupportedError

    def binary(self, op: str, x: Value, y: Value) -> Value:
        """An operation; a product and a sum are contracted."""
        if op in BITS and x.element == y.element == "i1":
            x, y = self.together(x, y)
            return self.emit(f"{INTEGERS[op]} {x}, {y.text}", x.type)
        if op == "/":
            x, y = (v if v.is_float else self.cast(v, "double") for v in (x, y))
        if x.unsigned or y.unsigned:
            return self.indices(op, x, y)
        x, y = self.together(x, y)
        if op == "**" and x.is_float:
            return self.intrinsic("pow", [x, y])
        if op in ("//", "%"):
            return self.divided_floats(op, x, y) if x.is_float else self.divided(op, x, y)
        if op == "**" and y.text in ("2", "3"):
            return self.binary("*", x, x if y.text == "2" else self.binary("*", x, x))
        if x.is_float and op == "+":
            return self.plus(x, y)
        if op == "-" and not self.factors.keys().isdisjoint((x.text, y.text)):
            return self.plus(x, self.negative(y))
        known = FLOATS if x.is_float else INTEGERS if x.element == "i64" else {}
        if op not in known:
            raise UnsupportedError
        result = self.emit(f"{known[op]} {x}, {y.text}", x.type)
        if x.is_float and op == "*":
            self.factors[result.text] = x, y
        return result

    def indices(self, op: str, x: Value, y: Value) -> Value:
        """Operations on two unsigned numbers stay unsigned; numba converts mixed operands to floats."""
        if not (x.unsigned and y.unsigned and op in ("+", "-")):
            raise UnsupportedError
        x, y = self.together(x, y)
        return self.emit(f"{INTEGERS[op]} {x}, {y.text}", x.type)._replace(unsigned=True)

    def divided(self, op: str, x: Value, y: Value) -> Value:
        """The quotient rounded down, or its remainder; 0 for a divisor of 0. The smallest number divided by
        -1 wraps."""
        zero, one = literal(0, x.type), literal(1, x.type)
        nothing, least = self.same(y, 0), self.both("and", [self.same(x, -(2**63)), self.same(y, -1)])
        divisor = self.select(self.both("or", [least, nothing]), one, y)
        quotient, rest = (self.emit(f"{how} {x}, {divisor.text}", x.type) for how in ("sdiv", "srem"))
        signs = self.emit(
            f"icmp slt {self.emit(f'xor {rest}, {divisor.text}', x.type)}, {zero.text}", x.typed("i1")
        )
        uneven = self.unary("not", self.same(rest, 0))
        below = self.both("and", [uneven, signs])
        if op == "//":
            found = self.select(below, self.emit(f"sub {quotient}, {one.text}", x.type), quotient)
        else:
            found = self.select(below, self.emit(f"add {rest}, {divisor.text}", x.type), rest)
        return self.select(nothing, zero, found)

    def divided_floats(self, op: str, x: Value, y: Value) -> Value:
        """The quotient rounded down, or its remainder, as in NumPy: the remainder has the divisor's sign;
        division by 0 gives x / 0."""
        zero = literal(0.0, x.type)
        rest = self.emit(f"frem {x}, {y.text}", x.type)
        uneven, below = (self.ordered("une", rest, zero), self.ordered("olt", rest, zero))
        signs = self.emit(f"xor {below}, {self.ordered('olt', y, zero).text}", below.type)
        above = self.both("and", [uneven, signs])
        if op == "%":
            whole = self.select(above, self.emit(f"fadd {rest}, {y.text}", x.type), rest)
            return self.select(uneven, whole, self.intrinsic("copysign", [zero, y]))
        quotient = self.emit(f"fdiv {self.emit(f'fsub {x}, {rest.text}', x.type)}, {y.text}", x.type)
        quotient = self.select(
            above, self.emit(f"fsub {quotient}, {literal(1.0, x.type).text}", x.type), quotient
        )
        whole = self.intrinsic("floor", [quotient])
        half = self.ordered("ogt", self.emit(f"fsub {quotient}, {whole.text}", x.type), literal(0.5, x.type))
        whole = self.select(half, self.emit(f"fadd {whole}, {literal(1.0, x.type).text}", x.type), whole)
        plain = self.emit(f"fdiv {x}, {y.text}", x.type)
        signed = self.intrinsic("copysign", [zero, plain])
        whole = self.select(self.ordered("une", quotient, zero), whole, signed)
        return self.select(self.ordered("oeq", y, zero), plain, whole)

    def ordered(self, how: str, x: Value, y: Value) -> Value:
        """A comparison of floats."""
        return self.emit(f"fcmp {how} {x}, {y.text}", x.typed("i1"))

    def same(self, x: Value, number: int) -> Value:
        return self.emit(f"icmp eq {x}, {literal(number, x.type).text}", x.typed("i1"))

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """A comparison; indices are compared with indices or constants only."""
        x, y = self.together(a, b)
        of_floats, of_integers, of_others = COMPARISONS[op]
        unsigned = a.unsigned or b.unsigned
        if unsigned and not all(v.unsigned or v.text.isdigit() for v in (a, b)):
            raise UnsupportedError
        how = of_floats if x.is_float else of_others if x.element == "i1" or unsigned else of_integers
        test = "fcmp" if x.is_float else "icmp"
        return self.emit(f"{test} {how} {x}, {y.text}", x.typed("i1"))

    def select(self, guard: Value, then: Value, otherwise: Value) -> Value:
        """A select without a branch: neither side has an effect."""
        guard = self.cast(guard, "i1")
        x, y = (self.spread(v, max(v.lanes, guard.lanes)) for v in self.together(then, otherwise))

        def select(a: Value, b: Value) -> Value:
            return self.emit(f"select {guard}, {self.spread(a, x.lanes)}, {self.spread(b, x.lanes)}", x.type)

        return self.chosen(select, x, y)

    def function(self, name: str, args: list[Value]) -> Value:
        """A call of a function in the tables."""
        match name, args:
            case _, [x] if name in CASTS:
                return self.cast(x, CASTS[name])
            case "uint64", [x] if x.element == "i64":
                return Value(x.text, x.type, unsigned=True)
            case "reduce_add", [x, y] if x.is_float and x.element == y.element:
                x, y = self.together(x, y)
                return self.plus(x, y, "reassoc ")
            case "mul_rn", [x, y] if x.is_float or y.is_float:
                x, y = self.together(x, y)
                return self.emit(f"fmul {x}, {y.text}", x.type)
            case "reduce_max" | "reduce_min", [x, y] if x.is_float and x.element == y.element:
                extremum = "maximum" if name == "reduce_max" else "minimum"
                return self.intrinsic(extremum, self.together(x, y), library=False)
            case "max" | "min", [x, *others] if all(a.element == "i64" and not a.unsigned for a in args):
                for other in others:
                    x, y = self.together(x, other)
                    less, more = (x, y) if name == "min" else (y, x)
                    x = self.select(self.emit(f"icmp slt {less}, {more.text}", x.typed("i1")), x, y)
                return x
            case "max" | "min", [x, y] if x.is_float or y.is_float:
                x, y = self.together(x, y)
                how = "ogt" if name == "max" else "olt"
                return self.select(self.emit(f"fcmp {how} {y}, {x.text}", x.typed("i1")), y, x)
            case "fma", [_, _, _]:
                return self.intrinsic("fma", args)
            case "int", [x]:
                return self.cast(x, "i64")
            case "np.signbit", [x] if x.type == "double":
                return self.emit(f"icmp slt i64 {self.emit(f'bitcast {x} to i64', 'i64').text}, 0", "i1")
            case "ticks", []:
                return self.call("llvm.readcyclecounter", "i64", [])
            case "select", [guard, then, otherwise]:
                return self.select(guard, then, otherwise)
            case "abs", [x] if x.is_float:
                return self.intrinsic("fabs", args)
            case "abs", [x] if x.element == "i64":
                negative = self.emit(f"icmp slt {x}, {literal(0, x.type).text}", x.typed("i1"))
                return self.select(negative, self.unary("-", x), x)
            case "np.floor" | "np.ceil" | "np.trunc", [x] if not x.is_float:
                return self.cast(x, "i64")
            case "np.sign", [x] if not x.is_float:
                x = self.cast(x, "i64")
                signs = [
                    self.emit(f"icmp {how} {x}, {literal(0, x.type).text}", x.typed("i1"))
                    for how in ("sgt", "slt")
                ]
                above, below = (self.cast(sign, "i64") for sign in signs)
                return self.binary("-", above, below)
            case "np.sign", [x]:
                zero = literal(0.0, x.type).text
                above = self.emit(f"fcmp ogt {x}, {zero}", x.typed("i1"))
                below = self.emit(f"fcmp olt {x}, {zero}", x.typed("i1"))
                one, less = literal(1.0, x.type), literal(-1.0, x.type)
                return self.select(above, one, self.select(below, less, x))
            case "np.cbrt", [x] if x.is_float and self.needs.vectors is not None:
                return self.library("cbrt", [x])
            case "np.cbrt", [x] if x.is_float:
                below = self.emit(f"fcmp olt {x}, {literal(0.0, x.type).text}", x.typed("i1"))
                root = self.library("cbrt", [self.select(below, self.unary("-", x), x)])
                return self.select(below, self.unary("-", root), root)
            case "rsqrt", [x] if self.needs.vectors is not None and self.needs.vectors.has("rsqrt"):
                return self.library("rsqrt", [x])
            case "rsqrt", [x] if x.is_float:
                return self.binary("/", literal(1.0, x.type), self.intrinsic("sqrt", [x]))
            case "np.fmod", [x, y] if x.is_float and x.element == y.element:
                x, y = self.together(x, y)
                return self.emit(f"frem {x}, {y.text}", x.type)
        if name.startswith("math."):  # converts integers to float64
            args = self.together(*(a if a.is_float else self.cast(a, "double") for a in args))
        match name, args:
            case "math.isinf", [x]:
                sides = (literal(s, x.type).text for s in INFINITIES)
                return self.both("or", [self.emit(f"fcmp oeq {x}, {s}", x.typed("i1")) for s in sides])
            case "math.isfinite", [x]:
                nothing = self.emit(f"fsub {x}, {x.text}", x.type)
                return self.emit(f"fcmp ord {nothing}, {nothing.text}", x.typed("i1"))
        if not all(a.is_float for a in args):
            raise UnsupportedError
        function = BY_TEXT.get(name)
        if function is None or function.scalar == "expression":
            raise UnsupportedError
        return (self.intrinsic if function.scalar == "intrinsic" else self.library)(function.name, args)

    def library(self, name: str, args: Sequence[Value]) -> Value:
        """A call of the C library, without regard to `errno`."""
        args = self.together(*args)
        kind = args[0].type
        if self.needs.vectors is not None:
            return self.vectorised(self.needs.vectors, name, args)
        return self.call(self.external(name, kind), kind, args, "nounwind readonly")

    def vectorised(self, found: Set, name: str, args: Sequence[Value]) -> Value:
        """A call of the C library that LLVM may vectorise, with arguments that make it slow replaced."""
        kind = args[0].type
        function = BY_NAME[name]
        if not function.outside or (found == WIDEST and function.inlined):
            return self.emit(vector_call(self.needs, found, name, args), kind)
        x, limits = args[0], function.outside[-1 if args[0].element == "float" else 0]
        low, below, high, above, middle = (literal(v, kind) for v in limits)
        under = self.emit(f"fcmp olt {x}, {low.text}", x.typed("i1"))
        over = self.emit(f"fcmp ogt {x}, {high.text}", x.typed("i1"))
        inside = self.select(self.both("or", [under, over]), middle, x)
        within = self.emit(vector_call(self.needs, found, name, [inside]), kind)
        return self.select(under, below, self.select(over, above, within))

    def intrinsic(self, name: str, args: Sequence[Value], library: bool = True) -> Value:
        """An LLVM intrinsic, which may become a call of the C library."""
        args = self.together(*args)
        kind = args[0].type
        if self.needs.vectors is not None and name in BY_NAME and BY_NAME[name].libmvec:
            return self.library(name, args)
        if library:
            self.external(name, args[0].element)
        return self.call(f"llvm.{name}.{suffix(args[0])}", kind, args)

    def external(self, name: str, kind: str) -> str:
        """The name of the C library's function for a type."""
        name += "" if kind == "double" else "f"
        self.needs.externals.add(name)
        return name
