"""`out.append(v)`: lists as long as the loops that append to them, and what has no length before its loop."""

from __future__ import annotations

import numpy as np
import pytest
from judges.compared import has_oracles_value
from programs import Program

import adcompiler as adc

X = np.array([1.5, 2.0, 4.0, 0.5, 0.7])

PROGRAMS: dict[str, str] = {
    "each": "for v in x:\n    out.append(v**2 * w)\nreturn out",
    "by an index": "for i in range(1, len(x)):\n    out.append(x[i] * x[i - 1])\nreturn out",
    "a recurrence": "out.append(w)\nfor v in x:\n    out.append(out[-1] * v + w)\nreturn out",
    "two before": (
        "out = [w, x[0]]\nfor i in range(6):\n    out.append(out[-1] + w * out[i])\nreturn out[1:]"
    ),
    "a wider type": "out = [0]\nfor v in x:\n    out.append(out[-1] + v * w)\nreturn np.array(out)",
    "states": "s = x\nfor i in range(5):\n    s = sin(s) + w\n    out.append(s)\nreturn np.stack(out)",
    "tuples": "for v in x:\n    w = w * v\n    out.append((w, v * v))\nreturn sum(a * b for a, b in out)",
    "two lists": (
        "t = []\nfor i, v in enumerate(x):\n    t.append(0.1 * i)\n    out.append(v * w)\nreturn out, t"
    ),
    "two in each": "for v in x:\n    out.append(v)\n    out.append(v * w)\nreturn out",
    "nested": (
        "for i in range(5):\n    for v in x:\n        out.append(v * i)\n    out.append(w)\nreturn out"
    ),
    "rows": (
        "for v in x:\n    row = []\n    for u in x:\n        row.append(u * v * w)\n    out.append(row)"
        "\nreturn out"
    ),
    "one after the other": (
        "for v in x:\n    out.append(v)\nout.append(w)\nfor v in x:\n    out.append(w * v)\nreturn out"
    ),
    "written out": "for k in (1, 2):\n    for v in x:\n        out.append(v * k * w)\nreturn sum(out)",
    "few": "for k in range(3):\n    out.append(x[k] * w)\nreturn out",
    "both branches": "if w > 0:\n    out.append(w * w)\nelse:\n    out.append(x[0])\nreturn out",
    "both branches of a loop": (
        "for v in x:\n    if v > 1:\n        u = v * w\n        out.append(u)\n    elif v > 0.6:\n"
        "        out.append(v**2)\n    else:\n        out.append(sin(w))\nreturn out"
    ),
    "rows of both branches": (
        "for v in x:\n    if v > 1:\n        out.append((v, w * v))\n    else:\n        out.append((w, 1))\n"
        "    w = w * 0.9\nreturn np.array(out)"
    ),
    "a list that one branch needs": (
        "if w > 0:\n    own = []\n    for k in range(1):\n        own.append(w)\n    x = np.array(own)\n"
        "else:\n    x = x[:1]\nreturn x"
    ),
    "a known branch": (
        "for v in x:\n    if kind == 'twice':\n        out.append(v)\n    out.append(w * v)\nreturn out"
    ),
    "only where there is one": (
        "for v in x:\n    out.append(out[-1] * v if len(out) > 0 else w)\nreturn out"
    ),
    "at the end of an iteration": (
        "for v in x:\n    if v < 1:\n        v = v * w\n    out.append(v)\n    continue\nreturn out"
    ),
}


def written(body: str) -> str:
    return "def f(x, w, kind='twice'):\n    out = []\n    " + body.replace("\n", "\n    ")


@pytest.mark.thinned(24)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_values_and_derivatives(name: str, backend: str) -> None:
    text = written(PROGRAMS[name])
    has_oracles_value(Program(text, (X, 0.7)), backend)
    assert adc.check_grad(adc.compile(text, backend=backend), X, 0.7, order=2) < 1e-7


def test_a_list_in_a_function_of_each_point() -> None:
    text = "def g(x, a):\n    out = []\n    for v in x:\n        out.append(v * a)\n    return sum(out)\n\n"
    text += "def f(x):\n    return [g(x, a) for a in x]"
    has_oracles_value(Program(text, (X,)), "cpu")


def test_float32_and_empty_loops() -> None:
    f = adc.compile(written("for v in x:\n    out.append(v * w)\nreturn out"))
    assert f(X.astype(np.float32), 2.0).dtype == np.float32
    assert f(X[:0], 2.0).shape == (0,)
    assert adc.jacobian(f, "x")(X[:0], 2.0).shape == (0, 0)


def test_a_list_costs_no_more_than_stores_do() -> None:
    f = adc.compile(written("for v in x:\n    out.append(v * v)\nreturn sum(out)"))
    assert "while" not in f.show("kernel", X, 1.0)  # the list is a map, and its sum one loop


REFUSED: dict[str, tuple[str, str]] = {
    "for v in x:\n    if v > w:\n        »out.append(v * v)\nreturn sum(out)": (
        "the length of the list out is not known",
        "sum(v * v for v in x if v > w), or keep all: [v * v if v > w else 0.0 for v in x]",
    ),
    "for v in x:\n    if v > w:\n        continue\n    »out.append(v)\nreturn out": (
        "not known",
        "0.0 if",
    ),
    "»for v in x:\n    if v > w:\n        break\n    out.append(v)\nreturn out": ("not known", "0.0 if"),
    "»for v in x:\n    if v > w:\n        return out\n    out.append(v)\nreturn out": (
        "not known",
        "0.0 if",
    ),
    "»while w < 9:\n    w = w * 2\n    out.append(w)\nreturn out": (
        "not known",
        "in a for loop of known length",
    ),
    "»for i in range(len(x)):\n    for j in range(i):\n        out.append(w)\nreturn out": (
        "not known",
        "for loop of",
    ),
    "for u in x:\n    if u > w:\n        »for v in x:\n            out.append(v)\nreturn out": (
        "not known",
        "for",
    ),
    "»if w > 0:\n    out.append(w)\nreturn out": (
        "the length of the list out depends on values",
        "0.0 if",
    ),
    "»x.append(w)\nreturn x": ("an array of rank 1 has no append", "concatenate((x, [v]))"),
    "»out.append(w, x)\nreturn out": ("append takes exactly one value", "out.append(v)"),
    "for v in x:\n    out.append(»sum(out))\nreturn out": ("not a list that a loop appends to", ""),
    "for v in x:\n    out.append(v)\n    y = »out[:2]\nreturn out": (
        "is read as a whole",
        "after the loop",
    ),
    "for v in x:\n    out.append(v)\n    »y = out\nreturn y": ("cannot get another name", "after the loop"),
    "for v in x:\n    out.append(v)\n    »out.append(x)\nreturn out": ("differ in shape", "of one shape"),
    "for v in x:\n    out.append(»out[-1])\nreturn out": ("an index is out of range", "count from 0"),
}


@pytest.mark.parametrize("marked", REFUSED)
def test_what_is_refused(marked: str) -> None:
    cause, remedy = REFUSED[marked]
    before = written(marked[: marked.index("»")])
    with pytest.raises(adc.Error) as caught:
        adc.compile(written(marked.replace("»", "")))(X, 0.7)
    error = caught.value
    assert cause in error.cause
    assert remedy in (error.remedy or "")
    assert error.line == before.count("\n") + 1
    assert error.column == len(before.rsplit("\n", 1)[-1]) + 1


def test_the_remedies_are_right_when_followed() -> None:
    f = adc.compile("sum(v * v for v in x if v > w), [v * v if v > w else 0.0 for v in x]")
    assert f(X, 1.0)[0] == 1.5**2 + 2**2 + 4**2
    np.testing.assert_array_equal(f(X, 1.0)[1], np.where(X > 1, X * X, 0))
