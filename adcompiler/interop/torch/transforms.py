"""`adc.vjp` and `adc.jvp` of tensors: PyTorch can differentiate and transform their results again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adcompiler.ad.programs.split import Pattern
from adcompiler.errors import GraphError, ShapeError
from adcompiler.frames import public
from adcompiler.interop.torch.functions import of
from adcompiler.interop.torch.memory import DTYPES, check_devices, plain, taken
from adcompiler.interop.torch.operation import At, derived, everything
from adcompiler.ir.types import Dtype
from adcompiler.pytree.structures import flatten, places_of, unflatten
from adcompiler.runtime.arguments.adapters import Converted
from adcompiler.runtime.programs.program import Program


def fit_tangent(name: str, value: Tensor, shape: Sequence[int], dtype: Dtype) -> Tensor:
    """A tangent in the dtype of its argument, whose shape it must have."""
    return _fitted(f"the tangent of {name}", value, tuple(shape), dtype, name)


def _fitted(what: str, value: Any, shape: tuple[int, ...], dtype: Dtype, of: str) -> Tensor:
    """A direction as the operand of a program: a tensor of a given shape."""
    found = taken(what, value if isinstance(value, Tensor) else torch.as_tensor(value))
    if tuple(found.shape) != shape:
        raise ShapeError(
            f"{what} has shape {tuple(found.shape)}, but {of} has {shape}", remedy="make them equal"
        )
    return found.to(DTYPES[dtype])


def pullback_of(
    function: Any, bound: Sequence[Any], wrt: Any
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """`adc.vjp`; PyTorch records the pullback's results as functions of the arguments and the cotangent."""
    (at, structure), values, types = of(function).located(bound)
    positions, inputs = function._wanted(wrt, types)
    asked = tuple([k in inputs for k in range(len(values))])
    saving = at.saving(asked)
    results = everything(saving, values)
    gradients = tuple(places_of(types[k]) for k in positions)
    pullback = Pullback(function, saving, [*values, *results], asked, (structure, gradients))
    wanted = results[: at.count]
    return wanted[0] if structure is None else unflatten(structure, wanted), pullback


class Pullback:
    """The pullback of a call with tensors. It refers to these tensors, and raises if one that it needs has
    been written to."""

    def __init__(
        self, function: Any, at: At, values: list[Any], asked: Pattern, nested: tuple[Any, Any]
    ) -> None:
        self.function, self.at, self.values, self.asked = function, at, values, asked
        self.structure, self.gradients = nested  # the structures of results and gradients
        self.versions = list(map(_version, values))

    @public
    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        """The cotangent of each input, None where it is known to be zero."""
        directions = self._directions(cotangent)
        present = tuple([d is not None for d in directions])
        if not any(present) or not any(self.asked):
            found: list[Any] = [None] * len(self.asked)
        else:
            pulled = self.at.derived(Program.pulled, present, self.asked)
            self._check(pulled[0].reads)
            found = derived(pulled, self.values, [d for d in directions if d is not None])
        flat = [g for g, here in zip(found, self.asked, strict=True) if here]
        gradients: tuple[Any, ...] = unflatten(self.gradients, flat)
        return gradients

    def _directions(self, cotangent: Any) -> list[Tensor | None]:
        """A cotangent for each result of the program, None for saved ones."""
        func, first = self.at.program.func, len(self.asked)
        if self.structure is None and isinstance(cotangent, tuple | list) and len(cotangent) == 1:
            cotangent = cotangent[0]
        given = [None] if cotangent is None else flatten(self.structure, cotangent, "the cotangent")
        if cotangent is None:
            given *= self.at.count
        found: list[Tensor | None] = [None] * len(func.results)
        for k, value in enumerate(given):
            name, result = func.result_names[k], self.values[first + k]
            if value is not None and self.at.program.differentiable[k]:
                shape, dtype = tuple(result.shape), func.results[k].dtype
                found[k] = _fitted(f"the cotangent of {name}", value, shape, dtype, "the result")
                check_devices((name, "its cotangent"), (result, found[k]), self.function)
        return found

    def _check(self, reads: Sequence[int]) -> None:
        func, names = self.at.program.func, self.at.program.names
        for k in reads:
            if _version(self.values[k]) != self.versions[k]:
                raise GraphError(
                    f"{names[k]} was written to after {func.name} was called, but its pullback needs it",
                    remedy=f"pass a copy to adc.vjp: {names[k]}.clone()",
                )


def wrapper(function: Any, bound: Sequence[Any]) -> Converted:
    """The wrapper of results of split functions and of SlangPy's styles: they are tensors without history."""
    return Converted(_tensor, _numbers)


def _numbers(name: str, value: Any) -> Any:
    """The memory of a tensor; anything else as it is."""
    return plain(name, value) if isinstance(value, Tensor) else value


def _tensor(value: Any) -> Any:
    """A NumPy array or a number as a tensor; anything else as it is."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        value = value.copy()
    is_numbers = isinstance(value, np.ndarray | np.generic | float | int)
    return torch.from_numpy(np.asarray(value)) if is_numbers else value


def _version(value: Any) -> int:
    """The number of writes to a tensor; tensors of inference mode do not count them."""
    return value._version if isinstance(value, Tensor) and not value.is_inference() else 0
