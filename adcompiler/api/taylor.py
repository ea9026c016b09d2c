"""`taylor`: all derivatives of a function along a line, in one program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adcompiler.ad.taylor import taylor as differentiate
from adcompiler.api.function import Function
from adcompiler.api.limits import MOST_COEFFICIENTS
from adcompiler.api.modes import as_tuple
from adcompiler.api.transforms import Derived, compiled
from adcompiler.errors import Error, ShapeError
from adcompiler.frames import public
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Input, zeros_like
from adcompiler.public_types import Values
from adcompiler.pytree.kinds import Types
from adcompiler.runtime.arguments.signature import Parameter, bind
from adcompiler.runtime.arguments.tangents import like


class Line(Derived):
    """The value and its derivatives: takes the arguments, then a direction for each parameter in `wrt`."""

    def __init__(self, of: Function, wrt: tuple[int, ...], order: int) -> None:
        names = [of._parameters[k].name for k in wrt]
        fresh = distinct([f"d{n}" for n in names], [p.name for p in of._parameters])
        super().__init__(of, wrt, f"taylor{order}", tuple(Parameter(n, False, False) for n in fresh))
        self.order = order

    def _trace(self, types: Types) -> Lowered:
        count = len(self._of._parameters)
        lowered = self._of._trace(types[:count])
        func = lowered.func
        primals = [func.inputs[k] for k in self._of._inputs_of(self._wrt, types[:count])]
        ways = [Input(len(func.inputs) + p, i.dtype, i.shape) for p, i in enumerate(primals)]
        found = differentiate(func.results, dict(zip(primals, ways, strict=True)), self.order)
        results, labels = list(func.results), list(func.result_names)
        for k in range(self.order):
            derivatives = [made[k] for made in found]
            pairs = zip(func.results, derivatives, strict=True)
            results += [zeros_like(r) if d is None else d for r, d in pairs]
            labels += [f"d{k + 1}{name}" for name in func.result_names]
        names = [p.name for p in self._parameters[count:]]
        made_func = func.extended(self.__name__, ways, names, results, labels)
        return self._lowered(lowered, made_func, (lowered.structure,) * (self.order + 1))


@public
def taylor(
    f: Function, args: Sequence[Values], direction: Sequence[Values], order: int
) -> tuple[Values, ...]:
    """The derivatives of t ↦ f(args + t * direction) at 0: (value, first, second, ..., of `order`).

    They are derivatives, not coefficients of the Taylor series: divide that of order k by k! for these.
    `direction` has one entry for each argument, shaped like it; None means zero. Each derivative is
    structured like the result of `f`. Cost grows with the square of the order. Raises ShapeError for a
    direction of another shape, DtypeError for one of an argument that is not a float, Error for an order
    that is not an integer from 1 to 20.
    """
    args, direction = as_tuple("taylor", "args", args), as_tuple("taylor", "direction", direction)
    if not isinstance(order, int) or not 1 <= order <= MOST_COEFFICIENTS:
        raise Error(f"taylor of order {order!r}", remedy=f"use an integer from 1 to {MOST_COEFFICIENTS}")
    if len(args) != len(direction):
        raise ShapeError(
            f"{len(args)} arguments but {len(direction)} directions",
            remedy="pass a direction for each argument; None means zero",
        )
    f = compiled("taylor", f)
    args = bind(f.__name__, f._parameters, args, {})
    direction = (*direction, *[None] * (len(args) - len(direction)))
    types, values, _ = f._describe(args, {})
    wrt = f._positions(tuple(k for k, d in enumerate(direction) if d is not None), types)
    floats = {k: [values[n] for n in f._inputs_of((k,), types)] for k in wrt}
    line = f._derived(("taylor", wrt, order), lambda: Line(f, wrt, order))
    ways = (like(direction[k], floats[k], types[k], f._parameters[k].name) for k in wrt)
    found: tuple[Any, ...] = line(*args, *ways)
    return found
