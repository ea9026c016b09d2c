"""Machine learning: layers of networks with their losses, in arrays and written element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.cliffs.program import Program
from bench.workload import Arguments


def normal(rng: np.random.Generator, *shape: int) -> Any:
    """Weights of a layer: they keep the size of what goes through."""
    return rng.standard_normal(shape) / max(shape[0] if len(shape) == 2 else shape[-1], 1) ** 0.5


# -- a classifier of two layers ------------------------------------------------------------------------

CLASSIFIER = """
def classifier(x: f64[n, p], label: i64[n], W1: f64[p, h], b1: f64[h], W2: f64[h, k], b2: f64[k]):
    hidden = maximum(x @ W1 + b1, 0)
    logp = log_softmax(hidden @ W2 + b2, axis=1)
    return -sum(logp[i, label[i]] for i in range(n)) / n
"""


def images(rng: np.random.Generator, n: int, p: int, h: int, k: int) -> Arguments:
    return (
        rng.standard_normal((n, p)), rng.integers(0, k, n), normal(rng, p, h), 0.1 * normal(rng, h),
        normal(rng, h, k), 0.1 * normal(rng, k),
    )  # fmt: skip


def log_softmax(xp: Any, z: Any) -> Any:
    return z - xp.logsumexp(z, -1)[..., None]


def classifier(xp: Any, x: Any, label: Any, W1: Any, b1: Any, W2: Any, b2: Any) -> Any:
    logp = log_softmax(xp, xp.maximum(x @ W1 + b1, 0.0) @ W2 + b2)
    return -xp.mean(logp[np.arange(len(label)), label])


# -- the feed-forward block of a transformer -----------------------------------------------------------

FEED_FORWARD = """
def feed_forward(x: f64[b, t, d], gain: f64[d], shift: f64[d], W1: f64[d, h], b1: f64[h], W2: f64[h, d],
                 b2: f64[d], y: f64[b, t, d]):
    m = mean(x, axis=-1, keepdims=True)
    v = mean((x - m)**2, axis=-1, keepdims=True)
    z = (x - m) / sqrt(v + 1e-5) * gain + shift
    u = z @ W1 + b1
    u = 0.5 * u * (1 + tanh(0.7978845608 * (u + 0.044715 * u**3)))
    out = x + u @ W2 + b2
    return mean((out - y)**2)
"""


def block(rng: np.random.Generator, b: int, t: int, d: int, h: int) -> Arguments:
    return (
        rng.standard_normal((b, t, d)), 1 + 0.1 * normal(rng, d), 0.1 * normal(rng, d), normal(rng, d, h),
        0.1 * normal(rng, h), normal(rng, h, d), 0.1 * normal(rng, d), rng.standard_normal((b, t, d)),
    )  # fmt: skip


def layer_norm(xp: Any, x: Any, gain: Any, shift: Any) -> Any:
    m = xp.mean(x, -1, keepdims=True)
    v = xp.mean((x - m) ** 2, -1, keepdims=True)
    return (x - m) / xp.sqrt(v + 1e-5) * gain + shift


def feed_forward(xp: Any, x: Any, gain: Any, shift: Any, W1: Any, b1: Any, W2: Any, b2: Any, y: Any) -> Any:
    u = layer_norm(xp, x, gain, shift) @ W1 + b1
    u = 0.5 * u * (1 + xp.tanh(0.7978845608 * (u + 0.044715 * u**3)))
    return xp.mean((x + u @ W2 + b2 - y) ** 2)


# -- attention of several heads, by index notation -----------------------------------------------------

ATTENTION = """
def project(x, W):
    b, t, d = x.shape
    h, d, e = W.shape
    return [[[[sum(x[i, s, c] * W[a, c, u] for c in range(d)) for u in range(e)] for s in range(t)]
             for a in range(h)] for i in range(b)]

def attention(x: f64[b, t, d], Wq: f64[h, d, e], Wk: f64[h, d, e], Wv: f64[h, d, e], Wo: f64[h, e, d],
              y: f64[b, t, d]):
    q = project(x, Wq)
    k = project(x, Wk)
    v = project(x, Wv)
    w = [[[[sum(q[i, a, s, u] * k[i, a, r, u] for u in range(e)) / sqrt(e) for r in range(t)]
           for s in range(t)] for a in range(h)] for i in range(b)]
    p = softmax(w, axis=-1)
    o = [[[[sum(p[i, a, s, r] * v[i, a, r, u] for r in range(t)) for u in range(e)]
           for s in range(t)] for a in range(h)] for i in range(b)]
    out = [[[sum(o[i, a, s, u] * Wo[a, u, c] for a in range(h) for u in range(e)) for c in range(d)]
            for s in range(t)] for i in range(b)]
    return mean((out - y)**2)
"""


def heads(rng: np.random.Generator, b: int, t: int, d: int, h: int, e: int) -> Arguments:
    x, y = rng.standard_normal((2, b, t, d))
    q, k, v = rng.standard_normal((3, h, d, e)) / d**0.5
    return x, q, k, v, rng.standard_normal((h, e, d)) / (h * e) ** 0.5, y


def softmax(xp: Any, z: Any) -> Any:
    e = xp.exp(z - xp.max(xp.real(z), -1, keepdims=True))
    return e / xp.sum(e, -1, keepdims=True)


def attention(xp: Any, x: Any, Wq: Any, Wk: Any, Wv: Any, Wo: Any, y: Any) -> Any:
    q, k, v = (xp.einsum("btd,hde->bhte", x, W) for W in (Wq, Wk, Wv))
    p = softmax(xp, xp.einsum("bhte,bhse->bhts", q, k) / Wq.shape[2] ** 0.5)
    out = xp.einsum("bhts,bhse,hed->btd", p, v, Wo)
    return xp.mean((out - y) ** 2)


# -- causal attention of one head, row by row ----------------------------------------------------------

CAUSAL = """
def causal(x: f64[t, d], Wq: f64[d, e], Wk: f64[d, e], Wv: f64[d, e], y: f64[t, e]):
    q = x @ Wq
    k = x @ Wk
    v = x @ Wv
    total = 0.0
    for i in range(t):
        scores = zeros(t)
        for j in range(i + 1):
            scores[j] = exp(q[i] @ k[j] / sqrt(e))
        out = zeros(e)
        for j in range(i + 1):
            out += scores[j] * v[j]
        out = out / sum(scores)
        total += sum((out - y[i])**2)
    return total / t
"""


def sequence(rng: np.random.Generator, t: int, d: int, e: int) -> Arguments:
    return (
        rng.standard_normal((t, d)), normal(rng, d, e), normal(rng, d, e), normal(rng, d, e),
        rng.standard_normal((t, e)),
    )  # fmt: skip


def causal(xp: Any, x: Any, Wq: Any, Wk: Any, Wv: Any, y: Any) -> Any:
    t, e = y.shape
    scores = xp.exp((x @ Wq) @ (x @ Wk).T / e**0.5) * np.tril(np.ones((t, t)))
    out = scores @ (x @ Wv) / xp.sum(scores, 1)[:, None]
    return xp.sum((out - y) ** 2) / t


# -- a gated recurrent unit ----------------------------------------------------------------------------

GRU = """
def gru(x: f64[t, b, d], W: f64[3, d, h], U: f64[3, h, h], c: f64[3, h], V: f64[h, k], label: i64[b]):
    s = zeros((b, h))
    for step in range(t):
        z = sigmoid(x[step] @ W[0] + s @ U[0] + c[0])
        r = sigmoid(x[step] @ W[1] + s @ U[1] + c[1])
        g = tanh(x[step] @ W[2] + (r * s) @ U[2] + c[2])
        s = (1 - z) * s + z * g
    logp = log_softmax(s @ V, axis=1)
    return -mean(logp[i, label[i]] for i in range(b))
"""


def gates(rng: np.random.Generator, t: int, b: int, d: int, h: int, k: int) -> Arguments:
    return (
        rng.standard_normal((t, b, d)), rng.standard_normal((3, d, h)) / d**0.5,
        rng.standard_normal((3, h, h)) / h**0.5, 0.1 * rng.standard_normal((3, h)), normal(rng, h, k),
        rng.integers(0, k, b),
    )  # fmt: skip


def gru(xp: Any, x: Any, W: Any, U: Any, c: Any, V: Any, label: Any) -> Any:
    def step(s: Any, inputs: Any) -> Any:
        now = inputs[0]
        z = xp.sigmoid(now @ W[0] + s @ U[0] + c[0])
        r = xp.sigmoid(now @ W[1] + s @ U[1] + c[1])
        g = xp.tanh(now @ W[2] + (r * s) @ U[2] + c[2])
        return (1 - z) * s + z * g, None

    s, _ = xp.steps(step, xp.zeros((x.shape[1], U.shape[1]), x.dtype), (x,), len(x))
    return -xp.mean(log_softmax(xp, s @ V)[np.arange(len(label)), label])


# -- a recurrent network of characters -----------------------------------------------------------------

CHARACTERS = """
def characters(text: i64[t], E: f64[k, d], W: f64[d, h], U: f64[h, h], V: f64[h, k]):
    s = zeros(h)
    total = 0.0
    for step in range(t - 1):
        s = tanh(E[text[step]] @ W + s @ U)
        z = s @ V
        total += logsumexp(z) - z[text[step + 1]]
    return total / (t - 1)
"""


def text(rng: np.random.Generator, t: int, k: int, d: int, h: int) -> Arguments:
    return (
        rng.integers(0, k, t), rng.standard_normal((k, d)), normal(rng, d, h), normal(rng, h, h),
        normal(rng, h, k),
    )  # fmt: skip


def characters(xp: Any, text: Any, E: Any, W: Any, U: Any, V: Any) -> Any:
    def step(s: Any, x: Any) -> Any:
        s = xp.tanh(x[0] + s @ U)
        return s, s

    _, states = xp.steps(step, xp.zeros(len(U), U.dtype), ((E @ W)[text[:-1]],), len(text) - 1)
    z = xp.array(states) @ V
    return xp.mean(xp.logsumexp(z, 1) - z[np.arange(len(text) - 1), text[1:]])


# -- a variational autoencoder -------------------------------------------------------------------------

AUTOENCODER = """
def autoencoder(x: f64[n, p], noise: f64[n, z], We: f64[p, h], Wm: f64[h, z], Ws: f64[h, z], Wd: f64[z, h],
                Wx: f64[h, p]):
    hidden = tanh(x @ We)
    m = hidden @ Wm
    s = hidden @ Ws
    code = m + exp(0.5 * s) * noise
    logits = tanh(code @ Wd) @ Wx
    fit = sum(softplus(logits) - x * logits, axis=1)
    kl = -0.5 * sum(1 + s - m**2 - exp(s), axis=1)
    return mean(fit + kl)
"""


def digits(rng: np.random.Generator, n: int, p: int, h: int, z: int) -> Arguments:
    return (
        rng.integers(0, 2, (n, p)).astype(float), rng.standard_normal((n, z)), normal(rng, p, h),
        normal(rng, h, z), normal(rng, h, z), normal(rng, z, h), normal(rng, h, p),
    )  # fmt: skip


def autoencoder(xp: Any, x: Any, noise: Any, We: Any, Wm: Any, Ws: Any, Wd: Any, Wx: Any) -> Any:
    hidden = xp.tanh(x @ We)
    m, s = hidden @ Wm, hidden @ Ws
    logits = xp.tanh((m + xp.exp(0.5 * s) * noise) @ Wd) @ Wx
    fit = xp.sum(xp.softplus(logits) - x * logits, 1)
    return xp.mean(fit - 0.5 * xp.sum(1 + s - m**2 - xp.exp(s), 1))


# -- contrastive learning of pairs ---------------------------------------------------------------------

CONTRASTIVE = """
def contrastive(a: f64[n, p], b: f64[n, p], W: f64[p, d], log_t):
    u = a @ W
    v = b @ W
    u = u / sqrt(sum(u**2, axis=1, keepdims=True))
    v = v / sqrt(sum(v**2, axis=1, keepdims=True))
    s = u @ v.T * exp(log_t)
    rows = mean(logsumexp(s, axis=1) - diag(s))
    cols = mean(logsumexp(s, axis=0) - diag(s))
    return 0.5 * (rows + cols)
"""


def views(rng: np.random.Generator, n: int, p: int, d: int) -> Arguments:
    a = rng.standard_normal((n, p))
    return a, a + 0.5 * rng.standard_normal((n, p)), normal(rng, p, d), 1.0


def contrastive(xp: Any, a: Any, b: Any, W: Any, log_t: Any) -> Any:
    u, v = a @ W, b @ W
    u = u / xp.sqrt(xp.sum(u**2, 1, keepdims=True))
    v = v / xp.sqrt(xp.sum(v**2, 1, keepdims=True))
    s = u @ v.T * xp.exp(log_t)
    rows, cols = (xp.mean(xp.logsumexp(s, axis) - xp.diagonal(s)) for axis in (1, 0))
    return 0.5 * (rows + cols)


# -- layers in batches, each case with its own weights -------------------------------------------------

ENSEMBLE = """
def ensemble(x: f64[m, n, p], W1: f64[m, p, h], b1: f64[m, h], W2: f64[m, h], y: f64[n]):
    total = 0.0
    for e in range(m):
        z = tanh(x[e] @ W1[e] + b1[e])
        total += mean((z @ W2[e] - y)**2)
    return total
"""


def members(rng: np.random.Generator, m: int, n: int, p: int, h: int) -> Arguments:
    return (
        rng.standard_normal((m, n, p)), rng.standard_normal((m, p, h)) / p**0.5,
        0.1 * rng.standard_normal((m, h)), rng.standard_normal((m, h)) / h**0.5, rng.standard_normal(n),
    )  # fmt: skip


def ensemble(xp: Any, x: Any, W1: Any, b1: Any, W2: Any, y: Any) -> Any:
    z = xp.tanh(xp.einsum("mnp,mph->mnh", x, W1) + b1[:, None])
    return xp.sum(xp.mean((xp.einsum("mnh,mh->mn", z, W2) - y) ** 2, 1))


# -- a long short-term memory, its gates in one matrix -------------------------------------------------

LSTM = """
def memory(x: f64[t, d], W: f64[d, g], U: f64[h, g], b: f64[g], out: f64[h], y: f64[t]):
    s = zeros(h)
    c = zeros(h)
    total = 0.0
    for k in range(t):
        z = x[k] @ W + s @ U + b
        i = sigmoid(z[:h])
        f = sigmoid(z[h : 2 * h])
        o = sigmoid(z[2 * h : 3 * h])
        c = f * c + i * tanh(z[3 * h :])
        s = o * tanh(c)
        total += (s @ out - y[k])**2
    return total / t
"""


def signals(rng: np.random.Generator, t: int, d: int, h: int) -> Arguments:
    return (
        rng.standard_normal((t, d)), normal(rng, d, 4 * h), normal(rng, h, 4 * h), 0.1 * normal(rng, 4 * h),
        normal(rng, h), rng.standard_normal(t),
    )  # fmt: skip


def memory(xp: Any, x: Any, W: Any, U: Any, b: Any, out: Any, y: Any) -> Any:
    h = len(U)

    def step(state: Any, inputs: Any) -> Any:
        s, c = state
        z = inputs[0] + s @ U
        i, f, o = xp.sigmoid(z[:h]), xp.sigmoid(z[h : 2 * h]), xp.sigmoid(z[2 * h : 3 * h])
        c = f * c + i * xp.tanh(z[3 * h :])
        s = o * xp.tanh(c)
        return (s, c), s

    start = xp.zeros(h, U.dtype), xp.zeros(h, U.dtype)
    _, states = xp.steps(step, start, (x @ W + b,), len(x))
    return xp.mean((xp.array(states) @ out - y) ** 2)


PROGRAMS = (
    Program("classifier", CLASSIFIER, (256, 196, 64, 10), (4, 3, 5, 3), images, (2, 3, 4, 5), classifier),
    Program("feed-forward", FEED_FORWARD, (4, 32, 64, 128), (2, 2, 3, 4), block, (0, 1, 2, 3, 4, 5, 6),
            feed_forward),
    Program("attention", ATTENTION, (4, 32, 32, 4, 8), (2, 2, 3, 2, 2), heads, (0, 1, 2, 3, 4), attention),
    Program("causal-attention", CAUSAL, (64, 16, 16), (4, 3, 2), sequence, (1, 2, 3), causal),
    Program("gru", GRU, (20, 16, 16, 32, 5), (3, 2, 2, 3, 3), gates, (1, 2, 3, 4), gru),
    Program("characters", CHARACTERS, (200, 30, 16, 48), (4, 3, 2, 3), text, (1, 2, 3, 4), characters),
    Program("autoencoder", AUTOENCODER, (128, 196, 64, 8), (3, 4, 3, 2), digits, (2, 3, 4, 5, 6),
            autoencoder),
    Program("contrastive", CONTRASTIVE, (128, 64, 32), (4, 3, 2), views, (2, 3), contrastive),
    Program("ensemble", ENSEMBLE, (16, 128, 16, 32), (2, 3, 2, 3), members, (1, 2, 3), ensemble),
    Program("lstm-gates", LSTM, (200, 8, 24), (4, 2, 3), signals, (1, 2, 3, 4), memory),
)  # fmt: skip
