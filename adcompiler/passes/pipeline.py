"""The passes between a program and its kernels, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adcompiler.ir.nodes import Func
from adcompiler.passes.algebra.canonical import canonical
from adcompiler.passes.algebra.decide import alternatives, decide
from adcompiler.passes.algebra.eliminate import eliminate
from adcompiler.passes.algebra.expand import expand
from adcompiler.passes.algebra.factor import factor
from adcompiler.passes.algebra.fold import fold
from adcompiler.passes.algebra.logsumexp import stabilised
from adcompiler.passes.algebra.reciprocal import reciprocal
from adcompiler.passes.algebra.roots import roots
from adcompiler.passes.algebra.smooth import smooth
from adcompiler.passes.algebra.strict import strict
from adcompiler.passes.algebra.terms import terms
from adcompiler.passes.arrays.contract import contract, pick
from adcompiler.passes.arrays.copy_aliased import copy_aliased
from adcompiler.passes.arrays.hoist import hoist
from adcompiler.passes.arrays.horizontal_fusion import fuse_horizontally
from adcompiler.passes.arrays.inline import inline
from adcompiler.passes.arrays.inline_rules import inline_rules
from adcompiler.passes.arrays.prune import prune
from adcompiler.passes.arrays.searches import searches
from adcompiler.passes.arrays.select_sinking import branch
from adcompiler.passes.arrays.transpose import transpose
from adcompiler.passes.arrays.unroll import lanes, unroll
from adcompiler.passes.recurrences.accumulators import accumulators
from adcompiler.passes.recurrences.distribute import distribute
from adcompiler.passes.recurrences.in_place_stores import in_place_stores
from adcompiler.passes.recurrences.independent import independent
from adcompiler.passes.recurrences.last_iterations import last_iterations
from adcompiler.passes.recurrences.loop_invariant import hoist_loop_invariants
from adcompiler.passes.recurrences.reductions import reductions
from adcompiler.passes.recurrences.scans import scans
from adcompiler.passes.recurrences.stores import stores
from adcompiler.passes.recurrences.views import views

Pass = Callable[[Func], Func]

# Where a loop stores in an array no more, what it reads of it may be what it combines; and the loop around
# one that only combines may only store.
SIMPLIFY: tuple[Pass, ...] = (
    *(fold, stabilised, reductions, stores, views, reductions, stores),
    *(eliminate, scans, last_iterations, smooth, prune, independent),
)
OPTIMISE: tuple[Pass, ...] = (
    *(inline_rules, in_place_stores, searches, accumulators, strict, pick),
    *(alternatives, prune, inline, contract, transpose, fold, prune),
)
# After products of gathered rows have moved: `passes/order/gathered_products.py`.
GATHERED: tuple[Pass, ...] = (prune, inline, transpose, fold, prune)
PREPARE: tuple[Pass, ...] = (
    expand,
    unroll,
    decide,
    inline,
    roots,
    factor,
    canonical,
    reciprocal,
    terms,
    fuse_horizontally,
    canonical,
    lanes,
    inline,
    reciprocal,
    terms,
    fold,
)
# The order of loops is chosen before: `passes/order/interchange.py`.
FINISH: tuple[Pass, ...] = (hoist, hoist_loop_invariants, distribute, branch, copy_aliased)
KERNEL: tuple[Pass, ...] = (*PREPARE, *FINISH)


def run(passes: Sequence[Pass], func: Func, check: Callable[[Func], None] | None = None) -> Func:
    """Apply `passes` to `func`; `check` (the verifier, in tests) runs before and after each."""
    if check is not None:
        check(func)
    for step in passes:
        func = step(func)
        if check is not None:
            check(func)
    return func
