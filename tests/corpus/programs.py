"""The corpus: golden programs, the workloads of the benchmark, examples, and seeded random programs.

A program is drawn here once and travels to both checkouts as its text and its arguments; workloads and
examples are named, since they are built by public functions alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
RANDOM = ("expressions", "loops", "mixed", "extrema", "ragged", "routines")  # kinds of the sweep
EXAMPLES = ("simple_autograd.py",)
LENGTH = 6  # of the axes of golden programs
SECTION = re.compile(r"^== (.+) ==$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """A text with arguments; or, without arguments, the name of a workload or an example."""

    kind: str
    name: str
    text: str = ""
    args: tuple[Any, ...] = ()
    static: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Where its artefacts stand, below the folder of a checkout."""
        return f"{self.kind}/{self.name}"


def corpus(kinds: list[str], count: int, seed: int) -> list[Program]:
    """All programs of some kinds, `count` of them random."""
    makers = {
        "golden": golden,
        "bench": workloads,
        "examples": examples,
        "random": lambda: random(count, seed),
    }
    return [program for kind in kinds for program in makers[kind]()]


KINDS = ("golden", "bench", "examples", "random")


def golden() -> Iterator[Program]:
    """The programs of tests/golden, on random arrays of their types."""
    for path in sorted((TESTS / "golden").glob("*.txt")):
        _, *parts = SECTION.split(path.read_text("utf-8"))
        sections = {name: body.strip("\n") for name, body in zip(parts[::2], parts[1::2], strict=True)}
        lines = [line.split(": ") for line in sections["types"].splitlines() if line]
        rng = np.random.default_rng(0)
        args = tuple(_argument(kind, rng) for _, kind in lines)
        static = tuple(name for name, kind in lines if kind.startswith("static"))
        yield Program("golden", path.stem, sections["source"], args, static)


def _argument(kind: str, rng: np.random.Generator) -> Any:
    """A value of a golden program's type; square matrices are positive definite."""
    word, _, rest = kind.partition("[")
    if word.startswith("static"):
        return int(word.split()[1])
    axes = [axis.strip() for axis in rest.rstrip("]").split(",") if axis]
    shape = tuple(int(axis) if axis.isdigit() else LENGTH for axis in axes)
    if word in ("int", "i64"):
        found = rng.integers(0, 3, shape)
    elif word == "bool":
        found = rng.integers(0, 2, shape).astype(bool)
    else:
        found = rng.uniform(0.3, 2, shape).astype(np.float32 if word == "f32" else np.float64)
    if len(shape) == 2 and found.dtype.kind == "f":
        found += LENGTH * np.eye(*shape, dtype=found.dtype)
    return found if shape else found.item() if word in ("int", "float") else np.asarray(found)[()]


def workloads() -> Iterator[Program]:
    """The benchmark's, daily programs included, with their smallest inputs."""
    from bench.workloads import every

    for name in every():
        yield Program("bench", name)


def examples() -> Iterator[Program]:
    """Scripts that need nothing else and end soon."""
    for name in EXAMPLES:
        yield Program("examples", name)


def random(count: int, seed: int) -> Iterator[Program]:
    """The sweep's random programs: the same for the same seed."""
    from sweep import every

    kinds = every()
    for k, name in enumerate(RANDOM):
        for number, program in enumerate(drawn(kinds[name].draw(), (count + k) // len(RANDOM), seed)):
            yield Program("random", f"{name}-{number}", program.source, tuple(program.args))


def drawn(strategy: Any, count: int, seed: int) -> list[Any]:
    """So many examples of a strategy, the same for the same seed."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded

    found: list[Any] = []

    @seeded(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(example: Any) -> None:
        found.append(example)

    if count:
        draw()
    return found


if str(TESTS) not in sys.path:  # what pytest adds
    sys.path.insert(0, str(TESTS))
