"""Integer functions without a processor instruction, as scalar functions like those of `series.py`."""

from __future__ import annotations


def power(x: int, n: int) -> int:
    """x**n for n >= 0 by squaring; in kernels products wrap. For n < 0 there is none: 1 stands for it."""
    found = 1
    while n > 0:
        if n % 2 == 1:
            found = found * x
        x = x * x
        n = n // 2
    return found
