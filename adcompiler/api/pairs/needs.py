"""What asks for gradients in the arguments of `f.backward`, and gradients nested like these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from adcompiler.api.pairs.pairs import DiffPair, is_marked, nested
from adcompiler.api.pairs.seeds import count
from adcompiler.eager.graph.graph import Node
from adcompiler.errors import DtypeError, GraphError
from adcompiler.ir.types import is_float
from adcompiler.pytree.containers import Container, Ragged, Rows, opened
from adcompiler.pytree.structures import arrays_in, places_of, unflatten
from adcompiler.runtime.arguments.ragged_arrays import refuse
from adcompiler.runtime.programs.specialise import Types

Found = dict[int, dict[int, Any]]  # gradients by input, each by its dual parts


class GradientRequest(NamedTuple):
    """A pair or Variable in the place of an argument, or of a part of one: its inputs begin with `first`.

    In lists of equal structs, whose fields are arrays of all items, `items` are the items that it is part of.
    """

    path: str
    holder: Any
    kind: Any
    first: int
    items: tuple[int, ...] = ()

    @property
    def how(self) -> str:
        """How it gathers."""
        return self.holder.accumulator if isinstance(self.holder, DiffPair) else "sum"

    @property
    def floats(self) -> list[int]:
        """The inputs that have a gradient."""
        return floats_of(self.kind, self.first)

    def asks(self) -> bool:
        """Whether it gathers a gradient; raises what says why it cannot."""
        holder = self.holder
        needed = bool(holder.needs_grad if isinstance(holder, DiffPair) else holder.requires_grad)
        if needed and not isinstance(holder, DiffPair) and not holder.is_leaf:
            raise GraphError(
                f"{holder.name} was computed: f.backward() leaves gradients in leaves only",
                remedy="call f on it, and backward() of the result",
            )
        if needed and self.items and self.how != "sum":
            raise DtypeError(
                f'accumulator="{self.how}": {self.path} is part of a list of structs', remedy='use "sum"'
            )
        if needed and not self.floats:
            what = getattr(self.kind, "dtype", "without floats")
            raise DtypeError(
                f"{self.path} is {what}: there is no derivative with respect to it",
                remedy="pass floats, or the value itself instead of a pair",
            )
        return needed

    def has(self, gradient: Any) -> bool:
        """Whether there is nothing to gather: no gradient, or one that was added where it stands."""
        return gradient is None or (isinstance(self.holder, DiffPair) and gradient is self.holder.d)

    def gather(self, gradient: Any) -> None:
        """Leave a gradient with the pair or Variable."""
        if isinstance(self.holder, DiffPair):
            self.holder.gather(gradient)
        elif isinstance(gradient, DiffPair):
            raise GraphError(
                f"{self.path} is a Variable beside pairs of pairs: its .grad has no place for a tangent",
                remedy="pass a DiffPair of its value",
            )
        else:
            self.holder._accumulate(Node.kind(gradient), False)


def firsts(types: Types) -> list[int]:
    """The number of the first input of each argument."""
    return [0, *accumulate(map(count, types))][: len(types)]


def needs_in(
    path: str, kind: Any, arg: Any, first: int, items: tuple[int, ...] = ()
) -> Iterator[GradientRequest]:
    """The pairs and Variables in an argument, outside of others."""
    if isinstance(kind, Ragged):
        if is_marked(arg) or any(map(is_marked, arg)):
            refuse("a pair or Variable", (kind,))
    elif is_marked(arg):
        yield GradientRequest(path, arg, kind, first, items)
    elif isinstance(kind, Rows):
        for k, given in enumerate(arg):
            yield from needs_in(f"{path}[{k}]", kind.part, given, first, (*items, k))
    elif isinstance(kind, Container) and (container := opened(arg, path)) is not None:
        for key, part, given in zip(container.keys, kind.parts, container.parts, strict=True):
            yield from needs_in(path + kind.path(key), part, given, first, items)
            first += count(part)


def floats_of(kind: Any, first: int) -> list[int]:
    """The inputs of an argument that have a gradient."""
    return [n for n, a in enumerate(arrays_in((kind,)), first) if is_float(a.dtype)]


def is_dual(holder: Any) -> bool:
    """Whether a gradient of a container is a pair of two, and not a container of pairs."""
    return isinstance(holder, DiffPair) and isinstance(holder.p, DiffPair)


def nested_like(kind: Any, first: int, found: Found, outside: int = 0, items: tuple[int, ...] = ()) -> Any:
    """Gradients nested like an argument, or like an item of lists; as dual numbers whose pairs stand
    `outside` of containers."""
    each = [found.get(n) for n in floats_of(kind, first)]
    if items:
        each = [g and {p: _number(np.array(a[items])) for p, a in g.items()} for g in each]
    if outside:
        if all(g is None for g in each):
            return None
        parts = {p: [None if g is None else g[p] for g in each] for p in range(1 << outside)}
        return nested({p: unflatten(places_of(kind), flat) for p, flat in parts.items()}, outside)
    pairs = [None if g is None else nested(g, len(g).bit_length() - 1) for g in each]
    return unflatten(places_of(kind), pairs)


def _number(item: np.ndarray) -> Any:
    """An item's own array, or its number."""
    return item if item.ndim else item[()] if item.dtype == np.float32 else item.item()


def answer(path: str, kind: Any, arg: Any, gradients: Mapping[str, Any]) -> Any:
    """What the pairs and Variables in an argument gathered, nested like it."""
    if is_marked(arg):
        return gradients.get(path)
    if not isinstance(kind, Container) or (container := opened(arg, path)) is None:
        return None
    if isinstance(kind, Rows):
        each = [(f"[{k}]", kind.part, given) for k, given in enumerate(container.parts)]
    else:
        each = [(kind.path(k), *p) for k, *p in zip(container.keys, kind.parts, container.parts, strict=True)]
    parts = [answer(path + key, part, given, gradients) for key, part, given in each]
    return None if all(p is None for p in parts) else container.build(parts)
