"""The first four workloads in float32."""

from __future__ import annotations

from bench.workload import single
from bench.workloads import elementwise, pairwise

WORKLOADS = tuple(single(w) for w in (*elementwise.WORKLOADS, pairwise.GRADIENT))
