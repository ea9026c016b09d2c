"""The few functions that libraries name differently, so that one formula serves them all.

A formula takes a space `xp` first and writes `xp.exp(x)`, `xp.sum(x, 1)`, `xp.erf(x)`. Spaces import their
library when they are made.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

COMMON = (
    "exp",
    "log",
    "sqrt",
    "tanh",
    "sin",
    "cos",
    "where",
    "maximum",
    "stack",
    "concatenate",
    "zeros_like",
)


def torch_space() -> Any:
    """PyTorch: `sum(x, axis)` and `min(x, axis)` give values."""
    import torch

    known = {name: getattr(torch, name) for name in COMMON}
    return SimpleNamespace(
        **known,
        erf=torch.erf,
        sigmoid=torch.sigmoid,
        sum=lambda x, axis=None: x.sum() if axis is None else x.sum(dim=axis),
        min=lambda x, axis: torch.amin(x, dim=axis),
        max=torch.max,
        logsumexp=lambda x, axis: torch.logsumexp(x, dim=axis),
        steps=unrolled,
        einsum=torch.einsum,
    )


def jax_space() -> Any:
    """JAX; loops are `lax.scan`, which is what its users write for them."""
    import jax
    import jax.numpy as jnp

    def steps(body: Any, state: Any, inputs: Any, count: int) -> tuple[Any, Any]:
        return jax.lax.scan(body, state, inputs, length=count)

    known = {name: getattr(jnp, name) for name in COMMON}
    return SimpleNamespace(
        **known,
        erf=jax.scipy.special.erf,
        sigmoid=jax.nn.sigmoid,
        sum=jnp.sum,
        min=jnp.min,
        max=jnp.max,
        logsumexp=jax.scipy.special.logsumexp,
        steps=steps,
        einsum=jnp.einsum,
    )


def autograd_space() -> Any:
    """HIPS autograd, which records NumPy's own operations."""
    import autograd.numpy as anp
    from autograd.scipy.special import erf, logsumexp

    known = {name: getattr(anp, name) for name in COMMON}
    return SimpleNamespace(
        **known,
        erf=erf,
        sigmoid=lambda x: 1 / (1 + anp.exp(-x)),
        sum=anp.sum,
        min=anp.min,
        max=anp.max,
        logsumexp=lambda x, axis: logsumexp(x, axis=axis),
        steps=unrolled,
        einsum=anp.einsum,
    )


def casadi_space() -> Any:
    """CasADi: matrices only, so sums are over everything."""
    import casadi

    known = {name: getattr(casadi, name) for name in ("exp", "log", "sqrt", "tanh", "sin", "cos", "erf")}

    def total(x: Any) -> Any:
        return casadi.sum2(casadi.sum1(x))

    return SimpleNamespace(**known, sum=total, max=casadi.mmax, pi=math.pi)


def unrolled(body: Any, state: Any, inputs: Any, count: int) -> tuple[Any, list[Any]]:
    """A Python loop with the meaning of `lax.scan`, except that outputs stay a list."""
    outputs = []
    for t in range(count):
        state, output = body(state, None if inputs is None else tuple(a[t] for a in inputs))
        outputs.append(output)
    return state, outputs
