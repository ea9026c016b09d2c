"""Minimum cuts of graphs (Ford and Fulkerson 1956)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

FINITE, ENDLESS = 2**29, 2**30  # the sum of all finite capacities; an infinite one (SciPy takes int32)


def sink_side(arcs: Mapping[tuple[object, object], float]) -> set[object]:
    """The nodes on the sink's side of a minimum cut between "source" and "sink", of those the nearest to the
    source. The arcs of the graph have capacities, which may be infinite."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    numbers = {node: k for k, node in enumerate(dict.fromkeys(n for arc in arcs for n in arc))}
    total = sum(c for c in arcs.values() if np.isfinite(c)) or 1.0
    capacities = [round(c / total * FINITE) if np.isfinite(c) else ENDLESS for c in arcs.values()]
    rows, columns = zip(*((numbers[a], numbers[b]) for a, b in arcs), strict=True)
    shape = (len(numbers), len(numbers))
    graph = csr_array((np.array(capacities, np.int32), (rows, columns)), shape)
    flow = maximum_flow(graph, numbers["source"], numbers["sink"]).flow
    rest = csr_array(graph - flow)  # the residual graph
    rest.data = (rest.data > 0).astype(np.int32)
    rest.eliminate_zeros()
    reached = set(breadth_first_order(rest, numbers["source"], return_predecessors=False).tolist())
    return {node for node, k in numbers.items() if k not in reached}
