"""SlangPy's styles on random programs: backward is vjp, and agrees with forward on dual numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from programs import Program, programs

import adcompiler as adc
from adcompiler import DiffPair

few = settings(max_examples=15)
numbers = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def like(value: Any, random: np.random.Generator) -> Any:
    """Random numbers shaped as a value, or as each of a tuple."""
    if isinstance(value, tuple):
        return tuple(like(part, random) for part in value)
    return random.uniform(-1, 1, np.shape(value)).astype(np.asarray(value).dtype)


def inner(one: Any, other: Any) -> float:
    """The inner product of arrays, or of tuples of them; None is zero."""
    if isinstance(one, tuple):
        return sum(inner(a, b) for a, b in zip(one, other, strict=True))
    return 0.0 if one is None or other is None else float(np.sum(np.asarray(one) * np.asarray(other)))


@few
@given(programs(), numbers)
def test_backward_is_the_pullback(program: Program, random: np.random.Generator) -> None:
    f = adc.compile(program.source, backend="numpy")
    value, pullback = adc.vjp(f, *program.args)
    seed = like(value, random)
    want = pullback(seed)
    pairs = [DiffPair(a) for a in program.args]
    for times in (1, 2):
        for each, pair, w in zip(f.backward(*pairs, seed), pairs, want, strict=True):
            assert (each is None) == (w is None) == (pair.d is None)
            if w is not None:
                assert_allclose(each, w, rtol=1e-9, atol=1e-12)
                assert_allclose(pair.d, times * w, rtol=1e-9, atol=1e-12)
    for each, w in zip(f.backward(*program.args, dresult=seed), want, strict=True):
        assert (each is None and w is None) or np.array_equal(each, w) or np.allclose(each, w)


@few
@given(programs(smooth=True), numbers)
def test_the_second_order_of_backward_is_that_of_forward(
    program: Program, random: np.random.Generator
) -> None:
    """<f''[t, .] c, u> = <f''[t, u], c> for tangents t and u and a cotangent c."""
    f = adc.compile(program.source, backend="numpy")
    seed = like(f(*program.args), random)
    t, u = ([like(a, random) for a in program.args] for _ in range(2))
    duals = [DiffPair(DiffPair(a, d)) for a, d in zip(program.args, t, strict=True)]
    found = f.backward(*duals, seed)
    along = f.forward(*(DiffPair(DiffPair(a, d), e) for a, d, e in zip(program.args, t, u, strict=True)))
    second = tuple(pair.d.d for pair in along) if isinstance(along, tuple) else along.d.d
    back = sum(inner(pair.d, e) for pair, e in zip(found, u, strict=True) if pair is not None)
    assert_allclose(back, inner(second, seed), rtol=1e-7, atol=1e-7)
