"""Programs whose loops are left by `break`, `continue` and `return`: sources by name, and arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs import Program

LONG = np.random.default_rng(0).uniform(0.3, 1.5, 9)

SOURCES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "a break": (
        "def f(x: f64[n], w):\n    s = w\n    for v in x:\n        s = s * v + sin(s)\n"
        "        if v > 1.3:\n            break\n        s += v * w\n    return s",
        (LONG, 0.7),
    ),
    "a continue": (
        "def f(x: f64[n], w):\n    s = w\n    for i in range(n):\n        if x[i] < 0.6:\n"
        "            continue\n        s = sin(s) * x[i] + w\n    return s",
        (LONG, 0.7),
    ),
    "a break and a continue": (
        "def f(x: f64[n], w):\n    s = w\n    t = 0.0\n    for i, v in enumerate(x):\n"
        "        if v < 0.6:\n            t += v\n            continue\n        elif i > 5:\n"
        "            t *= s\n            break\n        else:\n            y = s * v\n"
        "        if y > 2.0:\n            if w > 0.5:\n                break\n"
        "            s = 1.0\n        s = s + sin(y)\n    return s * t + s",
        (LONG, 0.7),
    ),
    "a while that is left": (
        "def f(x, w):\n    k = 0\n    while True:\n        k += 1\n        x = sin(x) + w\n"
        "        if k % 3 == 0:\n            continue\n        x = x * x\n        if k > 10:\n"
        "            break\n    return x * k",
        (0.4, 0.7),
    ),
    "nested loops that are left": (
        "def f(x: f64[n], w):\n    s = w\n    for i in range(n):\n        for j in range(n):\n"
        "            if j > i:\n                break\n            if j == 2:\n"
        "                continue\n            s += sin(x[i] * x[j]) * s / 5\n"
        "        if s > 6.0:\n            break\n    return s",
        (LONG, 0.7),
    ),
    "stores and a break": (
        "def f(x: f64[n], w):\n    y = zeros(n)\n    for i in range(1, n):\n"
        "        if x[i] < 0.6:\n            continue\n        y[i] = y[i - 1] * w + x[i]\n"
        "        if i > 6:\n            break\n    return y",
        (LONG, 0.7),
    ),
    "a break in what is written out": (
        "def f(x, w):\n    s = w\n    for k in (1, 2, 3, 4):\n        s = s * x + k\n"
        "        if k == 3:\n            continue\n        if s > 6.0:\n            break\n"
        "        s = sin(s)\n    return s * w",
        (1.4, 0.7),
    ),
    "a break and a return": (
        "def f(x, w):\n    s = w\n    for k in (1, 2, 3, 4):\n        s = s * x + k\n"
        "        if k == 3:\n            continue\n        if s > 16.0:\n            break\n"
        "        if s > w:\n            return s * w\n        s = sin(s)\n    return s * w",
        (1.4, 0.7),
    ),
    "a break for each of many": (
        "def g(a, x):\n    s = a\n    for v in x:\n        if v * a > 1.4:\n            break\n"
        "        s = s * v + a\n    return s\n\ndef f(x, a):\n    return [g(b, x) for b in a]",
        (LONG, LONG[:4]),
    ),
    "a return": (
        "def f(x: f64[n], w):\n    s = w\n    for i in range(n):\n        s = s * x[i] + sin(s)\n"
        "        if s > 3.0:\n            return s * x[i] * w\n        s += w\n    return s",
        (LONG, 0.7),
    ),
    "an array returned from nested loops": (
        "def f(x: f64[n], w):\n    s = w\n    for i in range(n):\n        for v in x:\n"
        "            if v < 0.5:\n                continue\n            s = sin(s) + v * w\n"
        "            if s * i > 2.0:\n                return s * x * x[i]\n"
        "        if s < 0:\n            return x\n    return -x",
        (LONG, 0.7),
    ),
    "a while without an end": (
        "def g(x, w):\n    k = 0\n    while True:\n        k += 1\n        x = sin(x) + w * k\n"
        "        if k > 5:\n            return x, x * w\n\n"
        "def f(x, w):\n    a, b = g(x, w)\n    return a * b",
        (0.4, 0.7),
    ),
    "a return under a branch": (
        "def f(x: f64[n], w):\n    if w > 0.1:\n        for k in (1, 2):\n            for v in x:\n"
        "                if v * k > 2.0:\n                    return v * v * w\n"
        "                w = w * v\n        w = w + 1\n    return w * x[0]",
        (LONG, 0.7),
    ),
    "a return for each of many": (
        "def g(a, x):\n    s = a\n    for v in x:\n        if v * a > 1.4:\n            return s * v\n"
        "        s = s * v + a\n    return s\n\ndef f(x, a):\n    return [g(b, x) for b in a]",
        (LONG, LONG[:4]),
    ),
    "a return that a length forbids": (
        "def g(x, w):\n    for i in range(3):\n        q = 0\n        while q < 3:\n"
        "            for j, v in enumerate(x):\n                if not j % 2 == 0:\n"
        "                    return x * w\n            q += 1\n    return x * x\n\n"
        "def f(x, w):\n    return g(x[:1] * w, w) * g(x[:2], w)",
        (LONG, 0.7),
    ),
    "a break in a ragged loop": (
        "def h(x, i, w):\n    s = w\n    for j in range(i):\n        if x[j] > 1.3:\n"
        "            break\n        s = s * x[j] + w\n    return s\n\ndef f(x: f64[n], w):\n"
        "    return [h(x, i, w) for i in range(n)]",
        (LONG, 0.7),
    ),
}
LEAVING = {name: Program(source, args) for name, (source, args) in SOURCES.items()}
