"""Threads change no bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from compared import leaves


def same_bits(call: Callable[[], Any]) -> Any:
    """What a call returns, tuples of arrays and numbers: with one thread and with all numbers of them."""
    most, found = numba.get_num_threads(), []
    try:
        for count in range(1, most + 1):
            numba.set_num_threads(count)
            found.append(call())
    finally:
        numba.set_num_threads(most)
    first, *others = ([np.asarray(v).tobytes() for v in leaves(result)] for result in found)
    assert all(other == first for other in others)
    return found[0]
