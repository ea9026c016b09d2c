"""Forty functions through JAX, values and two orders of derivatives, against JAX's own."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from interop.functions import CASES

import adcompiler as adc

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'adcompiler[jax]'")
jnp = jax.numpy

CLOSE = {"float64": {"rtol": 1e-9, "atol": 1e-10}, "float32": {"rtol": 3e-3, "atol": 2e-4}}
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@cache
def compiled(case):
    return adc.compile(case.source).jax()


def wanted(case):
    """The numbers of the arguments that are floats."""
    return tuple(k for k, s in enumerate(case.shapes) if isinstance(s, tuple))


def mapped(case, count):
    """`count` calls at once: the arguments, and their mapped axes."""
    calls = [case.arguments(seed=seed) for seed in range(count)]
    floats = wanted(case)
    given = [np.stack(a) if k in floats else a[0] for k, a in enumerate(zip(*calls, strict=True))]
    return given, tuple(0 if k in floats else None for k in range(len(given)))


def weighted(results):
    """A number that depends on every entry of the results, on each in another way."""
    results = results if isinstance(results, tuple) else (results,)
    return sum((r * jnp.linspace(1, 2, r.size, dtype=r.dtype).reshape(r.shape)).sum() for r in results)


def total(f):
    return lambda *args: weighted(f(*args))


def assert_same(ours, theirs):
    ours, theirs = jax.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, **CLOSE[str(one.dtype)])


@cases
def test_values_and_hessians(case):
    """Forward over reverse mode: the primitive's jvp, transpose, batching and lowering."""
    given = case.arguments()

    def orders(f):
        return jax.jit(lambda *args: (f(*args), jax.hessian(total(f), wanted(case))(*args)))

    assert_same(orders(compiled(case))(*given), orders(case.of(jnp))(*given))


@cases
def test_reverse_over_reverse_in_float32_with_an_argument_without_gradient(case):
    given = case.arguments(np.float32)
    argnums = wanted(case)[:-1] or wanted(case)

    def orders(f):
        def squares(*args):
            return sum((g * g).sum() for g in jax.grad(total(f), argnums)(*args))

        return jax.jit(lambda *args: (jax.grad(total(f), argnums)(*args), jax.grad(squares, argnums)(*args)))

    assert_same(orders(compiled(case))(*given), orders(case.of(jnp))(*given))


@cases
def test_a_hessian_times_a_vector_under_vmap(case):
    given, axes = mapped(case, 3)
    floats = wanted(case)

    def product(f):
        def one(*args):
            def gradient(*chosen):
                whole = list(args)
                for k, value in zip(floats, chosen, strict=True):
                    whole[k] = value
                return jax.grad(total(f), floats)(*whole)

            chosen = tuple(args[k] for k in floats)
            return jax.jvp(gradient, chosen, chosen)

        return jax.jit(jax.vmap(one, axes))

    assert_same(product(compiled(case))(*given), product(case.of(jnp))(*given))


@pytest.mark.slow
@cases
def test_jacobians_by_both_modes(case):
    given, floats = case.arguments(), wanted(case)
    for mode in (jax.jacfwd, jax.jacrev):
        ours, theirs = (jax.jit(mode(f, floats))(*given) for f in (compiled(case), case.of(jnp)))
        assert_same(ours, theirs)
