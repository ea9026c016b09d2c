"""Seconds of each item of a timed kernel, from the ticks of the processor's clock.

The number of ticks per second is found from the calls themselves, which the system may interrupt. It is
bracketed: all ticks of several calls lie between the times before and after them, which bounds the rate from
below, and the best of many bounds is used. An interruption only makes a bound worse; it never makes a kernel
look faster than it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adcompiler.targets.cpu.timed import Timed, repeated

STRETCHES = (1, 2, 4, 8)  # into how many of them the calls are divided, half a stretch apart


def seconds(timed: Timed, sizes: Sequence[int], args: Sequence[Any], least: float) -> list[float] | None:
    """The fastest time of each item in calls that take `least` seconds together, 0 for what does not run;
    None without a clock."""
    if not (timed.items and timed.has_clock):
        return None
    found: list[Sequence[int]] = []
    count = 2 * len(timed.items)
    times = repeated(lambda: found.append(timed.launch(sizes, args)[1][-count:]), least)
    stamps = found[1:]  # the first call compiles
    ran = [[t for t in s if t] for s in stamps]
    if not all(ran):
        return [0.0] * len(timed.items)
    rate = ticks_a_second(times, [min(s) for s in ran], [max(s) for s in ran])
    return [_fastest([s[k + 1] - s[k] for s in stamps]) / rate for k in range(0, count, 2)]


def _fastest(ticks: Sequence[int]) -> int:
    """The fewest ticks; none in what does not run, or was counted on two processors whose clocks differ."""
    return min((t for t in ticks if t > 0), default=0)


def ticks_a_second(times: Sequence[float], first: Sequence[int], last: Sequence[int]) -> float:
    """The ticks of a second, never more than there are.

    times        before each call, and after the last one, in seconds
    first, last  the first and the last tick of each call
    """
    calls = len(first)
    bounds = []
    for parts in STRETCHES:
        length = max(1, calls // parts)
        for start in range(0, calls - length + 1, max(1, length // 2)):
            stop = start + length
            bounds.append((last[stop - 1] - first[start]) / (times[stop] - times[start]))
    return max(1.0, *bounds)
