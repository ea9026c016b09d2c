"""Hooks: functions called with the gradient of a Variable when a backward pass has computed it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from adcompiler.errors import DtypeError, ShapeError

Hook = Callable[[Any], Any]
_numbers = itertools.count()


class Hooks:
    """The hooks of one Variable, in the order in which they were registered."""

    __slots__ = ("functions",)

    def __init__(self) -> None:
        self.functions: dict[int, Hook] = {}

    def add(self, function: Hook) -> Handle:
        """Register a function; the handle removes it. Raises DtypeError for what is none."""
        if not callable(function):
            raise DtypeError(
                f"a hook is a {type(function).__name__}", remedy="pass a function of the gradient"
            )
        number = next(_numbers)
        self.functions[number] = function
        return Handle(self, number)

    def __bool__(self) -> bool:
        return bool(self.functions)

    def __call__(self, name: str, gradient: Any) -> Any:
        """The gradient after all hooks: each sees what the one before returned, if that was not None."""
        for function in tuple(self.functions.values()):
            found = function(gradient)
            if found is not None:
                gradient = _checked(name, gradient, found)
        return gradient


def _checked(name: str, gradient: Any, found: Any) -> Any:
    if not isinstance(found, type(gradient)):
        raise DtypeError(
            f"a hook of {name} returned a {type(found).__name__}",
            remedy="return a Variable of the gradient's shape, or None to keep the gradient",
        )
    if found.shape != gradient.shape:
        raise ShapeError(
            f"a hook of {name} returned shape {found.shape} for a gradient of shape {gradient.shape}",
            remedy="return a Variable of the gradient's shape",
        )
    return found.astype(gradient.dtype)


class Handle:
    """What register_hook returns: `remove()` takes the hook away, as leaving a `with` does."""

    def __init__(self, hooks: Hooks, number: int) -> None:
        self._hooks, self._number = hooks, number

    def remove(self) -> None:
        """Take the hook away; again is harmless."""
        self._hooks.functions.pop(self._number, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()
