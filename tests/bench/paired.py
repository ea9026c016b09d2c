"""Paired measurements: two of a kind alternate, so that what disturbs the machine disturbs both alike."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from scipy.special import stdtrit

Ask = Callable[[], float]  # one measurement, in seconds


def alternate(one: Ask, other: Ask, repeat: int) -> list[tuple[float, float]]:
    """Pairs of measurements; which of the two goes first alternates too."""
    pairs = []
    for k in range(repeat):
        if k % 2:
            second = other()
            pairs.append((one(), second))
        else:
            pairs.append((one(), other()))
    return pairs


def compared(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """The means of both, and the geometric mean of other / one with its 95 % interval (Student, of logs)."""
    logs = [math.log(other / one) for one, other in pairs]
    middle = statistics.fmean(logs)
    spread = math.inf
    if len(logs) > 1:
        spread = float(stdtrit(len(logs) - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return {
        "one": statistics.fmean(one for one, _ in pairs),
        "other": statistics.fmean(other for _, other in pairs),
        "ratio": math.exp(middle),
        "low": math.exp(middle - spread),
        "high": math.exp(middle + spread),
    }
