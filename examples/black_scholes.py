"""A million European call options: their prices, and all Greeks of first and second order.

python examples/black_scholes.py               compute them, and compare them with closed forms
python examples/black_scholes.py --draw FILE   draw six Greeks as well

Only the price is written as a formula. Its gradient has 5 Greeks, its Hessian 15 different ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import combinations_with_replacement
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy.special import ndtr

import adcompiler as adc

NAMES = ("spot", "strike", "time", "rate", "volatility")
RANGES = ((50, 150), (50, 150), (0.1, 2), (0, 0.08), (0.1, 0.6))
PAIRS = tuple(combinations_with_replacement(NAMES, 2))


@adc.function
def price(spot, strike, time, rate, volatility):
    """The value of a European call by Black and Scholes."""
    spread = volatility * np.sqrt(time)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * time) / spread
    return spot * norm.cdf(d1) - strike * np.exp(-rate * time) * norm.cdf(d1 - spread)  # noqa: F821


gradient = adc.vmap(adc.value_and_grad(price, NAMES))
hessian = adc.vmap(adc.hessian(price, NAMES))


def greeks(options: dict[str, np.ndarray]) -> dict[Any, np.ndarray]:
    """Prices and Greeks, keyed by the names of the variables of differentiation."""
    value, first = gradient(**options)
    second = hessian(**options)
    found = {(): value} | {(name,): first[k] for k, name in enumerate(NAMES)}
    return found | {(a, b): second[NAMES.index(a)][NAMES.index(b)] for a, b in PAIRS}


def closed_forms(spot, strike, time, rate, volatility) -> dict[Any, np.ndarray]:
    """The same Greeks by textbook formulas."""
    root = np.sqrt(time)
    d1 = np.log(spot / strike) / (volatility * root) + (rate / volatility + volatility / 2) * root
    d2 = d1 - volatility * root
    bond, (N1, N2) = np.exp(-rate * time), (ndtr(d1), ndtr(d2))
    n1, n2 = (np.exp(-(d**2) / 2) / np.sqrt(2 * np.pi) for d in (d1, d2))
    t1 = (rate + volatility**2 / 2) / (volatility * root) - d1 / (2 * time)  # the derivative of d1 by time
    t2 = t1 - volatility / (2 * root)
    s, k, t, r, v = NAMES
    return {
        (): spot * N1 - strike * bond * N2,
        (s,): N1,
        (k,): -bond * N2,
        (t,): spot * n1 * volatility / (2 * root) + rate * strike * bond * N2,
        (r,): strike * time * bond * N2,
        (v,): spot * n1 * root,
        (s, s): n1 / (spot * volatility * root),
        (s, k): -n1 / (strike * volatility * root),
        (s, t): n1 * t1,
        (s, r): n1 * root / volatility,
        (s, v): -n1 * d2 / volatility,
        (k, k): bond * n2 / (strike * volatility * root),
        (k, t): rate * bond * N2 - bond * n2 * t2,
        (k, r): time * bond * N2 - bond * n2 * root / volatility,
        (k, v): bond * n2 * d1 / volatility,
        (t, t): -spot * n1 * volatility / (2 * root) * (d1 * t1 + 1 / (2 * time))
        + rate * strike * bond * (n2 * t2 - rate * N2),
        (t, r): strike * bond * ((1 - rate * time) * N2 + time * n2 * t2),
        (t, v): spot * root * n1 * (1 / (2 * time) - d1 * t1),
        (r, r): strike * time * bond * (n2 * root / volatility - time * N2),
        (r, v): -strike * time * bond * n2 * d1 / volatility,
        (v, v): spot * root * n1 * d1 * d2 / volatility,
    }


def book(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Random options."""
    random = np.random.default_rng(seed)
    return {name: random.uniform(*limits, count) for name, limits in zip(NAMES, RANGES, strict=True)}


def compared(options: dict[str, np.ndarray], chunks: Iterable[slice]) -> tuple[float, dict[Any, float]]:
    """The time for all Greeks, and for each the largest difference from its closed form.

    Differences are parts of the largest value, since most Greeks are zero somewhere.
    """
    took, error = 0.0, {}
    for chunk in chunks:
        part = {name: values[chunk] for name, values in options.items()}
        began = perf_counter()
        found = greeks(part)
        took += perf_counter() - began
        for name, exact in closed_forms(**part).items():
            apart = np.abs(found[name] - exact).max() / np.abs(exact).max()
            error[name] = max(float(apart), error.get(name, 0.0))
    return took, error


def draw(path: Path) -> None:
    """Six Greeks of an option with the strike 100 that has half a year or less left."""
    from matplotlib.figure import Figure

    spot, time = np.meshgrid(np.linspace(70, 130, 301), np.linspace(0.03, 0.5, 201))
    options = {"spot": spot, "strike": 100.0, "time": time, "rate": 0.03, "volatility": 0.25}
    found = greeks({name: np.full(spot.size, np.ravel(values)) for name, values in options.items()})
    names = "delta", "vega", "gamma", "vanna", "charm", "volga"
    s, v, t = "spot", "volatility", "time"
    shown = zip(names, ((s,), (v,), (s, s), (s, v), (s, t), (v, v)), strict=True)
    figure = Figure(figsize=(9, 5.2), layout="constrained", facecolor="white")
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for axes, (name, of) in zip(panels.T.flat, shown, strict=True):
        values = found[of].reshape(spot.shape)
        most = np.quantile(np.abs(values), 0.998)
        signed = values.min() < 0
        low, colours = (-most, "RdBu_r") if signed else (0, "magma")
        image = axes.pcolormesh(spot, 12 * time, values, cmap=colours, vmin=low, vmax=most)
        lines = np.linspace(low, most, 10)[1:-1]
        axes.contour(spot, 12 * time, values, lines, colors="black" if signed else "white", linewidths=0.4)
        under = f"∂{of[0]}²" if len(set(of)) < len(of) else " ".join(f"∂{by}" for by in of)
        axes.set_title(f"{name}: ∂{'²' * (len(of) - 1)}price / {under}", fontsize=10)
        figure.colorbar(image, ax=axes)
    figure.supxlabel("price of the share", fontsize=10)
    figure.supylabel("months left", fontsize=10)
    figure.savefig(path, dpi=110)


def main(given: list[str] | None = None) -> None:
    """Run the command line."""
    from tqdm import tqdm

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--options", type=int, default=1_000_000)
    parser.add_argument("--draw", type=Path, help="a file for a picture")
    asked = parser.parse_args(given)
    began = perf_counter()
    greeks(book(10))
    print(f"the programs are compiled or loaded in {perf_counter() - began:.1f} s")
    chunks = [slice(k, k + 50_000) for k in range(0, asked.options, 50_000)]
    took, error = compared(book(asked.options), tqdm(chunks, leave=False))
    print(f"{asked.options:,} prices with {len(error) - 1} Greeks each in {took:.2f} s")
    worst = max(error, key=error.__getitem__)
    print(
        f"largest difference from closed forms: {error[worst]:.0e} of the largest value, in {' '.join(worst)}"
    )
    if asked.draw is not None:
        draw(asked.draw)


if __name__ == "__main__":
    main()
