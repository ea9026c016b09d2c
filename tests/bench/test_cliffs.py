"""Programs as users write them: values and gradients are right at a tiny size, and the command runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import adcompiler as adc
from bench import compare
from bench.cliffs import every
from bench.cliffs.program import Program
from bench.daily import by_complex_steps

ALL = every()
STEP = 1e-6  # of central differences
ROUGH = 1e-5  # what they agree to


def copied(found) -> list[np.ndarray]:
    return [np.array(a, float) for a in compare.leaves(found)]


def gradient(program: Program, args, backend: str) -> list[np.ndarray]:
    f = program.compiled(args, backend)
    return copied(adc.value_and_grad(f, tuple(f._parameters[k].name for k in program.wrt))(*args))


def by_differences(program: Program, args) -> list[np.ndarray]:
    """Value and gradients by central differences of the NumPy back end's values."""
    f = program.compiled(args, "numpy")

    def at(k: int, place: tuple[int, ...], by: float) -> float:
        moved = np.array(args[k], float)
        moved[place] += by
        return float(f(*args[:k], moved[()], *args[k + 1 :]))

    slopes = [
        [(at(k, place, STEP) - at(k, place, -STEP)) / (2 * STEP) for place in np.ndindex(np.shape(args[k]))]
        for k in program.wrt
    ]
    return copied(
        (f(*args), *(np.reshape(s, np.shape(args[k])) for s, k in zip(slopes, program.wrt, strict=True)))
    )


@pytest.mark.thinned(16)
@pytest.mark.parametrize("name", ALL)
def test_values_and_gradients(name):
    program = ALL[name]
    args = program.arguments("tiny")
    ours = gradient(program, args, "cpu")
    assert compare.differences(ours, gradient(program, args, "numpy"), program.tolerance) == ""
    wide = tuple(a.astype(float) if getattr(a, "dtype", None) == np.float32 else a for a in args)
    if program.loss is not None:
        true = copied(by_complex_steps(program.loss, program.wrt)(wide, "cpu")())
        assert compare.differences(ours, true, program.tolerance) == ""
    else:
        assert compare.differences(ours, by_differences(program, wide), max(ROUGH, program.tolerance)) == ""


def test_names_are_distinct_and_there_are_many():
    assert len(ALL) >= 80
    assert all(name == program.name for name, program in ALL.items())


def test_the_command(tmp_path):
    from typer.testing import CliRunner

    from bench.cli import app

    written = tmp_path / "cliffs.json"
    names = list(ALL)[:1]
    asked = ["--cliffs", "--only", ",".join(names), "--size", "tiny", "--no-jax", "--json", str(written)]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    assert "| program" in shown.output
    found = json.loads(written.read_text("utf-8"))["programs"]
    assert list(found) == names
    for outcome in found.values():
        assert outcome["errors"] == {}
        assert set(outcome["times"]) == {"value", "gradient", "hvp"}
        assert outcome["nests"]
