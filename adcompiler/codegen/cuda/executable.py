"""A program on a device, compiled when first needed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.codegen.cuda.arrays import Caller
from adcompiler.codegen.cuda.device import SIMULATED
from adcompiler.codegen.cuda.program import Program
from adcompiler.ir.nodes import Array, Func

_one_at_a_time = threading.RLock()  # memory is kept from call to call; the simulator runs one kernel
SMALL = 2 if SIMULATED else 2048  # points up to which one block computes all nests in one kernel
LARGE_TURN = 10**9 if SIMULATED else 2**15  # points of a turn from which the host runs a loop


class Compiled:
    """A program on a device.

    Small calls are one kernel on one block, others a kernel a nest. The turns of a program's loops are taken
    by one block, or by the host if they are large.
    """

    def __init__(self, func: Func, atomics: bool = False, fast: bool = False) -> None:
        self.func, self.atomics, self.fast = func, atomics, fast
        self.programs: dict[tuple[bool, bool], Program] = {}

    def __call__(
        self, sizes: Sequence[int], args: Sequence[Any], into: dict[Array, np.ndarray] | None = None
    ) -> list[Any]:
        """The results, in the caller's kind of array, or scalars where the rank is 0; `into` gives arrays."""
        caller = Caller(args)
        with _one_at_a_time:
            results = self.program(sizes).call(sizes, caller.args, caller.stream)
            results = [caller.given_back(r) for r in results]
        for k, array in enumerate(self.func.results):
            if into is not None and array in into:
                np.copyto(into[array], results[k])
                results[k] = into[array]
        return results

    def program(self, sizes: Sequence[int]) -> Program:
        """The kernels for these lengths."""
        large = self.get()
        if large.turn_points(sizes) > LARGE_TURN:
            return self.get(hosted=True)
        return self.get(alone=True) if large.points(sizes) <= SMALL and not large.wide else large

    def get(self, alone: bool = False, hosted: bool = False) -> Program:
        """The program on one block or on all, with its loops there or on the host."""
        key = alone, hosted
        if key not in self.programs:
            self.programs[key] = Program(self.func, alone, self.atomics, self.fast, hosted)
        return self.programs[key]
