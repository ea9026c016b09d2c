"""The Hessian of a Lagrangian with 100,000 variables, beside CasADi: `python tests/bench/optimal_control.py`.

The problem is that of examples/cartpole.py. CasADi computes it in two ways: `hessian` of the whole problem,
run by its virtual machine, and the Hessian of one interval, compiled by `gcc -O3` and mapped over all
intervals. The entries of this one a solver would still have to add up. Rounds of all ways alternate, so that
a busy machine slows all of them. `--gcc` compiles the whole problem too, which takes very long.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

CART, POLE, LENGTH, GRAVITY = 1.0, 0.3, 0.5, 9.81
NAMES = ("position", "angle", "speed", "spin", "force")
Way = tuple[float, Callable[[], Any]]


def ours(nodes: int, x: np.ndarray, weights: np.ndarray) -> tuple[Way, float]:
    """Set-up until the first values, and the Hessian."""
    import adcompiler as adc

    text = (
        "def rates(angle, spin, force):\n"
        "    s, c = sin(angle), cos(angle)\n"
        f"    mass = {CART} + {POLE} * s**2\n"
        f"    push = force + {POLE} * s * ({LENGTH} * spin**2 + {GRAVITY} * c)\n"
        f"    return push / mass, -(push * c + mass * {GRAVITY} * s) / ({LENGTH} * mass)\n"
        "def steps(position, angle, speed, spin, force, h):\n"
        "    cart, pole = rates(angle, spin, force)\n"
        "    return (\n"
        "        position[1:] - position[:-1] - h / 2 * (speed[1:] + speed[:-1]),\n"
        "        angle[1:] - angle[:-1] - h / 2 * (spin[1:] + spin[:-1]),\n"
        "        speed[1:] - speed[:-1] - h / 2 * (cart[1:] + cart[:-1]),\n"
        "        spin[1:] - spin[:-1] - h / 2 * (pole[1:] + pole[:-1]),\n"
        "    )\n"
    )
    began = perf_counter()
    effort = adc.compile("def effort(force, h): return h / 2 * sum(force[1:]**2 + force[:-1]**2)")
    start = dict(zip(NAMES, x.reshape(5, -1), strict=True))
    problem = adc.nlp(effort, adc.compile(text, name="steps"), NAMES, x0=start, data={"h": 2.0 / nodes})
    problem.hessianstructure()
    total = problem.hessian(x, weights, 1.0).sum()
    return (perf_counter() - began, lambda: problem.hessian(x, weights, 1.0)), total


def rates(angle: Any, spin: Any, force: Any) -> tuple[Any, Any]:
    import casadi as ca

    s, c = ca.sin(angle), ca.cos(angle)
    mass = CART + POLE * s**2
    push = force + POLE * s * (LENGTH * spin**2 + GRAVITY * c)
    return push / mass, -(push * c + mass * GRAVITY * s) / (LENGTH * mass)


def whole(nodes: int, x: np.ndarray, weights: np.ndarray, gcc: bool = False) -> tuple[Way, float]:
    """CasADi's Hessian of the whole problem, expanded to scalar operations."""
    import casadi as ca

    began = perf_counter()
    variables, lam = ca.SX.sym("x", 5 * nodes), ca.SX.sym("lam", 4 * (nodes - 1))
    h, factor = ca.SX.sym("h"), ca.SX.sym("s")
    p, a, v, w, u = (variables[k * nodes : (k + 1) * nodes] for k in range(5))
    cart, pole = rates(a, w, u)
    pairs = ((p, v), (a, w), (v, cart), (w, pole))
    defects = ca.vertcat(*(z[1:] - z[:-1] - h / 2 * (f[1:] + f[:-1]) for z, f in pairs))
    lagrangian = factor * h / 2 * ca.sum1(u[1:] ** 2 + u[:-1] ** 2) + ca.dot(lam, defects)
    hessian = ca.tril(ca.hessian(lagrangian, variables)[0])
    function = ca.Function("whole", [variables, lam, h, factor], [hessian])
    if gcc:
        function = compiled(function)
    return run(began, function, [x, weights, 2.0 / nodes, 1.0], (hessian.nnz(),))


def mapped(nodes: int, x: np.ndarray, weights: np.ndarray) -> tuple[Way, float]:
    """CasADi's Hessian of one interval, compiled, for all intervals."""
    import casadi as ca

    began = perf_counter()
    z, lam, h, factor = ca.SX.sym("z", 10), ca.SX.sym("lam", 4), ca.SX.sym("h"), ca.SX.sym("s")
    now, then = z[:5], z[5:]
    one, two = (ca.vertcat(y[2], y[3], *rates(y[1], y[3], y[4])) for y in (now, then))
    term = factor * h / 2 * (now[4] ** 2 + then[4] ** 2)
    term += ca.dot(lam, then[:4] - now[:4] - h / 2 * (one + two))
    hessian = ca.tril(ca.hessian(term, z)[0])
    stage = ca.Function("stage", [z, lam, h, factor], [hessian])
    function = compiled(stage.map("mapped", "serial", nodes - 1, [2, 3], []))
    points = x.reshape(5, -1).T
    pairs = np.ascontiguousarray(np.hstack((points[:-1], points[1:])))
    multipliers = np.ascontiguousarray(weights.reshape(4, -1).T)
    return run(began, function, [pairs, multipliers, 2.0 / nodes, 1.0], (nodes - 1, hessian.nnz()))


def compiled(function: Any) -> Any:
    """A function of CasADi compiled by gcc."""
    import casadi as ca

    folder, here = Path(tempfile.mkdtemp()), Path.cwd()
    os.chdir(folder)  # CasADi writes where it stands
    try:
        function.generate("code.c")
    finally:
        os.chdir(here)
    command = ["gcc", "-O3", "-march=native", "-fPIC", "-shared", "code.c", "-o", "code.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ca.external(function.name(), str(folder / "code.so"))


def run(began: float, function: Any, args: list[Any], shape: tuple[int, ...]) -> tuple[Way, float]:
    """A function of CasADi without the copies of its Python interface."""
    buffer, call = function.buffer()
    given, found = [np.asarray(a, float) for a in args], np.zeros(shape)
    for k, array in enumerate(given):
        buffer.set_arg(k, memoryview(array))
    buffer.set_res(0, memoryview(found))

    def evaluated(kept: Any = (buffer, given)) -> np.ndarray:
        call()
        return found

    total = float(evaluated().sum())
    return (perf_counter() - began, evaluated), total


def main() -> None:
    """Print set-up times, evaluation times and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--gcc", action="store_true")
    given = parser.parse_args()
    random = np.random.default_rng(0)
    x, weights = random.normal(size=5 * given.nodes), random.normal(size=4 * (given.nodes - 1))
    ways: dict[str, Way] = {}
    makers = {"adcompiler": ours, "casadi, whole": whole, "casadi, mapped, gcc -O3": mapped}
    if given.gcc:
        makers["casadi, whole, gcc -O3"] = lambda *args: whole(*args, gcc=True)
    for name, make in makers.items():
        before = sum(os.times()[:4])  # of this process and of compilers that it ran
        ways[name], total = make(given.nodes, x, weights)
        spent = sum(os.times()[:4]) - before
        took = f"{ways[name][0]:.2f} s, {spent:.2f} s of a processor"
        print(f"{name}: set-up and first values {took}, sum of entries {total:.9g}", flush=True)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(given.rounds):
        for name, (_, call) in ways.items():
            call()  # its data are in cache
            for _ in range(3):
                began = perf_counter()
                call()
                times[name].append(perf_counter() - began)
    base = times["adcompiler"]
    for name, found in times.items():
        ratio = median(a / b for a, b in zip(found, base, strict=True))
        print(
            f"{name}: best {min(found) * 1e3:.3f} ms, median {median(found) * 1e3:.3f} ms, ratio {ratio:.1f}"
        )


if __name__ == "__main__":
    main()
