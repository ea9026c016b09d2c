"""Marbles, nodes and eaters in a plane: Newton's attraction, velocity-Verlet or Beeman steps, and the loss.

Each pixel has an emitter, which emits a marble if there is ink. Nodes attract marbles, and marbles attract
each other. The first nodes are eaters, one per class. An eater's marble is the one that will be nearest to it
a short time ahead. The predicted class is that of the eater whose marble is nearest of all.
"""
# ruff: noqa: F821  the functions of the language need no import

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import adcompiler as adc

SOFT = 0.02  # added to squared distances, so that particles that meet are not thrown apart
NOTHING = 1000.0  # the squared distance of a marble that was not emitted


@dataclass
class Emitter:
    """Where a pixel's marble starts: `pos`, `vel` and `acc` of shape (2,)."""

    pos: Any
    vel: Any
    acc: Any


@dataclass
class Node:
    """A point that attracts marbles: `pos` of shape (2,), and `pull`, a float; a negative one repels."""

    pos: Any
    pull: float


@dataclass
class Marbles:
    """Moving marbles: `pos`, `vel` and `acc` of shape (n, 2), and the `mass` (n,) that attracts."""

    pos: np.ndarray
    vel: np.ndarray
    acc: np.ndarray
    mass: np.ndarray


@dataclass
class Model:
    """The trained parameters: `mass` of a marble of full ink; `focus`, the scale of the scores."""

    emitters: list[Emitter]
    nodes: list[Node]  # the eaters first
    mass: float
    focus: float


@adc.function
def attraction(p: f64[n, 2], q: f64[m, 2], w: f64[m]):
    """The acceleration of particles at p by others at q with attraction w."""

    def cube(s):
        return s * sqrt(s)

    return [
        [
            sum(
                (q[j, k] - p[i, k]) * (w[j] / cube(sum((q[j, c] - p[i, c]) ** 2 for c in range(2)) + SOFT))
                for j in range(len(w))
            )
            for k in range(2)
        ]
        for i in range(len(p))
    ]


@adc.function
def moved(p, v, a, mass, q, w, steps: i64, h, method: static):
    """Positions and velocities of marbles after steps of length h, among nodes at q with attraction w."""
    before = a
    for _ in range(steps):
        if method == "beeman":
            p = p + h * v + h * h / 6 * (4 * a - before)
            now = attraction(p, p, mass) + attraction(p, q, w)
            v = v + h / 6 * (2 * now + 5 * a - before)
        else:
            p = p + h * v + h * h / 2 * a
            now = attraction(p, p, mass) + attraction(p, q, w)
            v = v + h / 2 * (now + a)
        before = a
        a = now
    return p, v


@adc.function
def run(ink, model, steps: i64, h, method: static):
    """An image's marbles after some steps: positions and velocities, (pixels, 2) each."""
    return moved(
        [e.pos for e in model.emitters],
        [e.vel for e in model.emitters],
        [e.acc for e in model.emitters],
        model.mass * ink,
        [n.pos for n in model.nodes],
        [n.pull for n in model.nodes],
        steps,
        h,
        method,
    )


@adc.function
def ahead(p, v, mass, nodes, eaters: static, alpha):
    """How far each eater's nearest marble is, squared, `alpha` ahead of time: |x - (pos + alpha vel)|²."""
    return [
        min(
            sum((nodes[c].pos[k] - p[i, k] - alpha * v[i, k]) ** 2 for k in range(2))
            if mass[i] > 0
            else NOTHING
            for i in range(len(p))
        )
        for c in range(eaters)
    ]


@adc.function
def sample(marbles, nodes, label: i64, eaters: static, steps: i64, h, alpha, method: static):
    """The cross-entropy of marbles among nodes, the first of which are eaters."""
    q, w = [n.pos for n in nodes], [n.pull for n in nodes]
    p, v = moved(marbles.pos, marbles.vel, marbles.acc, marbles.mass, q, w, steps, h, method)
    score = -ahead(p, v, marbles.mass, nodes, eaters, alpha)
    return logsumexp(score) - score[label]


@adc.function
def distances(ink, model, eaters: static, steps: i64, h, alpha, method: static):
    """The squared distances of eaters to their nearest marbles, for an image."""
    p, v = run(ink, model, steps, h, method)
    return ahead(p, v, ink, model.nodes, eaters, alpha)


@adc.function
def blame(ink, label: i64, model, eaters: static, steps: i64, h, alpha, method: static):
    """The cross-entropy of one image: small if the eater of its class has the nearest marble."""
    score = -model.focus * distances(ink, model, eaters, steps, h, alpha, method)
    return logsumexp(score) - score[label]


@adc.function
def loss(images, labels: i64[n], model, eaters: static, steps: i64, h, alpha, method: static):
    """The mean over a batch of images (n, pixels): one program for all lengths."""
    return mean(
        blame(images[s], labels[s], model, eaters, steps, h, alpha, method) for s in range(len(labels))
    )


@adc.function
def nearest(images, model, eaters: static, steps: i64, h, alpha, method: static):
    """The squared distances of each image: (images, eaters)."""
    return [distances(images[s], model, eaters, steps, h, alpha, method) for s in range(len(images))]


def begun(seed: int, side: int = 8, classes: int = 10, hidden: int = 8) -> Model:
    """An initial model: emitters on a grid of side × side pixels, eaters on a circle, nodes anywhere."""
    random = np.random.default_rng(seed)
    row, column = np.meshgrid(np.linspace(1, -1, side), np.linspace(-1, 1, side), indexing="ij")
    emitters = [
        Emitter(np.array([x, y]), random.normal(0, 0.3, 2), np.zeros(2))
        for x, y in zip(column.ravel(), row.ravel(), strict=True)
    ]
    angles = 2 * np.pi * np.arange(classes) / classes
    eaters = [Node(1.5 * np.array([np.cos(a), np.sin(a)]), 0.1) for a in angles]
    nodes = [Node(random.normal(0, 0.7, 2), float(random.normal(0, 0.1))) for _ in range(hidden)]
    return Model(emitters, [*eaters, *nodes], mass=0.01, focus=5.0)
