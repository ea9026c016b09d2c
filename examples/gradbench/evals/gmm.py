"""gmm: the log posterior of a Gaussian mixture, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

import adcompiler as adc
from evals.case import Case, floats, formulas

formula = formulas(__file__)
VARIABLES = ("alpha", "mu", "q", "l")
gradient = adc.grad(formula.log_posterior, VARIABLES)


def prepare(given: Any) -> tuple[Any, ...]:
    shapes = (given["k"],), *((given["k"], -1),) * 3
    variables = (floats(given[name]).reshape(shape) for name, shape in zip(VARIABLES, shapes, strict=True))
    return *variables, floats(given["x"]), float(given["gamma"]), float(given["m"])


def objective(*args: Any) -> float:
    (n, d), k = args[4].shape, len(args[0])
    return formula.log_posterior(*args) + formula.constant(n, d, k, *args[5:])


def named(gradients: tuple[np.ndarray, ...]) -> dict[str, Any]:
    return {name: g.tolist() for name, g in zip(VARIABLES, gradients, strict=True)}


FUNCTIONS = {"objective": Case(prepare, objective, float), "jacobian": Case(prepare, gradient, named)}
