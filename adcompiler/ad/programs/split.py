"""Explicit programs: forward with its saved temporaries as results, and propagate for each pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from adcompiler.ad.programs.consistent import consistent
from adcompiler.ad.programs.mincut import cheapest
from adcompiler.ad.saved_temporaries import outline
from adcompiler.ad.vjp import relevance, vjp
from adcompiler.errors import Error
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import (
    Array,
    Element,
    Func,
    Input,
    Map,
    Node,
    Reduce,
    const,
    element_of,
    zeros_like,
)
from adcompiler.ir.origins import keep, renumbering
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, arrays_of, arrays_read, lengths_read, postorder
from adcompiler.lazy import cached_property
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.costs import Length

Pattern = tuple[bool, ...]


@dataclass(frozen=True)
class Propagate:
    """One propagate program: `reads` has for each input the number of forward's value that it takes (inputs
    first, then results); the other inputs are cotangents. `known` says which wanted cotangents may be
    nonzero."""

    func: Func
    reads: tuple[int, ...]
    known: Pattern


@dataclass(frozen=True)
class Split:
    """A program split in two. `forward` has the original results first, then the saved temporaries."""

    forward: Func
    count: int
    wanted: tuple[int, ...]

    @property
    def saved(self) -> tuple[Array, ...]:
        """The temporaries that forward saves."""
        return self.forward.results[self.count :]

    @property
    def differentiable(self) -> Pattern:
        """The results of forward that can carry a cotangent."""
        return tuple(is_float(r.dtype) for r in self.forward.results)

    @property
    def usual(self) -> Pattern:
        """The pattern with cotangents of all results and of no saved temporary."""
        return tuple(k < self.count and d for k, d in enumerate(self.differentiable))

    @property
    def all_asked(self) -> Pattern:
        """The pattern that asks for every gradient."""
        return (True,) * len(self.wanted)

    @cached_property
    def guards(self) -> list[Element]:
        """Where each result of forward matters: a saved temporary, only in a branch that reads it."""
        return relevance(self.forward.results, self.count, [self.forward.inputs[k] for k in self.wanted])

    def cotangents(self, present: Pattern) -> list[Input | None]:
        """A placeholder for each cotangent that is not None."""
        return [
            Input(-1 - k, r.dtype, r.shape) if here and is_float(r.dtype) else None
            for k, (r, here) in enumerate(zip(self.forward.results, present, strict=True))
        ]

    @cached_property
    def loops(self) -> list[Array]:
        """Results of loops that propagate needs and forward can compute, because they depend on no cotangent:
        for example the stacks of carried values."""
        forward = self.forward
        cotangents = self.cotangents(self.differentiable)
        found = vjp(forward.results, cotangents, [forward.inputs[k] for k in self.wanted], self.guards)
        order = arrays_of(g for g in found if g is not None)
        behind: set[Array] = {c for c in cotangents if c is not None}
        for array in order:
            if any(a in behind for a in arrays_read(array)):
                behind.add(array)
        return [a for a in order if isinstance(a, Item) and a not in behind]

    def propagate(
        self, present: Pattern, asked: Pattern, held: bool = True, checked: bool = False
    ) -> Propagate:
        """The program for one pattern of cotangents that are not None, and of gradients asked for.

        It reads results of forward only if they are `held`; if `checked`, it repeats the checks of forward.
        """
        forward = self.forward
        cotangents = self.cotangents(present)
        targets = [forward.inputs[k] for k, ask in zip(self.wanted, asked, strict=True) if ask]
        found = vjp(forward.results, cotangents, targets, self.guards)
        grads = [g for g in found if g is not None]
        known = dict(zip(targets, (g is not None for g in found), strict=True))
        mask = pattern_text(present) + "|" + pattern_text(asked)
        names: dict[Node, str] = dict(forward.names)
        names.update({c: f"d{forward.result_names[k]}" for k, c in enumerate(cotangents) if c is not None})
        func = Func(
            name=f"{forward.name.removesuffix('.forward')}.propagate[{mask}]",
            inputs=(),
            input_names=(),
            results=tuple(grads),
            result_names=tuple(
                f"d{forward.input_names[t.position]}"
                for t, g in zip(targets, found, strict=True)
                if g is not None
            ),
            size_names=forward.size_names,
            names=names,
            spans=forward.spans,
            source=forward.source,
            checks=forward.checks if checked else (),
        )
        available = (*forward.inputs, *(forward.results if held else ()))
        usable = consistent(grads, available)
        func, reads = rebind(
            func,
            {a: k for k, a in reversed(list(enumerate(available))) if a in usable},
            [c for c in cotangents if c is not None],
            self.value_names(),
        )
        asked_known = tuple(
            ask and known[forward.inputs[k]] for k, ask in zip(self.wanted, asked, strict=True)
        )
        return Propagate(func, reads, asked_known)

    def value_names(self) -> tuple[str, ...]:
        """Names of the values that propagate may read: forward's inputs, then its results."""
        return (*self.forward.input_names, *self.forward.result_names)


Choice = Callable[["Split"], Sequence[Array]]


def split(func: Func, wanted: Sequence[int], choose: Choice | None = None) -> Split:
    """Split `func`; `wanted` are the positions of the inputs whose gradients may be asked for.

    The values that partial derivatives use are saved, or what `choose` picks of all arrays, given that split.
    Temporaries that the program with all cotangents present does not read are not saved.
    """
    targets = [func.inputs[k] for k in wanted]
    outlined, saved = outline(func, targets)
    extra = [a for a in saved if a not in outlined.results]
    extra += Split(_forward(outlined, extra), len(func.results), tuple(wanted)).loops
    made = _used(outlined, extra, len(func.results), tuple(wanted))
    return made if choose is None else _used(outlined, choose(made), len(func.results), tuple(wanted))


def _used(func: Func, saved: Sequence[Array], count: int, wanted: tuple[int, ...]) -> Split:
    """The split that saves the arrays of `saved` that some propagate reads."""
    known = {*func.inputs, *func.results}
    order = [a for a in dict.fromkeys(b for a in saved for b in (*lengths_read(a), a)) if a not in known]
    everything = Split(_forward(func, order), count, wanted)
    first = len(func.inputs) + count
    read = {k - first for k in everything.propagate(everything.differentiable, everything.all_asked).reads}
    return Split(_forward(func, [a for k, a in enumerate(order) if k in read]), count, wanted)


def by_names(names: Sequence[str]) -> Choice:
    """Save the arrays that the user names: temporaries of the source, or names such as `t0` that a split
    shows.

    The choice raises Error for an unknown name.
    """

    def choose(made: Split) -> list[Array]:
        forward = made.forward
        arrays: dict[str, Array] = {
            forward.names[a]: a for a in arrays_of(forward.results) if a in forward.names
        }
        arrays |= zip(forward.result_names[made.count :], made.saved, strict=True)
        arrays |= zip(forward.input_names, forward.inputs, strict=True)
        for name in names:
            if name not in arrays:
                raise Error(
                    f"there is no value {name!r} to save in {forward.name.removesuffix('.forward')}",
                    remedy=f"there are {', '.join(arrays)}",
                )
        return [arrays[name] for name in names if not isinstance(arrays[name], Input)]

    return choose


def by_cost(length: Length) -> Choice:
    """Save an array if that is cheaper than recomputing it, for lengths given by `length`."""

    def choose(made: Split) -> list[Array]:
        available = (*made.forward.inputs, *made.forward.results)
        reads = made.propagate(made.usual, made.all_asked).reads
        return cheapest(made.forward, made.count, [available[k] for k in reads], length)

    return choose


def pattern_text(pattern: Pattern) -> str:
    """A pattern as text: 1 where a value is present, - where it is None or not wanted."""
    return "".join("1" if here else "-" for here in pattern)


def _forward(func: Func, saved: Sequence[Array]) -> Func:
    wanted = [func.names.get(array, f"t{k}") for k, array in enumerate(saved)]
    names = distinct(wanted, (*func.input_names, *func.result_names))
    return func.with_(
        name=f"{func.name}.forward",
        results=(*func.results, *saved),
        result_names=(*func.result_names, *names),
    )


def value_and_grad(func: Func, wanted: Sequence[int], with_value: bool) -> Func:
    """One joint program: the first result (a scalar) and its gradients; nothing is saved.

    An input without a path to the result has a gradient of zeros.
    """
    value = func.results[0]
    seeds: list[Array | None] = [Map((), const(1, value.dtype)), *[None] * (len(func.results) - 1)]
    targets = [func.inputs[k] for k in wanted]
    grads = [
        zeros_like(t) if g is None else g
        for t, g in zip(targets, vjp(func.results, seeds, targets), strict=True)
    ]
    values = func.results if with_value else ()
    names = func.result_names if with_value else ()
    return func.with_(
        name=f"{func.name}.{'value_and_grad' if with_value else 'grad'}",
        results=(*values, *grads),
        result_names=(
            *names,
            *distinct([f"d{func.input_names[k]}" for k in wanted], (*func.input_names, *names)),
        ),
    )


class _Bind(Rewriter):
    """Replaces arrays by inputs; the lengths of an input may be the values of earlier ones."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        super().__init__()
        self.inputs: dict[Array, Input] = {}
        for array in arrays:
            made = Input(len(self.inputs), array.dtype, self._change(array.shape))
            self.arrays[array] = self.inputs[array] = made

    def inner(self, loop: Loop | Ruled) -> None:
        """Leaves the bodies of loops unchanged: they are closed."""
        keep(loop.roots if isinstance(loop, Loop) else loop.pulled)


def rebind(
    func: Func, numbers: Mapping[Array, int], cotangents: Sequence[Array], names: Sequence[str]
) -> tuple[Func, tuple[int, ...]]:
    """`func` as a separate program: reads of arrays in `numbers` become inputs.

    Returns the program and the numbers of the arrays that it reads, in order.
    """
    reads = sorted(_reached(func.roots, cotangents, numbers), key=numbers.__getitem__)
    with renumbering():
        bind = _Bind([*reads, *cotangents])
        inputs = bind.inputs
        roots = bind.run(func.roots)
    results, holds = roots[: len(func.results)], roots[len(func.results) :]
    moved = bind.moved()
    labels = [names[numbers[a]] for a in reads] + [func.names[c] for c in cotangents]
    return (
        func.with_(
            inputs=tuple(inputs.values()),
            input_names=distinct(labels),
            results=results,
            result_names=distinct(func.result_names, labels),
            checks=tuple(replace(c, holds=h) for c, h in zip(func.checks, holds, strict=True)),
            names={moved[n]: name for n, name in func.names.items() if n in moved and n not in inputs},
            spans={moved[n]: span for n, span in func.spans.items() if n in moved},
        ),
        tuple(numbers[a] for a in reads),
    )


def _reached(roots: Iterable[Array], given: Sequence[Array], stops: Mapping[Array, int]) -> set[Array]:
    """The arrays of `stops` that `roots` reach without passing another one, and those that the lengths of
    these and of the arrays `given` depend on."""

    def read(array: Array) -> Iterable[Array]:
        return lengths_read(array) if array in stops or array in given else arrays_read(array)

    return {a for a in postorder((*roots, *given), read) if a in stops}


def pullback(
    func: Func,
    wanted: Sequence[int],
    present: Sequence[bool],
    totals: Sequence[int] = (),
    zeros: bool = False,
    names: tuple[str, str] = ("d", "d"),
) -> tuple[Func, tuple[bool, ...]]:
    """The program of the gradients of the inputs `wanted`; after its inputs it takes the cotangents of the
    results that are `present`. `names` are what the names of cotangents and of gradients begin with.

    For the inputs `totals` it has the sum of the gradient's elements. A gradient that is known to be zero is
    `zeros`, or else no result: the second value says for each of `wanted` whether it is one.
    """
    given = [k for k, here in enumerate(present) if here]
    own, first = func.results, len(func.inputs)
    cotangents = {k: Input(first + p, own[k].dtype, own[k].shape) for p, k in enumerate(given)}
    targets = [func.inputs[k] for k in wanted]
    found = vjp(own, [cotangents.get(k) for k in range(len(own))], targets)
    live = [zeros_like(i) if g is None and zeros else g for i, g in zip(targets, found, strict=True)]
    pairs = [(k, g) for k, g in zip(wanted, live, strict=True) if g is not None]
    made = func.extended(
        f"{func.name}.backward",
        list(cotangents.values()),
        [f"{names[0]}{func.result_names[k]}" for k in given],
        [_total(g) if k in totals else g for k, g in pairs],
        [f"{names[1]}{func.input_names[k]}" for k, _ in pairs],
    )
    return made, tuple(g is not None for g in live)


def _total(array: Array) -> Array:
    """The sum of all elements."""
    return Reduce("sum", (), array.shape, element_of(array)) if array.rank else array
