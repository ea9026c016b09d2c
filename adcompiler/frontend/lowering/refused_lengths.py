"""Lengths that values give count as 0 where a check refuses them, until it is raised after the program."""

from __future__ import annotations

from functools import reduce

from adcompiler.ir.bodies import Replace
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array, Element, Func, Input, Map, Read, const, select
from adcompiler.ir.walk import arrays_of, read_by
from adcompiler.ops.build import apply

ZERO = const(0, "i64")


def without_refused_lengths(func: Func) -> Func:
    """`func` with 0 for each length that values give, where a check that takes no loop does not hold.

    `linspace(0, 1, k[0]) * x[: k[1]]` is then refused at once where k[0] is 2**40: its loop is empty. Lengths
    within bodies of loops stay as they are.
    """
    numbers = [a for a in _lengths(func) if _is_scalar(a)]
    early = [c for c in func.checks if _is_scalar(c.holds)]
    if not numbers or not early:
        return func
    holds = (apply("not_equal", Read(c.holds, ()), ZERO) for c in early)
    sound = Read(Map((), reduce(lambda x, y: apply("logical_and", x, y), holds)), ())
    guarded: dict[Array, Array] = {a: Map((), select(sound, Read(a, ()), const(0, a.dtype))) for a in numbers}
    made = Replace(guarded).func(func)
    checks = (old if old in early else new for old, new in zip(func.checks, made.checks, strict=True))
    return made.with_(checks=tuple(checks))


def _lengths(func: Func) -> tuple[Array, ...]:
    """The arrays that the lengths of a program's arrays, sums and loops read."""
    lengths: list[Element] = []
    for array in arrays_of(func.roots):
        lengths += [*array.shape, *array.domain]
        if isinstance(array, Item) and array.loop.length is not None:
            lengths.append(array.loop.length)
    return read_by(lengths)


def _is_scalar(array: Array) -> bool:
    """Whether an array takes no loop to compute: a number, made of numbers and elements of inputs."""
    return all(isinstance(a, Input) or (isinstance(a, Map) and not a.rank) for a in arrays_of((array,)))
