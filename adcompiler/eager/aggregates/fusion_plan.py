"""A graph of deferred operations as compiled aggregates.

No output of an aggregate may be computed from another one, because a gradient with respect to a result that
is still referenced flows through it. Therefore operations have levels, which rise after such a result, and
each level is one program. Values of a lower level that a higher one reads are outputs too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adcompiler import provided
from adcompiler.eager.aggregates.aggregate import Aggregate, prepared
from adcompiler.eager.aggregates.kernel_values import kernel_value
from adcompiler.eager.graph.graph import Entry, Node, attach, is_variable, state
from adcompiler.eager.graph.provenance import begin, identities
from adcompiler.eager.graph.user_lines import UserLine
from adcompiler.lazy import Memo
from adcompiler.pytree.kinds import ArgType
from adcompiler.runtime.arguments.signature import DTYPE_OF, FLOAT
from adcompiler.runtime.programs.splitting import SplitProgram

_programs: Memo[tuple[str, str], Any] = Memo()


def _compiled(text: str, backend: str) -> Any:
    make = lambda: provided.compile(text, backend=backend, save="auto", unchecked=True)  # noqa: E731
    return _programs.made((text, backend), make)  # unchecked: indices were looked at before


class Level(NamedTuple):
    """One program: operands by number (results from 0, inputs from -1 down), and the results it gives."""

    text: str
    operands: tuple[int, ...]
    outputs: tuple[int, ...]
    places: tuple[UserLine | None, ...]  # the user's line of each operation, and so of each line of the text
    reads: tuple[frozenset[int], ...]  # for each output, the numbers of operands that it is computed from


class Plan:
    """The aggregates of one graph, compiled when they are first run."""

    def __init__(self, path: Sequence[Any], alive: Sequence[int], backend: str) -> None:
        self.backend = backend
        self.types: dict[int, Any] = {-1 - k: t for k, t in enumerate(t for s in path for t in s.fresh)}
        self.places = [s.place for s in path]
        self.types |= {k: (s.dtype.char, s.shape, True) for k, s in enumerate(path)}
        self.levels = levels(path, alive, state.recording)
        self.runs: list[Run] = []

    def run(self, inputs: Sequence[Any], refs: Sequence[Any]) -> bool:
        """Compute what is held, and make it Variables; False if a program gives other types than it did."""
        known: dict[int, Any] = {-1 - k: v for k, v in enumerate(inputs)}
        for k, level in enumerate(self.levels):
            if k == len(self.runs):
                self.runs.append(Run(self, level, known))
            run = self.runs[k]
            values = [_value(known[c]) for c in level.operands]
            entry = run.entry([known[c] for c in level.operands], values)
            found = [np.asarray(v) for v in run.kernel(*values)]
            if not run.checked and not run.fits(found):
                return False
            for number, made in zip(level.outputs, run.made(entry, found, refs), strict=False):
                known[number] = made
                if entry is None and state.quiet is not None:
                    begin(made, "no_grad", [known[c] for c in level.operands if is_variable(known[c])])
                    stands_at(made, self.places[number])
        return True


class Run:
    """A level compiled for values of fixed lengths, recorded or not."""

    def __init__(self, plan: Plan, level: Level, known: dict[int, Any]) -> None:
        self.level, self.checked = level, False
        self.expected = [plan.types[k] for k in level.outputs]
        function = _compiled(level.text, plan.backend)
        types = tuple([_arg_type(plan.types[c]) for c in level.operands])
        values = [_value(known[c]) for c in level.operands]
        self.wanted = tuple([k for k, c in enumerate(level.operands) if is_variable(known[c])])
        self.program, _, self.lengths, self.kernel = prepared(function, types, values, self.wanted)
        wanted = [level.operands[k] for k in self.wanted]
        self.sources = [[k for k, c in enumerate(wanted) if c in reads] for reads in level.reads]

    def entry(self, args: Sequence[Any], values: Sequence[Any]) -> Entry | None:
        """What is recorded of a run."""
        return (
            None
            if self.program is None
            else Fused(self.level.places, self.program, args, values, self.lengths)
        )

    def fits(self, found: Sequence[np.ndarray]) -> bool:
        """Whether results have the types that the operations gave one by one."""
        pairs = zip(found, self.expected, strict=False)
        self.checked = all((v.dtype.char, v.shape) == (char, shape) for v, (char, shape, _) in pairs)
        return self.checked

    def made(self, entry: Entry | None, found: Sequence[np.ndarray], refs: Sequence[Any]) -> list[Any]:
        """Results as Variables: those that something refers to are these objects themselves."""
        outputs = self.level.outputs
        made = [_become(refs[k](), v) for k, v in zip(outputs, found, strict=False)]
        if entry is None or self.program is None:
            return made
        made += [Node.kind.made(v, "t") for v in found[len(outputs) :]]
        attach(entry, made)
        entry.place = self.level.places[-1] or entry.place
        for k in self.program.reads:
            place = k - len(self.level.operands)
            if place >= 0:
                entry.keep(place, found[place])
        if not all(e.requires_grad for e in entry.edges):
            self._tell_apart(entry, made)
        return made

    def _tell_apart(self, entry: Entry, made: Sequence[Any]) -> None:
        """A result requires a gradient if one of the inputs does that it is computed from."""
        for v, output, sources in zip(made, entry.outputs, self.sources, strict=False):
            v.needs_grad = output.requires_grad = any(entry.edges[k].requires_grad for k in sources)


class Fused(Aggregate):
    """Operations that were run as one program."""

    __slots__ = ("arrays", "places")

    def __init__(
        self,
        places: Sequence[UserLine | None],
        program: SplitProgram,
        args: Sequence[Any],
        values: Sequence[Any],
        sizes: Sequence[int],
    ) -> None:
        self.places = places
        Entry.__init__(self, [args[k] for k in program.parts.wanted])
        self.name, self.program, self.sizes = "fused", program, tuple(sizes)
        self.given = identities(args) if len(self.inputs) < len(args) else ()
        self.saved = {k: values[k] for k in program.constants}  # numbers, and arrays that nobody else has
        self.arrays = [v.data for v in self.inputs]

    def clear(self) -> None:
        super().clear()
        self.arrays = []

    def input(self, k: int) -> Any:
        """Input `k` as it was read: where the operations one by one need no value, this may need it."""
        v, edge = self.inputs[k], self.edges[k]
        if v.version == self.versions[k]:
            return v
        return _standing(self.arrays[k], v.name, edge.serial, edge.entry, edge.requires_grad)

    def output(self, k: int, checked: bool = True) -> Any:
        """Output `k` as it was computed."""
        return super().output(k, checked and self.outputs[k].data is None)

    def right(self) -> str:
        return f"fused({', '.join([v.name for v in self.inputs])})"


def _standing(data: np.ndarray, name: str, serial: int, entry: Any, requires_grad: bool) -> Any:
    """A Variable that stands for one which was changed since."""
    made = Node.kind.made(data, name)
    made.serial, made.entry, made.needs_grad = serial, entry, requires_grad
    return made


def _become(held: Any, data: np.ndarray) -> Any:
    """A Variable for a result; the Deferred that stands for it, if something refers to one."""
    if held is None:
        return Node.kind.made(data, "t")
    kept = stays(held)
    held._begin(data, kept.get("name"))
    held.__dict__.update(kept)
    return held


def stays(held: Any) -> dict[str, Any]:
    """Make a Variable of a Deferred, and give what it knew already: a name, and of what it is a view."""
    fields = held.__dict__
    kept = {k: fields[k] for k in ("name", "_view", "_views") if k in fields}
    fields.clear()
    object.__setattr__(held, "__class__", Node.kind)
    return kept


def stands_at(made: Any, place: UserLine | None) -> None:
    """Say by which line of the user's a result was computed: that line ran when it was deferred."""
    if place is not None and made.entry is not None:
        made.entry.place = place
    elif place is not None and made.origin is not None:
        made.origin = made.origin._replace(place=place)


def _value(a: Any) -> Any:
    """An operand as kernels take it."""
    if type(a) is np.ndarray and not a.ndim:
        return a.item() if a.dtype.char == "d" else a[()]
    return kernel_value(a)


def _arg_type(known: Any) -> ArgType:
    if known is float:
        return FLOAT
    char, shape, _ = known
    return ArgType(DTYPE_OF[char], tuple([n == 1 for n in shape]))


# -- levels ------------------------------------------------------------------------------------


def levels(path: Sequence[Any], alive: Sequence[int], recorded: bool) -> list[Level]:
    """The programs of a graph of which these results are held, in the order in which they are run.

    Recorded results that share no operation are of two programs: a backward pass frees one and not the other.
    """
    needed = _needed(path, alive)
    heights = _heights(path, needed, frozenset(alive))
    parts: list[list[int]] = [[] for _ in range(max(heights.values()) + 1)]
    for k in needed:
        parts[heights[k]].append(k)
    outside = {k: {heights[u] for u in needed if k in path[u].operands} - {heights[k]} for k in needed}
    if recorded:
        parts = [group for part in parts for group in _separated(path, part)]
    return [_level(path, part, [k for k in part if k in alive or outside[k]]) for part in parts if part]


def _separated(path: Sequence[Any], part: Sequence[int]) -> list[list[int]]:
    """The operations of a level that are connected."""
    group = {k: [k] for k in part}
    for k in part:
        for c in path[k].operands:
            if c in group and group[c] is not group[k]:
                group[c] += group[k]
                for other in group[k]:
                    group[other] = group[c]
    return [sorted(g) for g in {id(g): g for g in group.values()}.values()]


def _needed(path: Sequence[Any], alive: Sequence[int]) -> list[int]:
    """The operations that held results are computed by."""
    found = set(alive)
    for k in range(len(path) - 1, -1, -1):
        if k in found:
            found.update(c for c in path[k].operands if c >= 0)
    return sorted(found)


def _heights(path: Sequence[Any], needed: Sequence[int], alive: frozenset[int]) -> dict[int, int]:
    """The level of each operation: above the held results that it reads, and otherwise where it is read."""
    heights: dict[int, int] = {}
    for k in needed:
        heights[k] = max((heights[c] + (c in alive) for c in path[k].operands if c >= 0), default=0)
    for k in reversed(needed):
        if k not in alive:
            heights[k] = min(heights[u] for u in needed if k in path[u].operands)
    return heights


def _level(path: Sequence[Any], part: Sequence[int], outputs: Sequence[int]) -> Level:
    """The program of some operations, whose other operands are its parameters."""
    words: dict[int, str] = {}
    lines: list[str] = []
    sources: dict[int, frozenset[int]] = {}
    for number, k in enumerate(part):
        site = path[k]
        for c in site.operands:
            if c not in words:
                words[c], sources[c] = f"x{sum(w[0] == 'x' for w in words.values())}", frozenset([c])
        text = site.operation.text(site.static, [words[c] for c in site.operands], site.shape)
        lines.append(f"    t{number} = {text}")
        words[k] = f"t{number}"
        sources[k] = frozenset().union(*(sources[c] for c in site.operands))
    operands = tuple([c for c, w in words.items() if w[0] == "x"])
    head = f"def fused({', '.join(words[c] for c in operands)}):"
    last = f"    return {', '.join(words[k] for k in outputs)}"
    reads = tuple([sources[k] for k in outputs])
    places = tuple([path[k].place for k in part])
    return Level("\n".join([head, *lines, last]), operands, tuple(outputs), places, reads)
