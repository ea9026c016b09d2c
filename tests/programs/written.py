"""Programs as people write them, for a judge: linear algebra, triangular sums, scans, derivatives inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from programs import Program

RANDOM = np.random.default_rng(11)
X = RANDOM.uniform(0.3, 1.5, 4)
Y = RANDOM.uniform(-1.2, 1.2, 4)
M = RANDOM.uniform(-1.0, 1.0, (3, 4))
A = RANDOM.uniform(-0.5, 0.5, (3, 3)) + 2 * np.eye(3)
S = A @ A.T + np.eye(3)
B = RANDOM.uniform(-1.0, 1.0, (2, 3, 4))
V = RANDOM.uniform(-1.0, 1.0, 3)
AT = np.array([2, 0, -1, 2])
START = np.array([0, 2, 2, 4])

SOURCES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "gaussian": (
        "def f(x: f64[n, d], y: f64[m, d], b: f64[m]):\n"
        "    return [sum(exp(-sum((x[i, k] - y[j, k])**2 for k in range(d))) * b[j] for j in range(m))"
        " for i in range(n)]",
        (M, M[:2] + 0.3, V[:2]),
    ),
    "einsum": ("einsum('bij,bj->i', a, v) + einsum('bij,kj->i', a, v)", (B, RANDOM.normal(size=(2, 4)))),
    "chain": ("def f(a, b, c):\n    return einsum('ij,jk,lk->il', a, b, c), einsum('ii->', a)", (A, M, M)),
    "solve": ("solve(a, b)", (A, V)),
    "inverse": ("def f(a, b):\n    return inv(a) @ b, trace(solve(a, b) @ b.T)", (A, M)),
    "determinant": ("log(det(a @ a.T + eye(3)))", (A,)),
    "density": (
        "def f(x, mean, cov):\n    factor = cholesky(cov)\n"
        "    z = solve_triangular(factor, x - mean, lower=True)\n"
        "    return -sum(z * z) / 2 - sum(log(diag(factor))) - len(x) * log(2 * pi) / 2",
        (V, V[::-1] * 0.3, S),
    ),
    "logsumexp": ("logsumexp(a * b, axis=1) - logsumexp(a, axis=0, keepdims=True)[0, 0]", (M, X)),
    "attention": (
        "def f(q, k, v):\n    s = q @ k.T / sqrt(len(v))\n"
        "    p = exp(s - logsumexp(s, axis=1, keepdims=True))\n    return p @ v",
        (M, M[::-1] * 0.7, A),
    ),
    "pairs": (
        "def f(x: f64[n]):\n    return sum((x[i] - x[j])**4 for i in range(n) for j in range(i))",
        (X,),
    ),
    "triangle": (
        "def f(x: f64[n], w: f64[n]):\n"
        "    return [prod(x[j] + w[i - j] for j in range(i + 1)) for i in range(n)]",
        (X, Y),
    ),
    "three": (
        "def f(x: f64[n]):\n    return sum(sin(x[i] * x[j] - x[k]) for i in range(n) for j in range(i)"
        " for k in range(j, n) if (i + k) % 2 == 0)",
        (X,),
    ),
    "sparse": (
        "def f(start, column, value, x):\n    return [sum(value[k] * x[column[k]]**2"
        " for k in range(start[i], start[i + 1])) for i in range(len(start) - 1)]",
        (START, AT, Y, V),
    ),
    "gathered": (
        "def f(t: f64[n, d], at, w):\n    return tanh(t[at] @ t[at].T) @ w, exp(t[:, at[0]])",
        (M, np.array([2, 0, 2]), V),
    ),
    "histogram": (
        "def f(x: f64[n], at, w):\n    y = zeros(3)\n    for i in range(n):\n"
        "        y[at[i]] += sin(w * x[i])\n"
        "        y[0] *= y[at[i]]\n    return y * y",
        (X, AT, 0.8),
    ),
    "recurrent": (
        "def f(w, u, x):\n    h = zeros(3)\n    for r in x:\n        h = tanh(w @ h + u @ r)\n    return h",
        (A, M, B[0, :, :]),
    ),
    "filter": (
        "def f(x: f64[n], a, b):\n    y = zeros(n)\n    y[0] = x[0]\n    for t in range(1, n):\n"
        "        y[t] = a * y[t - 1] + b * x[t] * y[t - 1]**2 + x[t - 1]\n    return y",
        (X, 0.6, 0.2),
    ),
    "newton": (
        "def f(x):\n    y = x\n    while abs(y * y - x) > 1e-13:\n        y = 0.5 * (y + x / y)\n"
        "    return y",
        (2.3,),
    ),
    "settling": (
        "def f(w, x):\n    y = x\n    k = 0\n    while sum(y * y) > 0.05 and k < 9:\n"
        "        y = 0.4 * tanh(w @ y)\n        k += 1\n    return y, k",
        (A, V),
    ),
    "functions of functions": (
        "def twice(g, x):\n    return g(g(x))\ndef h(x):\n    return sin(x) * x\n"
        "def f(x: f64[n], a):\n    def k(t):\n        return twice(h, t * a) + t\n"
        "    return [twice(k, v) for v in x]",
        (X, 0.7),
    ),
    "residual": (
        "def f(x, t, w, v, b, nu):\n    def u(x, t):\n"
        "        return sum(b[k] * tanh(w[k] * x + v[k] * t) for k in range(len(w)))\n"
        "    return diff(u, t) + u(x, t) * diff(u, x) - nu * diff(u, x, 2)",
        (0.4, 0.3, V, V[::-1] * 0.5, V + 0.2, 0.1),
    ),
    "gradient inside": (
        "def energy(x):\n    return sum(exp(x[1:] * x[:-1])) + sum(x**4)\n"
        "def f(x, w):\n    return sum(w * grad(energy)(x)**2)",
        (X, Y),
    ),
    "tangent inside": (
        "def g(x, y):\n    return sin(x * y) * y\ndef f(x, y):\n    return jvp(g, (x, y), (y, x * x))",
        (X, Y),
    ),
    "runge-kutta": (
        "def rhs(y, a):\n    return stack([y[1], a * (1 - y[0]**2) * y[1] - y[0]])\n"
        "def f(y, a, h):\n    for k in range(5):\n        p = rhs(y, a)\n        q = rhs(y + h / 2 * p, a)\n"
        "        r = rhs(y + h / 2 * q, a)\n        y = y + h / 6 * (p + 2 * q + 2 * r + rhs(y + h * r, a))\n"
        "    return y",
        (V[:2], 0.7, 0.1),
    ),
    "bodies": (
        "def f(x: f64[n, d], v: f64[n, d], m: f64[n]):\n    for t in range(5):\n"
        "        a = [[sum(m[j] * (x[j, c] - x[i, c]) / (0.5 + sum((x[j, e] - x[i, e])**2 for e in range(d)))"
        " for j in range(n) if j != i) for c in range(d)] for i in range(n)]\n"
        "        v = v + 0.05 * a\n        x = x + 0.05 * v\n    return x",
        (M[:, :2], 0.1 * M[:, 2:], V + 2),
    ),
    "soft alignment": (
        "def f(x: f64[n], y: f64[m]):\n    r = zeros((n, m))\n    for i in range(n):\n"
        "        for j in range(m):\n            if i == 0 and j == 0:\n"
        "                r[i, j] = (x[i] - y[j])**2\n            elif i == 0:\n"
        "                r[i, j] = (x[i] - y[j])**2 + r[i, j - 1]\n            elif j == 0:\n"
        "                r[i, j] = (x[i] - y[j])**2 + r[i - 1, j]\n            else:\n"
        "                r[i, j] = (x[i] - y[j])**2"
        " - logaddexp(-r[i - 1, j], logaddexp(-r[i, j - 1], -r[i - 1, j - 1]))\n    return r[-1, -1]",
        (X[:3], Y[:3]),
    ),
    "running": ("def f(x, y):\n    return cumsum(x * y) * cumprod(x + y), y[::-1] - cumsum(y**3)", (X, Y)),
    "chosen": (
        "def f(x: f64[n], y: f64[n]):\n    z = [x[i]**2 if y[i] > 0 else y[i - 1] * x[i] for i in range(n)]\n"
        "    return logsumexp(z[i] * z[j] for i in range(n) for j in range(n) if i != j), max(z), min(z * y)",
        (X, Y),
    ),
    "shapes": (
        "def f(a, b):\n    c = reshape(transpose(a), (2, 6)) * reshape(b, (1, 6))\n"
        "    d = outer(c[0], c[1])[::2, 1:] * stack([b, b])[0, 0]\n"
        "    return d, concatenate([c[:, :2], c[:, 4:]], axis=1)",
        (M, RANDOM.uniform(0.5, 1.0, 6)),
    ),
    "robust": (
        "def f(x, y, k):\n    r = y - x\n"
        "    return sum(where(abs(r) < k, r * r / 2, k * (abs(r) - k / 2))), std(r)",
        (X, Y, 0.9),
    ),
    "special": (
        "def f(x, y):\n    p = erf(x) * lgamma(x + 1), log1p(x) * expm1(y)\n"
        "    return p[0], p[1], atan2(y, x), hypot(x, y), x**y",
        (X, Y),
    ),
    "statistics": (
        "def f(a):\n    z = (a - mean(a, axis=0)) / std(a, axis=0)\n"
        "    return z @ z.T, var(a), prod(a, axis=1)",
        (M + 2.0,),
    ),
}
HANDWRITTEN = {name: Program(source, args) for name, (source, args) in SOURCES.items()}
