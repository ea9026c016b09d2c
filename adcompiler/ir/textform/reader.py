"""Reads the text form of a program; `adcompiler.ir.textform.printer` describes it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn, TypeVar

from adcompiler.errors import Error, LimitError, OutOfRangeError, ParseError, ShapeError, Source, Span
from adcompiler.ir.limits import MOST_DEPTH
from adcompiler.ir.loop import Loop
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Check,
    Contraction,
    Element,
    Func,
    Index,
    Input,
    Map,
    Node,
    Put,
    Read,
    Reduce,
    Select,
    Shape,
    Size,
    const,
)
from adcompiler.ir.ruled import Ruled, slots_of
from adcompiler.ir.textform.notation import (
    ARRAY_NAME,
    BINARY,
    COMPARE,
    FUNC_NAME,
    IDENTIFIER,
    NUMBER,
    OR,
    PREFIX,
    apply_dtype,
    read_constant,
)
from adcompiler.ir.types import DTYPES, Dtype

# -- elements ----------------------------------------------------------------------------------------
# Reads the elements of the text form.
#
# Operators are parsed by precedence: only brackets, signs and `**` nest, and no deeper than `DEEPEST`.


INFIX: Final = {op.symbol: (name, op) for name, op in BINARY.items()}
SIGNS: Final = {op.symbol.strip(): (name, op) for name, op in PREFIX.items()}
COMPARING: Final = frozenset(op.symbol for op in BINARY.values() if op.level == COMPARE)
TRUTH: Final = {"true": const(True, "bool"), "false": const(False, "bool")}
T = TypeVar("T")

_QUOTED = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-f]{4}))*"'  # JSON's strings
_TOKEN = re.compile(
    rf"(?P<space>[ \t\r]+|\#[^\n]*)|(?P<line>\n)|(?P<func>@(?:{FUNC_NAME}|{_QUOTED}))"
    rf"|(?P<array>%(?:{ARRAY_NAME}|{_QUOTED}))|(?P<number>{NUMBER})|(?P<quoted>{_QUOTED})"
    rf"|(?P<name>{IDENTIFIER}(?:\.{IDENTIFIER})?)"
    r"|(?P<symbol>\*\*|->|\+=|[<>=!]=|[-+*/<>=(){}\[\],:|?])|(?P<bad>.)"
)


class Token(NamedTuple):
    """A token: its kind is the name of its group in the pattern, or `end`."""

    kind: str
    text: str
    start: int

    @property
    def name(self) -> str:
        """The name without sigil and quotes."""
        bare = self.text[1:] if self.kind in ("func", "array") else self.text
        return str(json.loads(bare)) if bare.startswith('"') else bare


def tokens(text: str) -> list[Token]:
    """The tokens of `text`; a line ends only outside parentheses and brackets."""
    found: list[Token] = []
    depth = 0
    for match in _TOKEN.finditer(text):
        token = Token(match.lastgroup or "", match[0], match.start())
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if token.kind != "space" and not (token.kind == "line" and depth):
            found.append(token)
    return [*found, Token("end", "", len(text))]


class Cursor:
    """A position among the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.source = Source(text, "<ir>")
        self.tokens = tokens(text)
        self.at = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.at]

    def fail(self, cause: str, token: Token | None = None) -> NoReturn:
        """Raise a `ParseError` at `token`, or else at the next one."""
        token = token or self.token
        before = self.source.text[: token.start].split("\n")
        line, column = len(before), len(before[-1]) + 1
        span = Span(line, column, line, column + max(1, len(token.text)))
        raise ParseError(cause, source=self.source, span=span)

    def step(self) -> Token:
        """The next token, which is stepped over."""
        token = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, text: str) -> bool:
        """Step over the next token if it reads `text`."""
        found = self.token.text == text
        if found:
            self.step()
        return found

    def expect(self, text: str) -> None:
        """Step over the next token, which must read `text`."""
        if not self.accept(text):
            self.fail(f"expected {text!r}, not {self.token.text!r}")

    def take(self, *kinds: str) -> Token:
        """Step over the next token, which must be of one of `kinds`."""
        if self.token.kind not in kinds:
            self.fail(f"expected a token of kind {kinds[0]}, not {self.token.text!r}")
        return self.step()

    def lines(self) -> None:
        """Step over ends of lines."""
        while self.token.kind == "line":
            self.step()

    def items(self, item: Callable[[], T], *ends: str) -> tuple[T, ...]:
        """Items behind commas up to one of `ends`, which is stepped over."""
        found: list[T] = []
        while self.token.text not in ends:
            found.append(item())
            if self.token.text not in ends:
                self.expect(",")
        self.step()
        return tuple(found)


class ElementReader(Cursor):
    """Reads elements; `scope` and `arrays` hold what the names that were read so far mean."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.scope: dict[str, Element] = {}
        self.arrays: dict[str, Array] = {}

    def expression(self, level: int = OR) -> Element:
        """Operands joined by operators that bind at least as tightly as `level`."""
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise LimitError(f"the text of an element nests deeper than {MOST_DEPTH}")
        left = self.operand(level)
        while self.token.text in INFIX and INFIX[self.token.text][1].level >= level:
            token = self.step()
            name, op = INFIX[token.text]
            left = self.apply(token, name, (left, self.expression(op.right)))
            if op.level == COMPARE and self.token.text in COMPARING:
                self.fail("comparisons do not chain here")
        self.depth -= 1
        return left

    def operand(self, level: int) -> Element:
        """What stands before or between operators."""
        token = self.step()
        if token.text == "(":
            element = self.expression()
            self.expect(")")
            return element
        if token.text in SIGNS:
            return self.sign(token, level)
        if token.kind == "number":
            return self.number(token, token.text)
        if token.kind == "array":
            array = self.array(token)
            return Read(array, self.items(self.expression, "]") if self.accept("[") else ())
        if token.kind == "name" and self.accept("("):
            return self.call(token)
        return TRUTH[token.text] if token.text in TRUTH else self.variable(token)

    def sign(self, token: Token, level: int) -> Element:
        """`not x`, `-x`, or the constant of a sign that touches its number."""
        if self.token.kind == "number" and self.token.start == token.start + 1:
            return self.number(token, "-" + self.step().text)
        name, op = SIGNS[token.text]
        if op.level < level:
            self.fail(f"{token.text!r} needs parentheses here", token)
        return self.apply(token, name, (self.expression(op.right),))

    def number(self, token: Token, text: str) -> Element:
        """A constant."""
        try:
            return read_constant(text)
        except (ValueError, OverflowError):
            self.fail("this is not a constant", token)

    def call(self, token: Token) -> Element:
        """`op(args)`, `op.dtype(args)` or `select(guard, then, otherwise)`"""
        args = self.items(self.expression, ")")
        if token.text == "select":
            if len(args) != 3:
                self.fail("select takes a guard and two branches", token)
            return Select(args)
        op, _, dtype = token.text.partition(".")
        return self.apply(token, op, args, self.dtype(token, dtype) if dtype else None)

    def apply(self, token: Token, op: str, args: tuple[Element, ...], dtype: Dtype | None = None) -> Element:
        """A primitive of arguments."""
        dtype = dtype or apply_dtype(op, args)
        if dtype is None:
            self.fail(f"{op} does not say its type", token)
        return Apply(op, args, dtype)

    def dtype(self, token: Token, name: str) -> Dtype:
        """A dtype."""
        if name not in DTYPES:
            self.fail(f"{name!r} is not a type", token)
        return DTYPES[DTYPES.index(name)]

    def array(self, token: Token) -> Array:
        """The array of a name."""
        if token.name not in self.arrays:
            self.fail(f"{token.text} is not defined here", token)
        return self.arrays[token.name]

    def variable(self, token: Token) -> Element:
        """An axis, a size, or an element with a name."""
        if token.kind not in ("name", "quoted") or token.name not in self.scope:
            self.fail(f"{token.text!r} is not defined here", token)
        return self.scope[token.name]


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
        `%base with (domain) body`, `call op(arrays): type` or a rule"""
        self.scope = dict(self.sizes)
        if self.token.kind == "array":
            return self.put(self.array(self.step()))
        token = self.take("name")
        if token.text == "array":
            return Map(self.domain()[0], *self.body())
        if token.text == "reduce":
            return Reduce(self.take("name").text, *self.domain(), *self.body())
        if token.text == "contract":
            shape, reduced = self.domain()
            (body,) = self.body()
            return Contraction(shape, reduced, *body.args)
        if token.text == "rule":
            return self.rule()
        if token.text == "accumulate":
            self.expect("[")
            shape = self.items(self.expression, "]")
            domain, _ = self.domain()
            *indices, body = self.body("+=")
            return Accumulate(shape, domain, tuple(indices), body)
        if token.text == "call":
            op = self.take("name").text
            self.expect("(")
            operands = self.items(lambda: self.array(self.take("array")), ")")
            self.expect(":")
            return Call(op, operands, *self.array_type())
        self.fail(f"expected array, reduce, accumulate or call, not {token.text!r}", token)

    def put(self, base: Array) -> Put:
        """`with (domain) { [indices] = value if guard }`, or with `+=`, behind the array that is changed"""
        self.expect("with")
        domain, _ = self.domain()
        indices, op = self.places("=", "+=")
        value = self.expression()
        guard = self.expression() if self.accept("if") else TRUTH["true"]
        self.close()
        return Put(base, "add" if op == "+=" else "set", domain, indices, guard, value)

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

    def body(self, *operators: str) -> tuple[Element, ...]:
        """`{ element }` or `{ [indices] += element }`, behind lines `name = element`"""
        indices, _ = self.places(*operators)
        element = self.expression()
        self.close()
        return (*indices, element)

    def places(self, *operators: str) -> tuple[tuple[Element, ...], str]:
        """`{`, lines `name = element`, and if there are operators `[indices]` and one of them"""
        self.expect("{")
        self.lines()
        while self.token.kind in ("name", "quoted") and self.tokens[self.at + 1].text == "=":
            self.variable_line()
        if not operators:
            return (), ""
        self.expect("[")
        indices = self.items(self.expression, "]")
        if self.token.text not in operators:
            self.fail(f"expected {' or '.join(operators)}, not {self.token.text!r}")
        return indices, self.step().text

    def close(self) -> None:
        """`}` behind the last element of a body"""
        self.lines()
        self.expect("}")

    def variable_line(self) -> None:
        """`name = element`; names that the printer made up are not kept"""
        name = self.step().name
        self.expect("=")
        self.scope[name] = element = self.expression()
        if not re.fullmatch(r"u\d+", name):
            self.names.setdefault(element, name)
        self.take("line")
        self.lines()
