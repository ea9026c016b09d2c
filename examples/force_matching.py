"""Force matching: a pair potential is fitted to forces, so that the loss has a derivative inside.

    energy -> forces = -d energy / d x -> loss = mean (forces - known)**2 -> d loss / d parameters

The potential is Morse's, softened where atoms meet. PyTorch trains it; adcompiler computes the energy and
both orders of its derivatives, and never stores pairs. `--time` compares the time of one step of training
with PyTorch, eager and compiled, with JAX, and with adcompiler inside JAX:

    python examples/force_matching.py [--atoms 300] [--steps 200] [--time] [--jax PYTHON]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from statistics import median

import numpy as np

import adcompiler as adc

MORSE = """
def energy(x, depth, width, length):
    n, d = x.shape
    r = [[sqrt(sum((x[i, k] - x[j, k])**2 for k in range(d)) + 0.01) for j in range(n)] for i in range(n)]
    return sum(depth * (1 - exp(-width * (r[i, j] - length)))**2 - depth for i in range(n) for j in range(i))
"""
TRUE = {"depth": 1.0, "width": 1.2, "length": 1.1}
START = {"depth": 0.6, "width": 0.9, "length": 1.3}
PEERS = ("adcompiler", "torch", "torch.compile", "jax", "adcompiler in jax")


def atoms(n):
    """Positions in a box with one atom per unit of volume, and the forces of the true potential on them."""
    x = np.random.default_rng(0).uniform(0, n ** (1 / 3), (n, 3))
    return x, -adc.grad(adc.compile(MORSE), "x")(x, **TRUE)


# -- training -------------------------------------------------------------------------------------


def loss_of(energy, x, known, parameters):
    """The loss, whose gradients PyTorch takes through the forces."""
    import torch

    (gradient,) = torch.autograd.grad(energy(x, **parameters), x, create_graph=True)
    return ((-gradient - known) ** 2).mean()


def tensors(x, known):
    import torch

    parameters = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in START.items()}
    return torch.tensor(x, requires_grad=True), torch.tensor(known), parameters


def train(n, steps):
    """The losses of some steps of Adam, and the parameters at the end."""
    import torch

    x, known, parameters = tensors(*atoms(n))
    energy = adc.compile(MORSE)
    optimizer = torch.optim.Adam(parameters.values(), lr=0.02)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(energy, x, known, parameters)
        loss.backward(inputs=list(parameters.values()))
        optimizer.step()
        losses.append(loss.item())
    return losses, {k: p.item() for k, p in parameters.items()}


# -- other libraries ------------------------------------------------------------------------------


def dense(xp, x, depth, width, length):
    """The energy with all pairs in matrices."""
    d = x[:, None, :] - x[None, :, :]
    r = xp.sqrt((d * d).sum(-1) + 0.01)
    pair = depth * (1 - xp.exp(-width * (r - length))) ** 2 - depth
    return xp.tril(pair, -1).sum()


def torch_step(kind, x, known):
    """A function that returns the loss and its gradients with respect to the parameters."""
    import torch

    torch.set_num_threads(int(os.environ.get("BENCH_THREADS", "2")))
    x, known, parameters = tensors(x, known)
    of = list(parameters.values())
    if kind == "torch.compile":  # which differentiates once; the forces are a derivative inside the graph

        def loss(x, known, *of):
            forces = -torch.func.grad(lambda x: dense(torch, x, *of))(x)
            return ((forces - known) ** 2).mean()

        loss, x = torch.compile(loss, fullgraph=True), x.detach()
        step = lambda: loss(x, known, *of)  # noqa: E731
    else:
        energy = adc.compile(MORSE) if kind == "adcompiler" else lambda x, **p: dense(torch, x, **p)
        step = lambda: loss_of(energy, x, known, parameters)  # noqa: E731

    def run():
        value = step()
        return [value.item(), *(g.item() for g in torch.autograd.grad(value, of))]

    return run


def jax_step(kind, x, known):
    import jax

    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    energy = partial(dense, jnp) if kind == "jax" else adc.compile(MORSE).jax()

    def loss(parameters, x, known):
        forces = -jax.grad(lambda x: energy(x, **parameters))(x)
        return ((forces - known) ** 2).mean()

    both = jax.jit(jax.value_and_grad(loss))
    x, known = jnp.asarray(x), jnp.asarray(known)

    def run():
        value, gradients = both(START, x, known)
        return [float(value), *(float(gradients[k]) for k in START)]

    return run


def timed(peer, n):
    """A step's results, and the median time of five after one that is not timed."""
    x, known = atoms(n)
    run = (jax_step if "jax" in peer else torch_step)(peer, x, known)
    found, times = run(), []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return {"peer": peer, "results": found, "seconds": median(times)}


def compared(n, jax):
    """One step by each peer, in separate processes, one after the other."""
    rows = []
    for peer in PEERS:
        command = [jax if "jax" in peer else sys.executable, __file__, "--peer", peer, "--atoms", str(n)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{peer}: {done.stderr.strip().splitlines()[-1]}")
            continue
        rows.append(json.loads(done.stdout))
        np.testing.assert_allclose(rows[-1]["results"], rows[0]["results"], rtol=1e-8)
        ratio = rows[-1]["seconds"] / rows[0]["seconds"]
        print(f"{peer:17} {1000 * rows[-1]['seconds']:9.1f} ms  {ratio:6.1f} times adcompiler")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--atoms", type=int, default=300)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument(
        "--time", action="store_true", help="compare the time of one step with PyTorch and JAX"
    )
    parser.add_argument("--jax", default=sys.executable, help="the Python that has JAX")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        print(json.dumps(timed(given.peer, given.atoms)))
    elif given.time:
        compared(given.atoms, given.jax)
    else:
        losses, found = train(given.atoms, given.steps)
        print(f"loss {losses[0]:.3g} -> {losses[-1]:.3g}")
        print(", ".join(f"{k} {v:.4f} (true {TRUE[k]})" for k, v in found.items()))


if __name__ == "__main__":
    main()
