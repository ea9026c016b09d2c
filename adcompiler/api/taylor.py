"""`taylor`: all derivatives of a function along a line, in one program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adcompiler.ad.taylor import taylor as differentiate
from adcompiler.api.function import Function
from adcompiler.api.limits import MOST_COEFFICIENTS
from adcompiler.api.modes import directed, paired
from adcompiler.api.transforms import Derived, compiled
from adcompiler.errors import Error
from adcompiler.frames import public
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.ir.nodes import Input, zeros_like
from adcompiler.public_types import Values
from adcompiler.pytree.kinds import Types


class Line(Derived):
    """The value and its derivatives: takes the arguments, then a direction for each parameter in `wrt`."""

    def __init__(self, of: Function, wrt: tuple[int, ...], order: int) -> None:
        super().__init__(of, wrt, f"taylor{order}", [f"d{of._parameters[k].name}" for k in wrt])
        self.order = order

    def _trace(self, types: Types) -> Lowered:
        own, _ = self._parted(types)
        lowered = self._of._trace(own)
        func = lowered.func
        primals = [func.inputs[k] for k in self._of._inputs_of(self._wrt, own)]
        ways = [Input(len(func.inputs) + p, i.dtype, i.shape) for p, i in enumerate(primals)]
        found = differentiate(func.results, dict(zip(primals, ways, strict=True)), self.order)
        results, labels = list(func.results), list(func.result_names)
        for k in range(self.order):
            derivatives = [made[k] for made in found]
            pairs = zip(func.results, derivatives, strict=True)
            results += [zeros_like(r) if d is None else d for r, d in pairs]
            labels += [f"d{k + 1}{name}" for name in func.result_names]
        made_func = func.extended(self.__name__, ways, self._more, results, labels)
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
    args, direction = paired("taylor", args, "direction", direction)
    if not isinstance(order, int) or not 1 <= order <= MOST_COEFFICIENTS:
        raise Error(f"taylor of order {order!r}", remedy=f"use an integer from 1 to {MOST_COEFFICIENTS}")
    f = compiled("taylor", f)
    args, given = directed(f, args, direction)
    wrt = tuple(given)
    line = f._derived(("taylor", wrt, order), lambda: Line(f, wrt, order))
    found: tuple[Any, ...] = line(*args, *given.values())
    return found
