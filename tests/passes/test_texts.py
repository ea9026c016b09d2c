"""What each pass does to small programs, against the texts in `texts/`.

A file is named after the folder and the function of a pass; `judges/texts.py` says what is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from judges.texts import check_texts
from programs.ir_evaluated import check

from adcompiler.interpreter.reference import Reference
from adcompiler.ir.nodes import Func, Size
from adcompiler.ir.textform.printer import show, show_name
from adcompiler.ir.textform.reader import parse_func
from adcompiler.ir.types import NUMPY
from adcompiler.passes.chunks.partition import Stage, partition
from adcompiler.passes.known_lengths import Known, for_lengths
from adcompiler.passes.order.gathered_products import gathered_products
from adcompiler.passes.order.gemm import found, found_in_loops, with_calls
from adcompiler.passes.order.guarded_products import guarded_products
from adcompiler.passes.order.interchange import interchange
from adcompiler.passes.order.triangles import triangles
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, SIMPLIFY, Pass
from adcompiler.passes.recurrences.checkpoint import checkpointed
from adcompiler.passes.recurrences.loop_products import loop_products

TEXTS = Path(__file__).parent / "texts"
FILES = sorted(TEXTS.rglob("*.txt"))
PIPELINE = (*SIMPLIFY, *OPTIMISE, *KERNEL)
LENGTHS = ((5, 4, 3, 6), (11, 1, 2, 1), (0, 3, 0, 2), (4, 0, 2, 0))
PARTITION = "chunks/partition"  # whose result is several programs
KNOWN = Known(constant=((1, 3),), equal=((0, 2),))


def name(step: Pass) -> str:
    """The name of a pass of the pipeline: its folder and its function."""
    return f"{step.__module__.split('.')[-2]}/{step.__name__}"


PASSES: dict[str, Callable[[Func], Func]] = {
    **{name(step): step for step in PIPELINE},
    "recurrences/checkpoint": partial(checkpointed, 64),
    "order/gathered_products": lambda func: gathered_products(func, lambda site: True),
    "order/gemm": lambda func: with_calls(func, [*found(func), *found_in_loops(func)]),
    "order/guarded_products": guarded_products,
    "order/interchange": interchange,
    "recurrences/loop_products": lambda func: func if (made := loop_products(func)) is None else made.func,
    "order/triangles": triangles,
    "known_lengths": lambda func: for_lengths(func, KNOWN),
}


def shown(func: Func) -> str:
    """The text of a program, and the loop orders that a pass has chosen."""
    orders = [f"# {show_name(func, a)}: loops interchanged\n" for a in func.interchanged]
    orders += [f"# {show_name(func, a)}: lanes along {'ijkl'[axis]}\n" for a, axis in func.across.items()]
    return "".join((show(func), "\n", *sorted(orders)))


def transformed(step: Callable[[Func], Func], text: str) -> tuple[str, str]:
    """A program before and after a pass: both keep the invariants, and give the same values."""
    before = parse_func(text)
    check(before)
    after = step(before)
    check(after)
    assert parse_func(show(after)).roots == after.roots
    for lengths in ((5, 3, 5),) if step is PASSES["known_lengths"] else LENGTHS:
        same_values(before, after, lengths)
    return shown(before), shown(after)


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


def stages(text: str) -> tuple[str, str]:
    """A program and its stages where axes of length n are chunked; tests of Dask arrays run stages."""
    before = parse_func(text)
    check(before)
    found = partition(before, [0], lambda length: 2).stages
    for stage in found:
        check(stage.func)
    return shown(before), "".join(map(shown_stage, found))


def shown_stage(stage: Stage) -> str:
    """The program of a stage, and how the results of its blocks are put together."""
    lines = [f"# {'for each block' if stage.grid else 'once'}\n"]
    for name, output in zip(stage.func.result_names, stage.outputs, strict=True):
        how = (
            f"parts, combined by {output.op}"
            if output.op
            else "a block"
            if any(p is not None for p in output.spec)
            else "whole"
        )
        lines.append(f"# {name}: {how}\n")
    return "".join((show(stage.func), "\n", *lines))


@pytest.mark.parametrize("path", FILES, ids=pass_of)
def test_a_pass(path: Path) -> None:
    name = pass_of(path)
    check_texts(path, stages if name == PARTITION else partial(transformed, PASSES[name]))


def test_every_pass_has_a_text() -> None:
    assert {pass_of(path) for path in FILES} == {*PASSES, PARTITION}, "each pass comes with a text"
