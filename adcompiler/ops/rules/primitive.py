"""The fields of an entry of the rule table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from adcompiler.lazy_dataclass import dataclass

Kind = Literal["arithmetic", "float", "bool", "logical", "integer"]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive: everything that any part of the compiler knows about it.

    name      as it stands in programs and in the IR
    params    names of its parameters, as used by `partials`, `kernel`, `expand` and `sympy`
    doc       one line, with the convention at kinks and edges where there is one
    kind      how types combine: `arithmetic` keeps the promoted type (bool counts as int64),
              `float` computes in floats, `bool` compares in the promoted type, `logical` takes
              booleans, `integer` takes integers only
    partials  one text for each parameter, in the language itself: the partial derivative in terms
              of the parameters and of the result `r`; "0" where it is zero everywhere;
              empty for primitives whose result carries no derivative (comparisons)
    numpy     the reference: takes and returns arrays of the promoted type
    kernel    the expression of a scalar kernel, a Python format text in the parameters
    expand    in place of `kernel`: a text in the language that says it with other primitives
    sympy     the SymPy form, a text in the parameters; None where SymPy has none
    domain    for each parameter the intervals from which tests sample, clear of kinks and edges
    orders    the integers that the first parameter may be, if it is an order: a number known
              at compile time, by which nothing is differentiated
    defaults  what the last parameters are where a call leaves them out
    """

    name: str
    params: tuple[str, ...]
    doc: str
    kind: Kind
    partials: tuple[str, ...]
    numpy: Callable[..., Any]
    sympy: str | None
    domain: tuple[tuple[Interval, ...], ...]
    kernel: str = ""
    expand: str = ""
    orders: Sequence[int] | None = None
    defaults: tuple[float, ...] = ()

    @property
    def differentiable(self) -> bool:
        """Whether the result carries a derivative at all."""
        return bool(self.partials)
