"""Robotics: chains of frames, filters, trajectories, maps and calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.cliffs.program import Program
from bench.workload import Arguments

# -- an arm in space, its frames as 4 × 4 matrices -----------------------------------------------------

CHAIN = """
def frame(axis, angle, shift):
    c = cos(angle)
    s = sin(angle)
    K = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
    R = eye(3) + s * K + (1 - c) * (K @ K)
    T = eye(4)
    T[:3, :3] = R
    T[:3, 3] = shift
    return T

def chain(q: f64[b, n], axis: f64[n, 3], shift: f64[n, 3], goal: f64[b, 3]):
    total = 0.0
    for i in range(b):
        T = eye(4)
        for j in range(n):
            T = T @ frame(axis[j], q[i, j], shift[j])
        total += sum((T[:3, 3] - goal[i])**2)
    return total
"""


def arms(rng: np.random.Generator, b: int, n: int) -> Arguments:
    axis = rng.standard_normal((n, 3))
    axis /= np.linalg.norm(axis, axis=1)[:, None]
    return rng.uniform(-1, 1, (b, n)), axis, rng.standard_normal((n, 3)), rng.standard_normal((b, 3))


def hat(xp: Any, w: Any) -> Any:
    o = 0 * w[..., 0]
    rows = ([o, -w[..., 2], w[..., 1]], [w[..., 2], o, -w[..., 0]], [-w[..., 1], w[..., 0], o])
    return xp.stack([xp.stack(row, -1) for row in rows], -2)


def chain(xp: Any, q: Any, axis: Any, shift: Any, goal: Any) -> Any:
    K = hat(xp, axis)
    R = np.eye(3) + xp.sin(q)[..., None, None] * K + (1 - xp.cos(q))[..., None, None] * (K @ K)
    rotation, place = xp.zeros((len(q), 3, 3)) + np.eye(3), xp.zeros((len(q), 3))
    for j in range(len(axis)):
        place = place + xp.einsum("bij,j->bi", rotation, shift[j])
        rotation = rotation @ R[:, j]
    return xp.sum((place - goal) ** 2)


# -- quaternions integrated from a gyroscope -----------------------------------------------------------

QUATERNIONS = """
def multiply(a, b):
    return np.array([
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]])

def gyroscope(rate: f64[t, 3], bias: f64[3], gravity: f64[t, 3], dt):
    q = np.array([1.0, 0.0, 0.0, 0.0])
    total = 0.0
    for k in range(t):
        w = rate[k] - bias
        turn = concatenate([[1.0], 0.5 * dt * w])
        q = multiply(q, turn)
        q = q / norm(q)
        gx = 2 * (q[1] * q[3] - q[0] * q[2])
        gy = 2 * (q[0] * q[1] + q[2] * q[3])
        gz = q[0]**2 - q[1]**2 - q[2]**2 + q[3]**2
        total += (gx - gravity[k, 0])**2 + (gy - gravity[k, 1])**2 + (gz - gravity[k, 2])**2
    return total / t
"""


def motion(rng: np.random.Generator, t: int) -> Arguments:
    return rng.standard_normal((t, 3)), 0.1 * rng.standard_normal(3), rng.standard_normal((t, 3)), 0.02


def multiply(xp: Any, a: Any, b: Any) -> Any:
    return xp.stack([
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    ])  # fmt: skip


def gyroscope(xp: Any, rate: Any, bias: Any, gravity: Any, dt: Any) -> Any:
    def step(q: Any, inputs: Any) -> Any:
        w = inputs[0] - bias
        turn = xp.concatenate([xp.ones(1), 0.5 * dt * w])
        q = multiply(xp, q, turn)
        q = q / xp.sqrt(xp.sum(q**2))
        g = xp.stack([
            2 * (q[1] * q[3] - q[0] * q[2]),
            2 * (q[0] * q[1] + q[2] * q[3]),
            q[0] ** 2 - q[1] ** 2 - q[2] ** 2 + q[3] ** 2,
        ])  # fmt: skip
        return q, xp.sum((g - inputs[1]) ** 2)

    _, errors = xp.steps(step, xp.array([1.0, 0.0, 0.0, 0.0]), (rate, gravity), len(rate))
    return xp.mean(xp.array(errors))


# -- inverse kinematics: steps of Gauss and Newton inside of the loss ----------------------------------

KINEMATICS = """
def kinematics(long: f64[n], start: f64[n], goal: f64[m, 2]):
    total = 0.0
    for k in range(m):
        q = start.copy()
        for _ in range(5):
            x = 0.0
            y = 0.0
            angle = cumsum(q)
            J = zeros((2, n))
            for j in range(n):
                x += long[j] * cos(angle[j])
                y += long[j] * sin(angle[j])
            for j in range(n):
                for i in range(j, n):
                    J[0, j] -= long[i] * sin(angle[i])
                    J[1, j] += long[i] * cos(angle[i])
            e = np.array([goal[k, 0] - x, goal[k, 1] - y])
            q = q + J.T @ solve(J @ J.T + 0.1 * eye(2), e)
        total += sum((q - start)**2)
    return total
"""


def reach(rng: np.random.Generator, n: int, m: int) -> Arguments:
    return rng.uniform(0.5, 1.0, n), rng.uniform(-1, 1, n), rng.standard_normal((m, 2))


def kinematics(xp: Any, long: Any, start: Any, goal: Any) -> Any:
    n, m = len(long), len(goal)
    q = xp.zeros((m, n)) + start
    for _ in range(5):
        angle = xp.cumsum(q, 1)
        c, s = long * xp.cos(angle), long * xp.sin(angle)
        behind = np.tril(np.ones((n, n)))
        J = xp.stack([-s @ behind, c @ behind], 1)
        e = goal - xp.stack([xp.sum(c, 1), xp.sum(s, 1)], 1)
        A = xp.einsum("mij,mkj->mik", J, J) + 0.1 * np.eye(2)
        q = q + xp.einsum("mij,mi->mj", J, xp.solve(A, e[..., None])[..., 0])
    return xp.sum((q - start) ** 2)


# -- an extended Kalman filter of a vehicle ------------------------------------------------------------

VEHICLE = """
def vehicle(control: f64[t, 2], seen: f64[t, 2], log_q: f64[3], log_r: f64[2], dt):
    x = zeros(3)
    P = 0.1 * eye(3)
    Q = diag(exp(log_q))
    R = diag(exp(log_r))
    total = 0.0
    for k in range(t):
        v = control[k, 0]
        F = eye(3)
        F[0, 2] = -dt * v * sin(x[2])
        F[1, 2] = dt * v * cos(x[2])
        x = x + dt * np.array([v * cos(x[2]), v * sin(x[2]), control[k, 1]])
        P = F @ P @ F.T + Q
        S = P[:2, :2] + R
        e = seen[k] - x[:2]
        K = P[:, :2] @ inv(S)
        x = x + K @ e
        P = P - K @ P[:2]
        total += log(det(S)) + e @ solve(S, e)
    return 0.5 * total
"""


def drive(rng: np.random.Generator, t: int) -> Arguments:
    control = rng.uniform(0.2, 1, (t, 2))
    seen = np.cumsum(rng.uniform(0, 0.1, (t, 2)), 0)
    return control, seen, rng.uniform(-4, -3, 3), rng.uniform(-2, -1, 2), 0.1


def vehicle(xp: Any, control: Any, seen: Any, log_q: Any, log_r: Any, dt: Any) -> Any:
    Q, R = xp.diag(xp.exp(log_q)), xp.diag(xp.exp(log_r))

    def step(state: Any, inputs: Any) -> Any:
        x, P, total = state
        (v, w), z = inputs
        c, s, o = v * xp.cos(x[2]), v * xp.sin(x[2]), 0 * x[2]
        F = np.eye(3) + dt * xp.array([[o, o, -s], [o, o, c], [o, o, o]])
        x = x + dt * xp.stack([c, s, w])
        P = F @ P @ F.T + Q
        S, e = P[:2, :2] + R, z - x[:2]
        K = P[:, :2] @ xp.inv(S)
        return (x + K @ e, P - K @ P[:2], total + xp.logdet(S) + e @ xp.solve(S, e)), None

    start = xp.zeros(3), 0.1 * xp.eye(3), xp.sum(0 * log_q)
    return 0.5 * xp.steps(step, start, (control, seen), len(seen))[0][2]


# -- a trajectory that keeps away from obstacles -------------------------------------------------------

TRAJECTORY = """
def trajectory(p: f64[t, 2], obstacle: f64[m, 3], start: f64[2], end: f64[2]):
    cost = 10 * sum((p[0] - start)**2) + 10 * sum((p[t - 1] - end)**2)
    for k in range(1, t - 1):
        for c in range(2):
            cost += (p[k - 1, c] - 2 * p[k, c] + p[k + 1, c])**2
    for k in range(t):
        for j in range(m):
            d = sqrt((p[k, 0] - obstacle[j, 0])**2 + (p[k, 1] - obstacle[j, 1])**2)
            if d < obstacle[j, 2]:
                cost += 5 * (obstacle[j, 2] - d)**2
    return cost
"""


def room(rng: np.random.Generator, t: int, m: int) -> Arguments:
    p = np.linspace([0.0, 0.0], [10.0, 10.0], t) + 0.3 * rng.standard_normal((t, 2))
    obstacle = np.column_stack([rng.uniform(0, 10, (m, 2)), rng.uniform(1.0, 4.0, m)])
    return p, obstacle, np.zeros(2), np.full(2, 10.0)


def trajectory(xp: Any, p: Any, obstacle: Any, start: Any, end: Any) -> Any:
    cost = 10 * xp.sum((p[0] - start) ** 2) + 10 * xp.sum((p[-1] - end) ** 2)
    cost = cost + xp.sum((p[:-2] - 2 * p[1:-1] + p[2:]) ** 2)
    d = xp.sqrt(xp.sum((p[:, None] - obstacle[:, :2]) ** 2, 2))
    return cost + 5 * xp.sum(xp.maximum(obstacle[:, 2] - d, 0.0) ** 2)


# -- a graph of poses in the plane ---------------------------------------------------------------------

POSES = """
def poses(x: f64[n, 3], a: i64[e], b: i64[e], seen: f64[e, 3], weight: f64[3]):
    total = 0.0
    for k in range(e):
        i = a[k]
        j = b[k]
        c = cos(x[i, 2])
        s = sin(x[i, 2])
        dx = x[j, 0] - x[i, 0]
        dy = x[j, 1] - x[i, 1]
        r = np.array([c * dx + s * dy, c * dy - s * dx, x[j, 2] - x[i, 2]]) - seen[k]
        r[2] = arctan2(sin(r[2]), cos(r[2]))
        total += sum(weight * r**2)
    return total
"""


def slam(rng: np.random.Generator, n: int, e: int) -> Arguments:
    a = rng.integers(0, n, e)
    b = (a + rng.integers(1, n, e)) % n
    return rng.standard_normal((n, 3)), a, b, rng.standard_normal((e, 3)), rng.uniform(0.5, 2, 3)


def poses(xp: Any, x: Any, a: Any, b: Any, seen: Any, weight: Any) -> Any:
    d, c, s = x[b] - x[a], xp.cos(x[a, 2]), xp.sin(x[a, 2])
    u = c * d[:, 0] + s * d[:, 1] - seen[:, 0]
    v = c * d[:, 1] - s * d[:, 0] - seen[:, 1]
    w = d[:, 2] - seen[:, 2]
    w = w - 2 * np.pi * xp.floor((w + np.pi) / (2 * np.pi))
    return xp.sum(weight[0] * u**2 + weight[1] * v**2 + weight[2] * w**2)


# -- points seen by a camera with lens distortion ------------------------------------------------------

CAMERA = """
def camera(X: f64[n, 3], seen: f64[n, 2], w: f64[3], t: f64[3], f, k: f64[2]):
    theta = sqrt(sum(w**2))
    axis = w / theta
    total = 0.0
    for i in range(n):
        p = X[i] * cos(theta) + cross(axis, X[i]) * sin(theta) + axis * dot(axis, X[i]) * (1 - cos(theta)) + t
        u = p[:2] / p[2]
        r2 = sum(u**2)
        e = f * u * (1 + k[0] * r2 + k[1] * r2**2) - seen[i]
        total += sum(where(abs(e) < 1, 0.5 * e**2, abs(e) - 0.5))
    return total
"""


def calibration(rng: np.random.Generator, n: int) -> Arguments:
    return (
        rng.standard_normal((n, 3)), rng.standard_normal((n, 2)), 0.2 * rng.standard_normal(3),
        np.array([0.1, -0.2, 6.0]), 1.2, np.array([0.05, -0.01]),
    )  # fmt: skip


def camera(xp: Any, X: Any, seen: Any, w: Any, t: Any, f: Any, k: Any) -> Any:
    theta = xp.sqrt(xp.sum(w**2))
    axis = w / theta
    p = X * xp.cos(theta) + xp.cross(axis + 0 * X, X) * xp.sin(theta)
    p = p + axis * (X @ axis)[:, None] * (1 - xp.cos(theta)) + t
    u = p[:, :2] / p[:, 2:]
    r2 = xp.sum(u**2, 1, keepdims=True)
    e = f * u * (1 + k[0] * r2 + k[1] * r2**2) - seen
    return xp.sum(xp.where(xp.abs(e) < 1, 0.5 * e**2, xp.abs(e) - 0.5))


# -- the cost of driving a pendulum on a cart, by Runge and Kutta --------------------------------------

CART = """
def slope(s, force, p):
    c = cos(s[2])
    n = sin(s[2])
    m = p[0] + p[1] * n * n
    a = (force + p[1] * n * (p[2] * s[3]**2 + 9.81 * c)) / m
    b = (-force * c - p[1] * p[2] * s[3]**2 * c * n - (p[0] + p[1]) * 9.81 * n) / (p[2] * m)
    return np.array([s[1], a, s[3], b])

def cart(u: f64[t], s: f64[4], p: f64[3], dt):
    total = 0.0
    for k in range(t):
        k1 = slope(s, u[k], p)
        k2 = slope(s + 0.5 * dt * k1, u[k], p)
        k3 = slope(s + 0.5 * dt * k2, u[k], p)
        k4 = slope(s + dt * k3, u[k], p)
        s = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        total += 0.1 * u[k]**2 + (cos(s[2]) + 1)**2 + s[0]**2
    return total
"""


def pendulum(rng: np.random.Generator, t: int) -> Arguments:
    return rng.standard_normal(t), np.array([0.1, 0.0, 0.3, 0.0]), np.array([1.0, 0.3, 0.5]), 0.02


def cart(xp: Any, u: Any, s: Any, p: Any, dt: Any) -> Any:
    def slope(s: Any, force: Any) -> Any:
        c, n = xp.cos(s[2]), xp.sin(s[2])
        m = p[0] + p[1] * n * n
        a = (force + p[1] * n * (p[2] * s[3] ** 2 + 9.81 * c)) / m
        b = (-force * c - p[1] * p[2] * s[3] ** 2 * c * n - (p[0] + p[1]) * 9.81 * n) / (p[2] * m)
        return xp.stack([s[1], a, s[3], b])

    def step(state: Any, inputs: Any) -> Any:
        s, total = state
        f = inputs[0]
        k1 = slope(s, f)
        k2 = slope(s + 0.5 * dt * k1, f)
        k3 = slope(s + 0.5 * dt * k2, f)
        k4 = slope(s + dt * k3, f)
        s = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return (s, total + 0.1 * f**2 + (xp.cos(s[2]) + 1) ** 2 + s[0] ** 2), None

    return xp.steps(step, (s, xp.sum(0 * s)), (u,), len(u))[0][1]


PROGRAMS = (
    Program("se3-chain", CHAIN, (200, 7), (2, 3), arms, (0, 1, 2), chain),
    Program("quaternions", QUATERNIONS, (1000,), (3,), motion, (0, 1), gyroscope),
    Program("inverse-kinematics", KINEMATICS, (6, 100), (3, 2), reach, (0, 1), kinematics),
    Program("vehicle-filter", VEHICLE, (500,), (3,), drive, (2, 3), vehicle),
    Program("trajectory", TRAJECTORY, (200, 20), (5, 3), room, (0,), trajectory),
    Program("pose-graph", POSES, (1000, 5000), (4, 6), slam, (0, 4), poses),
    Program("camera", CAMERA, (5000,), (4,), calibration, (0, 2, 3, 4, 5), camera),
    Program("cart-pole", CART, (500,), (3,), pendulum, (0, 1, 2), cart),
)  # fmt: skip
