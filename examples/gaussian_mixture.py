"""A mixture of Gaussians fitted by Newton's method in a trust region, and by expectation-maximisation (EM).

python examples/gaussian_mixture.py               fit, and compare with scikit-learn if it is installed
python examples/gaussian_mixture.py --draw FILE   draw the components and the convergence as well
"""
# ruff: noqa: F821  the functions of the language need no import

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import adcompiler as adc


@adc.function
def cost(p, points):
    """The mean of minus the log-likelihood; a row a, b, c of `scale` whitens by [[eᵃ, 0], [b, eᶜ]]."""
    x, y = points[:, 0, None] - p["means"][:, 0], points[:, 1, None] - p["means"][:, 1]
    a, b, c = p["scale"][:, 0], p["scale"][:, 1], p["scale"][:, 2]
    square = (exp(a) * x) ** 2 + (b * x + exp(c) * y) ** 2
    weights = p["logits"] - logsumexp(p["logits"])
    return log(2 * pi) - mean(logsumexp(weights + a + c - square / 2, axis=1))


@dataclass
class Fit:
    """The final parameters, and the cost after each iteration."""

    params: dict[str, np.ndarray]
    costs: list[float]


def sample(count: int, seed: int = 0) -> np.ndarray:
    """Points of four clusters that overlap."""
    random = np.random.default_rng(seed)
    means = np.array([[-1.6, 0.0], [0.3, 0.9], [1.8, -0.6], [0.2, -1.0]])
    shapes = np.array(
        [[[0.9, 0.5], [0, 0.5]], [[1.1, -0.5], [0, 0.4]], [[0.4, 0.2], [0, 1.0]], [[0.8, 0.0], [0, 0.5]]]
    )
    which = random.choice(4, count, p=[0.3, 0.3, 0.2, 0.2])
    return means[which] + np.einsum("nij,nj->ni", shapes[which], random.normal(size=(count, 2)))


def start(points: np.ndarray, components: int, seed: int = 1) -> dict[str, np.ndarray]:
    """Equal components at random points."""
    chosen = np.random.default_rng(seed).choice(len(points), components, replace=False)
    return {"logits": np.zeros(components), "means": points[chosen], "scale": np.zeros((components, 3))}


def by_newton(points: np.ndarray, p: dict[str, np.ndarray], progress: bool = False) -> Fit:
    """Newton's method in a trust region, with exact products of the Hessian with vectors."""
    costs = [float(cost(p, points))]

    def seen(intermediate_result: Any) -> None:
        costs.append(float(intermediate_result.fun))

    options = {"gtol": 1e-7}
    fit = adc.minimize(cost, p, (points,), "trust-ncg", callback=seen, options=options, progress=progress)
    return Fit(fit.params, costs)


def by_em(
    points: np.ndarray, p: dict[str, np.ndarray], iterations: Iterable[int], least: float
) -> Fit | None:
    """EM of scikit-learn from the same start, until its cost is near the minimum; None if not installed."""
    try:
        from sklearn.mixture import GaussianMixture
    except ImportError:
        return None
    count = len(p["logits"])
    begin = {"weights_init": np.full(count, 1 / count), "means_init": p["means"]}
    begin["precisions_init"] = np.broadcast_to(np.eye(2), (count, 2, 2))
    mixture, costs = GaussianMixture(count, max_iter=1, warm_start=True, reg_covar=0, **begin), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each call is one iteration, which does not converge
        for _ in iterations:
            costs.append(-mixture.fit(points).lower_bound_)
            if costs[-1] < least + 1e-10:
                break
    a, b, c = (mixture.precisions_cholesky_[:, i, j] for i, j in ((0, 0), (0, 1), (1, 1)))
    scale = np.stack([np.log(a), b, np.log(c)], axis=1)
    return Fit({"logits": np.log(mixture.weights_), "means": mixture.means_, "scale": scale}, costs)


def covariances(p: dict[str, np.ndarray]) -> np.ndarray:
    """The covariance of each component."""
    a, b, c = p["scale"].T
    whiten = np.stack([np.stack([np.exp(a), 0 * a], axis=1), np.stack([b, np.exp(c)], axis=1)], axis=1)
    return np.linalg.inv(np.swapaxes(whiten, 1, 2) @ whiten)


def draw(points: np.ndarray, newton: Fit, em: Fit | None, path: Path) -> None:
    """The points with the density and the components, and the convergence."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    left.plot(*points[:4000].T, ".", color="0.75", markersize=1.5, zorder=0)
    x, y = np.meshgrid(np.linspace(-5, 5, 201), np.linspace(-3.2, 3.2, 161))
    at = adc.vmap(cost, (None, 0))(newton.params, np.stack([x.ravel(), y.ravel()], axis=1)[:, None])
    left.contour(x, y, np.exp(-at.reshape(x.shape)), 9, cmap="viridis", linewidths=0.9)
    circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 100)), np.sin(np.linspace(0, 2 * np.pi, 100))])
    for mean, covariance in zip(newton.params["means"], covariances(newton.params), strict=True):
        left.plot(*(mean[:, None] + np.linalg.cholesky(covariance) @ circle), color="tab:red", linewidth=1.8)
        left.plot(*mean, "+", color="tab:red", markersize=9, markeredgewidth=1.8)
    left.set(xlim=(-4.3, 4.3), ylim=(-3.3, 2.9), aspect="equal")
    left.set_title("density, and one standard deviation of each component", fontsize=10)
    least = newton.costs[-1]
    for fit, name, style in ((em, "EM", "-"), (newton, "Newton, trust region", "o-")):
        if fit is not None:
            above = np.maximum(np.array(fit.costs) - least, 1e-14)
            right.semilogy(above[above > 1e-13], style, markersize=4, label=name)
    right.set(xlabel="iterations", ylabel="cost above the minimum", ylim=(1e-12, 10))
    right.set_title("convergence from the same start", fontsize=10)
    right.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main(given: list[str] | None = None) -> None:
    """Run the command line."""
    from tqdm import tqdm

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--draw", type=Path, help="a file for a picture")
    asked = parser.parse_args(given)
    points = sample(asked.points)
    p = start(points, 4)
    newton = by_newton(points, p, progress=True)
    em = by_em(points, p, tqdm(range(1000), leave=False), newton.costs[-1])
    print(f"Newton: {len(newton.costs) - 1} iterations, cost {newton.costs[-1]:.10f}")
    if em is None:
        print("EM: no comparison, since scikit-learn is not installed: pip install scikit-learn")
    else:
        order, other = (np.argsort(fit.params["means"][:, 0]) for fit in (newton, em))
        apart = np.abs(newton.params["means"][order] - em.params["means"][other]).max()
        print(
            f"EM: {len(em.costs)} iterations, cost {em.costs[-1]:.10f}; means differ by {apart:.0e} at most"
        )
    if asked.draw is not None:
        draw(points, newton, em, asked.draw)


if __name__ == "__main__":
    main()
