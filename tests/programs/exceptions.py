"""Laws that programs of `test_laws.py` break, how badly, and why. What is mended is removed here: a test says
so."""

from __future__ import annotations

Exceptions = dict[str, tuple[float, str]]  # by law: the most times, or the number of nests, and the reason

CONTRACTED = "the loops over what a product contracts stand outside, so that they also compute it"
SMALL = "the value of small matrices is unrolled, and their gradient selects and stores each entry"
BEFORE_AND_AFTER = "the products before and after each factor are stored, also where no slice has it"

PRODUCTS: dict[str, Exceptions] = {
    "windows": {"gradient": (6.4, BEFORE_AND_AFTER)},
    "running, from each on": {"gradient": (9.4, "arrays over the iterations of both loops are squares")},
    "every second": {"gradient": (13.7, BEFORE_AND_AFTER)},
}
WRITTEN: dict[str, Exceptions] = {}
STORES: dict[str, Exceptions] = {
    "a mask over a whole array": {
        "gradient": (7.4, "the value is one product in place; its gradient saves what that replaces")
    },
}
CLIFFS: dict[str, Exceptions] = {
    "orbits": {"gradient": (7.2, "the derivative of the cube of a distance takes another square root")},
    "gp-elementwise": {"gradient": (6.4, "entries of factors are made again by their reverse iterations")},
    "padded-loops": {"strides": (4, "the axis that a window shifts has no vote in the order of loops")},
    "neo-hookean": {"gradient": (6.9, SMALL)},
    "inverse-3x3": {"gradient": (7.9, SMALL)},
    "american-tree": {
        "gradient": (6.4, "what is stored and what is selected is saved for each step and price")
    },
    "attention": {"strides": (4, CONTRACTED)},
    "knowledge-graph": {
        "gradient": (7.9, "short axes are written out, also where a condition makes them zero")
    },
}
