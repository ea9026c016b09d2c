"""`adc.tape.leaks`: containers, attributes, closures and names that keep graphs alive.

A graph lives as long as any Variable computed by it. Python's garbage collector knows what refers to these.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from types import CellType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from adcompiler.eager.graph.graph import Entry, Variable, is_variable, live, reachable
from adcompiler.eager.graph.user_lines import OURS, locals_of
from adcompiler.explain.limits import DEEPEST_HOLDER, MOST_HOLDERS
from adcompiler.frames import public

ITEM = "keep .item() or .detach() of them, which hold no graph"
UNSEEN = "held where Python's collector cannot look, such as arrays of objects and running expressions"
REMEDIES = {
    "container": ITEM,
    "attribute": ITEM,
    "closure": f"{ITEM}; or pass them as arguments",
    "gradient": "a gradient computed with create_graph=True and its leaf hold each other: use adc.tape.grad, "
    "or set .grad = None after use",
    "global": f"`del` it, or {ITEM}",
    "name": "let it end with its function, or `del` it",
}


class Holder(NamedTuple):
    """Something that holds Variables, and the graphs that live by it."""

    kind: str  # a key of REMEDIES
    what: str
    variables: int
    operations: int
    bytes: int
    places: tuple[str, ...]  # the lines that made the Variables, the most frequent first

    def __str__(self) -> str:
        several = f"{self.variables} Variables" if self.variables > 1 else "a Variable"
        lines = [f"  {self.what} holds {several}: {_count(self.operations)}, {_size(self.bytes)} of arrays"]
        lines += [f"    made by {place}" for place in self.places]
        return "\n".join([*lines, f"    help: {REMEDIES[self.kind]}"])


class Leaks(str):
    """A text, with `holders`: those who hold the most operations first."""

    holders: tuple[Holder, ...] = ()

    def __repr__(self) -> str:
        return str(self)


@public
def leaks() -> Leaks:
    """Report what keeps graphs alive: each holder of computed Variables (a list, a dict, an attribute, a
    closure, a name), the number of operations and bytes it keeps alive, the lines that made them, and what to
    keep instead.

    Print it, or use its `holders`. Variables of running functions come last, because they end anyway.
    """
    gc.collect()  # what only cycles hold is not a leak
    entries = live()
    outputs = [o.ref() for e in entries for o in e.outputs]
    computed = [v for v in outputs if v is not None and v.entry is not None]
    outputs.clear()
    held = Finder(entries).found(computed)
    holders = [_holder(kind, what, list(found.values())) for (kind, what), found in held.items()]
    holders.sort(key=lambda h: (h.kind == "name", -h.operations))
    title = f"{_count(len(entries))} recorded and held, with {_size(_bytes(entries))} of arrays"
    more = [f"  and {len(holders) - MOST_HOLDERS} more"] if len(holders) > MOST_HOLDERS else []
    listed = {e.number for e in reachable([v for found in held.values() for v in found.values()])}
    if unseen := sum(e.number not in listed for e in entries):
        more.append(f"  {_count(unseen)}: {UNSEEN}")
    made = Leaks(
        "\n".join([title, *map(str, holders[:MOST_HOLDERS]), *more]) if entries else "no graph is held"
    )
    made.holders = tuple(holders)
    return made


def _holder(kind: str, what: str, variables: Sequence[Variable]) -> Holder:
    entries = reachable(variables)
    places = Counter(str(v.entry.place) for v in variables if v.entry is not None)
    listed = [p if n == 1 else f"{p} ({n} times)" for p, n in places.most_common(3)]
    return Holder(kind, what, len(variables), len(entries), _bytes(entries), tuple(listed))


def _bytes(entries: Sequence[Entry]) -> int:
    """The memory of the arrays behind operations, each counted once."""
    arrays: dict[int, int] = {}
    for entry in entries:
        values = [v.data for v in entry.inputs if is_variable(v)]
        values += [o.data for o in entry.outputs if o.data is not None]
        values += [a for a in getattr(entry, "operands", ()) if isinstance(a, np.ndarray)]
        values += [a for a in (getattr(entry, "saved", None) or {}).values() if isinstance(a, np.ndarray)]
        for value in values:
            owner = value if value.base is None else value.base
            arrays[id(owner)] = getattr(owner, "nbytes", value.nbytes)
    return sum(arrays.values())


# -- who refers to them ------------------------------------------------------------------------

Held = dict[tuple[str, str], dict[int, Variable]]


class Finder:
    """What holds objects, by Python's collector of cycles; what this search itself makes is not shown."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.kept: list[Any] = []
        self.names = {id(value): what for what, value in _running()}
        self.inside = {
            id(getattr(e, name, None)) for e in entries for name in ("inputs", "operands", "edges")
        }
        for e in entries:
            pull = getattr(e, "pull", None)
            self.inside |= {id(cell) for cell in getattr(pull, "__closure__", None) or ()}

    def above(self, held: list[Any]) -> list[Any]:
        """What refers to objects, except for the graph and ourselves."""
        found = gc.get_referrers(*held) if held else []
        self.inside |= {id(found), id(held)}
        found[:] = [one for one in found if id(one) not in self.inside and not _is_ours(one)]
        self.kept.append(found)  # so that no other object gets its id
        self.inside.add(id(self.kept))
        return found

    def found(self, computed: list[Variable]) -> Held:
        """The Variables that something besides the graph refers to, by holder."""
        wanted = {id(v): v for v in computed}
        held: Held = {}
        self.inside |= {id(wanted), id(computed), id(held)}
        for key in wanted.keys() & self.names.keys():
            held.setdefault(("name", self.names[key]), {})[key] = wanted[key]
        for holder in self.above(computed):
            self.inside |= set(map(id, held.values()))
            for part in gc.get_referents(holder):
                if id(part) in wanted and id(holder) not in self.inside:
                    held.setdefault(self.described(holder, part), {})[id(part)] = part
        return held

    def described(self, holder: Any, part: Any) -> tuple[str, str]:
        """What kind of holder it is, and how a user calls it."""
        match holder:
            case CellType():
                return "closure", self.closure(holder)
            case FrameType() | GeneratorType():
                return "name", f"a variable of the suspended {_code(holder)}()"
            case dict():
                owner = self.owner(holder)
                if owner is not None:
                    return self.named(owner, _key(holder, part))
                return "container", f"the dict{self.place(holder)}, at {_key(holder, part)!r},"
            case list() | tuple() | set() | frozenset() | deque():
                return "container", f"the {type(holder).__name__}{self.place(holder)}"
        return self.named(holder, _key(getattr(holder, "__dict__", {}), part))

    def named(self, owner: Any, name: str) -> tuple[str, str]:
        """A name of a module, an attribute of an object, the gradient of a Variable."""
        if is_variable(owner):
            return "gradient", f".grad of {owner.name}"
        if isinstance(owner, ModuleType):
            return "global", f"{name} of the module {owner.__name__}"
        return "attribute", f"the attribute {name} of a {type(owner).__qualname__}"

    def owner(self, names: dict[Any, Any]) -> Any:
        """The module or object whose names a dict holds."""
        module = sys.modules.get(str(names.get("__name__")))
        if module is not None and vars(module) is names:
            return module
        for one in self.above([names]):  # no generator: it would hold `names` in a closure
            if getattr(one, "__dict__", None) is names:
                return one
        return None

    def place(self, container: Any, depth: int = 0) -> str:
        """Where a container is: its name, or what holds it."""
        if id(container) in self.names:
            return f", {self.names[id(container)]}"
        for one in self.above([container]) if depth < DEEPEST_HOLDER else ():
            if isinstance(one, CellType):
                return f", in {self.closure(one)}"
            if isinstance(one, dict) and self.owner(one) is None:
                return f" at {_key(one, container)!r} of the dict{self.place(one, depth + 1)}"
            if isinstance(one, list | tuple | deque):
                return f" in the {type(one).__name__}{self.place(one, depth + 1)}"
            owner = self.owner(one) if isinstance(one, dict) else one
            names = one if isinstance(one, dict) else getattr(one, "__dict__", {})
            if not isinstance(one, FrameType | FunctionType):
                return f", {self.named(owner, _key(names, container))[1]},"
        return ""

    def closure(self, cell: CellType) -> str:
        """The name of a function that closes over a cell, and its variable's."""
        for cells in self.above([cell]):
            for function in self.above([cells]) if isinstance(cells, tuple) else ():
                if isinstance(function, FunctionType) and function.__closure__ is cells is not None:
                    name = function.__code__.co_freevars[cells.index(cell)]
                    return f"{name} in the closure of {function.__qualname__}()"
        return "a closure"


def _key(names: dict[Any, Any], part: Any) -> str:
    return next((str(k) for k, v in list(names.items()) if v is part), "?")


def _code(holder: FrameType | GeneratorType[Any, Any, Any]) -> str:
    return (holder.f_code if isinstance(holder, FrameType) else holder.gi_code).co_name


def _running() -> Iterator[tuple[str, Any]]:
    """The variables of the functions that run, in any thread, and how to call them."""
    for frame in sys._current_frames().values():
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(OURS) and code.co_name != "<module>":
                for name, value in locals_of(frame).items():
                    yield f"{name} in {code.co_name}(), which is running,", value
            frame = frame.f_back  # type: ignore[assignment]


def _is_ours(referrer: Any) -> bool:
    """Whether a referrer is a part of the graph, or a frame or iterator of ours."""
    if isinstance(referrer, Entry) or type(referrer).__name__.endswith("_iterator"):
        return True
    return isinstance(referrer, FrameType) and referrer.f_code.co_filename.startswith(OURS)


def _count(operations: int) -> str:
    return f"{operations:,} operation{'s' * (operations != 1)}"


def _size(count: int) -> str:
    return (
        f"{count} bytes"
        if count < 10_000
        else f"{count / 1e3:,.0f} kB"
        if count < 1e7
        else f"{count / 1e6:,.0f} MB"
    )
