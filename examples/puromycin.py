"""The velocity of an enzyme's reaction by the concentration of its substrate, with confidence bands.

python examples/puromycin.py               fit, and print the parameters with their standard errors
python examples/puromycin.py --draw FILE   draw the data, the curve and its bands

The data are those of Treloar (1974), treated with puromycin, as in D. M. Bates and D. G. Watts, *Nonlinear
Regression Analysis and Its Applications*, Wiley 1988, table A1.3.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numba import njit
from scipy.special import stdtrit

import adcompiler as adc
from adcompiler.fit.results import FitResult

CONCENTRATION = np.repeat([0.02, 0.06, 0.11, 0.22, 0.56, 1.10], 2)  # ppm
VELOCITY = np.array([76.0, 47, 97, 107, 123, 139, 159, 152, 191, 201, 207, 200])  # counts/min²
START = {"limit": 200.0, "half": 0.1}


@njit
def velocity(concentration, limit, half):
    """Michaelis and Menten's law: half of the limit is reached at the concentration `half`."""
    return limit * concentration / (half + concentration)


def bands(fit: FitResult, at: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Half the widths, at some concentrations, of the bands of the curve and of a new measurement.

    Both follow from the model linearised at the fit: the variance of the curve is J C Jᵀ, with the Jacobian J
    of the model and the covariance C of the parameters (Bates and Watts, section 2.3.2).
    """
    slopes = np.stack(adc.jacobian(velocity, ("limit", "half"))(at, **fit.params), axis=1)
    variance = np.sum((slopes @ fit.cov) * slopes, axis=1)
    free = len(VELOCITY) - len(fit.x)
    quantile = stdtrit(free, (1 + level) / 2)
    return quantile * np.sqrt(variance), quantile * np.sqrt(variance + 2 * fit.cost / free)


def draw(fit: FitResult, path: Path) -> None:
    """The data, the curve, and both bands."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4), layout="constrained", facecolor="white")
    axes = figure.subplots()
    at = np.linspace(0, 1.2, 241)
    curve, (narrow, wide) = velocity(at, **fit.params), bands(fit, at)
    axes.fill_between(at, curve - wide, curve + wide, color="0.92", label="95 % of new measurements")
    axes.fill_between(
        at, curve - narrow, curve + narrow, color="tab:blue", alpha=0.3, label="95 % band of the curve"
    )
    axes.plot(at, curve, color="tab:blue", label="fit")
    axes.plot(CONCENTRATION, VELOCITY, "o", color="black", markersize=4, label="measured")
    axes.set(xlabel="concentration of the substrate (ppm)", ylabel="velocity (counts/min²)")
    axes.set(xlim=(0, 1.2), ylim=(0, 250))
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=110)


def main(given: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draw", type=Path, help="a file for a picture")
    asked = parser.parse_args(given)
    fit = adc.curve_fit(velocity, CONCENTRATION, VELOCITY, START)
    for name, value in fit.params.items():
        print(f"{name}: {value:.4g} ± {fit.stderr[name]:.2g}")
    if asked.draw is not None:
        draw(fit, asked.draw)


if __name__ == "__main__":
    main()
