"""Random programs on random chunks: right to rounding, or refused with a LimitError."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interop.dask.cases import computed
from judges.compared import leaves
from programs import Program, programs
from programs.extrema import extremum_programs, last_alone
from sweepchecks import floats, same

import adcompiler as adc

da = pytest.importorskip("dask.array", reason="needs dask[array]")


def chunks(length: int, draw: random.Random) -> tuple[int, ...]:
    """Lengths of chunks: uneven, of one element, empty."""
    ends = [0, *sorted(draw.choices(range(length + 1), k=draw.randrange(4))), length]
    return tuple(b - a for a, b in pairwise(ends))


def lazily(args: tuple[Any, ...], draw: random.Random) -> tuple[Any, ...]:
    """Most of the arrays in chunks."""
    return tuple(
        da.from_array(a, tuple(chunks(n, draw) for n in a.shape))
        if isinstance(a, np.ndarray) and a.ndim and draw.random() < 0.8
        else a
        for a in args
    )


def agrees(program: Program, seed: int, scalar: bool) -> None:
    """A value, and of a scalar gradients and products with the Hessian, on chunks and on one machine."""
    f, args = adc.compile(program.source, backend="numpy"), program.args
    lazy, wrt = lazily(args, random.Random(seed)), floats(args)
    pairs: list[Any] = [(lambda: f(*lazy), lambda: f(*args))]
    if scalar:
        ways = tuple(np.cos(args[k]) for k in wrt)
        pairs.append(
            (lambda: adc.dask.value_and_grad(f, wrt)(*lazy), lambda: adc.value_and_grad(f, wrt)(*args))
        )
        pairs.append((lambda: adc.dask.hvp(f, wrt)(lazy, ways), lambda: adc.hvp(f, wrt)(args, ways)))
    for chunked, whole in pairs:
        try:
            found = computed(chunked())
        except adc.LimitError:
            continue
        same(tuple(leaves(found)), tuple(leaves(whole())), 1e-6)


few = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@few
@given(programs(), st.integers(0, 10**6))
def test_expressions(program, seed):
    with np.errstate(all="ignore"):
        agrees(program, seed, scalar=False)


@few
@given(extremum_programs(), st.integers(0, 10**6))
def test_extrema_and_what_is_compared_with_them(program, seed):
    with np.errstate(all="ignore"):
        agrees(program, seed, scalar=False)
        agrees(Program(last_alone(program.source), program.args), seed, scalar=True)
