"""Threads change no bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from judges.compared import leaves

import adcompiler as adc

MOST = 3  # more than this machine may have: then some of them wait for others


def same_bits(call: Callable[[], Any]) -> Any:
    """What a call returns, tuples of arrays and numbers: with one thread and with several."""
    before, found = adc.get_num_threads(), []
    try:
        for count in range(1, MOST + 1):
            adc.set_num_threads(count)
            found.append(call())
    finally:
        adc.set_num_threads(before)
    first, *others = ([np.asarray(v).tobytes() for v in leaves(result)] for result in found)
    assert all(other == first for other in others)
    return found[0]
