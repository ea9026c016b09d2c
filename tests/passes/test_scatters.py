"""Gradients that add to several computed places at each point of a loop, as those of meshes and graphs."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

SPRINGS = """
def energy(x, i, j, k):
    d = x[i] - x[j]
    r = sqrt(0.3 + sum(d * d, axis=1))
    return 0.5 * sum(k * (r - 1.0)**2)
"""
TRIANGLES = """
def area(x: f64[n, 3], t: i64[m, 3], k: f64[m]):
    a = x[t[:, 1]] - x[t[:, 0]]
    b = x[t[:, 2]] - x[t[:, 0]]
    return sum(k * sqrt(0.2 + sum(cross(a, b)**2, axis=1)))
"""
BY_LOOPS = """
def forces(x: f64[n, 2], i: i64[m], j: i64[m], k: f64[m]):
    f = zeros((n, 2))
    for e in range(m):
        d0 = x[i[e], 0] - x[j[e], 0]
        d1 = x[i[e], 1] - x[j[e], 1]
        s = k[e] * exp(-d0 * d0 - d1 * d1)
        f[i[e], 0] += s * d0
        f[i[e], 1] += s * d1
        f[j[e], 0] -= s * d0
        f[j[e], 1] -= s * d1
    return sum(f * f * x)
"""
SOME = """
def chosen(x, i, j, k):
    return sum(k[e] * (x[i[e], 0] - x[j[e], 1])**2 / (1 + x[j[e], 0]**2) for e in range(len(k)) if k[e] > 0)
"""


def arguments(source: str, edges: int, dtype: str) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(edges)
    n = 7
    x = random.normal(size=(n, 3 if source is not BY_LOOPS else 2)).astype(dtype)
    places = random.integers(-n, n, (edges, 3))
    ends = (places,) if source is TRIANGLES else (places[:, 0].copy(), places[:, 1].copy())
    return x, *ends, random.normal(size=edges).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("source", [SPRINGS, TRIANGLES, BY_LOOPS, SOME], ids=lambda s: s.split("(")[0][5:])
def test_scatters_agree_with_numpy(source: str, dtype: str) -> None:
    text = source.replace("f64", "f32") if dtype == "float32" else source
    ours, plain = (adc.compile(text, backend=backend) for backend in ("cpu", "numpy"))
    for edges in (0, 1, 40):
        args = arguments(source, edges, dtype)
        direction = np.ones_like(args[0])
        made = [
            (*adc.value_and_grad(f, ("x", "k"))(*args), adc.hvp(f, "x")(args, direction))
            for f in (ours, plain)
        ]
        for found, expected in zip(*map(flat, made), strict=True):
            scale = 1 + np.max(np.abs(expected), initial=0)
            np.testing.assert_allclose(found, expected, atol=(1e-12 if dtype == "float64" else 2e-5) * scale)


def flat(values: object) -> list[np.ndarray]:
    return [v for x in values for v in flat(x)] if isinstance(values, tuple) else [np.asarray(values)]


@pytest.mark.parametrize("place", [7, -8])
def test_an_edge_to_nowhere_is_an_error(place: int) -> None:
    x, i, j, k = arguments(SPRINGS, 40, "float64")
    j[11] = place
    with pytest.raises(adc.Error, match="out of range"):
        adc.value_and_grad(adc.compile(SPRINGS), "x")(x, i, j, k)


def test_both_ends_of_edges_are_one_loop() -> None:
    args = arguments(SPRINGS, 40, "float64")
    text = adc.grad(adc.compile(SPRINGS.replace("x, i", "x: f64[n, 3], i")), "x").show("kernel", *args)
    assert text.count("+=") == 1


def test_reciprocal_roots_beside_a_scatter_have_the_bits_of_vectors() -> None:
    source = "\n".join((
        "def f(x, i):",
        "    y = zeros(len(x))",
        "    for e in range(len(i)): y[i[e]] += 1 / sqrt(x[i[e]])",
        "    return y",
    ))  # fmt: skip
    x = np.random.default_rng(3).uniform(0.1, 9, 1000)
    found = adc.compile(source)(x, np.arange(1000))
    np.testing.assert_array_equal(found, adc.compile("1 / sqrt(x)")(x))
