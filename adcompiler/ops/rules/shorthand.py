"""The shorthand for entries of the table, with defaults for the usual case."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adcompiler.ops.rules.primitive import Interval, Kind, Primitive

Domain = tuple[Interval, ...]

ANY: Domain = ((-2.0, -0.1), (0.1, 2.0))
POSITIVE: Domain = ((0.1, 2.0),)
ABOVE_MINUS_ONE: Domain = ((-0.9, -0.1), (0.1, 2.0))
UNIT: Domain = ((-0.9, -0.1), (0.1, 0.9))
PROBABILITY: Domain = ((0.1, 0.45), (0.55, 0.9))


def scipy_special(name: str) -> Callable[..., Any]:
    """A function of scipy.special, imported when it is called: only references need SciPy."""

    def call(*args: Any) -> Any:
        from scipy import special

        return getattr(special, name)(*args).astype(args[-1].dtype)

    return call


def scipy_special_in_float64(name: str) -> Callable[..., Any]:
    """The same, computed in float64: some functions of float32 have fewer digits than that."""
    function = scipy_special(name)
    return lambda *args: function(*map(np.float64, args)).astype(args[-1].dtype)


def scalar(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of np.float64 numbers as one of arrays."""
    count = len(inspect.signature(function).parameters)
    each = np.frompyfunc(lambda *args: function(*map(np.float64, args)), count, 1)
    return lambda *args: np.asarray(each(*args)).astype(args[-1].dtype)[()]


def entry(
    name: str,
    params: str,
    partials: str | tuple[str, ...],
    doc: str,
    *domain: Domain,
    kind: Kind = "float",
    kernel: str = "",
    expand: str = "",
    numpy: Callable[..., Any] | None = None,
    sympy: str | None = "",
    orders: Sequence[int] | None = None,
    defaults: tuple[float, ...] = (),
) -> Primitive:
    """An entry of the table; by default NumPy, SymPy and `math` know it by its own name.

    `params` and, for one parameter, `partials` are plain texts; parameters without a domain are
    sampled from `ANY`.
    """
    names = tuple(params.split())
    if not kernel and not expand:
        kernel = f"math.{name}({', '.join(f'{{{p}}}' for p in names)})"
    return Primitive(
        name=name,
        params=names,
        doc=doc,
        kind=kind,
        partials=(partials,) if isinstance(partials, str) else partials,
        numpy=numpy or getattr(np, name),
        sympy=f"{name}({', '.join(names)})" if sympy == "" else sympy,
        domain=domain + (ANY,) * (len(names) - len(domain)),
        kernel=kernel,
        expand=expand,
        orders=orders,
        defaults=defaults,
    )
