"""ht: the residuals of hand tracking, and their dense Jacobian."""

from __future__ import annotations

from typing import Any

import numpy as np

import adcompiler as adc
from evals.case import Case, floats, formulas, indices

formula = formulas(__file__)
by_theta = adc.jacobian(formula.simple, "theta")
by_both = adc.jacobian(formula.complicated, ("shift", "theta"))


def prepare(given: Any) -> tuple[Any, ...]:
    """The arguments of `simple`, or of `complicated` if there are weights `us` of the triangles' corners."""
    data, model = given["data"], given["data"]["model"]
    theta, us, at = floats(given["theta"]), floats(given["us"]), indices(data["correspondences"])
    hand = (
        indices(model["parents"]),
        *(floats(model[name]) for name in ("base_relatives", "inverse_base_absolutes")),
        *(floats(model[name]) for name in ("base_positions", "weights")),
        -1.0 if model["is_mirrored"] else 1.0,
        floats(data["points"]),
    )
    if not us.size:
        return theta, *hand, at
    return np.zeros(2), theta, us, *hand, indices(model["triangles"])[at]


def is_simple(args: tuple[Any, ...]) -> bool:
    return len(args) == len(formula.simple._parameters)


def objective(*args: Any) -> np.ndarray:
    return (formula.simple if is_simple(args) else formula.complicated)(*args)


def jacobian(*args: Any) -> np.ndarray:
    """A row for each coordinate; the columns are those by a point's own weights, then by theta."""
    if is_simple(args):
        return by_theta(*args)
    return np.concatenate(by_both(*args), axis=2)


def flat(residuals: np.ndarray) -> list[float]:
    return residuals.ravel().tolist()


def by_rows(blocks: np.ndarray) -> list[list[float]]:
    return blocks.reshape(-1, blocks.shape[2]).tolist()


FUNCTIONS = {"objective": Case(prepare, objective, flat), "jacobian": Case(prepare, jacobian, by_rows)}
