"""Minimum cuts of graphs, by the algorithm of Dinic (1970)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import isfinite

FINITE, ENDLESS = 2**29, 2**30  # the sum of all finite capacities, in integers; an infinite one

Arcs = dict[object, dict[object, int]]


def sink_side(arcs: Mapping[tuple[object, object], float]) -> set[object]:
    """The nodes on the sink's side of a minimum cut between "source" and "sink", of those the nearest to the
    source. The arcs of the graph have capacities, which may be infinite."""
    total = sum(c for c in arcs.values() if isfinite(c)) or 1.0
    rest: Arcs = {node: {} for arc in arcs for node in arc}  # the residual graph
    for (a, b), c in arcs.items():
        rest[a][b] = rest[a].get(b, 0) + (round(c / total * FINITE) if isfinite(c) else ENDLESS)
        rest[b].setdefault(a, 0)
    while "sink" in (levels := _levels(rest)):
        _block(rest, levels)
    return rest.keys() - levels.keys()


def _levels(rest: Arcs) -> dict[object, int]:
    """How many arcs with some capacity each node is from the source, for those that are reached."""
    levels: dict[object, int] = {"source": 0}
    queue: list[object] = ["source"]
    for node in queue:
        new = [n for n, capacity in rest[node].items() if capacity and n not in levels]
        levels |= dict.fromkeys(new, levels[node] + 1)
        queue += new
    return levels


def _block(rest: Arcs, levels: Mapping[object, int]) -> None:
    """Send as much as possible along arcs that lead from one level to the next one."""
    ahead = {
        node: [n for n, capacity in rest[node].items() if capacity and levels.get(n) == level + 1]
        for node, level in levels.items()
    }
    path: list[object] = ["source"]
    while path:
        node = path[-1]
        if node == "sink":
            steps = [*pairwise(path)]
            sent = min(rest[a][b] for a, b in steps)
            for a, b in steps:
                rest[a][b] -= sent
                rest[b][a] += sent
            path = path[: next(k for k, (a, b) in enumerate(steps) if not rest[a][b]) + 1]
        elif not ahead[node]:
            path.pop()
            if path:
                ahead[path[-1]].pop()
        elif rest[node][ahead[node][-1]]:
            path.append(ahead[node][-1])
        else:
            ahead[node].pop()
