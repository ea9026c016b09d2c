"""Sparsity patterns: which entries of the inputs an entry of a result can depend on, for the lengths and
integers of one call.

A pattern is a boolean CSR matrix, entries of an array by entries of all wanted inputs; an array that is not
in `found` depends on none. An element over a domain depends on what its reads select: where (a *mask*) and
what a read reads is evaluated over the domain by the interpreter, as far as it follows from integers.
Floats are never used: both branches of a condition on floats count, and an index computed from floats may be
anything. A pattern may therefore contain too much, but never too little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from adcompiler.ad.partials import differentiable
from adcompiler.errors import LimitError
from adcompiler.interpreter.limits import MOST_FOLLOWED, MOST_POINTS
from adcompiler.interpreter.reference import REAL, Values, compute, evaluate, length, row_of
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Element,
    Input,
    Map,
    Put,
    Read,
    Select,
    identity,
)
from adcompiler.ir.types import DTYPES, is_float
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of
from adcompiler.ops.library import CONSTANT, LIBRARY
from adcompiler.ops.table import TABLE

Pattern = Any  # scipy.sparse.csr_array of booleans
Patterns = dict[Array, Pattern]


def pattern(
    results: Sequence[Array], wanted: Sequence[Input], values: Values, sizes: Sequence[int]
) -> Pattern:
    """The entries of all `results` by those of all `wanted` inputs; `values` are the inputs known.

    Raises LimitError if that is more than memory should hold.
    """
    from scipy.sparse import vstack

    counts = [prod(length(n, sizes) for n in i.shape) for i in wanted]
    scope = Scope(dict(values), {}, sizes, sum(counts))
    start = 0
    for i, count in zip(wanted, counts, strict=True):
        columns = np.arange(start, start + count)
        scope.found[i] = _selection(np.arange(count), columns, (count, scope.width))
        start += count
    scope.follow(arrays_of(results))
    found = [scope.of(r) for r in results] or [scope.nothing(0)]
    return vstack(found, format="csr", dtype=bool)


def _selection(rows: Any, columns: Any, shape: tuple[int, int]) -> Pattern:
    """The pattern that is true at these places."""
    from scipy.sparse import coo_array

    found = coo_array((np.ones(len(rows), bool), (rows, columns)), shape=shape).tocsr()
    found.data[:] = True
    return found


def _product(left: Pattern, right: Pattern) -> Pattern:
    """The union of the rows of `right` that each row of `left` selects."""
    limit(int(np.diff(right.indptr)[left.indices].sum(dtype=np.int64)))
    found = (left @ right).tocsr()
    found.data[:] = True
    return found


def limit(count: int) -> None:
    """Raise LimitError for a pattern with so many entries, if that is too many."""
    if count > MOST_POINTS:
        raise LimitError(
            f"the derivative is not sparse: its pattern has about {count:.1e} entries",
            remedy="use products with it: adc.jvp, adc.vjp, adc.hvp",
        )


class Scope:
    """A program, or one iteration of a loop: the values known and the patterns found so far."""

    def __init__(self, values: Values, found: Patterns, sizes: Sequence[int], width: int) -> None:
        self.values, self.found, self.sizes, self.width = values, found, sizes, width
        self._known: dict[Array, bool] = {}

    def of(self, array: Array) -> Pattern:
        """The pattern of an array."""
        found = self.found.get(array)
        return self.nothing(prod(self.lengths_of(array.shape))) if found is None else found

    def nothing(self, rows: int) -> Pattern:
        """The pattern of rows that depend on nothing."""
        from scipy.sparse import csr_array

        return csr_array((rows, self.width), dtype=bool)

    def follow(self, order: Sequence[Array]) -> None:
        """Find the patterns of the arrays of `order`."""
        for array in order:
            if array in self.found or isinstance(array, Input):
                continue
            if isinstance(array, Item):
                if any(a in self.found for a in array.loop.operands):
                    self.found |= _LoopPatterns(self, array.loop).patterns()
            elif is_float(array.dtype) and any(a in self.found for a in arrays_read(array)):
                self.found[array] = self._call(array) if isinstance(array, Call) else self._array(array)

    # -- what is known -------------------------------------------------------------------------

    def known(self, array: Array) -> bool:
        """Whether the value of an array follows from what is known."""
        for a in arrays_of((array,)):
            if a not in self._known:
                below = arrays_read(a)
                free = isinstance(a, Input) or not _exact(a) or not all(self._known[b] for b in below)
                self._known[a] = a in self.values or not free
        return self._known[array]

    def value(self, element: Element, domain: tuple[int, ...]) -> np.ndarray | None:
        """The value of an element over a domain, with length 1 along what it does not depend on, or None."""
        inside = elements_of((element,))
        reads = [e.array for e in inside if isinstance(e, Read)]
        if _rounds(inside) or not all(self.known(a) for a in reads):
            return None
        with np.errstate(all="ignore"):
            compute(arrays_of(reads), self.values, self.sizes, REAL)
            (found,) = evaluate((element,), domain, self.values, self.sizes, REAL)
        return np.asarray(found).reshape(np.shape(found) or (1,) * len(domain))

    def lengths_of(self, shape: Sequence[Element]) -> tuple[int, ...]:
        """The lengths of a shape."""
        found = [self.value(n, ()) for n in shape]
        if any(n is None for n in found):
            raise LimitError("a length is computed from floats: there is no pattern", remedy="sparse=False")
        return tuple(max(int(n), 0) for n in found if n is not None)

    # -- arrays --------------------------------------------------------------------------------

    def _array(self, array: Array) -> Pattern:
        """The union of what the array's reads select."""
        shape, domain = self.lengths_of(array.shape), self.lengths_of(array.domain)
        rows = prod(shape)
        total = None
        if not prod(domain) or not rows:
            return self.of(array.base) if isinstance(array, Put) else self.nothing(rows)
        places = array.indices if isinstance(array, Accumulate | Put) else identity(array.shape)
        for read, mask in self._reads(array.elements[-1], domain):
            found = self._selected(places, shape, read, mask, domain)
            total = found if total is None else total + found
        if isinstance(array, Put):
            base = self.of(array.base)
            return base if total is None else base + total
        return self.nothing(rows) if total is None else total

    def _call(self, call: Call) -> Pattern:
        """A routine's result in each case depends on all entries of what it is given in that case."""
        cases = len(call.cases)
        shape = self.lengths_of(call.shape)
        count, entries, total = prod(shape[:cases]), prod(shape[cases:]), self.nothing(prod(shape))
        params = zip(call.operands, LIBRARY[call.op].params, strict=True)
        active = [a for a, name in params if name != "f" and a in self.found]
        if call.op in CONSTANT or not total.shape[0]:
            return total
        for operand in active:
            *own, rows, columns = self.lengths_of(operand.shape)
            given = np.arange(prod(own) * rows * columns)
            of_case = _selection(given // (rows * columns or 1), given, (prod(own), len(given)))
            result = np.arange(count * entries)
            each = _selection(result, result // entries % prod(own), (len(result), prod(own)))
            total = total + _product(each, _product(of_case, self.found[operand]))
        return total

    def _reads(self, body: Element, domain: tuple[int, ...]) -> Iterator[tuple[Read, np.ndarray]]:
        """The reads that a body's derivative passes through, and where."""
        masks: dict[Element, np.ndarray] = {body: np.ones((1,) * len(domain), bool)}
        for element in reversed(elements_of((body,))):
            mask = masks.get(element)
            if mask is None or not is_float(element.dtype):
                continue
            if isinstance(element, Read) and element.array in self.found:
                yield element, mask
            for part, where in self._passed(element, mask, domain):
                masks[part] = masks[part] | where if part in masks else where

    def _passed(
        self, element: Element, mask: np.ndarray, domain: tuple[int, ...]
    ) -> Iterator[tuple[Element, np.ndarray]]:
        """The arguments that an element depends on, and where."""
        if isinstance(element, Select):
            holds = self.value(element.guard, domain)
            yield element.then, mask if holds is None else mask & holds
            yield element.otherwise, mask if holds is None else mask & ~holds
        elif isinstance(element, Apply) and differentiable(element):
            for k, arg in enumerate(element.args):
                if element.op in DTYPES or TABLE[element.op].partials[k] != "0":
                    yield arg, mask

    def _selected(
        self,
        places: Sequence[Element],
        shape: tuple[int, ...],
        read: Read,
        mask: np.ndarray,
        domain: tuple[int, ...],
    ) -> Pattern:
        """What one read at the points of a mask contributes to the array's entries at `places`."""
        axes = frozenset().union(*(e.axes for e in (*places, *read.args)))
        wide = {k for k, n in enumerate(mask.shape) if n > 1}
        domain = tuple(n if k in axes or k in wide else 1 for k, n in enumerate(domain))
        limit(prod(domain))
        lengths = self.lengths_of(read.array.shape)
        to, targets, into = self.flat(places, shape, domain)
        source, sources, outof = self.flat(read.args, lengths, domain)
        inside = np.broadcast_to(mask, domain).ravel() & (to >= 0) & (source >= 0)
        picked = _selection(to[inside], source[inside], (targets, sources))
        whole = self.found[read.array]
        found = _product(picked, whole if outof is None else _product(outof.T.tocsr(), whole))
        return found if into is None else _product(into, found)

    def flat(
        self, indices: Sequence[Element], shape: tuple[int, ...], domain: tuple[int, ...]
    ) -> tuple[np.ndarray, int, Pattern | None]:
        """The flat position at each point, -1 outside; along axes whose index is unknown all positions
        are one: then also the spread of the positions that remain to all entries."""
        found = [self.value(i, domain) for i in indices]
        flat, inside = np.zeros(domain, np.int64), np.ones(domain, bool)
        for n, index in zip(shape, found, strict=True):
            if index is not None:
                flat = flat * n + index
                inside &= (index >= 0) & (index < n)
        where = np.where(inside, flat, -1).ravel()
        known = [index is not None for index in found]
        return (where, prod(shape), None) if all(known) else (where, *_spread(shape, known))


def _spread(shape: tuple[int, ...], known: Sequence[bool]) -> tuple[int, Pattern]:
    """How many positions there are along the axes `known`, and those of all entries."""
    every, count = np.zeros(shape, np.int64), 1
    for k, n in enumerate(shape):
        if known[k]:
            every = every * n + np.arange(n).reshape([-1 if j == k else 1 for j in range(len(shape))])
            count *= n
    return count, _selection(np.arange(every.size), every.ravel(), (every.size, count))


def _rounds(elements: Sequence[Element]) -> bool:
    """Whether floats are computed: then a kernel may round differently than the interpreter, and decide
    otherwise."""
    return any(isinstance(e, Apply) and is_float(e.dtype) and e.op not in DTYPES for e in elements)


def _exact(array: Array) -> bool:
    """Whether every backend computes the same array from the same arrays."""
    if isinstance(array, Item):
        return all(_exact(a) for a in arrays_of(array.loop.roots))
    summed = is_float(array.dtype) and not isinstance(array, Input | Map)
    return not summed and not _rounds(elements_of(array.elements))


class _LoopPatterns:
    """The patterns of what a loop gives: iteration by iteration, or of everything on everything if that is
    too long or unknown."""

    def __init__(self, outer: Scope, loop: Loop) -> None:
        self.outer, self.loop = outer, loop
        self.step, *slots = loop.slots
        carried, scanned = len(loop.inits), len(loop.inits) + len(loop.scanned)
        self.carried, self.rows, self.fixed = slots[:carried], slots[carried:scanned], slots[scanned:]
        self.order = arrays_of(loop.roots)

    def patterns(self) -> Patterns:
        """The patterns of the loop's items."""
        iterations = self._iterations()
        found = None if iterations is None else self._followed(iterations)
        return self._everything() if found is None else found

    def _iterations(self) -> Sequence[int] | None:
        if self.loop.length is None:
            return range(MOST_FOLLOWED)
        (count,) = self.outer.lengths_of((self.loop.length,))
        iterations = range(max(count, 0))
        return None if count > MOST_FOLLOWED else iterations[::-1] if self.loop.backward else iterations

    def _everything(self) -> Patterns:
        """Each entry depends on all that the loop reads."""
        outer, items = self.outer, [i for i in self.loop.items if is_float(i.dtype)]
        read = [outer.found[a] for a in self.loop.operands if a in outer.found]
        columns = np.unique(np.concatenate([p.indices for p in read]))
        every = _selection(np.zeros(len(columns), int), columns, (1, outer.width))
        found: Patterns = {}
        for item in items:
            count = prod(outer.lengths_of(item.shape))
            one = _selection(np.arange(count), np.zeros(count, int), (count, 1))
            found[item] = _product(one, every)
        return found

    def _followed(self, iterations: Sequence[int]) -> Patterns | None:
        """The patterns after these iterations; None if a test depends on what is not known, or holds on."""
        now = [(self._given(a), self.outer.found.get(a)) for a in self.loop.inits]
        outs: list[dict[int, Pattern]] = [{} for _ in self.loop.outs]
        ended = self.loop.test is None
        for iteration in iterations:
            scope = self._scope(iteration, now)
            goes_on = self._goes_on(scope)
            if not goes_on:
                ended = goes_on is not None
                break
            scope.follow(self.order)
            now = [(_known_value(scope, r), scope.found.get(r)) for r in self.loop.results]
            for kept, array in zip(outs, self.loop.outs, strict=True):
                kept[iteration] = scope.of(array)
        return self._items([p for _, p in now], outs) if ended else None

    def _goes_on(self, scope: Scope) -> bool | None:
        """Whether there is this iteration, if that is known."""
        if self.loop.test is None:
            return True
        value = _known_value(scope, self.loop.test)
        return None if value is None else bool(value)

    def _items(self, carried: Sequence[Pattern | None], outs: Sequence[dict[int, Pattern]]) -> Patterns:
        """What is carried in the end, and the outs with their rows in order."""
        from scipy.sparse import vstack

        items = self.loop.items
        found: Patterns = {i: p for i, p in zip(items, carried, strict=False) if p is not None}
        for item, rows in zip(items[len(carried) :], outs, strict=False):
            if rows and is_float(item.dtype):
                found[item] = vstack([rows[k] for k in sorted(rows)], format="csr", dtype=bool)
                limit(found[item].nnz)
        return found

    def _given(self, array: Array) -> np.ndarray | None:
        return _known_value(self.outer, array)

    def _scope(self, iteration: int, now: Sequence[tuple[np.ndarray | None, Pattern | None]]) -> Scope:
        """One iteration: what its slots are, as far as known, and depend on."""
        outer, loop = self.outer, self.loop
        values: dict[Array, Any] = {self.step: np.asarray(iteration, np.int64)}
        found: dict[Array, Pattern | None] = {}
        for slot, (value, depends) in zip(self.carried, now, strict=True):
            values[slot], found[slot] = value, depends
        for slot, array in zip(self.fixed, loop.consts, strict=True):
            values[slot], found[slot] = self._given(array), outer.found.get(array)
        for slot, array in zip(self.rows, loop.scanned, strict=True):
            whole = self._given(array)
            values[slot] = None if whole is None else row_of(whole, iteration)
            found[slot] = self._row_pattern(array, iteration)
        return Scope(_present(values), _present(found), outer.sizes, outer.width)

    def _row_pattern(self, array: Array, iteration: int) -> Pattern | None:
        """The pattern of a row of a scanned array; there is nothing beyond its end."""
        whole, size = self.outer.found.get(array), prod(self.outer.lengths_of(array.shape[1:]))
        rows = None if whole is None else whole[iteration * size : (iteration + 1) * size]
        return None if rows is None or rows.shape[0] < size else rows


def _known_value(scope: Scope, array: Array) -> np.ndarray | None:
    if not scope.known(array):
        return None
    with np.errstate(all="ignore"):
        compute(arrays_of((array,)), scope.values, scope.sizes, REAL)
    return scope.values[array]


def _present(found: Mapping[Array, Any]) -> dict[Array, Any]:
    return {array: value for array, value in found.items() if value is not None}
