"""What a workload is: inputs, our call, the peers' calls, and the ratios that we mean to reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np

PEERS = ("numba", "torch", "torch.compile", "jax", "autograd", "casadi")
SIZES = ("full", "quick", "tiny")

Arguments = tuple[Any, ...]
Run = Callable[[], Any]  # one call; its result is nested tuples of numbers and arrays
Build = Callable[[Arguments, str], Run]  # from inputs and a device, "cpu" or "cuda"


@dataclass(frozen=True)
class Target:
    """A peer's time over ours; "best" is the fastest of all but the kernel written by hand."""

    ratio: float
    against: str = "best"


@dataclass(frozen=True)
class Workload:
    """A computation in as many ways as there are compilers for it.

    `sizes` gives what `inputs` takes after the random generator. `absent` says why a peer is not there.
    """

    name: str
    about: str
    sizes: Mapping[str, tuple[int, ...]]
    inputs: Callable[..., Arguments]
    ours: Build
    peers: Mapping[str, Build]
    targets: tuple[Target, ...] = ()
    tolerance: float = 1e-9
    absent: Mapping[str, str] = field(default_factory=dict)
    judge: Build | None = None  # of small inputs, where no kernel is written by hand

    def arguments(self, size: str, seed: int = 0) -> Arguments:
        """Inputs of one of the sizes, the same for the same seed."""
        return self.inputs(np.random.default_rng(seed), *self.sizes[size])

    def build(self, who: str) -> Build:
        """How `ours` or a peer is made."""
        return self.ours if who == "ours" else self.peers[who]

    def all_targets(self) -> tuple[Target, ...]:
        """Its own, and what holds for every workload: hardly slower than by hand."""
        return (*self.targets, Target(0.9, "numba")) if "numba" in self.peers else self.targets


def single(workload: Workload) -> Workload:
    """The same in float32."""

    def inputs(rng: np.random.Generator, *size: int) -> Arguments:
        return tuple(
            a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype == np.float64 else a
            for a in workload.inputs(rng, *size)
        )

    return replace(
        workload,
        name=f"{workload.name}-f32",
        about=f"{workload.about} In float32.",
        inputs=inputs,
        peers={name: build for name, build in workload.peers.items() if name != "casadi"},
        absent={**workload.absent, "casadi": "float64 only"},
        targets=(),
        tolerance=2e-3,
    )


def by_hand(module: str, function: str) -> Build:
    """A kernel of `byhand/`, imported when it is asked for: this is what loads numba."""

    def build(args: Arguments, device: str) -> Run:
        made: Run = getattr(import_module(f"bench.byhand.{module}"), function)(args)
        return made

    return build
