"""Builtins written in the language itself; their arguments are checked beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from adcompiler.errors import Source, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.parse import parse
from adcompiler.frontend.values import rearranging
from adcompiler.frontend.values.builtin_arguments import Builtin, builtin
from adcompiler.frontend.values.operations import Context, over
from adcompiler.frontend.values.values import AnyValue, Closure, Value
from adcompiler.ir.types import as_float
from adcompiler.ops.build import cast

# N. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005): the approximant of
# degree 13 is accurate to rounding for norms up to 5.37. The number of halvings has no derivative, since the
# result does not depend on it. A matrix that is not finite is not halved.
TEXT = """
def expm(a):
    i = eye(a.shape[-1])
    halved = max(0.0, ceil(log2(max(sum(abs(a), axis=-2)) / 5.371920351148152)))
    halved = halved if halved < 1100 else 0.0
    x = a * exp2(-halved)
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    high = x6 @ (x6 + 16380.0 * x4 + 40840800.0 * x2)
    low = 33522128640.0 * x6 + 10559470521600.0 * x4 + 1187353796428800.0 * x2 + 32382376266240000.0 * i
    odd = x @ (high + low)
    high = x6 @ (182.0 * x6 + 960960.0 * x4 + 1323241920.0 * x2)
    low = 670442572800.0 * x6 + 129060195264000.0 * x4 + 7771770303897600.0 * x2 + 64764752532480000.0 * i
    even = high + low
    r = solve(even - odd, even + odd)
    k = 0.0
    while k < halved:
        r = r @ r
        k = k + 1.0
    return r


def gammainc(given, at, upper):
    # The series where x < a + 1, Legendre's continued fraction (Lentz's method) of the rest beyond. Points
    # outside of the domain take the place of an easy one, so that the loops end.
    inside = (given >= 0) and (given < inf) and (at >= 0) and (given > 0 or at > 0)
    a, x = where(inside, given, 1.0), where(inside, at, 1.0)
    near = x < a + 1.0
    z = where(near, x, 0.5 * a + 0.25)
    term = 1.0 + 0.0 * z
    total = term
    k = 0.0
    while k < 1e6 and max(abs(term / total)) > 1e-20:
        k = k + 1.0
        term = term * z / (a + k)
        total = total + term
    rest = -z - lgamma(a + 1.0)
    scale = where(a < 30.0, z**a * exp(rest), exp(a * log(where(z > 0, z, 1e-300)) + rest))
    below = scale * total
    # 1 for a = 0, to the last bit
    below = below + where(a > 0, 0.0, rint((1.0 - below) * 2.0**60) * 2.0**-60)
    y = where(near, a + 2.0, minimum(x, 1e15))
    b = y + 1.0 - a
    c = 1e300 + 0.0 * b
    d = 1.0 / b
    h = d
    j = 0.0
    more = 12.0
    while j < 1e6 and more > 0:
        j = j + 1.0
        by = j * (a - j)
        b = b + 2.0
        d = 1.0 / (by * d + b)
        c = b + by / c
        h = h * c * d
        more = more - 1.0 if max(abs(c * d - 1.0)) < 4e-16 else 12.0
    above = a * exp(a * log(y) - y - lgamma(a + 1.0)) * h
    found = where(near, 1.0 - below, above) if upper else where(near, below, 1.0 - above)
    endless = (given == inf) and (at >= 0) and (at < inf)
    found = where(endless, 1.0 if upper else 0.0, found)
    return where(endless or (inside and k < 1e6 and j < 1e6), found, nan * (given + at))


def betainc(one, other, at):
    # The continued fraction (Lentz's method) on the side of the mean where it converges fast.
    within = (one >= 0) and (other >= 0) and (at >= 0) and (at <= 1)
    inside = within and (one < inf) and (other < inf) and (one > 0 or other > 0)
    a, b, x = where(inside, one, 1.0), where(inside, other, 1.0), where(inside, at, 0.5)
    left = x < (a + 1.0) / (a + b + 2.0)
    p, q, z = where(left, a, b), where(left, b, a), where(left, x, 1.0 - x)
    c = 1.0 + 0.0 * (p + q + z)
    d = 1.0 / (1.0 - (p + q) * z / (p + 1.0))
    h = d
    k = 0.0
    more = 12.0
    while k < 1e6 and more > 0:
        k = k + 1.0
        even = k * (q - k) * z / ((p + 2.0 * k - 1.0) * (p + 2.0 * k))
        d = 1.0 / (1.0 + even * d)
        c = 1.0 + even / c
        h = h * c * d
        odd = -(p + k) * (p + q + k) * z / ((p + 2.0 * k) * (p + 2.0 * k + 1.0))
        d = 1.0 / (1.0 + odd * d)
        c = 1.0 + odd / c
        h = h * c * d
        more = more - 1.0 if max(abs(c * d - 1.0)) < 4e-16 else 12.0
    rest = q * log1p(-z) - lbeta(p + 1.0, q + 1.0)
    scale = where(p < 30.0, z**p * exp(rest), exp(p * log(where(z > 0, z, 1e-300)) + rest))
    part = q / (p + q) * scale / (p + q + 1.0) * h
    # 1 for p = 0, to the last bit
    part = part + where(p > 0, 0.0, rint((1.0 - part) * 2.0**60) * 2.0**-60)
    found = where(left, part, 1.0 - part)
    # All of it is at 0, or at 1.
    first = (one == 0 and other > 0) or (other == inf and one < inf)
    last = (other == 0 and one > 0) or (one == inf and other < inf)
    edge = within and ((first and (other == inf or at == 0)) or (last and (one == inf or at == 1)))
    found = where(edge, where(first, at > 0, at == 1), found)
    return where(edge or (inside and k < 1e6), found, nan * (one + other + at))
"""


@cache
def _definitions() -> dict[str, tree.Def]:
    return {s.name: s for s in parse(TEXT).statements if isinstance(s, tree.Def)}


def called(context: Context, name: str, args: list[AnyValue], span: Span) -> AnyValue:
    """The value of one of these functions."""
    closure = Closure(_definitions()[name], {}, Source(TEXT, "<prelude>"))
    return context.invoke(closure, args, {}, span)


def _of(name: str, text: str, *more: AnyValue) -> Callable[..., AnyValue]:
    def operation(context: Context, *given: Any) -> AnyValue:
        *args, span = given
        values = [rearranging.array(context, name, x, span) for x in args]
        dtype, weak = context.meet(values)
        shape = context.broadcast(name, values, span)
        wide = [Value(shape, over(v, shape, "f64")) for v in values]
        inside = _inside(context, wide, span)
        found = called(context, text, [*inside, *more], span)
        return Value(found.shape, cast(found.element, as_float(dtype)), weak)

    return operation


def _inside(context: Context, values: list[Value], span: Span) -> list[Value]:
    """The arguments as separate arrays, because loops read them repeatedly."""
    return [context.bind(f"x{k}", value, span) for k, value in enumerate(values)]


_OPERATIONS: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "gammainc": (("a", "x"), _of("gammainc", "gammainc", False)),
    "gammaincc": (("a", "x"), _of("gammaincc", "gammainc", True)),
    "betainc": (("a", "b", "x"), _of("betainc", "betainc")),
}
INCOMPLETE: Mapping[str, Builtin] = {
    name: builtin(name, params, operation) for name, (params, operation) in _OPERATIONS.items()
}
