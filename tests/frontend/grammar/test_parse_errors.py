"""What the parser says: the place, the cause and the remedy, for every kind of slip and hostile input."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adcompiler.errors import DtypeError, Error, LimitError, ParseError
from adcompiler.frontend import limits
from adcompiler.frontend.grammar.parse import parse

# The source, with » before the place that the error must name; a part of the cause; a part of the remedy.
SLIPS = [
    # nothing to read
    ("»", "the source is empty", "write an expression"),
    ("»\n  # only a comment\n", "the source is empty", "write an expression"),
    # numbers
    ("a + »1__0", "'1__0' is not a number", "underscore must be between two digits"),
    ("»1_ + a", "'1_' is not a number", "underscore"),
    ("»0777", "'0777' is not a number", "0o"),
    ("»0b12", "'0b12' is not a number", "0 and 1"),
    ("»0xg", "'0xg' is not a number", "0-9 and a-f"),
    ("»1e + 2", "'1e' is not a number", "exponent needs digits"),
    ("»1.2.3", "'1.2.3' is not a number", "one decimal point"),
    ("a - »2x", "'2x' is not a number", "write the operator: 2*x"),
    ("»3.5x1", "'3.5x1' is not a number", "3.5*x1"),
    ("»1j", "'1j' is not a number", "complex numbers are not supported"),
    ("[»1for i in x]", "'1for' is not a number", "space before the word"),
    # characters and strings
    ("a »× b", "'×' (MULTIPLICATION SIGN, U+00D7)", "write *"),
    ("a »− b", "'−' (MINUS SIGN, U+2212)", "write -"),
    ("x»² + 1", "'²' (SUPERSCRIPT TWO, U+00B2)", "write **2"),
    ("a »≤ b", "'≤' (LESS-THAN OR EQUAL TO, U+2264)", "write <="),
    ("f(»“a”)", "'“' (LEFT DOUBLE QUOTATION MARK, U+201C)", 'write "'),
    ("a»\u00a0+ b", "(NO-BREAK SPACE, U+00A0)", "write a space"),
    ("a»\u200bb", "(ZERO WIDTH SPACE, U+200B)", "remove it"),
    ("a + »\u0301", "cannot begin a name", "letter"),
    ("a + »\x00", "U+0000", "remove it"),
    ("'a»\x00'", "U+0000", "remove it"),
    ("# a»\ud800", "U+D800", "remove it"),
    ("a »$ b", "'$' is not part", "remove it"),
    ("»`a`", "'`' is not part", "remove it"),
    ("a »? b", "'?' is not part", "remove it"),
    ("»{1: 2}", "sets and dict literals", "( ) or [ ]"),
    ("a »\\ b", "backslash can only end a line", "remove it"),
    ("f(»'abc)", "string is never closed", "end it with '"),
    ('»"""a\nb"', "string is never closed", 'end it with """'),
    ("»f'{x}'", "f-strings are not part", "remove the letter"),
    ("»b'x'", "bytes are not part", "remove the letter"),
    # brackets
    ("a * »(b + c", "'(' is never closed", "write ) at its end"),
    ("f(x, »[1, 2", "'[' is never closed", "write ]"),
    ("y = »(1 + 2\ndef f(x): return x", "'(' is never closed", "write )"),
    ("a + b»)", "')' closes nothing", "remove it"),
    ("(a + b»]", "']' cannot close the '(' before it", "write )"),
    # operators of other languages
    ("a »&& b", "'&&' is not an operator", "write and"),
    ("a »|| b", "'||' is not an operator", "write or"),
    ("»!a", "'!' is not an operator", "write not"),
    ("a »<> b", "'<>' is not an operator", "write !="),
    ("a ==»= b", "a value is missing between '==' and '='", "write =="),
    ("a =»< b", "a value is missing between '=' and '<'", "write <="),
    ("x»++", "'++' is not an operator", "write k += 1"),
    ("x + »...", "'...' is not a value", "x[..., 0]"),
    ("[x, »...]", "'...' is not a value", "x[..., 0]"),
    ("def f(x): »...", "'...' is not a value", "x[..., 0]"),
    ("(a »:= 3)", "':=' cannot assign", "on a separate line"),
    ("a »-> b", "'->' is not allowed here", "remove it"),
    # assignments where none can stand
    ("(a »= b)", "'=' is not allowed inside an expression", "write == to compare"),
    ("def f(x):\n    if x »= 1: return x", "'=' is not allowed inside", "write == to compare"),
    ("f(a.b »= 3)", "'=' is not allowed inside", "write == to compare"),
    ("a = b »+= 1", "'+=' is not allowed inside", "separate line"),
    ("»f(x) = 3", "cannot assign to this call", "def f(x): return"),
    ("»3 = x", "cannot assign to this number", "== compares"),
    ("»a.b = x", "cannot assign to this attribute", "a name"),
    ("(a, »b + c) = x", "cannot assign to this expression", "a name"),
    ("def f(x):\n    »(a, b) += 1", "'+=' changes one variable", "one line for each"),
    ("x»: f64 = 3", "':' is not allowed here", "annotate only parameters"),
    # values and operators that are missing
    ("a »+", "'+' has nothing on its right", "write a value after it"),
    ("(a »*)", "'*' has nothing on its right", "write a value after it"),
    ("»* a", "'*' has nothing on its left", "write a value before it"),
    ("a * »/ b", "a value is missing between '*' and '/'", "write a value between them"),
    ("a or »or b", "a value is missing between 'or' and 'or'", "write a value between them"),
    ("a »b", "an operator is missing between two values", "write a*b"),
    ("2 »x", "an operator is missing between two values", "write 2*x"),
    ("f(x)(y) »z", "an operator is missing between two values", "to multiply"),
    ("a »2", "an operator is missing between two values", "write a*2"),
    ("»2(x + 1)", "only functions can be called", "write a *"),
    ("x[»]", "an index is missing before ']'", "write it"),
    ("f(»,)", "a value is missing before ','", "write it"),
    ("a,»,b", "a value is missing before ','", "write it"),
    ("x».", "'.' has nothing on its right", "write a name after it"),
    ("a if b»", "the 'else' is missing", "a if condition else b"),
    ("(a if b»)", "the 'else' is missing", "a if condition else b"),
    # calls
    ("f(»**x)", "'**' cannot unpack", "write out each argument"),
    ("f(a, »**x)", "'**' cannot unpack", "write out each argument"),
    ("f(a=1, »2)", "positional argument follows", "move it before"),
    ("f(a=1, »a=2)", "the argument 'a' is given twice", "remove one"),
    ("f(x for x in y», 1)", "a comprehension with other arguments", "parentheses around it"),
    # words of Python that are names here
    ("»lambda x: x", "'lambda' is not part of the language", "def f(x): return"),
    ("»import os", "'import' is not part of the language", "builtins need no import"),
    ("»from os import x", "'from' is not part of the language", "builtins need no import"),
    ("»class A:\n    x = 1", "'class' is not part of the language", "write functions"),
    ("x »is y", "'is' compares with None only", "compare with =="),
    ("x »is not 2", "'is' compares with None only", "compare with =="),
    ("def f(x):\n    »try:\n        return x", "'try' is not part of the language", "remove it"),
    ("»async def f(x): return x", "'async' is not part of the language", "remove it"),
    ("»print x", "'print' is not part of the language", "write print(x)"),
    # reserved words
    ("x[i] »for i in n", "'for' cannot follow a value", "sum(... for"),
    ("x = »for", "'for' is a reserved word", "choose another name"),
    ("[x for »in y]", "a value is missing between 'for' and 'in'", "write a value"),
    ("»else: x", "'else' has no matching 'if'", "align it"),
    # definitions and blocks
    ("def f(x)»", "':' of this 'def' is missing", "end of the line"),
    ("def f(x) »return x", "':' of this 'def' is missing", "end of the line"),
    ("def f(x):\n    if x»\n        return x", "':' of this 'if' is missing", "end of the line"),
    ("def f(x):\n    while x > 1»\n        x = 1", "':' of this 'while' is missing", "end of the line"),
    ("def f(x):\n    for i »range(3): x = i", "'in' is missing", "for i in range(n):"),
    ("def f»: return 1", "the parameters are missing", "def f(x, y):"),
    ("def »(x): return x", "a def needs a name", "def f(x, y):"),
    ("def f(»2): return 2", "a parameter must be a name", "names with commas"),
    ("def f(»*x): return x", "'*' parameters are not supported", "write out each parameter"),
    ("def f(x, »x): return x", "the parameter 'x' occurs twice", "rename one"),
    ("def f(x):»", "an indented block must follow", "indent it"),
    ("def f(x):\n»return x", "an indented block must follow", "indent it"),
    ("def f(x): »if x: return 1", "'if' cannot start in the middle of a line", "new line"),
    ("def f(x):\n    if x: return 1\n    else »if x: return 2", "'else if'", "write elif"),
    ("@adc.function\n»x = 3", "only a def can follow a decorator", "remove the decorator"),
    # layout
    ("a\n    »+ b", "indented more than the one above", "brackets around an expression of several lines"),
    (
        "def f(x):\n    y = 1\n   »z = 2",
        "is indented less than its block",
        "indent it like one of the lines above",
    ),
    ("    a\n  »b", "is indented less than its block", "indent it"),
    ("def f(x):\n\ty = 1\n        »z = 2", "mix tabs and spaces", "four spaces"),
    ("»a\nb", "an expression cannot be combined with other lines", "put brackets around"),
    ("x = 1\n»x + 1", "an expression cannot be combined with other lines", "return a result from a def"),
    ("x = 1\n»return x", "only constants and functions", "move this into a def"),
    ("»x += 1", "only constants and functions", "move this into a def"),
    # annotations in quotes
    ("def f(x: 'f64[n, »2m]'): return x", "'2m' is not a number", "2*m"),
    ("def f(x: 'f64»[n'): return x", "'[' is never closed", "write ]"),
    ("def f(x: 'a »b'): return x", "an operator is missing between two values", "a*b"),
    ("def f(x: »'a = 1'): return x", "an annotation must be one expression", "f64[n, d]"),
]


@pytest.mark.parametrize(("marked", "cause", "remedy"), SLIPS, ids=[repr(slip[0]) for slip in SLIPS])
def test_a_slip_is_named_with_place_cause_and_remedy(marked: str, cause: str, remedy: str) -> None:
    before, _, after = marked.partition("»")
    with pytest.raises(ParseError) as caught:
        parse(before + after)
    error = caught.value
    assert cause in error.cause
    assert remedy in (error.remedy or "")
    assert (error.line, error.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))


def test_the_place_is_that_in_the_users_file() -> None:
    with pytest.raises(ParseError) as caught:
        parse("def f(x):\n    return x +", "model.py", first_line=41, indent=4)
    assert str(caught.value).startswith("model.py:42:18: '+' has nothing on its right\n        return x +\n")
    caught.value.add_note("of case 3")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.column, again.__notes__, str(again)) == (18, ["of case 3"], str(caught.value))


@pytest.mark.parametrize(
    ("source", "cause", "line", "column"),
    [
        (b"a + \xff", "the byte 0xff at offset 4 is not UTF-8", 1, 5),
        ("α = 1\n".encode() + b"\xc3(", "the byte 0xc3 at offset 7 is not UTF-8", 2, 1),
        (b"\xef\xbb\xbf\r\na\x80", "the byte 0x80 at offset 6 is not UTF-8", 2, 2),
        ("a + b".encode("utf-16"), "the byte 0xff at offset 0 is not UTF-8", 1, 1),
    ],
)
def test_bytes_that_are_not_utf8(source: bytes, cause: str, line: int, column: int) -> None:
    with pytest.raises(ParseError) as caught:
        parse(source)
    assert (caught.value.cause, caught.value.line, caught.value.column) == (cause, line, column)


@pytest.mark.parametrize("source", [None, 3, ["a"], bytearray(b"a"), lambda: 0])
def test_a_source_is_text_or_bytes(source: Any) -> None:
    with pytest.raises(DtypeError, match="a source is str or UTF-8 bytes"):
        parse(source)


# ---- Limits ----

BLOCKS = "def f(x):\n" + "".join(" " * i + "if x:\n" for i in range(1, 103)) + " " * 103 + "x = 1"

LIMITS = {
    "characters": ("a +" + " " * limits.CHARACTERS + "b", "1,000,004 is more than the limit of 1,000,000"),
    "tokens": ("x" + "+x" * 150_000, "200,001 is more than the limit of 200,000"),
    "tokens in annotations": ("def f(" + "x: 'x" + "+x" * 150_000 + "'): return x", "200,001"),
    "brackets inside each other": ("(" * 201 + "a" + ")" * 201, "201 is more than the limit of 200"),
    "indented blocks": (BLOCKS, "101 is more than the limit of 100"),
    "characters in a name": ("x" * 1_001, "1,001 is more than the limit of 1,000"),
    "characters in a number": ("1" * 1_001, "1,001 is more than the limit of 1,000"),
    "right operand": ("2**" * 1_001 + "2", "1,001 is more than the limit of 1,000"),
    "right operand (unary)": ("-" * 1_001 + "x", "1,001 is more than the limit of 1,000"),
    "right operand (mixed)": ("x**-~" * 334 + "x", "1,001 is more than the limit of 1,000"),
    "right operand (not)": ("not " * 1_001 + "x", "1,001 is more than the limit of 1,000"),
    "right operand (else)": ("a + 1 if b else " * 1_001 + "c", "1,001 is more than the limit of 1,000"),
}


@pytest.mark.parametrize(("what", "source", "count"), [(k, *v) for k, v in LIMITS.items()], ids=LIMITS)
def test_a_limit_is_named_with_its_count(what: str, source: str, count: str) -> None:
    with pytest.raises(LimitError) as caught:
        parse(source)
    assert what.partition(" (")[0].removesuffix(" in annotations") in caught.value.cause
    assert count in caught.value.cause
    assert caught.value.remedy
    assert caught.value.line
    assert caught.value.column


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "source",
    [
        "(" * 200 + "a" + ")" * 200,
        "x" * 1_000,
        "1" * 1_000,
        "2**" * 1_000 + "2",
        " + ".join(["-x**2 * (not y)"] * 2_000),
        ", ".join(["a if b else -c"] * 2_000),
        "\n" * 900_000 + "a",
        "a #" + "(" * 900_000,
        "f('''" + "a\n" * 400_000 + "''')",
    ],
    ids=range(9),
)
def test_what_is_within_the_limits_is_read(source: str) -> None:
    assert parse(source).expression is not None


# ---- Hostile input: an answer within two seconds, and no error but our own ----


def answer(source: str | bytes) -> Error | None:
    """The parser's error, or None for what it takes; any other exception is a failure."""
    try:
        parse(source)
    except Error as error:
        return error
    return None


MEGABYTE = 1_000_000
HOSTILE = {
    "open parentheses": "(" * 100_000,
    "nested parentheses": "(" * 100_000 + ")" * 100_000,
    "nested brackets": "x[" * 100_000 + "]" * 100_000,
    "closing parentheses": ")" * MEGABYTE,
    **{f"a megabyte of {one!r}": one * MEGABYTE for one in "+-*~.,:;=<@'\"\\\n1aα \t#"},
    "a megabyte of not": "not " * (MEGABYTE // 4),
    "a megabyte of a+": "a+" * (MEGABYTE // 2),
    "a megabyte of 1 ": "1 " * (MEGABYTE // 2),
    "a megabyte of triple quotes": "'''" * (MEGABYTE // 3),
    "a megabyte of mixed quotes": "'\"" * (MEGABYTE // 2),
    "a megabyte of lines": "a\n" * (MEGABYTE // 2),
    "a megabyte of definitions": "def f(x): return x\n" * (MEGABYTE // 19),
    "annotations": "def f(" + "x: 'a',\n" * (MEGABYTE // 9) + "): return x",
    "a staircase": "\n".join(" " * i + "if x:" for i in range(1_400)),
    "ten million characters": "a" * 10_000_000,
    "ten million bytes": b"\xff" * 10_000_000,
    "NUL": "\0" * MEGABYTE,
    "surrogates": "\ud800" * MEGABYTE,
    "not UTF-8": b"a" * 900_000 + b"\xff",
    "a tower": "2**" * 100_000 + "2",
    "else if": "def f(x):\n if x: y = 1\n" + " elif x: y = 1\n" * 2_000,
    "digits": "9" * MEGABYTE,
    "a large exponent": "1e" + "9" * 900,
}


@pytest.mark.thinned(8)
@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_hostile_input_is_answered_at_once(source: str | bytes) -> None:
    parse("x")
    start = time.perf_counter()
    assert len(str(answer(source))) < 1_000
    assert time.perf_counter() - start < 10  # no hang; it takes about half a second


PIECES = [
    "def",
    "f",
    "(",
    ")",
    "[",
    "]",
    ":",
    "\n",
    "\n    ",
    "\n\t",
    "return",
    "x",
    "=",
    "+=",
    "+",
    "**",
    "-",
    ",",
]
PIECES += [
    "if",
    "else",
    "elif",
    "for",
    "in",
    "while",
    "not",
    "1",
    "2.5",
    "'a'",
    '"""',
    "#",
    "\\\n",
    ".",
    "@",
    "\f",
]
PIECES += [
    "->",
    "...",
    "lambda",
    "is",
    " ",
    "\r",
    "é",
    "²",
    "\0",
    "0x",
    "1e",
    "'",
    "{",
    ";",
    "and",
    "import",
    "==",
]


@settings(max_examples=10)
@given(st.one_of(st.text(), st.binary(), st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join)))
def test_junk_is_refused_in_our_own_words(source: str | bytes) -> None:
    error = answer(source)
    if error:
        assert isinstance(error, ParseError | LimitError)
        assert error.remedy
        assert min(error.line or 0, error.column or 0) >= 1
