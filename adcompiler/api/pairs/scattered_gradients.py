"""Gradients of gathers, added to the gradients that pairs have already, where these stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from adcompiler.api.pairs.into import overlaps_itself
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.ir.nodes import Func
from adcompiler.runtime.programs.specialise import Specialisation
from adcompiler.targets.cpu.adding import adding, scatters


class Scattered(NamedTuple):
    """A program of gradients apart: what adds those of some results to arrays, and the rest of it."""

    rest: Specialisation
    kept: list[int]
    adding: dict[int, list[Specialisation]]

    def run(
        self, args: Sequence[Any], sizes: Sequence[int], plain: bool, targets: Mapping[int, np.ndarray]
    ) -> list[Any]:
        """The results; those that have a target are added to it, once it is known that there is no error."""
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
    return Scattered(Specialisation(Lowered(rest, (), (None,) * len(kept)), backend), kept, made)


def _programs(func: Func, number: int, backend: str) -> list[Specialisation]:
    """A program for each scatter that a result is the sum of."""
    name, _, threads = backend.partition(":")
    found = []
    for term in scatters(func.results[number]) if name in ("cpu", "cpu-precise") else ():
        one = func.with_(results=(term,), result_names=(func.result_names[number],), checks=())
        kernel = adding(one, 0, name == "cpu-precise", int(threads) if threads else None)
        if kernel is None:
            return []
        found.append(Specialisation(Lowered(one, (), None), backend))
        found[-1].use(kernel)
    return found


def is_like(target: np.ndarray, value: Any) -> bool:
    """Whether an array may hold the gradient of a value."""
    return isinstance(value, np.ndarray) and target.shape == value.shape and target.dtype == value.dtype


def takes(target: np.ndarray, args: Sequence[Any]) -> bool:
    """Whether a gradient can be added to an array while a kernel reads the arguments."""
    usable = target.flags.writeable and target.flags.aligned and not overlaps_itself(target)
    return usable and not any(isinstance(a, np.ndarray) and np.may_share_memory(target, a) for a in args)
