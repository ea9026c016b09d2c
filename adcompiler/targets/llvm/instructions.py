"""Writes LLVM's instructions and basic blocks: operations on values, conditions, loops, polls, and calls in
threads.

Kernels are lowered with it as an alternative to numba, which takes 2 ms per operation, and 0.3 s to start;
this takes microseconds. Semantics are numba's, instruction by instruction and bit for bit, except for
mathematical functions on vectors (`vectors.py`). Anything else raises `UnsupportedError`, and numba compiles
the kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_float
from math import nan

from adcompiler.loopir.intrinsics import BY_NAME, BY_TEXT, CASTS
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.llvm.libmvec import WIDEST, Set
from adcompiler.targets.llvm.limits import POLL_ELEMENTS, STRIP_ELEMENTS, STRIP_ITERATIONS
from adcompiler.targets.llvm.tables import BITS, COMPARISONS, FLOATS, INFINITIES, INTEGERS, RANKS, TYPES
from adcompiler.targets.llvm.values import Needs, Value, literal, suffix, typed, uniform
from adcompiler.targets.llvm.vectors import vector_call

NAN = """%nan_bits = call i64 asm "", "=r,0"(i64 9221120237041090560)
%nan_double = bitcast i64 %nan_bits to double
%nan_float = fptrunc double %nan_double to float"""
# An extremum of zeros of both signs may be either, as where elements are compared. Otherwise LLVM also asks
# for signs, which takes twice as long.
EITHER_ZERO = "nsz "
POLL = "adc_poll"  # the function that kernels poll (`polls.py`)
CONTEXT = "[5 x i64]"  # the words of a call
STOP, STATE = 1, 2  # the words that request the end of the call, and hold the saved thread state
OWN = "memory(argmem: readwrite, inaccessiblemem: readwrite)"  # a poll touches no array
ASK = f"""define internal i1 @ask(ptr %context) noinline cold {{
start:
  %poll = load ptr, ptr %context
  %none = icmp eq ptr %poll, null
  br i1 %none, label %alone, label %python
alone:
  ret i1 false
python:
  %ends = call i1 %poll(ptr %context) {OWN}
  ret i1 %ends
}}"""


# Runs a loop over blocks, here or as a parallel region; returns whether the call must end.
LAUNCHED = """define internal i1 @launched(ptr %share, ptr %data, i64 %blocks, i64 %launch, i64 %threads,
    ptr %context) noinline optsize {
start:
  %alone = icmp eq i64 %launch, 0
  %few = icmp slt i64 %blocks, 2
  %here = or i1 %alone, %few
  br i1 %here, label %one, label %many
one:
  %ends = call i1 %share(i64 0, i64 %blocks, ptr %data)
  br label %after
many:
  %region = inttoptr i64 %launch to ptr
  call void %region(ptr %share, ptr %data, i64 %blocks, i64 %threads, ptr %context)
  br label %after
after:
  %stop = getelementptr i64, ptr %context, i64 1
  %word = load atomic i64, ptr %stop monotonic, align 8
  %found = icmp ne i64 %word, 0
  ret i1 %found
}"""
WHOLE = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
HOLDS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
         "eq": operator.eq, "ne": operator.ne}  # fmt: skip


class Instructions:
    """The instructions of one function, in basic blocks. `stack` has its allocas, and `held` those that point
    to memory to be freed if the function gives up."""

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.lines: list[str] = []
        self.once: dict[str, Value] = {}  # the integers and addresses at hand, by instruction
        self.loaded: dict[str, Value] = {}  # the variables that the basic block has read or set, by place
        self.factors: dict[str, tuple[Value, Value]] = {}  # the factors of registers that are float products
        self.stack: list[str] = []
        self.block = "start"
        self.held: list[str] = []
        self.counts = self.asks = self.gives_up = False

    def emit(self, instruction: str, kind: str) -> Value:
        """A new register for the result of an instruction."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"{name} = {instruction}")
        return Value(name, kind)

    def shared(self, instruction: str, kind: str) -> Value:
        """A register for the result of integer arithmetic: the same one for the same instruction, where a
        block that is always run before has it."""
        found = self.once.get(instruction)
        if found is None:
            found = self.once[instruction] = self.emit(instruction, kind)
        return found

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

    # -- contraction (`loopir/transforms/pipeline.py`) ------

    def plus(self, x: Value, y: Value, flags: str = "") -> Value:
        """x + y of floats, rounded once if one of them is a product (`loopir/transforms/pipeline.py`)."""
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

    # -- operations ------------------------------------------------------------------------------

    def both(self, how: str, truths: Sequence[Value]) -> Value:
        """The conjunction or disjunction of conditions."""
        result, *others = self.together(*truths)
        neutral, final = ("true", "false") if how == "and" else ("false", "true")
        for other in others:
            if other.text == neutral or result.text == final:
                continue
            if result.text == neutral or other.text == final:
                result = other
            else:
                result = self.emit(f"{how} {result}, {other.text}", result.type)
        return result

    def unary(self, op: str, x: Value) -> Value:
        """An operator with one operand."""
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
        raise UnsupportedError(f"{op} of {x.type}")

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
        if x.type == "i64" and (known := folded(INTEGERS.get(op, ""), x, y)) is not None:
            return known
        if op == "-" and not self.factors.keys().isdisjoint((x.text, y.text)):
            return self.plus(x, self.negative(y))
        names = FLOATS if x.is_float else INTEGERS if x.element == "i64" else {}
        if op not in names:
            raise UnsupportedError(f"{op} of {x.type}")
        result = self.emit(f"{names[op]} {x}, {y.text}", x.type)
        if x.is_float and op == "*":
            self.factors[result.text] = x, y
        return result

    def indices(self, op: str, x: Value, y: Value) -> Value:
        """Operations on two unsigned numbers stay unsigned; numba converts mixed operands to floats."""
        if not (x.unsigned and y.unsigned and op in ("+", "-")):
            raise UnsupportedError(f"{op} of an index and a number")
        x, y = self.together(x, y)
        found = folded(INTEGERS[op], x, y) or self.emit(f"{INTEGERS[op]} {x}, {y.text}", x.type)
        return found._replace(unsigned=True)

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
        """Whether a value is a number."""
        return self.emit(f"icmp eq {x}, {literal(number, x.type).text}", x.typed("i1"))

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """A comparison; indices are compared with indices or constants only."""
        x, y = self.together(a, b)
        of_floats, of_integers, of_others = COMPARISONS[op]
        unsigned = a.unsigned or b.unsigned
        if unsigned and not all(v.unsigned or v.text.isdigit() for v in (a, b)):
            raise UnsupportedError(f"{op} of an index and a number")
        how = of_floats if x.is_float else of_others if x.element == "i1" or unsigned else of_integers
        if x.type == "i64":
            return self.test(how, x, y)
        test = "fcmp" if x.is_float else "icmp"
        return self.emit(f"{test} {how} {x}, {y.text}", x.typed("i1"))

    def test(self, how: str, x: Value, y: Value) -> Value:
        """A comparison of integers."""
        if x.is_literal and y.is_literal:
            a, b = (int(v.text) % 2**64 if how[0] == "u" else int(v.text) for v in (x, y))
            return literal(bool(HOLDS[how[-2:]](a, b)))
        return self.emit(f"icmp {how} {x}, {y.text}", "i1")

    def most(self, how: str, x: Value, y: Value) -> Value:
        """The larger or smaller of two integers: umax, umin or smin."""
        if x.is_literal and y.is_literal:
            a, b = (int(v.text) % 2**64 if how[0] == "u" else int(v.text) for v in (x, y))
            return x if (a > b if how == "umax" else a < b) else y
        return self.call(f"llvm.{how}.i64", "i64", [x, y])

    def select(self, guard: Value, then: Value, otherwise: Value) -> Value:
        """A select without a branch: neither side has an effect."""
        guard = self.cast(guard, "i1")
        x, y = (self.spread(v, max(v.lanes, guard.lanes)) for v in self.together(then, otherwise))
        if guard.is_literal:
            return x if guard.text == "true" else y

        def select(a: Value, b: Value) -> Value:
            return self.emit(f"select {guard}, {self.spread(a, x.lanes)}, {self.spread(b, x.lanes)}", x.type)

        return self.chosen(select, self.hidden(x), self.hidden(y))

    def hidden(self, value: Value) -> Value:
        """The value; a NaN is hidden from LLVM, which otherwise makes `nan if c else s + v` of
        `s + (nan if c else v)`, and does not vectorise that as a sum."""
        if value.lanes > 1 or value.text != literal(nan).text:
            return value
        self.stack += [NAN] * (NAN not in self.stack)
        return Value(f"%nan_{value.type}", value.type)

    def function(self, name: str, args: list[Value]) -> Value:
        """A call of a function in the tables."""
        match name, args:
            case _, [x] if name in CASTS:
                return self.cast(x, TYPES[CASTS[name]])
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
                x, y = self.together(x, y)
                return self.call(f"llvm.{extremum}.{suffix(x)}", x.type, [x, y], flags=EITHER_ZERO)
            case "max" | "min", [x, *others] if all(a.element == "i64" and not a.unsigned for a in args):
                for other in others:
                    x, y = self.together(x, other)
                    less, more = (x, y) if name == "min" else (y, x)
                    if x.type == "i64":
                        x = self.select(self.test("slt", less, more), x, y)
                        continue
                    x = self.select(self.emit(f"icmp slt {less}, {more.text}", x.typed("i1")), x, y)
                return x
            case "max" | "min", [x, y] if x.is_float or y.is_float:
                x, y = self.together(x, y)
                how = "ogt" if name == "max" else "olt"
                return self.select(self.emit(f"fcmp {how} {y}, {x.text}", x.typed("i1")), y, x)
            case "np.signbit", [x] if x.element == "double":
                bits = self.emit(f"bitcast {x} to {x.typed('i64')}", x.typed("i64"))
                return self.emit(f"icmp slt {bits}, {literal(0, bits.type).text}", x.typed("i1"))
            case "ticks", []:
                return self.call("llvm.readcyclecounter", "i64", [])
            case "select", [guard, then, otherwise]:
                return self.select(guard, then, otherwise)
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
            case "rsqrt", [_, root]:  # `loopir/transforms/versioning.py`
                return self.binary("/", literal(1.0, root.type), root)
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
        function = BY_TEXT.get(name)
        if function is not None and all(a.is_float for a in args):
            if function.scalar == "intrinsic":
                return self.intrinsic(function.name, args)
            if function.scalar == "library":
                return self.library(function.name, args)
        raise UnsupportedError(f"{name} of {', '.join(a.type for a in args)}")

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

    def intrinsic(self, name: str, args: Sequence[Value]) -> Value:
        """An LLVM intrinsic, which may become a call of the C library."""
        args = self.together(*args)
        kind = args[0].type
        if self.needs.vectors is not None and name in BY_NAME and BY_NAME[name].libmvec:
            return self.library(name, args)
        self.external(name, args[0].element)
        return self.call(f"llvm.{name}.{suffix(args[0])}", kind, args)

    def external(self, name: str, kind: str) -> str:
        """The name of the C library's function for a type."""
        name += "" if kind == "double" else "f"
        self.needs.externals.add(name)
        return name

    # -- basic blocks ----------------------------------------------------------------------------

    def definition(self, head: str, end: str, otherwise: str = "") -> str:
        """The function's text; it ends with `otherwise` if it gives up."""
        self.lines.append(end)
        if self.gives_up:
            self.begin("given_up")
            for name in self.held:
                self.call("PyMem_RawFree", "void", [self.emit(f"load ptr, ptr %{name}", "ptr")])
            self.lines.append(otherwise or end)
        self.stack += [f"%{name} = alloca ptr\nstore ptr null, ptr %{name}" for name in self.held]
        self.stack += [f"%fuel = alloca i64\nstore i64 {POLL_ELEMENTS}, ptr %fuel"] * self.counts
        head = f"define {head}{self.needs.attributes} {{"
        return "\n".join([head, "start:", *self.stack, *self.lines, "}"])

    def label(self) -> str:
        """A new name for a basic block."""
        return f"block{len(self.lines)}"

    def begin(self, label: str, known: dict[str, Value] | None = None) -> None:
        """Start a basic block, in which instructions of blocks that come before it are `known`."""
        self.once = dict(known or {})
        self.loaded.clear()
        self.lines.append(f"{label}:")
        self.block = label

    def product(self, x: Value, y: Value) -> Value:
        """The product of two amounts, saturated on overflow."""
        if "1" in (x.text, y.text):
            return y if x.text == "1" else x
        if x.is_literal and y.is_literal:
            whole = (int(x.text) % 2**64) * (int(y.text) % 2**64)
            return literal(whole if whole < 2**63 else -1)
        pair = "{ i64, i1 }"
        found = self.call("llvm.umul.with.overflow.i64", pair, [x, y]).text
        much = self.emit(f"extractvalue {pair} {found}, 1", "i1")
        return self.select(much, literal(-1), self.emit(f"extractvalue {pair} {found}, 0", "i64"))

    @contextmanager
    def when(self, guard: Value) -> Iterator[None]:
        """Run the body only if `guard` holds."""
        if guard.text == "true":
            yield
            return
        inside, after, known = f"{self.label()}_then", f"{self.label()}_after", dict(self.once)
        self.lines.append(f"br {guard}, label %{inside}, label %{after}")
        self.begin(inside, known)
        yield
        self.lines.append(f"br label %{after}")
        self.begin(after, known)

    @contextmanager
    def iterations(self, first: Value, stop: Value, hint: str = "", step: int | str = 1) -> Iterator[Value]:
        """A loop from `first` to before `stop`, and its iteration; unsigned if the bounds are. `hint` is
        metadata for LLVM."""
        less, iteration = "ult" if first.unsigned else "slt", f"%iteration{len(self.lines)}"
        with self.when(self.test(less, first, stop)):

            def following() -> tuple[str, Value]:
                how = "nuw" if first.unsigned else "nsw"
                new = self.emit(f"add {how} i64 {iteration}, {step}", "i64").text
                return new, self.emit(f"icmp {less} i64 {new}, {stop.text}", "i1")

            with self.repeated(iteration, first, following, hint):
                yield Value(iteration, "i64", first.unsigned)

    @contextmanager
    def one_of(self, chosen: Value) -> Iterator[Value]:
        """Iterate over the numbers of the selected lanes."""
        bits = self.emit(f"bitcast {chosen} to i{chosen.lanes}", f"i{chosen.lanes}")
        first = self.emit(f"zext {bits} to i64", "i64")
        with self.when(self.emit(f"icmp ne {first}, 0", "i1")):
            left = f"%left{len(self.lines)}"

            def following() -> tuple[str, Value]:
                less = self.emit(f"add i64 {left}, -1", "i64").text
                new = self.emit(f"and i64 {left}, {less}", "i64").text
                return new, self.emit(f"icmp ne i64 {new}, 0", "i1")

            with self.repeated(left, first, following):
                yield self.call("llvm.cttz.i64", "i64", [Value(left, "i64"), Value("true", "i1")])

    @contextmanager
    def repeated(
        self, variable: str, first: Value, following: Callable[[], tuple[str, Value]], hint: str = ""
    ) -> Iterator[None]:
        """Repeat the body for each value of a variable: `following` writes the next value, and whether there
        is one."""
        before, inside, known = self.block, self.label(), dict(self.once)
        self.lines.append(f"br label %{inside}")
        self.begin(inside, known)
        at = len(self.lines)
        self.lines.append("")  # the variable's phi, completed below
        yield
        new, more = following()
        after = self.label()
        self.lines[at] = f"{variable} = phi i64 [ {first.text}, %{before} ], [ {new}, %{self.block} ]"
        self.lines.append(f"br {more}, label %{inside}, label %{after}{hint}")
        self.begin(after, known)

    # -- polls ---------------------------------------------------------------------------------

    def spend(self, amount: Value | int) -> Value:
        """Count work until the next poll; returns how much is left."""
        self.counts = True
        left = self.emit("load i64, ptr %fuel", "i64")
        less = self.emit(f"sub {left}, {amount.text if isinstance(amount, Value) else amount}", "i64")
        self.lines.append(f"store {less}, ptr %fuel")
        return less

    def poll_after(self, amount: Value | int) -> None:
        """Count work; after enough since the last poll, ask whether the call must end, and give up if so."""
        self.asks = True
        left = self.spend(amount)
        with self.when(self.emit(f"icmp slt {left}, 0", "i1")):
            self.lines.append(f"store i64 {POLL_ELEMENTS}, ptr %fuel")
            self.give_up(self.emit(f"call i1 @ask(ptr %context) {OWN}", "i1"))

    def unless_stopped(self) -> None:
        """Give up if the call must end, because a callee has given up."""
        word = self.emit(f"load atomic i64, ptr {self.slot('%context', STOP)} monotonic, align 8", "i64")
        self.give_up(self.emit(f"icmp ne {word}, 0", "i1"))

    def give_up(self, guard: Value) -> None:
        """Free the function's memory and return, if `guard` holds."""
        self.gives_up = True
        on = f"{self.label()}_on"
        self.lines.append(f"br {guard}, label %given_up, label %{on}")
        self.begin(on, self.once)

    @contextmanager
    def strips(
        self,
        first: Value,
        stop: Value,
        weight: Value,
        fewest: int = STRIP_ITERATIONS,
        own: int | None = None,
    ) -> Iterator[tuple[Value, Value]]:
        """A loop in strips, with a poll after each; yields the start and end of a strip. `weight` is the
        number of elements per iteration. Strips depend on nothing else, so the order of sums is fixed. They
        have at least `fewest` iterations: 1, or whole vectors. Where inner loops poll as well, a strip counts
        the elements that are its `own` in an iteration: a poll comes after enough of them."""
        known = all(n.text.isdigit() for n in (weight, first, stop))
        if known and int(weight.text) * (int(stop.text) - int(first.text)) <= STRIP_ELEMENTS:
            yield first, stop
            return
        if weight.is_literal and int(weight.text) > 0:
            often = literal(STRIP_ELEMENTS // int(weight.text))
        else:
            often = self.emit(f"udiv i64 {STRIP_ELEMENTS}, {weight.text}", "i64")
        step = self.most("umax", often, literal(fewest))
        whole = -min(fewest, STRIP_ITERATIONS)
        step = (
            literal(int(step.text) & whole) if step.is_literal else self.emit(f"and {step}, {whole}", "i64")
        )
        with self.tile(first, stop, step) as (begin, end):
            yield begin, end
            count = self.emit(f"sub {end}, {begin.text}", "i64")
            if own is None:
                self.poll_after(self.most("umin", self.product(count, weight), literal(POLL_ELEMENTS)))
            else:
                self.poll_after(self.product(count, literal(own)))

    @contextmanager
    def tile(self, first: Value, stop: Value, step: Value) -> Iterator[tuple[Value, Value]]:
        """A loop over parts of `step` iterations, the last one shorter; yields the start and end of a
        part."""
        least = "umin" if first.unsigned else "smin"
        with self.iterations(first, stop, step=step.text) as begin:
            left = self.emit(f"sub {stop}, {begin.text}", "i64")
            count = self.most(least, left, step)
            yield begin, self.emit(f"add {begin}, {count.text}", "i64")._replace(unsigned=first.unsigned)

    # -- threads -------------------------------------------------------------------------------

    def load(self, base: str, k: int, kind: str) -> Value:
        """The value in slot number `k` at an address."""
        return self.emit(f"load {kind}, ptr {self.slot(base, k)}", kind)

    def slot(self, base: str, k: int) -> str:
        """The address of a word."""
        return self.shared(f"getelementptr i64, ptr {base}, i64 {k}", "ptr").text

    def launch(self, name: str, parts: Sequence[Value], iterations: Value) -> None:
        """Call the function of a loop over blocks: directly, or as a parallel region of the pool (`pool.py`)
        if there are several blocks. Its variables are passed in slots."""
        if len(parts) == 2:  # the words and the context, as for other such loops
            slots = "%slots"
            if (made := f"{slots} = alloca [2 x i64]") not in self.stack:
                self.stack += [made, f"store {parts[0]}, ptr {slots}"]
                self.stack += [
                    f"{slots}1 = getelementptr i64, ptr {slots}, i64 1",
                    f"store {parts[1]}, ptr {slots}1",
                ]
        else:
            slots = f"%slots_{name}"
            self.stack.append(f"{slots} = alloca [{len(parts)} x i64]")
            for k, value in enumerate(parts):
                self.lines.append(f"store {value}, ptr {self.slot(slots, k)}")
        self.needs.declared["launched"] = LAUNCHED
        given = f"ptr @{name}, ptr {slots}, {iterations}, i64 %launch, i64 %threads, ptr %context"
        self.give_up(self.emit(f"call i1 @launched({given})", "i1"))


def folded(how: str, x: Value, y: Value) -> Value | None:
    """The value of integer arithmetic, if it is known or that of one operand."""
    if x.is_literal and y.is_literal and how in WHOLE:
        number = WHOLE[how](int(x.text), int(y.text))
        return literal((number + 2**63) % 2**64 - 2**63)
    if y.text == "0" and how in ("add", "sub"):
        return x
    if y.text == "1" and how == "mul":
        return x
    if x.text == {"add": "0", "mul": "1"}.get(how):
        return y
    return None
