"""The derivatives of arrays with a rule of their own: its cotangents, and its transpose for tangents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from adcompiler.ad.linearity import is_linear
from adcompiler.errors import GradientError
from adcompiler.ir.bodies import Replace, like, opened_rule
from adcompiler.ir.nodes import Array, zeros_like
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import arrays_of

Pull = Callable[[Sequence[Array], Sequence[Array | None], Sequence[Array]], list[Array | None]]


def reverse(array: Ruled, cotangent: Array, active: set[Array]) -> Iterator[tuple[Array, Array]]:
    """The contributions to the cotangents of what the array is made of."""
    wanted = [k for k, a in enumerate(array.args) if a in active]
    found = opened_rule(array, cotangent, [array.pulled[k] for k in wanted])
    yield from zip((array.args[k] for k in wanted), found, strict=True)


def forward(array: Ruled, tangents: Mapping[Array, Array], vjp: Pull) -> Array | None:
    """The tangent of the array. The rule is linear in the cotangent c, so that its transpose pushes:
    the sum over arguments of (rule(c) · tangent) has the tangent as its gradient by c.

    Raises GradientError if the rule is not linear in the cotangent: then there is no tangent.
    """
    moving = [k for k, a in enumerate(array.args) if a in tangents and is_float(a.dtype)]
    if not moving:
        return None
    place = like(array)
    pulled = opened_rule(array, place, [array.pulled[k] for k in moving])
    (tangent,) = vjp(pulled, [tangents[array.args[k]] for k in moving], [place])
    if tangent is None or place not in arrays_of((tangent,)):
        return zeros_like(array) if tangent is None else tangent
    if not is_linear(pulled, place):
        raise GradientError(
            "a rule is not linear in the cotangent, so that it has no forward mode",
            remedy="use reverse mode: grad, vjp, or hessian by nested grad",
        )
    # It depends on nothing but whether there is a cotangent: what a loop carries is made again, in vain.
    return Replace({place: zeros_like(place)}).run((tangent,))[0]
