"""A compiled function of tensors: from a call's arguments to a flat program, and from its results back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adcompiler.errors import DtypeError
from adcompiler.frames import public
from adcompiler.interop.programs import Program
from adcompiler.interop.torch.memory import NAMES, taken
from adcompiler.interop.torch.operation import At, perform
from adcompiler.ir.types import NUMPY
from adcompiler.runtime.signature import bind
from adcompiler.runtime.specialise import Types
from adcompiler.syntax.containers import mapped
from adcompiler.syntax.structures import Column, arrays_of, unflatten


def of(function: Any) -> TorchFunction:
    """A compiled function for PyTorch; the same one for each function."""
    made: TorchFunction = function.derived("torch", lambda: TorchFunction(function))
    return made


class TorchFunction:
    """A compiled function of tensors, numbers and arrays, or containers of these; it returns tensors."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.__name__ = self.__qualname__ = function.__name__
        self.__doc__ = function.__doc__
        self.programs: dict[Types, Program] = {}

    def __repr__(self) -> str:
        return f"<{self.function!r} for PyTorch>"

    @public
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        function = self.function
        bound = bind(function.__name__, function.parameters, args, keywords)
        at, values, structure = self.described(bound)
        return unflatten(structure, perform(at, values))

    def described(self, bound: Sequence[Any]) -> tuple[At, list[Any], Any]:
        """The program of a call, at its lengths; the tensors and numbers that it takes; how results nest."""
        function = self.function
        pairs = zip(function.parameters, bound, strict=True)
        given = [a if p.static else mapped(partial(_taken, f"the argument {p.name!r}"), a) for p, a in pairs]
        types, arrays, _ = function.describe([mapped(_stand_in, a) for a in given], {})
        leaves = arrays_of(types, given)
        values = [_value(leaf, array) for leaf, array in zip(leaves, arrays, strict=True)]
        specialisation = function.specialise(types, arrays)
        if types not in self.programs:
            made = Program(specialisation.func, function.backend, origin=specialisation)
            self.programs.setdefault(types, made)
        return (
            At(self.programs[types], tuple(specialisation.sizes(values))),
            values,
            specialisation.lowered.structure,
        )


def _taken(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return taken(name, value)
    if hasattr(value, "__adc_call__"):
        raise DtypeError(
            f"{name} is a {type(value).__name__}, and another one is a tensor",
            remedy="pass tensors alone, or Variables alone: torch.from_numpy(v.value), or x.detach().numpy()",
        )
    return value


def _stand_in(value: Any) -> Any:
    """What describes a tensor: its type and shape are all that matters."""
    if not isinstance(value, Tensor):
        return value
    return np.broadcast_to(np.zeros((), NUMPY[NAMES[value.dtype]]), tuple(value.shape))


def _value(leaf: Any, array: Any) -> Any:
    """What a program takes for a leaf of a call: a tensor where one was given."""
    if isinstance(leaf, Tensor):
        return leaf
    if isinstance(leaf, Column) and any(isinstance(item, Tensor) for item in leaf):
        return torch.stack([torch.as_tensor(item) for item in leaf])
    return array
