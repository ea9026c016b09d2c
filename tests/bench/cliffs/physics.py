"""Physics: fields on grids, particles, elasticity and lattices, mostly written element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.cliffs.program import Program
from bench.workload import Arguments

# -- the wave equation on a square ---------------------------------------------------------------------

WAVE = """
def wave(u0: f64[n, n], c: f64[n, n], seen: f64[steps, n], dt):
    before = u0.copy()
    now = u0.copy()
    total = 0.0
    for t in range(steps):
        new = zeros((n, n))
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                lap = now[i + 1, j] + now[i - 1, j] + now[i, j + 1] + now[i, j - 1] - 4 * now[i, j]
                new[i, j] = 2 * now[i, j] - before[i, j] + dt**2 * c[i, j]**2 * lap
        before = now
        now = new
        for j in range(n):
            total += (now[1, j] - seen[t, j])**2
    return total
"""


def membrane(rng: np.random.Generator, n: int, steps: int) -> Arguments:
    return rng.standard_normal((n, n)), rng.uniform(0.5, 1.0, (n, n)), rng.standard_normal((steps, n)), 0.3


def laplacian(now: Any) -> Any:
    return now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2] - 4 * now[1:-1, 1:-1]


def wave(xp: Any, u0: Any, c: Any, seen: Any, dt: Any) -> Any:
    def step(state: Any, inputs: Any) -> Any:
        before, now, total = state
        inner = 2 * now - before
        inner = inner[1:-1, 1:-1] + dt**2 * c[1:-1, 1:-1] ** 2 * laplacian(now)
        new = xp.pad(inner, 1)
        return (now, new, total + xp.sum((new[1] - inputs[0]) ** 2)), None

    return xp.steps(step, (u0, u0, xp.sum(0 * seen)), (seen,), len(seen))[0][2]


# -- diffusion and reaction, by slices -----------------------------------------------------------------

GRAY_SCOTT = """
def gray_scott(u: f64[n, m], v: f64[n, m], goal: f64[n, m], feed, kill, steps: i64):
    for _ in range(steps):
        lu = roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u
        lv = roll(v, 1, 0) + roll(v, -1, 0) + roll(v, 1, 1) + roll(v, -1, 1) - 4 * v
        r = u * v * v
        u = u + 0.16 * lu - r + feed * (1 - u)
        v = v + 0.08 * lv + r - (feed + kill) * v
    return sum((v - goal)**2)
"""


def dish(rng: np.random.Generator, n: int, m: int, steps: int) -> Arguments:
    u, v, goal = rng.uniform(0.2, 0.8, (3, n, m))
    return u, v, goal, 0.035, 0.065, steps


def gray_scott(xp: Any, u: Any, v: Any, goal: Any, feed: Any, kill: Any, steps: int) -> Any:
    def around(a: Any) -> Any:
        return xp.roll(a, 1, 0) + xp.roll(a, -1, 0) + xp.roll(a, 1, 1) + xp.roll(a, -1, 1) - 4 * a

    def step(state: Any, _: Any) -> Any:
        u, v = state
        r = u * v * v
        return (u + 0.16 * around(u) - r + feed * (1 - u), v + 0.08 * around(v) + r - (feed + kill) * v), None

    return xp.sum((xp.steps(step, (u, v), None, steps)[0][1] - goal) ** 2)


# -- neo-Hookean tetrahedra ----------------------------------------------------------------------------

NEO_HOOKEAN = """
def neo_hookean(x: f64[n, 3], cell: i64[e, 4], rest: f64[e, 3, 3], volume: f64[e], mu, lam):
    energy = 0.0
    for c in range(e):
        D = zeros((3, 3))
        for a in range(3):
            for b in range(3):
                D[a, b] = x[cell[c, b + 1], a] - x[cell[c, 0], a]
        F = D @ rest[c]
        J = (F[0, 0] * (F[1, 1] * F[2, 2] - F[1, 2] * F[2, 1])
             - F[0, 1] * (F[1, 0] * F[2, 2] - F[1, 2] * F[2, 0])
             + F[0, 2] * (F[1, 0] * F[2, 1] - F[1, 1] * F[2, 0]))
        I1 = sum(F**2)
        energy += volume[c] * (0.5 * mu * (I1 - 3) - mu * log(J) + 0.5 * lam * log(J)**2)
    return energy
"""


def solid(rng: np.random.Generator, n: int, e: int) -> Arguments:
    cell = np.stack([rng.choice(n, 4, replace=False) for _ in range(e)])
    x = rng.standard_normal((n, 3))
    D = np.swapaxes(x[cell[:, 1:]] - x[cell[:, :1]], 1, 2)
    rest = np.linalg.inv(D) @ (np.eye(3) + 0.1 * rng.standard_normal((e, 3, 3)))
    return x, cell, rest, rng.uniform(0.1, 1, e), 1.0, 2.0


def neo_hookean(xp: Any, x: Any, cell: Any, rest: Any, volume: Any, mu: Any, lam: Any) -> Any:
    F = xp.einsum("cba,cbd->cad", x[cell[:, 1:]] - x[cell[:, :1]], rest)
    log_J = xp.log(xp.det(F))
    return xp.sum(volume * (0.5 * mu * (xp.sum(F**2, (1, 2)) - 3) - mu * log_J + 0.5 * lam * log_J**2))


# -- cloth: springs between neighbours of a grid, over time --------------------------------------------

CLOTH = """
def cloth(x: f64[n, m, 3], v: f64[n, m, 3], k, goal: f64[n, m, 3], steps: i64):
    for _ in range(steps):
        force = zeros((n, m, 3))
        for i in range(n):
            for j in range(m):
                if i + 1 < n:
                    d = x[i + 1, j] - x[i, j]
                    r = sqrt(sum(d**2))
                    f = k * (r - 1) * d / r
                    force[i, j] += f
                    force[i + 1, j] -= f
                if j + 1 < m:
                    d = x[i, j + 1] - x[i, j]
                    r = sqrt(sum(d**2))
                    f = k * (r - 1) * d / r
                    force[i, j] += f
                    force[i, j + 1] -= f
        force[:, :, 2] -= 0.1
        force[0] = 0.0
        v = 0.99 * v + 0.01 * force
        x = x + 0.01 * v
    return sum((x - goal)**2)
"""


def sheet(rng: np.random.Generator, n: int, m: int, steps: int) -> Arguments:
    grid = np.stack(np.meshgrid(np.arange(n), np.arange(m), [0.0], indexing="ij"), -1)[:, :, 0]
    x = grid + 0.2 * rng.standard_normal((n, m, 3))
    return x, 0.1 * rng.standard_normal((n, m, 3)), 10.0, grid.astype(float), steps


def cloth(xp: Any, x: Any, v: Any, k: Any, goal: Any, steps: int) -> Any:
    def pulls(d: Any) -> Any:
        r = xp.sqrt(xp.sum(d**2, -1, keepdims=True))
        return k * (r - 1) * d / r

    def step(state: Any, _: Any) -> Any:
        x, v = state
        down, right = pulls(x[1:] - x[:-1]), pulls(x[:, 1:] - x[:, :-1])
        none, edge = xp.zeros((1, *x.shape[1:])), xp.zeros((len(x), 1, 3))
        force = xp.concatenate([down, none], 0) - xp.concatenate([none, down], 0)
        force = force + xp.concatenate([right, edge], 1) - xp.concatenate([edge, right], 1)
        force = force - 0.1 * np.array([0.0, 0.0, 1.0])
        force = xp.concatenate([none, force[1:]], 0)
        v = 0.99 * v + 0.01 * force
        return (x + 0.01 * v, v), None

    return xp.sum((xp.steps(step, (x, v), None, steps)[0][0] - goal) ** 2)


# -- bodies in orbit, by leapfrog, pair by pair --------------------------------------------------------

ORBITS = """
def orbits(x: f64[n, 3], v: f64[n, 3], mass: f64[n], dt, steps: i64):
    for _ in range(steps):
        a = zeros((n, 3))
        for i in range(n):
            for j in range(n):
                if i != j:
                    d = x[j] - x[i]
                    r2 = d[0]**2 + d[1]**2 + d[2]**2 + 0.01
                    a[i] += mass[j] * d / (r2 * sqrt(r2))
        v = v + dt * a
        x = x + dt * v
    energy = 0.0
    for i in range(n):
        energy += 0.5 * mass[i] * sum(v[i]**2)
        for j in range(i):
            energy -= mass[i] * mass[j] / sqrt(sum((x[i] - x[j])**2) + 0.01)
    return energy
"""


def planets(rng: np.random.Generator, n: int, steps: int) -> Arguments:
    x, v = rng.standard_normal((2, n, 3))
    return x, v, rng.uniform(0.5, 1.5, n), 0.01, steps


def orbits(xp: Any, x: Any, v: Any, mass: Any, dt: Any, steps: int) -> Any:
    def step(state: Any, _: Any) -> Any:
        x, v = state
        d = x[None] - x[:, None]
        r2 = xp.sum(d**2, 2) + 0.01
        v = v + dt * xp.sum((mass / (r2 * xp.sqrt(r2)))[..., None] * d, 1)
        return (x + dt * v, v), None

    x, v = xp.steps(step, (x, v), None, steps)[0]
    r = xp.sqrt(xp.sum((x[None] - x[:, None]) ** 2, 2) + 0.01)
    pairs = mass[:, None] * mass / r * np.tril(np.ones((len(mass), len(mass))), -1)
    return 0.5 * xp.sum(mass[:, None] * v**2) - xp.sum(pairs)


# -- a molecule: bonds, angles, pairs ------------------------------------------------------------------

MOLECULE = """
def molecule(x: f64[n, 3], bond: i64[b, 2], length: f64[b], angle: i64[a, 3], bend: f64[a], charge: f64[n]):
    energy = 0.0
    for k in range(b):
        r = norm(x[bond[k, 0]] - x[bond[k, 1]])
        energy += 100 * (r - length[k])**2
    for k in range(a):
        u = x[angle[k, 0]] - x[angle[k, 1]]
        w = x[angle[k, 2]] - x[angle[k, 1]]
        c = dot(u, w) / (norm(u) * norm(w))
        energy += 10 * (arccos(clip(c, -0.999, 0.999)) - bend[k])**2
    for i in range(n):
        for j in range(i):
            r2 = sum((x[i] - x[j])**2)
            s = 1 / r2**3
            energy += 4 * 0.01 * (s * s - s) + charge[i] * charge[j] / sqrt(r2)
    return energy
"""


def protein(rng: np.random.Generator, n: int) -> Arguments:
    x = np.cumsum(rng.uniform(0.6, 1.2, (n, 3)) * rng.choice([-1, 1], (n, 3), p=[0.3, 0.7]), 0)
    at = np.arange(n)
    bond, angle = np.stack([at[:-1], at[1:]], 1), np.stack([at[:-2], at[1:-1], at[2:]], 1)
    return x, bond, np.full(n - 1, 1.5), angle, np.full(n - 2, 1.9), 0.1 * rng.standard_normal(n)


def molecule(xp: Any, x: Any, bond: Any, length: Any, angle: Any, bend: Any, charge: Any) -> Any:
    def long(v: Any) -> Any:
        return xp.sqrt(xp.sum(v**2, -1))

    stretch = 100 * xp.sum((long(x[bond[:, 0]] - x[bond[:, 1]]) - length) ** 2)
    u, w = x[angle[:, 0]] - x[angle[:, 1]], x[angle[:, 2]] - x[angle[:, 1]]
    c = xp.clip(xp.sum(u * w, 1) / (long(u) * long(w)), -0.999, 0.999)
    bends = 10 * xp.sum((xp.arccos(c) - bend) ** 2)
    i, j = np.tril_indices(len(charge), -1)
    r2 = xp.sum((x[i] - x[j]) ** 2, 1)
    s = 1 / r2**3
    return stretch + bends + xp.sum(0.04 * (s * s - s) + charge[i] * charge[j] / xp.sqrt(r2))


# -- a lattice of soft spins ---------------------------------------------------------------------------

SPINS = """
def spins(s: f64[n, n], h: f64[n, n], J, beta):
    energy = 0.0
    for i in range(n):
        for j in range(n):
            near = s[(i + 1) % n, j] + s[i, (j + 1) % n]
            energy -= J * s[i, j] * near + h[i, j] * s[i, j]
            energy += 0.25 * (s[i, j]**2 - 1)**2
    return beta * energy
"""


def lattice(rng: np.random.Generator, n: int) -> Arguments:
    return rng.standard_normal((n, n)), 0.1 * rng.standard_normal((n, n)), 0.7, 0.5


def spins(xp: Any, s: Any, h: Any, J: Any, beta: Any) -> Any:
    near = xp.roll(s, -1, 0) + xp.roll(s, -1, 1)
    return beta * xp.sum(0.25 * (s**2 - 1) ** 2 - J * s * near - h * s)


# -- the Poisson problem by sweeps over a grid ---------------------------------------------------------

RELAXATION = """
def relaxation(f: f64[n, n], goal: f64[n, n], sweeps: i64):
    u = zeros((n, n))
    for _ in range(sweeps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
    return sum((u - goal)**2)
"""


def sources(rng: np.random.Generator, n: int, sweeps: int) -> Arguments:
    f, goal = rng.standard_normal((2, n, n))
    return f, goal, sweeps


# -- a stiff chemical reaction by implicit steps -------------------------------------------------------

REACTION = """
def reaction(y: f64[3], k: f64[3], seen: f64[t, 3], dt):
    total = 0.0
    for s in range(t):
        z = y.copy()
        for _ in range(4):
            r0 = k[0] * z[0]
            r1 = k[1] * z[1] * z[2]
            r2 = k[2] * z[1]**2
            g = zeros(3)
            g[0] = z[0] - y[0] - dt * (r1 - r0)
            g[1] = z[1] - y[1] - dt * (r0 - r1 - r2)
            g[2] = z[2] - y[2] - dt * r2
            A = eye(3)
            A[0, 0] += dt * k[0]
            A[0, 1] -= dt * k[1] * z[2]
            A[0, 2] -= dt * k[1] * z[1]
            A[1, 0] -= dt * k[0]
            A[1, 1] += dt * (k[1] * z[2] + 2 * k[2] * z[1])
            A[1, 2] += dt * k[1] * z[1]
            A[2, 1] -= dt * 2 * k[2] * z[1]
            z = z - solve(A, g)
        y = z
        total += sum((y - seen[s])**2)
    return total
"""


def chemistry(rng: np.random.Generator, t: int) -> Arguments:
    return np.array([1.0, 0.2, 0.1]), np.array([0.4, 2.0, 1.5]), rng.uniform(0, 1, (t, 3)), 0.1


def reaction(xp: Any, y: Any, k: Any, seen: Any, dt: Any) -> Any:
    def newton(y: Any, z: Any) -> Any:
        r0, r1, r2 = k[0] * z[0], k[1] * z[1] * z[2], k[2] * z[1] ** 2
        g = z - y - dt * xp.stack([r1 - r0, r0 - r1 - r2, r2])
        J = xp.array([
            [-k[0], k[1] * z[2], k[1] * z[1]],
            [k[0], -k[1] * z[2] - 2 * k[2] * z[1], -k[1] * z[1]],
            [0.0 * z[0], 2 * k[2] * z[1], 0.0 * z[0]],
        ])  # fmt: skip
        return z - xp.solve(np.eye(3) - dt * J, g)

    def step(state: Any, inputs: Any) -> Any:
        y, total = state
        z = y
        for _ in range(4):
            z = newton(y, z)
        return (z, total + xp.sum((z - inputs[0]) ** 2)), None

    return xp.steps(step, (y, xp.sum(0 * y)), (seen,), len(seen))[0][1]


# -- accelerations of bodies, by loops -----------------------------------------------------------------

FORCES = """
def forces(x: f64[n, d], m: f64[n], seen: f64[n, d]):
    out = zeros((n, d))
    for i in range(n):
        for j in range(n):
            if i != j:
                r2 = 0.01
                for k in range(d):
                    r2 += (x[i, k] - x[j, k])**2
                w = m[j] * r2**-1.5
                for k in range(d):
                    out[i, k] += w * (x[j, k] - x[i, k])
    return sum((out - seen)**2)
"""


def bodies(rng: np.random.Generator, n: int) -> Arguments:
    return rng.standard_normal((n, 3)), rng.uniform(0.5, 1.5, n), rng.standard_normal((n, 3))


def forces(xp: Any, x: Any, m: Any, seen: Any) -> Any:
    d = x[None, :, :] - x[:, None, :]
    w = m * (xp.sum(d**2, 2) + 0.01) ** -1.5
    return xp.sum((xp.sum(w[:, :, None] * d, 1) - seen) ** 2)


PROGRAMS = (
    Program("wave", WAVE, (64, 50), (5, 3), membrane, (0, 1), wave),
    Program("gray-scott", GRAY_SCOTT, (64, 64, 50), (3, 4, 2), dish, (0, 1, 3, 4), gray_scott),
    Program("neo-hookean", NEO_HOOKEAN, (2000, 5000), (6, 3), solid, (0, 4, 5), neo_hookean),
    Program("cloth", CLOTH, (20, 20, 30), (3, 2, 2), sheet, (0, 1, 2), cloth),
    Program("orbits", ORBITS, (16, 50), (3, 2), planets, (0, 1, 2), orbits),
    Program("molecule", MOLECULE, (150,), (5,), protein, (0, 2, 4, 5), molecule),
    Program("spins", SPINS, (300,), (4,), lattice, (0, 1, 2), spins),
    Program("forces-loops", FORCES, (200,), (3,), bodies, (0, 1), forces),
    Program("relaxation", RELAXATION, (40, 20), (4, 2), sources, (0,)),
    Program("reaction", REACTION, (200,), (2,), chemistry, (0, 1), reaction),
)  # fmt: skip
