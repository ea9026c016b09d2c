"""Loops that only store are arrays: values are Python's, and derivatives those of finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

RANDOM = np.random.default_rng(2)
X, U = RANDOM.uniform(0.5, 1.5, (7, 2)), RANDOM.uniform(0.5, 1.5, 7)

ARRAYS = {
    "rows": "d = np.zeros((len(x) - 1, 2))\nfor k in range(len(x) - 1):\n    d[k] = x[k + 1] * u[k] - x[k]",
    "entries": "d = np.ones((len(x), 3))\n"
    "for k in range(len(x)):\n"
    "    d[k, 2] = x[k, 0] * u[k]\n"
    "    d[k, 0] = np.sin(x[k, 1])",
    "two apart": "d = np.zeros(2 * len(x))\n"
    "for k in range(len(x)):\n"
    "    d[2 * k] = x[k, 0] ** 2\n"
    "    d[2 * k + 1] = x[k, 1] * u[k]",
    "overwritten by a later iteration": "d = u * 3\n"
    "for k in range(len(x) - 2):\n"
    "    d[k + 2] = u[k] ** 2\n"
    "    d[k + 1] = x[k, 0] * u[k]\n"
    "    d[k] = x[k + 1, 1]",
    "under conditions": "d = u * 3\n"
    "for k in range(len(x) - 1):\n"
    "    if u[k] > 1:\n"
    "        d[k + 1] = x[k, 0] ** 2\n"
    "    else:\n"
    "        d[k] = u[k] * x[k, 1]",
    "sums": "d = np.zeros(len(x))\n"
    "for k in range(len(x)):\n"
    "    s = 0.0\n"
    "    for j in range(2):\n"
    "        s += x[k, j] ** 2 * u[k]\n"
    "    d[k] = s",
    "in two loops": "d = np.zeros((len(x), 3))\n"
    "for k in range(len(x)):\n"
    "    for j in range(3):\n"
    "        d[k, j] = x[k, 0] * u[k] ** j",
    "every second": "d = u * 2\nfor k in range(0, len(x), 2):\n    d[k] = x[k, 0] * u[k]",
}
RECURRENCES = {
    "reads what it stored": "d = u * 3\nfor k in range(len(x) - 1):\n    d[k + 1] = d[k] * x[k, 0]",
    "stores what it carries": "d = np.zeros(len(x))\n"
    "s = 0.0\n"
    "for k in range(len(x)):\n"
    "    s = s * u[k] + x[k, 0]\n"
    "    d[k] = s",
    "keeps the first": "d = u * 3\nfor k in range(len(x) - 1, -1, -1):\n    d[k // 2] = x[k, 0]",
}


def source(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"def f(x, u):\n{lines}    return d\n"


@pytest.mark.thinned(6)
@pytest.mark.parametrize("name", [*ARRAYS, *RECURRENCES])
def test_stores(name):
    text = source({**ARRAYS, **RECURRENCES}[name])
    f, scope = adc.compile(text, backend="numpy"), {"np": np}
    exec(text, scope)
    assert ("loop" in f.show("ir", X, U)) == (name in RECURRENCES)
    np.testing.assert_allclose(f(X, U), scope["f"](X, U), rtol=1e-14)
    few = X[:3].astype(np.float32), U[:3].astype(np.float32)
    np.testing.assert_allclose(f(*few), scope["f"](*few), rtol=1e-6)
    total = adc.compile(f"{text}def total(x, u): return sum(f(x, u) ** 2)", backend="numpy")
    adc.check_grad(total, X[:4], U[:4], order=2)


def test_nothing_to_store():
    f = adc.compile(source(ARRAYS["sums"]), backend="numpy")
    assert f(np.zeros((0, 2)), np.zeros(0)).shape == (0,)
