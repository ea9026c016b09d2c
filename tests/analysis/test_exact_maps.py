"""What is compared for equality is rounded alike in every loop, also where an array of it is stored."""

import numpy as np
import pytest

import adcompiler as adc

SOURCE = """
def f(a: f64[n], b: f64[n], c: f64[n]):
    y = [atan(c[i]) * a[i] + b[i] * tanh(a[i]) for i in range(n)]
    return exp(max(y[i] for i in range(1, n))) + sum(tanh(a[i]) * atan(c[i]) for i in range(n))
"""


def points(dtype, length):
    for seed in range(40):
        draw = np.random.default_rng(seed)
        yield tuple(draw.normal(size=length).astype(dtype) for _ in range(3))


@pytest.mark.parametrize("length", [5, 33])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_of_a_maximum_of_what_is_stored_arrive(dtype, length):
    source, near = (SOURCE, 1e-10) if dtype is np.float64 else (SOURCE.replace("f64", "f32"), 1e-4)
    compiled, judge = (adc.grad(adc.compile(source, backend=b)) for b in ("cpu", "numpy"))
    for args in points(dtype, length):
        for one, other in zip(compiled(*args), judge(*args), strict=True):
            np.testing.assert_allclose(one, other, rtol=near, atol=near)


def test_second_derivatives_of_a_maximum_of_what_is_stored_arrive():
    compiled, judge = (adc.hvp(adc.compile(SOURCE, backend=b)) for b in ("cpu", "numpy"))
    for args in points(np.float64, 5):
        along = tuple(map(np.cos, args))
        for one, other in zip(compiled(args, along), judge(args, along), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
