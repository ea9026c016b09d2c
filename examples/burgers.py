"""A network that solves Burgers' equation, trained by the Levenberg-Marquardt method.

python examples/burgers.py               train, and compare with the exact solution
python examples/burgers.py --draw FILE   draw the solution and the error as well

u_t + u u_x = ν u_xx with ν = 0.01 / π, u = −sin(πx) at t = 0 and u = 0 at x = ±1: the example of M. Raissi,
P. Perdikaris and G. E. Karniadakis, J. Comput. Phys. 378 (2019) 686. A shock forms at x = 0.
"""
# ruff: noqa: F821  the functions of the language need no import

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

import adcompiler as adc

VISCOSITY = 0.01 / np.pi


@adc.function
def solution(x, t, p):
    """Three layers of tanh, in a form that has the right values at t = 0 and at both ends."""
    h = tanh(x * p["w1"][0] + t * p["w1"][1] + p["b1"])
    h = tanh(h @ p["w2"] + p["b2"])
    h = tanh(h @ p["w3"] + p["b3"])
    return -sin(pi * x) + t * (1 - x**2) * (h @ p["w4"])


@adc.function
def residual(p, x, t):
    """The residual of Burgers' equation at a point."""
    u = solution(x, t, p)
    return diff(solution, t) + u * diff(solution, x) - VISCOSITY * diff(solution, x, 2)


residuals = adc.vmap(residual, (None, 0, 0))
with_rows = adc.vmap(adc.value_and_grad(residual, "p"), (None, 0, 0))  # a gradient at each point
field = adc.vmap(solution, (0, 0, None))


def exact(x: np.ndarray, t: np.ndarray, nodes: int = 200) -> np.ndarray:
    """The solution by Cole and Hopf, with integrals by Gauss and Hermite."""
    at, weights = np.polynomial.hermite.hermgauss(nodes)
    y = x[:, None] - np.sqrt(4 * VISCOSITY * t)[:, None] * at
    exponent = -np.cos(np.pi * y) / (2 * np.pi * VISCOSITY)
    kernel = weights * np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return -np.sum(np.sin(np.pi * y) * kernel, axis=1) / np.sum(kernel, axis=1)


def start(width: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Random parameters."""
    random = np.random.default_rng(seed)
    first = {"w1": random.normal(0, 2, (2, width)), "b1": random.normal(0, 1, width)}
    rest = {name: random.normal(0, width**-0.5, (width, width)) for name in ("w2", "w3")}
    last = {"b2": np.zeros(width), "b3": np.zeros(width), "w4": random.normal(0, width**-0.5, width)}
    return first | rest | last


def points(
    p: dict[str, np.ndarray], count: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random points, more of them where the residual is large."""
    x, t = random.uniform(-1, 1, 10 * count), random.uniform(0, 1, 10 * count)
    size = np.abs(residuals(p, x, t))
    chance = size / size.mean() + 1
    chosen = random.choice(len(x), count, replace=False, p=chance / chance.sum())
    return x[chosen], t[chosen]


def train(p: dict[str, np.ndarray], count: int, steps: Iterable[int], seed: int = 0) -> dict[str, np.ndarray]:
    """Levenberg-Marquardt steps; new points are drawn every twenty steps."""
    random, damping = np.random.default_rng(seed), 0.01
    vector, unravel = adc.ravel(p)
    for step in steps:
        if step % 20 == 0:
            x, t = points(unravel(vector), count, random)
        values, gradients = with_rows(unravel(vector), x, t)
        rows = np.concatenate([part.reshape(count, -1) for part in gradients.values()], axis=1)
        normal, slope, cost = rows.T @ rows, rows.T @ values, values @ values
        for _ in range(12):
            try:
                factor = cho_factor(normal + damping * np.eye(len(vector)))
            except LinAlgError:  # the damping is below the rounding of the normal equations
                damping *= 3
                continue
            new = vector - cho_solve(factor, slope)
            if np.sum(residuals(unravel(new), x, t) ** 2) < cost:
                vector, damping = new, damping / 4
                break
            damping *= 3
    return unravel(vector)


class Solved(NamedTuple):
    """Values on a grid, with times in rows, by the network and exactly."""

    x: np.ndarray
    t: np.ndarray
    network: np.ndarray
    exact: np.ndarray

    @property
    def error(self) -> float:
        """The error in the Euclidean norm, relative to the solution."""
        return float(np.linalg.norm(self.network - self.exact) / np.linalg.norm(self.exact))


def solved(p: dict[str, np.ndarray], columns: int = 512, rows: int = 200) -> Solved:
    """The network compared with the exact solution."""
    x, t = np.meshgrid(np.linspace(-1, 1, columns), np.linspace(1 / rows, 1, rows))
    found = field(x.ravel(), t.ravel(), p).reshape(x.shape)
    return Solved(x, t, found, exact(x.ravel(), t.ravel()).reshape(x.shape))


def draw(found: Solved, path: Path) -> None:
    """The solution and its error over space and time, and the solution at three times."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.4), layout="constrained", facecolor="white")
    above, below = figure.subfigures(2, 1, height_ratios=(1, 0.85))
    wide = above.subplot_mosaic("UE") | below.subplot_mosaic("ABC", sharey=True)
    image = wide["U"].pcolormesh(found.t, found.x, found.network, cmap="RdBu_r", vmin=-1, vmax=1)
    wide["U"].set_title("the network's solution u", fontsize=10)
    above.colorbar(image, ax=wide["U"])
    apart = np.abs(found.network - found.exact)
    image = wide["E"].pcolormesh(found.t, found.x, apart, cmap="magma", norm=LogNorm(1e-6, 1e-2))
    wide["E"].set_title("its error", fontsize=10)
    above.colorbar(image, ax=wide["E"], extend="both")
    for name in "UE":
        wide[name].set(xlabel="time t", ylabel="place x")
    for name, time in zip("ABC", (0.25, 0.5, 0.75), strict=True):
        k = int(np.abs(found.t[:, 0] - time).argmin())
        wide["U"].axvline(found.t[k, 0], color="black", linewidth=0.7, linestyle=":")
        wide[name].plot(found.x[k], found.exact[k], color="0.7", linewidth=5, label="exact")
        wide[name].plot(found.x[k], found.network[k], color="tab:red", linewidth=1.3, label="network")
        wide[name].set(xlabel="place x", ylim=(-1.15, 1.15), title=f"t = {found.t[k, 0]:.2f}")
        wide[name].title.set_fontsize(10)
    wide["A"].set_ylabel("u")
    wide["C"].legend(loc="upper right", frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


def main(given: list[str] | None = None) -> None:
    """Run the command line."""
    from tqdm import tqdm

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--points", type=int, default=1_500)
    parser.add_argument("--width", type=int, default=16, help="neurons of a layer")
    parser.add_argument("--draw", type=Path, help="a file for a picture")
    asked = parser.parse_args(given)
    p = train(start(asked.width), asked.points, tqdm(range(asked.steps), leave=False))
    found = solved(p)
    some = found.x[::10, ::8].ravel(), found.t[::10, ::8].ravel()
    doubt = np.abs(exact(*some, nodes=150) - exact(*some)).max()
    print(f"{asked.steps} steps, {adc.ravel(p)[0].size} parameters, {asked.points:,} points")
    print(f"exact solution by quadrature: 150 and 200 nodes differ by {doubt:.0e}")
    most = np.abs(found.network - found.exact).max()
    print(f"error of the network: {found.error:.1e} in the Euclidean norm, {most:.1e} at most")
    if asked.draw is not None:
        draw(found, asked.draw)


if __name__ == "__main__":
    main()
