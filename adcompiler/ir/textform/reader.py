"""Reads the text form of a program back; `adcompiler.ir.textform.printer` says what it looks like."""

from __future__ import annotations

import re

from adcompiler.errors import Error, OutOfRangeError, ShapeError
from adcompiler.ir.call import Call
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Check,
    Element,
    Func,
    Index,
    Input,
    Map,
    Node,
    Reduce,
    Shape,
    Size,
)
from adcompiler.ir.ruled import Ruled, slots_of
from adcompiler.ir.textform.element_reader import ElementReader
from adcompiler.ir.textform.tokens import Token
from adcompiler.ir.types import Dtype


def parse_func(text: str) -> Func:
    """The program that `text` shows; a `ParseError` tells what does not fit."""
    return _Reader(text).func()


class _Reader(ElementReader):
    """Reads a program."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.sizes: dict[str, Element] = {}
        self.new_sizes = False
        self.names: dict[Node, str] = {}
        self.checks: list[Check] = []
        self.counts: list[tuple[int, Token]] = []

    def func(self) -> Func:
        """`func @name<n, m>(inputs) -> (results) { statements }`"""
        self.lines()
        self.expect("func")
        name = self.take("func").name
        inputs = self.inputs()
        results_at = self.at  # read last, when the arrays they name are known
        while self.token.text not in ("{", ""):
            self.step()
        self.statements()
        self.at, self.scope = results_at, self.sizes
        self.expect("->")
        self.expect("(")
        results = self.items(self.result, ")")
        positions = {array: k for k, array in enumerate(inputs)}
        return Func(
            name,
            inputs,
            tuple(list(self.arrays)[: len(inputs)]),
            tuple(array for array, _ in results),
            tuple(name for _, name in results),
            tuple(self.sizes),
            self.names,
            checks=tuple(self.checks),
            counts=tuple((k, positions[self.array(token)]) for k, token in self.counts),  # type: ignore[index]
        )

    def inputs(self) -> tuple[Input, ...]:
        """`<n, m>(%a: f64[n], %b: f64[m])`, where the sizes may be left out"""
        self.scope = self.sizes
        self.new_sizes = True
        if self.accept("<"):
            self.items(self.size, ">")
            self.new_sizes = False
        self.expect("(")
        inputs = self.items(self.input, ")")
        self.new_sizes = False
        return inputs

    def size(self) -> None:
        """`n`, or `n = %count` where it is the value of an input"""
        self.variable(self.step())
        if self.accept("="):
            self.counts.append((len(self.sizes) - 1, self.take("array")))

    def variable(self, token: Token) -> Element:
        """The element of that name; in the inputs' types a new name is the next size."""
        if self.new_sizes and token.kind in ("name", "quoted"):
            return self.sizes.setdefault(token.name, Size(len(self.sizes)))
        return super().variable(token)

    def input(self) -> Input:
        """`%name: type`"""
        token = self.take("array")
        self.expect(":")
        array = Input(len(self.arrays), *self.array_type())
        self.define(token, array)
        return array

    def result(self) -> tuple[Array, str]:
        """`%name: type` or `name = %array: type`"""
        token = self.take("array", "name", "quoted")
        if token.kind != "array":
            self.expect("=")
        array = self.array(token if token.kind == "array" else self.take("array"))
        self.expect(":")
        start = self.token
        if self.array_type(array.shape) != (array.dtype, array.shape):
            self.fail("this is not the type of the array", start)
        return array, token.name

    def array_type(self, known: Shape = ()) -> tuple[Dtype, Shape]:
        """`f64` or `f64[n, 3]`; a length `?` is that of `known`."""
        token = self.take("name")
        lengths = iter(known)

        def length() -> Element:
            expected = next(lengths, None)
            return expected if expected is not None and self.accept("?") else self.expression()

        return self.dtype(token, token.text), self.items(length, "]") if self.accept("[") else ()

    def define(self, token: Token, array: Array) -> None:
        if token.name in self.arrays:
            self.fail(f"{token.text} is defined twice", token)
        self.arrays[token.name] = array
        if not token.name.isdigit():
            self.names.setdefault(array, token.name)

    def statements(self) -> None:
        """`{ %name = array ... }`, a line or more for each array"""
        self.expect("{")
        self.lines()
        while not self.accept("}"):
            if self.token.text == "check":
                self.checks.append(self.check())
            else:
                self.definition()
            if self.token.text != "}":
                self.take("line")
                self.lines()
        self.lines()
        self.take("end")

    def definition(self) -> None:
        """`%name = array ...`, or the names of all that a loop gives"""
        tokens = [self.take("array")]
        while self.accept(","):
            tokens.append(self.take("array"))
        self.expect("=")
        found = self.loop().items if self.token.text == "loop" else (self.statement(),)
        if len(found) != len(tokens):
            self.fail(f"{len(found)} arrays for {len(tokens)} names", tokens[0])
        for token, array in zip(tokens, found, strict=True):
            self.define(token, array)

    def loop(self) -> Loop:
        """`loop backward (%t < n) (%c = %p0, %x = row %xs, %w = all %ws) { body }`"""
        self.expect("loop")
        backward = self.accept("backward")
        self.scope = self.sizes
        self.expect("(")
        step = self.take("array")
        length = self.expression() if self.accept("<") else None
        self.expect(")")
        self.expect("(")
        given = self.items(self.given, ")")
        parts = {kind: tuple(a for k, _, a in given if k == kind) for kind in ("", "row", "all")}
        inits, scanned, consts = parts[""], parts["row"], parts["all"]
        outer, names = self.arrays, self.names
        self.arrays, self.names = {}, {}
        slots = Loop(length, inits, scanned, consts, (), (), None, backward).slots
        ordered = [token for kind in ("", "row", "all") for k, token, _ in given if k == kind]
        for token, slot in zip((step, *ordered), slots, strict=True):
            self.define(token, slot)
        results, outs, tests = self.lines_of("next", "out", "while")
        self.arrays, self.names = outer, names | {n: v for n, v in self.names.items() if n not in slots}
        test = tests[0] if tests else None
        return Loop(length, inits, scanned, consts, results, outs, test, backward)

    def given(self) -> tuple[str, Token, Array]:
        """`%slot = %array`, `%slot = row %array` or `%slot = all %array`"""
        token = self.take("array")
        self.expect("=")
        kind = self.step().text if self.token.text in ("row", "all") else ""
        return kind, token, self.array(self.take("array"))

    def rule(self) -> Ruled:
        """`rule %value (%x = %a, %r, %dr) { body }`"""
        value = self.array(self.take("array"))
        self.expect("(")
        given = self.items(self.rule_input, ")")
        args = tuple(a for _, a in given if a is not None)
        outer, names = self.arrays, self.names
        self.arrays, self.names = {}, {}
        for (token, _), slot in zip(given, slots_of(value, args), strict=True):
            self.define(token, slot)
        (pulled,) = self.lines_of("cotangents")
        self.arrays, self.names = outer, names
        return Ruled(value, args, pulled)

    def rule_input(self) -> tuple[Token, Array | None]:
        """`%x = %array`, or the name of the result or its cotangent"""
        token = self.take("array")
        return token, self.array(self.take("array")) if self.accept("=") else None

    def lines_of(self, *words: str) -> tuple[tuple[Array, ...], ...]:
        """`{ statements`, then lines that begin with `words`, with what they name, and `}`"""
        self.expect("{")
        self.lines()
        while self.token.kind == "array":
            self.definition()
            self.lines()
        found: dict[str, tuple[Array, ...]] = dict.fromkeys(words, ())
        while self.token.text in found:
            word = self.step().text
            arrays = [self.array(self.take("array"))]
            while self.accept(","):
                arrays.append(self.array(self.take("array")))
            found[word] = tuple(arrays)
            self.lines()
        self.expect("}")
        return tuple(found.values())

    def check(self) -> Check:
        """`check %holds "cause" "remedy"`, or `check shape ...`"""
        self.expect("check")
        error: type[Error] = ShapeError if self.accept("shape") else OutOfRangeError
        holds = self.array(self.take("array"))
        return Check(holds, self.take("quoted").name, self.take("quoted").name, error=error)

    def statement(self) -> Array:
        """`array (domain) body`, `reduce op (domain) body`, `accumulate [shape] (domain) body`,
        `call op(arrays): type` or a rule"""
        self.scope = dict(self.sizes)
        token = self.take("name")
        if token.text == "array":
            return Map(self.domain()[0], *self.body())
        if token.text == "reduce":
            return Reduce(self.take("name").text, *self.domain(), *self.body())
        if token.text == "rule":
            return self.rule()
        if token.text == "accumulate":
            self.expect("[")
            shape = self.items(self.expression, "]")
            domain, _ = self.domain()
            *indices, body = self.body()
            return Accumulate(shape, domain, tuple(indices), body)
        if token.text == "call":
            op = self.take("name").text
            self.expect("(")
            operands = self.items(lambda: self.array(self.take("array")), ")")
            self.expect(":")
            return Call(op, operands, *self.array_type())
        self.fail(f"expected array, reduce, accumulate or call, not {token.text!r}", token)

    def domain(self) -> tuple[Shape, Shape]:
        """`(i < n | j < m)`: the lengths before and behind the bar; the axes come into scope."""
        axes: dict[str, Element] = {}

        def axis() -> Element:
            axes[self.take("name").text] = Index(len(axes))
            self.expect("<")
            return self.expression()

        self.expect("(")
        kept = self.items(axis, "|", ")")
        barred = self.tokens[self.at - 1].text == "|"
        reduced = self.items(axis, ")") if barred else ()
        self.scope |= axes
        return kept, reduced

    def body(self) -> tuple[Element, ...]:
        """`{ element }` or `{ [indices] += element }`, behind lines `name = element`"""
        self.expect("{")
        self.lines()
        while self.token.kind in ("name", "quoted") and self.tokens[self.at + 1].text == "=":
            self.variable_line()
        indices: tuple[Element, ...] = ()
        if self.accept("["):
            indices = self.items(self.expression, "]")
            self.expect("+=")
        element = self.expression()
        self.lines()
        self.expect("}")
        return (*indices, element)

    def variable_line(self) -> None:
        """`name = element`; names that the printer made up are not kept"""
        name = self.step().name
        self.expect("=")
        self.scope[name] = element = self.expression()
        if not re.fullmatch(r"u\d+", name):
            self.names.setdefault(element, name)
        self.take("line")
        self.lines()
