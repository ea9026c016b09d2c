"""Pictures of a run: curves of loss and accuracy, and the paths of an image's marbles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from examples.nenwin.digits import CLASSES, Trained, extra
from examples.nenwin.particles import Model, nearest, run


def canvas(columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure without a window, and its axes."""
    figure = extra("matplotlib.figure").Figure(figsize=(width, height), layout="compressed")
    return figure, figure.subplots(1, columns)


def curves(trained: Trained, path: Path) -> None:
    """Draw loss and accuracies over epochs."""
    figure, (left, right) = canvas(2, 8, 3)
    epochs = range(1, len(trained.losses) + 1)
    left.plot(epochs, trained.losses, color="C3")
    left.set(xlabel="epoch", ylabel="loss", ylim=(0, None))
    right.plot(epochs, trained.seen, label="trained on")
    right.plot(epochs, trained.held, label="held out")
    right.axhline(1 / CLASSES, color="grey", linestyle=":", label="guessing")
    right.set(xlabel="epoch", ylabel="accuracy", ylim=(0, 1))
    right.legend(loc="lower right")
    figure.savefig(path, dpi=90)


def paths(trained: Trained, images: np.ndarray, labels: np.ndarray, path: Path) -> None:
    """Draw the paths of the marbles of some images, and the eater that each image's class belongs to."""
    figure, axes = canvas(len(images), 3.2 * len(images), 3.6)
    for plot, ink, label in zip(np.atleast_1d(axes), images, labels, strict=True):
        _paths(plot, trained, ink, int(label))
    figure.savefig(path, dpi=80)


def _paths(plot: Any, trained: Trained, ink: np.ndarray, label: int) -> None:
    how, model = trained.settings, trained.model
    fine = 8  # points drawn per step
    times = range(how.steps * fine + 1)
    ways = np.array([run(ink, model, k, how.h / fine, how.method)[0] for k in times])
    found = nearest(ink[None], model, CLASSES, how.steps, how.h, how.alpha, how.method)[0].argmin()
    for i in np.flatnonzero(ink > 0):
        plot.plot(*ways[:, i].T, color="C0", alpha=0.15 + 0.6 * float(ink[i]), linewidth=0.8)
    last, speed = run(ink, model, how.steps, how.h, how.method)
    some = ink > 0
    ends = last + how.alpha * speed
    plot.scatter(*ends[some].T, s=4, color="C0")
    _nodes(plot, model, label)
    plot.set(title=f"a {label}, taken for a {found}", xticks=[], yticks=[], aspect="equal")
    plot.set(xlim=(-2.6, 2.6), ylim=(-2.6, 2.6))


def _nodes(plot: Any, model: Model, label: int) -> None:
    for c, node in enumerate(model.nodes):
        if c >= CLASSES:
            plot.scatter(*node.pos, s=18, marker="s", color="C1" if node.pull > 0 else "C4")
            continue
        color = "C2" if c == label else "black"
        plot.annotate(str(c), node.pos, color=color, ha="center", va="center", weight="bold")
