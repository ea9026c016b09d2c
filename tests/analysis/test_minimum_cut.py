"""Minimum cuts are those that a search over all sets of nodes finds."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product
from math import inf

import pytest

from adcompiler.analysis.minimum_cut import sink_side

Arcs = dict[tuple[object, object], float]


def searched(arcs: Mapping[tuple[object, object], float]) -> set[object]:
    """The sink's side of the cheapest cut, of the one with most nodes in it."""
    inner = list(dict.fromkeys(n for arc in arcs for n in arc if n not in ("source", "sink")))
    sides = (
        {"sink", *(n for n, is_behind in zip(inner, chosen, strict=True) if is_behind)}
        for chosen in product((False, True), repeat=len(inner))
    )
    cost = {frozenset(s): sum(c for (a, b), c in arcs.items() if a not in s and b in s) for s in sides}
    return {*min(cost, key=lambda side: (cost[side], -len(side)))}


def graph(seed: int) -> Arcs:
    """A few nodes with arcs both ways, some of which must not be cut."""
    rng = random.Random(seed)
    nodes = ["source", *range(6), "sink"]
    arcs: Arcs = {("source", 0): inf, (5, "sink"): 1 + rng.random()}
    for _ in range(14):
        a, b = rng.sample(nodes, 2)
        if a != "sink" and b != "source":
            endless = rng.random() < 0.2 and (a, b) != ("source", "sink") and "sink" not in (a, b)
            arcs[a, b] = inf if endless else rng.random()
    return arcs


@pytest.mark.parametrize("seed", range(20))
def test_cuts(seed: int) -> None:
    arcs = graph(seed)
    assert sink_side(arcs) == searched(arcs)


def test_of_equal_cuts_the_nearest_to_the_source() -> None:
    assert sink_side({("source", 0): 1.0, (0, 1): 1.0, (1, "sink"): 1.0}) == {0, 1, "sink"}


def test_a_long_chain() -> None:
    arcs: Arcs = {("source", 0): inf, (4999, "sink"): inf}
    arcs |= {(k, k + 1): 2.0 - (k == 3000) for k in range(4999)}
    assert sink_side(arcs) == {*range(3001, 5000), "sink"}
