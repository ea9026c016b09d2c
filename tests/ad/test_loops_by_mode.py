"""Loops, gathers and stores: every mode of differentiation against the oracle, on both backends."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from judges.compared import has_oracles_value, near, totalled
from judges.plain_kernels import kernels_hold
from oracle import derivative
from programs import Program
from programs.loops import loop_programs
from programs.written_loops import MIXED, PROGRAMS

import adcompiler as adc
from adcompiler.ad.programs.split import split
from adcompiler.ir.textform.verify import verify
from adcompiler.ops.table import TABLE
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run

LARGE = ["slices", "triangle", "table", "elimination"]
SECOND = [name for name in [*PROGRAMS][::2] if name not in LARGE]  # those of others are slow tests
COMPILED = ["decay", "rows", "counted", "stores", "scatter", "no iteration"]


class Judged:
    """The sum of all results of a program along three directions, and what the oracle says of it."""

    def __init__(self, program: Program, backend: str) -> None:
        self.total = totalled(program)
        self.args = self.total.args
        self.f = adc.compile(self.total.source, backend=backend)
        self.wrt = tuple(k for k, a in enumerate(self.args) if np.asarray(a).dtype.kind == "f")
        random = np.random.default_rng(1)
        self.ways: list[list[Any]] = [
            [
                random.uniform(0.5, 1.5, np.shape(a)) if k in self.wrt else None
                for k, a in enumerate(self.args)
            ]
            for _ in range(3)
        ]

    def of_inputs(self, way: list[Any]) -> list[Any]:
        return [way[k] for k in self.wrt]

    def compare(self, found: Any, order: int, scale: float = 1.0) -> None:
        """A derivative along the first `order` directions, where the oracle can tell it."""
        expected, error = derivative(self.total.source, self.args, self.ways[:order])
        if error <= 1e-9 * max(1.0, abs(expected)):
            near(found, expected, 1e-8 * scale)

    def dot(self, gradient: Any, way: list[Any]) -> float:
        pairs = zip(gradient, self.of_inputs(way), strict=True)
        return float(sum(np.sum(np.multiply(g, w)) for g, w in pairs if g is not None))

    def dense(self, blocks: Any, first: list[Any], second: list[Any]) -> float:
        """`blocks[i][j]` contracted with two directions."""
        return self.dot([sum(map(_times, row, self.of_inputs(second))) for row in blocks], first)

    def first_order(self) -> None:
        u = self.ways[0]
        gradient = adc.grad(self.f, self.wrt)
        found = gradient(*self.args)
        for one, k in zip(found, self.wrt, strict=True):
            assert np.shape(one) == np.shape(self.args[k])
        self.compare(self.dot(found, u), 1)
        self.compare(adc.jvp(self.f, self.args, u)[1], 1)
        _, saved = self.f.split().forward(*self.args)
        self.compare(self.dot(self.f.split().propagate(saved, 1.0), u), 1)

    def second_order(self) -> None:
        u, v, _ = self.ways
        gradient = adc.grad(self.f, self.wrt)
        self.compare(self.dot(adc.hvp(self.f, self.wrt)(self.args, self.of_inputs(v)), u), 2)
        back = adc.vjp(gradient, *self.args, wrt=self.wrt)[1](tuple(self.of_inputs(v)))
        self.compare(self.dot(back, u), 2)

    def third_order(self) -> None:
        u, v, w = self.ways
        hessian = adc.hessian(self.f, self.wrt)
        blocks, moved = adc.jvp(hessian, self.args, w)
        self.compare(self.dense(blocks, u, v), 2)
        self.compare(self.dense(moved, u, v), 3, 100.0)


def _times(block: Any, way: Any) -> Any:
    return np.tensordot(block, way, np.ndim(way))


@pytest.mark.thinned(12)
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_interpreted(name: str) -> None:
    judged = Judged(PROGRAMS[name], "numpy")
    judged.first_order()
    if name in SECOND:
        judged.second_order()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["swap", "backward", "branches", "while", "stores", "no iteration"])
def test_third_derivatives(name: str) -> None:
    Judged(PROGRAMS[name], "numpy").third_order()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", COMPILED)
def test_values_and_gradients_compiled(name: str) -> None:
    has_oracles_value(PROGRAMS[name], "cpu")
    judged = Judged(PROGRAMS[name], "cpu")
    judged.compare(judged.dot(adc.grad(judged.f, judged.wrt)(*judged.args), judged.ways[0]), 1)


def test_a_bound_that_the_iteration_computes_does_not_weigh_it() -> None:
    """The loop over i is written twice; how many elements an iteration has is asked before both."""
    judged = Judged(PROGRAMS["comprehension in a loop"], "cpu")
    gradient = adc.grad(judged.f, judged.wrt)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # LLVM refused the code, which another way then replaced
        adc.vjp(gradient, *judged.args, wrt=judged.wrt)[1](judged.ways[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_compiled(name: str) -> None:
    has_oracles_value(PROGRAMS[name], "cpu")
    judged = Judged(PROGRAMS[name], "cpu")
    judged.first_order()
    judged.second_order()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in SECOND])
def test_second_derivatives_of_all_others(name: str) -> None:
    Judged(PROGRAMS[name], "numpy").second_order()


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_third_derivative(name: str) -> None:
    Judged(PROGRAMS[name], "numpy").third_order()


def test_a_saved_stack_may_be_as_long_as_the_loop_ran() -> None:
    """`forward` of a while loop gives arrays whose lengths only the call knows."""
    f = adc.compile("def f(x):\n    while x < 50:\n        x = x * x + 1\n    return x", backend="cpu")
    for x in (0.3, 2.0, 60.0):
        value, saved = f.split().forward(x)
        assert value == f(x)
        (slope,) = f.split().propagate(saved, 1.0)
        np.testing.assert_allclose(slope, adc.grad(f)(x))


@pytest.mark.parametrize("names", ["t0, t1", "c0, c1", "iteration0, i0"])
def test_names_of_the_code_are_not_those_of_the_user(names: str) -> None:
    one, two = names.split(", ")
    f = adc.compile(
        f"def f({one}: f64[n], {two}):\n    r = {one}\n"
        f"    for i in range(n):\n        r = r * {two} + {one}\n    return r",
        backend="cpu",
    )
    np.testing.assert_allclose(f(np.ones(2), 3.0), [13, 13])


def test_rows_of_rows_are_stored_where_they_belong() -> None:
    """The carried row of an inner loop is collected by the outer one."""
    text = PROGRAMS["triangle"].source
    compiled, interpreted = (adc.hessian(adc.compile(text, backend=b)) for b in ("cpu", "numpy"))
    x = PROGRAMS["triangle"].args[0]
    np.testing.assert_allclose(compiled(x), interpreted(x))


def test_many_points_run_in_parallel() -> None:
    """From 65536 points on; the same bits as one thread, and the interpreter's value."""
    random = np.random.default_rng(3)
    x, at = random.normal(size=400), random.integers(-400, 400, 70_000)
    for text, args in (
        ("def f(x: f64[n]):\n    return [sum(x[j] * x[i - j] for j in range(i)) for i in range(n)]", (x,)),
        (
            "def f(x, at: i64[m]):\n    return sum(x[at[k]] ** 2 / (k + 1) for k in range(m) if k % 3 > 0)",
            (x, at),
        ),
    ):
        compiled, interpreted = (adc.compile(text, backend=b) for b in ("cpu", "numpy"))
        np.testing.assert_allclose(compiled(*args), interpreted(*args), rtol=1e-11, atol=1e-11)
        if np.ndim(compiled(*args)) == 0:
            np.testing.assert_allclose(
                adc.grad(compiled, "x")(*args), adc.grad(interpreted, "x")(*args), rtol=1e-11, atol=1e-11
            )


# ---- Random programs ----


def holds(program: Program) -> None:
    has_oracles_value(program, "numpy")
    judged = Judged(program, "numpy")
    judged.first_order()
    judged.second_order()


@settings(max_examples=2)
@given(loop_programs())
def test_random_programs(program: Program) -> None:
    holds(program)


@settings(max_examples=3)
@given(loop_programs())
def test_kernels_of_random_programs(program: Program) -> None:
    kernels_hold(program)


@pytest.mark.slow
@settings(max_examples=1000)
@given(loop_programs())
def test_kernels_of_many_random_programs(program: Program) -> None:
    kernels_hold(program)


@pytest.mark.slow
@settings(max_examples=20)
@given(loop_programs())
def test_random_programs_compiled(program: Program) -> None:
    has_oracles_value(program, "cpu")
    judged = Judged(program, "cpu")
    judged.compare(judged.dot(adc.grad(judged.f, judged.wrt)(*judged.args), judged.ways[0]), 1)


@pytest.mark.slow
@settings(max_examples=400)
@given(loop_programs())
def test_many_random_programs(program: Program) -> None:
    holds(program)
    Judged(program, "numpy").third_order()


def is_verified(program: Program) -> None:
    """The invariants of loops hold around every pass: of the program and its derivative, whole and in
    segments."""
    for memory in (None, 1):
        f = adc.compile(program.source, memory=memory)
        func = f._trace(f._describe(program.args, {})[0]).func
        parts = split(func, [k for k, given in enumerate(func.inputs) if given.dtype == "f64"])
        for made in (func, parts.forward, parts.propagate(parts.usual, parts.all_asked).func):
            run((*OPTIMISE, *KERNEL), made, lambda made: verify(made, TABLE))


@settings(max_examples=2)
@given(loop_programs())
def test_invariants_around_every_pass(program: Program) -> None:
    is_verified(program)


@pytest.mark.slow
@settings(max_examples=400)
@given(loop_programs())
def test_invariants_around_every_pass_of_many(program: Program) -> None:
    is_verified(program)


CONDITIONS = [
    "def f(x: f64[n]):\n    return sum(x[k] for k in range(n) for j in range(k) if j % 2)",
    "def f(x: f64[n]):\n    return sum(x[k] for k in range(n) for j in range(k) if x[j % n] > 0 and k > 1)",
    "def f(x: f64[n]):\n    s = x[0]\n    for t in range(6):\n"
    "        s = sin(s) + sum(s * x[k] for k in range(n) for j in range(k) if x[(j + t) % n] > 0)\n"
    "    return s",
]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("source", CONDITIONS)
def test_a_condition_on_the_outer_index_may_be_computed(source: str) -> None:
    """It decides whether the inner loop runs, and is itself an array in a register, read by no body."""
    program = Program(source, (MIXED,))
    has_oracles_value(program, "cpu")
    judged = Judged(program, "cpu")
    judged.compare(judged.dot(adc.grad(judged.f, judged.wrt)(MIXED), judged.ways[0]), 1)


HORNER = """
def f(x: f64[m], t: f64[n]):
    p = 0.0 * t
    for j in range(len(x)):
        p = p * t + x[j]
    return sum(p)
"""


def test_what_a_iteration_carries_is_overwritten_once_it_is_read() -> None:
    """The cotangent is summed and multiplied in one loop: no copy of it is made."""
    f = adc.grad(adc.compile(HORNER), "x")
    x, t = np.array([1.0, -2.0, 0.5]), np.linspace(-1, 1, 9)
    np.testing.assert_allclose(f(x, t), [(t**k).sum() for k in (2, 1, 0)], rtol=1e-13)
    _, iteration = f.show("kernel").split("_back\n")
    loops = [line for line in iteration.split("@jit")[0].splitlines() if re.match("        for ", line)]
    assert len(loops) == 1


def test_what_two_carried_arrays_read_of_each_other_is_the_old_one() -> None:
    text = """
def f(x: f64[n], y: f64[n]):
    for k in range(3):
        s = sum(x * y)
        x, y = 0.5 * y + s, x - 2 * y
    return x, y
"""
    x, y = np.array([1.0, 2.0, -0.5]), np.array([0.25, -1.0, 3.0])
    got = adc.compile(text)(x, y)
    for _ in range(3):
        x, y = 0.5 * y + (x * y).sum(), x - 2 * y
    np.testing.assert_allclose(got, (x, y), rtol=1e-13)
