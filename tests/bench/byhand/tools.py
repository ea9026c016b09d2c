"""What the kernels share: decorators, blocks, and loop bounds without a sign."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

# Sums may be reassociated, so that they vectorise; NaN, infinities and -0.0 keep their meaning.
FLAGS = {"reassoc", "contract"}
BLOCK = 4096  # elements of a block: its rows stay in the first caches

serial = njit(error_model="numpy", fastmath=FLAGS, nogil=True)


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Python itself."""
    return function


if os.environ.get("BENCH_PLAIN"):  # tests of results: what calls other kernels takes longest to compile
    parallel = driver = plain
else:
    parallel = njit(error_model="numpy", fastmath=FLAGS, nogil=True, parallel=True)
    driver = serial


@serial
def part(k: int, blocks: int, n: int) -> tuple[int, int]:
    """Where block k of `blocks` begins and ends in an axis of length n.

    Unsigned: a signed bound makes numba ask at each access whether the index counts from the end, and
    such a loop is not vectorised.
    """
    return np.uint64(k * n // blocks), np.uint64((k + 1) * n // blocks)


def blocks(n: int, length: int = BLOCK) -> int:
    """How many blocks of about `length` an axis of n has: by length alone, so the bits never vary."""
    return max(1, -(-n // length))


def like(*arrays: Any) -> tuple[np.ndarray, ...]:
    """Buffers for gradients, touched once so that their pages are there."""
    return tuple(np.zeros_like(a) for a in arrays)
