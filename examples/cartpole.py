"""A cart swings its pole up: an optimal-control problem of 100,000 variables (docs/optimal_control.md).

python -m examples.cartpole [--nodes 20000] [--method ipopt] [--picture cartpole.png]
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

import numpy as np

import adcompiler as adc

DURATION, DISTANCE = 2.0, 1.0  # seconds, metres
FORCE, TRACK = 20.0, 2.0  # limits of the force and of the position
CART, POLE, LENGTH, GRAVITY = 1.0, 0.3, 0.5, 9.81


@adc.function
def rates(angle, spin, force):
    """The accelerations of the cart and of the pole."""
    s, c = np.sin(angle), np.cos(angle)
    mass = CART + POLE * s**2
    push = force + POLE * s * (LENGTH * spin**2 + GRAVITY * c)
    return push / mass, -(push * c + mass * GRAVITY * s) / (LENGTH * mass)


@adc.function
def steps(position, angle, speed, spin, force, h):
    """How far the path is from the trapezoidal rule; zero where it obeys the equations of motion."""
    cart, pole = rates(angle, spin, force)
    return (
        position[1:] - position[:-1] - h / 2 * (speed[1:] + speed[:-1]),
        angle[1:] - angle[:-1] - h / 2 * (spin[1:] + spin[:-1]),
        speed[1:] - speed[:-1] - h / 2 * (cart[1:] + cart[:-1]),
        spin[1:] - spin[:-1] - h / 2 * (pole[1:] + pole[:-1]),
    )


@adc.function
def effort(force, h):
    """The integral of the square of the force."""
    return h / 2 * (np.sum(force[1:] ** 2) + np.sum(force[:-1] ** 2))


NAMES = ("position", "angle", "speed", "spin", "force")


def straight(nodes: int) -> dict[str, np.ndarray]:
    """A first guess: a straight line from rest to rest, the pole from below to above."""
    line = np.linspace(0, 1, nodes)
    return {"position": DISTANCE * line, "angle": np.pi * line, **dict.fromkeys(NAMES[2:], 0 * line)}


def finer(path: dict[str, np.ndarray], nodes: int) -> dict[str, np.ndarray]:
    """A path with another number of nodes."""
    old, new = np.linspace(0, 1, len(path["force"])), np.linspace(0, 1, nodes)
    return {name: np.interp(new, old, path[name]) for name in NAMES}


def limits(nodes: int) -> dict[str, Any]:
    """Bounds, with rest at both ends, and constraints that are zero."""
    low = {"position": np.full(nodes, -TRACK), "force": np.full(nodes, -FORCE)}
    low |= {name: np.full(nodes, -np.inf) for name in ("angle", "speed", "spin")}
    high = {name: -low[name] for name in NAMES}
    for name, last in (("position", DISTANCE), ("angle", np.pi), ("speed", 0.0), ("spin", 0.0)):
        low[name][[0, -1]] = high[name][[0, -1]] = 0.0, last
    return {"lb": low, "ub": high, "cl": 0, "cu": 0}


def solve(nodes: int, method: str | None = None, coarse: int = 25, progress: bool = False) -> tuple[Any, Any]:
    """The problem and its solution: on a coarse grid first, then on the fine one, by the same kernels."""
    problem = adc.nlp(effort, steps, NAMES)
    path, result = straight(coarse), None
    for count in dict.fromkeys((coarse, nodes)):
        path = finer(path, count)
        data = {"h": DURATION / (count - 1)}
        result = problem.solve(path, method, **limits(count), data=data, progress=progress)
        path = dict(result.params)
    return problem, result


def draw(path: dict[str, np.ndarray], file: str) -> None:
    """A picture of the path: the force, the states, and the moving pole."""
    from matplotlib import pyplot as plt

    time = np.linspace(0, DURATION, len(path["force"]))
    figure, (above, below) = plt.subplots(2, 1, figsize=(8, 6), layout="constrained")
    moments = np.linspace(0, len(time) - 1, 21).astype(int)
    for k, color in zip(moments, plt.cm.viridis(np.linspace(0, 0.9, len(moments))), strict=True):
        x, a = path["position"][k], path["angle"][k]
        above.plot([x, x + LENGTH * np.sin(a)], [0, -LENGTH * np.cos(a)], "-", color=color, lw=1.5)
        above.plot(x + LENGTH * np.sin(a), -LENGTH * np.cos(a), "o", color=color)
        above.plot(x, 0, "s", color=color, ms=5)
    above.set(aspect="equal", xlabel="position (m)", ylabel="height (m)")
    for name, unit in (("position", "m"), ("angle", "rad")):
        below.plot(time, path[name], label=f"{name} ({unit})")
    forces = below.twinx()
    forces.plot(time, path["force"], "k", lw=1, label="force (N)")
    forces.set_ylabel("force (N)")
    below.set(xlabel="time (s)", ylabel="position, angle")
    lines = [*below.get_lines(), *forces.get_lines()]
    below.legend(lines, [line.get_label() for line in lines], loc="lower right")
    figure.savefig(file, dpi=90)


def main() -> None:
    """Solve the problem, print what it took, and draw the path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--method", default=None)
    parser.add_argument("--picture", default=None)
    given = parser.parse_args()
    began = perf_counter()
    problem, result = solve(given.nodes, given.method, progress=True)
    print(f"{problem.n} variables, {problem.m} constraints: {result.message}")
    print(f"effort {result.fun:.6f} in {result.nit} iterations, {perf_counter() - began:.1f} s in all")
    weights = np.ones(problem.m)
    for name, call in (
        ("Jacobian", lambda: problem.jacobian(result.x)),
        ("Hessian", lambda: problem.hessian(result.x, weights, 1.0)),
    ):
        times = []
        for _ in range(20):
            start = perf_counter()
            values = call()
            times.append(perf_counter() - start)
        print(f"{name}: {len(values)} entries in {min(times) * 1e3:.2f} ms")
    if given.picture:
        draw(result.params, given.picture)


if __name__ == "__main__":
    main()
