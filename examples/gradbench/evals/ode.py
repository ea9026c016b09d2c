"""ode: a differential equation by Runge and Kutta's method, and the gradient of its last component."""

from __future__ import annotations

from typing import Any

import numpy as np

import adcompiler as adc
from evals.case import Case, floats, formulas

formula = formulas(__file__)


def prepare(given: Any) -> tuple[Any, ...]:
    return floats(given["x"]), int(given["s"])


FUNCTIONS = {
    "primal": Case(prepare, formula.ode, np.ndarray.tolist),
    "gradient": Case(prepare, adc.grad(formula.last), np.ndarray.tolist),
}
