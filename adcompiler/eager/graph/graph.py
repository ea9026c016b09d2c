"""The graph behind Variables: what was computed from what, and the walk back along it.

A Variable holds the entry that computed it, and an entry holds its inputs but not its outputs: a
graph dies, at once and without the garbage collector, with the last Variable that was computed by
it. If a backward pass needs an output (as for tanh), the entry makes a Variable that represents the
same one: both share a serial number, and cotangents are stored by serial number.

A Variable that is changed in place gets a new serial number and entry. An entry therefore remembers those of
its inputs (`edges`), and reading the value after a change is an error.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias
from weakref import ref

import numpy as np

from adcompiler.eager.graph.hooks import Hooks
from adcompiler.eager.graph.provenance import Origin, begin, bit, serials
from adcompiler.eager.graph.user_lines import UserLine, by, here, warn
from adcompiler.errors import DtypeError, GraphError, ShapeError

Variable: TypeAlias = Any  # the class is defined with its operators, above this file
Cotangents = list["Variable | None"]
_live: weakref.WeakValueDictionary[int, Entry] = weakref.WeakValueDictionary()
_new = tuple.__new__  # half the time of a NamedTuple's own
_names: dict[str, int] = {}  # how many names were made from each stem


class Pass(NamedTuple):
    """A backward pass that has left gradients in leaves."""

    number: int  # a serial number: what has a smaller one was there before
    output: ref[Any]


class State(threading.local):
    """What holds while this thread computes."""

    recording = True  # whether results remember how they were computed
    quiet: UserLine | None = None  # the user's line that turned recording off
    tracing = False  # whether operations print a line each
    anomaly: Any = None  # what looks for NaN, where the caller wants that (`anomaly.py`)
    inside: Any = None  # the recorded operation whose user-written propagate is running
    fusing: Any = None  # the pending operations of a fused function (`eager/aggregates/pending.py`)
    last: Pass | None = None  # the last backward(), for the message of a `.grad` that it did not fill


state = State()


@contextmanager
def setting(**values: Any) -> Iterator[None]:
    """Set some of the thread's state for a while."""
    before = {key: getattr(state, key) for key in values}
    try:
        for key, value in values.items():
            setattr(state, key, value)
        yield
    finally:
        for key, value in before.items():
            setattr(state, key, value)


def settle() -> None:
    """Run what a fused function has deferred: something is changed or looked at that it may have read."""
    if state.fusing is not None:
        state.fusing.flush()


class Node:
    """The base of Variable, by which this file and its neighbours know one; `kind` is Variable itself, which
    is defined above this file and says so there."""

    kind: ClassVar[Any]
    _view: Any = None  # how it is read from another Variable, if it is a view (`views.py`)
    _views: Any = None  # weak references to the views of it
    origin: Origin | None = None  # how a Variable without an entry came to be, where that is known


def is_variable(value: object) -> bool:
    """Whether a value is a Variable, whose class is defined above this file."""
    return isinstance(value, Node)


def fresh_name(stem: str | None = None) -> str:
    """v0, v1, v2, ...; for a stem t: t, t1, t2, ..."""
    number = _names.get(stem or "", 0)
    _names[stem or ""] = number + 1
    if stem is None:
        return f"v{number}"
    return f"{stem}{'_' * stem[-1].isdigit()}{number}" if number else stem


class Output:
    """What an entry knows of one of its results; `data` only where a backward pass reads it."""

    __slots__ = ("data", "hooks", "name", "ref", "requires_grad", "serial", "version")

    def __init__(self, variable: Variable) -> None:
        self.serial, self.name, self.ref = variable.serial, variable.name, weakref.ref(variable)
        self.requires_grad, self.version = variable.needs_grad, variable.version
        self.data: np.ndarray | None = None
        self.hooks: Hooks | None = None


class Edge(NamedTuple):
    """Where an input came from when it was read: it may have been changed in place since."""

    serial: int
    entry: Entry | None
    requires_grad: bool
    origin: Origin | None  # of a leaf, for messages


LOST = {"freed": "(freed)", "reset": "(dropped)"}


class Stub(NamedTuple):
    """The rest of an input whose value is no longer needed."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]


class Entry:
    """One operation: the Variables it read, and how cotangents of its outputs reach them."""

    __slots__ = (
        "__weakref__", "edges", "inputs", "number", "outputs", "place", "roots", "state", "versions", "zeros"
    )  # fmt: skip
    zeros: list[int]  # the inputs that the last walk found to have no cotangent, if there were any
    given: Sequence[Any] = ()  # the operands that are not Variables, by their identities
    holds = True  # whether `propagate` reads values, of inputs or outputs, which a backward pass gives back

    def __init__(self, inputs: Iterable[Variable]) -> None:
        self.inputs: tuple[Any, ...] = tuple(inputs)  # Variables, or a Stub where the value is not needed
        edges, roots = [], 0
        for v in self.inputs:
            entry, origin = v.entry, v.origin
            edges.append(_new(Edge, (v.serial, entry, v.needs_grad, origin)))
            roots |= (origin.roots if origin else bit(v.serial)) if entry is None else entry.roots
        self.edges, self.roots = tuple(edges), roots
        self.versions = tuple([v.version for v in self.inputs])
        self.outputs: list[Output] = []
        self.number, self.state = next(serials), "live"
        if state.inside is not None and state.recording:
            state.inside.watch(self.inputs)
        self.place: UserLine | None = None  # the user's line that made it

    def propagate(self, cotangents: Cotangents, wanted: Sequence[bool]) -> Cotangents:
        """Cotangents of the inputs from those of the outputs; None means zero.

        Those that are not `wanted` lead nowhere: they may be None as well.
        """
        raise NotImplementedError

    def right(self) -> str:
        """The right side of the line that shows this operation."""
        return f"recorded({', '.join(v.name for v in self.inputs)})"

    def line(self) -> str:
        """The operation as one line."""
        right = self.right() if self.state == "live" else LOST[self.state]
        return f"{', '.join(o.name for o in self.outputs)} = {right}"

    def keep(self, k: int, data: np.ndarray) -> None:
        """Keep the value of output `k` for the backward pass."""
        self.outputs[k].data = data

    def input(self, k: int) -> Variable:
        """Input `k`, whose value the backward pass reads. Raises GraphError if it was changed since."""
        v = self.inputs[k]
        if v.version != self.versions[k]:
            raise self._changed(v, "had read it")
        return v

    def output(self, k: int, checked: bool = True) -> Variable:
        """The Variable that is output `k`, made again from the kept value if nothing refers to it.

        Raises GraphError if it was changed since, unless that is not to be `checked`.
        """
        found = self.outputs[k]
        alive = found.ref()
        if alive is None or (alive.version != found.version and not checked):
            assert found.data is not None
            alive = Node.kind.made(found.data, found.name)
            alive.serial, alive.entry, alive.needs_grad = found.serial, self, found.requires_grad
            alive.version = found.version
            if found.ref() is None:
                found.ref = weakref.ref(alive)
        elif alive.version != found.version:
            raise self._changed(alive, "computed it; its derivative needs the result")
        return alive

    def _changed(self, v: Variable, why: str) -> GraphError:
        places = [("changed", v.place), ("needed", self.place)]
        return GraphError(
            f"{v.name} was given another value after `{self.line()}` {why}"
            + "".join(f"\n  {what} by {place}" for what, place in places if place is not None),
            remedy="take gradients before the change, compute the result again after it, or change a clone()",
        )

    def clear(self) -> None:
        """Release what only `propagate` needs."""

    def lighten(self, stubs: Sequence[Variable | Stub]) -> None:
        """Hold these in place of the inputs, whose values `propagate` does not read."""
        self.inputs = tuple(stubs)

    def free(self, why: str) -> None:
        """Release the values; the shape of the graph stays for messages."""
        if self.state != "live":
            return
        if why == "freed" and not self.holds:  # as in PyTorch it can be walked again
            pairs = zip(self.inputs, self.edges, strict=True)
            self.lighten([v if e.entry is None else Stub(v.name, v.dtype, v.shape) for v, e in pairs])
            return
        self.inputs, self.state = (), why
        self.edges = self.edges if why == "freed" else ()
        for output in self.outputs:
            output.data = None
        self.clear()

    def check(self) -> None:
        """Raise GraphError if this entry cannot be walked any more."""
        if self.state == "freed":
            raise GraphError(
                f"the graph behind {self.outputs[0].name}{by(self.place)} was freed by an earlier backward()",
                remedy="pass retain_graph=True to that backward() or grad(), or compute it again; if it is "
                "a constant here, use detach()",
            )


class Recorded(Entry):
    """An operation whose propagate a user wrote."""

    __slots__ = ("pull",)

    def __init__(self, inputs: Iterable[Variable], pull: Callable[[Cotangents], Sequence[Any]]) -> None:
        super().__init__(inputs)
        self.pull: Callable[[Cotangents], Sequence[Any]] | None = pull

    def clear(self) -> None:
        self.pull = None

    def propagate(self, cotangents: Cotangents, wanted: Sequence[bool]) -> Cotangents:
        assert self.pull is not None
        for k in range(len(self.inputs)):  # any of them may be read
            self.input(k)
        with setting(inside=self):
            found = self.pull(cotangents)
        what = f"the propagate of `{self.line()}`"
        if not isinstance(found, list | tuple) or len(found) != len(self.inputs):
            count = f"{len(found)} values" if isinstance(found, list | tuple) else f"a {type(found).__name__}"
            raise GraphError(
                f"{what} returned {count} for {len(self.inputs)} inputs",
                remedy="return a list with a Variable or None for each input",
            )
        for v, g in zip(self.inputs, found, strict=True):
            _check_returned(what, v, g)
        return list(found)

    def watch(self, read: Iterable[Variable]) -> None:
        """Warn of an unrecorded path through values computed between the inputs and the record."""
        known = {o.serial for o in self.outputs}
        newest = max((e.serial for e in self.edges), default=0)
        for v in read:
            if v.entry is None and newest < v.serial < self.number and v.serial not in known:
                warn("route", partial(self._unrecorded, v))

    def _unrecorded(self, v: Variable) -> str:
        return (
            f"the propagate of `{self.line()}`{by(self.place)} reads {v.name}, which is not one of its "
            f"inputs or outputs: if {v.name} was computed from the inputs, derivatives of higher "
            f"order miss the path through it. Record {v.name} as an output, and add its cotangent; "
            "create a true constant before the inputs, or use a number"
        )


def _check_returned(what: str, v: Variable, g: Any) -> None:
    if g is not None and not is_variable(g):
        raise DtypeError(
            f"{what} returned a {type(g).__name__} for {v.name}: it cannot be differentiated again",
            remedy="return Variables computed from Variables, or None for zero",
        )
    if g is not None and g.shape != v.shape:
        raise ShapeError(
            f"{what} returned shape {g.shape} for {v.name}, which has shape {v.shape}",
            remedy="a cotangent must have its input's shape: sum() over broadcast axes, expand() a scalar",
        )


# -- making Variables --------------------------------------------------------------------------


def perform(entry: Entry, values: Sequence[Any], names: Sequence[str | None] | None = None) -> list[Variable]:
    """Variables for the results of an operation; they hold it, while recording is on."""
    made = [
        Node.kind.made(np.asarray(v), n) for v, n in zip(values, names or [None] * len(values), strict=True)
    ]
    attach(entry, made)
    if state.anomaly is not None:
        state.anomaly.made(entry, made)
    if state.tracing:
        print(entry.line())
    return made


def attach(entry: Entry, made: Sequence[Variable]) -> None:
    """Make Variables the outputs of `entry`; integers carry no derivative and so hold nothing."""
    if not state.recording:
        entry.outputs = [Output(v) for v in made]
        if state.quiet is not None:
            for v in made:
                begin(v, "no_grad", entry.inputs)
        return
    needs = True in [e.requires_grad for e in entry.edges]
    for v in made:
        if v.data.dtype.kind == "f":
            v.entry, v.needs_grad = entry, needs
        else:
            begin(v, "integer", entry.inputs)
        entry.outputs.append(Output(v))
    entry.place = here()
    _live[entry.number] = entry
    for v in entry.inputs:
        v.used = True


# -- the walk back -----------------------------------------------------------------------------


def reachable(outputs: Iterable[Variable]) -> list[Entry]:
    """The entries behind some Variables, oldest first: an order in which inputs precede their uses."""
    found: dict[int, Entry] = {}
    work = [v.entry for v in outputs]
    while work:
        entry = work.pop()
        if entry is not None and entry.state != "reset" and entry.number not in found:
            found[entry.number] = entry
            work += [e.entry for e in entry.edges]
    return [found[number] for number in sorted(found)]


class Walked(NamedTuple):
    """What a walk found: cotangents by serial number, and the entries whose propagate was run."""

    cotangents: dict[int, Variable]
    run: list[Entry]


def walk(
    entries: Sequence[Entry],
    seeds: Mapping[int, Variable],
    targets: Mapping[int, Variable],
    create_graph: bool,
) -> Walked:
    """The cotangents of everything on the paths from `seeds` to `targets`, both by serial number.

    Every use of a Variable contributes, and the contributions are added (the chain rule). An entry
    none of whose outputs has a cotangent is skipped: None is zero, known in constant time.
    """
    useful = set(targets)
    for entry in entries:
        if any(e.serial in useful for e in entry.edges):
            useful.update(o.serial for o in entry.outputs)
    walked = Walked(dict(seeds), [])
    with setting(recording=create_graph, inside=None, fusing=None):
        for entry in reversed(entries):
            _step(entry, walked, useful)
        for serial, v in targets.items():
            if v is not None and v.hooks and v.entry is None and serial in walked.cotangents:
                walked.cotangents[serial] = v.hooks(v.name, walked.cotangents[serial])
    return walked


def _step(entry: Entry, walked: Walked, useful: set[int]) -> None:
    """From the cotangents of an entry's outputs, which are complete, to those of its inputs."""
    found = walked.cotangents
    for output in entry.outputs:
        if output.hooks and output.serial in found:
            found[output.serial] = output.hooks(output.name, found[output.serial])
    wanted = [e.serial in useful for e in entry.edges]
    given = [found.get(o.serial) for o in entry.outputs]
    if not any(wanted) or all(g is None for g in given):
        return
    entry.check()
    walked.run.append(entry)
    pull = entry.propagate if state.anomaly is None else state.anomaly.propagate(entry)
    cotangents = pull(given, wanted)
    for v, edge, want, g in zip(entry.inputs, entry.edges, wanted, cotangents, strict=True):
        if want and g is not None:
            g = g.astype(v.dtype)
            found[edge.serial] = found[edge.serial] + g if edge.serial in found else g
        elif want:
            entry.zeros = [k for k, w in enumerate(wanted) if w and cotangents[k] is None]  # for messages


def live() -> list[Entry]:
    """The entries that some Variable still holds, oldest first."""
    settle()
    held = [entry for held in _live.valuerefs() if (entry := held()) is not None]  # others may record now
    return sorted(held, key=lambda entry: entry.number)


def forget() -> None:
    """Drop every entry, and restart the numbering of names."""
    for entry in live():
        entry.free("reset")
    _live.clear()
    _names.clear()


def refuse_packed(what: str, value: Any) -> None:
    """Raise GraphError for a list that holds a Variable, however deep."""
    if type(value) is not list and type(value) is not tuple:
        return
    for part in value:
        if is_variable(part):
            raise GraphError(
                f"{what} is a list with the Variable {part.name}: as an array it would lose its graph",
                remedy="use np.stack([x, y]) or np.concatenate([x, y]) to join Variables",
            )
        refuse_packed(what, part)
