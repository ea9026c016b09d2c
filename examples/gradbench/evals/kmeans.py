"""kmeans: the cost of centroids, and the step of Newton's method from them."""

from __future__ import annotations

from typing import Any

import numpy as np

import adcompiler as adc
from evals.case import Case, floats, formulas

cost = formulas(__file__).cost
gradient = adc.grad(cost, "centroids")


def prepare(given: Any) -> tuple[Any, ...]:
    return floats(given["points"]), floats(given["centroids"])


def direction(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """The gradient over the Hessian, which is diagonal: its product with ones is its diagonal."""
    slope, curvature = adc.jvp(gradient, (points, centroids), (None, np.ones_like(centroids)))
    return slope / curvature


FUNCTIONS = {"cost": Case(prepare, cost, float), "dir": Case(prepare, direction, np.ndarray.tolist)}
