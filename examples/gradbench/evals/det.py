"""det: the determinant by expansion by minors, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

import adcompiler as adc
from evals.case import Case, floats, formulas

det = formulas(__file__).det


def prepare(given: Any) -> tuple[Any, ...]:
    size = int(given["ell"])
    return floats(given["A"]).reshape(size, size), size


def flat(gradient: np.ndarray) -> list[float]:
    return gradient.ravel().tolist()


FUNCTIONS = {"primal": Case(prepare, det, float), "gradient": Case(prepare, adc.grad(det), flat)}
