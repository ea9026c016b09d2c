"""`adc.nlp` with integrators of several stages: the entries of the Hessian are bounded by the program."""

from __future__ import annotations

import numpy as np
import pytest
from judges import growth

import adcompiler as adc
from adcompiler.ad.programs import entries
from adcompiler.api import sparse_entries

BICYCLE = """
def rates(x, u):
    beta = atan(0.5 * tan(u[:, 1]))
    v, heading = x[:, 3], x[:, 2] + beta
    return stack((v * cos(heading), v * sin(heading), v * sin(beta) / 1.5, u[:, 0]), axis=1)
"""
STEERED = """
def rates(x, u):
    v, heading = x[:, 3], x[:, 2] + x[:, 4]
    return stack((v * cos(heading), v * sin(heading), v * sin(x[:, 4]) / 1.5, u[:, 0], u[:, 1]), axis=1)
"""


def oscillators(count: int) -> str:
    """The rates of oscillators in a ring, each coupled to the next one."""
    terms = [f"sin(x[:, {k}] + x[:, {(k + 1) % count}]) - 0.1 * x[:, {k}] * u[:, 0]" for k in range(count)]
    return f"def rates(x, u):\n    return stack(({', '.join(terms)}), axis=1)\n"


MODELS = {"bicycle": (BICYCLE, 4), "steered": (STEERED, 5), "oscillators": (oscillators(12), 12)}
METHODS = {
    "euler": "x + h * rates(x, u)",
    "midpoint": "x + h * rates(x + h / 2 * rates(x, u), u)",
    "rk4": "rk4(x, u, h)",
    "two steps of rk4": "rk4(rk4(x, u, h / 2), u, h / 2)",
}
RK4 = """
def rk4(x, u, h):
    k1 = rates(x, u)
    k2 = rates(x + h / 2 * k1, u)
    k3 = rates(x + h / 2 * k2, u)
    k4 = rates(x + h * k3, u)
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
"""
DEFECTS = "\ndef defects(x, u, h):\n    return x[1:] - step(x[:-1], u[:-1], h)\n"
EFFORT = "def effort(u, h): return h * sum(u**2)"


def shooting(rates: str, states: int, step: str, backend: str = "numpy", points: int = 4):
    """The problem of a trajectory of a few points."""
    rng = np.random.default_rng(states)
    text = f"{rates}{RK4}\ndef step(x, u, h): return {step}\n{DEFECTS}"
    start = {"x": rng.normal(size=(points, states)), "u": 0.2 * rng.normal(size=(points, 2))}
    defects = adc.compile(text, name="defects", backend=backend)
    return adc.nlp(adc.compile(EFFORT, backend=backend), defects, ("x", "u"), x0=start, data={"h": 0.1})


def check(problem) -> None:
    """The Hessian of the Lagrangian agrees with differences of its gradient."""
    weights, x = np.random.default_rng(1).normal(size=problem.m), problem.x0
    structure, places = problem.hessianstructure(), problem.jacobianstructure()
    lower = np.zeros((problem.n, problem.n))
    lower[structure] = problem.hessian(x, weights, 1.5)
    assert np.unique(np.stack(structure), axis=1).shape[1] == len(structure[0])

    def slope(x: np.ndarray) -> np.ndarray:
        jacobian = np.zeros((problem.m, problem.n))
        jacobian[places] = problem.jacobian(x)
        return 1.5 * problem.gradient(x) + jacobian.T @ weights

    steps = 1e-5 * np.eye(problem.n)
    differences = np.stack([(slope(x + h) - slope(x - h)) / 2e-5 for h in steps])
    assert np.abs(differences - lower - np.tril(lower, -1).T).max() < 1e-8


@pytest.mark.slow_when(lambda model, method: model == "oscillators" or method == "two steps of rk4")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("model", MODELS)
def test_hessians_of_integrators(model: str, method: str) -> None:
    check(shooting(*MODELS[model], METHODS[method]))


@pytest.mark.parametrize("method", ["midpoint", "rk4"])
@pytest.mark.parametrize("model", ["bicycle", "steered"])
def test_families_that_are_added_up_at_each_array(model: str, method: str, monkeypatch) -> None:
    monkeypatch.setattr(entries, "MOST_APART", 0)
    monkeypatch.setattr(entries, "LEAST_STORED", 0)
    few = [p for p in sparse_entries.INLINED if p is not sparse_entries.inline_all]
    monkeypatch.setattr(sparse_entries, "INLINED", tuple(few))
    check(shooting(*MODELS[model], METHODS[method]))


def steps(rates: str, states: int, step: str) -> int:
    """How many functions run until the places of entries are known."""
    problem = shooting(rates, states, step)
    found = growth.calls(problem.hessianstructure)
    return found.total()


def repeated(count: int) -> str:
    """So many steps of Euler's method, one after another."""
    step = "x"
    for _ in range(count):
        step = f"euler({step}, u, h)"
    return step


@pytest.mark.parametrize("model", [pytest.param("bicycle", marks=pytest.mark.slow), "steered"])
def test_the_places_take_steps_in_proportion_to_the_stages(model: str) -> None:
    rates, states = MODELS[model]
    rates += "def euler(x, u, h): return x + h * rates(x, u)\n"
    steps(rates, states, repeated(1))  # what the process makes once
    assert growth.excess([steps(rates, states, repeated(k)) for k in (2, 4, 8)]) < 1.5


@pytest.mark.parametrize("model", ["steered", pytest.param("oscillators", marks=pytest.mark.slow)])
def test_kernels_compute_the_entries(model: str) -> None:
    check(shooting(*MODELS[model], METHODS["rk4"], backend="cpu"))
