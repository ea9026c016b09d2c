"""Rosenbrock's function: what a call costs, and a dense Hessian."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench import spaces
from bench.frameworks import casadi_call, casadi_gradients, gradients, jax_call, synchronised, tensors
from bench.ours import call, value_and_grad
from bench.workload import Arguments, Build, Run, Target, Workload, by_hand


def two(rng: np.random.Generator) -> Arguments:
    return float(rng.uniform(-2, 2)), float(rng.uniform(-1, 3))


def rosenbrock(xp: Any, x: Any, y: Any) -> Any:
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


SCALAR = Workload(
    name="rosenbrock",
    about="One call: Rosenbrock's function of two numbers, and its gradient.",
    sizes={"full": (), "quick": (), "tiny": ()},
    inputs=two,
    ours=value_and_grad("(1 - x)**2 + 100 * (y - x**2)**2"),
    peers={
        "numba": by_hand("rosenbrock", "scalar"),
        **gradients(rosenbrock, (0, 1)),
        "casadi": casadi_gradients(rosenbrock, (0, 1), scalar=True),
    },
    targets=(Target(4.0, "jax"),),
)

# -- the Hessian of a chain ----------------------------------------------------------------------------


def chain(xp: Any, x: Any) -> Any:
    return xp.sum((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2)


def torch_hessian(compiled: bool) -> Build:
    def build(args: Arguments, device: str) -> Run:
        import torch

        given = tensors(args, device)
        f = torch.func.hessian(partial(chain, spaces.torch_space()))
        f = torch.compile(f) if compiled else f
        return synchronised(lambda: f(*given), device)

    return build


def jax_hessian(xp: Any) -> Any:
    import jax

    return jax.hessian(partial(chain, xp))


def autograd_hessian(args: Arguments, device: str) -> Run:
    import autograd

    f = autograd.hessian(partial(chain, spaces.autograd_space()))
    return lambda: f(*args)


def casadi_hessian(xp: Any, x: Any) -> list[Any]:
    import casadi

    return [casadi.hessian(chain(xp, x), x)[0]]


HESSIAN = Workload(
    name="hessian",
    about="The dense Hessian of the chained Rosenbrock function of 100 variables.",
    sizes={"full": (100,), "quick": (50,), "tiny": (6,)},
    inputs=lambda rng, n: (rng.standard_normal(n),),
    ours=call(lambda adc, f: adc.hessian(f), "sum((1 - x[:-1])**2 + 100 * (x[1:] - x[:-1]**2)**2)"),
    peers={
        "numba": by_hand("rosenbrock", "hessian"),
        "torch": torch_hessian(compiled=False),
        "torch.compile": torch_hessian(compiled=True),
        "jax": jax_call(jax_hessian),
        "autograd": autograd_hessian,
        "casadi": casadi_call(casadi_hessian, scalar=True),
    },
)

WORKLOADS = (SCALAR, HESSIAN)
