"""Drop unused values of loops, and merge equal loops.

Carried values and outs that nothing needs are dropped. Two loops that carry the same values over the same
iterations, such as one for the value and one for the stacks of its derivative, are merged; so is a loop with
another that carries more, such as tangents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import permutations

from adcompiler.ir.bodies import (
    Body,
    Built,
    Replace,
    build,
    const_places,
    fresh,
    opened,
    replaced,
    roots_of,
    standing,
    with_roots,
)
from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import Array, Func, Node
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import Rewriter, arrays_of, arrays_read, has_loops, postorder, read_by


def prune(func: Func) -> Func:
    """The program without unused or repeated work in loops."""
    if not has_loops(func.roots):
        return func
    pruned = _Prune()
    roots = pruned.run(func.roots)
    count = len(func.results)
    checks = tuple(replace(c, holds=r) for c, r in zip(func.checks, roots[count:], strict=True))
    now = pruned.replacements((*func.names, *func.spans))
    names = {now[node]: name for node, name in func.names.items()}
    spans = {now[node]: span for node, span in func.spans.items()}
    return func.with_(results=roots[:count], checks=checks, names=names, spans=spans)


def alone(array: Array) -> Array:
    """An array whose loops carry and collect only what it needs."""
    return _Prune().run((array,))[0] if has_loops((array,)) else array


class _Prune(Rewriter):
    """Prunes the bodies of loops, then the loops, until nothing changes; `steps` are the changes."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Rewriter] = []

    def stays(self, array: Array) -> bool:
        """Only loops are pruned, and those of rules."""
        return not isinstance(array, Item | Ruled) and self.reads_the_same(array)

    def run(self, results: Iterable[Array]) -> tuple[Array, ...]:
        roots = super().run(results)
        seen: set[tuple[object, ...]] = set()
        while True:
            loops = list(dict.fromkeys(a.loop for a in arrays_of(roots) if isinstance(a, Item)))
            change = _first_change(loops, roots, seen)
            if change is None:
                return roots
            self.steps.append(Replace(change))
            roots = self.steps[-1].run(roots)

    def replacements(self, nodes: Iterable[Node]) -> dict[Node, Node]:
        """The replacement of each node."""
        found = {node: node for node in nodes}
        for step in (self, *self.steps):
            moved = step.moved()
            found = {old: moved.get(new, new) for old, new in found.items()}
        return found


def _first_change(
    loops: Sequence[Loop], roots: Sequence[Array], seen: set[tuple[object, ...]]
) -> dict[Array, Array] | None:
    """Replacements for the results of some loop. `seen` holds loops that need no change, and pairs that do
    not merge."""
    used = {a for a in arrays_of(roots) if isinstance(a, Item)} | {r for r in roots if isinstance(r, Item)}
    for loop in loops:
        key = loop, *(i in used for i in loop.items)
        change = {} if key in seen else _needed(loop, used)
        seen.add(key)
        if change:
            return change
    for pair in permutations(loops, 2):
        merged = None if pair in seen else _merged(*pair)
        seen.add(pair)
        if merged:
            return merged
    return None


def _needed(loop: Loop, used: set[Item]) -> dict[Array, Array]:
    """A loop that carries and collects only what is needed, if that is less."""
    complete = used.issuperset(loop.items)
    if complete and loop.is_minimal:
        return {}
    places = const_places(loop)
    body = opened(loop, places)
    items = loop.items
    count = len(body.carried)
    outs = [o for o, item in zip(body.outs, items[count:], strict=False) if item in used]
    kept, _ = _closure(loop, [i for i in items if i in used])
    carried = [c for k, c in enumerate(body.carried) if k in kept]
    small = replace(body, carried=tuple(carried), outs=tuple(outs))
    roots = roots_of(small)
    if len(carried) < len(body.carried):  # inner loops may have carried dropped values
        roots = _Prune().run(roots)
    back = dict(zip(places.values(), loop.consts, strict=True))
    built = build(replaced(with_roots(small, roots, carried), back))
    found = dict(zip(carried, built.finals, strict=True))
    change: dict[Array, Array] = {
        i: found[c] for i, c in zip(items, body.carried, strict=False) if c in found
    }
    change |= zip((i for i in items[count : count + len(body.outs)] if i in used), built.outs, strict=True)
    if built.count is not None:
        change[items[-1]] = built.count
    change = {old: new for old, new in change.items() if old is not new and old in used}
    loop.is_minimal |= complete and not change  # a property of the node, so it is cached there
    return change


def _closure(loop: Loop, items: Iterable[Item]) -> tuple[set[int], set[Array]]:
    """The positions of the values a loop must carry to compute `items`, and all arrays of its body needed for
    that."""
    count = len(loop.inits)
    kept = {i.k for i in items if i.k < count}
    outs = [loop.outs[i.k - count] for i in items if count <= i.k < count + len(loop.outs)]
    test = () if loop.test is None else (loop.test,)
    while True:
        roots = (*(loop.results[k] for k in sorted(kept)), *outs, *test)
        reached = set(postorder(roots, lambda a: () if isinstance(a, Slot) else _reads(a)))
        more = {k for k, slot in enumerate(loop.slots[1 : 1 + count]) if slot in reached}
        if more <= kept:
            return kept, reached
        kept |= more


def _reads(array: Array) -> Sequence[Array]:
    """The arrays that an array depends on: for a loop, only the operands that this item needs."""
    if not isinstance(array, Item):
        return arrays_read(array)
    loop = array.loop
    kept, reached = _closure(loop, [array])
    slots = loop.slots[1:]
    operands = (
        a
        for k, (a, slot) in enumerate(zip(loop.operands, slots, strict=True))
        if k in kept or slot in reached
    )
    return (*operands, *(() if loop.length is None else read_by((loop.length,))))


def _merged(loop: Loop, other: Loop) -> dict[Array, Array] | None:
    """Replacements for the items of two loops, if `other` carries everything that `loop` does."""
    if not _may_merge(loop, other):
        return None
    if not set(loop.items).isdisjoint(arrays_of(other.operands)):
        return None
    if not set(other.items).isdisjoint(arrays_of(loop.operands)):
        return None
    shared: dict[tuple[object, ...], Array] = {}
    consts: dict[Array, Array] = {}
    small, large = (opened(one, _shared_places(one, shared, consts)) for one in (loop, other))
    if not {c.slot for c in small.carried} <= {c.slot for c in large.carried}:
        return None
    if not _alike(small, large):
        small, large = _pruned(small, large)
        if not _alike(small, large):
            return None
    outs = tuple(dict.fromkeys((*large.outs, *small.outs)))
    rows = tuple({row: (whole, row) for whole, row in (*large.rows, *small.rows)}.values())
    back = {place: whole for whole, place in consts.items()}
    built = build(replaced(replace(large, outs=outs, rows=rows), back))
    return _replaced(other, large, built, outs) | _replaced(loop, small, built, outs, large)


def _may_merge(loop: Loop, other: Loop) -> bool:
    """Whether `other` has the iterations of `loop`, and starts with all its values."""
    if (loop.length, loop.backward, loop.test is None) != (other.length, other.backward, other.test is None):
        return False
    return len(loop.inits) <= len(other.inits) and set(loop.inits) <= set(other.inits)


def _alike(small: Body, large: Body) -> bool:
    """Whether two loops update the values that the smaller one carries in the same way, for as many
    iterations."""
    results = {c.slot: c.result for c in large.carried}
    return small.test is large.test and all(results[c.slot] is c.result for c in small.carried)


def _pruned(small: Body, large: Body) -> tuple[Body, Body]:
    """Two bodies, each of them pruned, after merging inner loops of one with those of the other."""
    roots = roots_of(small), roots_of(large)
    ones, others = ({a.loop for a in arrays_of(r) if isinstance(a, Item)} for r in roots)
    if not any(_may_merge(a, b) or _may_merge(b, a) for a in ones for b in others):
        return small, large
    found = _Prune().run((*roots[0], *roots[1]))
    first, rest = found[: len(roots[0])], found[len(roots[0]) :]
    return with_roots(small, first, small.carried), with_roots(large, rest, large.carried)


def _replaced(
    loop: Loop, body: Body, built: Built, outs: Sequence[Array], large: Body | None = None
) -> dict[Array, Array]:
    """The items of a loop in the merged loop."""
    finals = dict(zip((c.slot for c in (large or body).carried), built.finals, strict=True))
    stacks = dict(zip(outs, built.outs, strict=True))
    new = [*(finals[c.slot] for c in body.carried), *(stacks[o] for o in body.outs)]
    new += [] if built.count is None else [built.count]
    return dict(zip(loop.items, new, strict=True))


def _shared_places(
    loop: Loop, shared: dict[tuple[object, ...], Array], consts: dict[Array, Array]
) -> dict[Array, Array]:
    """Placeholders shared by two loops: for `consts`, equal initial values, and rows of the same array."""
    step, *slots = loop.slots
    found: dict[Array, Array] = {step: shared.setdefault(("step",), fresh("i64", ()))}
    fixed = list(zip(slots[len(loop.inits) + len(loop.scanned) :], loop.consts, strict=True))
    for slot, whole in sorted(fixed, key=lambda pair: pair[0].rank > 0):  # lengths read numbers
        found[slot] = consts.setdefault(whole, standing(slot, found))
    seen: dict[Array, int] = {}
    for slot, init in zip(slots, loop.inits, strict=False):
        seen[init] = seen.get(init, 0) + 1
        found[slot] = shared.setdefault(("carried", init, seen[init]), standing(slot, found))
    for slot, whole in zip(slots[len(loop.inits) :], loop.scanned, strict=False):
        found[slot] = shared.setdefault(("row", whole), standing(slot, found))
    return found
