"""Dose-response curves of a screen: the response of each compound at several doses, and a curve through each.

python examples/dose_response.py               fit 100,000 simulated curves, and a sample with SciPy
python examples/dose_response.py --draw FILE   draw some of them
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from numba import njit

import adcompiler as adc
from adcompiler.fit.batch_result import BatchResult

START = {"bottom": 0.0, "top": 1.0, "middle": -6.0, "slope": 1.0}


@njit
def response(dose, bottom, top, middle, slope):
    """The four-parameter logistic curve; doses are decimal logarithms of concentrations."""
    return bottom + (top - bottom) / (1 + 10 ** (slope * (middle - dose)))


@dataclass
class Screen:
    """Responses, a row for each compound, at the same doses, and the curves that they were drawn from."""

    doses: np.ndarray
    responses: np.ndarray
    truth: dict[str, np.ndarray]


def simulated(
    compounds: int,
    doses: int = 12,
    noise: float = 0.04,
    missing: float = 0.02,
    idle: float = 0.1,
    seed: int = 0,
) -> Screen:
    """A screen in which some wells have failed, `missing` of all, and `idle` of all compounds do nothing."""
    random = np.random.default_rng(seed)
    truth = {
        "bottom": random.normal(0, 0.03, compounds),
        "top": random.uniform(0.6, 1.1, compounds),
        "middle": random.uniform(-7.5, -5, compounds),
        "slope": random.uniform(0.7, 2, compounds),
    }
    nothing = np.arange(compounds) % 100 < 100 * idle
    truth["top"][nothing] = truth["bottom"][nothing]
    at = np.linspace(-9, -4, doses)
    curves = response(at, *(row[:, None] for row in truth.values()))
    responses = curves + noise * random.normal(size=curves.shape)
    responses[random.random(responses.shape) < missing] = np.nan
    return Screen(at, responses, truth)


def with_scipy(screen: Screen, count: int) -> np.ndarray:
    """The parameters of the first fits, by a loop over `scipy.optimize.least_squares` with the Jacobian."""
    from scipy.optimize import least_squares

    def residuals(p: np.ndarray, dose: np.ndarray, y: np.ndarray) -> np.ndarray:
        return p[0] + (p[1] - p[0]) / (1 + 10 ** (p[3] * (p[2] - dose))) - y

    def jacobian(p: np.ndarray, dose: np.ndarray, y: np.ndarray) -> np.ndarray:
        power = 10 ** (p[3] * (p[2] - dose))
        part = 1 / (1 + power)
        slope = (p[1] - p[0]) * part**2 * power * np.log(10)
        return np.stack([1 - part, part, -slope * p[3], -slope * (p[2] - dose)], axis=1)

    found = np.empty((count, 4))
    for k in range(count):
        here = np.isfinite(screen.responses[k])
        data = screen.doses[here], screen.responses[k, here]
        start = list(START.values())
        found[k] = least_squares(residuals, start, jacobian, method="lm", args=data).x
    return found


def active(fits: BatchResult) -> np.ndarray:
    """Whether a compound has an effect, by five standard errors, and a potency known to half a decade."""
    found, errors = fits.params, fits.stderr
    effect = np.abs(found["top"] - found["bottom"])
    clear: np.ndarray = effect > 5 * np.hypot(errors["top"], errors["bottom"])
    return fits.success & clear & (errors["middle"] < 0.5)


def timed(compounds: int, sample: int) -> None:
    """Print the time of all fits, and that of a sample with SciPy, in seconds and in processor time."""
    began = perf_counter()
    first = simulated(64)
    adc.fit.batch(response, first.doses, first.responses, START)
    print(f"the program is compiled or loaded, with 64 fits, in {perf_counter() - began:.1f} s")
    for idle in (0.1, 0.0):
        print(f"{idle:.0%} of compounds do nothing:")
        screen = simulated(compounds, idle=idle)
        began, spent = perf_counter(), process_time()
        fits = adc.fit.batch(response, screen.doses, screen.responses, START)
        took, used = perf_counter() - began, (process_time() - spent) / compounds
        spent = process_time()
        others = with_scipy(screen, sample)
        each = (process_time() - spent) / sample
        clear = active(fits)[:sample]
        errors = np.sqrt(np.diagonal(fits.cov[:sample], axis1=1, axis2=2))
        apart = (np.abs(fits.x[:sample] - others) / errors)[clear].max()
        print(f"    {fits}")
        print(f"    {took:.2f} s, {1e6 * used:.1f} µs of processor time for each fit")
        print(
            f"    a loop over scipy.optimize.least_squares: {1e6 * each:.0f} µs, {each / used:.0f} times that"
        )
        print(f"    parameters of active compounds differ by {apart:.0e} standard errors at most")


def draw(screen: Screen, fits: BatchResult, path: Path) -> None:
    """Some compounds with their curves, and the errors of all potencies in units of their standard errors."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    fine = np.linspace(screen.doses[0], screen.doses[-1], 200)
    colours = colormaps["viridis"](np.linspace(0, 0.85, 5))
    chosen = np.flatnonzero(active(fits))
    chosen = chosen[np.argsort(fits.params["middle"][chosen])]
    chosen = chosen[(np.linspace(0.1, 0.9, 5) * len(chosen)).astype(int)]
    for colour, k in zip(colours, chosen, strict=False):
        curve = {name: values[k] for name, values in fits.params.items()}
        left.plot(fine, response(fine, **curve), color=colour)
        left.plot(screen.doses, screen.responses[k], "o", color=colour, markersize=4)
        middle, error = curve["middle"], fits.stderr["middle"][k]
        height = (curve["top"] + curve["bottom"]) / 2
        left.errorbar(middle, height, xerr=error, fmt="|", color="black", capsize=3, markersize=9, zorder=3)
    left.set(xlabel="dose: log10 of the concentration", ylabel="response")
    left.set_title("Five compounds; bars: potency and its standard error", fontsize=10)
    here = active(fits)
    errors = (fits.params["middle"] - screen.truth["middle"])[here] / fits.stderr["middle"][here]
    right.hist(errors, np.linspace(-4, 4, 41), density=True, color="0.75", label="fits")
    normal = np.linspace(-4, 4, 200)
    right.plot(
        normal, np.exp(-(normal**2) / 2) / np.sqrt(2 * np.pi), color="black", label="normal distribution"
    )
    right.set(xlabel="error of the potency / its standard error", yticks=[])
    right.set_title(f"{int(here.sum()):,} active compounds", fontsize=10)
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def main(given: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--compounds", type=int, default=100_000)
    parser.add_argument("--sample", type=int, default=300, help="how many fits are made with SciPy too")
    parser.add_argument("--draw", type=Path, help="a file for a picture, which is made instead")
    asked = parser.parse_args(given)
    if asked.draw is None:
        timed(asked.compounds, asked.sample)
        return
    screen = simulated(asked.compounds)
    draw(screen, adc.fit.batch(response, screen.doses, screen.responses, START), asked.draw)


if __name__ == "__main__":
    main()
