"""GradBench's lstm: the loss of a recurrent network with diagonal weights, and its gradient.

The b units of a layer stand in lanes padded to a multiple of 8, the four gates one after another: forget, in,
out, change. All four are sigmoids at once, since tanh(z) = 2 σ(2 z) − 1. Each iteration keeps its gates, the
hyperbolic tangent of its new cell and its old state; the way back reads them:

    h = o T, T = tanh(c'), c' = c f + i g
    c̄' += h̄ o (1 − T²);  f̄ = c̄' c, ī = c̄' g, ō = h̄ T, ḡ = c̄' i;  c̄ = c̄' f
    z̄ = f̄ f (1 − f) and so on, ḡ (1 − g²);  x̄ = z̄f Wf + z̄o Wo;  h̄ before = z̄i Wi + z̄g Wg
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.byhand.tools import driver, serial
from bench.vector_math import exp


@serial
def forward(x, h, c, W, B, gates, tangent, z, lanes):
    """One layer's iteration; h and c become the new state."""
    one, two = np.uint64(lanes), np.uint64(2 * lanes)
    three = np.uint64(3 * lanes)
    for j in range(one):
        z[j] = -(x[j] * W[j] + B[j])
        z[one + j] = -(h[j] * W[one + j] + B[one + j])
        z[two + j] = -(x[j] * W[two + j] + B[two + j])
        z[three + j] = -2.0 * (h[j] * W[three + j] + B[three + j])
    for j in range(np.uint64(4 * lanes)):
        gates[j] = 1.0 / (1.0 + exp(z[j]))
    for j in range(one):
        gates[three + j] = 2.0 * gates[three + j] - 1.0
        c[j] = c[j] * gates[j] + gates[one + j] * gates[three + j]
    for j in range(one):
        tangent[j] = 2.0 / (1.0 + exp(-2.0 * c[j])) - 1.0
        h[j] = gates[two + j] * tangent[j]


@serial
def backward(x, h, c, W, gates, tangent, dx, dh, dc, dW, dB, lanes):
    """`dx` comes as the cotangent of the layer's output beyond `dh`, and leaves as that of its input."""
    one, two = np.uint64(lanes), np.uint64(2 * lanes)
    three = np.uint64(3 * lanes)
    for j in range(one):
        f, i, o, g, t = gates[j], gates[one + j], gates[two + j], gates[three + j], tangent[j]
        up = dx[j] + dh[j]
        cell = dc[j] + up * o * (1.0 - t * t)
        zf = cell * c[j] * f * (1.0 - f)
        zi = cell * g * i * (1.0 - i)
        zo = up * t * o * (1.0 - o)
        zg = cell * i * (1.0 - g * g)
        dW[j] += zf * x[j]
        dW[one + j] += zi * h[j]
        dW[two + j] += zo * x[j]
        dW[three + j] += zg * h[j]
        dB[j] += zf
        dB[one + j] += zi
        dB[two + j] += zo
        dB[three + j] += zg
        dx[j] = zf * W[j] + zo * W[two + j]
        dh[j] = zi * W[one + j] + zg * W[three + j]
        dc[j] = cell * f


@serial
def predict(x, extra, gold, guess, soft, b):
    """The log likelihood of the next character; `soft` becomes its softmax (with 2 beside the sum)."""
    total, value = 2.0, 0.0
    n = np.uint64(b)
    for j in range(n):
        guess[j] = x[j] * extra[1, j] + extra[2, j]
        soft[j] = exp(guess[j])
        total += soft[j]
    norm, golds = math.log(total), 0.0
    for j in range(n):
        value += gold[j] * (guess[j] - norm)
        golds += gold[j]
    for j in range(n):
        soft[j] = gold[j] - golds * soft[j] / total
    return value


@driver
def kernel(W, B, extra, h, c, seq, b, keep, flat, rooms, dW, dB, dextra):
    """`keep`: for each iteration and layer 4 gates, tanh of the cell, input, hidden and cell before.

    `flat` is the same memory with these rows joined."""
    layers, lanes = h.shape
    iterations, n = seq.shape[0] - 1, np.uint64(lanes)
    soft, z, guess, dh, dc, dx = rooms
    value = 0.0
    for t in range(iterations):
        x = keep[t, layers, 5]
        for j in range(n):
            x[j] = seq[t, j] * extra[0, j]
        for k in range(layers):
            kept = keep[t, k]
            for j in range(n):
                kept[5, j], kept[6, j], kept[7, j] = x[j], h[k, j], c[k, j]
            forward(x, h[k], c[k], W[k], B[k], flat[t, k], kept[4], z, lanes)
            x = h[k]
        value += predict(x, extra, seq[t + 1], guess, soft[t], b)
        for j in range(n):
            keep[t, layers, 6, j] = x[j]
    for t in range(iterations - 1, -1, -1):
        for j in range(n):
            dx[j] = soft[t, j] * extra[1, j]
            dextra[1, j] += soft[t, j] * keep[t, layers, 6, j]
            dextra[2, j] += soft[t, j]
        for k in range(layers - 1, -1, -1):
            at = keep[t, k]
            backward(at[5], at[6], at[7], W[k], flat[t, k], at[4], dx, dh[k], dc[k], dW[k], dB[k], lanes)
        for j in range(n):
            dextra[0, j] += dx[j] * seq[t, j]
    return value


def padded(a: np.ndarray, lanes: int) -> np.ndarray:
    """Zeros after the last axis: those lanes compute and change nothing."""
    return np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, lanes - a.shape[-1])])


def gradient(args: tuple[Any, ...]) -> Callable[[], Any]:
    main, extra, state, sequence = args
    layers, b = len(main) // 2, extra.shape[1]
    lanes = -(-b // 8) * 8
    keep = np.zeros((len(sequence), layers + 1, 8, lanes))

    flat = keep.reshape(*keep.shape[:2], -1)
    iterations = len(sequence) - 1
    soft, z, guess, dx = np.zeros((iterations, lanes)), np.zeros(4 * lanes), np.zeros(lanes), np.zeros(lanes)

    def run() -> Any:
        parts = padded(main.reshape(layers, 2, 4, b), lanes).reshape(layers, 2, 4 * lanes)
        W, B = np.ascontiguousarray(parts[:, 0]), np.ascontiguousarray(parts[:, 1])
        start = padded(state, lanes)
        h, c = start[0::2].copy(), start[1::2].copy()
        dW, dB, dextra = np.zeros_like(W), np.zeros_like(B), np.zeros((3, lanes))
        rooms = soft, z, guess, np.zeros_like(h), np.zeros_like(h), dx
        value = kernel(
            W, B, padded(extra, lanes), h, c, padded(sequence, lanes), b, keep, flat, rooms, dW, dB, dextra
        )
        scale = -1.0 / (iterations * b)
        both = np.stack([dW, dB], axis=1).reshape(layers, 2, 4, lanes)[..., :b]
        return scale * value, (scale * both.reshape(main.shape), scale * dextra[:, :b])

    return run
