"""The sweep of random programs finds, shrinks and reports what does not hold; some programs of each kind."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import sweep
import sweepchecks as checks
from hypothesis import strategies as st

import adcompiler as adc
from programs import Program
from programs.extrema import last_alone

SQUARES = Program("def f(x):\n    return x**2, x * 3", (np.array([1.0, 2.0]),))
# How many programs of each kind: what compiles long has one.
QUICK = {
    "adjoint": 2,
    "extrema": 1,
    "ragged": 1,
    "rows": 1,
    "routines": 1,
    "mutated": 1,
    "forks": 1,
    "interrupts": 1,
    "expressions": 2,
    "guarded": 2,
}


# -- the tool ------------------------------------------------------------------------------------------


def planted(least: int) -> Any:
    """Programs `x + n`, of which those with an n that is no less are wrong."""

    def holds(program: Program, narrow: bool) -> None:
        assert int(program.source[4:]) < least, "planted"

    drawn = st.integers(0, 1000).map(lambda n: Program(f"x + {n}", (1.0,)))
    return lambda: {"planted": sweep.Kind(lambda: drawn, holds, 50)}


def test_what_does_not_hold_is_made_small(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sweep, "every", planted(7))
    with pytest.raises(SystemExit):
        sweep.batch("planted", 1, 50, False)
    report = capsys.readouterr().out.partition(sweep.MINIMAL)[2].split("\n")
    assert report[1:4] == ["x + 7", "# arguments: (1.0,)", "AssertionError: planted"]


def test_what_does_not_hold_every_time_is_said_so() -> None:
    error = ExceptionGroup("Flaky", [AssertionError("once"), AssertionError("twice")])
    assert sweep.why(error) == "not every time: AssertionError: once"


def test_what_holds_is_not_reported(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sweep, "every", planted(1001))
    sweep.batch("planted", 1, 5, False)
    assert sweep.MINIMAL not in capsys.readouterr().out


def test_a_batch_that_crashes_runs_again_one_by_one(monkeypatch) -> None:
    asked = []

    def run(name: str, first: int, examples: int, *options: str) -> tuple[int, str]:
        asked.append(options)
        return (1, f"all of them\n{sweep.MINIMAL}\nx + 7") if options else (-11, "all of them")

    monkeypatch.setattr(sweep, "run", run)
    assert sweep.judged("loops", 1, 5) == "x + 7"
    assert asked == [(), ("--apart",)]


def test_a_batch_that_hangs_is_ended(monkeypatch) -> None:
    monkeypatch.setattr(sweep, "SILENT", -1)
    assert sweep.run("mutated", 1, 1)[0] == -9


@pytest.mark.slow
def test_a_program_in_a_process_of_its_own() -> None:
    sweep.alone("mutated", SQUARES, False)
    with pytest.raises(AssertionError, match=r"ended with 1\n(.|\n)*unknown name"):
        sweep.alone("mutated", Program("def f(x):\n    return y", (1.0,)), True)


def test_kinds_are_known_by_name(capsys) -> None:
    with pytest.raises(SystemExit):
        sweep.main(["--kinds", "loops,nonsense"])
    assert "unknown kinds nonsense" in capsys.readouterr().err


# -- the checks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "expected"),
    [(3, 2), (True, False), (1.0, 1), (np.nan, 1.0), (np.inf, -np.inf), (1.0, 1.0 + 1e-6), (None, 1.0)],
)
def test_what_is_not_the_same(found: Any, expected: Any) -> None:
    with pytest.raises(AssertionError):
        checks.same(found, expected)
    checks.same((found, (found,)), (found, (found,)))


def test_the_last_result() -> None:
    source = "def f(x):\n    return max(x, 1), x[0, 1], sum(where(x > 0, x, 0))"
    assert last_alone(source) == "def f(x):\n    return sum(where(x > 0, x, 0))"


def test_overwritten_results() -> None:
    value = np.ones(2), (np.arange(2), 3.0)
    checks.overwrite(value)
    assert np.isnan(value[0]).all()
    assert (value[1][0] == 1).all()


def test_differences_of_a_vector() -> None:
    x, w = np.array([0.3, 0.8]), np.array([2.0])
    found = checks.differences(lambda x, w: np.sin(x) * w, (x, w), (0, 1))
    checks.same(found, (np.diag(2 * np.cos(x)), np.sin(x)[:, None]), 1e-9)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: os._exit(5), "the child ended with 5"),
        (lambda: 2, "other bits"),
        (lambda: time.sleep(60), "the child hangs"),
    ],
)
def test_what_a_child_may_do_wrong(monkeypatch, call: Any, match: str) -> None:
    monkeypatch.setattr(checks, "PATIENCE", 0.5)
    with pytest.raises(AssertionError, match=match):
        checks.in_child(call, 1)


def test_a_child_that_does_right() -> None:
    checks.in_child(lambda: 1, 1)


def test_whether_an_exception_arrives(monkeypatch) -> None:
    monkeypatch.setattr(checks, "LATE", 0.2)

    def deaf() -> None:
        with suppress(checks.Interrupt):
            time.sleep(0.1)

    assert checks.interrupted(lambda: time.sleep(0.01), 0.02)
    assert not checks.interrupted(deaf, 0.02)


def test_a_derivative_that_reads_a_result_is_found(monkeypatch) -> None:
    """`unharmed` sees a pullback that reads what it gave."""
    plain = adc.vjp

    def by_reference(f: Any, *args: Any, wrt: Any) -> Any:
        value, pullback = plain(f, *args, wrt=wrt)
        return value, lambda seeds: tuple(g * v for g, v in zip(pullback(seeds), value, strict=False))

    monkeypatch.setattr(adc, "vjp", by_reference)
    with pytest.raises(AssertionError, match="vjp"):
        checks.unharmed(SQUARES)


def test_a_derivative_that_one_mode_has_wrong_is_found(monkeypatch) -> None:
    """`adjoint` sees a pullback that differs from the tangents."""
    checks.adjoint(SQUARES)
    plain = adc.vjp

    def halved(f: Any, *args: Any, wrt: Any) -> Any:
        value, pullback = plain(f, *args, wrt=wrt)
        return value, lambda seeds: tuple(0.5 * g for g in pullback(seeds))

    monkeypatch.setattr(adc, "vjp", halved)
    with pytest.raises(AssertionError, match="by jvp"):
        checks.adjoint(SQUARES)


# -- programs ------------------------------------------------------------------------------------------


@pytest.mark.thinned(9)
@pytest.mark.parametrize("name", QUICK)
def test_some_programs(name: str) -> None:
    assert sweep.judged(name, 1, QUICK[name]) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_three_programs(name: str) -> None:
    assert sweep.judged(name, 1, 3) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", sweep.every())
def test_many_programs(name: str) -> None:
    assert sweep.judged(name, 2, 40) == ""
