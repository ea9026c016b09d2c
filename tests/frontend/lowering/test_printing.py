"""`print(...)` in a program: what it shows, and that it changes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

X = np.array([1.0, 2.0, 4.0])

PROGRAMS = {
    "values": ("print('x is', x, 'and', w, 3, None)\nreturn sum(x)", "x is [1. 2. 4.] and 2. 3 None\n"),
    "several": ("print(x.shape, (x[0], len(x)), x > 1)\nreturn x", "(3) (1., 3) [False  True  True]\n"),
    "a loop": ("for i in range(9):\n    x = x / 2\n    print(i, x)\nreturn x",
               "0 to 8 0.00195312 to 2 (9 times)\n"),
    "a loop that is left": (
        "k = 0\nwhile True:\n    k += 1\n    x = 2 * x\n    print('k', k)\n    if x[0] > 9:\n"
        "        return x * k",
        "k 1 to 4 (4 times)\n",
    ),
    "a condition": (
        "for i in range(9):\n    x = x / 2\n    if x[0] < 0.1:\n        print('small', i)\nreturn x",
        "small 3 to 8 (6 times)\n",
    ),
    "a branch": ("if w > 1:\n    print('large', w)\nelse:\n    print('small', w)\nreturn x", "large 2.\n"),
    "nothing": ("for i in range(9):\n    if x[0] > 5:\n        print(i)\nreturn x", ""),
    "a comprehension": ("def g(v):\n    print('g', v)\n    return v * v\nreturn [g(v) for v in x]",
                        "g 1 to 4 (3 times)\n"),
    "in order": ("print('a')\nfor v in x:\n    for u in x:\n        print(u * v)\nprint('b')\nreturn x",
                 "a\n1 to 16 (9 times)\nb\n"),
    "not a number": ("y = log(x - 1)\nprint(sqrt(x - 3), y)\nreturn y",
                     "[nan nan  1.] [    -inf 0.       1.098612]\n"),
    "many": ("print(tile(x, 5))\nreturn x", "(15,) 1 to 4\n"),
    "many with nan": ("print(tile(sqrt(x - 2), 5))\nreturn x", "(15,) 0 to 1.41421 and 5 nan\n"),
    "a loop that appends": (
        "out = []\nfor v in x:\n    out.append(v * w)\n    print(v, len(out), out[-1])\nreturn sum(out)",
        "1 to 4 1 to 3 2 to 8 (3 times)\n",
    ),
    "loops that append": (
        "out = []\nfor v in x:\n    print(v)\n    for u in x:\n        out.append(v * u)\n"
        "        print(len(out))\nprint(out)\nreturn sum(out)",
        "1 to 4 (3 times)\n1 to 9 (9 times)\n[ 1.  2.  4.  2.  4.  8.  4.  8. 16.]\n",
    ),
    "known at compile time": ("for k in (1, 2):\n    print('k', k, k * w)\nreturn x", "k 1 2.\nk 2 4.\n"),
}  # fmt: skip


def written(body: str) -> str:
    return "def f(x, w):\n    " + body.replace("\n", "\n    ")


def silent(body: str) -> str:
    lines = [line.split("print(")[0] + "pass" if "print(" in line else line for line in body.split("\n")]
    return written("\n".join(lines))


@pytest.mark.thinned(6, backend="cpu")
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_printed(name: str, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    body, expected = PROGRAMS[name]
    f = adc.compile(written(body), backend=backend)
    for _ in range(2):
        f(X, 2.0)
        assert capsys.readouterr().out == expected


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_derivatives_and_programs_are_those_without(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    body, expected = PROGRAMS[name]
    f, g = adc.compile(written(body)), adc.compile(silent(body))
    assert f.show("ir", X, 2.0) == g.show("ir", X, 2.0)
    np.testing.assert_array_equal(f(X, 2.0), g(X, 2.0))
    capsys.readouterr()
    found, wanted = (adc.jvp(h, (X, 2.0), (X, 1.0)) for h in (f, g))
    assert capsys.readouterr().out == expected
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(adc.jacobian(f, "x")(X, 2.0), adc.jacobian(g, "x")(X, 2.0))
    assert capsys.readouterr().out == expected


def test_other_ways_to_call_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    f = adc.compile("def f(x):\n    print(x)\n    return sum(x * x)")
    np.testing.assert_array_equal(adc.vmap(f)(np.ones((2, 3))), [3, 3])
    x = adc.Variable(X, requires_grad=True)
    f(x).backward()
    np.testing.assert_array_equal(x.grad, 2 * X)
    assert capsys.readouterr().out == ""


def test_lines_come_before_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    f = adc.compile("def f(x, k: int):\n    print('k is', k)\n    return x[k]")
    with pytest.raises(adc.OutOfRangeError):
        f(X, 7)
    assert capsys.readouterr().out in ("k is 7\n", "")  # a length that does not fit is found first
    g = adc.compile("def g(x, i):\n    print('i is', i)\n    return x[i]")
    with pytest.raises(adc.OutOfRangeError):
        g(X, np.array([1, 9]))
    assert capsys.readouterr().out == "i is [1 9]\n"


def test_a_mistake_in_what_is_printed_is_told() -> None:
    with pytest.raises(adc.ParseError, match="unknown name 'y'") as caught:
        adc.compile("def f(x):\n    print('y', y)\n    return x")
    assert (caught.value.line, caught.value.column) == (2, 16)
    with pytest.raises(adc.ParseError, match="on a separate line"):
        adc.compile("def f(x):\n    y = print(x)\n    return x")


def test_what_a_function_prints_that_is_differentiated_inside_is_left_out(capsys):
    """Its arguments there are no values of the call; that it ran, and what else it prints, is shown."""
    f = adc.compile("""
def main(x):
    print("at", x)
    print("main")
    return -x

def outer(x):
    return grad(main)(x) + main(2 * x)
""")
    assert f(1.5) == -4.0
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("at")] == ["at 3."]
    assert "main" in shown
