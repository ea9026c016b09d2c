"""No work twice: loops that do not share a function's values are few, as storing them takes longer."""

from __future__ import annotations

import re

import pytest
from bench.cliffs import every
from hypothesis import given, settings
from judges.compared import totalled
from judges.costs import UnknownError, repeated
from programs import Program
from programs.loops import loop_programs
from programs.written_loops import PROGRAMS

import adcompiler as adc

MOST_TIMES = (
    3  # a value is written once and read by each other loop, which takes as long as a function or two
)


def computes_at_most(times: int, program: Program, scale: int = 16) -> None:
    try:
        found = repeated(adc.compile(program.source), program.args, scale)
    except UnknownError:
        return
    assert all(int(re.findall(r"\d+", one)[0]) <= times for one in found), f"{program.source}\n{found}"


@pytest.mark.slow_when(lambda name: name not in ("table", "rows", "matrices"))
@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_of_a_gradient_share_functions(name: str) -> None:
    computes_at_most(MOST_TIMES, totalled(PROGRAMS[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in every() if not name.endswith("-f32")])
def test_so_do_those_of_programs_as_users_write_them(name: str) -> None:
    program = every()[name]
    computes_at_most(MOST_TIMES, Program(program.source, program.arguments("tiny")))


@pytest.mark.slow
@settings(max_examples=100)
@given(loop_programs())
def test_so_do_those_of_random_programs(program: Program) -> None:
    computes_at_most(MOST_TIMES, totalled(program))
