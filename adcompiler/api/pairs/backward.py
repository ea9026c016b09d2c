"""SlangPy's `f.backward`: gradients by a joint program of arguments and cotangents, accumulated in pairs.

The program is a pullback (`ad/programs/split.py`); where pairs nest it runs on dual numbers
(`ad/programs/duals.py`). Calls with only numbers and arrays use an inline cache, like calls of the function
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from adcompiler.ad.programs.contributions import contributions, shared_axes
from adcompiler.ad.programs.duals import Coefficient, completed
from adcompiler.ad.programs.split import Pattern, pullback
from adcompiler.api.pairs.into import overlaps_itself
from adcompiler.api.pairs.pairs import DiffPair, bare, depth, inner, is_marked, nested
from adcompiler.api.pairs.seeds import cotangents, tangents
from adcompiler.api.pairs.styles import (
    Style,
    checked,
    coefficients,
    of_result,
    on_dual_numbers,
    split_cotangent,
)
from adcompiler.eager.graph.graph import Node
from adcompiler.errors import DtypeError, GraphError, ShapeError
from adcompiler.frames import public
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.lazy import Memo
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.pytree.containers import Container, Ragged, Rows, opened
from adcompiler.pytree.kinds import ArgType, Types
from adcompiler.pytree.structures import arrays_in, count, places_of, unflatten
from adcompiler.runtime.arguments.adapters import Wrapper, as_numpy
from adcompiler.runtime.arguments.ragged_arrays import refuse
from adcompiler.runtime.arguments.refused import refuse_masked
from adcompiler.runtime.arguments.signature import PLAIN
from adcompiler.runtime.programs.program import Bound, Program
from adcompiler.runtime.programs.traceable import Traceable
from adcompiler.targets.cpu.adding import adding, scatters

UNREDUCED = "push", "first"
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
        """Its accumulator."""
        return self.holder.accumulator if isinstance(self.holder, DiffPair) else "sum"

    @property
    def floats(self) -> list[int]:
        """The inputs that have a gradient."""
        return floats_of(self.kind, self.first)

    def asks(self) -> bool:
        """Whether it accumulates a gradient; raises an error if it cannot."""
        holder = self.holder
        needed = bool(holder.needs_grad if isinstance(holder, DiffPair) else holder.requires_grad)
        if needed and not isinstance(holder, DiffPair) and not holder.is_leaf:
            raise GraphError(
                f"{holder.name} was computed: f.backward() stores gradients only in leaves",
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
                remedy="pass floats, or the value instead of a pair",
            )
        return needed

    def has(self, gradient: Any) -> bool:
        """Whether there is nothing to gather: no gradient, or one that was added where it stands."""
        return gradient is None or (isinstance(self.holder, DiffPair) and gradient is self.holder.d)

    def gather(self, gradient: Any) -> None:
        """Store a gradient in the pair or Variable."""
        if isinstance(self.holder, DiffPair):
            self.holder.gather(gradient)
        elif isinstance(gradient, DiffPair):
            raise GraphError(
                f"{self.path} is a Variable among pairs of pairs: its .grad cannot hold a tangent",
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
    """The pairs and Variables in an argument, outside others."""
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
    """The gradients of pairs and Variables in an argument, nested like it."""
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


def _targets(asking: Sequence[GradientRequest], values: Sequence[Any]) -> dict[int, np.ndarray]:
    """The gradients that pairs have already, by input, to which more can be added where they stand."""
    arrays = [n for n in asking if isinstance(n.kind, ArgType) and n.how == "sum" and not n.items]
    found = ((n.first, n.holder.d) for n in arrays if isinstance(n.holder, DiffPair))
    return {k: d for k, d in found if isinstance(d, np.ndarray) and is_like(d, values[k])}


def _missed(*_: Any) -> None:
    """What an inline cache gives for a call unlike the one before."""


def _wrapped(wrapper: Wrapper | None, found: Found) -> Found:
    """Gradients as the caller wants them."""
    if wrapper is None:
        return found
    return {n: {p: wrapper.gradient(n, a) for p, a in parts.items()} for n, parts in found.items()}


class Plan(NamedTuple):
    """The program of gradients, on dual numbers: the coefficients that its inputs are, the inputs of the
    function whose gradients it returns, and those asked for."""

    program: Program
    inputs: list[Coefficient]
    known: list[int]
    wanted: tuple[int, ...]

    @property
    def scatters(self) -> bool:
        """Whether a gradient is that of a gather."""
        return any(map(scatters, self.program.func.results))


class Ready(NamedTuple):
    """A plan, and its program on arguments."""

    plan: Plan
    bound: Bound


class Backward(Style):
    """Reverse mode: `f.backward(*args, dresult)` with a cotangent nested like the result.

    Each DiffPair that is an argument or a part of one accumulates its gradient in `d`, each Variable that
    requires one in `.grad`; without any, every float argument has one. Returns the gradients of this call,
    nested like the arguments, None for others and for zero.

    A cotangent may also be passed by name, `dresult=...`, or as the `d` of a pair for the result,
    `_result=pair`. Pairs inside a pair's p are dual numbers: gradients are then pairs of the gradient and its
    derivative along the tangents of the arguments and of the cotangent.

    Raises ShapeError for a cotangent of another shape or structure, GraphError for Variables that were
    computed, LimitError for pairs nested more than six deep.
    """

    __slots__ = ("replayed",)

    def __init__(self, f: Traceable) -> None:
        super().__init__(f)
        self.replayed: Memo[tuple[int, ...], Callable[..., Any]] = Memo()  # by the arguments that are pairs

    @public
    def _call(self, *args: Any, **keywords: Any) -> tuple[Any, ...]:
        f = self.f
        if not keywords and (again := self._again(args)) is not None:
            return again
        bound, cotangent = split_cotangent(f.__name__, f._parameters, args, keywords)
        if keywords or not PLAIN.issuperset(map(type, args)):
            return self._gathered(bound, cotangent)
        (types, values, plain, _), _ = self.described(bound)
        wanted = dict.fromkeys(self._every(types), "sum")
        program = f._program(types, values)
        ready = _ready(program, values, plain, wanted, {}, 0, cotangent)
        found = _run(ready, 0)
        self.__call__ = _inline(program, ready, types, args, self._call) or self._call
        return self._everything(types, found)

    def _again(self, args: Sequence[Any]) -> tuple[Any, ...] | None:
        """The answer to a call like one before, with pairs in the place of arguments."""
        asking = tuple([k for k, a in enumerate(args) if type(a) is DiffPair and a.is_plain])
        if asking not in self.replayed:
            return None
        given = list(args)
        for k in asking:
            given[k] = args[k].p
        found = self.replayed[asking](*given)
        if found is None:
            return None
        answer: list[Any] = [None] * (len(args) - 1)
        for k, gradient in zip(asking, found, strict=True):
            args[k].gather(gradient)
            answer[k] = gradient
        return tuple(answer)

    def _gathered(self, bound: Sequence[Any], cotangent: Any) -> tuple[Any, ...]:
        """A call with arguments of any kind."""
        (types, values, plain, _), wrapper = self.described(bound)
        names = self.f._names
        needs = [n for each in zip(names, types, bound, firsts(types), strict=True) for n in needs_in(*each)]
        asking = [n for n in needs if n.asks()]
        order = max((depth(n.holder.p) for n in needs if isinstance(n.holder, DiffPair)), default=0)
        if not order and isinstance(cotangent, DiffPair):
            cotangent = of_result(cotangent)
        order = checked(max(order, depth(cotangent)))
        inside = [bare(a, inner) for a in bound] if order else []
        given = tangents(names, inside, types, values, order, wrapper) if order else {}
        spared = {n for need in needs for n in need.floats}
        wanted = {n: need.how for need in asking for n in need.floats} or {
            n: "sum" for n in self._every(types) if n not in spared
        }
        program = self.f._program(types, values)
        ready = _ready(program, values, plain, wanted, given, order, cotangent, wrapper)
        separate = order or wrapper is not None
        found = _wrapped(wrapper, _run(ready, order, {} if separate else _targets(asking, values)))
        if not asking:
            return self._everything(types, found)
        if order == 0 and all(type(a) in PLAIN or (type(a) is DiffPair and a.is_plain) for a in bound):
            args = [*(a.p if type(a) is DiffPair else a for a in bound), cotangent]
            inline = _inline(program, ready, types, args, _missed)
            if inline is not None and ready is not None and not ready.plan.scatters:
                self.replayed[tuple(k for k, a in enumerate(bound) if type(a) is DiffPair)] = inline
        apart = Apart(f"{self.f.__name__}", program, values, plain, cotangent, wrapper)
        gradients = {
            n.path: apart.gradient(n, order)
            if n.how in UNREDUCED
            else nested_like(n.kind, n.first, found, is_dual(n.holder) * order, n.items)
            for n in asking
        }
        for need in [n for n in asking if not n.has(gradients[n.path])]:
            need.gather(gradients[need.path])
        return tuple(answer(*each, gradients) for each in zip(names, types, bound, strict=True))

    def _every(self, types: Types) -> tuple[int, ...]:
        """The inputs that have gradients where nobody says which."""
        return self.f._wanted(None, types)[1]

    def _everything(self, types: Types, found: Found) -> tuple[Any, ...]:
        """All gradients found, one entry an argument."""
        return tuple(
            nested_like(kind, first, found) if floats_of(kind, first) else None
            for kind, first in zip(types, firsts(types), strict=True)
        )


# -- programs ------------------------------------------------------------------------------------------


def _ready(
    program: Program,
    values: Sequence[Any],
    plain: bool,
    wanted: Mapping[int, str],
    given: Mapping[Coefficient, Any],
    order: int,
    cotangent: Any,
    wrapper: Wrapper | None = None,
) -> Ready | None:
    """The program of the gradients that are added up, on its arguments; None if all are zero."""
    func = program.func
    seeds = cotangents(program.structure, func.results, func.result_names, cotangent, order, wrapper)
    number = {k: len(values) + p for p, k in enumerate(sorted({k for k, _ in seeds}))}
    summed = tuple(n for n, how in wanted.items() if how not in UNREDUCED)
    totals = tuple(n for n in summed if wanted[n] == "total")
    everything = {**given, **{(number[k], parts): seed for (k, parts), seed in seeds.items()}}
    present = tuple(k in number for k in range(len(func.results)))
    asked = summed, totals, present, order, tuple(completed(everything))
    plan = program.derived(("backward", *asked), lambda: _plan(program, *asked))
    if not plan.known:
        return None
    args = coefficients(plan.inputs, values, everything)
    try:
        return Ready(plan, plan.program.bind(args, plain))
    except ShapeError:
        _refuse_shapes(program.bind(values), seeds)
        raise


def _plan(
    program: Program,
    wanted: tuple[int, ...],
    totals: tuple[int, ...],
    present: Pattern,
    order: int,
    taken: tuple[Coefficient, ...],
) -> Plan:
    """The program of the gradients of `wanted`, of `totals` the sums of all elements, for the cotangents that
    are `present`."""
    func, known = pullback(program.func, wanted, present, totals)
    duals, inputs = on_dual_numbers(program.extended(run(SIMPLIFY, func)), order, taken)
    return Plan(duals, inputs, [n for n, k in zip(wanted, known, strict=True) if k], wanted)


def _refuse_shapes(bound: Bound, seeds: Mapping[Coefficient, Any]) -> None:
    """Raise the error of a cotangent that does not fit its result."""
    for (k, _), seed in seeds.items():
        if np.shape(seed) != bound.shape(k):
            raise ShapeError(
                f"the cotangent of {bound.program.func.result_names[k]} has shape {np.shape(seed)}, but the "
                f"result {bound.shape(k)}",
                remedy="a cotangent must have its result's shape",
            )


def _run(ready: Ready | None, order: int, targets: Mapping[int, np.ndarray] | None = None) -> Found:
    """The gradients that are not zero, by input: a dict of their dual parts each. Those of gathers are added
    to their `targets`, which stand in their place."""
    if ready is None:
        return {}
    plan, bound = ready
    known, program = plan.known, plan.program
    each = ((n, a) for n, a in (targets or {}).items() if n in known)
    given = {known.index(n): a for n, a in each if takes(a, bound.values)}
    key = tuple(given)
    separate = program.derived(("adding", key), lambda: scattered(program, key)) if key else None
    flat = bound.run() if separate is None else separate.run(bound, given)
    return {n: {p: flat[p * len(known) + k] for p in range(1 << order)} for k, n in enumerate(known)}


def _inline(
    program: Program, ready: Ready | None, types: Types, args: Sequence[Any], general: Callable[..., Any]
) -> Callable[..., Any] | None:
    """What answers calls like this one at once with the gradients of the wanted arguments, else as `general`
    does; None where arguments or results are containers, or a gradient is known to be zero."""
    result = program.func.results[0]
    arrays = all(isinstance(t, ArgType) for t in types)
    if ready is None or not arrays or program.structure is not None:
        return None
    plan, bound = ready
    if len(plan.known) < len(plan.wanted) or (not result.rank and result.dtype != "f64"):
        return None
    cotangent = ArgType(result.dtype, tuple(n == 1 for n in np.shape(args[-1])))
    made = bound.fast_path(args, general, (*types, cotangent))
    return None if made is general else made


# -- accumulators ------------------------------------------------------------------------------------
# The accumulators "push" and "first": what each entry of the result contributes to a gradient, apart.


class Apart(NamedTuple):
    """A call of a function by its name, of whose gradients each contribution is wanted."""

    name: str
    program: Program
    values: Sequence[Any]
    plain: bool
    cotangent: Any
    wrapper: Wrapper | None

    def gradient(self, need: GradientRequest, order: int) -> Any:
        """What a pair gathers: all contributions, or the first one."""
        refused = "is among pairs of pairs" if order else "is a container"
        if order or (self.cotangent is not None and isinstance(need.kind, Container)):
            remedy = 'use "sum" or "total"' if order else 'use "sum"'
            raise DtypeError(f'accumulator="{need.how}": {need.path} {refused}', remedy=remedy)
        if self.cotangent is None:
            return None
        program = self.program.derived(
            ("contributions", need.first), lambda: self.contributions(need.path, need.first)
        )
        if self.wrapper is None:
            each = self.contributed(program, need.first, self.cotangent)
        else:
            separate = self.contributed(program, need.first, self.wrapper.cotangent(0, self.cotangent))
            each = [self.wrapper.gradient(need.first, c) for c in separate]
        return each if need.how == "push" else each[0] if each else None

    def contributions(self, path: str, number: int) -> Program:
        """The program of the contributions to the gradient of one input, which is called `path`."""
        func = self.program.func
        if len(func.results) != 1:
            raise ShapeError(
                f'{self.name} has {len(func.results)} results: "push" and "first" need one',
                remedy='use the accumulator "sum"',
            )
        axes = shared_axes(func.inputs[number].shape, func.results[0].shape)
        if axes is None:
            raise ShapeError(
                f'{path} is not broadcast to the result of {self.name}: "push" and "first" need one '
                "contribution for each entry of the result",
                remedy='use the accumulator "sum"',
            )
        return self.program.extended(run(SIMPLIFY, contributions(func, number, axes)))

    def contributed(self, compiled: Program, number: int, cotangent: Any) -> list[Any]:
        """The contributions to the gradient of one input, in the order of the result's axes."""
        result = compiled.func.inputs[-1]
        refuse_masked("the cotangent", cotangent)
        seed = np.asarray(as_numpy("the cotangent", cotangent))
        if seed.dtype.kind not in "biuf" or seed.ndim != result.rank:
            raise ShapeError(
                f"the cotangent is {seed.dtype} of shape {seed.shape}, but the result has rank {result.rank}",
                remedy="a cotangent must be real and have its result's shape",
            )
        seed = seed.astype(NUMPY[result.dtype])
        args = [*self.values, seed if seed.ndim else seed[()]]
        found = np.asarray(compiled.bind(args, self.plain).run()[0])
        shape = np.shape(self.values[number])
        count = int(np.prod(found.shape[: found.ndim - len(shape)]))
        each = list(found.reshape(count, *shape))
        return [float(c) for c in each] if self.plain else each


# -- gradients of gathers ----------------------------------------------------------------------------
# Gradients of gathers, added to the gradients that pairs have already, where these stand.


class Scattered(NamedTuple):
    """A program of gradients in two parts: one adds those of some results to arrays, and the rest."""

    rest: Program
    kept: list[int]
    adding: dict[int, list[Program]]

    def run(self, bound: Bound, targets: Mapping[int, np.ndarray]) -> list[Any]:
        """The results; those with a target are added to it, after all checks have passed."""
        rest = self.rest.run(bound.sizes, bound.values, bound.plain)
        found: dict[int, Any] = dict(zip(self.kept, rest, strict=True))
        for number, programs in self.adding.items():
            for program in programs:
                program.run(bound.sizes, bound.values, False, [targets[number]])
            found[number] = targets[number]
        return [found[k] for k in sorted(found)]


def scattered(program: Program, numbers: Iterable[int]) -> Scattered | None:
    """What adds those of the results `numbers` that are sums of scatters; None if none is one."""
    made = {k: programs for k in numbers if (programs := _programs(program, k))}
    if not made:
        return None
    func = program.func
    kept = [k for k in range(len(func.results)) if k not in made]
    rest = func.with_(
        results=tuple(func.results[k] for k in kept), result_names=tuple(func.result_names[k] for k in kept)
    )
    return Scattered(Program(rest, program.backend), kept, made)


def _programs(program: Program, number: int) -> list[Program]:
    """A program for each scatter that a result is the sum of."""
    func, (name, _, threads) = program.func, program.backend.partition(":")
    found = []
    for term in scatters(func.results[number]) if name in ("cpu", "cpu-precise") else ():
        one = func.with_(results=(term,), result_names=(func.result_names[number],), checks=())
        kernel = adding(one, 0, name == "cpu-precise", int(threads) if threads else None)
        if kernel is None:
            return []
        found.append(Program(one, program.backend))
        found[-1].use(kernel)
    return found


def is_like(target: np.ndarray, value: Any) -> bool:
    """Whether an array may hold the gradient of a value."""
    return isinstance(value, np.ndarray) and target.shape == value.shape and target.dtype == value.dtype


def takes(target: np.ndarray, args: Sequence[Any]) -> bool:
    """Whether a gradient can be added to an array while a kernel reads the arguments."""
    usable = target.flags.writeable and target.flags.aligned and not overlaps_itself(target)
    return usable and not any(isinstance(a, np.ndarray) and np.may_share_memory(target, a) for a in args)
