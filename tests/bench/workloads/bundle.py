"""GradBench's ba: the blocks of the sparse Jacobian of bundle adjustment."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench import spaces
from bench.frameworks import jax_call, synchronised, tensors
from bench.ours import compiled, gradbench
from bench.workload import Arguments, Build, Run, Workload, by_hand


def scene(rng: np.random.Generator, n: int, m: int, p: int) -> Arguments:
    """n cameras, m points before them, p observations of a point by a camera."""
    cameras = 0.1 * rng.standard_normal((n, 11))
    cameras[:, 5] -= 5.0
    cameras[:, 6] += 1.0
    seen = np.stack([np.arange(p) % n, np.arange(p) % m], axis=1)
    points = rng.standard_normal((m, 3))
    return cameras, points, rng.uniform(0.5, 1.5, p), rng.standard_normal((p, 2)), seen


def our_blocks(args: Arguments, device: str) -> Run:
    import adcompiler as adc

    cameras, points, weights, features, seen = args
    by = adc.jacobian(compiled(gradbench("ba"), "reprojection", args, device), ("camera", "point", "weight"))
    blocks = adc.vmap(by)
    slopes = adc.vmap(adc.grad(compiled(gradbench("ba"), "regularisation", args, device)))
    camera, point = seen.T

    def run() -> Any:
        by_camera, by_point = cameras.take(camera, axis=0), points.take(point, axis=0)
        return *blocks(by_camera, by_point, weights, features), slopes(weights)

    return run


def reprojection(xp: Any, camera: Any, point: Any, weight: Any, feature: Any) -> Any:
    """Of one observation; the rotation is never zero here."""
    r, x = camera[:3], point - camera[3:6]
    angle = xp.sqrt(xp.sum(r * r))
    a = r / angle
    cross = xp.stack([a[1] * x[2] - a[2] * x[1], a[2] * x[0] - a[0] * x[2], a[0] * x[1] - a[1] * x[0]])
    v = xp.cos(angle) * x + xp.sin(angle) * cross + (1 - xp.cos(angle)) * xp.sum(a * x) * a
    u = v[:2] / v[2]
    s = xp.sum(u * u)
    return weight * (camera[6] * (1 + camera[9] * s + camera[10] * s**2) * u + camera[7:9] - feature)


def jax_blocks(xp: Any) -> Any:
    import jax

    by = jax.vmap(jax.jacrev(partial(reprojection, xp), argnums=(0, 1, 2)))

    def blocks(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
        return *by(cameras[seen[:, 0]], points[seen[:, 1]], weights, features), -2 * weights

    return blocks


def torch_blocks(compile_: bool) -> Build:
    def build(args: Arguments, device: str) -> Run:
        import torch

        cameras, points, weights, features, seen = tensors(args, device)
        f = partial(reprojection, spaces.torch_space())
        by = torch.func.vmap(torch.func.jacrev(f, argnums=(0, 1, 2)))
        by = torch.compile(by) if compile_ else by

        def run() -> Any:
            found = by(cameras[seen[:, 0]], points[seen[:, 1]], weights, features)
            return *found, -2 * weights

        return synchronised(run, device)

    return build


def casadi_blocks(args: Arguments, device: str) -> Run:
    """One observation's block as scalar expressions, mapped over all of them."""
    import casadi

    cameras, points, weights, features, seen = args
    symbols = [casadi.SX.sym(name, size) for name, size in (("c", 11), ("p", 3), ("w", 1), ("f", 2))]
    given = [casadi.DM(a.T) for a in (cameras[seen[:, 0]], points[seen[:, 1]], weights[:, None], features)]
    space = spaces.casadi_space()
    space.stack = lambda parts: casadi.vertcat(*parts)
    error = reprojection(space, *symbols)
    rows = [casadi.jacobian(error, symbol).T for symbol in symbols[:3]]  # columns are stored one by one
    by = casadi.Function("by", symbols, [casadi.vec(row) for row in rows]).map(len(weights))

    def run() -> Any:
        camera, point, weight = (np.asarray(block.full()).T for block in by(*given))
        return camera, point, weight, -2 * weights

    return run


BUNDLE = Workload(
    name="ba",
    about="GradBench's ba, 21 cameras, 11315 points, 36455 observations: the blocks of the Jacobian.",
    sizes={"full": (21, 11315, 36455), "quick": (5, 500, 2000), "tiny": (3, 7, 40)},
    inputs=scene,
    ours=our_blocks,
    peers={
        "numba": by_hand("bundle", "jacobian"),
        "torch": torch_blocks(False),
        "torch.compile": torch_blocks(True),
        "jax": jax_call(jax_blocks),
        "casadi": casadi_blocks,
    },
    absent={"autograd": "no batches of Jacobians"},
)

WORKLOADS = (BUNDLE,)
