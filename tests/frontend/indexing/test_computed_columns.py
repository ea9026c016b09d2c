"""Reductions of the columns of a matrix, of which the call computes how many there are.

A row of the matrix is contiguous, so a reduction would go over the rows first, and each block of rows would
have partial results of its own; but only the kernel knows how long these are.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracle import evaluate

import adcompiler as adc

HEAD = "def f(a: f64[b, n], w: f64[n], k: i64[b]):\n    "
COLUMNS = {
    "sums": "return sum(a[:, : k[0]], axis=0) * w[: k[0]]",
    "sums of elements": "return [sum(a[j, i] * w[i] for j in range(b)) for i in range(max(k))]",
    "maxima": "return [max(a[j, i] * w[i] for j in range(b)) for i in range(k[0])]",
    "norms": "return norm(a[:, : k[0]], axis=0)",
    "pairs": "return [[sum(a[j, i] * a[j, h] for j in range(b)) for h in range(k[1])] for i in range(2)]",
    "in a loop": "s = w\n    for t in range(b):\n        s = sin(s) + sum(sum(a[:, : k[t]], axis=0) ** 2)\n"
                 "    return s",
}  # fmt: skip
CHAINS = """
def score(emission, start, tags, m):
    g = 0.0
    for t in range(m):
        g += start[tags[t]] + emission[t, tags[t]]
    return g

def partition(emission, start, change, m):
    n = len(start)
    a = start + emission[0]
    for t in range(1, m):
        a = [logsumexp(a[i] + change[i, j] for i in range(n)) + emission[t, j] for j in range(n)]
    return logsumexp(a)

def f(emission: f64[b, t, n], start: f64[n], change: f64[n, n], tags: i64[b, t], k: i64[b]):
    return [
        score(emission[i], start, tags[i], k[i]) - partition(emission[i], start, change, k[i])
        for i in range(b)
    ]
"""
RANDOM = np.random.default_rng(3)
MATRIX = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=4), np.array([2, 4, 3])
SENTENCES = (
    *(RANDOM.normal(size=shape) for shape in ((3, 5, 2), (2,), (2, 2))),
    RANDOM.integers(0, 2, (3, 5)),
    np.array([5, 1, 3]),
)


def total(source, count):
    """The sum of squares of what f gives, of arguments that f has annotated."""
    names = ", ".join("pqrst"[:count])
    return f"{source}\n\ndef total({names}):\n    return sum(f({names}) ** 2)"


@pytest.mark.thinned(6)
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("body", COLUMNS.values(), ids=COLUMNS)
def test_columns(body, backend):
    f = adc.compile(HEAD + body, backend=backend)
    np.testing.assert_allclose(f(*MATRIX), evaluate(HEAD + body, *MATRIX), rtol=1e-12)
    assert adc.check_grad(adc.compile(total(HEAD + body, 3), backend=backend), *MATRIX, order=2) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_sentences_of_different_lengths(backend):
    """A conditional random field: the sums over a sentence's words are columns of all sentences."""
    f = adc.compile(CHAINS, name="f", backend=backend)
    np.testing.assert_allclose(f(*SENTENCES), evaluate(CHAINS, *SENTENCES, name="f"), rtol=1e-12)
    g = adc.compile(total(CHAINS, 5), name="total", backend=backend)
    assert adc.check_grad(g, *SENTENCES, order=2) < 1e-6


def test_many_rows_in_blocks():
    """Blocks, and threads, have nothing to share but results."""
    a, w, k = np.random.default_rng(1).normal(size=(100_000, 3)), np.ones(3), np.array([2])
    f = adc.compile("def f(a, w, k: i64[1]):\n    return sum(a[:, : k[0]], axis=0) * w[: k[0]]")
    np.testing.assert_allclose(f(a, w, k), a[:, :2].sum(axis=0), rtol=1e-9)


def test_float32():
    f = adc.compile(HEAD.replace("f64", "f32") + COLUMNS["sums"])
    a, w, k = MATRIX
    result = f(a.astype("f"), w.astype("f"), k)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, a[:, :2].sum(axis=0) * w[:2], rtol=1e-5)
