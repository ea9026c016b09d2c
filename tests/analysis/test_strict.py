"""What decides is one value: an extremum and what is compared with it, subtracted from it, or floored.

Each program says how many faults it finds: NumPy, which rounds after each operation, finds none.
"""

import numpy as np
import pytest

import adcompiler as adc

# Faults of programs over x, y, z of one shape; `t` is made of products and sums, whose contraction shows.
MATRICES = {
    "the maximum is attained": "abs(sum(t >= max(t)) - 1)",
    "nothing is above the maximum": "sum(t > max(t))",
    "nothing is below the minimum": "sum(t < min(t))",
    "the range starts at 0": "sum(isnan(sqrt(max(t) - t))) + sum(isnan(sqrt(t - min(t))))",
    "the quotient ends at 1": "abs(sum(t / max(t) == 1) - 1)",
    "differences under their condition": "sum(isnan(where(t < max(t), log(max(t) - t), 0)))",
    "each row has its maximum": "sum(abs(sum(t >= max(t, axis=1, keepdims=True), axis=1) - 1))",
    "each column has its minimum": "sum(abs(sum(t == min(t, axis=0), axis=0) - 1))",
    "running maxima": "sum(t.T[0] > cummax(t.T[0])) + abs(sum(t[0] == cummax(t[0])) - records(t[0]))",
    "the place of the maximum": "max(t[0]) - t[0, argmax(t[0])] + t[argmin(t[:, 0]), 0] - min(t[:, 0])",
    "clipped at the maximum": "sum(clip(t, min(t), max(t)) != t)",
    "a value and itself": "sum(t - floor(t) < 0) + sum(t - floor(t) >= 1)",
    "of a function": "sum(exp(t) > max(exp(t))) + sum(isnan(sqrt(max(tan(t)) - tan(t))))",
    "of a quotient": "sum(isnan(sqrt(max(t / (1 + y * y)) - t / (1 + y * y))))",
    "of a root": "sum(x / sqrt(y) > max(x / sqrt(y))) + sum(isnan(sqrt(max(x / sqrt(y)) - x / sqrt(y))))",
    "of sums over rows": "sum(isnan(sqrt(max(sum(t, axis=1)) - sum(t, axis=1))))",
    "like terms": "sum(isnan(sqrt(max(x * y + z * y) - (x * y + z * y))))",
}
HELPER = """
def records(v):
    best, count = -inf, 0
    for e in v:
        count = count + where(e >= best, 1, 0)
        best = maximum(best, e)
    return count
"""
COMPREHENSIONS = {
    "written twice": """
    m = max(x[i] * y[i] + z[i] for i in range(n))
    return sum(1 if x[k] * y[k] + z[k] > m else 0 for k in range(n))""",
    "shifted": """
    t = [x[i] * y[i] + z[i] for i in range(n)]
    m = max(t)
    return sum(1 if t[i + 1] > m else 0 for i in range(n - 1)) + (1 if t[0] > m else 0)""",
    "gathered": """
    t = x * y + z
    m = max(t)
    return sum(1 if t[(7 * i) % n] > m else 0 for i in range(n))""",
    "carried": """
    m = -inf
    for i in range(n):
        m = max(m, x[i] * y[i] + z[i])
    return sum(x * y + z > m) + abs(sum(x * y + z == m) - 1)""",
    "carried by a branch": """
    best, at = -inf, 0
    for i in range(n):
        v = x[i] * y[i] + z[i]
        if v > best:
            best, at = v, i
    t = x * y + z
    return sum(t > best) + abs(sum(t >= t[at]) - 1)""",
    "over pairs": """
    d = [max(x[i] * y[j] - y[i] * z[j] for j in range(n)) for i in range(n)]
    return sum(1 if x[i] * y[j] - y[i] * z[j] > d[i] else 0 for i in range(n) for j in range(n))""",
    "over transposed pairs": """
    m = max(x[i] * y[j] + z[i] for i in range(n) for j in range(n))
    return sum(1 if x[j] * y[i] + z[j] > m else 0 for i in range(n) for j in range(n))""",
    "short sums": """
    p = stack((x, y, z))
    r = [sum(p[k, i] * p[k, n - 1 - i] for k in range(3)) for i in range(n)]
    m = max(r)
    return sum(isnan(sqrt(m - r)))""",
    "a fraction": """
    return sum(1 if x[i] * y[i] - floor(x[i] * y[i]) < 0 else 0 for i in range(n))""",
    "a root under its condition": """
    c = x[0] * y[0]
    return sum(isnan(where(x * y <= c, sqrt(c - x * y), 0)))""",
}
FAULTS = {
    **{
        name: f"{HELPER}\ndef f(x, y, z):\n    t = x * y + z\n    return {text}\n"
        for name, text in MATRICES.items()
    },
    **{
        name: f"def f(x: DTYPE[n], y: DTYPE[n], z: DTYPE[n]):{text}\n"
        for name, text in COMPREHENSIONS.items()
    },
}


def drawn(name, seed, dtype, length):
    draw = np.random.default_rng(seed)
    shape = (length,) if name in COMPREHENSIONS else (length, length + 1)
    return tuple(draw.random(shape).astype(dtype) for _ in range(3))


@pytest.mark.thinned(10)
@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("name", FAULTS)
def test_no_kernel_finds_a_fault(name, dtype):
    source = FAULTS[name].replace("DTYPE", dtype)
    function = adc.compile(source, name="f")
    for seed in range(10):
        for length in (3, 9, 40):
            assert function(*drawn(name, seed, {"f64": np.float64, "f32": np.float32}[dtype], length)) == 0


# Gradients and second derivatives of programs in which a value decides, judged by the NumPy backend.
SMOOTH = {
    "below the maximum": """
    t = x * y + z
    m = max(t)
    return sum(where(t < m, log(m - t), 0.0))""",
    "beside the maximum": """
    t = x * y + z
    return sum(exp(t - max(t)) * cummax(t))""",
    "carried": """
    m = -inf
    for i in range(n):
        m = max(m, x[i] * y[i] + z[i])
    return m * sum(where(x * y + z == m, x * z, y))""",
    "over pairs": """
    return sum(max(x[i] * y[j] - y[i] * z[j] for j in range(n)) ** 2 for i in range(n))""",
    "of fractions": """
    t = 5 * x * y + z
    return sum((t - floor(t)) * y)""",
    "of sums": """
    t = [sum(x[j] * y[i] * cos(z[j] + i) for j in range(n)) for i in range(n)]
    return sum(t / max(t)) * min(t)""",
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_where_a_value_decides(name):
    source = f"def f(x: f64[n], y: f64[n], z: f64[n]):{SMOOTH[name]}\n"
    functions = [adc.compile(source, backend=b) for b in ("cpu", "numpy")]
    first, second = (tuple(map(how, functions)) for how in (adc.grad, adc.hvp))
    for seed in range(20):
        args = drawn("carried", seed, np.float64, 7)
        along = tuple(np.cos(a + 1) for a in args)
        for found, expected in zip(*(f(*args) for f in first), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
        for found, expected in zip(*(f(args, along) for f in second), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("save", ["partials", "auto"])
@pytest.mark.parametrize("name", SMOOTH)
def test_backward_passes_decide_as_forward_ones_did(name, save):
    function = adc.compile(f"def f(x: f64[n], y: f64[n], z: f64[n]):{SMOOTH[name]}\n")
    split, gradient = function.split(save=save), adc.grad(function)
    for seed in range(20):
        args = drawn("carried", seed, np.float64, 11)
        _, saved = split.forward(*args)
        for found, expected in zip(split.propagate(saved, 1.0), gradient(*args), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


SAVED = {
    "a product of matrices": """
    low = max(x @ c.T + 1, axis=0)
    return sum(where(x @ c.T + 1 >= low, exp(low / 50), 0))""",
    "sums over pairs": """
    low = [min(sum((x[i, k] - c[j, k])**2 for k in range(d)) for j in range(m)) for i in range(n)]
    return sum(sqrt(low))""",
    "a loop": """
    t = zeros(n)
    for k in range(d):
        t = t + x[:, k] * cos(t)
    low = max(t)
    return sum(where(t == low, t * sum(c), 0)) + low""",
}


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", SAVED)
def test_a_saved_extremum_is_not_compared_with_sums_that_are_computed_again(name):
    function = adc.compile(f"def f(x: f64[n, d], c: f64[m, d]):{SAVED[name]}\n")
    split = function.split(save=("low",))
    draw = np.random.default_rng(0)
    x, c = draw.random((200, 200)), draw.random((200, 200))
    _, saved = split.forward(x, c)
    for found, expected in zip(split.propagate(saved, 1.0), adc.grad(function)(x, c), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert "low" not in saved.names  # it is computed again with the sums


@pytest.mark.parametrize("seed", [0, 1])
def test_the_gradient_of_the_nearest_goes_to_somebody(seed):
    """That a point is the nearest is a condition outside of the loop over coordinates: it becomes a bound."""
    source = """
def f(p, v, q, a):
    return sum([min(sum((q[c, k] - p[i, k] - a * v[i, k])**2 for k in range(2)) for i in range(len(p)))
                for c in range(10)])
"""
    random = np.random.default_rng(seed)
    args = random.uniform(-1, 1, (64, 2)), random.normal(0, 0.3, (64, 2)), random.normal(0, 1, (18, 2)), 0.3
    found = adc.grad(adc.compile(source), ("p", "v", "q"))(*args)
    expected = adc.grad(adc.compile(source, backend="numpy"), ("p", "v", "q"))(*args)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
