"""Where the time of a function and of its derivatives goes: kernel by kernel, nest by nest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from adcompiler.ad.programs.split import value_and_grad
from adcompiler.errors import Error
from adcompiler.interpreter.reference import extent
from adcompiler.ir.nodes import Array, Node
from adcompiler.ir.types import NUMPY, Dtype, is_float
from adcompiler.kernels.emit.traffic import Counted, Operations, Work
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.costs import WEIGHT, weight
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.pytree.kinds import Types
from adcompiler.runtime.limits import FAST_SHARE, KERNEL_SECONDS
from adcompiler.runtime.programs.program import Bound, Program
from adcompiler.runtime.programs.traceable import Traceable
from adcompiler.runtime.reports.ceilings import Ceilings, ceilings, measure_again, seconds_of
from adcompiler.runtime.reports.clock import seconds
from adcompiler.runtime.reports.explain import again, saved
from adcompiler.runtime.reports.reasons import Circumstances, circumstances, reasons
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.cpu.kernels import kernel_at
from adcompiler.targets.cpu.timed import Timed, fastest
from adcompiler.targets.threads import get_num_threads

PREFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


@dataclass
class Kernel:
    """One program with the arguments of a call; `notes` are lines about what it keeps or makes again."""

    name: str
    bound: Bound
    notes: dict[str, list[str]] = field(default_factory=dict)

    def call(self) -> Callable[[], Any]:
        """A call like the ones before it: where the user makes it, by the fast path that they leave."""
        bound = self.bound

        def general(*_: Any) -> Any:
            return bound.run()

        if not bound.types:
            return general
        fast_path = bound.fast_path(bound.values, general)
        return lambda: fast_path(*bound.values)


def cost_of(f: Any, wrt: Any, args: Sequence[Any]) -> Costs:
    """`cost` for these arguments; Error without any, where `f` takes some."""
    if not args and f._parameters:
        names = ", ".join(f._names)
        cause = f"the cost of {f.__name__} depends on its arguments"
        raise Error(cause, remedy=f"explain(None, {names}, cost=True)")
    call = f._describe(args)
    return cost(f, wrt, call.types, call.values)


def cost(f: Traceable, wrt: Any, types: Types, values: Sequence[Any]) -> Costs:
    """What each kernel of `f` and of its derivatives moves and computes for these arguments, how long it
    takes, and how long it would take if it only moved, or only computed, as fast as this machine can."""
    if not f._backend.startswith("cpu"):
        raise Error(
            f"{f.__name__} is compiled for {f._backend}: costs are computed only for CPU kernels",
            remedy='compile it with backend="cpu"',
        )
    measured = [Measured(k) for k in kernels(f, wrt, types, values)]
    first = measured[0].kernel
    sizes = dict(zip(first.bound.program.func.size_names, first.bound.sizes, strict=True))
    most = get_num_threads()
    if any(k.is_too_fast for k in measured):
        measure_again({1, most}, set().union(*(k.operations for k in measured)))
    machine = [ceilings(n) for n in sorted({1, most})]
    return Costs(f.__name__, sizes, machine, measured)


@dataclass(frozen=True)
class Costs:
    """What the kernels of a function cost for arguments of these lengths, on this machine."""

    function: str
    sizes: Mapping[str, int]
    machine: Sequence[Ceilings]
    kernels: Sequence[Measured]

    def __str__(self) -> str:
        lengths = ", ".join(f"{n} = {k:,}" for n, k in self.sizes.items())
        lines = [f"{self.function}: cost{f' for {lengths}' if lengths else ''}"]
        lines += [f"  {line}" for line in _machine(self.machine)]
        return "\n".join([*lines, *(line for kernel in self.kernels for line in kernel.report())])

    def fields(self) -> dict[str, Any]:
        """The same in numbers: seconds, bytes and operations, none of them a rate but the machine's."""
        kernels = [kernel.fields() for kernel in self.kernels]
        return {"function": self.function, "lengths": self.sizes, "machine": self.machine, "kernels": kernels}


def kernels(f: Traceable, wrt: Any, types: Types, values: Sequence[Any]) -> Iterator[Kernel]:
    """The value; for a scalar its value with the gradient; forward and the usual propagate."""
    lowered = f._trace(types)
    value = Program.of(lowered, f._backend).bind(values, types=types)
    sizes = value.sizes
    yield Kernel("value", value)
    positions, inputs = f._wanted(wrt, types)
    if not positions or not any(is_float(r.dtype) for r in lowered.func.results):
        return
    results = lowered.func.results
    if len(results) == 1 and not results[0].rank:
        joint = run(SIMPLIFY, value_and_grad(lowered.func, inputs, True))
        both = Program(joint, f._backend, lowered.constraints).bind(values, types=types)
        yield Kernel("value and grad", both, {"saves": ["nothing: one fused program"]})
    split = f.split(wrt).at(types, values=values)
    forward = split.forward.bind(values)
    kept = [s.text("here") for s in saved(split.parts.forward, split.saved_names, sizes)]
    yield Kernel("forward", forward, {"saves": kept or ["nothing"]})
    part = split.usual
    found = [*values, *forward.run()]
    seeds = zip(split.parts.forward.results, split.parts.usual, strict=True)
    cotangents = [np.ones(extent(r.shape, sizes), NUMPY[r.dtype])[()] for r, used in seeds if used]
    propagate = part.program.bind([*(found[k] for k in part.reads), *cotangents], given=sizes)
    yield Kernel("propagate", propagate, {"makes again": [", ".join(again(split, part)) or "nothing"]})


# -- the report ----------------------------------------------------------------------------------


def _machine(machine: Sequence[Ceilings]) -> Iterator[str]:
    """What the processor can do at most: one thread, and all of them."""
    one = machine[0]
    yield f"{one.processor}, measured maximum:"
    for found in machine:
        smallest, *_, largest = found.bandwidth
        memory, near = found.bandwidth[largest], found.bandwidth[smallest]
        who = f"{found.threads} thread{'s' * (found.threads > 1)}"
        yield (
            f"  {who}: {_si(memory, 'B/s')} from memory, {_si(near, 'B/s')} within {_si(smallest, 'B')}; "
            f"{_si(found.rate['f64'])} f64 and {_si(found.rate['f32'])} f32 operations/s with vectors"
        )
    yield f"  1 thread without vectors: {_si(one.rate['scalar'])} f64 operations/s"


class Measured:
    """A kernel that was timed: `nests` are what each does and how long it takes, if that is known."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        bound, sizes = kernel.bound, kernel.bound.sizes
        self.whole = fastest(kernel.call(), KERNEL_SECONDS)
        compiled = kernel_at(bound.program.executable, sizes)
        self.products = 0  # after the nests
        if isinstance(compiled, partial):
            products: Any = compiled.func  # a GemmEpilogue
            self.products, (compiled,) = len(products.last), compiled.args
        assert isinstance(compiled, CpuKernel)
        how = compiled.mode.divided, compiled.threads
        timed = Timed(compiled.made, compiled.precise, None, *how)
        most = compiled.threads or get_num_threads()
        self.threads = most if timed.in_parallel(sizes) else 1
        named = _named(timed)
        counted = Counted(timed.func, named, sizes, bound.program.lengths.values(bound.values))
        self.nests = [counted.item(item) for item in timed.items]
        self.repeated, self.rest = counted.repeated(timed.items), counted.numbers(timed.rest)
        names = {timed.kernel.arrays[a]: name for a, name in named.items()}
        self.reasons = [reasons(timed, k, names) if timed.has_clock else [] for k in range(len(timed.items))]
        found = seconds(timed, sizes, bound.values, KERNEL_SECONDS)
        alone = self.whole if len(self.nests) == 1 and not self.products else None
        self.seconds: list[float | None] = [alone] * len(self.nests) if found is None else [*found]
        nests, in_order = timed.kernel.nests, timed.kernel.sequential
        shared = [timed.kernel.scans.get(k, item) for k, item in enumerate(nests) if k not in in_order]
        self.each = [self.threads if item in shared else 1 for item in timed.items]
        again = counted.again(timed.items)
        for k, measured in enumerate(self.seconds):
            if measured:
                work, own = self.nests[k], self.each[k]
                roof = roofline(work, ceilings(own))
                known = Circumstances(work, own, most, measured, roof, again[k])
                self.reasons[k] = [*dict.fromkeys([*self.reasons[k], *circumstances(timed, k, known)])]

    @property
    def operations(self) -> set[tuple[str, Dtype]]:
        """The costly operations that it does."""
        return {key for work in self.nests for key in work.operations if weight(key[0]) == WEIGHT}

    @property
    def is_too_fast(self) -> bool:
        """Whether it is faster than what was measured of the machine lets it be."""
        roofs = (roofline(w, ceilings(n)) for w, n in zip(self.nests, self.each, strict=True))
        return any(s and s < FAST_SHARE * r for s, r in zip(self.seconds, roofs, strict=True))

    def report(self) -> Iterator[str]:
        """The time of a call, what is saved, then the nests."""
        kernel, s = self.kernel, "s" * (self.threads > 1)
        yield f"{kernel.name}: {in_words(self.whole)} per call, {self.threads} thread{s}"
        for what, lines in kernel.notes.items():
            yield from (f"  {what if k == 0 else ' ' * len(what)} {line}" for k, line in enumerate(lines))
        for k, work in enumerate(self.nests):
            yield f"  nest {k}: {', '.join(work.loops)}: computes {', '.join(work.made)}"
            yield from (f"    {line}" for line in self.nest(k))
        if self.products:
            plural = "s" * (self.products > 1)
            yield f"  then: {self.products} matrix product{plural}, not timed apart"
        if self.repeated:
            yield f"  in several loops: {', '.join(self.repeated)}"
        if self.rest.operations:
            yield f"  outside loops: {_counts(self.rest.operations)}"
        if None in self.seconds:
            yield "  nests are timed one by one only on x86"

    def nest(self, k: int) -> Iterator[str]:
        """Of one nest, what it does, how long that takes, and why; the first ten columns say what a line is
        about."""
        yield from _nest(self.nests[k], ceilings(self.each[k]), self.seconds[k])
        yield from (f"{'because' if n == 0 else '':<10}{r}" for n, r in enumerate(self.reasons[k]))

    def fields(self) -> dict[str, Any]:
        """The report as fields, in seconds, bytes and operations."""
        found = {"name": self.kernel.name, "seconds": self.whole, "threads": self.threads}
        notes = {what.replace(" ", "_"): lines for what, lines in self.kernel.notes.items()}
        each = zip(self.nests, self.each, self.seconds, self.reasons, strict=True)
        nests = [_fields(*one) for one in each]
        return {
            **found,
            **notes,
            "nests": nests,
            "products": self.products,
            "in_several_loops": self.repeated,
        }


def _fields(work: Work, threads: int, measured: float | None, why: Sequence[str]) -> dict[str, Any]:
    """What a nest does; `measured` is None where it was not timed, and 0 where it does not run. `why` are the
    reasons why it is slow."""
    moving, computing = _parts(work, ceilings(threads))
    operations = Counter[str]()
    for (op, dtype), n in work.operations.items():
        operations[f"{op} {dtype}"] += n
    return {
        "loops": work.loops, "computes": [*work.made], "reads": work.reads, "writes": work.writes,
        "in_registers": [*work.registers], "operations": operations, "exact": work.exact,
        "threads": threads, "moving": moving, "computing": computing, "measured": measured, "reasons": why,
    }  # fmt: skip


def _named(timed: Timed) -> dict[Array, str]:
    """The arrays of a kernel by their names in the source, where they have one."""
    func, labels = timed.func, timed.kernel.arrays
    known: dict[Node, str] = {
        **func.names,
        **dict(zip(func.results, func.result_names, strict=True)),
        **dict(zip(func.inputs, func.input_names, strict=True)),
    }
    found: dict[str, str] = {}
    for array, label in labels.items():
        if array in known and label not in found:
            found[label] = known[array]
    written = Counter(found.values())
    shown = {label: name if written[name] == 1 else _numbered(name, label) for label, name in found.items()}
    return {array: shown.get(label, label) for array, label in labels.items()}


def _numbered(name: str, label: str) -> str:
    """The name of one of several arrays with the same name, as in `h`, `h_2`."""
    number = re.search(r"_\d+$", label)
    return name + (number[0] if number else "")


def _parts(work: Work, ceiling: Ceilings) -> tuple[float, float]:
    """How long a nest takes at the least: to move, and to compute."""
    return ceiling.moving(work.bytes), arithmetic(work.operations, ceiling)


def roofline(work: Work, ceiling: Ceilings) -> float:
    """The least seconds that a nest can take: the longer of moving and computing."""
    return max(_parts(work, ceiling))


def _nest(work: Work, ceiling: Ceilings, measured: float | None) -> Iterator[str]:
    """What a nest does, and how near it comes to what the machine can do."""
    about = "" if work.exact else "about "
    moved = [
        f"{what} {', '.join(names)}"
        for what, names in (("reads", work.reads), ("writes", work.writes))
        if names
    ]
    yield f"moves     {about}{_si(work.bytes, 'B')}{': ' if moved else ''}{'; '.join(moved)}"
    total = sum(n * weight(op) for (op, _), n in work.operations.items())
    density = f": {_si(total / work.bytes)} per byte" if work.bytes and total else ""
    yield f"computes  {about}{_counts(work.operations)}{density}"
    if work.registers:
        yield f"fused     {', '.join(work.registers)} stay{'s' * (len(work.registers) == 1)} in registers"
    moving, computing = _parts(work, ceiling)
    roof = roofline(work, ceiling)
    waits = ", if iterations do not wait for each other" if work.in_order else ""
    parts = f"moving takes {in_words(moving)}, computing {in_words(computing)}"
    yield f"roofline  {in_words(roof)}: {parts}{waits}"
    if measured:
        yield f"measured  {in_words(measured)}, {_reached(roof, measured)}"
    elif measured is not None:
        yield "measured  not run on this machine"


def _reached(roof: float, measured: float) -> str:
    """How near a nest comes to the roofline. What is beyond it, measured twice, tells of the roofline."""
    if measured < FAST_SHARE * roof:
        return "above the roofline: the machine was busy when its rates were measured"
    return f"the roofline is {min(roof / measured, 1):.0%} of it"


def arithmetic(operations: Operations, ceiling: Ceilings) -> float:
    """The seconds of operations at the highest rates: simple ones in vectors, each costly one as timed."""
    gain = ceiling.rate["f64"] / ceilings(1).rate["f64"]
    rate = {**ceiling.rate, "i64": ceiling.rate["f64"]}
    simple = sum(n * weight(op) / rate[d] for (op, d), n in operations.items() if weight(op) < WEIGHT)
    return simple + sum(
        n * seconds_of(op, d) / gain for (op, d), n in operations.items() if weight(op) == WEIGHT
    )


def _counts(operations: Operations) -> str:
    """Operations in words: simple ones together, costly ones by name."""
    simple = sum(n * weight(op) for (op, _), n in operations.items() if weight(op) < WEIGHT)
    costly: Counter[str] = Counter()
    for (op, _), n in operations.items():
        if weight(op) == WEIGHT:
            costly[op] += n
    parts = [f"{_si(simple)} operation{'s' * (simple != 1)}", *(f"{_si(n)} {op}" for op, n in costly.items())]
    return ", ".join(parts) + (f" (as {WEIGHT} each)" if costly else "")


def _si(amount: float, unit: str = "") -> str:
    """A number with the prefix that suits it: "1.5 kB"."""
    prefix, factor = next(((p, f) for p, f in PREFIXES if amount >= 0.9995 * f), ("", 1.0))
    return f"{amount / factor:.3g} {prefix}{unit}".rstrip()


def in_words(time: float) -> str:
    """A time, in seconds, in the unit that suits it."""
    units = (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9))
    unit, factor = next((u for u in units if time * u[1] >= 0.9995), units[-1])
    return f"{time * factor:.3g} {unit}"
