"""Tables of what was measured: programs by their ratio to JAX, and nests by the time that they lose."""

from __future__ import annotations

import math
from collections.abc import Mapping

from bench.isolate import Outcome
from bench.report import grid, seconds

LARGEST = 60  # nests that are shown
CALLS = {
    "value": "value", "gradient": "gradient", "hvp": "hvp", "JAX value": "jax value",
    "JAX gradient": "jax gradient",
}  # fmt: skip


def tables(programs: Mapping[str, Outcome]) -> str:
    """Both, and the geometric mean of the ratios."""
    ratios = [r for found in programs.values() if (r := ratio(found)) is not None]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
    parts = [by_ratio(programs), by_lost_time(programs)]
    if mean is not None:
        what = f"geometric mean of {len(ratios)} programs, value and gradient"
        parts.insert(0, f"JAX's time over ours, {what}: {mean:.2f}")
    return "\n\n".join(parts)


def median(found: Outcome, what: str) -> float | None:
    entry = found.get("times", {}).get(what)
    return None if entry is None else float(entry["median"])


def ratio(found: Outcome, what: str = "gradient") -> float | None:
    """JAX's time over ours."""
    ours, theirs = median(found, what), median(found, f"jax {what}")
    return theirs / ours if ours and theirs else None


def trouble(found: Outcome) -> str:
    """Everything that failed, in words."""
    return "; ".join(f"{what}: {line}" for what, line in found["errors"].items())


def by_ratio(programs: Mapping[str, Outcome]) -> str:
    """A row for each program: what fails first, then the slowest beside JAX."""

    def order(item: tuple[str, Outcome]) -> tuple[int, float]:
        found, how = item[1], ratio(item[1])
        failed = median(found, "gradient") is None
        return (0 if failed else 1 if how is not None else 2), how or 0.0

    head = [*("program", *CALLS), "JAX / ours", "first", "errors"]
    rows = []
    for name, found in sorted(programs.items(), key=order):
        how, first = ratio(found), found["firsts"].get("gradient")
        times = [seconds(median(found, what)) for what in CALLS.values()]
        shown = "—" if how is None else f"{how:.2f}"
        rows.append([name, *times, shown, seconds(first), trouble(found)])
    return grid(head, rows)


def by_lost_time(programs: Mapping[str, Outcome]) -> str:
    """A row for each nest: those first whose time is furthest above their roofline."""
    found = [(name, nest) for name, outcome in programs.items() for nest in outcome["nests"]]
    found.sort(key=lambda pair: -pair[1]["lost"])
    head = ["program", "nest", "computes", "threads", "measured", "roofline", "lost", "reason"]
    rows = [
        [
            name, str(nest["nest"]), shortened(", ".join(nest["computes"])), str(nest["threads"]),
            seconds(nest["seconds"]), seconds(nest["roofline"]), seconds(nest["lost"]), nest["reason"],
        ]
        for name, nest in found[:LARGEST]
    ]  # fmt: skip
    return grid(head, rows)


def shortened(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
