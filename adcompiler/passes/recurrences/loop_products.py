"""Products of loops, for all iterations at once: an iteration multiplies a vector by a matrix, and what it
carries does not decide that, or it needs no more of it than what it collects.

    for t in range(n):                              u = x @ W
        s = tanh(x[t] @ W + s @ U)         →        for t in range(n): s[t + 1] = tanh(u[t] + s[t] @ U)
        total += loss(s @ V)                        total += sum(loss(z) for z in s[1:] @ V)

Before the loop and after it these are products of matrices: they read a matrix once for a tile of iterations,
not once for each. The loop of a reverse pass has such products too: cotangents of what an iteration used, and
of what it received from outside. The arrays have an element for each iteration, so that lengths decide.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

from adcompiler.ir.batch import batch
from adcompiler.ir.bodies import (
    Body,
    Carried,
    Replace,
    build,
    fresh,
    like,
    opened,
    reached,
    roots_of,
    varying,
    with_roots,
)
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Array,
    Const,
    Element,
    Func,
    Index,
    Map,
    Read,
    Reduce,
    closed,
    const,
    is_const,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import (
    LoopRewriter,
    arrays_read,
    has_loops,
    is_computed,
    postorder,
    read_by,
    rewrite,
    substitute,
)
from adcompiler.passes.limits import FEWEST_SPLIT_ITERATIONS
from adcompiler.passes.order.gemm import product_of
from adcompiler.passes.recurrences.reductions import total
from adcompiler.passes.recurrences.updates import Update, update


class LoopProducts(NamedTuple):
    """A program with products of its loops outside of them, and the sums that are these products."""

    func: Func
    sums: frozenset[Array]


def loop_products(func: Func) -> LoopProducts | None:
    """A program with the products of its loops outside of them; None if there are none."""
    rewriter = _LoopProducts()
    made = rewriter.func(func)
    return LoopProducts(made, frozenset(rewriter.sums)) if rewriter.sums else None


class _LoopProducts(LoopRewriter):
    def __init__(self) -> None:
        super().__init__()
        self.sums: list[Array] = []
        self.kept: set[Loop] = set()  # loops that are part of others, within a budget

    def inner(self, loop: Loop | Ruled) -> None:
        """Loops in iterations stay: each iteration around them would need such an array."""

    def results(self, loop: Loop) -> Sequence[Array]:
        length = loop.length
        if length is None or loop.test is not None or is_computed(length):
            return loop.items
        if isinstance(length, Const) and length.value < FEWEST_SPLIT_ITERATIONS:
            return loop.items
        if any(isinstance(a, Item) and self.is_kept(a.loop) for a in (*loop.inits, *loop.scanned)):
            self.kept.add(loop)
            return loop.items
        split = _Split(opened(loop), length)
        split.before()
        made = split.results()
        self.sums += split.sums
        return made if split.sums else loop.items

    def is_kept(self, loop: Loop) -> bool:
        """Whether a loop runs others, as those do that run in segments (`passes/recurrences/checkpoint.py`):
        what continues them, or reads what they save, keeps their budget of memory."""
        return loop in self.kept or has_loops(loop.roots)


class _Split:
    """A loop: `every` gives arrays of its body over all iterations, and `sums` are the products moved."""

    def __init__(self, body: Body, length: Element) -> None:
        self.body, self.length = body, length
        self.slots = {c.slot for c in body.carried}
        self.sums: list[Array] = []
        iteration = const(0, "i64") if is_const(length, 1) else Index(0)
        self.every: dict[Array, Array] = {body.step: Map((length,), iteration)}
        self.every |= {row: whole for whole, row in body.rows if whole.shape[0] is length}

    def before(self) -> None:
        """Compute the products before the loop that no carried value decides, and read their rows."""
        inside, known = varying(self.body), set(self.every)
        rows = list[tuple[Array, Array]]()
        for array in postorder(roots_of(self.body), arrays_read):
            if array not in inside or array in known or not isinstance(array, Map | Reduce):
                continue
            if known.issuperset(a for a in arrays_read(array) if a in inside):
                known.add(array)
                whole = self.whole_product(array, self.every)
                if whole is not None:
                    self.every[array] = whole
                    self.sums.append(_sum_of(whole))
                    rows.append((whole, array))
        if rows:
            slots = {array: like(array) for _, array in rows}
            self.every |= {slots[array]: whole for whole, array in rows}
            roots = Replace(dict(slots)).run(roots_of(self.body))
            more = [(whole, slots[array]) for whole, array in rows]
            self.body = with_roots(self.body, roots, self.body.carried, (*self.body.rows, *more))

    def results(self) -> Sequence[Array]:
        """What the loop gives: values that no iteration reads, and for which it multiplies, are computed
        after it."""
        after = _After(self)
        body, rest = after.body, after.rest
        kept = [out for out in body.outs if out not in after.outs]
        outs = tuple(dict.fromkeys((*kept, *after.stacked)))
        roots = (*(c.result for c in rest), *outs)
        built = build(with_roots(replace(body, carried=rest, outs=outs), roots, rest))
        stacks = dict(zip(outs, built.outs, strict=True))
        self.every |= {a: stacks[a] for a in after.stacked}
        for array in after.products:
            whole = self.whole_product(array, self.every)
            assert whole is not None
            self.every[array] = whole
            self.sums.append(_sum_of(whole))
        finals = dict(zip(rest, built.finals, strict=True))
        finals |= {c: total(c.init, own, self.length, self.every) for c, own in after.totals.items()}
        stacks |= zip(after.outs, batch(after.outs, self.every, (self.length,)), strict=True)
        return [*(finals[c] for c in body.carried), *(stacks[out] for out in body.outs)]

    def whole_product(self, array: Array, every: Mapping[Array, Array]) -> Array | None:
        """A product of a vector of each iteration with a matrix that all of them share, over all iterations;
        None for anything else."""
        if not isinstance(array, Reduce) or array.op != "sum":
            return None
        (whole,) = batch((array,), every, (self.length,))
        if not isinstance(whole, Reduce):
            return None
        made = _without_single(whole)
        product = product_of(made)
        if product is None or 0 in product.cases:
            return None
        long = [k for k, n in enumerate(whole.shape) if not is_const(n, 1)]
        places = dict(zip(long, range(len(long)), strict=True))
        return closed(whole.shape, Read(made, tuple(Index(k) for k in places)))


def _sum_of(whole: Array) -> Array:
    """The sum that an array of products reads, if it is not the sum itself."""
    return whole if isinstance(whole, Reduce) else arrays_read(whole)[0]


class _After:
    """What is computed after a loop: `outs` that it collected, and `totals` of what it added to a number, by
    `products`, from `stacked` arrays. The `rest` is still carried."""

    def __init__(self, split: _Split) -> None:
        self.split = split
        body = self.body = _with_shared_factors(split.body)
        self.inside = varying(body)
        self.decided = _depending(body, split.slots)
        adding = {c: u for c in body.carried if (u := _added(c, body)) is not None}
        while True:
            rest = [c for c in body.carried if c not in adding]
            self.state = reached([c.result for c in rest], split.slots)
            own = self.decided - self.state
            candidates: dict[Array | Carried, Sequence[Array]] = {a: (a,) for a in body.outs if a in own}
            candidates |= {c: read_by((u.element,)) for c, u in adding.items()}
            self.stops: set[Array] = {a for a in self.decided if a in self.state} | split.slots
            found = {c: self.products_of(roots) for c, roots in candidates.items()}
            self.stops |= {c for c, made in found.items() if not made and isinstance(c, Array)}
            found = {c: self.products_of(candidates[c]) for c, made in found.items() if made}
            found = {c: made for c, made in found.items() if made}
            stay = [c for c in adding if c not in found]
            if not stay:
                break
            adding = {c: u for c, u in adding.items() if c not in stay}
        outs = [a for a in body.outs if a not in found]
        remaining = reached((*(c.result for c in rest), *outs), split.slots)
        leaving = {c: [a for a in made if a not in remaining] for c, made in found.items()}
        # A product that an iteration still needs would be computed twice.
        if not rest or any(len(made) < len(found[c]) for c, made in leaving.items()):
            found = {}
        if not found:
            self.body = split.body
        self.rest = tuple(c for c in body.carried if c not in found)
        self.totals = {c: adding[c] for c in found if isinstance(c, Carried)}
        self.outs = [c for c in found if isinstance(c, Array)]
        roots = [a for c in found for a in candidates[c]]
        self.products = self.products_of(roots) or []
        self.stacked = [a for a in self.cone(roots) if a in self.stops]

    def cone(self, roots: Iterable[Array]) -> list[Array]:
        """The arrays that change from iteration to iteration and that roots need, up to those where
        collecting stops."""
        ends = self.stops | self.split.every.keys()

        def parts(array: Array) -> Sequence[Array]:
            return () if array in ends else [a for a in arrays_read(array) if a in self.inside]

        return [a for a in postorder(list(roots), parts) if a not in self.split.every and a in self.inside]

    def products_of(self, roots: Sequence[Array]) -> list[Array]:
        """The products that roots need; none if they need what is computed in an iteration only."""
        cone = self.cone(roots)
        if not all(a in self.stops or isinstance(a, Map | Reduce) for a in cone):
            return []
        stand: dict[Array, Array] = {
            a: fresh(a.dtype, (self.split.length, *a.shape)) for a in cone if a in self.stops
        }
        every = self.split.every | stand
        return [a for a in cone if a not in self.stops and self.split.whole_product(a, every) is not None]


def _added(carried: Carried, body: Body) -> Update | None:
    """What iterations add to a number that nothing else in them reads."""
    own = update(carried.slot, carried.result) if not carried.slot.rank else None
    others = (*(c.result for c in body.carried if c is not carried), *body.outs)
    if own is None or own.op != "add" or carried.slot in reached(others, {carried.slot}):
        return None
    return own


def _depending(body: Body, slots: Collection[Array]) -> set[Array]:
    """The arrays of a body that carried values decide."""
    found = set(slots)
    for array in postorder(roots_of(body), arrays_read):
        if not found.isdisjoint(arrays_read(array)):
            found.add(array)
    return found


def _with_shared_factors(body: Body) -> Body:
    """A body that reads a collected array in the sums that it collects, where these compute its elements."""
    maps = [a for a in body.outs if isinstance(a, Map) and a.rank and a.body.args]

    def change(element: Element) -> Element:
        for array in maps:
            if type(element) is type(array.body) and len(element.axes) == len(array.body.axes) == array.rank:
                for axes in permutations(sorted(element.axes)):
                    places: dict[int, Element] = {k: Index(a) for k, a in enumerate(axes)}
                    if substitute(array.body, places) is element:
                        return Read(array, tuple(Index(a) for a in axes))
        return element

    def shared(array: Array) -> Array:
        if not isinstance(array, Reduce) or array.op != "sum" or not maps:
            return array
        (made,) = rewrite((array.body,), change)
        return array if made is array.body else Reduce(array.op, array.shape, array.reduced, made)

    return replace(body, outs=tuple(map(shared, body.outs)))


def _without_single(array: Reduce) -> Reduce:
    """A sum without kept axes of length 1."""
    kept = [k for k, n in enumerate(array.domain) if k >= array.rank or not is_const(n, 1)]
    if len(kept) == len(array.domain):
        return array
    shape = tuple(array.shape[k] for k in kept if k < array.rank)
    moved: dict[int, Element] = {k: Index(p) for p, k in enumerate(kept)}
    return Reduce(array.op, shape, array.reduced, substitute(array.body, moved))
