"""Random programs: values and gradients on every backend are those of the oracle.

`programs` draws them; `oracle` runs the same source through Python's interpreter and differentiates it in
a hundred digits. A gradient is compared along a random direction, with random cotangents: an error in any
entry shows.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from judges.compared import agrees, along, directions, has_oracles_value, leaves, near, structure, totalled
from oracle import Exact, contracted, evaluate, rounded

import adcompiler as adc
from programs import Program, programs


def has_oracles_gradient(program: Program, backend: str, relative: float = 1e-9) -> None:
    """`grad`, `value_and_grad` and `vjp` of the sum of all results."""
    total = totalled(program)
    f = adc.compile(total.source, backend=backend)
    (direction,) = directions(total, 1)
    expected = along(total, direction)
    assume(expected is not None)
    value, joint = adc.value_and_grad(f, wrt=tuple(range(len(total.args))))(*total.args)
    near(value, evaluate(total.source, *total.args))
    agrees(joint, direction, expected, relative)
    for gradient, arg in zip(joint, total.args, strict=True):
        assert np.shape(gradient) == np.shape(arg)
        assert np.asarray(gradient).dtype == np.asarray(arg).dtype
    alone = adc.grad(f, wrt=tuple(range(len(total.args))))(*total.args)
    agrees(alone, direction, expected, relative)


def has_oracles_pullback(program: Program, backend: str, relative: float = 1e-9) -> None:
    """`vjp` and `split` of all results, with a random cotangent for each."""
    f = adc.compile(program.source, backend=backend)
    (direction,) = directions(program, 1)
    random = np.random.default_rng(3)
    exact = Exact(program.source, program.args)
    slopes, beside = exact.difference([direction]), exact.difference([direction], shift=1)
    value, pullback = adc.vjp(f, *program.args)
    cotangents = [random.uniform(0.5, 1.5, np.shape(v)) for v in leaves(value)]
    expected = float(contracted(slopes, tuple(cotangents)))
    assume(abs(float(contracted(beside, tuple(cotangents))) - expected) <= 1e-9 * max(1.0, abs(expected)))
    given = cotangents[0] if structure(value) is None else tuple(cotangents)
    agrees(pullback(given), direction, expected, relative)
    results, saved = f.split().forward(*program.args)
    for one, other in zip(leaves(results), leaves(value), strict=True):
        near(one, other)
    agrees(f.split().propagate(saved, given), direction, expected, relative)


def has_oracles_tangent(program: Program, backend: str) -> None:
    """`jvp`, and every block of `jacobian`, along a random direction."""
    f = adc.compile(program.source, backend=backend)
    (direction,) = directions(program, 1)
    exact = Exact(program.source, program.args)
    slopes, beside = exact.difference([direction]), exact.difference([direction], shift=1)
    expected = [rounded(slope) for slope in slopes]
    for one, other in zip(expected, map(rounded, beside), strict=True):
        assume(np.allclose(one, other, rtol=1e-9, atol=1e-9))
    value, tangent = adc.jvp(f, program.args, direction)
    blocks = adc.jacobian(f, tuple(range(len(program.args))))(*program.args)
    rows = [blocks] if structure(value) is None else blocks
    for one, other, row in zip(leaves(tangent), expected, rows, strict=True):
        near(one, other)
        terms = [np.tensordot(b, d, np.ndim(d)) for b, d in zip(row, direction, strict=True)]
        near(sum(terms), other, 1e-9 * sum(map(np.abs, terms)))


# ---- Values ----


@settings(max_examples=10)
@given(programs())
def test_values_interpreted(program: Program) -> None:
    has_oracles_value(program, "numpy")


@settings(max_examples=3)
@given(programs())
def test_values_compiled(program: Program) -> None:
    has_oracles_value(program, "cpu")


@settings(max_examples=10)
@given(programs(dtype=np.float32))
def test_values_in_float32(program: Program) -> None:
    has_oracles_value(program, "numpy")


@settings(max_examples=3)
@given(programs(dtype=np.float32))
def test_values_in_float32_compiled(program: Program) -> None:
    has_oracles_value(program, "cpu")


# ---- Gradients ----


@example(
    Program("where(w > 0, -x, where(x > 0, sqrt(x), y))", (np.ones(2), np.full(1, -1.4), np.full(1, 0.8)))
)
@settings(max_examples=8)
@given(programs(smooth=True))
def test_gradients_interpreted(program: Program) -> None:
    has_oracles_gradient(program, "numpy")
    has_oracles_pullback(program, "numpy")


@settings(max_examples=10)
@given(programs(smooth=True))
def test_tangents_interpreted(program: Program) -> None:
    has_oracles_tangent(program, "numpy")


@settings(max_examples=3)
@given(programs(smooth=True))
def test_gradients_compiled(program: Program) -> None:
    has_oracles_gradient(program, "cpu")


@settings(max_examples=3)
@given(programs(smooth=True))
def test_pullbacks_compiled(program: Program) -> None:
    has_oracles_pullback(program, "cpu")


@settings(max_examples=6)
@given(programs(smooth=True, dtype=np.float32))
def test_pullbacks_in_float32(program: Program) -> None:
    has_oracles_pullback(program, "numpy", 1e-4)


@settings(max_examples=2)
@given(programs(smooth=True, dtype=np.float32))
def test_pullbacks_in_float32_compiled(program: Program) -> None:
    has_oracles_pullback(program, "cpu", 1e-4)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize(
    "source",
    [
        "sum(where(x > 0, sqrt(x), 0))",
        "sum(sqrt(x) if x > 0 else 0 * x)",
        "sum(sqrt(where(x > 0, x, 1)))",
        "sum(sqrt(maximum(x, 0)))",
        "sum(sqrt(relu(x)))",
        "sum(sqrt(clip(x, 0, 9)))",
    ],
)
def test_a_branch_not_taken_contributes_nothing(source: str, backend: str) -> None:
    """Its slope may be infinite or NaN there."""
    gradient = adc.grad(adc.compile(source, backend=backend))(np.array([-1.0, 4.0]))
    np.testing.assert_allclose(gradient, [0, 0.25], rtol=1e-15)


NAMED = "def f(w, x):\n    t = sqrt(x)\n    return sum(where(w > 0, t, 1))"


@pytest.mark.parametrize(
    ("source", "x"),
    [
        ("sum(where(w > 0, sqrt(x), 1))", np.float64(-1)),
        ("sum(where(w > 0, x, where(x > 0, sqrt(x), 1)))", np.full(1, -1.0)),
        (NAMED, np.float64(-1)),
        (NAMED, np.float64(0)),
        (NAMED, np.full((1, 3), -1.0)),
        (NAMED.replace("where(w > 0, t, 1)", "where(w > 0, where(x > 0, t, 0), 1)"), np.float64(-1)),
    ],
)
def test_a_guard_over_more_axes_than_its_branch(source: str, x: np.ndarray) -> None:
    """No point takes the branch, so its slope, NaN or infinite, meets nothing: named, saved or neither."""
    f = adc.compile(source, backend="numpy")
    w = np.full((2, 3), -1.0)
    _, pullback = adc.vjp(f, w, x)
    for gradient in (adc.grad(f, "x")(w, x), pullback(1.0)[1]):
        np.testing.assert_array_equal(gradient, np.zeros_like(x))


# ---- Thousands ----


@pytest.mark.slow
@settings(max_examples=3000)
@given(programs())
def test_many_values_interpreted(program: Program) -> None:
    has_oracles_value(program, "numpy")


@pytest.mark.slow
@settings(max_examples=3000)
@given(programs(dtype=np.float32))
def test_many_values_in_float32(program: Program) -> None:
    has_oracles_value(program, "numpy")


@pytest.mark.slow
@settings(max_examples=2000)
@given(programs(smooth=True))
def test_many_gradients_interpreted(program: Program) -> None:
    has_oracles_gradient(program, "numpy")
    has_oracles_pullback(program, "numpy")


@pytest.mark.slow
@settings(max_examples=2000)
@given(programs(smooth=True))
def test_many_tangents_interpreted(program: Program) -> None:
    has_oracles_tangent(program, "numpy")


@pytest.mark.slow
@settings(max_examples=1000)
@given(programs(smooth=True, dtype=np.float32))
def test_many_pullbacks_in_float32(program: Program) -> None:
    has_oracles_pullback(program, "numpy", 1e-4)


@pytest.mark.slow
@settings(max_examples=400)
@given(programs())
def test_many_values_compiled(program: Program) -> None:
    has_oracles_value(program, "cpu")


@pytest.mark.slow
@settings(max_examples=200)
@given(programs(smooth=True))
def test_many_gradients_compiled(program: Program) -> None:
    has_oracles_gradient(program, "cpu")
    has_oracles_pullback(program, "cpu")
    has_oracles_tangent(program, "cpu")


@pytest.mark.slow
@settings(max_examples=150)
@given(programs(smooth=True, dtype=np.float32))
def test_many_in_float32_compiled(program: Program) -> None:
    has_oracles_value(program, "cpu")
    has_oracles_pullback(program, "cpu", 1e-4)
