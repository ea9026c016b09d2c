"""Peak rates of this machine, measured with our own kernels and stored in the cache folder.

Rates measured while other processes use the processor are too low. If a kernel is faster than they allow,
everything is measured again, and the better figures are kept.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import log
from pathlib import Path

import numpy as np

from adcompiler import store
from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import Apply, Array, Element, Func, Index, Input, Map, Read, Size, const
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.ir.walk import arrays_read
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply
from adcompiler.ops.rules.primitive import Interval
from adcompiler.ops.table import TABLE
from adcompiler.runtime.limits import CEILING_SECONDS, PARALLEL_CHAINS, POLYNOMIAL_DEGREE
from adcompiler.runtime.reports.clock import seconds
from adcompiler.targets.cpu.timed import Timed, fastest

FOOTPRINTS = tuple(2**k for k in range(16, 30, 2))  # bytes: from what a core's cache holds to what none does
MEASURED_BY = "clock.ticks_a_second"  # figures that were found in another way are not used
SIZE = Size(0)
Rates = dict[str, float]  # how much a second, by what


@dataclass(frozen=True)
class Ceilings:
    """What `threads` threads can do: bytes a second by footprint, operations a second on float32 and float64,
    and on float64 outside vectors ("scalar"), which is that of one thread."""

    processor: str
    threads: int
    bandwidth: Mapping[int, float]
    rate: Mapping[str, float]

    def moving(self, amount: float) -> float:
        """The seconds that moving so many bytes takes, if a loop moves these again and again."""
        points, found = zip(*self.bandwidth.items(), strict=True)
        return amount / float(np.interp(log(max(amount, 1)), np.log(points), found))


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


@cache
def ceilings(threads: int) -> Ceilings:
    """What one thread can do, or so many as numba uses."""
    found = _kept(f"ceilings of {threads} threads", lambda: _measured(threads))
    bandwidth = {n: found[f"{n}"] for n in FOOTPRINTS}
    return Ceilings(processor(), threads, bandwidth, {k: found[k] for k in ("f32", "f64", "scalar")})


@cache
def seconds_of(op: str, dtype: Dtype) -> float:
    """The time of one costly operation on one thread, in a loop over what the cache holds."""
    return 1 / _kept(f"{op} {dtype}", lambda: _operation(op, dtype))[op]


def measure_again(threads: Iterable[int], operations: Iterable[tuple[str, Dtype]]) -> None:
    """Measure again what is known of these numbers of threads, and of these costly operations."""
    for count in threads:
        _kept(f"ceilings of {count} threads", lambda n=count: _measured(n), again=True)  # type: ignore[misc]
        ceilings.cache_clear()
    for op, dtype in operations:
        _kept(f"{op} {dtype}", lambda o=op, d=dtype: _operation(o, d), again=True)  # type: ignore[misc]
    seconds_of.cache_clear()


def _kept(what: str, measure: Callable[[], Rates], again: bool = False) -> Rates:
    """Rates of this machine, made once; measured `again`, they only become better."""
    machine = f"{processor()}, {platform.node()}"
    key = f"{what}, {machine}, {FOOTPRINTS}, {POLYNOMIAL_DEGREE}, {PARALLEL_CHAINS}, {MEASURED_BY}"
    found: Rates = json.loads(store.kept(key, ".json", lambda: json.dumps(measure()).encode()))
    if again:
        found = {name: max(rate, found[name]) for name, rate in measure().items()}
        store.keep(key, ".json", json.dumps(found).encode())
    return found


def _measured(threads: int) -> Rates:
    """All of it; several threads do no less than one, even where others use the processor meanwhile."""
    triad = apply("add", _x(0, "f64"), apply("multiply", const(3.0, "f64"), _x(1, "f64")))
    many = threads > 1
    found: Rates = {f"{n}": n / _seconds(_map(triad), n // 24, threaded=many) for n in FOOTPRINTS}
    found |= {dtype: _arithmetic(dtype, threads) for dtype in ("f32", "f64")} | {"scalar": _scalar()}
    if many:
        one = ceilings(1)
        least = {f"{n}": rate for n, rate in one.bandwidth.items()} | dict(one.rate)
        found = {name: max(rate, least[name]) for name, rate in found.items()}
    return found


def _arithmetic(dtype: Dtype, threads: int) -> float:
    """Multiplications and additions a second, in vectors: a polynomial of numbers that the cache holds."""
    found: Element = const(0.5, dtype)
    for _ in range(POLYNOMIAL_DEGREE):
        found = apply("add", apply("multiply", found, _x(0, dtype)), const(0.5, dtype))
    n = 2**14 * threads
    return 2 * POLYNOMIAL_DEGREE * n / _seconds(_map(found), n, threaded=threads > 1)


def _scalar() -> float:
    """Multiplications and additions a second, one at a time: some recurrences side by side."""
    inits = tuple(Map((), const(float(k), "f64")) for k in range(PARALLEL_CHAINS))
    slots = (Read(Slot(1 + k, "f64", ()), ()) for k in range(PARALLEL_CHAINS))
    steps = (apply("add", apply("multiply", s, const(0.7, "f64")), const(0.1, "f64")) for s in slots)
    loop = Loop(SIZE, inits, (), (), tuple(Map((), s) for s in steps), (), None, False)
    names = tuple(f"s{k}" for k in range(PARALLEL_CHAINS))
    n = 2**13
    return (
        2
        * PARALLEL_CHAINS
        * n
        / _seconds(((), tuple(Item(loop, k) for k in range(PARALLEL_CHAINS)), names), n)
    )


def _operation(op: str, dtype: Dtype) -> Rates:
    """How many a second of a primitive, on numbers from its domain."""
    entry, n = TABLE[op], 1024
    ordered = entry.orders is not None
    args = [_x(k, dtype) for k in range(len(entry.params) - ordered)]
    order = [const(entry.orders[-1], dtype)] if entry.orders is not None else []
    ranges = [intervals[-1] for intervals in entry.domain[-len(args) :]]
    return {op: n / _seconds(_map(Apply(op, (*order, *args), dtype)), n, ranges)}


Program = tuple[tuple[Input, ...], tuple[Array, ...], tuple[str, ...]]  # inputs, results and their names


def _x(k: int, dtype: Dtype) -> Read:
    """The element of the current iteration, of the input number `k`."""
    return Read(Input(k, dtype, (SIZE,)), (Index(0),))


def _map(body: Element) -> Program:
    """One loop that stores an element an iteration."""
    result = Map((SIZE,), body)
    inputs = sorted((a for a in arrays_read(result) if isinstance(a, Input)), key=lambda i: i.position)
    return tuple(inputs), (result,), ("r",)


def _seconds(program: Program, n: int, ranges: Sequence[Interval] = (), threaded: bool = False) -> float:
    """The fastest time of a loop of `n` iterations, on numbers from these ranges."""
    inputs, results, names = program
    of = tuple(f"x{i.position}" for i in inputs)
    timed = Timed(scheduled(Func("ceiling", inputs, of, results, names, ("n",))), threaded=threaded)
    given = ranges or [(0.1, 0.9)] * len(inputs)
    args = [np.linspace(*r, n).astype(NUMPY[i.dtype]) for i, r in zip(inputs, given, strict=True)]
    found = seconds(timed, [n], args, CEILING_SECONDS)
    return found[0] if found is not None else fastest(lambda: timed.launch([n], args), CEILING_SECONDS)
