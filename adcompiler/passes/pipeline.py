"""The passes between a program and its kernels, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adcompiler.ir.nodes import Func
from adcompiler.passes.accumulators import accumulators
from adcompiler.passes.branch import branch
from adcompiler.passes.canonical import canonical
from adcompiler.passes.contract import contract
from adcompiler.passes.copy_aliased import own
from adcompiler.passes.distribute import distribute
from adcompiler.passes.expand import expand
from adcompiler.passes.factor import factor
from adcompiler.passes.fold import fold
from adcompiler.passes.hoist import hoist
from adcompiler.passes.horizontal_fusion import merge
from adcompiler.passes.inline import inline
from adcompiler.passes.inline_rules import dissolve
from adcompiler.passes.logsumexp import shifted
from adcompiler.passes.loop_invariant import lift
from adcompiler.passes.prune import prune
from adcompiler.passes.reciprocal import reciprocal
from adcompiler.passes.roots import roots
from adcompiler.passes.strict import strict
from adcompiler.passes.sums import sums
from adcompiler.passes.terms import terms
from adcompiler.passes.unroll import lanes, unroll

Pass = Callable[[Func], Func]

SIMPLIFY: tuple[Pass, ...] = (fold, shifted, sums, prune)
OPTIMISE: tuple[Pass, ...] = (dissolve, accumulators, strict, fold, prune, inline, contract, fold, prune)
PREPARE: tuple[Pass, ...] = (
    expand,
    unroll,
    fold,
    inline,
    roots,
    factor,
    canonical,
    reciprocal,
    terms,
    merge,
    canonical,
    lanes,
    inline,
    reciprocal,
    terms,
    fold,
)
# The order of loops is settled before: `passes/interchange.py`.
FINISH: tuple[Pass, ...] = (hoist, lift, distribute, branch, own)
KERNEL: tuple[Pass, ...] = (*PREPARE, *FINISH)


def run(passes: Sequence[Pass], func: Func, check: Callable[[Func], None] | None = None) -> Func:
    """`func` after each of `passes`; `check` (the verifier, in tests) sees it before and after each."""
    if check is not None:
        check(func)
    for step in passes:
        func = step(func)
        if check is not None:
            check(func)
    return func
