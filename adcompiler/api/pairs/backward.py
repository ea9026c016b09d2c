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
from adcompiler.ad.programs.duals import Coefficient, completed, on_duals
from adcompiler.ad.programs.split import pullback
from adcompiler.api.pairs.into import overlaps_itself
from adcompiler.api.pairs.pairs import DiffPair, bare, depth, inner, is_marked, nested
from adcompiler.api.pairs.seeds import cotangents, count, tangents
from adcompiler.api.pairs.styles import (
    Style,
    checked,
    coefficients,
    of_result,
    simplified,
    split_cotangent,
)
from adcompiler.eager.graph.graph import Node
from adcompiler.errors import DtypeError, GraphError, ShapeError
from adcompiler.frames import public
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.frontend.values.sizes import with_inputs
from adcompiler.interpreter.reference import extent
from adcompiler.ir.nodes import Func
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.pytree.containers import Container, Ragged, Rows, opened
from adcompiler.pytree.kinds import ArgType, Types
from adcompiler.pytree.structures import arrays_in, places_of, unflatten
from adcompiler.runtime.arguments.adapters import Wrapper, as_numpy
from adcompiler.runtime.arguments.ragged_arrays import refuse
from adcompiler.runtime.arguments.refused import refuse_masked
from adcompiler.runtime.arguments.signature import PLAIN
from adcompiler.runtime.programs.program import Program
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


class Asked(NamedTuple):
    """The request for a program of gradients: inputs with gradients, and those of which only the sum of all
    elements is wanted; results that have a cotangent; the order of dual numbers, and their parts."""

    types: Types
    wanted: tuple[int, ...]
    totals: tuple[int, ...]
    present: tuple[bool, ...]
    order: int
    taken: tuple[Coefficient, ...]


class Plan(NamedTuple):
    """A program of gradients: its inputs, and the inputs whose gradients it returns."""

    compiled: Program
    inputs: list[Coefficient]
    known: list[int]
    wanted: tuple[int, ...]
    adding: dict[tuple[int, ...], Scattered | None]  # by the results that are to be added to arrays

    @property
    def scatters(self) -> bool:
        """Whether a gradient is that of a gather."""
        return any(map(scatters, self.compiled.func.results))


class Ready(NamedTuple):
    """A plan with its arguments, and the lengths of its sizes."""

    plan: Plan
    args: list[Any]
    sizes: list[int]


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
        self.replayed: dict[tuple[int, ...], Callable[..., Any]] = {}  # by the arguments that are pairs

    @public
    def _call(self, *args: Any, **keywords: Any) -> tuple[Any, ...]:
        f = self.f
        if not keywords and (again := self._again(args)) is not None:
            return again
        bound, cotangent = split_cotangent(f.__name__, f.parameters, args, keywords)
        if keywords or not PLAIN.issuperset(map(type, args)):
            return self._gathered(bound, cotangent)
        types, values, plain, _ = self.described(bound)
        wanted = dict.fromkeys(self._every(types), "sum")
        ready = self._ready(types, values, wanted, {}, 0, cotangent)
        found = self._run(ready, plain, 0)
        self.__call__ = self._inline(ready, types, args, plain, self._call) or self._call
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
        types, values, plain, wrapper = self.described(bound)
        names = [p.name for p in self.f.parameters]
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
        ready = self._ready(types, values, wanted, given, order, cotangent, wrapper)
        separate = order or wrapper is not None
        found = _wrapped(
            wrapper, self._run(ready, plain, order, {} if separate else _targets(asking, values))
        )
        if not asking:
            return self._everything(types, found)
        if order == 0 and all(type(a) in PLAIN or (type(a) is DiffPair and a.is_plain) for a in bound):
            args = [*(a.p if type(a) is DiffPair else a for a in bound), cotangent]
            inline = self._inline(ready, types, args, plain, _missed)
            if inline is not None and ready is not None and not ready.plan.scatters:
                self.replayed[tuple(k for k, a in enumerate(bound) if type(a) is DiffPair)] = inline
        gradients = {
            n.path: self._gradient(n, found, types, values, plain, order, cotangent, wrapper) for n in asking
        }
        for need in [n for n in asking if not n.has(gradients[n.path])]:
            need.gather(gradients[need.path])
        return tuple(answer(*each, gradients) for each in zip(names, types, bound, strict=True))

    def _every(self, types: Types) -> tuple[int, ...]:
        """The inputs that have gradients where nobody says which."""
        return self.f.inputs_of(self.f.positions(None, types), types)

    def _everything(self, types: Types, found: Found) -> tuple[Any, ...]:
        """All gradients found, one entry an argument."""
        return tuple(
            nested_like(kind, first, found) if floats_of(kind, first) else None
            for kind, first in zip(types, firsts(types), strict=True)
        )

    # -- programs ------------------------------------------------------------------------------

    def _lowered(self, types: Types) -> Lowered:
        if types not in self.made:
            self.made.setdefault(types, self.f.trace(types))
        found: Lowered = self.made[types]
        return found

    def _ready(
        self,
        types: Types,
        values: Sequence[Any],
        wanted: Mapping[int, str],
        given: Mapping[Coefficient, Any],
        order: int,
        cotangent: Any,
        wrapper: Wrapper | None = None,
    ) -> Ready | None:
        """The program of the gradients that are added up, with its arguments; None if all are zero."""
        lowered = self._lowered(types)
        results, names = lowered.func.results, lowered.func.result_names
        seeds = cotangents(lowered.structure, results, names, cotangent, order, wrapper)
        number = {k: len(values) + p for p, k in enumerate(sorted({k for k, _ in seeds}))}
        summed = tuple(n for n, how in wanted.items() if how not in UNREDUCED)
        totals = tuple(n for n in summed if wanted[n] == "total")
        everything = {**given, **{(number[k], parts): seed for (k, parts), seed in seeds.items()}}
        present = tuple(k in number for k in range(len(results)))
        plan = self._plan(Asked(types, summed, totals, present, order, tuple(completed(everything))))
        if not plan.known:
            return None
        args = coefficients(plan.inputs, values, everything)
        try:
            return Ready(plan, args, plan.compiled.sizes(args))
        except ShapeError:
            self._refuse_shapes(types, values, seeds)
            raise

    def _plan(self, asked: Asked) -> Plan:
        if asked not in self.made:
            lowered = self._lowered(asked.types)
            func, known = pullback(lowered.func, asked.wanted, asked.present, asked.totals)
            func, inputs = on_duals(simplified(func), asked.order, set(asked.taken), simplified)
            constraints = with_inputs(lowered.constraints, lowered.func, func)
            made = Lowered(func, constraints, (None,) * len(func.results))
            compiled = Program.of(made, self.f.backend)
            plan = Plan(
                compiled, inputs, [n for n, k in zip(asked.wanted, known, strict=True) if k], asked.wanted, {}
            )
            self.made.setdefault(asked, plan)
        found: Plan = self.made[asked]
        return found

    def _refuse_shapes(self, types: Types, values: Sequence[Any], seeds: Mapping[Coefficient, Any]) -> None:
        """Raise the error of arguments that do not fit each other, or of a cotangent that does not fit."""
        lowered = self._lowered(types)
        of_values = Program.of(lowered, self.f.backend)
        sizes = of_values.sizes(values)
        for (k, _), seed in seeds.items():
            shape = extent(lowered.func.results[k].shape, sizes, of_values.lengths.values(values))
            if np.shape(seed) != shape:
                raise ShapeError(
                    f"the cotangent of {lowered.func.result_names[k]} has shape {np.shape(seed)}, but the "
                    f"result {shape}",
                    remedy="a cotangent must have its result's shape",
                )

    def _run(
        self, ready: Ready | None, plain: bool, order: int, targets: Mapping[int, np.ndarray] | None = None
    ) -> Found:
        """The gradients that are not zero, by input: a dict of their dual parts each. Those of gathers are
        added to their `targets`, which stand in their place."""
        if ready is None:
            return {}
        plan, args, sizes = ready
        known = ((n, a) for n, a in (targets or {}).items() if n in plan.known)
        given = {plan.known.index(n): a for n, a in known if takes(a, args)}
        key = tuple(given)
        if key and key not in plan.adding:
            plan.adding.setdefault(key, scattered(plan.compiled.func, key, self.f.backend))
        separate = plan.adding[key] if key else None
        if separate is not None:
            flat = separate.run(args, sizes, plain, given)
        else:
            flat = plan.compiled.run(sizes, args, plain)
        count = len(plan.known)
        return {n: {p: flat[p * count + k] for p in range(1 << order)} for k, n in enumerate(plan.known)}

    def _inline(
        self, ready: Ready | None, types: Types, args: Sequence[Any], plain: bool, general: Callable[..., Any]
    ) -> Callable[..., Any] | None:
        """What answers calls like this one at once with the gradients of the wanted arguments, else as
        `general` does; None where arguments or results are containers, or a gradient is known to be zero."""
        lowered = self._lowered(types)
        result = lowered.func.results[0]
        arrays = all(isinstance(t, ArgType) for t in types)
        if ready is None or not arrays or lowered.structure is not None:
            return None
        if len(ready.plan.known) < len(ready.plan.wanted) or (not result.rank and result.dtype != "f64"):
            return None
        cotangent = ArgType(result.dtype, tuple(n == 1 for n in np.shape(args[-1])))
        made = ready.plan.compiled.fast_path(ready.sizes, (*types, cotangent), args, plain, general)
        return None if made is general else made

    # -- contributions that are not added up ---------------------------------------------------

    def _gradient(
        self,
        need: GradientRequest,
        found: Found,
        types: Types,
        values: Sequence[Any],
        plain: bool,
        order: int,
        cotangent: Any,
        wrapper: Wrapper | None,
    ) -> Any:
        """What a pair or Variable gathers."""
        if need.how not in UNREDUCED:
            return nested_like(need.kind, need.first, found, is_dual(need.holder) * order, need.items)
        if order:
            raise DtypeError(
                f'accumulator="{need.how}": {need.path} is among pairs of pairs',
                remedy='use "sum" or "total"',
            )
        if cotangent is None:
            return None
        if wrapper is None:
            each = self._contributions(need, types, values, plain, cotangent)
        else:
            separate = self._contributions(need, types, values, plain, wrapper.cotangent(0, cotangent))
            each = [wrapper.gradient(need.first, c) for c in separate]
        return each if need.how == "push" else each[0] if each else None

    def _contributions(
        self, need: GradientRequest, types: Types, values: Sequence[Any], plain: bool, cotangent: Any
    ) -> list[Any]:
        """The contributions of the result's entries to the gradient of a pair."""
        if isinstance(need.kind, Container):
            raise DtypeError(f'accumulator="{need.how}": {need.path} is a container', remedy='use "sum"')
        key = types, need.first, UNREDUCED
        if key not in self.made:
            self.made.setdefault(key, program(self.f, self._lowered(types), need.path, need.first))
        return contributed(self.made[key], need.first, values, plain, cotangent)


# -- accumulators ------------------------------------------------------------------------------------
# The accumulators "push" and "first": what each entry of the result contributes to a gradient, apart.


def program(f: Traceable, lowered: Lowered, path: str, number: int) -> Program:
    """The program of the contributions to the gradient of one input of `f`, which is called `path`."""
    func = lowered.func
    if len(func.results) != 1:
        raise ShapeError(
            f'{f.__name__} has {len(func.results)} results: "push" and "first" need one',
            remedy='use the accumulator "sum"',
        )
    axes = shared_axes(func.inputs[number].shape, func.results[0].shape)
    if axes is None:
        raise ShapeError(
            f'{path} is not broadcast to the result of {f.__name__}: "push" and "first" need one '
            "contribution for each entry of the result",
            remedy='use the accumulator "sum"',
        )
    made = run(SIMPLIFY, contributions(func, number, axes))
    return Program.of(Lowered(made, with_inputs(lowered.constraints, func, made), None), f.backend)


def contributed(
    compiled: Program, number: int, values: Sequence[Any], plain: bool, cotangent: Any
) -> list[Any]:
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
    found = np.asarray(compiled.bind([*values, seed if seed.ndim else seed[()]], plain).run()[0])
    shape = np.shape(values[number])
    count = int(np.prod(found.shape[: found.ndim - len(shape)]))
    each = list(found.reshape(count, *shape))
    return [float(c) for c in each] if plain else each


# -- gradients of gathers ----------------------------------------------------------------------------
# Gradients of gathers, added to the gradients that pairs have already, where these stand.


class Scattered(NamedTuple):
    """A program of gradients in two parts: one adds those of some results to arrays, and the rest."""

    rest: Program
    kept: list[int]
    adding: dict[int, list[Program]]

    def run(
        self, args: Sequence[Any], sizes: Sequence[int], plain: bool, targets: Mapping[int, np.ndarray]
    ) -> list[Any]:
        """The results; those with a target are added to it, after all checks have passed."""
        found: dict[int, Any] = dict(zip(self.kept, self.rest.run(sizes, args, plain), strict=True))
        for number, programs in self.adding.items():
            for program in programs:
                program.run(sizes, args, False, [targets[number]])
            found[number] = targets[number]
        return [found[k] for k in sorted(found)]


def scattered(func: Func, numbers: Iterable[int], backend: str) -> Scattered | None:
    """What adds those of the results `numbers` that are sums of scatters; None if none is one."""
    made = {k: programs for k in numbers if (programs := _programs(func, k, backend))}
    if not made:
        return None
    kept = [k for k in range(len(func.results)) if k not in made]
    rest = func.with_(
        results=tuple(func.results[k] for k in kept), result_names=tuple(func.result_names[k] for k in kept)
    )
    return Scattered(Program(rest, backend), kept, made)


def _programs(func: Func, number: int, backend: str) -> list[Program]:
    """A program for each scatter that a result is the sum of."""
    name, _, threads = backend.partition(":")
    found = []
    for term in scatters(func.results[number]) if name in ("cpu", "cpu-precise") else ():
        one = func.with_(results=(term,), result_names=(func.result_names[number],), checks=())
        kernel = adding(one, 0, name == "cpu-precise", int(threads) if threads else None)
        if kernel is None:
            return []
        found.append(Program(one, backend))
        found[-1].use(kernel)
    return found


def is_like(target: np.ndarray, value: Any) -> bool:
    """Whether an array may hold the gradient of a value."""
    return isinstance(value, np.ndarray) and target.shape == value.shape and target.dtype == value.dtype


def takes(target: np.ndarray, args: Sequence[Any]) -> bool:
    """Whether a gradient can be added to an array while a kernel reads the arguments."""
    usable = target.flags.writeable and target.flags.aligned and not overlaps_itself(target)
    return usable and not any(isinstance(a, np.ndarray) and np.may_share_memory(target, a) for a in args)
