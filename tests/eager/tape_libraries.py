"""The two libraries as the cases of the tape's table see them: `t` is one of these.

Names are ours, and NumPy's for functions (`t.np.flip`); `torch()` says them in PyTorch's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

import adcompiler as adc


def quiet(function: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


def warned(function: Callable[[], Any]) -> bool:
    """Whether a call warns."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function()
    return bool(found)


OURS = SimpleNamespace(
    leaf=lambda v: adc.Variable(v, requires_grad=True),
    const=lambda v: adc.Variable(v),
    single=lambda v, requires_grad=True: adc.Variable(np.float32(v), requires_grad=requires_grad),
    whole=lambda v: adc.Variable(np.array(v)),
    grad=adc.tape.grad,
    where=adc.tape.where,
    no_grad=adc.no_grad,
    enable_grad=adc.enable_grad,
    quiet=quiet,
    warned=warned,
    np=np,
    optim=adc.optim,
    cast=lambda v, dtype: v.astype(dtype),
    dtype=lambda v: str(v.dtype),
)


def torch() -> SimpleNamespace:
    import torch

    def grad(outputs, inputs, grad_outputs=None, allow_unused=True, **options):
        found = torch.autograd.grad(outputs, inputs, grad_outputs, allow_unused=allow_unused, **options)
        return found[0] if isinstance(inputs, torch.Tensor) else found

    return SimpleNamespace(
        leaf=lambda v: torch.tensor(v, dtype=torch.float64, requires_grad=True),
        const=lambda v: torch.tensor(v, dtype=torch.float64),
        single=lambda v, requires_grad=True: torch.tensor(
            v, dtype=torch.float32, requires_grad=requires_grad
        ),
        whole=torch.tensor,
        grad=grad,
        where=torch.where,
        no_grad=torch.no_grad,
        enable_grad=torch.enable_grad,
        quiet=quiet,
        warned=warned,
        np=_numpy(torch),
        optim=torch.optim,
        cast=lambda v, dtype: v.to(getattr(torch, dtype)),
        dtype=lambda v: str(v.dtype).removeprefix("torch."),
    )


SAME = (
    "abs", "arctan2", "clip", "column_stack", "cos", "diag", "dot", "einsum", "exp", "fliplr", "flipud",
    "hstack", "hypot", "kron", "log", "logaddexp", "matmul", "maximum", "mean", "minimum", "moveaxis",
    "outer", "prod", "reciprocal", "roll", "sin", "sqrt", "square", "squeeze", "stack", "sum", "swapaxes",
    "tanh", "tile", "trace", "tril", "triu", "vstack", "where",
)  # fmt: skip


def _numpy(torch: Any) -> SimpleNamespace:
    """PyTorch's functions under NumPy's names."""

    def spread(function):
        return lambda x, axis=None, ddof=0: function(x, dim=axis, correction=ddof)

    def extreme(function):
        return lambda x, axis=None: function(x) if axis is None else function(x, dim=axis)

    same = {name: getattr(torch, name) for name in SAME}
    return SimpleNamespace(
        **same,
        linalg=SimpleNamespace(
            norm=torch.linalg.norm,
            inv=torch.linalg.inv,
            det=torch.linalg.det,
            solve=torch.linalg.solve,
            cholesky=torch.linalg.cholesky,
        ),
        concatenate=torch.cat,
        flip=lambda x, axis: torch.flip(x, (axis,)),
        rot90=torch.rot90,
        repeat=torch.repeat_interleave,
        take=lambda x, where, axis: torch.index_select(x, axis, where),
        expand_dims=torch.unsqueeze,
        transpose=torch.permute,
        cumsum=torch.cumsum,
        cumprod=torch.cumprod,
        sort=lambda x, axis=-1: torch.sort(x, dim=axis).values,
        max=extreme(torch.amax),
        min=extreme(torch.amin),
        var=spread(torch.var),
        std=spread(torch.std),
        diagonal=torch.diagonal,
        tensordot=torch.tensordot,
        inner=torch.inner,
        broadcast_to=torch.broadcast_to,
        reshape=torch.reshape,
        copy=torch.clone,
        split=lambda x, parts: torch.tensor_split(x, parts),
    )
