"""Second and third derivatives of random programs, by every route, against those of the oracle.

Scalars nest the public `grad`. Arrays go forward over reverse (`hvp`, `hessian`) and reverse over reverse:
a propagate is a program, so its own propagate gives the second derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from judges.compared import agrees, along, directions, totalled
from programs import Program, programs

import adcompiler as adc
from adcompiler.ad.programs.split import split
from adcompiler.ad.programs.split import value_and_grad as joint
from adcompiler.api.modes import Tangent
from adcompiler.api.transforms import Gradient
from adcompiler.ir.nodes import Func
from adcompiler.ir.textform.verify import verify
from adcompiler.ops.table import TABLE
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.runtime.programs.program import Program as Compiled


def everything(program: Program) -> tuple[int, ...]:
    return tuple(range(len(program.args)))


def weights(ways: Sequence[np.ndarray], program: Program) -> tuple[np.ndarray, ...]:
    """A direction in the dtypes of the arguments."""
    return tuple(np.asarray(w, np.asarray(a).dtype) for w, a in zip(ways, program.args, strict=True))


# What was wrong once: a body that varies along fewer axes than its array (the others are summed before it is
# reached), no points at all, a temporary read along several axes.
NARROW = Program(
    "def f(x, y, q):\n    r = sqrt(1 + x * where(y > 0, q, q))\n    return sum(r * r) + sum(r)",
    (np.full((1, 1), 1.7), np.ones((1, 3)), np.array([1.2])),
)
EMPTY = Program("sum(exp(where(y > 0, q, q)))", (np.zeros((1, 0)), np.zeros((1, 0, 1))))
SHARED = Program(
    "def f(x, y):\n    t = exp(x)\n    return sum(t * y / sum(t)) * sum(t)",
    (np.full(3, 0.4), np.ones((2, 3))),
)


# ---- Second order ----


def forward_over_reverse(f: adc.Function, program: Program, way: Sequence[np.ndarray]) -> Sequence[object]:
    return adc.hvp(f, everything(program))(program.args, weights(way, program))


def dense(f: adc.Function, program: Program, way: Sequence[np.ndarray]) -> Sequence[object]:
    blocks = adc.hessian(f, everything(program))(*program.args)
    return [sum(np.tensordot(b, w, np.ndim(w)) for b, w in zip(row, way, strict=True)) for row in blocks]


def reverse_over_reverse(f: adc.Function, program: Program, way: Sequence[np.ndarray]) -> Sequence[object]:
    """The pullback of the gradient: grad(f) dotted with the direction, differentiated."""
    _, pullback = adc.vjp(adc.grad(f, everything(program)), *program.args, wrt=everything(program))
    return pullback(weights(way, program))


ROUTES = [forward_over_reverse, dense, reverse_over_reverse]


def has_oracles_second_derivatives(program: Program, backend: str, relative: float = 1e-9) -> None:
    total = totalled(program)
    f = adc.compile(total.source, backend=backend)
    way, other = directions(total, 2)
    expected = along(total, way, other)
    assume(expected is not None)
    for route in ROUTES:
        agrees(route(f, total, way), other, expected, relative)


@example(NARROW)
@example(EMPTY)
@example(SHARED)
@settings(max_examples=8)
@given(programs(smooth=True))
def test_second_order_interpreted(program: Program) -> None:
    has_oracles_second_derivatives(program, "numpy")


@settings(max_examples=3)
@given(programs(smooth=True))
def test_second_order_compiled(program: Program) -> None:
    has_oracles_second_derivatives(program, "cpu")


@settings(max_examples=6)
@given(programs(smooth=True, dtype=np.float32))
def test_second_order_in_float32(program: Program) -> None:
    has_oracles_second_derivatives(program, "numpy", 1e-4)


@settings(max_examples=2)
@given(programs(smooth=True, dtype=np.float32))
def test_second_order_in_float32_compiled(program: Program) -> None:
    has_oracles_second_derivatives(program, "cpu", 1e-4)


# ---- The explicit programs: propagate of propagate ----


def has_oracles_second_propagate(program: Program) -> None:
    """forward, propagate, and the split of propagate: its gradients flow on through what forward saved."""
    total = totalled(program)
    f = adc.compile(total.source, backend="numpy")
    types, values, *_ = f._describe(total.args)
    way, other = directions(total, 2)
    expected = along(total, way, other)
    assume(expected is not None)
    gradient = run(SIMPLIFY, joint(f._trace(types).func, everything(total), with_value=False))
    verify(gradient, TABLE)
    parts = split(gradient, everything(total))
    verify(parts.forward, TABLE)
    sizes = f._specialise(types).sizes(values)

    def called(func: Func, args: Sequence[object]) -> list[object]:
        return Compiled(func, "numpy").bind(args, given=sizes).run()

    found = called(parts.forward, values)
    usual = tuple(k < parts.count for k in range(len(parts.forward.results)))
    back = parts.propagate(usual, (True,) * len(values))
    known = [*values, *found]
    verify(back.func, TABLE)
    arguments = [*(known[k] for k in back.reads), *weights(way, total)]
    gradients = iter(called(run(SIMPLIFY, back.func), arguments))
    agrees([next(gradients) if k else None for k in back.known], other, expected)


@example(NARROW)
@example(EMPTY)
@example(SHARED)
@settings(max_examples=8)
@given(programs(smooth=True))
def test_second_propagate(program: Program) -> None:
    has_oracles_second_propagate(program)


# ---- Third order, of scalars ----


def has_oracles_third_derivatives(program: Program, backend: str, relative: float = 1e-9) -> None:
    """One third derivative, of parameters drawn at random, by three nested calls of grad."""
    total = totalled(program)
    chosen = np.random.default_rng(len(total.source)).integers(0, len(total.args), 3)
    units = np.eye(len(total.args))
    expected = along(total, *(units[k] for k in chosen))
    assume(expected is not None)
    f = adc.compile(total.source, backend=backend)
    for k in chosen:
        f = adc.grad(f, int(k))
    agrees([f(*total.args)], [1.0], expected, relative)


@settings(max_examples=8)
@given(programs(smooth=True, scalar_only=True))
def test_third_order_interpreted(program: Program) -> None:
    has_oracles_third_derivatives(program, "numpy")


@settings(max_examples=2)
@given(programs(smooth=True, scalar_only=True))
def test_third_order_compiled(program: Program) -> None:
    has_oracles_third_derivatives(program, "cpu")


@settings(max_examples=6)
@given(programs(smooth=True, scalar_only=True, dtype=np.float32))
def test_third_order_in_float32(program: Program) -> None:
    has_oracles_third_derivatives(program, "numpy", 1e-3)


@settings(max_examples=3)
@given(programs(smooth=True, scalar_only=True, dtype=np.float32))
def test_third_order_in_float32_compiled(program: Program) -> None:
    has_oracles_third_derivatives(program, "cpu", 1e-3)


# ---- Thousands ----


@pytest.mark.slow
@settings(max_examples=1500)
@given(programs(smooth=True))
def test_many_second_orders_interpreted(program: Program) -> None:
    has_oracles_second_derivatives(program, "numpy")


@pytest.mark.slow
@settings(max_examples=1000)
@given(programs(smooth=True))
def test_many_second_propagates(program: Program) -> None:
    has_oracles_second_propagate(program)


@pytest.mark.slow
@settings(max_examples=1500)
@given(programs(smooth=True, scalar_only=True))
def test_many_third_orders_interpreted(program: Program) -> None:
    has_oracles_third_derivatives(program, "numpy")


@pytest.mark.slow
@settings(max_examples=150)
@given(programs(smooth=True))
def test_many_second_orders_compiled(program: Program) -> None:
    has_oracles_second_derivatives(program, "cpu")


@pytest.mark.slow
@settings(max_examples=150)
@given(programs(smooth=True, scalar_only=True))
def test_many_third_orders_compiled(program: Program) -> None:
    has_oracles_third_derivatives(program, "cpu")


@pytest.mark.slow_when(lambda backend: backend == "cpu")
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_a_program_with_a_loop_is_split_and_its_propagate_splits_again(backend):
    iterations = "    s = x * y\n    for k in range(6):\n        s = s + sin(s) * x\n"
    source = f"def f(x, y):\n{iterations}    return sum(exp(s) * y)"
    f = adc.compile(source, backend=backend)
    x = np.array([0.3, 0.4])
    value, pullback = adc.vjp(f, x, 0.5)
    assert value == pytest.approx(f(x, 0.5))
    for found, expected in zip(pullback(1.0), adc.grad(f)(x, 0.5), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert "flows" in f.explain()
    gradient = adc.grad(f, "x")
    _, again = adc.vjp(gradient, x, 0.5)
    product = adc.hvp(f)((x, 0.5), (np.array([1.0, -2.0]), 0.0))
    for found, expected in zip(again(np.array([1.0, -2.0])), product, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_fewer_cotangents_run_a_loop_again_from_its_inputs():
    """With all cotangents nothing reads `c`; for one of them a loop with fewer stacks does."""
    f = adc.compile(
        "def f(x: f64[n], w, at: i64[m], c: f64[n]):\n    y = zeros(n)\n    for i in range(1, n):\n"
        "        y[i] = sin(sum(x[at] * (w * w)))\n        x = x[::-1]\n    return sum(c * y)",
        backend="numpy",
    )
    args = np.array([1.847, 0.529, 1.595]), 0.687, np.array([0, -2]), np.ones(3)
    way = np.array([1.0, 0.5, -1.0]), 0.3
    product = Tangent(Gradient(f, (0, 1), "grad"), (0, 1))
    found = adc.vjp(product, *args, *way, wrt=(0, 1))[1](((None, None), way))
    blocks = adc.jvp(adc.hessian(f, (0, 1)), args, (*way, None, None))[1]
    for one, row in zip(found, blocks, strict=True):
        np.testing.assert_allclose(one, sum(map(np.tensordot, row, way, (1, 0))), rtol=1e-12)
