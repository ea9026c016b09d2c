"""A program on a device, compiled when first needed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Call, Map, element_of
from adcompiler.ir.walk import arrays_of
from adcompiler.kernels.schedule.materialise import Scheduled, scheduled
from adcompiler.lazy import cached_property
from adcompiler.targets.buffers import Into, put
from adcompiler.targets.cuda.device.arrays import Caller, is_half
from adcompiler.targets.cuda.device.device import SIMULATED
from adcompiler.targets.cuda.emit.order import STYLE
from adcompiler.targets.cuda.program import DeviceProgram

_one_at_a_time = threading.RLock()  # memory is reused across calls; the simulator runs one kernel
SMALL = 2 if SIMULATED else 2048  # points up to which one block computes all nests in one kernel
LARGE_ITERATION = 10**9 if SIMULATED else 2**15  # points of an iteration from which the host runs a loop


class CudaExecutable:
    """A program on a device.

    Small calls are one kernel on one block, others one kernel per nest. One block runs the iterations of
    program loops, or the host if they are large.
    """

    def __init__(self, made: Scheduled, atomics: bool = False, fast: bool = False) -> None:
        self.made, self.func, self.atomics, self.fast = made, made.func, atomics, fast
        self.copies: dict[tuple[int, ...], DeviceProgram] = {}
        self.programs: dict[tuple[bool, bool, bool, tuple[int, ...]], DeviceProgram] = {}

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Into = None) -> list[Any]:
        """The results, in the caller's array type, or scalars of rank 0."""
        caller = Caller(args, into)
        with _one_at_a_time:
            half = any(map(is_half, caller.args))
            if half and self.takes_whole:
                caller.args, half = self.widened(sizes, caller), False
            narrow = tuple(k for k, target in caller.targets.items() if is_half(target))
            program = self.program(sizes, half, narrow)
            results = program.call(sizes, caller.args, caller.stream, caller.targets, caller.disjoint())
            results = [caller.given_back(k, r) for k, r in enumerate(results)]
        return put(results, [t if isinstance(t, np.ndarray) else None for t in into or ()])

    def program(
        self, sizes: Sequence[int], half: bool = False, narrow: tuple[int, ...] = ()
    ) -> DeviceProgram:
        """The kernels for these lengths, and for arguments and results stored in 16 bits or not."""
        large = self.get(half=half, narrow=narrow)
        if large.iteration_points(sizes) > LARGE_ITERATION:
            return self.get(hosted=True, narrow=narrow)
        small = large.points(sizes) <= SMALL and not large.wide
        return self.get(alone=True, half=half, narrow=narrow) if small else large

    def get(
        self,
        alone: bool = False,
        hosted: bool = False,
        half: bool = False,
        narrow: tuple[int, ...] = (),
    ) -> DeviceProgram:
        """The program on one block or on all, with its loops on the device or on the host."""
        key = alone, hosted, half, narrow
        if key not in self.programs:
            self.programs[key] = DeviceProgram(
                self.made, alone, self.atomics, self.fast, hosted, half, narrow
            )
        return self.programs[key]

    @cached_property
    def takes_whole(self) -> bool:
        """Whether loops or routines take whole arrays, rather than element by element."""
        return any(isinstance(a, Item | Call) for a in arrays_of(self.func.roots))

    def widened(self, sizes: Sequence[int], caller: Caller) -> list[Any]:
        """The arguments, with those stored in 16 bits copied to float32."""
        places = [k for k, arg in enumerate(caller.args) if is_half(arg)]
        if tuple(places) not in self.copies:
            inputs = [self.func.inputs[k] for k in places]
            copies = tuple(Map(i.shape, element_of(i)) for i in inputs)
            names = tuple(self.func.input_names[k] for k in places)
            func = self.func.with_(results=copies, result_names=names, checks=())
            made = scheduled(func, STYLE)
            self.copies[tuple(places)] = DeviceProgram(made, alone=False, atomics=False, half=True)
        copied = self.copies[tuple(places)].call(sizes, caller.args, caller.stream)
        found = dict(zip(places, copied, strict=True))
        return [found.get(k, arg) for k, arg in enumerate(caller.args)]
