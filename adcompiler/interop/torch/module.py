"""A compiled function as a module of PyTorch: some of its arguments are the module's parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adcompiler.api.transforms import compiled
from adcompiler.errors import DtypeError
from adcompiler.frames import public
from adcompiler.interop.torch.functions import of
from adcompiler.interop.torch.memory import taken
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.containers import Container, check_depth, opened
from adcompiler.runtime.arguments.signature import ArgumentError


@dataclass(frozen=True, slots=True)
class Kept:
    """A value that is not a tensor."""

    value: Any


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """A parameter, a buffer, or the submodule of a container, whose parts have their places in
    `container`."""

    key: str
    container: Container | None = None


class Module(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into
    """A compiled function of tensors that owns some of its arguments.

    values  the initial value of each argument that the module owns, by name: numbers, arrays, tensors, or
            dicts, lists, tuples, named tuples and dataclasses of these, nested

    Floats become `torch.nn.Parameter`s, and arrays of integers and booleans become buffers. Both are copies.
    `named_parameters()` and `state_dict()` name them by their paths, `p.layers.0.w`. Python's integers,
    strings and None are kept unchanged. A call takes the other arguments, in order or by name.

    Raises ArgumentError for a name that is not a parameter of the function, and DtypeError for a value that
    no program accepts.
    """

    @public
    def __init__(self, function: Any, **values: Any) -> None:
        super().__init__()
        names = compiled("adc.torch.Module", function)._names
        for name in values:
            if name not in names:
                what = f"{function.__name__} has no parameter {name!r}"
                raise ArgumentError(what, remedy=f"it takes ({', '.join(names)})")
        self.call = of(function)
        self.names = names
        self.free = [name for name in names if name not in values]
        self.owned = {name: _registered(self, name, value, name) for name, value in values.items()}

    def forward(self, *args: Any, **keywords: Any) -> Any:
        """The function of the arguments that the module does not own."""
        if len(args) > len(self.free):
            raise ArgumentError(
                f"the module got {len(args)} arguments", remedy=f"it takes ({', '.join(self.free)})"
            )
        given = dict(zip(self.free, args, strict=False))
        given.update({name: _read(self, place) for name, place in self.owned.items()})
        if not keywords and len(given) == len(self.names):
            return self.call(*[given[name] for name in self.names])
        return self.call(**given, **keywords)

    def extra_repr(self) -> str:
        """What `repr` writes of the module."""
        return f"{self.call.function!r}"


def _registered(
    home: torch.nn.Module, key: str, value: Any, path: str, depth: int = 0
) -> Kept | ParameterPlace:
    """Register the parts of a value as parameters and buffers of `home`."""
    if "." in key or not key or hasattr(home, key):
        why = "is the name of a part of the module" if hasattr(home, key) else "cannot be a name there"
        raise ArgumentError(f"{path}: {key!r} {why}", remedy="give it another name")
    container = None if isinstance(value, Tensor) else opened(value, path)
    if container is None:
        return _leaf(home, key, value, path)
    check_depth(depth, path)
    child = torch.nn.Module()
    home.add_module(key, child)
    pairs = zip(container.keys, container.parts, strict=True)
    places = [_registered(child, str(k), part, path + container.path(k), depth + 1) for k, part in pairs]
    return ParameterPlace(key, replace(container, parts=tuple(places)))


def _read(home: torch.nn.Module, place: Kept | ParameterPlace) -> Any:
    """The current value of an argument."""
    if isinstance(place, Kept):
        return place.value
    found = getattr(home, place.key)
    if place.container is None:
        return found
    return place.container.build([_read(found, part) for part in place.container.parts])


def _leaf(home: torch.nn.Module, key: str, value: Any, path: str) -> Kept | ParameterPlace:
    if value is None or isinstance(value, str | bool) or type(value) is int:
        return Kept(value)
    try:
        tensor = value.detach().clone() if isinstance(value, Tensor) else torch.tensor(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise DtypeError(
            f"{path} is not an array: {error}", remedy="pass numbers, arrays or tensors"
        ) from error
    tensor = taken(path, tensor)
    if tensor.is_floating_point():
        wanted = not isinstance(value, torch.nn.Parameter) or value.requires_grad
        home.register_parameter(key, torch.nn.Parameter(tensor, requires_grad=wanted))
    else:
        home.register_buffer(key, tensor)
    return ParameterPlace(key)
