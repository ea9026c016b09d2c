"""GradBench's ba: the Jacobian of the errors of bundle adjustment, observation by observation.

A camera is a rotation r, centre C, focal length f, principal point, distortions k₁ and k₂. With X = P − C,
the turned point is v = A X + B (r × X) + D (r·X) r, where θ = |r|, A = cos θ, B = sin θ / θ and
D = (1 − cos θ) / θ²; so

    ∂v/∂rᵢ = −B rᵢ X + (A − B) / θ² rᵢ (r × X) + B (eᵢ × X) + (B − 2 D) / θ² rᵢ (r·X) r + D (Xᵢ r + (r·X) eᵢ)

and ∂v/∂X is the rotation. Then u = v₁₂ / v₃, s = |u|², image = f (1 + k₁ s + k₂ s²) u + principal point.
Lanes of observations are computed on vectors and then written, since the blocks lie row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import prange

from bench.byhand.tools import blocks, driver, parallel, part, serial
from bench.vector_math import cos, sin

LANES = 128
ENTRIES = 30  # of an observation: 2 rows by 11, 3 and 1


@serial
def project(given, J, n):
    """`given` holds 11 parameters, 3 coordinates, a weight and 2 features in lanes; J gets the entries."""
    for i in range(n):
        r0, r1, r2 = given[0, i], given[1, i], given[2, i]
        x0, x1, x2 = given[11, i] - given[3, i], given[12, i] - given[4, i], given[13, i] - given[5, i]
        f, k1, k2, w = given[6, i], given[9, i], given[10, i], given[14, i]
        square = r0 * r0 + r1 * r1 + r2 * r2
        angle, inverse = math.sqrt(square), 1.0 / square
        A, B = cos(angle), sin(angle) / angle
        D = (1.0 - A) * inverse
        dot = r0 * x0 + r1 * x1 + r2 * x2
        c0, c1, c2 = r1 * x2 - r2 * x1, r2 * x0 - r0 * x2, r0 * x1 - r1 * x0
        v0, v1 = A * x0 + B * c0 + D * dot * r0, A * x1 + B * c1 + D * dot * r1
        v2 = A * x2 + B * c2 + D * dot * r2
        z = 1.0 / v2
        u0, u1 = v0 * z, v1 * z
        s = u0 * u0 + u1 * u1
        distortion, slope = 1.0 + k1 * s + k2 * s * s, 2.0 * (k1 + 2.0 * k2 * s)
        # the image by v, times the weight: rows (p0, p1, p2) and (q0, q1, q2)
        g = w * f
        a, b, c = g * (distortion + slope * u0 * u0), g * slope * u0 * u1, g * (distortion + slope * u1 * u1)
        p0, p1, p2 = a * z, b * z, -(a * u0 + b * u1) * z
        q0, q1, q2 = b * z, c * z, -(b * u0 + c * u1) * z
        # v by X: the rotation, row by row
        m00, m01, m02 = A + D * r0 * r0, D * r0 * r1 - B * r2, D * r0 * r2 + B * r1
        m10, m11, m12 = D * r0 * r1 + B * r2, A + D * r1 * r1, D * r1 * r2 - B * r0
        m20, m21, m22 = D * r0 * r2 - B * r1, D * r1 * r2 + B * r0, A + D * r2 * r2
        for row in range(2):
            h0, h1, h2 = (p0, p1, p2) if row == 0 else (q0, q1, q2)
            at = row * 15
            y0 = h0 * m00 + h1 * m10 + h2 * m20
            y1 = h0 * m01 + h1 * m11 + h2 * m21
            y2 = h0 * m02 + h1 * m12 + h2 * m22
            # h·∂v/∂rᵢ = rᵢ (…) + B h·(eᵢ × X) + D (Xᵢ h·r + (r·X) hᵢ)
            hr, hx, hc = h0 * r0 + h1 * r1 + h2 * r2, h0 * x0 + h1 * x1 + h2 * x2, h0 * c0 + h1 * c1 + h2 * c2
            along = -B * hx + ((A - B) * hc + (B - 2.0 * D) * dot * hr) * inverse
            J[at, i] = r0 * along + B * (h2 * x1 - h1 * x2) + D * (x0 * hr + dot * h0)
            J[at + 1, i] = r1 * along + B * (h0 * x2 - h2 * x0) + D * (x1 * hr + dot * h1)
            J[at + 2, i] = r2 * along + B * (h1 * x0 - h0 * x1) + D * (x2 * hr + dot * h2)
            J[at + 3, i], J[at + 4, i], J[at + 5, i] = -y0, -y1, -y2
            u = u0 if row == 0 else u1
            J[at + 6, i] = w * distortion * u
            J[at + 7, i] = w if row == 0 else 0.0
            J[at + 8, i] = 0.0 if row == 0 else w
            J[at + 9, i], J[at + 10, i] = g * s * u, g * s * s * u
            J[at + 11, i], J[at + 12, i], J[at + 13, i] = y0, y1, y2
            J[at + 14, i] = f * distortion * u + given[7 + row, i] - given[15 + row, i]


@driver
def tile(cameras, points, weights, features, seen, lo, n, given, J, out):
    """n observations from `lo` on: gathered, computed, and written row by row."""
    by_camera, by_point, by_weight, slopes = out
    for i in range(n):
        k = lo + i
        camera, point = np.uint64(seen[k, 0]), np.uint64(seen[k, 1])
        for a in range(np.uint64(11)):
            given[a, i] = cameras[camera, a]
        for a in range(np.uint64(3)):
            given[np.uint64(11) + a, i] = points[point, a]
        given[14, i], given[15, i], given[16, i] = weights[k], features[k, 0], features[k, 1]
    project(given, J, n)
    for i in range(n):
        k = lo + i
        for row in range(np.uint64(2)):
            at = row * np.uint64(15)
            for a in range(np.uint64(11)):
                by_camera[k, row, a] = J[at + a, i]
            for a in range(np.uint64(3)):
                by_point[k, row, a] = J[at + np.uint64(11) + a, i]
            by_weight[k, row] = J[at + np.uint64(14), i]
        slopes[k] = -2.0 * weights[k]


@driver
def some(cameras, points, weights, features, seen, lo, hi, out):
    given, J = np.empty((17, LANES)), np.empty((ENTRIES, LANES))
    for begin in range(lo, hi, LANES):
        n = np.uint64(min(LANES, hi - begin))
        tile(cameras, points, weights, features, seen, np.uint64(begin), n, given, J, out)


@parallel
def kernel(cameras, points, weights, features, seen, out, count):
    for k in prange(count):
        lo, hi = part(k, count, weights.size)
        some(cameras, points, weights, features, seen, np.int64(lo), np.int64(hi), out)


def jacobian(args: tuple[Any, ...]) -> Callable[[], Any]:
    p = len(args[2])
    out = np.zeros((p, 2, 11)), np.zeros((p, 2, 3)), np.zeros((p, 2)), np.zeros(p)

    def run() -> Any:
        kernel(*args, out, blocks(p, 1024))
        return out

    return run
