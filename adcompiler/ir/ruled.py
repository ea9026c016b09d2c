"""Arrays with a user-defined derivative rule."""

from __future__ import annotations

from adcompiler.ir.loop import Slot, inside
from adcompiler.ir.nodes import Array


class Ruled(Array):
    """The array `value`, whose cotangents are given: `pulled`, one for each of `args`, as a closed program.

    Its inputs are `Slot`s: first the args, then the value, then the value's cotangent, in which it is linear.
    `value` is made of `args` and of constants alone; numbers that lengths read are among the args. Passes
    that differentiate follow the rule; before kernels are made the array becomes its value
    (passes/arrays/inline_rules.py).
    """

    __slots__ = ("args", "pulled", "value")
    fields = ("value", "args", "pulled")
    value: Array
    args: tuple[Array, ...]
    pulled: tuple[Array, ...]

    def _derive(self) -> None:
        super()._derive()
        self.dtype, self.shape = self.value.dtype, self.value.shape

    @property
    def operands(self) -> tuple[Array, ...]:
        """The arrays that it is made of."""
        return (self.value, *self.args)

    @property
    def roots(self) -> tuple[Array, ...]:
        """The values that the rule computes."""
        return self.pulled


def slots_of(value: Array, args: tuple[Array, ...]) -> tuple[Slot, ...]:
    """The inputs of the rule of a value that is made of `args`; a length that reads an arg reads its slot."""
    places = {a: Slot(k, a.dtype, ()) for k, a in enumerate(args) if not a.rank}
    return tuple(
        Slot(k, a.dtype, tuple(inside(n, places) for n in a.shape))
        for k, a in enumerate((*args, value, value))
    )
