"""What the transforms of the loop IR do, against the texts in `transforms/`.

A file is named after a module of `loopir`; `judges/texts.py` says what is in it. What a module only decides,
for the translation to LLVM, stands in a comment after the function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from judges.plain_kernels import plain
from judges.plain_kernels import ran as run_by_python
from judges.texts import check_texts

from adcompiler.loopir.nodes import Assign, For, Function
from adcompiler.loopir.parse import functions
from adcompiler.loopir.printer import source
from adcompiler.loopir.short_loops import short
from adcompiler.loopir.transformed_loops import Jam, Lanes
from adcompiler.loopir.transforms.interleaved_unrolling import interleaved
from adcompiler.loopir.transforms.outer_vectorisation import vectorised
from adcompiler.loopir.transforms.pipeline import contracted
from adcompiler.loopir.transforms.tiled import tiled
from adcompiler.loopir.transforms.unroll_and_jam import jammed
from adcompiler.loopir.transforms.versioning import versioned
from adcompiler.loopir.verify import verify
from adcompiler.loopir.walk import accesses, statements

FILES = sorted((Path(__file__).parent / "transforms").glob("*.txt"))
LENGTH = 12


def with_rounded(function: Function) -> str:
    """A function, and which of its variables are rounded before they are used."""
    variables = {s.name for s in statements(function.body) if isinstance(s, Assign)}
    rounded = ", ".join(sorted(variables & contracted(function).rounded))
    return f"{source(function)}# rounded: {rounded or 'nothing'}\n"


def with_short(function: Function) -> str:
    """A function, and which of its loops LLVM gets without a loop."""
    loops = [s.axis for s in statements(function.body) if isinstance(s, For) and short(s) is not None]
    return f"{source(function)}# written out: {', '.join(loops) or 'nothing'}\n"


TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "interleaved_unrolling": lambda function: interleaved(jammed(function)),
    "outer_vectorisation": lambda function: jammed(vectorised(function)),
    "tiled": tiled,
    "unroll_and_jam": jammed,
    "versioning": versioned,
}
DECISIONS = {"contraction": with_rounded, "short_loops": with_short}


def transformed(module: str, text: str) -> tuple[str, str]:
    """A function before and after a transform, which give the same values."""
    (before,) = functions(text)
    printed = source(before)
    verify(before)
    if module in DECISIONS:
        return (DECISIONS[module](before),) * 2
    after = TRANSFORMS[module](before)
    assert source(before) == printed, "a transform changes no statement in place"
    found = statements(after.body)
    if any(isinstance(s, Jam) for s in found) and not any(isinstance(s, Lanes) for s in found):
        for n in range(10):
            np.testing.assert_allclose(ran(plain(after), n), ran(before, n), rtol=1e-14)
    return printed, source(after)


def ran(function: Function, n: int) -> np.ndarray:
    """The arrays of a function after Python ran it, where its first length is n, and the others 7."""
    ranks = {at.array: len(at.indices) for at, _ in accesses(*function.body)}
    arrays = {
        name: np.linspace(0.1 * k, 1.3 + k / 7, LENGTH**rank).reshape((LENGTH,) * rank)
        for k, (name, rank) in enumerate(sorted(ranks.items()))
    }
    first, *_ = (p for p in function.params if p not in arrays)
    args = [arrays.get(p, n if p == first else 7) for p in function.params]
    run_by_python([function], numbers=False)[function.name](*args)
    return np.concatenate([a.ravel() for a in arrays.values()])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_transform(path: Path) -> None:
    check_texts(path, partial(transformed, path.stem))


def test_every_transform_has_a_text() -> None:
    assert {path.stem for path in FILES} == TRANSFORMS.keys() | DECISIONS.keys()
