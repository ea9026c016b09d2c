"""Some of the programs in float32."""

from __future__ import annotations

from bench.cliffs import geometry, graphs, images, learning, physics, statistics
from bench.cliffs.program import single

CHOSEN = (
    "poisson", "feed-forward", "attention", "gru", "gray-scott", "convolution-2d", "conv-network",
    "strided-audio", "graph-network", "inverse-3x3",
)  # fmt: skip
FIELDS = (statistics, learning, physics, images, graphs, geometry)

PROGRAMS = tuple(single(p) for field in FIELDS for p in field.PROGRAMS if p.name in CHOSEN)
