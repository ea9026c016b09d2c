"""The few functions that libraries name differently, so that one formula serves them all.

A formula takes a space `xp` first and writes `xp.exp(x)`, `xp.sum(x, 1)`, `xp.erf(x)`. Spaces import their
library when they are made.
"""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

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


class Space(SimpleNamespace):
    """Functions by name; all that are not given are those of a library, which is NumPy or has its names."""

    def __init__(self, library: Any, **functions: Any) -> None:
        super().__init__(**functions)
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)


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

    return Space(
        jnp,
        erf=jax.scipy.special.erf,
        sigmoid=jax.nn.sigmoid,
        logsumexp=jax.scipy.special.logsumexp,
        steps=steps,
        logdet=lambda a: jnp.linalg.slogdet(a)[1],
        det=jnp.linalg.det,
        inv=jnp.linalg.inv,
        solve=jnp.linalg.solve,
        cholesky=jnp.linalg.cholesky,
        lower=partial(jax.scipy.linalg.solve_triangular, lower=True),
        lgamma=jax.scipy.special.gammaln,
        softplus=jax.nn.softplus,
        convolve=lambda x, w: jnp.convolve(x, w[::-1], mode="valid"),
        conv=lambda x, k: jax.lax.conv(x, k, (1, 1), "VALID"),
        add_at=lambda x, places, values: x.at[places].add(values),
        set_at=lambda x, places, values: x.at[places].set(values),
    )


def complex_space() -> Any:
    """NumPy where arguments may be complex: no absolute values, and no conjugates."""
    import scipy.special
    from scipy.special import loggamma

    def logsumexp(x: Any, axis: int | None = None) -> Any:
        shift = np.max(np.real(x), axis, keepdims=True)
        return np.log(np.sum(np.exp(x - shift), axis)) + np.squeeze(shift, axis)

    def cholesky(a: Any) -> Any:
        factor = np.zeros_like(a)
        for j in range(len(a)):
            factor[j, j] = np.sqrt(a[j, j] - factor[j, :j] @ factor[j, :j])
            factor[j + 1 :, j] = (a[j + 1 :, j] - factor[j + 1 :, :j] @ factor[j, :j]) / factor[j, j]
        return factor

    def add_at(x: Any, places: Any, values: Any) -> Any:
        total = x + 0 * np.sum(values)
        np.add.at(total, places, values)
        return total

    def set_at(x: Any, places: Any, values: Any) -> Any:
        changed = x + 0 * np.sum(values)
        changed[places] = values
        return changed

    return Space(
        np,
        abs=lambda x: np.where(np.real(x) < 0, -x, x),
        floor=lambda x: np.floor(np.real(x)),
        sigmoid=lambda x: 1 / (1 + np.exp(-x)),
        erf=scipy.special.erf,
        logsumexp=logsumexp,
        steps=unrolled,
        logdet=lambda a: np.log(np.linalg.det(a)),
        det=np.linalg.det,
        inv=np.linalg.inv,
        solve=np.linalg.solve,
        cholesky=cholesky,
        lower=np.linalg.solve,
        lgamma=loggamma,
        softplus=lambda x: np.log1p(np.exp(x)),
        convolve=lambda x, w: np.convolve(x, w[::-1], mode="valid"),
        add_at=add_at,
        set_at=set_at,
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
