"""Training on scikit-learn's handwritten digits: 1,797 images of 8 × 8 pixels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

import adcompiler as adc
from examples.nenwin.particles import Model, begun, loss, nearest

CLASSES = 10


@dataclass(frozen=True)
class Settings:
    """The settings of a run; `alpha` is the logbook's α, the time to look ahead."""

    epochs: int = 40
    seed: int = 0
    batch: int = 64
    rate: float = 0.01
    steps: int = 10
    h: float = 0.1
    alpha: float = 0.3
    method: str = "verlet"
    held: float = 0.25  # the fraction of images that is held out


@dataclass
class Trained:
    """A model, its settings, and for each epoch the mean loss and the two accuracies."""

    model: Model
    settings: Settings
    losses: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)


def extra(module: str) -> Any:
    """A module of the extra `examples`; SystemExit that says what to install."""
    try:
        return import_module(module)
    except ImportError:
        raise SystemExit(
            f"{module.partition('.')[0]} is missing: pip install 'adcompiler[examples]'"
        ) from None


def digits() -> tuple[np.ndarray, np.ndarray]:
    """The images (1797, 64), ink from 0 to 1, and their classes."""
    found = extra("sklearn.datasets").load_digits()
    return found.data / 16, found.target.astype(np.int64)


def accuracy(model: Model, images: np.ndarray, labels: np.ndarray, how: Settings) -> float:
    """The fraction of images for which the eater of their class has the nearest marble."""
    found = nearest(images, model, CLASSES, how.steps, how.h, how.alpha, how.method)
    return float(np.mean(found.argmin(axis=1) == labels))


def divided(labels: np.ndarray, how: Settings) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the images to train on and of those held out."""
    order = np.random.default_rng(how.seed).permutation(len(labels))
    count = int(len(labels) * how.held)
    return order[count:], order[:count]


def bar(epochs: Iterable[int], shown: bool) -> Any:
    """A progress bar over epochs; `set_postfix` shows figures."""
    return extra("tqdm").tqdm(epochs, unit="epoch", disable=not shown)


def train(how: Settings, data: tuple[np.ndarray, np.ndarray] | None = None, progress: bool = True) -> Trained:
    """Train with Adam through time, the rate falling to a tenth; `data` are the digits by default."""
    images, labels = digits() if data is None else data
    seen, held = divided(labels, how)
    random, result = np.random.default_rng(how.seed), Trained(begun(how.seed), how)
    step, opt = adc.value_and_grad(loss, "model"), adc.optim.Adam(lr=how.rate)
    state = opt.init(result.model)
    epochs = bar(range(how.epochs), progress)
    for epoch in epochs:
        rate, values = how.rate * 0.1 ** (epoch / max(how.epochs - 1, 1)), []
        for k in np.array_split(random.permutation(seen), max(1, round(len(seen) / how.batch))):
            value, grads = step(
                images[k], labels[k], result.model, CLASSES, how.steps, how.h, how.alpha, how.method
            )
            result.model, state = opt.update(grads, result.model, state, lr=rate)
            values.append(value)
        result.losses.append(float(np.mean(values)))
        result.seen.append(accuracy(result.model, images[seen], labels[seen], how))
        result.held.append(accuracy(result.model, images[held], labels[held], how))
        epochs.set_postfix(loss=f"{result.losses[-1]:.3f}", held_out=f"{result.held[-1]:.1%}")
    return result
