"""A cluster of 38 Lennard-Jones atoms: relaxed to its lowest minimum, with the vibrations there.

python examples/lennard_jones.py               relax copies with displaced atoms, and find the vibrations
python examples/lennard_jones.py --draw FILE   draw the minima, the cluster and its spectrum as well

Lengths are in units of σ, energies of ε, frequencies of √(ε / m) / σ. The lowest minimum known is a truncated
octahedron, cut from a face-centred cubic crystal (J. Pillardy and L. Piela, J. Phys. Chem. 99 (1995) 11805).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit

import adcompiler as adc

PUBLISHED = -173.928427


@adc.function
def energy(x):
    """The sum of 4 (r⁻¹² − r⁻⁶) over all pairs."""
    total = 0.0
    for i in range(len(x)):
        for j in range(i):
            r2 = sum((x[i] - x[j]) ** 2)
            total += 4 * (r2**-6 - r2**-3)
    return total


slope = adc.value_and_grad(energy).jitted
curvature = adc.hessian(energy)


def octahedron(distance: float = 1.1) -> np.ndarray:
    """38 sites of a face-centred cubic lattice: an octahedron of 44 without its 6 tips."""
    sites = [site for site in product(range(-2, 3), repeat=3) if sum(map(abs, site)) in (1, 3)]
    return np.array(sites) * distance / np.sqrt(2)


@njit
def relaxed(x, tolerance=1e-3, steps=10_000):
    """A minimum near x and its energy: FIRE, E. Bitzek et al., Phys. Rev. Lett. 97 (2006) 170201."""
    v, dt, mix, good = np.zeros_like(x), 0.005, 0.1, 0
    e, g = slope(x)
    for _ in range(steps):
        size = np.sqrt(np.sum(g * g))
        if size < tolerance:
            break
        if np.sum(v * g) <= 0:  # downhill: turn the velocity to the force, and speed up after a while
            v = (1 - mix) * v - mix * np.sqrt(np.sum(v * v)) / size * g
            good += 1
            if good > 5:
                dt, mix = min(1.1 * dt, 0.05), 0.99 * mix
        else:
            v[:], dt, mix, good = 0.0, dt / 2, 0.1, 0
        v -= dt * g
        x = x + dt * v * min(1.0, 0.1 / (dt * np.abs(v).max()))  # no atom moves further than 0.1
        e, g = slope(x)
    return x, e


class Vibrations(NamedTuple):
    """Squares of angular frequencies, ascending, and a mode in each column."""

    squares: np.ndarray
    modes: np.ndarray

    @property
    def levels(self) -> list[np.ndarray]:
        """The frequencies that are not zero, grouped by equal values."""
        found = np.sqrt(self.squares[6:]) / (2 * np.pi)
        return np.split(found, np.flatnonzero(np.diff(found) > 1e-6) + 1)


def vibrations(x: np.ndarray) -> Vibrations:
    """The vibrations at a minimum, from its Hessian."""
    return Vibrations(*np.linalg.eigh(curvature(x).reshape(x.size, x.size)))


def displaced(amplitudes: Iterable[float], seed: int = 0) -> list[np.ndarray]:
    """Minima near the octahedron with all atoms displaced, by standard deviations of these amplitudes."""
    random, perfect = np.random.default_rng(seed), octahedron()
    return [relaxed(perfect + random.normal(0, size, perfect.shape))[0] for size in amplitudes]


def draw(path: Path, amplitudes: np.ndarray, energies: np.ndarray, x: np.ndarray, found: Vibrations) -> None:
    """The energies of minima by displacement, the cluster with a mode, and the spectrum."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.6), layout="constrained", facecolor="white")
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.1, 1, 1.1))
    lowest = np.abs(energies - PUBLISHED) < 1e-3
    left.plot(amplitudes[~lowest], energies[~lowest], ".", color="0.6", markersize=3, label="other minima")
    left.plot(
        amplitudes[lowest], energies[lowest], ".", color="tab:red", markersize=4, label="the octahedron"
    )
    left.set(xlabel="displacement of the atoms before (σ)", ylabel="energy of the minimum (ε)")
    left.set_title(f"{len(energies):,} copies, displaced and relaxed", fontsize=10)
    left.legend(loc="lower left", bbox_to_anchor=(0, 0.06), frameon=False)
    draw_cluster(middle, x, breathing(x, found))
    middle.set_title("The octahedron and a vibration", fontsize=10)
    for level in found.levels:
        colour = ("tab:blue", "tab:orange", "tab:red")[len(level) - 1]
        right.vlines(level.mean(), 0, len(level), color=colour, linewidth=1.6)
    right.set(xlabel="frequency (√(ε / m) / σ)", ylabel="modes of this frequency", ylim=(0, 3.4))
    right.set(yticks=(0, 1, 2, 3), xlim=(0, None))
    right.set_title(f"{x.size - 6} vibrations in {len(found.levels)} levels", fontsize=10)
    figure.savefig(path, dpi=110)


def breathing(x: np.ndarray, found: Vibrations) -> np.ndarray:
    """The mode that moves all atoms outwards the most."""
    outwards = (x - x.mean(axis=0)) / np.linalg.norm(x - x.mean(axis=0), axis=1, keepdims=True)
    along = outwards.ravel() @ found.modes
    k = np.abs(along).argmax()
    return np.sign(along[k]) * found.modes[:, k].reshape(x.shape)


def draw_cluster(axes: Any, x: np.ndarray, mode: np.ndarray) -> None:
    """Atoms as balls, from back to front, with arrows along a mode."""
    from matplotlib import colormaps
    from matplotlib.patches import Circle

    a, b = np.radians(20), np.radians(12)
    about = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    tilt = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    places = (x - x.mean(axis=0)) @ (tilt @ about).T
    arrows = 4.5 * mode @ (tilt @ about).T
    distance = np.linalg.norm(places, axis=1)
    tones = colormaps["viridis"](0.15 + 0.75 * (distance - distance.min()) / np.ptp(distance))
    for k in places[:, 2].argsort():
        for part in np.linspace(0, 1, 16):  # a ball: discs that become smaller and lighter
            centre = places[k, :2] + 0.17 * part * np.array([-1, 1])
            tone = tones[k, :3] + (0.85 * part**2) * (1 - tones[k, :3])
            shade = 0.62 + 0.38 * min(1.0, 4 * part)
            axes.add_patch(Circle(centre, 0.52 * (1 - part) + 0.02, color=shade * tone, linewidth=0))
    for place, arrow in zip(places, arrows, strict=True):
        if place[2] > -0.3 and np.hypot(*arrow[:2]) > 0.25:
            axes.annotate(
                "", place[:2] + arrow[:2], place[:2], arrowprops={"arrowstyle": "->", "color": "black"}
            )
    axes.set(xlim=(-2.7, 2.7), ylim=(-2.7, 2.7), aspect="equal")
    axes.set_axis_off()


def main(given: list[str] | None = None) -> None:
    """Run the command line."""
    from tqdm import tqdm

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--copies", type=int, default=1_000)
    parser.add_argument("--draw", type=Path, help="a file for a picture")
    asked = parser.parse_args(given)
    amplitudes = np.linspace(0.0, 0.35, asked.copies)
    minima = displaced(tqdm(amplitudes, leave=False))
    energies = np.array([energy(x) for x in minima])
    fit = adc.minimize(energy, minima[energies.argmin()], method="trust-exact", options={"gtol": 1e-8})
    found = vibrations(fit.params)
    same, lower = np.mean(np.abs(energies - PUBLISHED) < 1e-3), np.mean(energies < PUBLISHED - 1e-3)
    print(f"{same:.0%} of {len(minima):,} copies relax to the octahedron, {lower:.0%} to lower minima")
    print(f"energy {fit.fun:.6f} ε after {fit.nit} steps of Newton's method; published: {PUBLISHED}")
    zero, least = np.abs(found.squares[:6]).max(), found.squares[6]
    print(f"eigenvalues of the Hessian: 6 are at most {zero:.0e}, the others at least {least:.1f}")
    counts = [sum(len(level) == k for level in found.levels) for k in (1, 2, 3)]
    print("{} vibrations: {} simple, {} double and {} triple frequencies".format(fit.x.size - 6, *counts))
    if asked.draw is not None:
        draw(asked.draw, amplitudes, energies, fit.params, found)


if __name__ == "__main__":
    main()
