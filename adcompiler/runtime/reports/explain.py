"""`f.explain`: why gradients flow or are None, and what is saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from math import prod
from typing import Any

from adcompiler.ad.vjp import vjp
from adcompiler.interpreter.reference import extent
from adcompiler.ir.bodies import Replace
from adcompiler.ir.nodes import Apply, Array, Func
from adcompiler.ir.textform import printer
from adcompiler.ir.types import NUMPY, Dtype, is_float
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of, is_computed, postorder
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.kinds import ArgType, Static, Types
from adcompiler.pytree.trees import leaves_by_path
from adcompiler.runtime.programs.program import Derivative
from adcompiler.runtime.programs.splitting import SplitProgram
from adcompiler.runtime.programs.traceable import Traceable


@dataclass(frozen=True, slots=True)
class Flow:
    """Whether an argument, or a part of a container, has a gradient, and if not, why."""

    name: str
    flows: bool
    why: str | None

    def __str__(self) -> str:
        return f"{self.name}: {'flows' if self.flows else self.why}"


@dataclass(frozen=True, slots=True)
class Saved:
    """An array that forward saves for propagate. Its lengths are in letters, as in `f64[n, 3]`; `bytes` are
    those of a call, if its lengths are known."""

    name: str
    kind: str  # "input" or "temporary"
    dtype: Dtype
    lengths: tuple[str, ...]
    bytes: int | None

    def __str__(self) -> str:
        return self.text("in the first call")

    def text(self, where: str) -> str:
        """A line; `where` says of which call the bytes are."""
        shape = f"[{', '.join(self.lengths)}]" if self.lengths else ""
        factors = (f"({n})" if " " in n else n for n in self.lengths)
        size = " * ".join([str(NUMPY[self.dtype].itemsize), *factors])
        known = f" ({in_bytes(self.bytes)} {where})" if self.bytes is not None else ""
        return f"{self.name}: {self.kind}, {self.dtype}{shape}, {size} bytes{known}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The gradients and why others are None; saved values, and recomputed ones."""

    function: str
    gradients: tuple[Flow, ...]
    made_by: str | None
    mode: tuple[str, ...]
    saved: tuple[Saved, ...]
    made_again: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(
            (
                f"{self.function}: gradients",
                *_listed(self.gradients),
                *(() if self.made_by is None else ("made by", f"  {self.made_by}")),
                "mode",
                *_listed(self.mode),
                "saved by forward for propagate",
                *_listed(self.saved),
                "computed again by propagate",
                *_listed(self.made_again),
            )
        )


def explanation(f: Traceable, wrt: Any, types: Types) -> Explanation:
    """The report of `explain` as fields."""
    _, wanted = f._wanted(wrt, types)
    func = f._trace(types).func
    found = vjp(func.results, list(func.results), [func.inputs[k] for k in wanted])
    known = {k: g is not None for k, g in zip(wanted, found, strict=True)}
    split = f.split(wrt)
    program = split.at(types)
    return Explanation(
        f.__name__,
        tuple(_gradients(f, types, known)),
        f._how(types),
        tuple(_mode(func, sum(known.values()))),
        tuple(saved(program.parts.forward, program.saved_names, split.lengths.get(types))),
        tuple(again(program, program.usual)),
    )


def _gradients(f: Traceable, types: Types, known: Mapping[int, bool]) -> Iterator[Flow]:
    """One for each argument, and for each part of a container; `known` are the inputs asked for."""
    numbers = count()
    for parameter, given in zip(f._parameters, types, strict=True):
        for name, kind in leaves_by_path(parameter.name, given):
            flows = known.get(next(numbers)) if isinstance(kind, ArgType) else None
            yield Flow(name, bool(flows), None if flows else _why_not(kind, flows))


def _listed(lines: Sequence[Any]) -> list[str]:
    return [f"  {line}" for line in lines] or ["  nothing"]


def _mode(func: Func, count: int) -> Iterator[str]:
    if not count:
        return
    results = [n for n, r in zip(func.result_names, func.results, strict=True) if is_float(r.dtype)]
    yield f"reverse: from {', '.join(results)} back to {count} input{'s' * (count > 1)}, at once"
    if len(func.results) == 1 and not func.results[0].rank:
        yield "grad and value_and_grad are one fused program and save nothing; split, vjp and the tape save"


def _why_not(kind: ArgType | Static, known: bool | None) -> str:
    if isinstance(kind, Static):
        return "None: static, known at compile time"
    if not is_float(kind.dtype):
        return f"None: {kind.dtype} has no derivative"
    if known is None:
        return "not asked for: wrt omits it"
    return "None: no result depends on it through a differentiable path (grad gives zeros)"


def saved(forward: Func, names: Sequence[str], sizes: Sequence[int] | None) -> Iterator[Saved]:
    """The arrays that are saved; `sizes` are the lengths of a call."""
    arrays = {
        **dict(zip(forward.input_names, forward.inputs, strict=True)),
        **dict(zip(forward.result_names, forward.results, strict=True)),
    }
    for name in names:
        array = arrays[name]
        kind = "input" if array in forward.inputs else "temporary"
        known = sizes and array.rank and not any(map(is_computed, array.shape))
        bytes_ = _bytes(array, sizes) if known and sizes else None
        yield Saved(name, kind, array.dtype, tuple(printer.short_lengths(forward, array.shape, name)), bytes_)


def _bytes(array: Array, sizes: Sequence[int]) -> int:
    return NUMPY[array.dtype].itemsize * prod(extent(array.shape, sizes))


def in_bytes(amount: int) -> str:
    """An amount of memory in few digits: "800 B", "1.6 MB"."""
    units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)]
    found = next(((u, f) for u, f in units if amount >= 0.9995 * f), None)
    return f"{amount} B" if found is None else f"{amount / found[1]:.3g} {found[0]}"


def recomputed(program: SplitProgram, part: Derivative) -> Iterator[Apply]:
    """The operations of forward that stand in propagate too."""
    forward = program.parts.forward
    available: list[Array] = [*forward.inputs, *forward.results]
    given: dict[Array, Array] = {i: available[k] for i, k in zip(part.func.inputs, part.reads, strict=False)}
    results = Replace(given).run(part.func.results)
    reached = postorder(results, lambda a: () if a in available else arrays_read(a))
    here = elements_of(e for a in reached if a not in available for e in a.elements)
    theirs = set(elements_of(e for a in arrays_of(forward.results) for e in a.elements))
    for element in here:
        if isinstance(element, Apply) and element in theirs and element.axes:
            yield element


def again(program: SplitProgram, part: Derivative) -> Iterator[str]:
    """The primitives of forward that stand in propagate too, with the lines that they come from."""
    lines: dict[str, int] = {}
    for element in recomputed(program, part):
        span = program.parts.forward.spans.get(element)
        where = f"{element.op}, line {span.line}" if span is not None else element.op
        lines[where] = lines.get(where, 0) + 1
    for where, times in lines.items():
        yield where if times == 1 else f"{where} ({times} times)"
