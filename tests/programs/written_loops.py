"""Programs with loops and branches that the tests share: sources by name, and arguments for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs import Program
from programs.written_exits import LEAVING

RANDOM = np.random.default_rng(7)
X = RANDOM.uniform(0.3, 1.5, 5)
M = RANDOM.uniform(0.3, 1.5, (3, 4))
A = RANDOM.uniform(0.1, 0.4, (3, 3)) + 2 * np.eye(3)
AT = np.array([0, 2, 2, 4, -1])
MIXED = np.array([0.5, -0.4, 1.3, 0.1, -2.0])

SOURCES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "sum": (
        "def f(x: f64[n]):\n    s = 0\n    for i in range(n):\n        s += x[i] ** 2\n    return s",
        (X,),
    ),
    "decay": (
        "def f(x: f64[n], a):\n    s = 1.0\n    for v in x:\n        s = a * tanh(s) + v\n    return s",
        (X, 0.7),
    ),
    "in_vain": (
        "def f(x: f64[n], w):\n    z = zeros(n)\n    s = 0.5\n    for v in x:\n        i = 0\n"
        "        while i < 3:\n            j = 0\n            while j < 3:\n"
        "                v = sin(w + z[j % n])\n                j += 1\n            i += 1\n"
        "        s = w * s + w\n    return s",
        (X, 0.3),
    ),
    "swap": (
        "def f(a, b):\n    for i in range(6):\n        a, b = b, a + b * b\n    return a * b",
        (0.3, 0.2),
    ),
    "backward": (
        "def f(x: f64[n]):\n    s = x[0]\n    for i in range(n - 2, -1, -2):\n"
        "        s = s * x[i] + x[i + 1] ** 2\n    return s",
        (X,),
    ),
    "triangle": (
        "def f(x: f64[n]):\n    s = 0.0\n    for i in range(n):\n        for j in range(i):\n"
        "            for k in range(j, n):\n                s = 0.9 * s + x[i] * x[j] * x[k]\n    return s",
        (X,),
    ),
    "rows": (
        "def f(x: f64[n, d]):\n    s = zeros(d)\n    for k, r in enumerate(x):\n        s = s * r + k * r\n"
        "    return s",
        (np.vstack([M, M]),),
    ),
    "tuple": (
        "def f(x: f64[n]):\n    p = x[0], x[1]\n    for i in range(n):\n        a, b = p\n"
        "        p = b * x[i], a + b\n    return p",
        (X,),
    ),
    "counted": (
        "def f(x: f64[n]):\n    k = 0\n    seen = False\n    s = 0.0\n    for v in x:\n"
        "        s = s + (k * v**2 if seen else v)\n        if v > 0.7:\n            seen = True\n"
        "            k = k + 1\n    return s, k, seen",
        (X,),
    ),
    "branches": (
        "def f(x: f64[n]):\n    s = 1.0\n    for i in range(n):\n        if x[i] > 0:\n"
        "            s = s + sqrt(x[i])\n        elif x[i] < -1:\n            s = s * x[i]\n        else:\n"
        "            s = s - x[i] ** 2\n    return s",
        (MIXED,),
    ),
    "returns": (
        "def g(x):\n    if x > 0:\n        return sqrt(x)\n    y = x * x\n    if y > 2:\n        return y\n"
        "    return y * x\n"
        "def f(x: f64[n]):\n    return sum(g(x[i]) for i in range(n))",
        (MIXED,),
    ),
    "while": (
        "def f(x):\n    k = 0\n    while x < 50:\n        x = x * x + 1\n        k += 1\n    return x * k",
        (0.3,),
    ),
    "while of arrays": (
        "def f(x: f64[n]):\n    y = x.copy()\n    while sum(y * y) > 0.1:\n"
        "        y = 0.7 * y * cos(y)\n    return y",
        (X,),
    ),
    "while under a branch": (  # where the branch is not taken, it would not end
        "def root(a):\n    if a <= 0:\n        return a * a\n    y = a\n"
        "    while abs(y * y - a) > 1e-12:\n        y = 0.5 * (y + a / y)\n    return y\n"
        "def f(x: f64[n]):\n    return [root(v) for v in x]",
        (MIXED,),
    ),
    "loop under a condition": (  # the root of a negative number, which no derivative may see
        "def roots(a):\n    y = a\n    for k in range(7):\n        y = sqrt(y)\n    return y\n"
        "def f(x: f64[n]):\n    return sum(roots(x[i]) for i in range(n) if x[i] > 0)",
        (MIXED,),
    ),
    "loop in a comprehension": (
        "def g(a, k):\n    y = a\n    for j in range(k):\n        y = sin(y) + a\n    return y\n"
        "def f(x: f64[n]):\n    return [g(x[i], i) for i in range(n)]",
        (X,),
    ),
    "comprehension in a loop": (
        "def f(x: f64[n]):\n    y = x.copy()\n    for k in range(6):\n"
        "        y = [sum(y[j] * x[i] for j in range(i + 1)) * 0.3 for i in range(n)]\n    return y",
        (X,),
    ),
    "stores": (
        "def f(x: f64[n]):\n    y = zeros(n)\n    for i in range(n - 1):\n        y[i] = x[i] ** 2\n"
        "        y[i + 1] = y[i] * x[i + 1]\n    return y",
        (X,),
    ),
    "bubble": (
        "def f(x: f64[n]):\n    y = x.copy()\n    for i in range(n - 1):\n"
        "        y[i], y[i + 1] = y[i + 1] * x[i], y[i]\n    return y",
        (X,),
    ),
    "scatter": (  # two iterations store at one place
        "def f(x: f64[n], at: i64[m]):\n    y = x.copy()\n    for i in range(m):\n"
        "        y[at[i]] += y[at[i - 1]] * x[i]\n        y[0] *= 0.5\n    return y",
        (X, AT),
    ),
    "slices": (
        "def f(x: f64[n]):\n    y = x.copy()\n    for i in range(6):\n"
        "        y[1:-1] = y[1:-1] + 0.1 * (y[2:] - 2 * y[1:-1] + y[:-2])\n"
        "        y[::2] *= x[0]\n    return y",
        (X,),
    ),
    "table": (
        "def f(x: f64[n, m]):\n    y = x.copy()\n    for i in range(n):\n        for j in range(1, m):\n"
        "            y[i, j] = y[i, j - 1] * x[i, j] + y[i - 1, j]\n    return y",
        (M,),
    ),
    "elimination": (
        "def f(A: f64[n, n]):\n    M = A\n    for k in range(n):\n        for i in range(k + 1, n):\n"
        "            M[i] = M[i] - (M[i, k] / M[k, k]) * M[k]\n    return prod(M[k, k] for k in range(n))",
        (A,),
    ),
    "largest": (
        "def f(x: f64[n]):\n    best = x[0]\n    at = 0\n    for i in range(1, n):\n        if x[i] > best:\n"
        "            best = x[i]\n            at = i\n    return best * best, at",
        (X,),
    ),
    "iterations of an argument": (
        "def f(x: f64[n], k: i64):\n    s = 1.0\n    for i in range(k, 0, -2):\n"
        "        s = s * x[i % n] + i\n    return s",
        (X, 7),
    ),
    "dynamic programming": (
        "def f(T: f64[k, k], e: f64[n, k]):\n    a = e[0]\n    for t in range(1, n):\n"
        "        a = [logsumexp(a[i] + T[i, j] for i in range(k)) + e[t, j] for j in range(k)]\n"
        "    return logsumexp(a)",
        (A, np.vstack([A, A[::-1]])),
    ),
    "reversed in every iteration": (
        "def f(x: f64[n], w):\n    for i in range(3):\n"
        "        x = [sin(w * x[n - 1 - k % n]) for k in range(n)]\n    return sum(x * x)",
        (np.linspace(0.2, 1.3, 4), 0.7),
    ),
    "swapped, then a loop": (
        "def f(x: f64[n], w):\n    z = zeros(n)\n    for i in range(n):\n        z, x = x, z\n"
        "        for k in range(n):\n            x = sin(x * w) + k\n    return z * w + x",
        (np.linspace(0.2, 1.3, 4), 0.7),
    ),
    "one row": (
        "def f(x: f64[n, m]):\n    y = zeros((n, m))\n    for i in range(n):\n        y[i] = x[i] ** 2\n"
        "        y[i, 1] += y[i, 0] * x[i, 0]\n    return y",
        (M[:1],),
    ),
    "matrices": (
        "def f(x: f64[n, m, k], at: i64[p]):\n    y = x.copy()\n    for i in range(p):\n"
        "        y[at[i]] = y[at[i - 1]] * x[i % n] + 0.5\n    return y",
        (np.stack([M, M + 1, M**2]), np.array([0, 2, 1, 2, 0])),
    ),
    "no iteration": (
        "def f(x: f64[n], w):\n    y = w\n    for i in range(n):\n        y = y * x[i]\n    return y * w",
        (np.zeros(0), 1.2),
    ),
}
PROGRAMS = {name: Program(source, args) for name, (source, args) in SOURCES.items()} | LEAVING

# Lengths of what is carried, that an array gives.
BEHIND = """
def f(x: f64[n], k: i64[m]):
    y = [x[0] * i for i in range(k[0])]
    for t in range(k[1]):
        y = [sin(y[i]) * y[i] + x[0] for i in range(k[0])]
        s = y[0]
        while s < 3:
            s = s + y[0]**2 + 1
        y = [y[i] + s for i in range(k[0])]
    return sum(y[i] for i in range(k[0]))
"""
