"""The workloads by PyTorch and JAX, compiled there, on the device."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.gpu.workloads import Workload

Times = Callable[[Callable[[], Any]], dict[str, Any]]


def peer(work: Workload, library: str, times: Times) -> dict[str, Any]:
    """How long a library takes for value and gradient, in float32 and float64."""
    found = {}
    for dtype in work.dtypes:
        arrays = work.make(np.random.default_rng(0), work.large, dtype)
        call = {"torch": by_torch, "jax": by_jax}[library](work, arrays)
        try:
            found[f"{dtype} ms"] = times(call)["ms"]
        except Exception as error:
            if not re.search("out of memory|RESOURCE_EXHAUSTED", str(error), re.IGNORECASE):
                raise
            found[f"{dtype} ms"] = "out of memory"
    return found


def by_torch(work: Workload, arrays: dict[str, np.ndarray]) -> Callable[[], Any]:
    """torch.compile of the value, and its backward."""
    import torch

    held = {k: torch.as_tensor(v, device="cuda") for k, v in arrays.items()}
    for name in work.wrt:
        held[name].requires_grad_(True)
    names = ", ".join(held)
    namespace: dict[str, Any] = {"torch": torch}
    exec(f"def value({names}):\n    return {work.peers['torch']}\n", namespace)
    value = torch.compile(namespace["value"])

    def call() -> Any:
        result = value(**held)
        return result, torch.autograd.grad(result, [held[k] for k in work.wrt])

    return call


def by_jax(work: Workload, arrays: dict[str, np.ndarray]) -> Callable[[], Any]:
    """jax.jit of value and gradient."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    held = {k: jnp.asarray(v) for k, v in arrays.items()}
    names = ", ".join(held)
    namespace: dict[str, Any] = {"jax": jax, "jnp": jnp}
    exec(f"def value({names}):\n    return {work.peers['jax']}\n", namespace)
    places = tuple(list(held).index(k) for k in work.wrt)
    f = jax.jit(jax.value_and_grad(namespace["value"], argnums=places))
    return lambda: jax.block_until_ready(f(*held.values()))
