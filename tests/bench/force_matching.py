"""Force matching: from the energy of 2,000 atoms to forces, a loss of these, its gradient by the potential.

    python tests/bench/force_matching.py [atoms]

The potential is Morse's, of all pairs. adcompiler's is called through `f.jax()`, so that JAX does the rest
in both cases; the results are compared before the times are printed. On an idle machine, please.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import adcompiler as adc

SOURCE = """
def energy(x, depth, width, rest):
    n = len(x)
    def pair(i, j):
        r = sqrt(sum((x[i, k] - x[j, k])**2 for k in range(3)) + 1e-12)
        return depth * (1 - exp(-width * (r - rest)))**2
    return sum(pair(i, j) for i in range(n) for j in range(n) if j != i) / 2
"""
POTENTIAL = (1.1, 0.9, 1.3)


def plain(x: Any, depth: Any, width: Any, rest: Any) -> Any:
    """The same in JAX."""
    d = x[:, None, :] - x[None, :, :]
    r = jnp.sqrt((d * d).sum(-1) + 1e-12)
    pairs = depth * (1 - jnp.exp(-width * (r - rest))) ** 2
    return jnp.sum(jnp.where(jnp.eye(len(x), dtype=bool), 0, pairs)) / 2


def matching(energy: Callable[..., Any]) -> Callable[..., Any]:
    """The loss of an energy's forces and its gradient by the potential."""

    def loss(potential: Any, x: Any, forces: Any) -> Any:
        return jnp.mean((forces + jax.grad(energy)(x, *potential)) ** 2)

    return jax.jit(jax.value_and_grad(loss))


def timed(call: Callable[..., Any], *args: Any, repeats: int = 9) -> tuple[float, Any]:
    """The median of single calls in seconds, after one that is not timed; and what they return."""
    result = jax.block_until_ready(call(*args))
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        jax.block_until_ready(call(*args))
        times.append(perf_counter() - begin)
    return median(times), result


def main(atoms: int = 2000) -> None:
    """Print both times and their ratio, for float64 and float32."""
    rng = np.random.default_rng(0)
    energy = adc.compile(SOURCE).jax()
    for dtype, rtol in (("float64", 1e-9), ("float32", 1e-2)):
        x = jnp.asarray(rng.uniform(0, 10, (atoms, 3)), dtype)
        forces = jnp.asarray(rng.normal(size=(atoms, 3)), dtype)
        ours, found = timed(matching(energy), POTENTIAL, x, forces)
        theirs, expected = timed(matching(plain), POTENTIAL, x, forces)
        jax.tree.map(lambda f, e, r=rtol: np.testing.assert_allclose(f, e, rtol=r), found, expected)
        print(
            f"{dtype}: adcompiler {ours * 1e3:.2f} ms, JAX {theirs * 1e3:.1f} ms, {theirs / ours:.1f} times"
        )


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main(*map(int, sys.argv[1:]))
