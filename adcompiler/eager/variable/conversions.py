"""What takes numbers and plain arrays, which remember no computation, out of a Variable.

Where they were taken is remembered for messages (`provenance.py`).
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from adcompiler.eager.graph.graph import refuse_packed
from adcompiler.eager.graph.provenance import take, take_array
from adcompiler.eager.variable.operators import Operators
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.ir.types import NUMPY
from adcompiler.runtime.arguments.adapters import as_numpy
from adcompiler.runtime.arguments.refused import masked, refuse_masked
from adcompiler.runtime.arguments.signature import DTYPE_OF


class Conversions(Operators):
    """The ways from a Variable to numbers and arrays."""

    data: np.ndarray
    name: str

    def numpy(self) -> np.ndarray:
        """A copy of the values: a plain array, free to be changed."""
        copy = self.data.copy()
        take_array(".numpy()", copy, self)
        return copy

    def tolist(self) -> Any:
        """The values as Python numbers, in lists within lists."""
        return self.numpy().tolist()

    def item(self) -> Any:
        """The one value, as a Python number. Raises ShapeError if there are more."""
        try:
            number = self.data.item()
        except ValueError:
            raise self._several() from None
        take(".item()", number, self)
        return number

    def __float__(self) -> float:
        try:
            number = self.data.item()
        except ValueError:
            raise self._several() from None
        take("float()", number := float(number), self)
        return number

    def __int__(self) -> int:
        try:
            number = self.data.item()
        except ValueError:
            raise self._several() from None
        take("int()", number := int(number), self)
        return number

    def __index__(self) -> int:
        if self.data.dtype.kind not in "iu":
            raise DtypeError(
                f"{self.name} holds {self.data.dtype}: only an integer is an index", remedy="write int(x)"
            )
        if self.data.size != 1:
            raise self._several()
        return int(self.data.item())

    def __bool__(self) -> bool:
        if self.data.size != 1:
            raise self._several()
        return bool(self.data.item())

    def __format__(self, spec: str) -> str:
        """One number as its Python number: f"{loss:.4f}"; arrays as `str` has them, without a format."""
        if spec and self.data.ndim:
            raise self._several()
        return format(self.data.item(), spec) if spec else str(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = np.array(self.data, dtype) if copy else np.asarray(self.readable(), dtype)
        take_array("np.asarray()", found, self)
        return found

    @property
    def _data(self) -> NoReturn:
        """What masked arrays ask an operand for: their operators would take its values, and no graph."""
        raise masked(f"an operand of {self.name}")

    def readable(self) -> np.ndarray:
        """The values as an array that cannot be written."""
        view = self.data.view()
        view.flags.writeable = False
        return view

    def _several(self) -> ShapeError:
        return ShapeError(
            f"{self.name} of shape {self.data.shape} is not one number", remedy="reduce it: sum() or mean()"
        )


def array_of(value: Any) -> np.ndarray:
    """A copy of a value, in a type that kernels take."""
    refuse_masked("the value of a Variable", value)
    refuse_packed("the value of a Variable", value)
    given = as_numpy("the value of a Variable", value)
    try:
        array = np.array(float(given) if type(given) is int else given)
        if type(value) is list and array.dtype.kind in "iu":
            array = array.astype(float)
    except (ValueError, TypeError, OverflowError) as error:
        raise DtypeError(f"a Variable cannot hold this: {error}", remedy="pass numbers or arrays") from error
    kind = DTYPE_OF.get(array.dtype.char)
    if kind is None:
        raise DtypeError(
            f"a Variable cannot hold a {type(value).__name__} of dtype {array.dtype}",
            remedy="pass bool, integer, float32 or float64 values",
        )
    return array.astype(NUMPY[kind], copy=False)
