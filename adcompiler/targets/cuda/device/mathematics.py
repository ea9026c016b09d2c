"""NumPy's scalar functions on the device: generated kernels import this module as `np`.

numba-cuda lacks kernels for many of NumPy's ufuncs; libdevice has them all, for both float types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
from numba.cuda import libdevice, types
from numba.cuda.extending import overload

from adcompiler.loopir.intrinsics import FUNCTIONS

bool_, int32, int64, uint64 = numpy.bool_, numpy.int32, numpy.int64, numpy.uint64
float32, float64 = numpy.float32, numpy.float64
inf, nan, pi = numpy.inf, numpy.nan, numpy.pi


def _unary(name: str) -> Callable[[Any], Any]:
    """A libdevice function selected by the type of its argument; integers are unchanged."""
    wide, narrow = getattr(libdevice, name), getattr(libdevice, f"{name}f")

    def function(x: Any) -> Any:
        raise NotImplementedError

    @overload(function, strict=False)
    def choose(x: Any) -> Callable[[Any], Any]:
        if x == types.float32:
            return lambda x: narrow(x)
        if x == types.float64:
            return lambda x: wide(x)
        return lambda x: wide(float64(x))

    return function


def _binary(name: str) -> Callable[[Any, Any], Any]:
    return binary(getattr(libdevice, name), getattr(libdevice, f"{name}f"))


def binary(wide: Callable[[Any, Any], Any], narrow: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The narrow function for two float32 numbers, otherwise the wide one."""

    def function(x: Any, y: Any) -> Any:
        raise NotImplementedError

    @overload(function, strict=False)
    def choose(x: Any, y: Any) -> Callable[[Any, Any], Any]:
        if x == y == types.float32:
            return lambda x, y: narrow(x, y)
        return lambda x, y: wide(float64(x), float64(y))

    return function


def _whole(name: str) -> Callable[[Any], Any]:
    """A rounding function; integers are unchanged."""
    rounded = _unary(name)

    def function(x: Any) -> Any:
        raise NotImplementedError

    @overload(function, strict=False)
    def choose(x: Any) -> Callable[[Any], Any]:
        return (lambda x: x) if isinstance(x, types.Integer | types.Boolean) else (lambda x: rounded(x))

    return function


OF_DEVICE = {f.name: (_whole if f.device == "rounding" else _unary)(f.name) for f in FUNCTIONS if f.device}
globals().update(OF_DEVICE)
fmod, copysign = _binary("fmod"), _binary("copysign")


def sign(x: Any) -> Any:
    """-1, 0 or 1, of the argument's type; NaN for NaN."""
    raise NotImplementedError


@overload(sign, strict=False)
def _sign(x: Any) -> Callable[[Any], Any]:
    kind = float32 if x == types.float32 else float64 if x == types.float64 else int64
    return lambda x: kind(1) if x > 0 else kind(-1) if x < 0 else kind(x)


def signbit(x: Any) -> Any:
    """Whether a float has its sign bit set."""
    raise NotImplementedError


@overload(signbit, strict=False)
def _signbit(x: Any) -> Callable[[Any], Any]:
    return lambda x: libdevice.copysign(1.0, float64(x)) < 0
