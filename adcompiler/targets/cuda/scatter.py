"""Additions at computed indices, in a fixed order: sort places with values, and sum runs of equal places.

The sort is a stable radix sort with digits of 4 bits: each thread counts and moves its own stretch. A run
inside one stretch is summed by its thread; the rest of longer runs is a shorter list, and so on. Many
additions to one element therefore take no longer than additions to many elements. Integers use atomics: their
order does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from adcompiler.targets.cuda.device.device import SIMULATED, launcher, loaded
from adcompiler.targets.cuda.device.header import with_header

STRETCH = 4 if SIMULATED else 32
MOST_STRETCHES = 2**14
THREADS = 4 if SIMULATED else 256
SCANNERS = 4 if SIMULATED else 1024

TEXT = """@kernel
def count_digits(places, shift, stretch, counts):
    t = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    stretches = counts.shape[0] // 16
    if t < stretches:
        found = cuda.local.array(16, np.int64)
        for d in range(16):
            found[d] = 0
        for p in range(t * stretch, min((t + 1) * stretch, places.shape[0])):
            found[(places[p] >> shift) & 15] += 1
        for d in range(16):
            counts[d * stretches + t] = found[d]


@kernel
def add_before(counts, sums):
    # What stands before each count: every thread adds a stretch, one thread the stretches.
    t = cuda.threadIdx.x
    stretch = (counts.shape[0] + cuda.blockDim.x - 1) // cuda.blockDim.x
    first, last = min(t * stretch, counts.shape[0]), min((t + 1) * stretch, counts.shape[0])
    total = np.int64(0)
    for p in range(first, last):
        total += counts[p]
    sums[t] = total
    cuda.syncthreads()
    if t == 0:
        before = np.int64(0)
        for k in range(cuda.blockDim.x):
            here = sums[k]
            sums[k] = before
            before += here
    cuda.syncthreads()
    total = sums[t]
    for p in range(first, last):
        here = counts[p]
        counts[p] = total
        total += here


@kernel
def move_digits(places, values, shift, stretch, counts, to_places, to_values):
    t = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    stretches = counts.shape[0] // 16
    if t < stretches:
        at = cuda.local.array(16, np.int64)
        for d in range(16):
            at[d] = counts[d * stretches + t]
        for p in range(t * stretch, min((t + 1) * stretch, places.shape[0])):
            d = (places[p] >> shift) & 15
            to_places[at[d]] = places[p]
            to_values[at[d]] = values[p]
            at[d] += 1


@kernel
def add_runs(places, values, stretch, out, left_places, left_values):
    t = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    length, nowhere = places.shape[0], out.shape[0]
    start = t * stretch
    if start < length:
        stop = min(start + stretch, length)
        left_places[2 * t] = nowhere
        left_places[2 * t + 1] = nowhere
        left_values[2 * t] = 0
        left_values[2 * t + 1] = 0
        place, total, begun = places[start], values[start], start > 0 and places[start - 1] == places[start]
        for p in range(start + 1, stop + 1):
            if p < stop and places[p] == place:
                total += values[p]
            else:
                goes_on = p == stop and stop < length and places[min(stop, length - 1)] == place
                if begun:
                    left_places[2 * t] = place
                    left_values[2 * t] = total
                    if goes_on:
                        left_places[2 * t + 1] = place
                elif goes_on:
                    left_places[2 * t + 1] = place
                    left_values[2 * t + 1] = total
                elif place < nowhere:
                    out[place] += total
                if p < stop:
                    place, total, begun = places[p], values[p], False


@kernel
def add_atomically(places, values, out):
    p = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if p < places.shape[0] and places[p] < out.shape[0]:
        cuda.atomic.add(out, places[p], values[p])


@kernel
def fill(out, value):
    p = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if p < out.shape[0]:
        out[p] = value
"""


@cache
def routine(name: str) -> Any:
    """A kernel of this module."""
    return loaded(with_header("# Sums of what is scattered.\n", TEXT), name)


def scatter(
    places: Any, values: Any, out: Any, new: Callable[[int, np.dtype], Any], stream: Any, atomics: bool
) -> None:
    """out[place] += the sum of its values, where `out` is one row; places beyond the end are ignored.

    `new` allocates memory.
    """
    if not places.shape[0] or not out.shape[0]:
        return
    if atomics or out.dtype.kind == "i":
        launch("add_atomically", places.shape[0], stream, (places, values, out))
        return
    places, values = _sorted(places, values, out.shape[0], new, stream)
    while True:
        stretches = -(-places.shape[0] // STRETCH)
        left = new(2 * stretches, places.dtype), new(2 * stretches, values.dtype)
        launch("add_runs", stretches, stream, (places, values, STRETCH, out, *left))
        if stretches == 1:
            return
        places, values = left


def fill(out: Any, value: Any, stream: Any) -> None:
    """Set all elements of a row."""
    launch("fill", out.shape[0], stream, (out, out.dtype.type(value)))


def _sorted(
    places: Any, values: Any, most: int, new: Callable[[int, np.dtype], Any], stream: Any
) -> tuple[Any, Any]:
    """Places in order with their values; the sort is stable."""
    length = places.shape[0]
    stretch = max(STRETCH, -(-length // MOST_STRETCHES))
    stretches = -(-length // stretch)
    counts, sums = new(16 * stretches, places.dtype), new(SCANNERS, places.dtype)
    here = places, values
    there = new(length, places.dtype), new(length, values.dtype)
    for shift in range(0, int(most).bit_length(), 4):
        launch("count_digits", stretches, stream, (here[0], shift, stretch, counts))
        launcher(routine("add_before"), 1, SCANNERS, stream)(counts, sums)
        launch("move_digits", stretches, stream, (*here, shift, stretch, counts, *there))
        here, there = there, here
    return here


def launch(name: str, threads: int, stream: Any, args: Sequence[Any]) -> None:
    """Run a kernel on a number of threads."""
    if threads:
        launcher(routine(name), -(-threads // THREADS), THREADS, stream)(*args)
