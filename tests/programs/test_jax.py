"""Derivatives of orders 1 to 3, by every route, against JAX in float64.

The judge (`jaxjudge`) and the generators say what is compared and why points are away from kinks. JAX is the
extra `jax`; it is imported when the first test runs, so that nothing waits for it elsewhere.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from hypothesis import given, settings
from judges.jax_derivatives import Judged

import adcompiler as adc
from programs import Program, programs
from programs.loops import loop_programs
from programs.mixed import mixed_programs
from programs.written import HANDWRITTEN
from programs.written_loops import PROGRAMS

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="the extra jax is not installed")

# JAX compiles each operation for each shape: what has many is a slow test, as what has long derivatives is.
QUICK = """chain;solve;determinant;pairs;three;sparse;filter;newton;functions of functions;gradient inside
tangent inside;robust""".replace("\n", ";").split(";")
LOOPS = """backward;tuple;counted;branches;returns;while;loop under a condition;loop in a comprehension;stores
bubble;largest;no iteration""".replace("\n", ";").split(";")
COMPILED = ["einsum", "three", "newton"]


# ---- Programs of tables ----


@pytest.mark.parametrize("name", QUICK)
def test_handwritten_programs(name: str) -> None:
    Judged(HANDWRITTEN[name], "numpy", 2).holds()


@pytest.mark.parametrize("name", COMPILED)
def test_handwritten_programs_compiled(name: str) -> None:
    Judged(HANDWRITTEN[name], "cpu", 1).holds()


@pytest.mark.parametrize("name", LOOPS)
def test_programs_with_loops(name: str) -> None:
    Judged(PROGRAMS[name], "numpy", 1).holds()


@pytest.mark.slow
@pytest.mark.parametrize("name", HANDWRITTEN)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_every_handwritten_program(name: str, backend: str) -> None:
    Judged(HANDWRITTEN[name], backend, 3 if backend == "numpy" else 2).holds()


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_every_program_with_loops(name: str, backend: str) -> None:
    Judged(PROGRAMS[name], backend, 3 if backend == "numpy" else 2).holds()


# ---- Random programs ----


@settings(max_examples=4)
@given(programs(smooth=True, scalar_only=True))
def test_random_programs_of_scalars(program: Program) -> None:
    Judged(program, "numpy", 3).holds()


@settings(max_examples=3)
@given(programs(smooth=True))
def test_random_programs_of_arrays(program: Program) -> None:
    Judged(program, "numpy", 3).holds()


@settings(max_examples=3)
@given(mixed_programs())
def test_random_programs_of_everything(program: Program) -> None:
    Judged(program, "numpy", 1).holds()


@settings(max_examples=2)
@given(programs(smooth=True))
def test_random_programs_compiled(program: Program) -> None:
    Judged(program, "cpu", 2).holds()


@pytest.mark.slow
@settings(max_examples=400)
@given(programs(smooth=True, scalar_only=True))
def test_many_random_programs_of_scalars(program: Program) -> None:
    Judged(program, "numpy", 3).holds()


@pytest.mark.slow
@settings(max_examples=300)
@given(programs(smooth=True))
def test_many_random_programs_of_arrays(program: Program) -> None:
    Judged(program, "numpy", 3).holds()


@pytest.mark.slow
@settings(max_examples=150)
@given(loop_programs())
def test_many_random_programs_of_loops(program: Program) -> None:
    Judged(program, "numpy", 2).holds()


@pytest.mark.slow
@settings(max_examples=150)
@given(mixed_programs())
def test_many_random_programs_of_everything(program: Program) -> None:
    Judged(program, "numpy", 2).holds()


@pytest.mark.slow
@settings(max_examples=50)
@given(mixed_programs())
def test_third_derivatives_of_everything(program: Program) -> None:
    Judged(program, "numpy", 3).holds()


@pytest.mark.slow
@settings(max_examples=100)
@given(programs(smooth=True))
def test_many_random_programs_compiled(program: Program) -> None:
    Judged(program, "cpu", 2).holds()


@pytest.mark.slow
@settings(max_examples=30)
@given(mixed_programs())
def test_random_programs_of_everything_compiled(program: Program) -> None:
    Judged(program, "cpu", 1).holds()


# ---- The judge itself ----


@settings(max_examples=3)
@given(mixed_programs())
def test_the_judges_agree(program: Program) -> None:
    Judged(program, "numpy", 2).has_differences()


@pytest.mark.slow
@settings(max_examples=100)
@given(mixed_programs())
def test_the_judges_agree_on_many(program: Program) -> None:
    Judged(program, "numpy", 3).has_differences()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_wrong_derivative_is_seen(order: int) -> None:
    """Another program, whose derivatives differ from this order on, by one part in a hundred million."""
    judged = Judged(Program("sum(exp(x) * y)", (HANDWRITTEN["running"].args)), "numpy", order)
    x = judged.args[0]
    bend = f"1e-7 * sum((x - x_0)**{order}) * c_0"
    other = adc.compile(f"def total(x, y, c_0, x_0):\n    return c_0 * sum(exp(x) * y) + {bend}")
    judged.args = (*judged.args, x)
    judged.f = other
    for check in (judged.first, judged.second, judged.third)[: order - 1]:
        check()
    with pytest.raises(AssertionError, match="is not JAX's"):
        (judged.first, judged.second, judged.third)[order - 1]()
