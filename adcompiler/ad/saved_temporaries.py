"""Values saved by a forward program: the temporaries that partial derivatives use.

As in PyTorch's derivatives.yaml, saved values are inferred from the formulas. A temporary becomes an array
and an output of the forward program, so it can receive a cotangent. This makes higher-order derivatives
correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adcompiler.ad.partials import active_arrays, differentiable, named
from adcompiler.analysis.loop_order import is_short
from adcompiler.ir.bodies import Replace
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import (
    Apply,
    Array,
    Call,
    Const,
    Element,
    Func,
    Index,
    Input,
    Map,
    Node,
    Read,
    Reduce,
    Select,
    Shape,
    Size,
)
from adcompiler.ir.origins import follow
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import DTYPES, is_float
from adcompiler.ir.walk import (
    arrays_of,
    arrays_read,
    elements_of,
    postorder,
    separate,
    with_args,
    with_elements,
)
from adcompiler.ops.table import TABLE


def outline(func: Func, wanted: Sequence[Array]) -> tuple[Func, tuple[Array, ...]]:
    """`func` with each temporary that its backward pass needs as a separate array, and those arrays.

    The results keep their order; a saved array may be a result as well.
    """
    moved: dict[Array, Array] = {}
    saved: dict[Array, None] = {}
    names: dict[Node, str] = dict(func.names)
    arrays = arrays_of(func.results)
    # Arrays that only the value of a rule reads are not differentiated.
    read = postorder(func.results, lambda a: a.args if isinstance(a, Ruled) else arrays_read(a))
    active = active_arrays(arrays, wanted) & set(read)
    for array in arrays:
        if isinstance(array, Input):
            moved[array] = array
            continue
        if isinstance(array, Item):  # what its iterations need is found when they are run back (loops.py)
            (moved[array],) = Replace(moved).run((array,))
            continue
        if isinstance(array, Ruled):
            (made,) = Replace(moved).run((array,))
            moved[array] = made
            saved.update(
                {a: None for a in (made, *(moved[a] for a in array.args)) if not isinstance(a, Input)}
            )
            continue
        needed = _stored(needed_elements(array, active), array)
        kept: Sequence[Array]
        if isinstance(array, Item | Call):
            moved[array] = Replace(moved).run((array,))[0]
            whole = array.loop.operands if isinstance(array, Item) else (*array.operands, array)
            kept = whole if array in active else ()
        else:
            moved[array] = _outlined(array, needed, moved, saved, names)
            kept = _needed_arrays(array, needed)
        saved.update({moved[a]: None for a in kept if not isinstance(a, Input)})
        if array in names:
            names.setdefault(moved[array], names[array])
    results = tuple(moved[r] for r in func.results)
    order = [a for a in arrays_of((*results, *saved)) if a in saved]
    return func.with_(results=results, names=names), tuple(order)


def needed_elements(array: Array, active: set[Array]) -> set[Element]:
    """The elements of `array` whose values the chain rule uses."""
    if array not in active:
        return set()
    on_path: set[Element] = set()
    needed: set[Element] = set()
    for element in elements_of(array.elements[-1:]):
        reads = isinstance(element, Read) and element.array in active
        if not reads and not (differentiable(element) and any(a in on_path for a in element.args)):
            continue
        on_path.add(element)
        if isinstance(element, Apply):
            for k, arg in enumerate(element.args):
                if arg in on_path:
                    needed.update(named(element, k))
        elif isinstance(element, Select):
            needed.add(element.guard)
        else:
            needed.update(element.args)
    match array:
        case Reduce(op="min" | "max" | "prod" | "logsumexp"):
            needed.add(array.body)
    needed.update(e for e in array.elements[:-1])
    return needed


def _stored(needed: Iterable[Element], array: Array) -> set[Element]:
    """The needed elements to store: not conditions and conversions, which are cheap to recompute, nor
    elements over pairs."""
    stored: set[Element] = set()
    work, seen = list(needed), set()
    while work:
        element = work.pop()
        if element in seen or isinstance(element, Const | Index | Size):
            continue
        seen.add(element)
        cheap = isinstance(element, Apply) and (
            element.op in DTYPES or TABLE[element.op].kind in ("bool", "logical", "integer")
        )
        again = cheap or not is_float(element.dtype) or _is_over_pairs(element, array)
        if isinstance(element, Read) or again:
            work.extend(element.args)
        if isinstance(element, Read) or not again:
            stored.add(element)
    return stored


def _is_over_pairs(element: Element, array: Array) -> bool:
    """Whether an element of a sum is over more axes than any array that it reads."""
    if isinstance(element, Read) or not any(k >= array.rank for k in element.axes):
        return False
    return _is_outer(element, array.domain, element.axes)


def _is_outer(element: Element, domain: Shape, axes: Iterable[int]) -> bool:
    """Whether no stored array that `element` reads is over all the long axes of `axes`."""
    long = frozenset(k for k in axes if not is_short(domain[k]))
    reads = [e for e in elements_of((element,)) if isinstance(e, Read) and long <= e.axes]
    return all(is_over_pairs(r.array) for r in reads)


def is_over_pairs(array: Array) -> bool:
    """Whether an array has an element for each pair, computed from arrays over fewer axes: it is recomputed,
    not stored.

    A contraction over a long axis does not count: it is costly to recompute.
    """
    long = [k for k, n in enumerate(array.shape) if not is_short(n)]
    short = isinstance(array, Map) or (isinstance(array, Reduce) and all(map(is_short, array.reduced)))
    return short and len(long) > 1 and _is_outer(array.elements[-1], array.domain, long)


def _needed_arrays(array: Array, needed: Iterable[Element]) -> Sequence[Array]:
    """The arrays that needed elements read whole, and a minimum or maximum that its adjoint compares with."""
    found = [e.array for e in needed if isinstance(e, Read)]
    found += [array] if isinstance(array, Reduce) and array.op != "sum" else []
    return [a for a in found if not is_over_pairs(a)]


def _outlined(
    array: Array,
    needed: set[Element],
    moved: dict[Array, Array],
    saved: dict[Array, None],
    names: dict[Node, str],
) -> Array:
    """`array` with its needed elements read from separate arrays."""
    new: dict[Element, Element] = {}
    own: dict[Element, Array] = {}
    for element in elements_of(array.elements):
        made = with_args(element, tuple(new[a] for a in element.args))
        if isinstance(made, Read):
            made = Read(moved[made.array], made.args)
        elif element in needed:
            made = separate(made, array.domain, sorted(element.axes))
            saved[made.array] = None
            own[element] = made.array
            if element in names:
                names.setdefault(made.array, names[element])
        new[element] = made
    follow(own, new)
    # Lengths are not temporaries, even if elements share them: the slots of loops have these lengths.
    rebuilt = with_elements(array, lambda elements: tuple(new[e] for e in elements), Replace(moved).resized)
    whole = rebuilt.elements[-1]
    renames = (
        isinstance(rebuilt, Map)
        and isinstance(whole, Read)
        and whole.array in saved
        and whole.array.shape == rebuilt.shape
        and whole.args == tuple(map(Index, range(rebuilt.rank)))
    )
    return whole.array if renames and isinstance(whole, Read) else rebuilt
