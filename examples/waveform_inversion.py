"""The speed of sound at each point of a medium, found from records of waves that have passed through it.

python examples/waveform_inversion.py               simulate records of a medium, and find it from them
python examples/waveform_inversion.py --draw FILE   draw the medium, a wave, and what was found as well

The wave equation p_tt = c² (p_xx + p_yy) is solved by finite differences. A layer at the edge absorbs waves.
The speed c has a value at each of 80 × 80 points. The gradient of the misfit goes back through all steps of
time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

import adcompiler as adc

SPACING, STEP, FREQUENCY = 10.0, 0.002, 20.0  # metres, seconds, hertz
BACKGROUND = 2000.0  # metres per second
EDGE = 12  # points in the absorbing layer


@adc.function
def records(c, damping, wavelet, source, receivers):
    """The pressure at the receivers after each step; the wavelet is added at the source."""
    rows, columns = c.shape
    courant = (c * STEP / SPACING) ** 2
    before, now = np.zeros_like(c), np.zeros_like(c)
    found = np.zeros((len(wavelet), len(receivers)))
    for k in range(len(wavelet)):
        after = np.zeros_like(c)
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - 4 * now[i, j]
                rest = 2 * now[i, j] - (1 - damping[i, j]) * before[i, j]
                after[i, j] = (rest + courant[i, j] * around) / (1 + damping[i, j])
        after[source[0], source[1]] += wavelet[k]
        before, now = now, after
        found[k] = now[receivers[:, 0], receivers[:, 1]]
    return found


@adc.function
def misfit(c, data, damping, wavelet, source, receivers):
    """Half the sum of the squares of differences from measured records."""
    return np.sum((records(c, damping, wavelet, source, receivers) - data) ** 2) / 2


class Survey(NamedTuple):
    """Where the sources and the receivers are, and what the sources send."""

    damping: np.ndarray
    wavelet: np.ndarray
    sources: np.ndarray
    receivers: np.ndarray

    def shots(self, data: list[np.ndarray] | None = None) -> list[tuple[np.ndarray, ...]]:
        """The arguments of each shot after the speed, with measured records if given."""
        shots = [(self.damping, self.wavelet, source, self.receivers) for source in self.sources]
        return shots if data is None else [(one, *shot) for one, shot in zip(data, shots, strict=True)]


def survey(points: int, shots: int, steps: int) -> Survey:
    """Sources and receivers along a square inside the absorbing layer; the wavelet is Ricker's."""
    inwards = np.minimum(np.arange(points), np.arange(points)[::-1])
    depth = np.minimum(inwards[:, None], inwards)
    low, high = EDGE, points - 1 - EDGE
    along = np.arange(low, high)
    ends = np.full_like(along, low), np.full_like(along, high)
    sides = (ends[0], along), (along, ends[1]), (ends[1], along[::-1] + 1), (along[::-1] + 1, ends[0])
    square = np.concatenate([np.stack(side, axis=1) for side in sides])
    phase = (np.pi * FREQUENCY * (STEP * np.arange(steps) - 1.2 / FREQUENCY)) ** 2
    return Survey(
        0.15 * np.clip(1 - depth / EDGE, 0, 1) ** 2,
        (1 - 2 * phase) * np.exp(-phase),
        square[np.linspace(0, len(square), shots, endpoint=False).astype(int)],
        square[::3],
    )


def medium(points: int) -> np.ndarray:
    """A fast disc, a slow one, and a fast layer below them."""
    y, x = np.mgrid[-1 : 1 : points * 1j, -1 : 1 : points * 1j]

    def smooth(signed: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-signed / 0.03))

    disc = smooth(0.23 - np.hypot(x + 0.25, y + 0.24))
    slow = smooth(0.18 - np.hypot(x - 0.29, y - 0.03))
    bar = smooth(0.05 - np.abs(y - 0.38 - 0.2 * x)) * smooth(0.45 - np.abs(x))
    return BACKGROUND * (1 + 0.12 * disc - 0.12 * slow + 0.08 * bar)


class Inversion(NamedTuple):
    """The speed found, and the misfit after each iteration relative to the first."""

    speed: np.ndarray
    misfits: list[float]


def invert(
    asked: Survey, data: list[np.ndarray], start: np.ndarray, iterations: int, seen: Callable[[], object]
) -> Inversion:
    """Fit the speed by L-BFGS. It is fixed near the edge, where the sources and receivers are."""
    both = adc.value_and_grad(misfit, "c")
    free = np.zeros_like(start)
    free[EDGE + 4 : -EDGE - 4, EDGE + 4 : -EDGE - 4] = 1
    zero = sum(both(start, *shot)[0] for shot in asked.shots(data))

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        found = [both(BACKGROUND * vector.reshape(start.shape), *shot) for shot in asked.shots(data)]
        slope = BACKGROUND * free * sum(slope for _, slope in found)
        return sum(value for value, _ in found) / zero, slope.ravel() / zero

    misfits = [1.0]

    def after(intermediate_result: OptimizeResult) -> None:
        misfits.append(float(intermediate_result.fun))
        seen()

    options = {"maxiter": iterations}
    begin = start.ravel() / BACKGROUND
    fit = minimize(objective, begin, jac=True, method="L-BFGS-B", callback=after, options=options)
    return Inversion(BACKGROUND * fit.x.reshape(start.shape), misfits)


def measured(asked: Survey, true: np.ndarray, noise: float = 0.05, seed: int = 0) -> list[np.ndarray]:
    """Simulated records of each shot, with noise relative to their size."""
    random = np.random.default_rng(seed)
    clean = [records(true, *shot) for shot in asked.shots()]
    return [record + noise * record.std() * random.normal(size=record.shape) for record in clean]


def error(speed: np.ndarray, true: np.ndarray) -> float:
    """The root-mean-square error."""
    return float(np.sqrt(np.mean((speed - true) ** 2)))


def draw(asked: Survey, true: np.ndarray, found: Inversion, path: Path) -> None:
    """The medium, a wave in it, what was found, and the misfit by iteration."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 7.2), layout="constrained", facecolor="white")
    panels = dict(zip(("true", "wave", "found", "misfit"), figure.subplots(2, 2).flat, strict=True))
    reach = SPACING * (len(true) - 1) / 1000
    box = {"extent": (0, reach, reach, 0), "interpolation": "bilinear"}
    for name, speed, title in (
        ("true", true, "the medium"),
        ("found", found.speed, "found from the records"),
    ):
        image = panels[name].imshow(speed, cmap="viridis", vmin=1700, vmax=2300, **box)
        panels[name].set_title(f"{title}: speed in m/s", fontsize=10)
        figure.colorbar(image, ax=panels[name], shrink=0.85)
    for places, style in ((asked.receivers, "w."), (asked.sources, "r*")):
        y, x = SPACING * places.T / 1000
        panels["true"].plot(x, y, style, markersize=2.5 if style == "w." else 9)
    everywhere = np.stack(np.divmod(np.arange(true.size), len(true)), axis=1)
    shot = (asked.damping, asked.wavelet, asked.sources[0], everywhere)
    moment = min(150, len(asked.wavelet) - 1)
    pressure = records(true, *shot)[moment].reshape(true.shape)
    most = np.abs(pressure).max() / 2
    panels["wave"].imshow(pressure, cmap="RdBu_r", vmin=-most, vmax=most, **box)
    along = np.linspace(0, reach, len(true))
    panels["wave"].contour(along, along, true, (1900, 2080), colors="black", linewidths=0.8)
    panels["wave"].set_title(f"a wave after {1000 * STEP * moment:.0f} ms", fontsize=10)
    for name in ("true", "wave", "found"):
        panels[name].set(xlabel="km", ylabel="km")
    panels["misfit"].semilogy(found.misfits, "o-", markersize=4)
    panels["misfit"].set(xlabel="iterations", ylabel="misfit relative to the first")
    panels["misfit"].set_title("convergence to the noise of the records", fontsize=10)
    figure.savefig(path, dpi=110)


def main(given: list[str] | None = None) -> None:
    """Run the command line."""
    from tqdm import tqdm

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--points", type=int, default=80, help="along each side")
    parser.add_argument("--shots", type=int, default=8)
    parser.add_argument("--steps", type=int, default=250, help="steps of time of each simulation")
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--draw", type=Path, help="a file for a picture")
    asked = parser.parse_args(given)
    where, true = survey(asked.points, asked.shots, asked.steps), medium(asked.points)
    start = np.full_like(true, BACKGROUND)
    bar = iter(tqdm(range(asked.iterations), leave=False))
    found = invert(where, measured(where, true), start, asked.iterations, lambda: next(bar, None))
    print(f"misfit after {len(found.misfits) - 1} iterations: {found.misfits[-1]:.1e} of the first")
    before, after = error(start, true), error(found.speed, true)
    print(f"root-mean-square error of the speed: {before:.1f} m/s before, {after:.1f} m/s after")
    if asked.draw is not None:
        draw(where, true, found, asked.draw)


if __name__ == "__main__":
    main()
