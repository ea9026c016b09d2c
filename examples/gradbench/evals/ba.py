"""ba: the errors of bundle adjustment, and their Jacobian, which is sparse."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import adcompiler as adc
from evals.case import Case, floats, formulas

formula = formulas(__file__)
CAMERA, POINT = 11, 3  # parameters of a camera, coordinates of a point
ROW = CAMERA + POINT + 1  # entries in a row of a reprojection's Jacobian

blocks = adc.vmap(adc.jacobian(formula.reprojection, ("camera", "point", "weight")))
slopes = adc.vmap(adc.grad(formula.regularisation))


class Sparse(NamedTuple):
    """A matrix by rows: row i has the entries from rows[i] to rows[i + 1] of `cols` and `vals`."""

    rows: np.ndarray
    cols: np.ndarray
    vals: np.ndarray


def prepare(given: Any) -> tuple[Any, ...]:
    """All cameras, points and observations are alike: one of each is sent, and repeated here."""
    n, m, p = (int(given[name]) for name in "nmp")
    seen = np.stack([np.arange(p) % n, np.arange(p) % m], axis=1)
    cameras, points = np.tile(floats(given["cam"]), (n, 1)), np.tile(floats(given["x"]), (m, 1))
    return cameras, points, np.full(p, float(given["w"])), np.tile(floats(given["feat"]), (p, 1)), seen


def jacobian(
    cameras: np.ndarray, points: np.ndarray, weights: np.ndarray, features: np.ndarray, seen: np.ndarray
) -> Sparse:
    """The columns are the cameras', the points', then the weights' parameters."""
    p, (camera, point) = len(seen), seen.T
    seeing, seen_points = cameras.take(camera, axis=0), points.take(point, axis=0)
    by_camera, by_point, by_weight = blocks(seeing, seen_points, weights, features)
    vals = np.concatenate([by_camera, by_point, by_weight[..., None]], axis=2)
    first_point, first_weight = cameras.size, cameras.size + points.size
    cols = np.concatenate(
        [
            CAMERA * camera[:, None] + np.arange(CAMERA),
            first_point + POINT * point[:, None] + np.arange(POINT),
            first_weight + np.arange(p)[:, None],
        ],
        axis=1,
    )
    both = np.repeat(cols[:, None, :], 2, axis=1)
    rows = np.concatenate([np.arange(0, 2 * p * ROW, ROW), 2 * p * ROW + np.arange(p + 1)])
    return Sparse(
        rows,
        np.concatenate([both.ravel(), first_weight + np.arange(p)]),
        np.concatenate([vals.ravel(), slopes(weights)]),
    )


def repeated(errors: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """All observations are alike: the errors of one of them."""
    reprojections, regularisations = errors
    return {
        "reproj_error": {"elements": reprojections[0].tolist(), "repeated": len(reprojections)},
        "w_err": {"element": float(regularisations[0]), "repeated": len(regularisations)},
    }


def excerpt(matrix: Sparse) -> dict[str, Any]:
    """The first observation and the last entry of each list."""
    return {name: [*part[: 2 * ROW].tolist(), part[-1].item()] for name, part in matrix._asdict().items()}


FUNCTIONS = {
    "objective": Case(prepare, formula.errors, repeated),
    "jacobian": Case(prepare, jacobian, excerpt),
}
