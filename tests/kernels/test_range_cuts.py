"""Loops are cut where conditions matter only near their ends: the inside has no condition."""

from __future__ import annotations

import re

import numpy as np
import pytest
from judges.compared import near

import adcompiler as adc

RNG = np.random.default_rng(3)
LENGTHS = ((7, 9), (2, 3), (3, 2), (2, 2), (5, 21), (0, 4), (1, 5))


def slices(u, k):
    for _ in range(2):
        new = u.copy()
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + k * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] * u[1:-1, :-2])
        u = new
    return np.sum(u**2)


def shifts(u, k):
    for _ in range(2):
        u = u + k * np.sin(np.roll(u, 1, 0) - 2 * np.roll(u, -1, 1) + np.roll(u, -3, 0) * np.roll(u, 2, 1))
    return np.sum(u**2)


def padded(u, k):
    for _ in range(2):
        p = np.pad(u, 1)
        u = u + k * np.sin(p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] - p[1:-1, :-2])
    return np.sum(u**2)


def joined(u, k):
    left = np.concatenate((u[:1], u[:-1]))
    right = np.concatenate((u[1:], u[-1:]))
    return np.sum(np.exp(k * (left - 2 * u + right)) * u)


def differences(u, k):
    gx, gy = np.diff(u, axis=0), np.diff(u, axis=1)
    fx, fy = gx / np.sqrt(1 + gx**2), gy / np.sqrt(1 + gy**2)
    total = np.pad(fx, ((0, 1), (0, 0))) - np.pad(fx, ((1, 0), (0, 0)))
    return np.sum(np.cos(u + k * (total + np.pad(fy, ((0, 0), (0, 1))) - np.pad(fy, ((0, 0), (1, 0))))))


PROGRAMS = (slices, shifts, padded, joined, differences)
TEXTS = {
    "edge": """
def f(u, k):
    p = pad(u, ((1, 1), (0, 2)), mode="edge")
    return sum((k * sin(p[2:, 1:-1] * p[:-2, 2:]))**2)
""",
    "first and last": """
def f(x, k):
    n = len(x)
    y = [x[i] * k if i == 0 else x[i - 1] if i < n - 1 else x[i - 1] * x[i] for i in range(n)]
    return sum(sin(y))
""",
    "any place": """
def f(x, k):
    n = len(x)
    return sum([x[i - 1] * k if i >= 1 and i < n // 2 else sin(x[i]) for i in range(n)])
""",
}


def gradient_of(f, u, k):
    """The derivatives of a function of an array and a number by complex steps."""
    found = np.zeros(u.shape)
    for place in np.ndindex(*u.shape):
        v = u.astype(complex)
        v[place] += 1e-30j
        found[place] = np.imag(f(v, k)) / 1e-30
    return found, np.imag(f(u.astype(complex), k + 1e-30j)) / 1e-30


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients_are_numpys_for_all_lengths(program):
    f = adc.compile(program)
    both = adc.value_and_grad(f, wrt=(0, 1))
    ones = program is joined  # an axis of length 1 makes another program
    for shape in LENGTHS if ones else LENGTHS[: -2 if program is differences else -1]:
        u, k = RNG.normal(size=shape), 0.3
        value, (du, dk) = both(u, k)
        near(value, program(u, k), 1e-12)
        near(f(u, k), program(u, k), 1e-12)
        wanted = gradient_of(program, u, k)
        near(du, wanted[0], 1e-11)
        near(dk, wanted[1], 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_second_derivatives(program):
    f = adc.compile(program)
    adc.check_grad(f, RNG.normal(size=(4, 5)), 0.3, order=2)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_conditions_on_places(text):
    f = adc.compile(text)
    for n in (2, 3, 12):
        u = RNG.normal(size=(n, n + 1) if "(u" in text else n)
        adc.check_grad(f, u, 0.4, order=2)
        near(f(u.astype(np.float32), np.float32(0.4)), f(u, 0.4), 1e-5)


def test_the_inside_has_no_conditions():
    """The innermost loop over most points has neither a select nor a guarded read."""
    f = adc.compile(padded)
    for kernel in (f, adc.grad(f, (0, 1))):
        kernel(RNG.normal(size=(6, 6)), 0.3)
        text = kernel.show("loopir")
        inside = re.findall(r"\n( +)for i\d+ in range\(uint64\(min\(1, .\)\).*\n((?:\1 +.*\n)+)", text)
        inside = [body for _, body in inside if " for " not in body]
        assert inside
        assert not any("select" in body or " if " in body for body in inside)


CLOSEST = """
def closest(points: f64[m, 2], polygon: f64[n, 2]):
    total = 0.0
    for k in range(m):
        best = 1e30
        for i in range(n):
            j = i - 1 if i > 0 else n - 1
            ex = polygon[j, 0] - polygon[i, 0]
            ey = polygon[j, 1] - polygon[i, 1]
            wx = points[k, 0] - polygon[i, 0]
            wy = points[k, 1] - polygon[i, 1]
            t = min(max((wx * ex + wy * ey) / (ex * ex + ey * ey), 0.0), 1.0)
            best = min(best, (wx - t * ex)**2 + (wy - t * ey)**2)
        total += best
    return total
"""


def test_values_that_are_compared_have_the_same_bits_inside_and_near_the_ends():
    """The smallest distance is found again by comparing, in a loop that is not cut in the same way."""
    angle = np.sort(RNG.uniform(0, 2 * np.pi, 9))
    polygon = np.stack([np.cos(angle), np.sin(angle)], 1)
    points = RNG.uniform(-1.5, 1.5, (60, 2))
    gradient = adc.grad(adc.compile(CLOSEST), "points")
    found, source = gradient(points, polygon), gradient.show("kernel")
    assert (np.abs(found).sum(1) > 0).all()
    assert not re.search(r"[^_]\b(v\d+) \* \1\b", source.split("jit =")[1])  # each square is rounded
