"""What the compiler makes of a program, stage by stage, against the texts in this folder.

Every stage is verified, and its text reads back as the very same nodes. README.md says how a file is
laid out and how to accept a change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import replace
from difflib import unified_diff
from functools import partial
from pathlib import Path

import pytest

import adcompiler as adc
from adcompiler.ad.programs.split import Propagate, split, value_and_grad
from adcompiler.api.modes import Tangent
from adcompiler.frontend.lowering.program import lower
from adcompiler.ir.nodes import Func
from adcompiler.ir.textform.printer import show
from adcompiler.ir.textform.reader import parse_func
from adcompiler.ir.textform.verify import verify
from adcompiler.ir.types import is_float
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.ops.table import TABLE
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, SIMPLIFY, run
from adcompiler.pytree.kinds import ArgType, Static, Types

FILES = sorted(Path(__file__).parent.glob("*.txt"))
ASKED = ("jvp", "hessian", "vmap", "kernel")  # stages only of files that ask for them
SECTION = re.compile(r"^== (.+) ==$", re.MULTILINE)
TYPE = re.compile(r"(bool|i64|f32|f64|float|int|static) ?(?:\[(.*)\]|(\S+))?")


SOUND: set[tuple[object, ...]] = set()


def sound(func: Func) -> None:
    """The program keeps all invariants, and its text says all of it; many passes leave it as it was."""
    parts = (func.inputs, func.input_names, func.results, func.result_names, func.size_names, func.checks)
    if parts in SOUND:
        return
    SOUND.add(parts)
    verify(func, TABLE)
    again = parse_func(show(func))
    assert (again.inputs, again.results, again.input_names, again.result_names) == (
        func.inputs,
        func.results,
        func.input_names,
        func.result_names,
    )
    assert [c.holds for c in again.checks] == [c.holds for c in func.checks]


checked = partial(run, check=sound)


def argument(text: str) -> ArgType | Static:
    """`f64[n, 1]` is an array, `float` and `int` are Python numbers, `static 3` is known to the compiler."""
    kind, axes, value = TYPE.fullmatch(text).groups()
    if kind == "static":
        return Static(int(value))
    if kind in ("float", "int"):
        return ArgType({"float": "f64", "int": "i64"}[kind], (), weak=True)
    return ArgType(kind, tuple(axis.strip() == "1" for axis in axes.split(",")) if axes else ())


def arguments(section: str) -> dict[str, ArgType | Static]:
    """One `name: type` a line."""
    lines = (line.split(": ") for line in section.splitlines())
    return {name: argument(text) for name, text in lines}


def floats(func: Func) -> list[int]:
    return [k for k, array in enumerate(func.inputs) if is_float(array.dtype)]


def parts(func: Func) -> tuple[Func, Func]:
    """Forward, and propagate for cotangents of all results and of no saved temporary."""
    both = split(func, floats(func))
    usual = tuple(k < both.count and d for k, d in enumerate(both.differentiable))
    made: Propagate = both.propagate(usual, (True,) * len(both.wanted))
    return both.forward, checked(SIMPLIFY, made.func)


def stages(source: str, given: str, asked: Collection[str]) -> dict[str, str]:
    """The text of each stage; a section that a file does not have is not compared."""
    types = arguments(given)
    closure = adc.compile(source)._closure
    assert list(types) == [p.name for p in closure.definition.parameters]
    lowered = lower(closure, tuple(types.values())).func
    simple = checked(SIMPLIFY, lowered)
    optimised = checked(OPTIMISE, simple)
    made = {"lowered": lowered, "optimised": optimised}
    if floats(simple):
        made["forward"], made["propagate"] = parts(simple)
        made["forward of propagate"], made["propagate of propagate"] = parts(made["propagate"])
        if (
            len(simple.results) == 1
            and not simple.results[0].rank
            and not simple.inputs[floats(simple)[0]].rank
        ):
            once = checked(SIMPLIFY, value_and_grad(simple, floats(simple)[:1], with_value=False))
            made["grad of grad"] = checked(
                OPTIMISE, value_and_grad(once, floats(simple)[:1], with_value=False)
            )
    for name, of in DERIVED.items():
        if name in asked:
            made[name] = of(adc.compile(source), tuple(types.values()))
    for stage in made.values():
        checked(KERNEL, checked(OPTIMISE, stage))
    kernel = emit(scheduled(checked(KERNEL, optimised))).source
    return {name: show(func) for name, func in made.items()} | {"kernel": kernel.rstrip()}


def pushed(f: adc.Function, types: Types) -> Func:
    """Value and tangent, for tangents of all float inputs."""
    wrt = f._positions(None, types)
    return checked(OPTIMISE, Tangent(f, wrt)._trace((*types, *(types[k] for k in wrt))).func)


def hessian(f: adc.Function, types: Types) -> Func:
    return checked(OPTIMISE, adc.hessian(f)._trace(types).func)


def mapped(f: adc.Function, types: Types) -> Func:
    """Many cases of the first argument."""
    first, *others = types
    many = adc.vmap(f, (0, *(None for _ in others)))
    return checked(OPTIMISE, many._trace((replace(first, ones=(False, *first.ones)), *others)).func)


DERIVED = {"jvp": pushed, "hessian": hessian, "vmap": mapped}


def sections(text: str) -> dict[str, str]:
    """A file's parts by their titles, in order."""
    _, *found = SECTION.split(text)
    return {name: body.strip("\n") for name, body in zip(found[::2], found[1::2], strict=True)}


def joined(parts: dict[str, str]) -> str:
    return "\n".join(f"== {name} ==\n{body}\n" for name, body in parts.items())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_stages_are_as_written(file: Path) -> None:
    expected = sections(file.read_text())
    made = stages(expected["source"], expected["types"], expected)
    actual = {name: made.get(name, body) for name, body in expected.items()}
    if os.environ.get("ADC_UPDATE_GOLDEN"):
        first = {name: expected[name] for name in ("source", "types")}
        kept = {name: text for name, text in made.items() if name not in ASKED or name in expected}
        file.write_text(joined(first | kept))
        return
    if actual != expected:
        lines = unified_diff(
            joined(expected).splitlines(), joined(actual).splitlines(), "expected", "actual", n=1
        )
        pytest.fail("\n".join((f"{file.name} (ADC_UPDATE_GOLDEN=1 accepts this):", *lines)), pytrace=False)


def test_the_folder_holds_what_matters() -> None:
    assert len(FILES) >= 31
    assert set(ASKED) <= {title for file in FILES for title in sections(file.read_text())}
    assert sum("kernel" in sections(file.read_text()) for file in FILES) >= 3
