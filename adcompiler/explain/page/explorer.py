"""What the page of a function holds: its programs at every stage, with the places that they come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from importlib.util import find_spec
from itertools import product
from typing import Any

from adcompiler.ad.programs.split import Pattern
from adcompiler.errors import DtypeError, Source
from adcompiler.explain.limits import MOST_LISTED, MOST_PATTERNS
from adcompiler.explain.page.device import DeviceKernels
from adcompiler.explain.page.kernels import Kernel
from adcompiler.explain.page.places import Line, Places
from adcompiler.explain.page.programs import listing
from adcompiler.explain.page.values import Fate, Values
from adcompiler.ir.nodes import Func
from adcompiler.ir.origins import Origins, tracking
from adcompiler.ir.textform.printer import show
from adcompiler.ir.types import is_float
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.kinds import Types
from adcompiler.runtime.programs.program import Derivative
from adcompiler.runtime.programs.splitting import SplitFunction, SplitProgram
from adcompiler.runtime.programs.traceable import Traceable
from adcompiler.runtime.reports.cost import Costs, cost
from adcompiler.runtime.reports.explain import Flow, explanation


@dataclass(frozen=True)
class Tab:
    """One of the listings of a column."""

    title: str
    lines: Sequence[Line]
    omitted: int = 0  # lines beyond the most that are shown
    first: int = 1  # the number of the first line
    begin: int = 1  # the line to show first


@dataclass(frozen=True)
class Column:
    """A stage: its listings, or why there are none."""

    key: str
    title: str
    note: str
    tabs: Sequence[Tab] = ()
    missing: str = ""


@dataclass(frozen=True)
class Page:
    """Everything that the page of a function shows."""

    name: str
    signature: str
    source: Source
    places: Places
    columns: Sequence[Column]
    gradients: Sequence[Flow] = ()
    fates: Sequence[Fate] = ()
    again: str = ""
    costs: Costs | None = None


@dataclass
class Programs:
    """The programs of a function by their titles: the value, forward, and propagate for patterns of None."""

    value: Func
    table: Origins
    split: SplitProgram | None = None
    propagates: dict[str, Derivative] = field(default_factory=dict)
    tables: dict[str, Origins] = field(
        default_factory=dict
    )  # of propagate, whose inputs have other positions

    @property
    def all(self) -> dict[str, Func]:
        """All of them, in order."""
        found = {"value": self.value}
        if self.split is not None:
            found["forward"] = self.split.parts.forward
        return found | {title: part.func for title, part in self.propagates.items()}

    def table_of(self, title: str) -> Origins:
        """Where the nodes of one of them come from."""
        return self.tables.get(title, self.table)


def explore(
    f: Traceable,
    types: Types,
    wrt: Any = None,
    values: Sequence[Any] | None = None,
    assembles: bool = True,
) -> Page:
    """The page of a function for arguments of these types. With `values`, those of a call, it has the costs;
    with `assembles`, the assembly, for which LLVM compiles each program."""
    programs = _programs(f, types, wrt)
    source = programs.value.source or _without_source(f)
    is_cuda = f._backend.startswith("cuda")
    kernels = {
        title: Kernel(func, programs.table_of(title), f._backend)
        for title, func in programs.all.items()
        if not is_cuda
    }
    places = Places(source, programs.table, programs.value)
    last = _cuda_columns(programs, places) if is_cuda else _kernel_columns(kernels, places, assembles)
    columns = [*_programs_columns(programs, places), *last]
    if not is_cuda and assembles and find_spec("numba_cuda") is not None:
        columns.append(_cuda_column(programs, places, "cuda"))
    title, part = next(iter(programs.propagates.items()), ("", None))
    part_places = places.by(programs.table_of(title))
    found = Values(programs.value, kernels.get("value"), places, programs.split, part, part_places)
    return Page(
        f.__name__,
        _signature(programs.value),
        source,
        places,
        [_source_column(f, places), *columns],
        () if programs.split is None else explanation(f, wrt, types).gradients,
        list(found.fates()),
        found.also_again(),
        None if values is None else cost(f, wrt, types, values),
    )


def _without_source(f: Traceable) -> Source:
    return Source(f"# {f.__name__}: made by the compiler, without source\n")


def _signature(func: Func) -> str:
    """The parameters and results with their types."""
    head = show(func).partition("\n")[0]
    return head[head.index("(") :].removesuffix(" {").replace("%", "")


# -- programs ------------------------------------------------------------------------------------------


def _programs(f: Traceable, types: Types, wrt: Any) -> Programs:
    """The programs, made anew so that the origins of their nodes are known."""
    with tracking() as table:
        value = f._trace(types).func
        if not _is_differentiable(f, value, types, wrt):
            return Programs(value, table)
        again = SplitFunction(f, wrt, f._save)
        again.lengths = f.split(wrt).lengths
        split = again.at(types)
    parts = split.parts
    found = Programs(value, table, split)
    for present in patterns(parts.usual):
        with tracking(table.fork()) as own:
            part = split.propagate(present, parts.all_asked)
        if part.func.results:
            title = _title(parts.forward, parts.usual, present)
            found.propagates[title], found.tables[title] = part, own
    return found


def _is_differentiable(f: Traceable, value: Func, types: Types, wrt: Any) -> bool:
    """Whether there are gradients. Error for parameters that are asked for and have none."""
    try:
        positions = f._positions(wrt, types)
    except DtypeError:
        if wrt is not None:
            raise
        return False
    return bool(positions) and any(is_float(r.dtype) for r in value.results)


def patterns(usual: Pattern) -> Iterator[Pattern]:
    """The patterns of the cotangents that are not None, those of all results first; none for temporaries."""
    free = [k for k, here in enumerate(usual) if here]
    for number, chosen in enumerate(product((True, False), repeat=len(free))):
        if number == MOST_PATTERNS or not any(chosen):
            return
        given = dict(zip(free, chosen, strict=True))
        yield tuple(given.get(k, False) for k in range(len(usual)))


def _title(forward: Func, usual: Pattern, present: Pattern) -> str:
    """The cotangents that are given and those that are None: `dr0, dr1 = None`."""
    parts = []
    for name, wanted, here in zip(forward.result_names, usual, present, strict=True):
        if wanted:
            parts.append(f"d{name}" if here else f"d{name} = None")
    return ", ".join(parts)


# -- columns -------------------------------------------------------------------------------------------


def _source_column(f: Traceable, places: Places) -> Column:
    name, first = places.source.name, places.source.first_line
    begin = first if f._closure is None else f._closure.definition.span.line + first - 1
    tab = replace(_tab("source", places.listing()), first=first, begin=begin)
    return Column("source", "Source", "" if name.startswith("<") else name, [tab])


def _programs_columns(programs: Programs, places: Places) -> Iterator[Column]:
    yield Column("ir", "IR", "The program, before passes", [_tab("value", listing(programs.value, places))])
    if programs.split is None:
        why = "There is no gradient: no result and parameter are both floats."
        yield Column("forward", "Forward", "", missing=why)
        yield Column("propagate", "Propagate", "", missing=why)
        return
    forward = listing(programs.split.parts.forward, places)
    yield Column(
        "forward", "Forward", "The results, and what is saved for propagate", [_tab("forward", forward)]
    )
    tabs = [
        _tab(title, listing(part.func, places.by(programs.table_of(title))))
        for title, part in programs.propagates.items()
    ]
    yield Column(
        "propagate", "Propagate", "Gradients, for each pattern of None", tabs,
        "" if tabs else "No gradient is different from zero.",
    )  # fmt: skip


def _kernel_columns(kernels: dict[str, Kernel], places: Places, assembles: bool) -> Iterator[Column]:
    tabs = [_tab(title, kernel.lines(places)) for title, kernel in kernels.items()]
    yield Column("kernel", "Kernel", "Loops, for any lengths", tabs)
    if not assembles:
        return
    note = "Machine code for this processor, any lengths"
    listings = {title: kernel.assembly(places) for title, kernel in kernels.items()}
    tabs = [_tab(title, lines) for title, lines in listings.items() if lines is not None]
    yield Column(
        "assembly", "Assembly", note, tabs, "" if tabs else "The backend compiles the kernel in another way."
    )


def _cuda_columns(programs: Programs, places: Places) -> Iterator[Column]:
    yield _cuda_column(programs, places, "kernel")
    yield Column("assembly", "Assembly", "", missing='f.show("ptx") has the code of CUDA kernels.')


def _cuda_column(programs: Programs, places: Places, key: str) -> Column:
    """The kernels for CUDA of all programs."""
    kernels = {title: DeviceKernels(func, programs.table_of(title)) for title, func in programs.all.items()}
    tabs = [_tab(title, kernel.lines(places)) for title, kernel in kernels.items()]
    return Column(key, "CUDA", "Kernels of a device, for any lengths", tabs)


def _tab(title: str, lines: Sequence[Line]) -> Tab:
    return Tab(title, lines[:MOST_LISTED], max(0, len(lines) - MOST_LISTED))
