"""The programs that are proved and timed on a device, and the same ones for other libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Workload:
    """A program whose value and gradient are asked for; `make(random, n, dtype)` gives its arguments.

    `moved` is what a fused kernel must read and write, in elements, for arguments of size n; None if the work
    is not bound by memory. `peers` are the functions of other libraries on the same arguments, by name.
    """

    name: str
    source: str
    make: Callable[[np.random.Generator, int, Any], Arrays]
    small: int
    large: int
    wrt: tuple[str, ...]
    moved: Callable[[int], float] | None = None
    dtypes: tuple[str, ...] = ("float64", "float32")
    tolerance: float = 1e-9
    peers: dict[str, str] = field(default_factory=dict)

    def text(self, dtype: str) -> str:
        """The source for arguments of a dtype."""
        return self.source.replace("f64", "f32") if dtype == "float32" else self.source


SCHOLES = """
def scholes(s, k, t, r, v):
    d1 = (log(s / k) + (r + 0.5 * v * v) * t) / (v * sqrt(t))
    return sum(s * ndtr(d1) - k * exp(-r * t) * ndtr(d1 - v * sqrt(t)))
"""
GELU = """
def layer(x, w, b):
    y = x * w + b
    g = 0.5 * y * (1 + erf(0.7071067811865476 * y))
    return 0.5 * sum(g * g)
"""
ENERGY = """
def energy(x: f64[n], y: f64[n], z: f64[n], m: f64[n]):
    return sum(m[i] * m[j] / sqrt((x[i] - x[j])**2 + (y[i] - y[j])**2 + (z[i] - z[j])**2 + 0.01)
               for i in range(n) for j in range(n))
"""
PAIRS = (
    "(m[:, None] * m / torch.sqrt((x[:, None] - x)**2 + (y[:, None] - y)**2 + (z[:, None] - z)**2 "
    "+ 0.01)).sum()"
)
SOFTMAX = """
def loss(x, target):
    return mean([logsumexp(x[i, :]) - x[i, target[i]] for i in range(len(x))])
"""
EDGES = """
def edges(p, a, b, w):
    return sum(w * (p[a] - p[b])**2)
"""
OSCILLATOR = """
def oscillator(q, p, k):
    for _ in range(200):
        p = p - 0.01 * k * sin(q)
        q = q + 0.01 * p
    return sum(q * q + p * p)
"""
DENSE = """
def dense(x, w, b):
    return sum(tanh(x @ w + b)**2)
"""


def _normal(*names: str) -> Callable[[np.random.Generator, int, Any], Arrays]:
    return lambda random, n, dtype: {k: random.standard_normal(n).astype(dtype) for k in names}


def _scholes(random: np.random.Generator, n: int, dtype: Any) -> Arrays:
    low, high = (50, 50, 0.1, 0.01, 0.1), (150, 150, 2.0, 0.05, 0.5)
    return {k: random.uniform(a, b, n).astype(dtype) for k, a, b in zip("sktrv", low, high, strict=True)}


def _layer(random: np.random.Generator, n: int, dtype: Any) -> Arrays:
    rows = max(n // 1024, 2)
    x, w, b = (random.standard_normal(s).astype(dtype) for s in ((rows, n // rows), n // rows, n // rows))
    return {"x": x, "w": w, "b": b}


def _softmax(random: np.random.Generator, n: int, dtype: Any) -> Arrays:
    rows = max(n // 1024, 2)
    x = random.standard_normal((rows, n // rows)).astype(dtype)
    return {"x": x, "target": random.integers(0, n // rows, rows)}


def _edges(random: np.random.Generator, n: int, dtype: Any) -> Arrays:
    nodes = max(n // 10, 2)
    a, b = random.integers(0, nodes, (2, n))
    p, w = random.standard_normal(nodes).astype(dtype), random.standard_normal(n).astype(dtype)
    return {"p": p, "a": a, "b": b, "w": w}


def _dense(random: np.random.Generator, n: int, dtype: Any) -> Arrays:
    x, w = (random.standard_normal((n, n)).astype(dtype) / np.sqrt(n).astype(dtype) for _ in range(2))
    return {"x": x, "w": w, "b": random.standard_normal(n).astype(dtype)}


WORKLOADS = (
    Workload("product", "sum((a + b) * b)", _normal("a", "b"), 10_001, 50_000_000, ("a", "b"),
             lambda n: 4 * n, peers={"torch": "((a + b) * b).sum()", "jax": "((a + b) * b).sum()"}),
    Workload("scholes", SCHOLES, _scholes, 10_001, 20_000_000, ("s", "k", "t", "r", "v"), lambda n: 10 * n),
    Workload("gelu", GELU, _layer, 300 * 1000, 64 * 2**20, ("x", "w", "b"), lambda n: 2 * n,
             peers={"torch": "0.5 * torch.square(torch.nn.functional.gelu(x * w + b)).sum()",
                    "jax": "0.5 * jnp.square(jax.nn.gelu(x * w + b, approximate=False)).sum()"}),
    Workload("pairwise", ENERGY, _normal("x", "y", "z", "m"), 10_007, 100_000, ("x", "y", "z", "m"),
             peers={"torch": PAIRS, "jax": PAIRS.replace("torch", "jnp")}),
    Workload("softmax", SOFTMAX, _softmax, 300 * 1000, 64 * 2**20, ("x",), lambda n: 2 * n,
             peers={"torch": "torch.nn.functional.cross_entropy(x, target)"}),
    Workload("edges", EDGES, _edges, 50_000, 10_000_000, ("p", "w"),
             peers={"torch": "(w * (p[a] - p[b])**2).sum()", "jax": "(w * (p[a] - p[b])**2).sum()"}),
    Workload("oscillator", OSCILLATOR, _normal("q", "p", "k"), 100, 1000, ("q", "p", "k")),
    Workload("dense", DENSE, _dense, 150, 2048, ("x", "w", "b"), dtypes=("float32", "float64"),
             peers={"torch": "torch.square(torch.tanh(x @ w + b)).sum()",
                    "jax": "jnp.square(jnp.tanh(x @ w + b)).sum()"}),
)  # fmt: skip

# Shapes and features beyond the workloads: each is a source and arguments, checked against the NumPy backend,
# with its gradients, and once more their derivatives.
FEATURES: tuple[tuple[str, str, Callable[[np.random.Generator], tuple[Any, ...]]], ...] = (
    ("scalars", "x * sin(y) + exp(x * y)", lambda r: (0.3, 1.2)),
    ("elementwise", "tanh(a) * b + a / (1 + b * b)", lambda r: tuple(r.normal(size=(2, 5000)))),
    ("matrix", "sum(exp(x) * w, axis=1)", lambda r: (r.normal(size=(300, 70)), r.normal(size=70))),
    ("columns", "sum(x * x, axis=0)", lambda r: (r.normal(size=(5000, 33)),)),
    ("rows", "sum(x * x, axis=1)", lambda r: (r.normal(size=(33, 5000)),)),
    ("few long rows", "logsumexp(x, axis=1)", lambda r: (r.normal(size=(3, 70000)),)),
    ("broadcast", "sum(sin(x[:, None] * y + z))", lambda r: tuple(r.normal(size=(3, 400)))),
    ("extrema", "max(a) - min(b) + sum(maximum(a, b))", lambda r: tuple(r.normal(size=(2, 30000)))),
    ("computed extrema", """
def f(b, u, c):
    y = [max([b[l] * abs(b[l]) + u[l] * c[i, l] for l in range(len(b))]) for i in range(len(c))]
    return sum(y) + min(b * u + 0.3) + sum(max(c * u + b, axis=0))
""", lambda r: (r.normal(size=300), r.normal(size=300), r.normal(size=(700, 300)))),
    ("product", "prod(1 + 0.001 * a)", lambda r: (r.normal(size=3000),)),
    ("gather", "sum(v[idx] * u)",
     lambda r: (r.normal(size=50), r.integers(0, 50, 9000), r.normal(size=9000))),
    ("one place", "sum(v[idx] * u)", lambda r: (r.normal(size=50), np.full(9000, 7), r.normal(size=9000))),
    ("where", "sum(where(a > 0, sqrt(abs(a)) * b, exp(b)))", lambda r: tuple(r.normal(size=(2, 7000)))),
    ("special", "sum(lgamma(2 + a * a) + erf(b) + digamma(1 + b * b))",
     lambda r: tuple(r.normal(size=(2, 900)))),
    ("bessel", "sum(j0(a) * i1(b))", lambda r: tuple(r.normal(size=(2, 900)))),
    ("solve", "sum(solve(a + 9 * eye(len(a)), b))", lambda r: (r.normal(size=(20, 20)), r.normal(size=20))),
    ("cholesky", "sum(cholesky(a @ a.T + 20 * eye(len(a))))", lambda r: (r.normal(size=(12, 12)),)),
    ("determinants", "det(a)", lambda r: (r.normal(size=(500, 3, 3)),)),
    ("loop", """
def f(h, w, x):
    for t in range(len(x)):
        h = tanh(w @ h + x[t])
    return sum(h * h)
""", lambda r: (r.normal(size=40), r.normal(size=(40, 40)) / 7, r.normal(size=(30, 40)))),
    ("while", """
def f(x, a):
    while sum(x * x) < 100:
        x = x * a + 0.1
        x[0] = x[1] + a
    return sum(x * x)
""", lambda r: (r.normal(size=300) / 20, 1.2)),
    ("triangle", """
def f(x):
    return sum(x[i] * x[j] * sin(x[i] - x[j]) for i in range(len(x)) for j in range(i))
""", lambda r: (r.normal(size=300),)),
    ("rows of points", """
def f(x, y, b):
    n, m, d = len(x), len(y), len(x.T)
    r = [sum(exp(-sum((x[i, k] - y[j, k])**2 for k in range(d))) * b[j] for j in range(m)) for i in range(n)]
    return sum(sin(r))
""", lambda r: (r.normal(size=(700, 5)), r.normal(size=(600, 5)), r.normal(size=600))),
    ("loops that reduce", """
def f(a, x):
    n, m = a.shape
    y = zeros(n)
    for i in range(n):
        top, total = a[i, 0], a[i, 0]
        for j in range(1, m):
            top = max(top, a[i, j] * x[j])
            total = logaddexp(total, a[i, j] + x[j])
        y[i] = top * total
    return sum(y)
""", lambda r: (r.normal(size=(40, 300)), r.normal(size=300))),
    ("stores in a loop", """
def f(x, a):
    for t in range(min(len(a), len(x) - 3)):
        x[t] = sin(x[t + 1]) * a[t]
        x[t + 2] += x[t] * x[t + 3]
    return sum(x * x)
""", lambda r: (r.normal(size=3000), r.normal(size=20))),
    ("groups", """
def f(x, g):
    n, c = x.shape
    y = x.reshape(n, c // 7, 7)
    m = mean(y, axis=2)
    z = (y - m[:, :, None]) / sqrt(var(y, axis=2) + 1e-5)[:, :, None]
    return sum(tanh(z.reshape(n, c) * g))
""", lambda r: (r.normal(size=(200, 63)), r.normal(size=63))),
    ("waves", """
def f(u, c):
    v = u
    for _ in range(10):
        w = 2 * u - v
        w[1:-1] += c[1:-1] * (u[2:] - 2 * u[1:-1] + u[:-2])
        v, u = u, w
    return sum(u * u)
""", lambda r: (r.normal(size=4000), r.uniform(0, 0.2, 4000))),
    ("matmul", "sum(sin(x @ y))", lambda r: (r.normal(size=(300, 280)), r.normal(size=(280, 260)))),
    ("float32", "sum(tanh(a) * b)", lambda r: tuple(r.normal(size=(2, 9000)).astype(np.float32))),
)  # fmt: skip
