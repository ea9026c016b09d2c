"""The cheap gradient principle: a value and its gradient cost at most six times the value, at any lengths."""

from __future__ import annotations

import pytest
from bench.cliffs import every
from hypothesis import given, settings
from judges.compared import totalled
from judges.costs import UnknownError, ratios
from programs import Program
from programs.loops import loop_programs
from programs.written_loops import PROGRAMS

import adcompiler as adc

MOST = 6  # times the operations and stores of the value
MOST_OF_RANDOM = 8  # a logsumexp that is nearly all of a program takes seven times its exponentials
SCALES = (4, 16, 64)  # so that another order of growth shows
DEAR = {"elimination": 12}  # the iterations inside run again, and their rows are saved
DEAR_CLIFFS = {  # what their gradients cost today; the first two run an iteration again, under selects
    "cholesky-by-loops": 16, "gauss-elimination": 15,
    "inverse-kinematics": 10, "reaction": 9, "knowledge-graph": 8,
}  # fmt: skip
QUICK = ("table", "slices", "rows", "matrices", "scatter", "comprehension in a loop")


@pytest.mark.thinned(2)
@pytest.mark.slow_when(lambda name: name not in QUICK)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_gradient_is_cheap(name: str) -> None:
    is_cheap(totalled(PROGRAMS[name]), DEAR.get(name, MOST))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in every() if not name.endswith("-f32")])
def test_gradients_of_programs_as_users_write_them_are_cheap(name: str) -> None:
    program = every()[name]
    is_cheap(Program(program.source, program.arguments("tiny")), DEAR_CLIFFS.get(name, MOST + 1))


@pytest.mark.slow
@settings(max_examples=300)
@given(loop_programs())
def test_gradients_of_random_programs_are_cheap(program: Program) -> None:
    is_cheap(totalled(program), MOST_OF_RANDOM)


def is_cheap(program: Program, most: float) -> None:
    try:
        found = ratios(adc.compile(program.source), program.args, SCALES)
    except UnknownError:
        return
    assert max(found) <= most, f"{program.source}\n{found}"


@pytest.mark.slow_when(lambda rows: rows == 5)
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_a_table_that_reads_the_row_before_is_updated_in_place(rows: int) -> None:
    """The adjoint of y[i - 1, j] is stored at one place, though row -1 may be row i itself."""
    source = PROGRAMS["table"].source
    f = adc.compile(f"{source}\ndef g(x):\n    return sum(f(x)**2)", name="g")
    slow = adc.compile(f"{source}\ndef g(x):\n    return sum(f(x)**2)", name="g", backend="numpy")
    x = PROGRAMS["table"].args[0][[k % 3 for k in range(rows)]]
    for derive in (adc.grad, adc.hessian):
        assert derive(f)(x) == pytest.approx(derive(slow)(x), rel=1e-12)
    adc.check_grad(slow, x, order=2)
