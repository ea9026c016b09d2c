"""`adc bench`: how long a program and its derivatives take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

from adcompiler.api.function import Function
from adcompiler.api.transforms import value_and_grad
from adcompiler.cli.arguments import Arguments, collect
from adcompiler.cli.output import AsJson
from adcompiler.cli.samples import Sizes, lengths, sampler
from adcompiler.cli.source import Backends, Source, function_of
from adcompiler.cli.types import Types, note, typed, untyped
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.structures import flatten, unflatten
from adcompiler.runtime.reports.cost import in_words

EXAMPLES = """\b
Examples:
  adc bench "sum(exp(-x**2) * y)" --types "f64[n], f64" --size 100000
  adc bench model.adc:loss --size 100000 --size d=3
  adc bench model.adc:loss --arg @data.csv --arg b1=250 --arg b2=5e-4 --seconds 1
"""


def bench_source(
    source: Source,
    arg: Arguments = None,
    size: Sizes = None,
    types: Types = None,
    backend: Backends = None,
    seconds: Annotated[
        float, typer.Option(min=0.0, help="How long to repeat each program (at least five times).")
    ] = 0.3,
    as_json: AsJson = False,
) -> Timings:  # fmt: skip
    """Time SOURCE and its derivatives.

    Times the value, the value with its gradient, and the separate forward and propagate. Parameters without
    an argument get random numbers between 0.5 and 1.5 with the annotated shape (scalars without an
    annotation). Named axes have length 1000 unless --size says otherwise. Prints for each program the time
    of the first call, which compiles or loads it, and the median and minimum of the later calls.
    """
    f = typed(function_of(source, backend), types)
    sample, sampled = sampler(f, {"": 1000} | lengths(size)), set[int]()

    def sample_of(k: int) -> Any:
        sampled.add(k)
        return sample(k)

    args = tuple(collect(f, arg, sample_of).values())
    given = frozenset(p.name for k, p in enumerate(f._parameters) if k not in sampled)
    note(untyped(f, given), "here")
    rows = (Timing.of(name, call, seconds) for name, call in _programs(f, args))
    return Timings(f.__name__, rows)


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of calls of a program in seconds: the first one, and the later ones."""

    name: str
    first_call: float
    median: float
    fastest: float
    calls: int

    @classmethod
    def of(cls, name: str, call: Callable[[], Any], seconds: float) -> Timing:
        """The timing of calls that take so many seconds together."""
        first, times = _timed(call, seconds)
        return cls(name, first, median(times), min(times), len(times))


class Timings:
    """A row for each program, which is timed when its row is printed."""

    def __init__(self, function: str, rows: Iterable[Timing]) -> None:
        self.function, self.rows = function, rows

    def print(self) -> None:
        """Print a table."""
        print(f"{'':<16}{'first call':>12}{'median':>12}{'fastest':>12}{'calls':>9}")
        for row in self.rows:
            times = "".join(f"{in_words(t):>12}" for t in (row.first_call, row.median, row.fastest))
            print(f"{row.name:<16}{times}{row.calls:>9}")

    def fields(self) -> dict[str, Any]:
        """The fields for JSON."""
        return {"function": self.function, "programs": [*self.rows]}


def _programs(f: Function, args: tuple[Any, ...]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is timed; a function that cannot be differentiated has its value only."""
    yield "value", lambda: f(*args)
    types = f._describe(args).types
    if not f._positions(None, types):
        return
    joint = value_and_grad(f)
    try:
        joint._trace(types)
        yield "value and grad", lambda: joint(*args)
    except (ShapeError, DtypeError):  # no scalar
        pass
    split = f.split()
    results, saved = split.forward(*args)
    structure = split.at(types).structure
    ones = tuple(np.ones_like(r, dtype=np.asarray(r).dtype) for r in flatten(structure, results))
    cotangents = unflatten(structure, ones)
    yield "forward", lambda: split.forward(*args)
    yield "propagate", lambda: split.propagate(saved, cotangents)


def _timed(call: Callable[[], Any], seconds: float) -> tuple[float, list[float]]:
    """The time of the first call, and of the calls after it."""
    first = _once(call)
    times: list[float] = []
    while len(times) < 5 or sum(times) < seconds:
        times.append(_once(call))
    return first, times


def _once(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start
