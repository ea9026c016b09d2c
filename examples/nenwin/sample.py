"""The logbook's sample: 784 marbles, 18 nodes, 10 steps, with all gradients."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

import adcompiler as adc
from examples.nenwin.particles import Marbles, begun, sample

LOGBOOK = "over 20 minutes without gradients; out of memory with them (2021, PyTorch)"


class Timing(NamedTuple):
    """Seconds of the first call, which compiles, and of the fastest later call."""

    first: float
    best: float


def arguments(side: int = 28, seed: int = 0) -> tuple[Any, ...]:
    """A marble for each of side × side pixels, 10 eaters and 8 nodes, a class, and the settings."""
    model = begun(seed, side)
    mass = np.random.default_rng(seed).uniform(0.1, 1, side**2) / 1000
    start = (np.array([getattr(e, name) for e in model.emitters]) for name in ("pos", "vel", "acc"))
    return Marbles(*start, mass), model.nodes, 3, 10, 10, 0.1, 0.3, "verlet"


def timed(repeats: int = 100) -> Timing:
    """The time of the loss of one sample and its gradients with respect to marbles and nodes."""
    step, args = adc.value_and_grad(sample, ("marbles", "nodes")), arguments()
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        step(*args)
        times.append(time.perf_counter() - start)
    return Timing(times[0], min(times[1:]))
