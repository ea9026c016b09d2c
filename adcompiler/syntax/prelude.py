"""Functions of the language that are written in the language; what they are given is checked before."""

from __future__ import annotations

from functools import cache

from adcompiler.errors import Source, Span
from adcompiler.syntax import tree
from adcompiler.syntax.context import Context
from adcompiler.syntax.parse import parse
from adcompiler.syntax.values import AnyValue, Closure

# N. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005): the approximant of
# degree 13 is right to rounding for norms up to 5.37. How often is halved has no derivative, as no result
# depends on it. A matrix that is not finite is not halved at all.
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
"""


@cache
def _definitions() -> dict[str, tree.Def]:
    return {s.name: s for s in parse(TEXT).statements if isinstance(s, tree.Def)}


def called(context: Context, name: str, args: list[AnyValue], span: Span) -> AnyValue:
    """The value of one of these functions."""
    closure = Closure(_definitions()[name], {}, Source(TEXT, "<prelude>"))
    return context.invoke(closure, args, {}, span)
