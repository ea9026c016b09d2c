"""PyTorch: compiled functions of tensors, differentiable to any order, under every transform of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from adcompiler.errors import Error

if find_spec("torch") is None:
    raise Error("PyTorch is not installed", remedy='pip install "adcompiler[torch]"')

import torch

from adcompiler.interop.torch.functions import TorchFunction, of, stand_in
from adcompiler.interop.torch.memory import memory_of, plain
from adcompiler.interop.torch.module import Module
from adcompiler.interop.torch.transforms import fit_tangent, pullback_of, wrapper

__all__ = [
    "Module",
    "TorchFunction",
    "call",
    "fit_tangent",
    "memory_of",
    "of",
    "plain",
    "pullback_of",
    "stand_in",
    "wrapper",
]


@torch.compiler.disable  # for the first call, which imports this module; it makes Dynamo skip later ones
def call(function: Any, bound: Sequence[Any]) -> Any:
    """A call of a compiled function with tensors among its arguments."""
    return of(function).entered(bound)
