"""Whole programs of the IR: both backends agree, and derivatives agree with finite differences."""

from __future__ import annotations

import re

import numpy as np
import pytest

from programs.ir_evaluated import backends, orders, program, prove, reference
from programs.ir_texts import (
    BROADCAST,
    CASES,
    COLUMNS,
    CUBES,
    GATHER,
    HISTOGRAM,
    LAYERNORM,
    OFFSETS,
    PAIRWISE,
    SCALARS,
    SOFTMAX,
    TRIANGLE,
)


@pytest.mark.thinned(24)
@pytest.mark.parametrize("text", CASES, ids=lambda text: program(text).name)
def test_two_orders(text):
    prove(program(text), CASES[text])


@pytest.mark.thinned(4)
@pytest.mark.parametrize("text", [SCALARS, CUBES, OFFSETS, TRIANGLE], ids=lambda text: program(text).name)
def test_third_order(text):
    prove(program(text), CASES[text], highest=3, rtol=1e-6)


SINGLE = [PAIRWISE, GATHER, SOFTMAX, COLUMNS, LAYERNORM, HISTOGRAM, BROADCAST, CUBES]


@pytest.mark.thinned(2)
@pytest.mark.parametrize("text", SINGLE, ids=lambda text: program(text).name)
def test_single_precision(text):
    single = program(re.sub(r"(\d\.\d+)", r"\1f", text.replace("f64", "f32")))
    args = [np.asarray(a, np.float32) if a.dtype == np.float64 else a for a in map(np.asarray, CASES[text])]
    double = next(iter(orders(program(text))))[1]
    func = next(iter(orders(single)))[1]
    assert {r.dtype for r in func.results} == {"f32"}
    backends(func, args, 2e-4)
    for a, b in zip(reference(func, args), reference(double, CASES[text]), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3 * np.abs(b).max())
