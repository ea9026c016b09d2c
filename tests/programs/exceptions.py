"""Laws that programs of `test_laws.py` break, how badly, and why. What is mended is removed here: a test says
so."""

from __future__ import annotations

Exceptions = dict[str, tuple[float, str]]  # by law: the most times, or the number of nests, and the reason

CONTRACTED = "the loops over what a product contracts stand outside, so that they also compute it"
BOTH = "the sums under a mask for infinite factors count too, though they do not run"

WRITTEN: dict[str, Exceptions] = {}
CLIFFS: dict[str, Exceptions] = {
    "inverse-kinematics": {
        "strides": (4, "a sum goes along what it stores, not along the shifted rows it reads")
    },
    "orbits": {"gradient": (6.8, "the derivative of the cube of a distance takes another square root")},
    "wave": {"gradient": (6.4, "eight times the products: each neighbour of a point has its own")},
    "full-mixture": {"gradient": (6.2, "products of triangles are computed again for both factors")},
    "gp-elementwise": {"gradient": (6.2, "entries of factors are made again by their reverse iterations")},
    "conv-network": {
        "gradient": (6.6, BOTH),
        "strides": (9, "the axis that a window shifts has no vote in the order of loops"),
    },
    "convolution-2d": {"gradient": (6.7, BOTH), "strides": (2, "a sum under a mask computes its parts")},
    "bilinear-form": {"gradient": (6.2, "a factor over three axes is stored, at some lengths")},
    "attention": {"strides": (2, CONTRACTED)},
    "causal-attention": {"strides": (5, CONTRACTED)},
    "feed-forward": {"strides": (2, CONTRACTED)},
    "four-axes": {"product": (6.1, "each product of three arrays has six terms")},
}
