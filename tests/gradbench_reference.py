"""GradBench's evals in plain NumPy, and inputs like the ones that it sends.

The objectives are written from the evals' definitions, loop by loop, and take complex numbers: derivatives
are complex steps, exact to rounding and independent of the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import multigammaln

Input = dict[str, Any]
STEP = 1e-40


def jacobian(f: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """The derivative of f at x by complex steps, shaped result.shape + x.shape."""
    columns = []
    for k in range(x.size):
        z = x.astype(complex)
        z.flat[k] += STEP * 1j
        columns.append(np.imag(f(z)) / STEP)
    return np.stack(columns, axis=-1).reshape(*np.shape(columns[0]), *x.shape)


def gradients(f: Callable[..., Any], args: Sequence[Any], wrt: Sequence[int]) -> list[np.ndarray]:
    """The derivatives of f by some of its arguments."""

    def by(k: int) -> np.ndarray:
        return jacobian(lambda z: f(*args[:k], z, *args[k + 1 :]), np.asarray(args[k], float))

    return [by(k) for k in wrt]


def largest(x: np.ndarray) -> Any:
    return x.flat[np.argmax(x.real)]


def logsumexp(x: np.ndarray) -> Any:
    a = largest(x)
    return a + np.log(np.sum(np.exp(x - a)))


# -- hello, lse, llsq, kmeans --------------------------------------------------------------------------


def hello(function: str, x: float) -> float:
    return x * x if function == "square" else 2 * x


def lse_input(rng: np.random.Generator, n: int) -> Input:
    return {"x": rng.uniform(-100, 100, n).tolist()}


def lse(function: str, given: Input) -> Any:
    x = np.array(given["x"])
    return logsumexp(x) if function == "primal" else jacobian(logsumexp, x)


def llsq_input(rng: np.random.Generator, n: int, m: int) -> Input:
    return {"x": rng.random(m).tolist(), "n": n}


def llsq(function: str, given: Input) -> Any:
    x, n = np.array(given["x"]), given["n"]
    t = -1 + 2 * np.arange(n) / (n - 1)
    powers = t[:, None] ** np.arange(len(x))
    residual = powers @ x - np.sign(t)
    return residual @ residual / 2 if function == "primal" else powers.T @ residual


def kmeans_input(rng: np.random.Generator, n: int, k: int, d: int) -> Input:
    points = rng.random((n, d)).tolist()
    return {"points": points, "centroids": points[-k:]}


def kmeans(function: str, given: Input) -> Any:
    points, centroids = np.array(given["points"]), np.array(given["centroids"])
    distances = np.sum((points[:, None] - centroids) ** 2, axis=2)
    if function == "cost":
        return distances.min(axis=1).sum()
    nearest = distances.argmin(axis=1)
    return [c - points[nearest == j].mean(axis=0) for j, c in enumerate(centroids)]


# -- gmm -----------------------------------------------------------------------------------------------


def gmm_input(rng: np.random.Generator, d: int, k: int, n: int, m: int = 0, gamma: float = 1.0) -> Input:
    return {
        "d": d, "k": k, "n": n, "m": m, "gamma": gamma, "x": rng.normal(size=(n, d)).tolist(),
        "alpha": rng.normal(size=k).tolist(), "mu": rng.uniform(size=(k, d)).tolist(),
        "q": rng.normal(size=(k, d)).tolist(), "l": rng.normal(size=(k, d * (d - 1) // 2)).tolist(),
    }  # fmt: skip


def log_posterior(alpha: Any, mu: Any, q: Any, l: Any, x: Any, m: int, gamma: float) -> Any:  # noqa: E741
    (k, d), n = mu.shape, len(x)
    Q = np.zeros((k, d, d), np.result_type(q, l))
    lower = np.tril_indices(d, -1)
    by_columns = np.argsort(lower[1], kind="stable")
    for c in range(k):
        Q[c] = np.diag(np.exp(q[c]))
        Q[c][lower[0][by_columns], lower[1][by_columns]] = l[c]
    total = -n * (d / 2 * np.log(2 * np.pi) + logsumexp(alpha))
    for i in range(n):
        beta = [alpha[c] + q[c].sum() - 0.5 * ((Q[c] @ (x[i] - mu[c])) ** 2).sum() for c in range(k)]
        total += logsumexp(np.array(beta))
    v = d + m + 1
    constant = v * d * np.log(gamma / np.sqrt(2)) - multigammaln(v / 2, d)
    return total + k * constant - gamma**2 / 2 * (Q**2).sum() + m * q.sum()


def gmm(function: str, given: Input) -> Any:
    names = ("alpha", "mu", "q", "l", "x")
    args = [
        np.array(given[name]).reshape(given["k"], -1) if name in "mulq" else np.array(given[name])
        for name in names
    ]
    args = [*args, given["m"], given["gamma"]]
    if function == "objective":
        return log_posterior(*args)
    return dict(zip(names[:4], gradients(log_posterior, args, range(4)), strict=True))


# -- ode, lstm, det ------------------------------------------------------------------------------------


def ode_input(rng: np.random.Generator, n: int, s: int) -> Input:
    return {"x": rng.random(n).tolist(), "s": s}


def runge_kutta(x: np.ndarray, s: int) -> np.ndarray:
    def slope(y: np.ndarray) -> np.ndarray:
        return x * np.concatenate([[1], y[:-1]])

    y, h = np.zeros(len(x), x.dtype), 2 / s
    for _ in range(s):
        k1 = slope(y)
        k2 = slope(y + h * k1 / 2)
        k3 = slope(y + h * k2 / 2)
        k4 = slope(y + h * k3)
        y = y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6
    return y


def ode(function: str, given: Input) -> Any:
    x, s = np.array(given["x"]), given["s"]
    return runge_kutta(x, s) if function == "primal" else jacobian(lambda z: runge_kutta(z, s)[-1], x)


def lstm_input(rng: np.random.Generator, layers: int, c: int, b: int) -> Input:
    return {
        "main_params": rng.random((2 * layers, 4 * b)).tolist(),
        "extra_params": rng.random((3, b)).tolist(),
        "state": rng.random((2 * layers, b)).tolist(),
        "sequence": rng.integers(0, 2, (c, b)).astype(float).tolist(),
    }


def lstm_loss(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    def sigmoid(z: Any) -> Any:
        return 1 / (1 + np.exp(-z))

    b, total = extra.shape[1], 0.0
    state = list(state)
    for x, gold in pairwise(sequence):
        x = x * extra[0]
        for k in range(0, len(main), 2):
            weight, bias = main[k].reshape(4, b), main[k + 1].reshape(4, b)
            hidden, cell = state[k : k + 2]
            forget, outgate = (sigmoid(x * weight[g] + bias[g]) for g in (0, 2))
            ingate, change = sigmoid(hidden * weight[1] + bias[1]), np.tanh(hidden * weight[3] + bias[3])
            cell = cell * forget + ingate * change
            x = outgate * np.tanh(cell)
            state[k], state[k + 1] = x, cell
        y = x * extra[1] + extra[2]
        total = total + (gold * (y - np.log(np.exp(y).sum() + 2))).sum()
    return -total / ((len(sequence) - 1) * b)


def lstm(function: str, given: Input) -> Any:
    args = [np.array(given[name]) for name in ("main_params", "extra_params", "state", "sequence")]
    if function == "objective":
        return lstm_loss(*args)
    return np.concatenate([g.ravel() for g in gradients(lstm_loss, args, (0, 1))])


def det_input(rng: np.random.Generator, size: int) -> Input:
    return {"A": rng.random(size * size).tolist(), "ell": size}


def det(function: str, given: Input) -> Any:
    A = np.array(given["A"]).reshape(given["ell"], -1)
    value = np.linalg.det(A)
    return value if function == "primal" else (value * np.linalg.inv(A).T).ravel()


# -- ba ------------------------------------------------------------------------------------------------


def ba_input(rng: np.random.Generator, n: int, m: int, p: int) -> Input:
    return {
        "n": n, "m": m, "p": p, "cam": rng.normal(size=11).tolist(), "x": rng.normal(size=3).tolist(),
        "w": float(rng.random()), "feat": rng.normal(size=2).tolist(),
    }  # fmt: skip


def reprojection(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
    r, v = camera[:3], point - camera[3:6]
    theta = np.sqrt((r * r).sum())
    if theta != 0:
        a = r / theta
        v = v * np.cos(theta) + np.cross(a, v) * np.sin(theta) + a * (a * v).sum() * (1 - np.cos(theta))
    else:
        v = v + np.cross(r, v)
    u = v[:2] / v[2]
    s = (u * u).sum()
    u = u * (1 + camera[9] * s + camera[10] * s * s)
    return weight * (u * camera[6] + camera[7:9] - feature)


def ba(function: str, given: Input) -> Any:
    one = np.array(given["cam"]), np.array(given["x"]), np.array(given["w"]), np.array(given["feat"])
    n, m, p, w = given["n"], given["m"], given["p"], given["w"]
    if function == "objective":
        return {
            "reproj_error": {"elements": reprojection(*one), "repeated": p},
            "w_err": {"element": 1 - w * w, "repeated": p},
        }
    block = np.column_stack(gradients(reprojection, one, range(3)))
    rows, cols, vals = [0], [], []
    for i in range(p):
        at = [*range(11 * (i % n), 11 * (i % n) + 11)]
        at += [11 * n + 3 * (i % m) + k for k in range(3)] + [11 * n + 3 * m + i]
        for row in block:
            cols += at
            vals += row.tolist()
            rows.append(len(cols))
    for i in range(p):
        cols.append(11 * n + 3 * m + i)
        vals.append(-2 * w)
        rows.append(len(cols))
    lists = {"rows": rows, "cols": cols, "vals": vals}
    return {name: [*some[:30], some[-1]] for name, some in lists.items()}


# -- ht ------------------------------------------------------------------------------------------------


def ht_input(rng: np.random.Generator, vertices: int, points: int, with_us: bool, mirrored: bool) -> Input:
    """A hand of 22 bones: the wrist, four for each finger, the forearm."""
    parents = [-1, *(0 if b % 4 == 1 else b - 1 for b in range(1, 21)), 0]

    def transforms() -> list[Any]:
        found = np.tile(np.eye(4), (22, 1, 1))
        found[:, :3] += 0.3 * rng.normal(size=(22, 3, 4))
        return found.tolist()

    weights = rng.random((vertices, 22)) * (rng.random((vertices, 22)) < 0.2)
    triangles = rng.integers(0, vertices, (2 * vertices, 3))
    model = {
        "bone_count": 22, "bone_names": [f"bone{b}" for b in range(22)], "parents": parents,
        "base_relatives": transforms(), "inverse_base_absolutes": transforms(),
        "base_positions": np.c_[rng.normal(size=(vertices, 3)), np.ones(vertices)].tolist(),
        "weights": weights.tolist(), "triangles": triangles.tolist(), "is_mirrored": mirrored,
    }  # fmt: skip
    most = len(triangles) if with_us else vertices
    data = {
        "model": model,
        "correspondences": rng.integers(0, most, points).tolist(),
        "points": rng.normal(size=(points, 3)).tolist(),
    }
    return {
        "theta": rng.normal(size=26).tolist(),
        "data": data,
        "us": rng.random((points, 2)).tolist() if with_us else [],
    }


def _iteration(axis: int, angle: Any) -> np.ndarray:
    R = np.eye(3, dtype=np.result_type(angle, float))
    i, j = [(1, 2), (2, 0), (0, 1)][axis]
    R[i, i] = R[j, j] = np.cos(angle)
    R[j, i] = np.sin(angle)
    R[i, j] = -R[j, i]
    return R


def residuals(theta: Any, us: Any, data: Input) -> np.ndarray:
    model = data["model"]
    angles = np.zeros((22, 3), np.result_type(theta, float))
    for finger in range(5):
        first = theta[6 + 4 * finger : 10 + 4 * finger]
        angles[4 * finger + 2 : 4 * finger + 5, 0] = first[[0, 2, 3]]
        angles[4 * finger + 2, 1] = first[1]
    absolute: list[np.ndarray] = []
    posed: Any = 0.0
    rest, weights = np.array(model["base_positions"]), np.array(model["weights"])
    for b, parent in enumerate(model["parents"]):
        own = np.eye(4, dtype=angles.dtype)
        own[:3, :3] = _iteration(2, angles[b, 1]) @ _iteration(1, angles[b, 2]) @ _iteration(0, angles[b, 0])
        own = np.array(model["base_relatives"][b]) @ own
        absolute.append(own if parent < 0 else absolute[parent] @ own)
        moved = rest @ (absolute[b] @ np.array(model["inverse_base_absolutes"][b])).T
        posed = posed + weights[:, b, None] * moved[:, :3]
    if model["is_mirrored"]:
        posed = posed * [-1, 1, 1]
    angle = np.sqrt((theta[:3] ** 2).sum())
    R = np.eye(3)
    if angle.real >= 0.0001:
        x, y, z = theta[:3] / angle
        K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        R = R + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K
    vertices = posed @ R.T + theta[3:6]
    points, at = np.array(data["points"]), data["correspondences"]
    if not len(us):
        return points - vertices[at]
    corners = vertices[np.array(model["triangles"])[at]]
    return points - np.einsum("ic,ick->ik", np.column_stack([us, 1 - us.sum(axis=1)]), corners)


def ht(function: str, given: Input) -> Any:
    theta, us, data = np.array(given["theta"]), np.array(given["us"]), given["data"]
    if function == "objective":
        return residuals(theta, us, data).ravel()
    found = jacobian(lambda z: residuals(z, us, data), theta)
    if len(us):
        full = jacobian(lambda z: residuals(theta, z, data), us)
        own = np.stack([full[i, :, i] for i in range(len(us))])
        found = np.concatenate([own, found], axis=2)
    return found.reshape(-1, found.shape[2])


# -- particle, saddle ----------------------------------------------------------------------------------


def argmin(f: Callable[[np.ndarray], Any], slope: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> Any:
    """Gradient descent with a step that doubles after ten successes and halves after a failure."""
    value, g, step, good = f(x), slope(x), 1e-5, 0
    while np.sqrt((g * g).sum()) > 1e-5:
        if good == 10:
            step, good = 2 * step, 0
            continue
        y = x - step * g
        if np.sqrt(((x - y) ** 2).sum()) <= 1e-5:
            break
        if f(y) < value:
            x, value, g, good = y, f(y), slope(y), good + 1
        else:
            step, good = step / 2, 0
    return x


def crossing(w: Any) -> Any:
    """The square of where the particle crosses the axis."""
    x, v = np.array([0.0, 8.0], np.result_type(w, float)), np.array([0.75, 0.0])
    charges = [np.array([10.0, 0.0]), np.array([10.0, 10.0 - w])]
    while True:
        force = sum((x - c) / ((x - c) ** 2).sum() ** 1.5 for c in charges)
        x = x + 0.1 * v
        if x[1].real <= 0:
            return (x[0] - x[1] / v[1] * v[0]) ** 2
        v = v + 0.1 * force


def particle(function: str, given: Input) -> float:
    return nearest(given["w"])


@cache
def nearest(start: float) -> float:
    """Where the descent ends: the modes are ways to differentiate, so all of them end there."""

    def f(w: np.ndarray) -> Any:
        return crossing(w[0])

    return float(argmin(f, lambda w: jacobian(f, w), np.array([start]))[0])


def saddle(function: str, given: Input) -> Any:
    start = np.array(given["start"])

    def argmax(x: np.ndarray) -> np.ndarray:
        return argmin(lambda y: y @ y - x @ x, lambda y: 2 * y, start)

    def ridge(x: np.ndarray) -> float:
        y = argmax(x)
        return x @ x - y @ y

    x = argmin(ridge, lambda x: 2 * x, start)
    return np.concatenate([x, argmax(x)])
