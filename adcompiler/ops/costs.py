"""The cost of computing an element: whether to recompute or to store it."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from adcompiler.ir.nodes import Apply, Const, Element
from adcompiler.ir.walk import postorder
from adcompiler.ops.table import TABLE

CHEAP = frozenset(
    (
        "add",
        "subtract",
        "multiply",
        "negative",
        "minimum",
        "maximum",
        "abs",
        "square",
        "strict",
        "bool",
        "i64",
        "f32",
        "f64",
    )
)
INSTRUCTIONS = frozenset(("divide", "reciprocal", "sqrt", "rsqrt", "sign", "floor", "ceil", "trunc", "fma"))

# Functions by their time beside that of an exponential, as measured in loops over vectors: others take up to
# twice as long. A power is a logarithm and an exponential, both with more digits.
LONG = frozenset(
    ("power", "tanh", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "erf", "erfc", "remainder")
)
SERIES = frozenset(
    name
    for name, e in TABLE.items()
    if name in ("gamma", "lgamma") or e.kernel.startswith(("series.", "bessel.", "incomplete."))
)

Length = Callable[[Element], int]  # what a length is, or is taken to be
NOMINAL_LENGTH = 1000  # a length that no call has told yet, or that the program computes
NOMINAL_ROW = 32  # a length that is not known either, where parts of an array are compared with the whole
CHEAP_NANOSECONDS, COSTLY_NANOSECONDS = 0.1, 1.0  # nominal nanoseconds of an operation in a loop over vectors
LONG_NANOSECONDS = 2.5  # the same of functions that take three to ten times as long as an exponential
SERIES_NANOSECONDS = 20.0  # the same of functions computed number by number

WEIGHT = round(COSTLY_NANOSECONDS / CHEAP_NANOSECONDS)  # operations that a costly one counts as

# Instructions that take as long as a few simple operations.
FEW = MappingProxyType({"fma": 2, "floor": 2, "ceil": 2, "trunc": 2, "sign": 3})


def weight(op: str) -> int:
    """The operations that one counts as: nominal ones for what is costly."""
    return 1 if op in CHEAP else FEW.get(op, WEIGHT)


def nanoseconds(element: Element) -> float:
    """The nominal time of one operation."""
    if not is_costly(element):
        return CHEAP_NANOSECONDS
    assert isinstance(element, Apply)
    if element.op in SERIES:
        return SERIES_NANOSECONDS
    return LONG_NANOSECONDS if element.op in LONG else COSTLY_NANOSECONDS


def is_costly(element: Element) -> bool:
    """Whether an operation takes much longer than an addition."""
    return (
        isinstance(element, Apply)
        and element.op not in CHEAP
        and TABLE[element.op].kind in ("float", "arithmetic")
        and not _is_product(element)
    )


def _is_product(element: Apply) -> bool:
    """Whether a power is computed by at most two multiplications."""
    if element.op != "power":
        return False
    exponent = element.args[1]
    return isinstance(exponent, Const) and exponent.value in (0, 1, 2, 3, 4)


def is_function(element: Element) -> bool:
    """Whether an operation is a call of a function, not an instruction."""
    return is_costly(element) and isinstance(element, Apply) and element.op not in INSTRUCTIONS


def costly(element: Element, known: dict[Element, bool]) -> bool:
    """Whether computing `element` again costs more than a few simple operations.

    `known` remembers the answers, so that all elements of a program are looked at once.
    """
    for e in postorder((element,), lambda e: () if e in known else e.args):
        if e not in known:
            known[e] = is_costly(e) or any(known[a] for a in e.args)
    return known[element]
