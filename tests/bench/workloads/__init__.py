"""One file a family of workloads; each has a tuple `WORKLOADS`."""

from __future__ import annotations

from importlib import import_module

from bench.workload import Workload

FAMILIES = (
    "elementwise", "pairwise", "mixtures", "recurrent", "graph", "small", "reductions", "particles", "bundle",
    "residual", "single", "regressions", "series", "physics",
)  # fmt: skip


def every() -> dict[str, Workload]:
    """All workloads by name, in the order of the table."""
    families = [import_module(f"bench.workloads.{name}") for name in FAMILIES]
    return {w.name: w for family in families for w in family.WORKLOADS}
