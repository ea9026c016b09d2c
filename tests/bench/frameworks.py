"""From a formula to calls of the peers: value and gradients, or any other function of it.

`transform(loss, ...)` differs between libraries, so each has a builder; `gradients` gathers them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench import spaces
from bench.workload import PEERS, Arguments, Build, Run

Loss = Callable[..., Any]  # of a space and the inputs


def threads() -> int:
    """How many threads everyone has."""
    return int(os.environ.get("BENCH_THREADS", "2"))


# -- PyTorch -------------------------------------------------------------------------------------------


def tensors(args: Arguments, device: str, wrt: Sequence[int] = ()) -> list[Any]:
    """The arrays as tensors, those in `wrt` leaves that want a gradient."""
    import torch

    torch.set_num_threads(threads())

    def tensor(k: int, a: Any) -> Any:
        if k in wrt and not isinstance(a, np.ndarray):
            a = np.float64(a)
        made = torch.as_tensor(a, device=device) if isinstance(a, (np.ndarray, np.generic)) else a
        return made.requires_grad_() if k in wrt else made

    return [tensor(k, a) for k, a in enumerate(args)]


def synchronised(run: Run, device: str) -> Run:
    """A call that ends when the device has ended."""
    if device == "cpu":
        return run
    import torch

    def waited() -> Any:
        result = run()
        torch.cuda.synchronize()
        return result

    return waited


def torch_gradients(loss: Loss, wrt: Sequence[int], compiled: bool = False) -> Build:
    """The loss and `torch.autograd.grad`, eager or through `torch.compile`."""

    def build(args: Arguments, device: str) -> Run:
        import torch

        given = tensors(args, device, wrt)
        leaves = [given[k] for k in wrt]
        f = partial(loss, spaces.torch_space())
        f = torch.compile(f) if compiled else f

        def run() -> Any:
            value = f(*given)
            return value.detach(), torch.autograd.grad(value, leaves)

        return synchronised(run, device)

    return build


# -- JAX -----------------------------------------------------------------------------------------------


def jax_call(function: Callable[[Any], Callable[..., Any]]) -> Build:
    """`function(xp)` jitted, integers static; arrays are on the device beforehand, calls wait for results."""

    def build(args: Arguments, device: str) -> Run:
        import jax

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_platforms", device)
        static = tuple(k for k, a in enumerate(args) if type(a) is int)
        f = jax.jit(function(spaces.jax_space()), static_argnums=static)
        given = [jax.device_put(a) if isinstance(a, np.ndarray) else a for a in args]
        return lambda: jax.block_until_ready(f(*given))

    return build


def jax_gradients(loss: Loss, wrt: Sequence[int]) -> Build:
    """`jax.value_and_grad`, jitted."""

    def function(xp: Any) -> Callable[..., Any]:
        import jax

        return jax.value_and_grad(partial(loss, xp), argnums=tuple(wrt))

    return jax_call(function)


# -- HIPS autograd -------------------------------------------------------------------------------------


def autograd_gradients(loss: Loss, wrt: Sequence[int]) -> Build:
    """`autograd.value_and_grad` by a tuple of the inputs."""

    def build(args: Arguments, device: str) -> Run:
        import autograd

        f = partial(loss, spaces.autograd_space())

        def of(chosen: Any) -> Any:
            given = list(args)
            for k, value in zip(wrt, chosen, strict=True):
                given[k] = value
            return f(*given)

        both, chosen = autograd.value_and_grad(of), tuple(args[k] for k in wrt)
        return lambda: both(chosen)

    return build


# -- CasADi --------------------------------------------------------------------------------------------


def casadi_call(function: Callable[..., Sequence[Any]], scalar: bool = False) -> Build:
    """`function(xp, *symbols)` as a CasADi function; scalar expressions (SX) or matrices (MX)."""

    def build(args: Arguments, device: str) -> Run:
        import casadi

        symbols, given = [], []
        for k, a in enumerate(args):
            symbol = casadi.SX.sym if scalar else casadi.MX.sym
            symbols.append(symbol(f"x{k}", *np.shape(a)))
            given.append(casadi.DM(a))
        f = casadi.Function("f", symbols, list(function(spaces.casadi_space(), *symbols)))
        return lambda: f(*given)

    return build


def casadi_gradients(loss: Loss, wrt: Sequence[int], scalar: bool = False) -> Build:
    """The loss and `casadi.gradient` of it."""

    def function(xp: Any, *symbols: Any) -> list[Any]:
        import casadi

        value = loss(xp, *symbols)
        return [value, *(casadi.gradient(value, symbols[k]) for k in wrt)]

    return casadi_call(function, scalar)


def gradients(loss: Loss, wrt: Sequence[int], peers: Sequence[str] = PEERS) -> dict[str, Build]:
    """Value and gradients of one formula by each of the peers that know how."""
    known = {
        "torch": torch_gradients(loss, wrt),
        "torch.compile": torch_gradients(loss, wrt, compiled=True),
        "jax": jax_gradients(loss, wrt),
        "autograd": autograd_gradients(loss, wrt),
        "casadi": casadi_gradients(loss, wrt),
    }
    return {name: build for name, build in known.items() if name in peers}
