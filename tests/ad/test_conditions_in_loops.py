"""Loops whose reverse decides by saved values: conditions, extrema, kinks, floors and indices.

What a loop saves is zero where the reverse reads it in no branch that is taken. Each program saves a value of
which the derivative is asked in one branch alone, and which decides something elsewhere. Its loop is compared
with its iterations written out one by one, which save nothing, and with finite differences.
"""

import numpy as np
import pytest

import adcompiler as adc

COUNT = 5  # iterations: above the number that is unrolled

# Iterations of a number s.
SCALARS = {
    "a condition": """
t = tanh(s * 2.3)
r = t * t if s > 0 else 0.1 * s
if t > -0.5:
    s = 0.3 - r * 1.4
else:
    s = s * 0.7 + r
""",
    "where": """
t = exp(s * 1.3)
r = t * t if s > 0.2 else 0.1 * s
s = where(t > 0.9, 0.5 - r * 0.4, s * 0.7 + r + 0.2)
""",
    "a kink": """
t = tanh(s * 1.7)
s = 0.6 * s - maximum(t, -0.4) + where(s > 0, t * t, 0.1)
""",
    "an absolute value": """
t = sin(s * 2.0)
s = 0.5 * abs(t) - 0.3 * s + where(s > 0.1, exp(t), 0.2)
""",
    "a floor": """
t = exp(s)
s = where(s > 0, t * 0.3, 0.5) - s * floor(t * 3.0) * 0.1
""",
    "a condition on a branch": """
t = sqrt(s) if s > 0 else 0.5 - s
if t > 0.6:
    s = t * 0.7 - 1.0
else:
    s = sin(t) + 0.2
""",
    "conditions of conditions": """
t = log(s + 0.01) if s > 0 else s
u = exp(t) if t > -0.7 else 0.4 * t * t
s = 0.8 * u - 0.5 if u < 0.6 or t > 0.1 else u * t - 0.3
""",
    "a clip": """
t = cosh(s)
s = clip(t * s, -0.8, 0.9) - where(t > 1.2, 0.4 * t, s) * 0.7
""",
}

# Iterations of an array s.
ARRAYS = {
    "a maximum": """
t = tanh(s * 1.5)
s = where(s > 0, t * t, 0.1 * s) - 0.7 * max(t) * s + 0.05
""",
    "a minimum": """
t = exp(s) - 3.0
s = sin(where(s > 0, t, 0.3 * s) * 0.6 + 0.2 * min(t) * s + 0.4)
""",
    "an argmax": """
t = tanh(s) - 1.5
s = where(s > 0, t * 0.3, 0.2) + s[argmax(t)] * 0.5
""",
    "a running maximum": """
t = sin(s * 2.0) - 1.5
s = where(s > 0.1, t * t * 0.3, s) + 0.4 * cummax(t) + 0.3
""",
    "an index": """
t = exp(s)
s = where(s > 0, t * 0.2, 0.3 * s) - s[int(t[0] * 7.0) % 3] * 0.4
""",
    "a mask": """
t = tanh(s) - 0.1
s = where(s > 0, t * s, 0.2) - 0.3 * sum(s[t > -0.3])
""",
    "a sum in the other branch": """
t = sum(exp(s))
r = 0.6 if s[0] > 0 else 0.2 * t
s = s * r * r - 0.3
""",
    "a reduction of conditions": """
t = sin(s * 3.0)
s = where(s > 0, t * 0.5, s * 0.4) + where(any(t > 0.7), s * 0.2, -0.3)
""",
}


def indented(text: str) -> str:
    return text.strip("\n").replace("\n", "\n    ")


def looped(body: str) -> str:
    return (
        f"def f(s):\n    for _ in range({COUNT}):\n        {indented(indented(body))}\n    return sum(s * s)"
    )


def unrolled(body: str) -> str:
    return "def f(s):\n" + f"    {indented(body)}\n" * COUNT + "    return sum(s * s)"


POINTS = {
    **dict.fromkeys(SCALARS, (-0.9, -0.35, -0.02, 0.3, 0.77, 1.4)),
    **dict.fromkeys(
        ARRAYS,
        tuple(
            np.array(p) for p in ((-0.5, 0.4, 0.9), (-0.8, -0.3, -0.1), (0.2, 0.7, -0.6), (1.1, -0.05, 0.3))
        ),
    ),
}


@pytest.mark.thinned(16, backend="cpu")
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("name", [*SCALARS, *ARRAYS])
def test_a_reverse_decides_as_the_loop_did(name, backend):
    body = (SCALARS | ARRAYS)[name]
    f = adc.compile(looped(body), backend=backend)
    plain = adc.compile(unrolled(body), backend="numpy")
    for point in POINTS[name]:
        np.testing.assert_allclose(f(point), plain(point), rtol=1e-12)
        expected = adc.grad(plain)(point)
        np.testing.assert_allclose(adc.grad(f)(point), expected, rtol=1e-9, atol=1e-12)
        step = 1e-7 * np.cos(np.arange(np.size(point))).reshape(np.shape(point))
        slope = (f(point + step) - f(point - step)) / 2
        np.testing.assert_allclose(np.sum(expected * step), slope, rtol=1e-4, atol=1e-11)
        second = adc.hvp(plain)((point,), np.ones_like(point))
        np.testing.assert_allclose(adc.hvp(f)((point,), np.ones_like(point)), second, rtol=1e-8, atol=1e-10)


@pytest.mark.thinned(10)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("name", [*SCALARS, *ARRAYS])
def test_reverse_over_reverse_is_forward_over_reverse(name, backend):
    body = looped((SCALARS | ARRAYS)[name])
    twice = body.replace("def f", "def g") + "\n\ndef f(s):\n    return sum(grad(g)(s))"
    one, two = adc.hvp(adc.compile(body, backend="numpy")), adc.grad(adc.compile(twice, "f", backend=backend))
    for point in POINTS[name]:
        second = one((point,), np.ones_like(point))
        np.testing.assert_allclose(two(point), second, rtol=1e-8, atol=1e-10)
