"""What a forward program saves: the temporaries that the partial derivatives name.

As in PyTorch's derivatives.yaml, what to save is inferred from the formulas. A temporary becomes an
array of its own and an output of the forward program, so that it can receive a cotangent itself:
this is what makes derivatives of higher order right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adcompiler.ad.partials import active_arrays, differentiable, named
from adcompiler.ir.call import Call
from adcompiler.ir.nodes import (
    Apply,
    Array,
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
    Size,
)
from adcompiler.ir.types import DTYPES, is_float
from adcompiler.ir.walk import arrays_of, elements_of, substitute, with_args, with_elements
from adcompiler.ops.table import TABLE


def outline(func: Func, wanted: Sequence[Array]) -> tuple[Func, tuple[Array, ...]]:
    """`func` with each temporary that its backward pass needs as an array of its own, and those arrays.

    The results keep their order; a saved array may be a result as well.
    """
    moved: dict[Array, Array] = {}
    saved: dict[Array, None] = {}
    names: dict[Node, str] = dict(func.names)
    arrays = arrays_of(func.results)
    active = active_arrays(arrays, wanted)
    for array in arrays:
        if isinstance(array, Input):
            moved[array] = array
            continue
        if isinstance(array, Call):
            moved[array] = _called(array, moved, saved, active)
            continue
        needed = _needed(array, active) if array in active else set()
        moved[array] = _outlined(array, needed, moved, saved, names)
        saved.update({moved[a]: None for a in _needed_arrays(array, needed) if not isinstance(a, Input)})
        if array in names:
            names.setdefault(moved[array], names[array])
    results = tuple(moved[r] for r in func.results)
    order = [a for a in arrays_of((*results, *saved)) if a in saved]
    return func.with_(results=results, names=names), tuple(order)


def _called(array: Call, moved: dict[Array, Array], saved: dict[Array, None], active: set[Array]) -> Array:
    """A call on what became of its operands; its derivative names these and its result."""
    operands = tuple(moved[a] for a in array.operands)
    made = Call(array.op, operands, array.dtype, array.shape)
    if array in active:
        saved.update(dict.fromkeys(a for a in (*operands, made) if not isinstance(a, Input)))
    return made


def _needed(array: Array, active: set[Array]) -> set[Element]:
    """The elements of `array` whose values the chain rule names."""
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
    return _stored(needed)


def _stored(needed: Iterable[Element]) -> set[Element]:
    """Of the elements needed, those to store: conditions and conversions are cheap to make again."""
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
        if isinstance(element, Read) or cheap or not is_float(element.dtype):
            work.extend(element.args)
        if isinstance(element, Read) or (is_float(element.dtype) and not cheap):
            stored.add(element)
    return stored


def _needed_arrays(array: Array, needed: Iterable[Element]) -> list[Array]:
    """The arrays that needed elements read whole, and a minimum or maximum that its adjoint compares with."""
    found = [e.array for e in needed if isinstance(e, Read)]
    return found + ([array] if isinstance(array, Reduce) and array.op != "sum" else [])


def _outlined(
    array: Array,
    needed: set[Element],
    moved: dict[Array, Array],
    saved: dict[Array, None],
    names: dict[Node, str],
) -> Array:
    """`array` with its needed elements read from arrays of their own."""
    new: dict[Element, Element] = {}
    for element in elements_of(array.elements):
        made = with_args(element, tuple(new[a] for a in element.args))
        if isinstance(made, Read):
            made = Read(moved[made.array], made.args)
        elif element in needed:
            axes = sorted(element.axes)
            body = substitute(made, {k: Index(p) for p, k in enumerate(axes)})
            temporary = Map(tuple(array.domain[k] for k in axes), body)
            saved[temporary] = None
            if element in names:
                names.setdefault(temporary, names[element])
            made = Read(temporary, tuple(Index(k) for k in axes))
        new[element] = made
    rebuilt = with_elements(array, lambda elements: tuple(new.get(e, e) for e in elements))
    whole = rebuilt.elements[-1]
    renames = (
        isinstance(rebuilt, Map)
        and isinstance(whole, Read)
        and whole.array in saved
        and whole.array.shape == rebuilt.shape
        and whole.args == tuple(map(Index, range(rebuilt.rank)))
    )
    return whole.array if renames and isinstance(whole, Read) else rebuilt
