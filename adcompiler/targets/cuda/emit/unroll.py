"""Several points an iteration for threads on their own: all are read before the first is stored.

A thread's reads wait for its stores, which the compiler cannot tell apart, so that an iteration of one point
leaves the memory idle. Only straight text is repeated; what is added to stays one variable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_LINES = 32  # of all copies together, save stores
CALL = 12  # lines that a function counts as: it has many registers
MOST = 4

_ASSIGNED = re.compile(r"(\w+) = ")
_STORED = re.compile(r"\w+\[.*?\] = ")


def copies(lines: Sequence[str]) -> int:
    """How many points an iteration may have; 1 for text that is not straight, or long."""
    if any(line.startswith(" ") or line.endswith(":") for line in lines):
        return 1
    computed = [line for line in lines if not line.startswith("#") and not _STORED.match(line)]
    length = len(computed) + CALL * sum(line.count("math.") for line in computed)
    return max(min(MOST, MOST_LINES // max(length, 1)), 1)


def unrolled(
    lines: Sequence[str], outside: Sequence[str], point: str, step: str, total: str, count: int
) -> list[str]:
    """A loop of `count` points an iteration; what is left of the points is for another loop."""
    kept = {m[1] for line in outside if (m := _ASSIGNED.match(line))}
    own = {m[1] for line in lines if (m := _ASSIGNED.match(line))} - kept
    first: list[str] = []
    stores: list[str] = []
    for k in range(count):
        names = {name: f"_{name}_{k}" for name in (*own, point)} if k else {}
        if k:
            first.append(f"{names[point]} = {point} + uint64({k}) * {step}")
        for line in lines:
            if not (k and line.startswith("#")):
                found = re.sub(r"\b[^\W\d]\w*\b", lambda m, n=names: n.get(m[0], m[0]), line)  # type: ignore[misc]
                (stores if _STORED.match(line) else first).append(found)
    body = [*first, *stores, f"{point} += uint64({count}) * {step}"]
    return [f"while {point} + uint64({count - 1}) * {step} < {total}:", *("    " + line for line in body)]
