"""A program as a user writes it, with arguments at two sizes and, usually, the same for NumPy and JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.frameworks import Loss
from bench.ours import compiled
from bench.workload import Arguments

SIZES = ("full", "tiny")


@dataclass(frozen=True)
class Program:
    """A scalar function in adcompiler's language, differentiated by the arguments at the positions `wrt`.

    `inputs` takes a random generator and one of the sizes. `loss` is the same function of a space of
    `bench.spaces` and the arguments.
    """

    name: str
    source: str
    full: tuple[int, ...]
    tiny: tuple[int, ...]
    inputs: Callable[..., Arguments]
    wrt: tuple[int, ...]
    loss: Loss | None = None
    tolerance: float = 1e-8

    def arguments(self, size: str, seed: int = 0) -> Arguments:
        """Arguments of one of the sizes, the same for the same seed."""
        return self.inputs(np.random.default_rng(seed), *getattr(self, size))

    def compiled(self, args: Arguments, backend: str = "cpu") -> Any:
        """The function; its annotations say f32 where the arguments are."""
        return compiled(self.source, None, args, backend)


def single(program: Program) -> Program:
    """The same in float32."""

    def inputs(rng: np.random.Generator, *size: int) -> Arguments:
        return tuple(narrow(a) for a in program.inputs(rng, *size))

    return replace(program, name=f"{program.name}-f32", inputs=inputs, tolerance=2e-3)


def narrow(argument: Any) -> Any:
    """A float64 array in float32; anything else as it is."""
    is_wide = isinstance(argument, np.ndarray) and argument.dtype == np.float64
    return argument.astype(np.float32) if is_wide else argument
