"""What specialisation knows about an argument: its type, its value if it is static, or its parts."""

from __future__ import annotations

from typing import Any, TypeAlias

from adcompiler.ir.types import Dtype
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.containers import Container


@dataclass(frozen=True, slots=True)
class ArgType:
    """The part of an argument that specialisation uses: its type, and which axes have length 1.

    `weak` marks Python scalars: they take the type of the arrays they are combined with, as in NumPy 2.
    `open` marks lists of integers: floats, unless the program needs integers
    (`runtime/programs/integer_lists.py`). `width` is NumPy's type of integers of fewer than 64 bits.
    """

    dtype: Dtype
    ones: tuple[bool, ...] = ()
    weak: bool = False
    open: bool = False
    width: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Static:
    """An argument known at compile time; 2, 2.0 and True are different ones, and so are 0.0 and -0.0."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and _distinct(self.value) == _distinct(other.value)

    def __hash__(self) -> int:
        return hash(_distinct(self.value))


def _distinct(value: Any) -> Any:
    """What tells a value from all that means something else to a program."""
    if isinstance(value, tuple):
        return tuple, tuple([_distinct(part) for part in value])
    return type(value), value.hex() if isinstance(value, float) else value


Kind: TypeAlias = ArgType | Static | Container  # what a program knows of an argument
Types: TypeAlias = tuple[Kind, ...]  # of all arguments of a call
