"""Python says where a random program first leaves the numbers: `explain_nan` names line and iteration."""

from __future__ import annotations

import random

import numpy as np
import pytest

import adcompiler as adc

HELPER = ["def h(z):", "    return 1 / z"]
FUNCTIONS = ("1 / ({})", "log({} + 4)", "sqrt({} + 4)", "h({})", "({}) / (x - 1.5)", "1 / (({})**2 + 0.5)")
UPDATES = ("s = s + {}", "s = sin(s) + {}", "s = s * 0.5 - {}", "s += {}")
RANGES = ("range(2)", "range(4)", "range(5)", "range(len(a))")


class Writer:
    """A random function of a number and an array: loops in loops, branches, calls."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines = [*HELPER, "def f(x, a):", "    s = x"]
        self.block("    ", [])
        self.lines.append("    return s")

    def block(self, indent: str, loops: list[str]) -> None:
        for _ in range(self.random.randint(1, 2)):
            if self.random.random() < 0.45 and len(loops) < 3:
                name = "ijk"[len(loops)]
                self.lines.append(f"{indent}for {name} in {self.random.choice(RANGES)}:")
                self.block(indent + "    ", [*loops, name])
            elif self.random.random() < 0.2 and loops:
                self.lines.append(f"{indent}if {self.random.choice(loops)} > {self.random.randint(0, 3)}:")
                self.update(indent + "    ", loops)
            else:
                self.update(indent, loops)

    def update(self, indent: str, loops: list[str]) -> None:
        operation = self.random.choice(FUNCTIONS).format(self.argument(loops))
        self.lines.append(indent + self.random.choice(UPDATES).format(operation))

    def argument(self, loops: list[str]) -> str:
        parts = (
            [f"{self.random.randint(1, 3)} * {i}" for i in loops]
            + [f"a[{i}]" for i in (*loops, 2)]
            + ["x", "3"]
        )
        return self.random.choice(("{} - {}", "{} + {}")).format(*self.random.choices(parts, k=2))


def first_error(lines: list[str], x: float, a: np.ndarray) -> tuple[int, tuple[int, ...]] | None:
    """The line on which Python stops, and the numbers of the loops around it in f."""
    scope = {"log": np.log, "sqrt": np.sqrt, "sin": np.sin}
    exec(compile("\n".join(lines), "<program>", "exec"), scope)
    try:
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            scope["f"](np.float64(x), a)
    except (FloatingPointError, ZeroDivisionError) as error:
        at = error.__traceback__
        frames = []
        while at is not None:
            frames.append((at.tb_frame.f_code.co_filename, at.tb_lineno, at.tb_frame.f_locals))
            at = at.tb_next
        own = [(line, names) for file, line, names in frames if file == "<program>"]
        (line, names), last = own[0], own[-1][0]
        return last, tuple(int(names[i]) for i in around(lines, line))
    return None


def around(lines: list[str], line: int) -> list[str]:
    """The variables of the loops around a line."""
    found, indent = [], len(lines[line - 1]) - len(lines[line - 1].lstrip())
    for text in reversed(lines[: line - 1]):
        here = len(text) - len(text.lstrip())
        if here < indent:
            indent = here
            found += [text.split()[1]] if text.lstrip().startswith("for ") else []
    return found[::-1]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("seed", range(50))
def test_the_line_and_the_iterations_are_those_at_which_python_stops(seed):
    lines = Writer(seed).lines
    rng = np.random.default_rng(seed)
    x, a = float(rng.choice([0.0, 1.0, 1.5, 2.0])), rng.integers(-2, 4, 6).astype(float)
    found = adc.explain_nan(adc.compile("\n".join(lines), backend="numpy"), x, a, wrt=())
    assert ((found.line, found.iterations) if found else None) == first_error(lines, x, a), "\n".join(lines)
