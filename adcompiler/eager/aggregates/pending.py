"""Deferred operations of one thread: a trie of operations recognises graphs before they run.

Python runs. An operation on Variables whose path through the trie is known is only noted, and its result is a
`Deferred`: a Variable without a value. Access to its value, entry or version finds no such attribute, which
runs all pending operations. On a new path, operations run at once and the trie records them, with the shapes
and dtypes of their results. The keys of the trie are the guards: one look-up per operation.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from adcompiler.eager.aggregates.fusion_plan import Plan, stands_at, stays
from adcompiler.eager.graph.graph import Node, setting, state
from adcompiler.eager.graph.user_lines import UserLine, here
from adcompiler.eager.limits import FEWEST_OPERATIONS, MOST_OPERATIONS, MOST_PLANS, MOST_SITES
from adcompiler.eager.variable import linear, numpy_functions
from adcompiler.eager.variable.elementwise import INFIX, apply, where
from adcompiler.eager.variable.variable import Variable
from adcompiler.errors import Error, GraphError
from adcompiler.ops.table import ALIASES, TABLE

# -- deferred operations -----------------------------------------------------------------------------
# The operations that `adc.fuse` defers: each as an eager function, and as text in the language.
#
# The names are those under which `elementwise.py`, `linear.py` and `functions.py` offer an operation to
# the thread's pending graph; those that are not listed here are primitives of the rule table.


Shape = tuple[int, ...]
Static = Any  # what an operation knows besides its operands: hashable, a guard


class Operation(NamedTuple):
    """`eager(static, operands)` computes it at once; `text(static, words, shape)` is its expression."""

    eager: Callable[[Static, Sequence[Any]], Any]
    text: Callable[[Static, Sequence[str], Shape], str]


def operation(name: str) -> Operation:
    """The operation of a name."""
    return OPERATIONS.get(name) or _elementwise(name)


def _elementwise(name: str) -> Operation:
    """A primitive; `static` are operands that are guards, in front (orders) or behind (exponents)."""

    def eager(static: Static, operands: Sequence[Any]) -> Any:
        return apply(name, *_completed(name, static, operands))

    def text(static: Static, words: Sequence[str], shape: Shape) -> str:
        parts = _completed(name, None if static is None else repr(static), words)
        if name in INFIX:
            return f" {INFIX[name]} ".join(f"({p})" if p.startswith("-") else p for p in parts)
        return f"{name}({', '.join(parts)})"

    return Operation(eager, text)


def _completed(name: str, static: Any, operands: Sequence[Any]) -> tuple[Any, ...]:
    if static is None:
        return tuple(operands)
    return (*operands, static) if TABLE[name].orders is None else (static, *operands)


def _total(static: Static, operands: Sequence[Any]) -> Any:
    axis, keepdims, mean = static
    return linear.total(operands[0], axis, keepdims, None, mean)


def _total_text(static: Static, words: Sequence[str], shape: Shape) -> str:
    axis, keepdims, mean = static
    options = [f"axis={axis}"] * (axis is not None) + ["keepdims=True"] * keepdims
    return f"{'mean' if mean else 'sum'}({', '.join([words[0], *options])})"


def _call(static: Static, operands: Sequence[Any]) -> Any:
    return numpy_functions.call(*static, *operands)


def _call_text(static: Static, words: Sequence[str], shape: Shape) -> str:
    body: str = static[1]
    return re.sub(r"\bx(\d+)\b", lambda found: words[int(found[1])], body)


def _index_text(static: Static, words: Sequence[str], shape: Shape) -> str:
    arrays = iter(words[1:])
    return f"{words[0]}[{', '.join(_part(p, arrays) for p in static) or '()'}]"


def _part(part: Any, arrays: Any) -> str:
    if isinstance(part, tuple):
        return ":".join("" if n is None else str(n) for n in part)
    return next(arrays) if part == "array" else str(part)


def _index(static: Static, operands: Sequence[Any]) -> Any:
    arrays = iter(operands[1:])
    parts = (slice(*p) if isinstance(p, tuple) else next(arrays) if p == "array" else p for p in static)
    chosen = linear.index if len(operands) > 1 else linear.part
    return chosen(operands[0], tuple(parts))


def indexed(shape: Shape, where: Any) -> tuple[Static, tuple[np.ndarray, ...]] | None:
    """An index as a guard, and its array; None where it is none of integers in range, slices, and one array
    of integers in range between slices."""
    parts = _whole(shape, where if isinstance(where, tuple) else (where,))
    if parts is None:
        return None
    static: list[Any] = []
    arrays: list[np.ndarray] = []
    lengths = iter(shape)
    for p in parts:
        n = 0 if p is None else next(lengths)
        if p is None:
            static.append(None)
        elif isinstance(p, int | np.integer) and type(p) is not bool and -n <= p < n:
            static.append(int(p) % n)
        elif type(p) is slice and _is_plain(p):
            static.append((p.start, p.stop, p.step))
        elif isinstance(p, np.ndarray) and _within(p, n):
            arrays.append(np.where(p < 0, p + n, p).astype(np.int64))
            static.append("array")
        else:
            return None
    several = len(arrays) > 1 or (arrays and any(type(p) is int for p in static))
    return None if several else (tuple(static), tuple(arrays))


def _whole(shape: Shape, parts: tuple[Any, ...]) -> list[Any] | None:
    """The parts of an index, without an ellipsis; None for too many."""
    free = len(shape) - sum(p is not None and p is not Ellipsis for p in parts)
    if free < 0 or sum(p is Ellipsis for p in parts) > 1:
        return None
    whole: list[Any] = []
    for p in parts:
        whole += [slice(None)] * free if p is Ellipsis else [p]
    return whole


def _is_plain(p: slice) -> bool:
    return all(n is None or type(n) is int for n in (p.start, p.stop, p.step)) and p.step != 0


def _within(p: np.ndarray, n: int) -> bool:
    """Whether an array holds integers, all of them in range for an axis of length n."""
    if p.dtype.kind not in "iu" or not p.size or not p.ndim:
        return False
    return bool(-n <= int(p.min()) and int(p.max()) < n)


def _one(function: Callable[..., Any]) -> Callable[[Static, Sequence[Any]], Any]:
    return lambda static, operands: function(operands[0])


def _shaped(function: Callable[..., Any]) -> Callable[[Static, Sequence[Any]], Any]:
    return lambda static, operands: function(operands[0], static)


OPERATIONS: Mapping[str, Operation] = {
    ".total": Operation(_total, _total_text),
    ".expand": Operation(_shaped(linear.expand), lambda s, w, shape: f"{w[0]} * ones({shape})"),
    ".reshape": Operation(_shaped(linear.reshape), lambda s, w, shape: f"reshape({w[0]}, {shape})"),
    ".transpose": Operation(_one(linear.transpose), lambda s, w, shape: f"transpose({w[0]})"),
    ".clone": Operation(_one(linear.clone), lambda s, w, shape: w[0]),
    ".index": Operation(_index, _index_text),
    ".where": Operation(
        lambda s, args: where(args[2], args[0], args[1]),
        lambda s, w, shape: f"where({w[2]}, {w[0]}, {w[1]})",
    ),
    ".call": Operation(_call, _call_text),
}


EXPONENTS = (-2, -1, 1, 2, 3, 4, 0.5, -0.5)  # are guards: a power of 2 is a product
REFUSED = "refused"
FLOATS = ("d", "f")
PLAIN = {n: len(p.params) for n, p in TABLE.items() if p.differentiable and not p.orders and n != "power"}
ROUTINES = frozenset(("inv", "det", "slogdet", "solve", "cholesky", "solve_triangular"))
new, ref = object.__new__, weakref.ref


class Site:
    """An operation after those on the path to it: what it is, what it reads, and its result's type.

    Operands are numbers of results, from 0, or of inputs, from -1 down. `seen`: a graph ended here before.
    `plans` are by whether it was recorded and by the results that something referred to then: a Plan, or
    REFUSED.
    """

    __slots__ = (
        "copies", "dtype", "fresh", "next", "operands", "operation", "parent", "place", "plans", "seen",
        "shape", "static",
    )  # fmt: skip

    def __init__(self) -> None:
        self.next: dict[Any, Site] = {}
        self.plans: dict[tuple[bool, tuple[int, ...]], Any] = {}
        self.parent: Site | None = None
        self.seen = False
        self.shape: tuple[int, ...] = ()
        self.operation: Operation
        self.static: Any
        self.operands: tuple[int, ...]
        self.fresh: tuple[Any, ...]  # the types of the inputs that are first read here
        self.dtype: np.dtype
        self.place: UserLine | None = None  # the user's line that did this first
        self.copies: bool  # whether the result shares no memory with the first operand

    def path(self) -> list[Site]:
        """The operations from the first one to this."""
        found: list[Site] = []
        site: Site = self
        while site.parent is not None:
            found.append(site)
            site = site.parent
        return found[::-1]


class Trie:
    """The sites of one fused function, whose aggregates are compiled for a backend."""

    def __init__(self, backend: str) -> None:
        self.root, self.count, self.backend = Site(), 0, backend

    def begin(self) -> Site:
        """Where a graph begins; what was learned is forgotten if it is too much."""
        if self.count > MOST_SITES:
            self.root, self.count = Site(), 0
        return self.root


class Deferred(Variable):
    """A result that is not computed yet. It becomes a Variable, the same object, when that is done."""

    def __getattr__(self, name: str) -> Any:
        if name in FIELDS:
            _force(self)
            return getattr(self, name)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        _force(self)
        setattr(self, name, value)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, which is known."""
        found: tuple[int, ...] = _site(self).shape
        return found

    @property
    def dtype(self) -> np.dtype:
        return _site(self).dtype

    @property
    def ndim(self) -> int:
        return len(_site(self).shape)

    @property
    def size(self) -> int:
        size = 1
        for n in _site(self).shape:
            size *= n
        return size

    @property
    def differentiable(self) -> bool:
        return True

    @property
    def copies(self) -> bool:
        """Whether the values share no memory with those that it is computed from."""
        return _site(self).copies

    def __len__(self) -> int:
        return self.shape[0] if self.shape else len(self.data)


FIELDS = frozenset(vars(Variable.made(np.zeros(()), "")))


def _site(v: Deferred) -> Site:
    site: Site = v.__dict__["_pending"][1]
    return site


def _force(v: Deferred) -> None:
    graph: Graph = v.__dict__["_pending"][0]
    if graph.thread != get_ident():
        raise GraphError(
            "this Variable has not been computed yet by another thread",
            remedy="return it from the fused function, or read its .value there, before sharing it",
        )
    graph.flush()


class Graph:
    """What is pending in a call of a fused function."""

    def __init__(self, trie: Trie) -> None:
        self.trie, self.thread = trie, get_ident()
        self._begin()

    def _begin(self) -> None:
        self.site = self.trie.begin()
        self.refs: list[Any] = []  # to the results
        self.inputs: list[Any] = []  # Variables, arrays and numbers
        self.positions: dict[int, int] = {}  # of results and inputs that are Variables, by identity
        self.learning, self.recording, self.quiet = False, state.recording, state.quiet

    # -- operations ----------------------------------------------------------------------------

    def elementwise(self, name: str, args: tuple[Any, ...]) -> Any:
        """A primitive of the rule table; None if it is not deferred."""
        if PLAIN.get(name) == len(args):
            return self.take(name, None, args)
        name = ALIASES.get(name, name)
        entry = TABLE.get(name)
        if entry is None or not entry.differentiable or len(args) != len(entry.params):
            return None
        if entry.orders is not None:
            known = type(args[0]) is int and args[0] in entry.orders
            return self.take(name, args[0], args[1:]) if known else None
        if name == "power" and type(args[1]) in (int, float) and args[1] in EXPONENTS:
            return self.take(name, args[1], args[:1])
        return self.take(name, None, args)

    def where(self, test: np.ndarray, x: Any, y: Any) -> Any:
        """`x` where `test` holds, else `y`."""
        return self.take(".where", None, (x, y), (np.array(test, order="C"),)) if test.ndim else None

    def expand(self, x: Any, shape: tuple[int, ...]) -> Any:
        """`x` repeated along axes."""
        return self.take(".expand", shape, (x,)) if all(type(n) is int for n in shape) else None

    def reshape(self, x: Any, shape: Any) -> Any:
        """`x` in another shape."""
        known = type(shape) is tuple and all(type(n) is int for n in shape)
        known = known and (isinstance(x, Deferred) or x.data.flags.c_contiguous)  # else it is a copy
        return self.take(".reshape", shape, (x,)) if known else None

    def call(self, name: str, body: str, args: tuple[Any, ...]) -> Any:
        """An expression of the language; not of a routine, which has several results, or checks values."""
        return None if name in ROUTINES else self.take(".call", (name, body), args)

    def index(self, x: Any, where: Any) -> Any:
        """`x[where]` by integers and slices, or one array of integers; None otherwise."""
        found = indexed(x.shape, where)
        return None if found is None else self.take(".index", found[0], (x,), found[1])

    def take(
        self,
        name: str,
        static: Any,
        operands: Sequence[Any],
        arrays: tuple[np.ndarray, ...] = (),
        called: str | None = None,
    ) -> Any:
        """The result of an operation, deferred where it is known; None for other operands.

        `arrays` are further operands of any dtype, which nothing else refers to.
        """
        looked_at = state.tracing or state.anomaly is not None
        if state.recording is not self.recording or looked_at:
            self.flush()
            if looked_at:
                return None
        inputs, positions, refs = self.inputs, self.positions, self.refs
        count = len(inputs)
        key: list[Any] = [name, static]
        for a in operands:
            code: Any = positions.get(id(a))
            if code is None or (code >= 0 and refs[code]() is not a):
                if type(a) is float:
                    code = float
                    inputs.append(a)
                else:
                    code = self._input(a)
                    if code is None:
                        return self._undo(count)
            key.append(code)
        for a in arrays:
            key.append((a.dtype.char, a.shape, False))
            inputs.append(a)
        found = None if self.learning else self.site.next.get(tuple(key))
        if found is None:
            return self._learn(tuple(key), count, (*operands, *arrays), called)
        made = new(Deferred)
        made.__dict__["_pending"] = self, found
        if called is not None:
            made.__dict__["name"] = called
        positions[id(made)] = len(refs)
        refs.append(ref(made))
        self.site = found
        if len(refs) >= MOST_OPERATIONS:
            self.flush()
        return made

    def _input(self, a: Any) -> Any:
        """What a graph must know of an operand that it reads first: a part of the key; None if it cannot."""
        if isinstance(a, Node.kind):
            data = a.data  # of another graph it is computed now
            if data.dtype.char not in FLOATS:
                return None
            self.inputs.append(a)
            self.positions[id(a)] = -len(self.inputs)
            return data.dtype.char, data.shape, True
        if type(a) is int and abs(a) < 2**53:
            self.inputs.append(float(a))
            return float
        if isinstance(a, np.ndarray | np.generic) and a.dtype.char in FLOATS and _is_array(a):
            self.inputs.append(np.array(a, order="C"))
            return a.dtype.char, a.shape, False
        return None

    def _undo(self, count: int) -> Any:
        """Forget the inputs of an operation that is not deferred."""
        for a in self.inputs[count:]:
            self.positions.pop(id(a), None)
        del self.inputs[count:]
        return None

    # -- what is new ---------------------------------------------------------------------------

    def _learn(self, key: tuple[Any, ...], count: int, operands: Sequence[Any], called: str | None) -> Any:
        """Run an operation now; the next time its path is known."""
        if not any(type(c) is int or (type(c) is tuple and c[2]) for c in key[2:]):
            return self._undo(count)  # nothing here is a Variable
        if not self.learning:
            self._at_once(self._replay)
            self.learning = True
        name, static, *codes = key
        chosen, undone = operation(name), True
        fresh = tuple(c for c in codes if type(c) is not int)
        try:
            with setting(fusing=None):
                result = chosen.eager(static, operands)
            undone = not isinstance(result, Node.kind) or result.data.dtype.char not in FLOATS
        finally:
            if undone:
                self._undo(count)
        if not undone:
            if called is not None:
                result.name = called
            numbers = iter(range(-count - 1, -len(self.inputs) - 1, -1))
            site = self.site.next.get(key) or self._site(key, chosen, static, fresh)
            site.operands = tuple(c if type(c) is int else next(numbers) for c in codes)
            site.shape, site.dtype = result.data.shape, result.data.dtype
            site.copies = name == ".reshape" and not np.may_share_memory(result.data, operands[0].data)
            self.site = site
            self.positions[id(result)] = len(self.refs)
            self.refs.append(ref(result))
            if len(self.refs) >= MOST_OPERATIONS:
                self.flush()
        return result

    def _site(self, key: Any, chosen: Operation, static: Any, fresh: tuple[Any, ...]) -> Site:
        site = Site()
        site.parent, site.operation, site.static, site.fresh = self.site, chosen, static, fresh
        site.place = here()
        self.site.next[key] = site
        self.trie.count += 1
        return site

    def _replay(self) -> None:
        """Run what is pending operation by operation."""
        results: list[Any] = []
        for k, site in enumerate(self.site.path()):
            operands = [results[c] if c >= 0 else self.inputs[-1 - c] for c in site.operands]
            found, held = site.operation.eager(site.static, operands), self.refs[k]()
            if not any(found is a for a in operands):
                stands_at(found, site.place)
            results.append(found if held is None else _adopted(held, found))

    # -- running it ----------------------------------------------------------------------------

    def flush(self) -> None:
        """Run what is pending: the compiled aggregate of a graph that was seen before, else as it stands."""
        if self.refs:
            alive = tuple([k for k, r in enumerate(self.refs) if r() is not None])
            if self.learning:
                self.site.seen = True
            elif alive:
                self._at_once(lambda: self._run(alive))
        self._begin()

    def _at_once(self, run: Callable[[], Any]) -> None:
        """Run operations that are not deferred in turn, as they would have been when they were called."""
        before = state.recording, state.quiet, state.tracing, state.anomaly
        state.fusing, state.tracing, state.anomaly = None, False, None
        state.recording, state.quiet = self.recording, self.quiet
        try:
            run()
        finally:
            state.fusing = self
            state.recording, state.quiet, state.tracing, state.anomaly = before

    def _run(self, alive: tuple[int, ...]) -> None:
        if not self._planned(alive):
            self._replay()

    def _planned(self, alive: tuple[int, ...]) -> bool:
        """Run the plan for a graph that was seen before; False if there is none."""
        site, key = self.site, (self.recording, alive)
        plan = site.plans.get(key)
        if not site.seen or plan is REFUSED or len(self.refs) < FEWEST_OPERATIONS:
            site.seen = True
            return False
        if plan is None and len(site.plans) >= MOST_PLANS:
            return False
        try:
            if plan is None:
                plan = site.plans[key] = Plan(site.path(), alive, self.trie.backend)
            done: bool = plan.run(self.inputs, self.refs)
        except Error:
            done = False
        if not done:
            site.plans[key] = REFUSED
        return done


def _adopted(held: Any, found: Any) -> Any:
    """A Deferred as what was computed for it: the same object goes on."""
    kept = stays(held)
    held.__dict__.update(found.__dict__ | kept)
    if held.entry is not None:
        output = next(o for o in held.entry.outputs if o.serial == held.serial)
        output.ref, output.name = ref(held), held.name
    return held


def _is_array(a: Any) -> bool:
    return type(a) is np.ndarray or isinstance(a, np.generic)
