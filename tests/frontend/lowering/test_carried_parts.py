"""Loops that carry parts of arrays, whose lengths are computed from others."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

PARTS = {
    "first half": ("x[:len(x) // 2]", "a * w[k]"),
    "second half": ("x[len(x) // 2:]", "a * w[k] + x[len(x) // 2:]"),
    "every third": ("x[::3]", "sin(a) + w[k]"),
    "without ends": ("x[1:-1]", "a * w[k] + x[2:]"),
    "repeated": ("tile(x, 2)", "a * w[k] + a[0]"),
    "two halves": ("(x[:len(x) // 2], x[len(x) // 2:])", "(a[1], a[1] * a[0] + w[k])"),
}


@pytest.mark.parametrize(("start", "step"), PARTS.values(), ids=PARTS)
def test_a_loop_carries_a_part(start: str, step: str) -> None:
    text = f"""
def f(x: f64[n], w: f64[m]):
    a = {start}
    for k in range(len(w)):
        a = {step}
    return {"sum(a[0] * a[1])" if "a[1]" in step else "sum(a**2)"}
"""
    ours, reference = (adc.value_and_grad(adc.compile(text, backend=b)) for b in ("cpu", "numpy"))
    for n, m in ((6, 3), (6, 0), (4, 1)):
        x, w = np.linspace(0.2, 1.1, n), np.linspace(0.5, 0.9, m)
        found, expected = ours(x, w), reference(x, w)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
        for a, b in zip(found[1], expected[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)


def test_halves_take_turns() -> None:
    """A coupling layer changes one half by the other, then they change places."""
    f = adc.compile("""
def f(x: f64[n, d], s: f64[m]):
    a, b = x[:, :d // 2], x[:, d // 2:]
    for k in range(m):
        b = b * exp(s[k] * a) + a
        a, b = b, a
    return sum(a**2) + 2 * sum(b)
""")
    x, s = np.linspace(0.1, 0.9, 12).reshape(3, 4), np.array([0.3, -0.2, 0.5])
    a, b = x[:, :2], x[:, 2:]
    for v in s:
        a, b = b * np.exp(v * a) + a, a
    np.testing.assert_allclose(f(x, s), np.sum(a**2) + 2 * np.sum(b), rtol=1e-13)
    assert adc.check_grad(f, x, s, order=2) < 1e-6
