"""Daily programs of mechanics: bodies, a robot's arm, determinants, heat, springs."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.daily import daily
from bench.workload import Arguments

# -- bodies that attract each other --------------------------------------------------------------------

BODIES = """
def pull(x, mass):
    n = len(x)
    return [[sum(mass[j] * (x[j, k] - x[i, k]) * (0.1 + sum((x[j, l] - x[i, l])**2 for l in range(3)))**-1.5
                 for j in range(n)) for k in range(3)] for i in range(n)]

def bodies(x: f64[n, 3], v: f64[n, 3], mass: f64[n], goal: f64[n, 3], steps: i64):
    for _ in range(steps):
        v = v + 0.01 * pull(x, mass)
        x = x + 0.01 * v
    return sum((x - goal)**2)
"""


def cloud(rng: np.random.Generator, n: int, steps: int) -> Arguments:
    x, v, goal = rng.standard_normal((3, n, 3))
    return x, v, rng.uniform(0.5, 1.5, n), goal, steps


def bodies(xp: Any, x: Any, v: Any, mass: Any, goal: Any, steps: int) -> Any:
    def step(state: Any, _: Any) -> Any:
        x, v = state
        apart = x[None] - x[:, None]
        v = v + 0.01 * xp.einsum("j,ijk,ij->ik", mass, apart, (0.1 + xp.sum(apart**2, 2)) ** -1.5)
        return (x + 0.01 * v, v), None

    (x, _), _ = xp.steps(step, (x, v), None, steps)
    return xp.sum((x - goal) ** 2)


# -- a robot's arm -------------------------------------------------------------------------------------

ARM = """
def arm(a: f64[n], q: f64[n], goal: f64[2]):
    p = eye(3)
    for j in range(n):
        ca = cos(a[j])
        sa = sin(a[j])
        p = p @ [[ca, -sa, q[j] * ca], [sa, ca, q[j] * sa], [0.0, 0.0, 1.0]]
    return (p[0, 2] - goal[0])**2 + (p[1, 2] - goal[1])**2 + 0.1 * p[0, 0]
"""


def joints(rng: np.random.Generator, n: int) -> Arguments:
    return rng.uniform(-1, 1, n), rng.uniform(0.5, 1.5, n), rng.standard_normal(2)


def arm(xp: Any, a: Any, q: Any, goal: Any) -> Any:
    p = xp.eye(3)
    for j in range(len(a)):
        ca, sa = xp.cos(a[j]), xp.sin(a[j])
        p = p @ xp.array([[ca, -sa, q[j] * ca], [sa, ca, q[j] * sa], [0.0, 0.0, 1.0]])
    return (p[0, 2] - goal[0]) ** 2 + (p[1, 2] - goal[1]) ** 2 + 0.1 * p[0, 0]


# -- determinants --------------------------------------------------------------------------------------

DETERMINANTS = """
def determinants(F: f64[n, 3, 3], weight: f64[n]):
    J = det(F)
    return sum(weight * (sum(sum(F**2, axis=2), axis=1) - 3 - 2 * log(J) + (J - 1)**2))
"""


def gradients_of_motion(rng: np.random.Generator, n: int) -> Arguments:
    return np.eye(3) + 0.1 * rng.standard_normal((n, 3, 3)), rng.uniform(0.5, 1.5, n)


def determinants(xp: Any, F: Any, weight: Any) -> Any:
    J = xp.det(F)
    return xp.sum(weight * (xp.sum(F**2, (1, 2)) - 3 - 2 * xp.log(J) + (J - 1) ** 2))


# -- heat ----------------------------------------------------------------------------------------------

HEAT = """
def heat(u: f64[n], k: f64[r], goal: f64[n], steps: i64):
    for _ in range(steps):
        flow = k * (u[1:] - u[:-1])
        inner = u[1:-1] + 0.2 * (flow[1:] - flow[:-1])
        u = concatenate([u[:1], inner, u[-1:]])
    return sum((u - goal)**2)
"""


def rod(rng: np.random.Generator, n: int, steps: int) -> Arguments:
    return rng.standard_normal(n), rng.uniform(0.5, 1.5, n - 1), rng.standard_normal(n), steps


def heat(xp: Any, u: Any, k: Any, goal: Any, steps: int) -> Any:
    def step(u: Any, _: Any) -> Any:
        flow = k * (u[1:] - u[:-1])
        return xp.concatenate([u[:1], u[1:-1] + 0.2 * (flow[1:] - flow[:-1]), u[-1:]]), None

    return xp.sum((xp.steps(step, u, None, steps)[0] - goal) ** 2)


# -- springs -------------------------------------------------------------------------------------------

SPRINGS = """
def springs(x: f64[n, 3], stiff: f64[e], rest: f64[e], a: i64[e], b: i64[e]):
    return sum(0.5 * stiff[k] * (sqrt(sum((x[a[k], j] - x[b[k], j])**2 for j in range(3))) - rest[k])**2
               for k in range(len(a)))
"""


def net(rng: np.random.Generator, n: int, edges: int) -> Arguments:
    a = rng.integers(0, n, edges)
    b = (a + rng.integers(1, n, edges)) % n
    return rng.standard_normal((n, 3)), rng.uniform(0.5, 2, edges), rng.uniform(0.5, 1, edges), a, b


def springs(xp: Any, x: Any, stiff: Any, rest: Any, a: Any, b: Any) -> Any:
    long = xp.sqrt(xp.sum((x[a] - x[b]) ** 2, 1))
    return xp.sum(0.5 * stiff * (long - rest) ** 2)


WORKLOADS = (
    daily("bodies", "30 steps of 20 bodies that attract each other, by places, speeds and masses.",
          ((20, 30), (3, 4)), cloud, BODIES, bodies, (0, 1, 2)),
    daily("robot-arm", "An arm of 7 joints in a plane: products of 3 × 3 matrices, by angles and lengths.",
          ((7,), (3,)), joints, ARM, arm, (0, 1)),
    daily("determinants", "The elastic energy of 10,000 cells, by their 3 × 3 matrices.",
          ((10_000,), (4,)), gradients_of_motion, DETERMINANTS, determinants, (0, 1)),
    daily("heat", "Heat in a rod of 100 points after 200 steps, by its start and its conductivity.",
          ((100, 200), (6, 3)), rod, HEAT, heat, (0, 1)),
    daily("springs", "The energy of 5,000 springs between 1,000 points in space.",
          ((1000, 5000), (5, 9)), net, SPRINGS, springs, (0, 1, 2)),
)  # fmt: skip
