"""Laws that programs of `test_laws.py` break, how badly, and why. What is mended is removed here: a test says
so."""

from __future__ import annotations

Exceptions = dict[str, tuple[float, str]]  # by law: the most times, or the number of nests, and the reason

CONTRACTED = "the loops over what a product contracts stand outside, so that they also compute it"
BOTH = "the sums under a mask for infinite factors count too, though they do not run"
FOUR_LOOPS = "four loops of a product with the Hessian compute one exponential"

WRITTEN: dict[str, Exceptions] = {}
CLIFFS: dict[str, Exceptions] = {
    "orbits": {"gradient": (6.8, "the derivative of the cube of a distance takes another square root")},
    "wave": {"gradient": (6.4, "eight times the products: each neighbour of a point has its own")},
    "full-mixture": {
        "gradient": (6.2, "products of triangles are computed again for both factors"),
        "work twice": (1, FOUR_LOOPS),
    },
    "gp-elementwise": {
        "gradient": (6.3, "entries of factors are made again by their reverse iterations"),
        "strides": (1, "two sums share a loop, which goes along what they store"),
    },
    "conv-network": {
        "gradient": (6.7, BOTH),
        "strides": (1, "the axis that a window shifts has no vote in the order of loops"),
        "work twice": (1, FOUR_LOOPS),
    },
    "convolution-2d": {"gradient": (6.7, BOTH)},
    "cox": {"work twice": (1, FOUR_LOOPS)},
    "graph-network": {"work twice": (1, FOUR_LOOPS)},
    "attention": {"strides": (2, CONTRACTED)},
}
