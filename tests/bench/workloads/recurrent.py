"""Reverse mode through loops: GradBench's lstm, and a differential equation by Euler's method."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.frameworks import casadi_call, gradients
from bench.ours import gradbench, value_and_grad
from bench.workload import PEERS, Arguments, Target, Workload, by_hand

# -- lstm ----------------------------------------------------------------------------------------------


def network(rng: np.random.Generator, layers: int, c: int, b: int) -> Arguments:
    """main, extra, state and sequence, as GradBench draws them."""
    main, extra = rng.random((2 * layers, 4 * b)), rng.random((3, b))
    return main, extra, rng.random((2 * layers, b)), rng.integers(0, 2, (c, b)).astype(float)


def lstm_loss(xp: Any, main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    layers, b, iterations = len(main) // 2, extra.shape[1], len(sequence) - 1
    W, B = main[0::2].reshape(layers, 4, b), main[1::2].reshape(layers, 4, b)

    def step(carry: Any, inputs: Any) -> Any:
        hidden, cell, total = list(carry[0]), list(carry[1]), carry[2]
        now, gold = inputs
        x = now * extra[0]
        for k in range(layers):
            forget = xp.sigmoid(x * W[k, 0] + B[k, 0])
            ingate = xp.sigmoid(hidden[k] * W[k, 1] + B[k, 1])
            outgate = xp.sigmoid(x * W[k, 2] + B[k, 2])
            change = xp.tanh(hidden[k] * W[k, 3] + B[k, 3])
            cell[k] = cell[k] * forget + ingate * change
            x = hidden[k] = outgate * xp.tanh(cell[k])
        y = x * extra[1] + extra[2]
        total = total + xp.sum(gold * (y - xp.log(2 + xp.sum(xp.exp(y)))))
        return (tuple(hidden), tuple(cell), total), None

    start = tuple(state[2 * k] for k in range(layers)), tuple(state[2 * k + 1] for k in range(layers))
    carry, _ = xp.steps(step, (*start, xp.zeros_like(extra[0, 0])), (sequence[:-1], sequence[1:]), iterations)
    return -carry[2] / (iterations * b)


UNROLLED = {"torch.compile": "unrolls the loop: minutes to compile"}
WITHOUT = tuple(p for p in PEERS if p not in ("torch.compile", "casadi"))

LSTM = Workload(
    name="lstm",
    about="GradBench's lstm, 4 layers, 1024 characters of 14 bits: the loss and its gradient.",
    sizes={"full": (4, 1024, 14), "quick": (2, 128, 14), "tiny": (2, 9, 5)},
    inputs=network,
    ours=value_and_grad(gradbench("lstm"), "loss", ("main", "extra")),
    peers={"numba": by_hand("lstm", "gradient"), **gradients(lstm_loss, (0, 1), WITHOUT)},
    targets=(Target(1.5, "jax"),),
    absent=UNROLLED | {"casadi": "no slices of layers"},
)

# -- a differential equation ---------------------------------------------------------------------------

DECAY = """
def decay(W: f64[m, m], y: f64[m], h, steps: i64):
    for _ in range(steps):
        y = y + h * tanh(W @ y)
    return sum(y * y) / 2
"""


def equation(rng: np.random.Generator, m: int, steps: int) -> Arguments:
    return rng.standard_normal((m, m)) / m**0.5, rng.standard_normal(m), 1.0 / steps, steps


def decay(xp: Any, W: Any, y: Any, h: Any, steps: int) -> Any:
    y, _ = xp.steps(lambda y, _: (y + h * xp.tanh(W @ y), None), y, None, steps)
    return xp.sum(y * y) / 2


def casadi_decay(args: Arguments, device: str) -> Any:
    """`mapaccum` of one step, which has a reverse mode of its own."""
    import casadi

    W, start, h, steps = args
    y, A = casadi.MX.sym("y", len(start)), casadi.MX.sym("W", *W.shape)
    step = casadi.Function("step", [y, A], [y + h * casadi.tanh(A @ y)])

    def function(xp: Any, A: Any, y: Any) -> list[Any]:
        last = step.mapaccum("all", steps)(y, casadi.repmat(A, 1, steps))[:, -1]
        value = casadi.sumsqr(last) / 2
        return [value, casadi.gradient(value, A), casadi.gradient(value, y)]

    return casadi_call(function)((W, start), device)


ODE = Workload(
    name="ode",
    about="y ← y + h tanh(W y), 64 equations, 1000 steps: Σ y² / 2 at the end and its gradients in W and y.",
    sizes={"full": (64, 1000), "quick": (32, 200), "tiny": (7, 12)},
    inputs=equation,
    ours=value_and_grad(DECAY, wrt=("W", "y")),
    peers={
        "numba": by_hand("ode", "gradient"),
        **gradients(decay, (0, 1), WITHOUT),
        "casadi": casadi_decay,
    },
    targets=(Target(1.5, "jax"),),
    absent=UNROLLED,
)

WORKLOADS = (LSTM, ODE)
