"""What each pass does to small programs, against the texts in `texts/`.

A file is named after the folder and the function of a pass, and has one case or more: what it shows, the
program `before` and `after`, or one that the pass leaves `unchanged`. To add a case, write its title and the
program before; `ADC_UPDATE_GOLDEN=1 pytest tests/passes/test_texts.py` adds what the pass makes of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from programs.ir_evaluated import check

from adcompiler.interpreter.reference import Reference
from adcompiler.ir.nodes import Func, Size
from adcompiler.ir.textform.printer import show, show_name
from adcompiler.ir.textform.reader import parse_func
from adcompiler.ir.types import NUMPY
from adcompiler.passes.known_lengths import Known, for_lengths
from adcompiler.passes.order.gemm import found, with_calls
from adcompiler.passes.order.interchange import interchange
from adcompiler.passes.order.triangles import triangles
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, SIMPLIFY, Pass
from adcompiler.passes.recurrences.checkpoint import checkpointed

TEXTS = Path(__file__).parent / "texts"
FILES = sorted(TEXTS.rglob("*.txt"))
CASE = re.compile(
    r"(?P<title>\S.*?)\n\n== (?:before|unchanged) ==\n(?P<before>func.*?^}\n(?:#[^\n]*\n)*)"
    r"(?:\n== after ==\n(?P<after>func.*?^}\n(?:#[^\n]*\n)*))?\n*",
    re.DOTALL | re.MULTILINE,
)
PIPELINE = (*SIMPLIFY, *OPTIMISE, *KERNEL)
LENGTHS = ((5, 4, 3, 6), (11, 1, 2, 1), (0, 3, 0, 2), (4, 0, 2, 0))
KNOWN = Known(constant=((1, 3),), equal=((0, 2),))


def name(step: Pass) -> str:
    """The name of a pass of the pipeline: its folder and its function."""
    return f"{step.__module__.split('.')[-2]}/{step.__name__}"


PASSES: dict[str, Callable[[Func], Func]] = {
    **{name(step): step for step in PIPELINE},
    "recurrences/checkpoint": partial(checkpointed, 64),
    "order/gemm": lambda func: with_calls(func, found(func)),
    "order/interchange": interchange,
    "order/triangles": triangles,
    "known_lengths": lambda func: for_lengths(func, KNOWN),
}


class Case(NamedTuple):
    """What a case shows, and a program before and after a pass."""

    title: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.before == self.after:
            return f"{self.title}\n\n== unchanged ==\n{self.before}"
        return f"{self.title}\n\n== before ==\n{self.before}\n== after ==\n{self.after}"


def cases(text: str) -> Iterator[Case]:
    """The cases of a file."""
    place = 0
    while place < len(text):
        match = CASE.match(text, place)
        assert match is not None, text[place:]
        yield Case(match["title"], match["before"], match["after"] or match["before"])
        place = match.end()


def shown(func: Func) -> str:
    """The text of a program, and the loop orders that a pass has chosen."""
    orders = [f"# {show_name(func, a)}: loops interchanged\n" for a in func.interchanged]
    orders += [f"# {show_name(func, a)}: lanes along {'ijkl'[axis]}\n" for a, axis in func.across.items()]
    return "".join((show(func), "\n", *sorted(orders)))


def made(step: Callable[[Func], Func], case: Case) -> Case:
    """A case as the pass makes it; the programs keep the invariants and give the same values."""
    before = parse_func(case.before)
    check(before)
    after = step(before)
    check(after)
    assert parse_func(show(after)).roots == after.roots
    for lengths in ((5, 3, 5),) if step is PASSES["known_lengths"] else LENGTHS:
        same_values(before, after, lengths)
    return Case(case.title, shown(before), shown(after))


def same_values(before: Func, after: Func, lengths: tuple[int, ...]) -> None:
    """Two programs give the same values for random arguments with these lengths."""
    rng = np.random.default_rng(len(before.inputs))
    args = []
    for array in before.inputs:
        shape = [lengths[n.number] if isinstance(n, Size) else int(n.value) for n in array.shape]
        whole = array.dtype == "i64"
        args.append(rng.integers(0, 3, shape) if whole else rng.normal(size=shape).astype(NUMPY[array.dtype]))
    with np.errstate(all="ignore"):
        results = [Reference(func)(lengths, args) for func in (before, after)]
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-14)


def pass_of(path: Path) -> str:
    """The name of the pass of a file."""
    return path.relative_to(TEXTS).with_suffix("").as_posix()


@pytest.mark.parametrize("path", FILES, ids=pass_of)
def test_a_pass(path: Path) -> None:
    written = path.read_text("utf-8")
    actual = "\n".join(str(made(PASSES[pass_of(path)], case)) for case in cases(written))
    if os.environ.get("ADC_UPDATE_GOLDEN"):
        path.write_text(actual, "utf-8")
    elif actual != written:
        lines = unified_diff(
            written.splitlines(), actual.splitlines(), "expected", "actual", n=2, lineterm=""
        )
        pytest.fail("\n".join((f"{path.name} (ADC_UPDATE_GOLDEN=1 accepts this):", *lines)), pytrace=False)


def test_every_pass_has_a_text() -> None:
    assert {pass_of(path) for path in FILES} == set(PASSES), "each pass comes with a text"
