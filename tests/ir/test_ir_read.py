"""Reading the text form: layout is free within brackets, and errors point at the text."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from programs.ir import random_func

from adcompiler.errors import LimitError, ParseError
from adcompiler.ir.textform.printer import show
from adcompiler.ir.textform.reader import parse_func


def test_comments_blank_lines_and_lines_within_brackets_are_skipped():
    func = parse_func("""
        # the only program here
        func @f(%x: f64[n],
                %y: f64[n]) -> (%r: f64[n]) {

          %r = array (i < n) {
            d = (%x[i] -
                 %y[i])  # outside of brackets a line ends

            d * d
          }
        }
    """)
    assert show(func).splitlines() == [
        "func @f(%x: f64[n], %y: f64[n]) -> (%r: f64[n]) {",
        "  %r = array (i < n) {",
        "    d = %x[i] - %y[i]",
        "    d * d",
        "  }",
        "}",
    ]


ERRORS = {
    "func @f() -> (%r: f64) {\n}": (1, 15, "%r is not defined here"),
    "func @f(%x: f65) -> () {\n}": (1, 13, "'f65' is not a type"),
    "func @f(%x: f64, %x: f64) -> () {\n}": (1, 18, "%x is defined twice"),
    "func @f(%x: f64[n]) -> (%x: f64[3]) {\n}": (1, 29, "not the type of the array"),
    "func @f() -> () {\n  %r = array () { i }\n}": (2, 19, "'i' is not defined here"),
    "func @f() -> () {\n  %r = array () { 1 < 2 < 3 }\n}": (2, 25, "do not chain"),
    "func @f() -> () {\n  %r = array () { 1 + not true }\n}": (2, 23, "'not' needs parentheses"),
    "func @f() -> () {\n  %r = array () { select(true, 1) }\n}": (2, 19, "a guard and two branches"),
    "func @f() -> () {\n  %r = array () { exp() }\n}": (2, 19, "does not say its type"),
    "func @f() -> () {\n  %r = scan () { 1 }\n}": (2, 8, "expected array, reduce, accumulate or call"),
    "func @f() -> () {\n  %r = array () { 1 $ }\n}": (2, 21, "expected '}'"),
    "func @f() -> () {\n  %r = array () { 1": (2, 20, "expected '}'"),
    "func @f() ->": (1, 13, "expected '{'"),
    "func @f(": (1, 9, "expected a token of kind array"),
    "func @f() -> () {\n} }": (2, 3, "expected a token of kind end"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_point_at_the_text(text):
    line, column, message = ERRORS[text]
    with pytest.raises(ParseError) as caught:
        parse_func(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_text_that_nests_too_deep_is_refused():
    nested = "(" * 1000 + "1" + ")" * 1000
    with pytest.raises(LimitError, match="nests deeper"):
        parse_func(f"func @f() -> (%r: i64) {{ %r = array () {{ {nested} }} }}")


PIECES = [
    *"()[]{}-=<|\n,:?@$",
    "%x0",
    "f64",
    "1.5f",
    "nan:0x7",
    f"nan:0x{'f' * 20}",
    "9" * 5000,
    "not ",
    '"a',
    "select(",
]


def test_a_spoiled_text_is_read_or_refused():
    rng = random.Random(0)
    for seed in range(40):
        text = show(random_func(seed))
        cut = rng.randrange(len(text))
        text = text[:cut] + rng.choice(PIECES) + text[cut + rng.choice([0, 1, 5]) :]
        with suppress(ParseError, LimitError):
            show(parse_func(text))
