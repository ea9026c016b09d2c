"""Sparse Jacobians and Hessians against the dense ones, their patterns and how many directions they need."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse

import adcompiler as adc

RANDOM = np.random.default_rng(5)
X, Y = RANDOM.uniform(0.5, 1.5, 7), RANDOM.uniform(0.5, 1.5, 7)
A = RANDOM.normal(size=(3, 7))
INDEX = np.array([0, 2, 2, 5, 6, 1])
MANY = 100_000

GATHERS = """
def gathers(x, idx):
    return [x[idx[i]]**2 * x[i] for i in range(len(idx))]
"""
SCATTERED = """
def scattered(x, idx):
    total = 0.0
    for i in range(len(idx) - 1):
        total += sin(x[idx[i]] * x[idx[i + 1]])
    return total
"""
RECURRENCE = """
def recurrence(x, y):
    state = y[0]
    for t in range(1, len(x)):
        state = tanh(state * x[t]) + y[t]
    return state, x[1:] * y[0]
"""
WHILE = """
def halved(x, s):
    while s > 1.0:
        s = s * 0.5
    return x * s
"""
TRIANGLE = """
def triangle(x):
    return [sum(x[j]**2 for j in range(i + 1)) for i in range(len(x))]
"""
STRIPES = """
def stripes(x, y, n):
    return x[::2] * y[1:5], sum(x * n) * y[0], 3
"""

# source: arguments, how many entries the blocks have, how many directions are needed
JACOBIANS = {
    "x**2 * y": ((X, Y), [7, 7], 2),
    "(x[2:] - 2 * x[1:-1] + x[:-2])**2": ((X,), [15], 3),
    "x * x[0]": ((X,), [13], 2),
    "x[::2] * 3": ((X,), [4], 1),
    "x[::-1] + x": ((X,), [13], 2),
    "a @ x": ((A, X), [21, 21], 3),
    "sum(a * x, axis=1)": ((A, X), [21, 21], 3),
    "x * sum(y)": ((X, Y), [7, 49], 8),
    "x[:, None] * y": ((X[:3], Y[:2]), [6, 6], 5),
    "where(x > 1, x, y)": ((X, Y), [7, 7], 2),
    "x * max(x)": ((X,), [49], 7),
    "x[argmax(y)] * y": ((X, Y), [49, 7], 8),
    "x * y": ((2.0, 3.0), [1, 1], 2),
    "cumsum(x)": ((X,), [28], 7),
    "floor(x) + y": ((X, Y), [0, 7], 1),
    GATHERS: ((X, INDEX), [11], 3),
    TRIANGLE: ((X,), [28], 7),
    RECURRENCE: ((X, Y), [6, 7, 6, 6], 3),
    WHILE: ((X, 5.0), [49, 7], 8),
}
HESSIANS = {
    "sum((x[1:] - x[:-1]**2)**2)": ((X,), [19], 3),
    "sum(x[0] * x[1:]**2) + x[0]**3": ((X,), [19], 2),
    "sum(exp(x * y))": ((X, Y), [7, 7, 7, 7], 2),
    "sum(x * s * s) + s**3": ((X, 2.0), [0, 7, 7, 1], 1),
    "sum(tanh(a @ x))": ((A, X), [147, 147, 147, 49], 28),
    "log(sum(x))": ((X,), [49], 7),
    "sum(3 * x)": ((X,), [0], 0),
    SCATTERED: ((X, INDEX), None, None),
    "sum(where(x > 1, x**3, x * y))": ((X, Y), [7, 7, 7, 0], None),
}


def blocks(result) -> list:
    """The matrices of a result, in order."""
    if isinstance(result, tuple):
        return [block for part in result for block in blocks(part)]
    return [result]


def same(sparse, dense) -> None:
    """The blocks of a sparse derivative are those of the dense one, flattened to two dimensions."""
    assert isinstance(sparse, tuple) == isinstance(dense, tuple)
    found, wanted = blocks(sparse), blocks(dense)
    assert len(found) == len(wanted)
    for block, want in zip(found, wanted, strict=True):
        assert isinstance(block, scipy.sparse.csr_array)
        assert block.shape[0] * block.shape[1] == np.size(want)
        np.testing.assert_allclose(block.toarray().ravel(), np.ravel(want), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("source", JACOBIANS)
def test_a_sparse_jacobian_is_the_dense_one(source, backend):
    args, entries, directions = JACOBIANS[source]
    f = adc.compile(source, backend=backend)
    sparse = adc.jacobian(f, sparse=True)
    found = sparse(*args)
    same(found, adc.jacobian(f)(*args))
    assert [block.nnz for block in blocks(found)] == entries
    assert sparse.colors(*args) == directions


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("source", HESSIANS)
def test_a_sparse_hessian_is_the_dense_one(source, backend):
    args, entries, directions = HESSIANS[source]
    f = adc.compile(source, backend=backend)
    sparse = adc.hessian(f, sparse=True)
    found = sparse(*args)
    same(found, adc.hessian(f)(*args))
    assert entries is None or [block.nnz for block in blocks(found)] == entries
    assert directions is None or sparse.colors(*args) == directions
