"""A compiled function of tensors: from a call's arguments to a flat program, and from its results back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils._pytree import register_constant

from adcompiler.errors import DtypeError
from adcompiler.frames import public
from adcompiler.interop.torch import opaque
from adcompiler.interop.torch.dynamo import Guarded
from adcompiler.interop.torch.memory import NAMES, check_devices, is_opaque, taken
from adcompiler.interop.torch.operation import At, perform, refuse_trace
from adcompiler.ir.types import NUMPY
from adcompiler.passes.known_lengths import NOTHING
from adcompiler.pytree.kinds import Types
from adcompiler.pytree.structures import Column, unflatten
from adcompiler.runtime.arguments.signature import with_leaves
from adcompiler.runtime.programs.call_sites import CallSites
from adcompiler.runtime.programs.program import Program

Site = tuple[At, Any]  # the program of a call, at its lengths, and the structure of the results


def of(function: Any) -> TorchFunction:
    """A compiled function for PyTorch; the same one for each function."""
    made: TorchFunction = function._derived("torch", lambda: TorchFunction(function))
    return made


class TorchFunction(Guarded):
    """A compiled function of tensors, numbers and arrays, or containers of these; it returns tensors."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.__name__ = self.__qualname__ = function.__name__
        self.__doc__ = function.__doc__
        self.by_value = any(p.static for p in function._parameters)
        self.sites: CallSites[Site] = CallSites(tensor_key)

    def __reduce__(self) -> tuple[Any, ...]:
        return of, (self.function,)

    def __deepcopy__(self, memo: Any) -> TorchFunction:
        return self

    def __repr__(self) -> str:
        return f"<{self.function!r} for PyTorch>"

    @public
    def call(self, *args: Any, **keywords: Any) -> Any:
        """The results for tensors, nested like the function's."""
        return self.call_in_order(self.function._in_order(args, keywords))

    def call_in_order(self, args: Sequence[Any]) -> Any:
        """A call with the arguments in order."""
        key, leaves = self.key(args)
        site = self.sites.find(key)
        if site is None:
            site, leaves = self.described(args, key, leaves)
        return _nested(site, leaves)

    def entered(self, args: Sequence[Any]) -> Any:
        """A call of the compiled function itself; later calls with tensors take the fast path."""
        found = self.call_in_order(args)
        self.function.__call__ = self.fast_path
        return found

    @public
    def fast_path(self, *args: Any, **keywords: Any) -> Any:
        """The fast path for calls after one with tensors."""
        key, leaves = (None, args) if keywords else self.key(args)
        site = self.sites.find(key)
        return self.function._call(*args, **keywords) if site is None else _nested(site, leaves)

    def key(self, args: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        """The key of a call among the sites, and the leaves of its arguments."""
        symbols = self.by_value or torch._C._len_torch_dispatch_stack()  # lengths may be symbols
        return (None, args) if symbols else self.sites.key(args)

    def described(self, bound: Sequence[Any], key: Any, plain: Sequence[Any]) -> tuple[Site, list[Any]]:
        """The site of a call, and the tensors and numbers that its program takes. `plain` are the leaves of
        the arguments."""
        site, values, types = self.located(bound)
        found = self.function._specialise(types)
        if all(type(n) is int for n in site[0].sizes) and not found.func.counts:
            self.sites.keep(key, plain, values, lambda: site)
        return site, values

    def located(self, bound: Sequence[Any]) -> tuple[Site, list[Any], Types]:
        """The site of a call, the operands of its program, and the types of the arguments."""
        types, values, found = self.prepared(bound)
        known = all(type(n) is int for v in values if isinstance(v, Tensor) for n in v.shape)
        sizes = found.sizes(values) if known else opaque.lengths(found, values)
        program = found.for_lengths(found.lengths.all_known(sizes) if known else NOTHING)
        at = At(program, tuple(sizes), any(map(is_opaque, values)))
        return (at, found.structure), values, types

    def prepared(self, bound: Sequence[Any]) -> tuple[Types, list[Any], Program]:
        """The types of arguments, the operands of the program, and the program for these types."""
        function = self.function
        if torch._C._get_tracing_state():
            refuse_trace()
        call = function._describe(with_leaves(function._parameters, bound, _taken), stand_in=stand_in)
        found = function._specialise(call.types, call.values)
        values = [_value(leaf, array) for leaf, array in zip(call.leaves, call.values, strict=True)]
        check_devices(found.func.input_names, values, self.function)
        return call.types, values, found


register_constant(TorchFunction)  # so Dynamo compares its objects


def _nested(site: Site, values: Sequence[Any]) -> Any:
    """The results of a call, in their structure."""
    at, structure = site
    found = perform(at, values)
    return found[0] if structure is None else unflatten(structure, found)


def tensor_key(a: Any) -> tuple[Any, ...] | None:
    """The part of a call's key that a tensor has which programs take; None for anything else."""
    if (
        type(a) not in (Tensor, Parameter)
        or a.dtype not in NAMES
        or a.layout is not torch.strided
        or a.is_nested
    ):
        return None
    return (a.dtype, a.shape) if a.is_cpu else (a.dtype, a.shape, a.device)


def _taken(path: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return taken(f"the argument {path!r}", value)
    if hasattr(value, "__adc_call__"):
        raise DtypeError(
            f"the argument {path!r} is a {type(value).__name__}, but another one is a tensor",
            remedy="pass only tensors or only Variables: torch.from_numpy(v.value), or x.detach().numpy()",
        )
    return value


def stand_in(path: str, value: Any) -> Any:
    """An array that describes a tensor: only type and shape matter. Of a length that is a symbol of
    PyTorch's, only whether it is 1 matters."""
    if not isinstance(value, Tensor):
        return value
    found = taken(f"the argument {path!r}", value)
    shape = tuple([n if type(n) is int else 1 if n == 1 else 2 for n in found.shape])
    return np.broadcast_to(np.zeros((), NUMPY[NAMES[found.dtype]]), shape)


def _value(leaf: Any, array: Any) -> Any:
    """The operand of a program for a leaf of a call: the tensor if it is one."""
    if isinstance(leaf, Tensor):
        return leaf
    if isinstance(array, np.ndarray):
        array = array.copy()  # PyTorch cannot detect later writes to it
    if isinstance(leaf, Column) and any(isinstance(item, Tensor) for item in leaf):
        return torch.stack([torch.as_tensor(item) for item in leaf])
    return array
