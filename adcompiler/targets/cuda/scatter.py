"""Additions at computed indices, in a fixed order: sort places with values, and sum runs of equal places.

The sort is a stable radix sort with digits of 4 bits. A block sorts a tile in shared memory: its threads
count the digits of their own elements, add what stands before each count, and so know where each element
belongs; elements then leave the tile in order, neighbours together. A run inside one stretch is summed by its
thread; the rest of longer runs is a shorter list, and so on. Many additions to one element therefore take no
longer than additions to many elements. Integers use atomics: their order does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from adcompiler.targets.cuda.device.device import SIMULATED, launcher, loaded
from adcompiler.targets.cuda.device.header import with_header

STRETCH = 4 if SIMULATED else 32  # elements whose runs a thread adds
SHORT_STRETCH = 3 if SIMULATED else 8  # the same in long lists, whose neighbours share a cache; 3 at least
LONG = 30 if SIMULATED else 2**16
THREADS = 4 if SIMULATED else 256
EACH_BITS = 3  # the logarithm of the elements of a tile that a thread sorts
TILE = THREADS << EACH_BITS
SCANNERS = 4 if SIMULATED else 256
PART = 8  # counts that a thread adds at a time

TEXT = """@kernel
def count_digits(places, shift, counts):
    found = cuda.shared.array(16, np.int32)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * {tile}
    for d in range(t, 16, cuda.blockDim.x):
        found[d] = 0
    cuda.syncthreads()
    for p in range(first + t, min(first + {tile}, places.shape[0]), cuda.blockDim.x):
        cuda.atomic.add(found, (places[p] >> shift) & 15, 1)
    cuda.syncthreads()
    for d in range(t, 16, cuda.blockDim.x):
        counts[d * cuda.gridDim.x + cuda.blockIdx.x] = found[d]


@kernel
def add_before(counts, totals):
    # What stands before each count of a digit: a block goes over them, each thread adds {part} at a time.
    sums = cuda.shared.array({scanners}, np.int64)
    t, d, tiles = cuda.threadIdx.x, cuda.blockIdx.x, counts.shape[0] // 16
    carried = np.int64(0)
    for start in range(0, tiles, {part} * {scanners}):
        first, last = start + {part} * t, min(start + {part} * (t + 1), tiles)
        own = np.int64(0)
        for p in range(first, last):
            own += counts[d * tiles + p]
        sums[t] = own
        cuda.syncthreads()
        distance = 1
        while distance < {scanners}:
            before = sums[t - distance] if t >= distance else np.int64(0)
            cuda.syncthreads()
            sums[t] += before
            cuda.syncthreads()
            distance *= 2
        total = carried + sums[t] - own
        for p in range(first, last):
            here = counts[d * tiles + p]
            counts[d * tiles + p] = total
            total += here
        carried += sums[{scanners} - 1]
        cuda.syncthreads()
    if t == 0:
        totals[d] = carried


@kernel
def move_digits(places, values, shift, counts, totals, to_places, to_values):
    # Arrays in shared memory have a gap after each thread's part: parts begin in different banks.
    keys = cuda.shared.array({tile} + {threads}, np.int64)
    order = cuda.shared.array({tile}, np.int32)
    ranks = cuda.shared.array(17 * {threads}, np.int32)
    sums = cuda.shared.array({threads}, np.int32)
    starts = cuda.shared.array(16, np.int64)  # what takes an element of the sorted tile to its place
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * {tile}
    length = min({tile}, places.shape[0] - first)
    for p in range(t, length, cuda.blockDim.x):
        keys[p + (p >> {bits})] = places[first + p]
    for d in range(16):
        spot = d * {threads} + t
        ranks[spot + (spot >> 4)] = 0
    cuda.syncthreads()
    for p in range(t << {bits}, min((t + 1) << {bits}, length)):
        spot = ((keys[p + (p >> {bits})] >> shift) & 15) * {threads} + t
        ranks[spot + (spot >> 4)] += 1
    cuda.syncthreads()
    own = 0
    for k in range(17 * t, 17 * t + 16):
        own += ranks[k]
    sums[t] = own
    cuda.syncthreads()
    distance = 1
    while distance < {threads}:
        before = sums[t - distance] if t >= distance else np.int32(0)
        cuda.syncthreads()
        sums[t] += before
        cuda.syncthreads()
        distance *= 2
    total = sums[t] - own
    for k in range(17 * t, 17 * t + 16):
        here = ranks[k]
        ranks[k] = total
        total += here
    cuda.syncthreads()
    for d in range(t, 16, cuda.blockDim.x):
        start = counts[d * cuda.gridDim.x + cuda.blockIdx.x] - ranks[d * {threads} + (d * {threads} >> 4)]
        for k in range(d):
            start += totals[k]
        starts[d] = start
    cuda.syncthreads()
    for p in range(t << {bits}, min((t + 1) << {bits}, length)):
        spot = ((keys[p + (p >> {bits})] >> shift) & 15) * {threads} + t
        order[ranks[spot + (spot >> 4)]] = p
        ranks[spot + (spot >> 4)] += 1
    cuda.syncthreads()
    for r in range(t, length, cuda.blockDim.x):
        p = order[r]
        place = keys[p + (p >> {bits})]
        to = starts[(place >> shift) & 15] + r
        to_places[to] = place
        to_values[to] = values[first + p]


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
    numbers = {"tile": TILE, "threads": THREADS, "bits": EACH_BITS, "scanners": SCANNERS, "part": PART}
    return loaded(with_header("# Sums of what is scattered.\n", TEXT.format(**numbers)), name)


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
        stretch = SHORT_STRETCH if places.shape[0] > LONG else STRETCH
        stretches = -(-places.shape[0] // stretch)
        left = new(2 * stretches, places.dtype), new(2 * stretches, values.dtype)
        launch("add_runs", stretches, stream, (places, values, stretch, out, *left))
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
    tiles = -(-length // TILE)
    counts, totals = new(16 * tiles, places.dtype), new(16, places.dtype)
    here = places, values
    there = new(length, places.dtype), new(length, values.dtype)
    for shift in range(0, int(most).bit_length(), 4):
        launcher(routine("count_digits"), tiles, THREADS, stream)(here[0], shift, counts)
        launcher(routine("add_before"), 16, SCANNERS, stream)(counts, totals)
        launcher(routine("move_digits"), tiles, THREADS, stream)(*here, shift, counts, totals, *there)
        here, there = there, here
    return here


def launch(name: str, threads: int, stream: Any, args: Sequence[Any]) -> None:
    """Run a kernel on a number of threads."""
    if threads:
        launcher(routine(name), -(-threads // THREADS), THREADS, stream)(*args)
