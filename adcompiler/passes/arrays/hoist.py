"""Loop-invariant code motion in nests: costly parts that a loop would repeat become separate arrays.

A costly part of a body that depends on fewer axes than the loops run over is hoisted by the loops themselves
if its axes are the outermost ones. Otherwise it becomes an array, if that has at most one long axis, as does
exp(w[j]) inside a loop over i and j. So do many simple operations over one long axis, and exp(v[i]), which is
vectorised in a separate loop. A part over pairs is recomputed rather than stored, unless a third long axis
would repeat each pair, as in products of matrices: then it becomes an array even if no operation is costly.

A function of one place of arrays that several points of the loops share, such as cos(x[i + j]), becomes an
array over these places.

The values that a scatter adds, if costly and over one long axis, become an array too.

The coordinates of points that a loop over pairs reads, x[j, 0] and x[j, 1], become arrays as well: contiguous
loads fill vector registers; strided loads took five times as long.
"""

from __future__ import annotations

from collections.abc import Mapping

from adcompiler.analysis.affine import is_counter, linear, linear_constant
from adcompiler.analysis.intervals import never_negative
from adcompiler.analysis.loop_order import long_axes, loop_order, takes_more
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Const,
    Contraction,
    Element,
    Func,
    Index,
    Input,
    Map,
    Read,
    Shape,
    is_const,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, elements_of, is_small, postorder, rewrite, separate, with_elements
from adcompiler.ops.costs import costly, is_function
from adcompiler.passes.limits import MOST_REPEATED, MOST_REPEATED_PAIRS
from adcompiler.passes.order.orders import settled_orders

Place = tuple[Element, ...]  # the indices of a read


def hoist(func: Func) -> Func:
    """The program with costly parts that loops would repeat in separate arrays."""
    return _Hoist(settled_orders(func)).func(func)


class _Hoist(Rewriter):
    def __init__(self, orders: Mapping[Array, tuple[int, ...]] | None = None) -> None:
        super().__init__()
        self.orders = dict(orders or {})

    def _rebuilt(self, array: Array) -> Array:
        new = super()._rebuilt(array)
        if array in self.orders:
            self.orders[new] = self.orders[array]
        return new

    def array(self, array: Array) -> Array:
        axes = {k for k, n in enumerate(array.domain) if not is_const(n, 1)}
        if isinstance(array, Contraction):
            known = _once(array)
            return with_elements(array, lambda es: tuple(_stored(e, array.domain, known) for e in es))
        array = _over_places(array)
        if isinstance(array, Accumulate):
            array = _precomputed(array)
        if len(axes) < 2:
            return array
        order = self.orders[array] if array in self.orders else loop_order(array)
        hoisted = {frozenset(order[:depth]) for depth in range(len(order) + 1)}
        far = set(long_axes(array))
        new: dict[Element, Read] = {}
        if len(far) > 1:
            new.update(
                (e, separate(e, array.domain)) for e in elements_of(array.elements) if _strided(e, order[-1])
            )
        known = _once(array)
        for part in self.parts(array, len(axes), known):
            long = len(part.axes & far)
            stored = part.axes not in hoisted and (long <= 1 or len(far) > max(long, 2))
            if stored or (len(part.axes) == long == 1 and costly(part, known) and _is_ready(part)):
                chosen = [k for k in order if k in part.axes] if array in self.orders or long > 1 else []
                new[part] = separate(part, array.domain, chosen or None)
                if long > 2:  # parts of it may be over still fewer axes
                    own = new[part]
                    new[part] = Read(self.array(own.array), own.args)
        if not new:
            return array
        # The readers' loops may now be ordered differently, and repeat other parts.
        changed = with_elements(array, lambda elements: rewrite(elements, lambda e: e, dict(new)))
        if array in self.orders:
            self.orders[changed] = self.orders[array]
        return self.array(changed)

    def parts(self, array: Array, count: int, known: dict[Element, bool]) -> list[Element]:
        """The largest parts that depend on fewer axes than the loops and take long; `known` tells which parts
        are costly."""
        kept = [
            e for e in elements_of(array.elements)
            if 0 < len(e.axes) < count and not (isinstance(e, Index) or is_counter(e))
        ]  # fmt: skip
        fewer = set(kept)
        inner = {a for e in kept for a in e.args}
        users = {a for e in elements_of(array.elements) if e not in fewer for a in e.args} | set(
            array.elements
        )
        far = set(long_axes(array))
        largest = [e for e in kept if e not in inner or e in users]
        return [e for e in largest if costly(e, known) or (far - e.axes and _is_work(e, len(e.axes & far)))]


def _over_places(array: Array) -> Array:
    """An array that reads functions of places, which several of its points share, from arrays over places."""
    elements = elements_of(array.elements)
    if not any(isinstance(e, Read) and any(_is_sum(i) for i in e.args) for e in elements):
        return array
    found: dict[Element, Place | None] = {}  # the one place where each part reads, if it has one
    for e in elements:
        if isinstance(e, Read):
            found[e] = e.args if e.axes and _are_shared(e, array.domain) else None
        elif e.axes:
            places = {found.get(a) for a in e.args if a.axes}
            found[e] = places.pop() if len(places) == 1 else None
    fewer: dict[Element, Element] = {}
    for e in _shared_parts(array, found):
        place = found[e]
        assert place is not None
        shape = next(r.array.shape for r in elements_of((e,)) if isinstance(r, Read) and r.args == place)
        fewer[e] = Read(Map(shape, _at_places(e, place)), place)
    return with_elements(array, lambda es: rewrite(es, lambda e: e, dict(fewer))) if fewer else array


def _shared_parts(array: Array, found: Mapping[Element, Place | None]) -> list[Element]:
    """The functions of one place, or the largest parts with such functions if there are no more of them."""
    functions = [e for e, place in found.items() if place is not None and is_function(e)]
    if not functions:
        return []
    beyond = {a for e in found for a in e.args if found[e] != found.get(a)} | {*array.elements}
    known: dict[Element, bool] = {}
    largest = [e for e in beyond if found.get(e) is not None and costly(e, known)]
    return largest if 0 < len(largest) <= len(functions) else functions


def _at_places(element: Element, place: Place) -> Element:
    """A function of a place as an element of an array over places."""
    own = tuple(map(Index, range(len(place))))
    return rewrite(
        (element,), lambda e: Read(e.array, own) if isinstance(e, Read) and e.args == place else e
    )[0]


def _is_sum(index: Element) -> bool:
    """Whether an index is a sum of several axes."""
    return len(index.axes) > 1


def _are_shared(read: Read, domain: Shape) -> bool:
    """Whether several points read an element of an array, and most elements are read: an index is a sum of
    axes, and all others are axes."""
    if len(read.axes) <= len(read.args):
        return False
    for index, size in zip(read.args, read.array.shape, strict=True):
        form = linear(index)
        if any(not isinstance(a, Index) and a.axes for a in form.atoms):
            return False
        along = [a for a in form.atoms if isinstance(a, Index)]
        lengths = [domain[a.axis] for a in along]
        if not along or any(abs(form.terms[a]) != 1 for a in along):
            return False
        if size not in lengths:
            if len(along) < 2:
                return False
            reach = sum(map(linear, lengths), linear_constant(0)) - linear(size)
            if not never_negative(reach, {}, ()):
                return False
    return True


def _once(array: Array) -> dict[Element, bool]:
    """The parts that depend on no axis: computed before the loops, they cost these nothing."""
    return {e: False for e in elements_of(array.elements) if not e.axes}


def _is_work(part: Element, long: int) -> bool:
    """Whether computing a part over some long axes takes longer than reading it, though no operation is
    costly."""
    return long > 0 and takes_more(part, MOST_REPEATED_PAIRS if long > 1 else MOST_REPEATED)


def _is_ready(part: Element) -> bool:
    """Whether a part reads inputs only. A separate loop then costs little and is vectorised, unlike code next
    to inner loops. Sums over a row are best used while the row is in cache."""
    return all(isinstance(e.array, Input) for e in elements_of((part,)) if isinstance(e, Read))


def _precomputed(array: Accumulate) -> Array:
    """Let a scatter of costly values read them from an array: a scatter loop is neither vectorised nor
    parallel, but the loop that computes the values is."""
    value = array.body
    while isinstance(value, Apply) and value.op == "negative":  # share the array if also subtracted
        value = value.args[0]
    if len(long_axes(array)) > 1 or not costly(value, _once(array)):
        return array
    own = separate(value, array.domain)
    return with_elements(array, lambda elements: rewrite(elements, lambda e: e, {value: own}))


def _stored(factor: Element, domain: Shape, known: dict[Element, bool]) -> Element:
    """A factor of a contraction with costly parts as arrays, which tiles only copy."""
    found = postorder((factor,), lambda e: () if _is_kept(e, known) else e.args)
    parts: dict[Element, Element] = {e: separate(e, domain) for e in found if _is_kept(e, known)}
    return rewrite((factor,), lambda e: e, parts)[0]


def _is_kept(part: Element, known: dict[Element, bool]) -> bool:
    """Whether a part is costly, and no larger as an array than those that it reads."""
    return bool(part.axes) and is_float(part.dtype) and costly(part, known) and is_small(part)


def _strided(element: Element, innermost: int) -> bool:
    """Whether the innermost loop reads one coordinate of points stored one after the other."""
    if not isinstance(element, Read) or len(element.args) < 2 or element.axes != {innermost}:
        return False
    plain = all(isinstance(i, Index | Const) for i in element.args)
    return plain and isinstance(element.args[-1], Const) and not is_const(element.array.shape[-1], 1)
