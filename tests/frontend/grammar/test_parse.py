"""The parser agrees with Python's own: the same structure, the same precedence, the same places."""

from __future__ import annotations

import ast
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adcompiler.errors import ParseError, Span
from adcompiler.frontend.grammar import parser_table as table
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.parse import parse, parse_expression

# ---- Both trees, written in the same way: nested tuples, and the text of every node in the same order ----

OPERATORS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**",
    "MatMult": "@", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "LShift": "<<", "RShift": ">>",
    "UAdd": "+", "USub": "-", "Invert": "~", "Not": "not", "And": "and", "Or": "or",
    "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=",
}  # fmt: skip


def ours(node: Any, places: list[Any]) -> Any:
    if isinstance(node, tuple):
        return tuple(ours(n, places) for n in node)
    if not isinstance(node, tree.Tree):
        return node
    if isinstance(node, tree.Expression):
        places.append((type(node).__name__, node.span))
    match node:
        case tree.Number(value=value) | tree.Text(value=value):
            return "constant", type(value), repr(value)
        case tree.Name(id=name):
            return name
        case tree.Bare(value=value) | tree.Return(value=value):
            return type(node).__name__, ours(value, places)
        case tree.Sequence(kind=kind, items=items):
            return kind, *ours(items, places)
        case tree.Subscript(value=value, indices=(tree.Sequence(kind="tuple", items=(_, *_) as indices),)):
            return "index", ours(value, places), *ours(indices, places)
        case tree.Subscript(value=value, indices=indices):
            return "index", ours(value, places), *ours(indices, places)
        case tree.Ternary():
            return "ternary", *(ours(n, places) for n in (node.test, node.then, node.otherwise))
        case tree.Parameter():
            return "parameter", node.name, ours(node.annotation, [])
        case tree.Call():
            function, arguments = ours(node.function, places), ours(node.arguments, places)
            return "call", function, arguments, ours(node.keywords, places)
    fields = [getattr(node, f) for f in type(node).__dataclass_fields__ if f not in ("span", "bound")]
    return type(node).__name__.lower(), *(ours(f, places) for f in fields)


def pythons(node: Any, places: list[Any]) -> Any:
    def below(*parts: Any) -> tuple[Any, ...]:
        return tuple(pythons(part, places) for part in parts)

    if isinstance(node, list | tuple):
        return below(*node)
    if isinstance(node, ast.expr):
        span = Span(node.lineno, node.col_offset + 1, node.end_lineno or 0, (node.end_col_offset or 0) + 1)
        places.append((type(node).__name__, span))
    symbol = OPERATORS.get(type(getattr(node, "op", None)).__name__, "")
    match node:
        case ast.Constant(value=bool() | None):
            return str(node.value)
        case ast.Constant(value=int() | float() | str()):
            return "constant", type(node.value), repr(node.value)
        case ast.Name():
            return node.id
        case ast.UnaryOp():
            return "unary", symbol, *below(node.operand)
        case ast.BinOp():
            return "binary", symbol, *below(node.left, node.right)
        case ast.BoolOp():
            return "boolean", symbol, *below(node.values)
        case ast.Compare():
            ops = tuple(OPERATORS[type(op).__name__] for op in node.ops)
            return "compare", ops, *below([node.left, *node.comparators])
        case ast.IfExp():
            return "ternary", *below(node.test, node.body, node.orelse)
        case ast.Attribute():
            return "attribute", *below(node.value), node.attr
        case ast.Call(func=ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript()):
            return (
                "call",
                *below(node.func, node.args),
                tuple((k.arg, *below(k.value)) for k in node.keywords),
            )
        case ast.Subscript(slice=ast.Tuple() as index) if index.elts:
            return "index", *below(node.value), *below(*index.elts)
        case ast.Subscript():
            return "index", *below(node.value, node.slice)
        case ast.Slice():
            return "slice", *(
                None if n is None else pythons(n, places) for n in (node.lower, node.upper, node.step)
            )
        case ast.List() | ast.Tuple():
            return type(node).__name__.lower(), *below(*node.elts)
        case ast.ListComp() | ast.GeneratorExp():
            kind = "list" if isinstance(node, ast.ListComp) else "generator"
            return "comprehension", kind, *below(node.elt, node.generators)
        case ast.comprehension():
            targets = [n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)]
            return "clause", tuple(targets), *below(node.iter, node.ifs)
        case ast.Assign():
            return "assign", *below(node.targets, node.value)
        case ast.AugAssign():
            return "augmented", *below(node.target), symbol, *below(node.value)
        case ast.Expr():
            return "Bare", *below(node.value)
        case ast.Return():
            return "Return", *below(node.value)
        case ast.If():
            return "if", *below(node.test, node.body, node.orelse)
        case ast.For(orelse=[]):
            return "for", *below(node.target, node.iter, node.body)
        case ast.While(orelse=[]):
            return "while", *below(node.test, node.body)
        case ast.FunctionDef():
            docstring = ast.get_docstring(node, clean=False)
            body = node.body[1:] if docstring else node.body
            parameters, decorators = below(*node.args.args), below(*node.decorator_list)
            return "def", node.name, parameters, below(*body), docstring, decorators
        case ast.arg(annotation=ast.Constant(value=str(quoted))):
            return "parameter", node.arg, pythons(ast.parse(quoted, mode="eval").body, [])
        case ast.arg():
            return "parameter", node.arg, None if node.annotation is None else pythons(node.annotation, [])
    raise SyntaxError(f"outside of our language: {ast.dump(node)}")


def shrink(source: str, span: Span) -> tuple[int, int]:
    """Where the span begins and ends, without parentheses around it: Python's trees leave those out."""
    lines = [0]
    for line in source.split("\n"):
        lines.append(lines[-1] + len(line) + 1)
    start, end = lines[span.line - 1] + span.column - 1, lines[span.end_line - 1] + span.end_column - 1
    while source[start] == "(" and closing(source, start) == end - 1 and source[start + 1 : end - 1].strip():
        inside = source[start + 1 : end - 1]
        start, end = end - 1 - len(inside.lstrip()), start + 1 + len(inside.rstrip())
    return start, end


def closing(source: str, start: int) -> int:
    """Where the bracket that opens at `start` is closed."""
    depth = 0
    for place, character in enumerate(source[start:], start):
        depth += (character in "([") - (character in ")]")
        if depth == 0:
            return place
    return -1


def check(source: str, mode: str = "eval") -> None:
    """Both parsers refuse `source`, or both build the same tree with the same places."""
    theirs: list[Any] = []
    here: list[Any] = []
    try:
        parsed: Any = ast.parse(source.replace("\r\n", "\n") if mode == "eval" else source, mode=mode)
        expected = pythons(parsed.body, theirs)
    except SyntaxError:
        with pytest.raises(ParseError):
            parse(source)
        return
    module = parse(source)
    assert ours(module.expression if mode == "eval" else module.statements, here) == expected
    text = module.source.text
    if text.isascii():  # Python counts columns in bytes
        assert [shrink(text, span) for _, span in here] == [shrink(text, span) for _, span in theirs]


# ---- Expressions ----

EXPRESSIONS = r"""
a
a + b - c
a - b - c
a - (b - c)
a * b / c // d % e @ f
a + b * c
(a + b) * c
-x**2
2**-1
2**-x**-y
2**3**4
(2**3)**4
-a * b
- - -a
+a - +b
~a & b | c ^ d
a << b >> c
a << b + c
a & b == c
a | b < c
not a == b
not not a
not a and b
a and b or c and d
a or b and not c
a < b <= c != d == e > f >= g
(a < b) < c
a if b else c
a if b else c if d else e
(a if b else c) if d else e
a if (b if c else d) else e
a + b if c or d else e * f
f()
f(x)
f(x, y,)
f(x, axis=0)
f(axis=0, keepdims=True)
f(g(x)(y))
np.sin(x)
math.pi
x.T.T
x[i]
x[i, j]
x[(i, j)]
x[i,]
x[()]
x[i][j]
x[:]
x[::]
x[a:b]
x[a:b:c]
x[::-1]
x[:, None, 1:]
x[None]
x[a if b else c:d]
x[i + 1, idx[j]]
()
(a,)
(a, b)
a, b
a,
(a, b), c
[]
[a]
[a, b,]
[[a, b], [c, d]]
(a)
((a + b))
( a )
sum(x[i] for i in range(n))
sum((x[i] for i in range(n)))
max((x for x in y), initial)
sum(x[i] * y[j] for i in range(n) for j in range(m) if i < j if j > 0)
[x[i] for i in range(n)]
[[x[i, j] for j in range(m)] for i in range(n)]
[[a for i in x], [b for j in y]]
[(a for i in x)]
[a for (i, j) in pairs]
[a for i, j in pairs]
[a if b else c for i in range(n) if i or j]
sum(exp(-sum((x[i, k] - y[j, k])**2 for k in range(d))) * b[j] for j in range(m))
np + out + i + lambda1
ifx + in_ + notx + order + android
None
True
0
00
0_0
7
1_000
0x1F
0XfF_0
0o17
0b1_01
1.5
.5
5.
1e3
1E-3
1e+3
1_0.0_1e1_0
.5e1
5.e1
09.5
012e3
1e999
1.0 .real
1 if x else 2
'text'
"it's"
'a\tb\n\x41\u00e9\N{BULLET}\101'
r'a\tb\q'
u'a'
einsum('ij,jk->ik', a, b)
"""

MULTILINE = [
    "(a +\n b)",
    "(a  # one\n # two\n\n + b)",
    "a + \\\n  b",
    "f(\n    x,\n    y,\n)",
    "\n\n# comment\na + b\n# comment\n\n",
    "a + b  # comment",
    "a\t+\fb",
    "[\n1,\n2\n]",
    '"""one\ntwo"""',
    "'''a'b''c'''",
    "'a\\\nb'",
    "(a\r\n+ b)\r\n",
]


@pytest.mark.parametrize("source", [*EXPRESSIONS.strip().split("\n"), *MULTILINE])
def test_an_expression_means_what_it_means_in_python(source: str) -> None:
    check(source)


REFUSED = r"""
a b|a +|* a|a..b|x[]|f(,)|(|)|a if b|a else b|a not b|(a=b)|f(x for x in y, 1)|f(a=1, b)|a b c|1.e_5
1__0|0777|1e|1.2.3|3x|0x|0b2|0o8|1_|_1.5.|1_e3|1._5|a <> b|a := b|a ? b|$a|a!|a && b|[a b]|not|-|0x1.5|1e+
x[1:2:3:4]|'a|\|a \ b|[a, , b]|(,)|a, , b|def|if|a.1|a.if|f(if=1)|f(1=2)|for|a for b in c|[a for b.c in d e]
lambda x x|import os|from a import b|class A|x.|.x|a = |= a|a = = b|()[|[)|a @|@ a|"a|'''a''|f(a.b=3)|f(a)(=)
"""


@pytest.mark.parametrize("source", REFUSED.strip().replace("\n", "|").split("|"))
def test_what_python_refuses_is_refused(source: str) -> None:
    with pytest.raises(SyntaxError):
        ast.parse(source, mode="eval")
    with pytest.raises(ParseError):
        parse(source)


NAMES = st.sampled_from(["a", "b", "x", "np", "out", "lambda_", "T"])
NUMBERS = st.one_of(
    st.integers(0, 10**20).map(str),
    st.floats(0, allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["0x1f", "1_000", ".5", "5.", "1e-3"]),
)
BINARY = [op for op in OPERATORS.values() if op not in ("not", "~")]
SHAPES = [f"{{0}} {op} {{1}}" for op in BINARY]
SHAPES += ["-{0}", "+{0}", "~{0}", "not {0}", "({0})", "({0}, {1})", "[{0}, {1}]", "({0})[{1}]", "({0})**{1}"]
SHAPES += ["{0} if {1} else {2}", "{3}({0}, {1})", "{3}(k={0})", "{3}[{0}, {1}]", "{3}[{0}:{1}]", "{3}.T"]
SHAPES += ["[{0} for {3} in {1} if {2}]", "sum({0} for {3} in {1})"]


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions made of others, mostly without parentheses, so that precedence decides."""
    parts = st.tuples(st.sampled_from(SHAPES), inner, inner, inner, NAMES)
    return parts.map(lambda chosen: chosen[0].format(*chosen[1:]))


@given(st.recursive(NAMES | NUMBERS, larger, max_leaves=12))
def test_any_expression_means_what_it_means_in_python(source: str) -> None:
    check(source)


WORDS = ["a", "b", "1", "2.5", "+", "-", "*", "**", "/", "@", "<", "==", "(", ")", "[", "]", ",", ":", "."]
WORDS += ["not", "and", "or", "if", "else"]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join))
def test_any_row_of_tokens_is_taken_or_refused_as_in_python(source: str) -> None:
    check(source)


# ---- Sources of several lines ----

SOURCES = {
    "constants and functions": """
g = 9.81
G, c = 6.67e-11, 299_792_458

def energy(v, m):
    "In joules."
    return 0.5 * m * v**2

def weight(m): return m * g
""",
    "assignments": """
def f(x, y):
    a = b = x
    a, b = b, a
    (a, b), c = (1, 2), 3
    [a, b] = x
    x[0] = y[1] = 2
    x[0, 1:], a = 3, 4
    a += 1; a -= 1; a *= 2; a /= 2; a //= 2; a %= 3; a **= 2; a @= b
    a &= 1; a |= 2; a ^= 3; a <<= 1; x[0] >>= 2;
    return a, b
""",
    "branches": """
def f(x):
    if x > 0:
        y = 1
    elif x < 0: y = 2
    elif x == 0:
        y = 3
    else:
        y = 4
        if y: z = 1
        else: z = 2
    return y
""",
    "loops": """
def rollout(p, v, steps: static):
    for _ in range(steps):
        v = v + 0.01 * force(p)
        p = p + 0.01 * v
    for i, (j, k) in pairs: p = p + i
    while p < 1:
        while p: p = 1
    return p, v
""",
    "annotations": """
def f(x: f64[n, d], y: 'f64[m, d]', z: "f64", w: static, v: 'static' = 1): return x
""".replace(" = 1", ""),
    "nested functions and layout": '''
# a comment first

def outer(x,
          y):   # a comment
    """A docstring
of two lines."""

    def inner(z):
        # a comment of its own

            # at any depth
        return (z +
  x)
\t
    return inner(y) \\
        + 1

# the end''',
    "expressions as statements": """
def f(x):
    x + 1
    f(x); x
    return x
""",
    "tabs": "def f(x):\n\tif x:\n\t\treturn 1\n\treturn 2",
    "any depth of a block": "def f(x):\n if x:\n      return 1\n return 2",
    "form feeds": "\fdef f(x):\n  return x\n\f\ndef g(x):\n  return x\n  \f  \n",
    "Windows": "def f(x):\r\n  return x\r\n",
    "old Macintosh": "def f(x):\r  return x\r",
    "a constant": "x = 1;",
    "no parameters": "def f(): return 1",
    "a comma at the end": "def f(x,): return x",
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_functions_mean_what_they_mean_in_python(source: str) -> None:
    check(source, "exec")


def test_a_quoted_annotation_keeps_its_place() -> None:
    source = 'def f(a,\n      x: \'f64[n, d]\', y: """f64[m]"""): return x'
    (function,) = parse(source).statements
    assert isinstance(function, tree.Def)
    spans = [parameter.annotation and parameter.annotation.span for parameter in function.parameters]
    assert spans == [None, Span(2, 11, 2, 20), Span(2, 29, 2, 35)]


def test_an_indented_text_needs_no_dedent() -> None:
    module = parse("""
        def f(x):
            return x

        def g(x): return x
    """)
    assert [statement.span.column for statement in module.statements] == [9, 9]
    assert ours(parse("\n    a + b\n  ").expression, []) == ("binary", "+", "a", "b")


def twice(f: Any) -> Any:
    return f


def test_a_decorated_function_is_read_from_its_own_source() -> None:

    @twice
    @twice
    def gaussian(x: "f64[n]", b: "f64[n]") -> "f64":  # noqa: F821, UP037
        """Its docstring."""
        return sum(exp(-(x[i] ** 2)) * b[i] for i in range(n))  # noqa: F821

    (function,) = parse(inspect.getsource(gaussian)).statements
    assert isinstance(function, tree.Def)
    assert (function.name, function.docstring, len(function.body)) == ("gaussian", "Its docstring.", 1)
    assert [parameter.name for parameter in function.parameters] == ["x", "b"]


def test_a_docstring_may_stand_above_the_functions() -> None:
    assert len(parse('"""About this file."""\nx = 1\ndef f(y): return x').statements) == 2


def test_names_are_unicode_and_compared_in_normal_form() -> None:
    composed, decomposed = parse("fi + α_1 + Δt + \u00e9"), parse("ﬁ + α_1 + Δt + e\u0301")
    assert ours(composed.expression, []) == ours(decomposed.expression, [])


@pytest.mark.parametrize(
    "word", ["lambda", "import", "class", "pass", "None", "True", "np", "out", "match", "await"]
)
def test_all_but_the_reserved_words_are_names(word: str) -> None:
    assert ours(parse(f"{word} * {word}.{word}({word}={word})").expression, [])[2] == word


def test_bytes_are_utf8() -> None:
    assert ours(parse("\ufeffα + 1".encode()).expression, []) == ("binary", "+", "α", ("constant", int, "1"))


def test_parse_expression_reads_a_rule_once() -> None:
    assert parse_expression("x * y") is parse_expression("x * y")
    with pytest.raises(ParseError, match="one expression is expected"):
        parse_expression("y = x")


DEEP = {
    "a sum": "+".join(["x"] * 1_000),
    "indices": "x" + "[0]" * 1_000,
    "signs": "-" * 900 + "x",
    "powers": "2**" * 900 + "x",
    "parentheses": "(" * 200 + ")" * 200,
    "branches": "def f(x):\n    if x: y = 1\n" + "    elif x: y = 2\n" * 400 + "    return y",
}


@pytest.fixture
def parser() -> None:
    """The parser is built, which is allowed to recurse."""
    parse("x")


@pytest.mark.parametrize("source", DEEP.values(), ids=DEEP)
def test_trees_of_any_depth_take_no_recursion(source: str, parser: None, shallow_stack: None) -> None:
    parse(source)


def test_threads_can_parse_together() -> None:
    start = threading.Barrier(8)

    def read(thread: int) -> Any:
        start.wait()
        return [ours(parse(f"def f(x: 'f64[n]'):\n  return x + {i}").statements, []) for i in range(20)]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(read, range(8)))
    assert all(result == results[0] for result in results)


def test_the_table_that_comes_with_the_package_is_that_of_the_grammar():
    """After a change of the grammar: `python -m adcompiler.frontend.grammar.parser_table`."""
    folder = Path(__file__).parents[3] / "grammar"
    grammar = (folder / "adc.lark").read_text("utf-8")
    assert (folder / "adc.table").read_text("utf-8") == table.packaged(grammar)
