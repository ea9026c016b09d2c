"""Why a compiled function has no derivative with respect to a parameter: the place, and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

import adcompiler as adc
from adcompiler.cli.app import run


class Point(NamedTuple):
    t: float


CASES = {
    "floor": ("def f(m, x):\n    t = floor(m)\n    return t * x", "2:9", "floor(m)", "a smooth function"),
    "sign": ("def f(m, x):\n    return sign(m) * x", "2:12", "sign(m)", "a smooth function"),
    "rint": ("def f(m, x):\n    return round(2 * m) * x", "2:12", "round(2 * m)", "a smooth function"),
    "zero": ("def f(m, x):\n    return m * 0 + x", "2:12", "m * 0", "remove it"),
    "condition": ("def f(m, x):\n    return where(m > 0, x, -x)", "2:18", "m > 0", "sigmoid("),
    "branch": (
        "def f(m, x):\n    if m < 1:\n        x = 2 * x\n    return x", "2:8", "m < 1", "a smooth step",
    ),
    "filter": (
        "def f(m: f64, x: f64[n]):\n    return sum(v for v in x if v > m)", "2:32", "v > m", "a smooth step",
    ),
    "loop": (
        "def f(m: f64, x: f64[n]):\n    s = 1\n    for v in x:\n        s = s * v + sign(m)\n    return s",
        "4:21", "sign(m)", "a smooth function",
    ),
    "unread": ("def f(m, x):\n    return 2 * x", "1:7", "m", "compute a result from it"),
    "lost": ("def f(m, x):\n    t = 2 * m\n    return 2 * x", "2:13", "m", "return what is computed"),
    "length": ("def f(m: f64[n], x):\n    return x * len(m)", "2:20", "m", "a length or a shape"),
    "replaced": ("def f(m, x):\n    m = 3.0\n    return m * x", "2:5", "m", "another name"),
    "integer": ("def f(m: i64, x):\n    return m * x", "1:7", "m: i64", "annotate it f64"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "place", "marked", "remedy"), CASES.values(), ids=CASES)
def test_an_end_is_shown_with_a_caret_and_what_to_write_instead(source, place, marked, remedy):
    text = adc.compile(source).why_none("m")
    assert "with respect to m is None" in text
    assert f"<expression>:{place}:" in text
    line, caret = next(
        (a, b) for a, b in zip(text.split("\n"), text.split("\n")[1:], strict=False) if "^" in b
    )
    assert line[caret.index("^") : caret.rindex("^") + 1] == marked
    assert remedy in text


def test_the_place_is_that_in_the_users_file():
    @adc.function
    def model(m, x):
        return x * floor(m)  # noqa: F821

    lines = Path(__file__).read_text("utf-8").splitlines()
    place = 1 + lines.index("        return x * floor(m)  # noqa: F821")
    assert f"test_why_none_compiled.py:{place}:20: floor" in model.why_none("m")


def test_what_is_static_or_has_a_derivative_or_is_no_parameter():
    power = adc.compile("def f(n, x):\n    return x**n", static="n")
    assert "n is static" in power.why_none("n", 3, 2.0)
    assert "is not None" in power.why_none("x", 3, 2.0)
    with pytest.raises(adc.Error, match="it takes"):
        power.why_none("q", 3, 2.0)


def test_results_without_derivatives():
    text = adc.compile("m > x").why_none("m")
    assert "the results are bool" in text
    assert "return floats" in text


def test_parts_of_containers_are_explained_one_by_one():
    f = adc.compile("p['w'] * x + floor(p['b'])")
    text = f.why_none("p", {"w": 1.0, "b": 2.0}, 3.0)
    assert "respect to p['w'] is not None" in text
    assert "respect to p['b'] is None: the derivative ends at floor" in text
    assert f.why_none("p['b']", {"w": 1.0, "b": 2.0}, 3.0) in text


def test_parts_are_not_known_before_the_first_call():
    f = adc.compile("floor(p.t) * x", args="p, x")
    with pytest.raises(adc.Error, match="the parts of p are not known before the first call of f") as caught:
        f.why_none("p.t")
    assert caught.value.remedy == "pass the arguments of a call: f.why_none('p.t', p, x)"
    p = Point(1.5)
    assert "the derivative ends at floor" in f.why_none("p.t", p, 2.0)
    f(p, 2.0)
    assert "the derivative ends at floor" in f.why_none("p.t")
    with pytest.raises(adc.Error, match=r"no parameter 'p\.s'"):
        f.why_none("p.s")


@pytest.mark.parametrize(
    "call", ["round(m)", "rint(m)", "np.round(m)", "np.fix(m)", "round(m, 2)", "np.around(m)", "trunc(m)"]
)
def test_an_operation_has_the_name_of_the_source(call):
    text = adc.compile(f"{call} * x", args="m, x").why_none("m")
    name = call.partition("(")[0].removeprefix("np.")
    assert f"the derivative ends at {name}\n" in text
    assert f"1:1: {name}: its derivative" in text


def test_second_derivatives():
    f = adc.compile("floor(a) * b + a * b")
    assert "is not None" in f.why_none("a")
    again = adc.grad(f, "b")  # floor(a) + a
    assert "is not None" in again.why_none("a")
    assert "is None" in again.why_none("b")


def test_the_command_line_says_the_same(capsys):
    assert run(["explain", "floor(m) * x", "--why-none", "m"]) == 0
    assert capsys.readouterr().out.rstrip() == adc.compile("floor(m) * x").why_none("m")
    assert run(["explain", "floor(m) * x", "--why-none", "q"]) == 1
