"""Daily programs: what people write, timed beside JAX and judged by complex steps; nobody tuned for them.

A formula is written once more for NumPy and JAX. On complex numbers NumPy gives its derivatives to rounding:
f(x + ih) = f(x) + ih f'(x) + O(h²), so the judge knows nothing of adcompiler's derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.frameworks import Loss, gradients
from bench.ours import value_and_grad
from bench.spaces import complex_space
from bench.workload import PEERS, Arguments, Build, Run, Workload

STEP = 1e-100


def by_complex_steps(loss: Loss, wrt: Sequence[int]) -> Build:
    """Value and gradients by NumPy alone: one evaluation an entry."""

    def build(args: Arguments, device: str) -> Run:
        def slope(k: int, place: tuple[int, ...]) -> float:
            moved = list(args)
            moved[k] = np.array(args[k], complex)
            moved[k][place] += STEP * 1j
            return float(np.imag(loss(space, *moved)) / STEP)

        def run() -> Any:
            found = [[slope(k, place) for place in np.ndindex(np.shape(args[k]))] for k in wrt]
            parts = [np.reshape(f, np.shape(args[k])) for f, k in zip(found, wrt, strict=True)]
            return np.real(loss(space, *args)), tuple(parts)

        space = complex_space()
        return run

    return build


def daily(
    name: str,
    about: str,
    sizes: tuple[tuple[int, ...], tuple[int, ...]],
    inputs: Callable[..., Arguments],
    source: str,
    loss: Loss,
    wrt: Sequence[int],
) -> Workload:
    """Value and gradients of a program; `sizes` are the full and the tiny one."""
    full, tiny = sizes
    known: Mapping[str, tuple[int, ...]] = {"full": full, "quick": full, "tiny": tiny}
    return Workload(
        name=name,
        about=about,
        sizes=known,
        inputs=inputs,
        ours=value_and_grad(source, wrt=tuple(wrt)),
        peers=gradients(loss, wrt, ("jax",)),
        absent=dict.fromkeys((p for p in PEERS if p != "jax"), "not written"),
        judge=by_complex_steps(loss, wrt),
    )
