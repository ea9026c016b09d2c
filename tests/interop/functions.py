"""Forty small functions in the language, each beside the same in the array library that judges it.

`of(xp)` makes the judge's function from a namespace: `torch` or `jax.numpy`. Arguments are drawn in `low` to
`high`, of the shapes in `shapes`; whole numbers and arrays of them stand there as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Case:
    """A function, and what it is called with."""

    name: str
    source: str
    of: Callable[[Any], Callable[..., Any]]
    shapes: tuple[Any, ...]
    low: float = 0.3
    high: float = 1.7

    def arguments(self, dtype: Any = np.float64, seed: int = 0) -> list[Any]:
        """The arguments: arrays of `dtype` for shapes, and what stands there as it is."""
        rng = np.random.default_rng(seed)
        return [
            rng.uniform(self.low, self.high, s).astype(dtype) if isinstance(s, tuple) else s
            for s in self.shapes
        ]


GATHER = np.array([2, 0, 2, 1, 3])


def _loop(xp):
    def f(x, v):
        for _ in range(5):
            v = v - 0.1 * xp.sin(x)
            x = x + 0.1 * v
        return x, v

    return f


def _horner(xp):
    def f(c, x):
        r = 0.0 * x
        for k in range(c.shape[0]):
            r = r * x + c[k]
        return r

    return f


def _newton(xp):
    def f(a):
        x = 0.0 * a + 1
        for _ in range(6):
            x = 0.5 * (x + a / x)
        return x

    return f


def _pairs(xp):
    def f(x, m):
        d = x[:, None, :] - x[None, :, :]
        r = xp.sqrt((d * d).sum(-1) + 0.1)
        return 0.5 * (m[:, None] * m[None, :] / r).sum()

    return f


def _kernel(xp):
    def f(x, y, b):
        d = x[:, None, :] - y[None, :, :]
        return xp.exp(-(d * d).sum(-1)) @ b

    return f


def _guarded(xp):
    def f(x, y):
        safe = xp.where(x > 1, x - 1, xp.ones_like(x))
        return xp.where(x > 1, xp.sqrt(safe * y), 0 * y)

    return f


CASES = [
    Case("product", "a * b", lambda xp: lambda a, b: a * b, ((3,), (3,))),
    Case("scalars", "sin(a) * b**2 + a / b", lambda xp: lambda a, b: xp.sin(a) * b**2 + a / b, ((), ())),
    Case("loss", "sum((a + b) * b)", lambda xp: lambda a, b: ((a + b) * b).sum(), ((4,), (4,))),
    Case("row and column", "a * exp(-b)", lambda xp: lambda a, b: a * xp.exp(-b), ((3, 1), (1, 4))),
    Case("scalar and matrix", "sum(tanh(s * A))", lambda xp: lambda s, A: xp.tanh(s * A).sum(), ((), (2, 3))),
    Case("quotient", "(a - b) / (a + b)", lambda xp: lambda a, b: (a - b) / (a + b), ((5,), (5,))),
    Case("power", "a**b", lambda xp: lambda a, b: a**b, ((3,), (3,))),
    Case("logarithm", "log(a) * log1p(b)", lambda xp: lambda a, b: xp.log(a) * xp.log1p(b), ((3,), (3,))),
    Case(
        "hyperbolic",
        "sinh(a) + cosh(b) * tanh(a)",
        lambda xp: lambda a, b: xp.sinh(a) + xp.cosh(b) * xp.tanh(a),
        ((3,), (3,)),
    ),
    Case(
        "arcs",
        "arctan2(a, b) + arctan(a)",
        lambda xp: lambda a, b: xp.arctan2(a, b) + xp.arctan(a),
        ((3,), (3,)),
    ),
    Case("root", "sqrt(a**2 + b**2)", lambda xp: lambda a, b: xp.sqrt(a**2 + b**2), ((3,), (3,))),
    Case(
        "maximum",
        "sum(maximum(a, b) * a)",
        lambda xp: lambda a, b: (xp.maximum(a, b) * a).sum(),
        ((6,), (6,)),
    ),
    Case("absolute", "abs(a - b)**3", lambda xp: lambda a, b: xp.abs(a - b) ** 3, ((5,), (5,))),
    Case(
        "where",
        "where(a > b, a * b, a + b)",
        lambda xp: lambda a, b: xp.where(a > b, a * b, a + b),
        ((6,), (6,)),
    ),
    Case("guarded root", "where(a > 1, sqrt((a - 1) * b), 0)", _guarded, ((6,), (6,))),
    Case("mean along rows", "mean(A * A, axis=1)", lambda xp: lambda A: (A * A).mean(1), ((3, 4),)),
    Case("sum along columns", "sum(A * b, axis=0)", lambda xp: lambda A, b: (A * b).sum(0), ((3, 4), (4,))),
    Case("product of all", "prod(a)", lambda xp: lambda a: a.prod(), ((4,),)),
    Case("largest", "max(a * a)", lambda xp: lambda a: (a * a).max(), ((5,),)),
    Case(
        "softmax",
        "exp(a) / sum(exp(a)) * b",
        lambda xp: lambda a, b: xp.exp(a) / xp.exp(a).sum() * b,
        ((4,), (4,)),
    ),
    Case("logsumexp", "logsumexp(a * s)", lambda xp: lambda a, s: xp.log(xp.exp(a * s).sum()), ((5,), ())),
    Case("variance", "mean((a - mean(a))**2)", lambda xp: lambda a: ((a - a.mean()) ** 2).mean(), ((6,),)),
    Case("matrix and vector", "A @ x", lambda xp: lambda A, x: A @ x, ((3, 4), (4,))),
    Case("matrices", "tanh(A @ B)", lambda xp: lambda A, B: xp.tanh(A @ B), ((2, 3), (3, 4))),
    Case("quadratic form", "x @ A @ x", lambda xp: lambda x, A: x @ (A @ x), ((3,), (3, 3))),
    Case("transposed", "A.T @ x", lambda xp: lambda A, x: A.T @ x, ((4, 3), (4,))),
    Case("slices", "sum(a[1:] * a[:-1]**2)", lambda xp: lambda a: (a[1:] * a[:-1] ** 2).sum(), ((6,),)),
    Case("every other", "a[::2] * b", lambda xp: lambda a, b: a[::2] * b, ((5,), (3,))),
    Case("gathered", "x[at]**2 * w", lambda xp: lambda x, at, w: x[at] ** 2 * w, ((4,), GATHER, (5,))),
    Case(
        "gathered sum",
        "sum(x[at] * x[at] * y)",
        lambda xp: lambda x, at, y: (x[at] * x[at] * y).sum(),
        ((4,), GATHER, ()),
    ),
    Case(
        "two results",
        "def f(a, b):\n    return a * b, a + sin(b)",
        lambda xp: lambda a, b: (a * b, a + xp.sin(b)),
        ((3,), (3,)),
    ),
    Case(
        "results of all ranks",
        "def f(A, b):\n    return sum(A), A @ b, A * b",
        lambda xp: lambda A, b: (A.sum(), A @ b, A * b),
        ((2, 3), (3,)),
    ),
    Case(
        "swing",
        (
            "def f(x, v):\n"
            "    for _ in range(5):\n"
            "        v = v - 0.1 * sin(x)\n"
            "        x = x + 0.1 * v\n"
            "    return x, v\n"
        ),
        _loop,
        ((3,), (3,)),
    ),
    Case(
        "polynomial",
        (
            "def f(c, x):\n"
            "    r = 0 * x\n"
            "    for k in range(len(c)):\n"
            "        r = r * x + c[k]\n"
            "    return r\n"
        ),
        _horner,
        ((4,), (3,)),
    ),
    Case(
        "Newton",
        (
            "def f(a):\n"
            "    x = 0 * a + 1\n"
            "    for _ in range(6):\n"
            "        x = 0.5 * (x + a / x)\n"
            "    return x\n"
        ),
        _newton,
        ((3,),),
    ),
    Case(
        "pairs",
        "def f(x, m):\n"
        "    n, d = x.shape\n"
        "    return sum(m[i] * m[j] / sqrt(sum((x[i, k] - x[j, k])**2 for k in range(d)) + 0.1)\n"
        "               for i in range(n) for j in range(n)) / 2",
        _pairs,
        ((4, 3), (4,)),
    ),
    Case(
        "kernel sum",
        "def f(x, y, b):\n"
        "    n, d = x.shape\n"
        "    return [sum(exp(-sum((x[i, k] - y[j, k])**2 for k in range(d))) * b[j] for j in range(len(b)))\n"
        "            for i in range(n)]",
        _kernel,
        ((4, 2), (3, 2), (3,)),
    ),
    Case(
        "perceptron",
        ("def f(W, b, v, x):\n    return sum(v * tanh(x @ W + b), axis=1)\n"),
        lambda xp: lambda W, b, v, x: (v * xp.tanh(x @ W + b)).sum(1),
        ((2, 4), (4,), (4,), (5, 2)),
    ),
    Case(
        "derivative inside",
        ("def f(a, x):\n    def u(x):\n        return sin(a * x)\n    return diff(u, x) + u(x)\n"),
        lambda xp: lambda a, x: a * xp.cos(a * x) + xp.sin(a * x),
        ((), (3,)),
    ),
    Case("linear", "2 * a - b + 1", lambda xp: lambda a, b: 2 * a - b + 1, ((3,), (3,))),
]
