"""The incomplete gamma and beta functions against SciPy, their slopes by all parameters against mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import special

import adcompiler as adc

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "cpu"])
A = np.array([0.1, 0.5, 1, 2.5, 10, 50, 300])[:, None]
X = np.array([0, 1e-8, 0.1, 0.9, 1, 3, 12, 40, 60, 300, 1000, np.inf])


def close(found, expected, rtol):
    """Where numbers do not underflow."""
    seen = np.abs(expected) > 1e-290
    np.testing.assert_allclose(np.where(seen, found, expected), expected, rtol=rtol)
    assert np.all(np.abs(found[~seen]) < 1e-280)


@pytest.mark.thinned(4)
@BACKENDS
@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_values_of_the_gamma_functions(name, backend):
    f = adc.compile(f"special.{name}(a, x)", backend=backend)
    close(f(A, X), getattr(special, name)(A, X), 2e-13)
    assert f(np.float32(2), np.ones(2, np.float32)).dtype == np.float32
    assert f(2.0, np.zeros(0)).shape == (0,)


@BACKENDS
def test_values_of_the_beta_function(backend):
    f = adc.compile("betainc(a, b, x)", backend=backend)
    a, b = np.array([0.1, 1, 7, 60])[:, None], np.array([0.2, 1, 3.3, 80])[:, None, None]
    x = np.array([0, 1e-9, 0.03, 0.3, 0.5, 0.77, 0.999, 1])
    close(f(a, b, x), special.betainc(a, b, x), 2e-13)


@pytest.mark.thinned(8)
@BACKENDS
@pytest.mark.parametrize(
    ("source", "args"),
    [("gammainc(a, x)", (-1.0, 1.0)), ("gammainc(a, x)", (np.inf, np.inf)), ("gammainc(a, x)", (0.0, 0.0)),
     ("gammaincc(a, x)", (1.0, -1.0)), ("gammainc(a, x)", (np.nan, 1.0)),
     ("betainc(a, b, x)", (1.0, 1.0, 1.5)), ("betainc(a, b, x)", (0.0, 0.0, 0.5))],
)  # fmt: skip
def test_outside_of_the_domain_they_and_their_slopes_are_nan(source, args, backend):
    f = adc.compile(source, backend=backend)
    with np.errstate(all="ignore"):
        value, slopes = adc.value_and_grad(f)(*args)
    assert np.isnan([value, *slopes]).all()


EDGES = [0.0, -0.0, 1e-9, 0.5, 1.0, 3.0, np.inf, -0.5, np.nan]


@pytest.mark.thinned(2)
@BACKENDS
@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "betainc"])
def test_values_at_the_edges_are_those_of_scipy(name, backend):
    """Parameters that are 0 or infinite, ends of the domain, and what lies outside."""
    count = 3 if name == "betainc" else 2
    points = np.stack(np.meshgrid(*[EDGES] * count, indexing="ij"), axis=-1).reshape(-1, count).T
    names = ", ".join("abx"[:count])
    found = adc.compile(f"def f({names}):\n    return {name}({names})", backend=backend)(*points)
    np.testing.assert_allclose(found, getattr(special, name)(*points), rtol=1e-13, atol=1e-15)


@pytest.mark.thinned(6)
@pytest.mark.parametrize("x", [0.3, 0.9, 2.0, 40.0])
def test_slopes_where_a_parameter_is_zero(x):
    """One-sided: Q(a, x) is about a E1(x) there, I_x(0, b) falls by the integral of t^-1 (1 - t)^(b-1)."""
    lower, upper = (
        adc.grad(adc.compile(f"{name}(a, x)", backend="numpy")) for name in ("gammainc", "gammaincc")
    )
    assert upper(0.0, x) == pytest.approx((special.exp1(x), 0.0), rel=1e-12, abs=1e-15)
    assert lower(0.0, x) == pytest.approx((-special.exp1(x), 0.0), rel=1e-12, abs=1e-15)
    if x < 1:
        beta = adc.grad(adc.compile("betainc(a, b, x)", backend="numpy"))
        rest = float(mpmath.quad(lambda t: (1 - t) ** 0.5 / t, [x, 1]))
        assert beta(0.0, 1.5, x) == pytest.approx((-rest, 0.0, 0.0), rel=1e-12, abs=1e-14)
        assert beta(1.5, 0.0, 1 - x) == pytest.approx((0.0, rest, 0.0), rel=1e-12, abs=1e-14)


FUNCTIONS = {
    "gammainc(a, x)": (lambda a, x: mpmath.gammainc(a, 0, x, regularized=True), [(0.4, 0.3), (3.0, 9.0)]),
    "gammaincc(a, x)": (lambda a, x: mpmath.gammainc(a, x, regularized=True), [(0.4, 0.3), (3.0, 9.0)]),
    "betainc(a, b, x)": (
        lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True), [(0.7, 1.5, 0.2), (4.0, 2.0, 0.9)]
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("source", FUNCTIONS)
def test_derivatives_by_all_parameters_to_the_third_order(source):
    exact, points = FUNCTIONS[source]
    f = adc.compile(source, backend="cpu")
    for point in points:
        slope, curvature = adc.grad(f)(*point), adc.hessian(f)(*point)
        with mpmath.workdps(40):
            for k, _ in enumerate(point):
                orders = [
                    tuple(int(j == k) + int(j == i) for j in range(len(point))) for i, _ in enumerate(point)
                ]
                first = mpmath.diff(exact, point, tuple(int(j == k) for j in range(len(point))))
                assert float(slope[k]) == pytest.approx(float(first), rel=1e-11, abs=1e-12)
                for i, order in enumerate(orders):
                    second = float(mpmath.diff(exact, point, order))
                    assert float(curvature[k][i]) == pytest.approx(second, rel=1e-9, abs=1e-10)
            third = float(mpmath.diff(exact, point, (3,) + (0,) * (len(point) - 1)))
        found = adc.taylor(f, point, (1.0,) + (0.0,) * (len(point) - 1), 3)[3]
        assert float(found) == pytest.approx(third, rel=1e-8, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["gammainc(x, y)", "gammaincc(x, y)", "betainc(x, y, z)"])
def test_derivatives_of_arrays(source):
    values = {"x": np.array([0.3, 9.0]), "y": np.array([[0.5], [4.0]]), "z": 0.3}
    f = adc.compile(source, backend="numpy")
    adc.check_grad(f, *(values[p.name] for p in f._parameters), order=2)


def test_the_slope_where_x_is_zero():
    slope = adc.grad(adc.compile("gammainc(a, x)", backend="numpy"), "x")
    assert slope(2.0, 0.0) == 0
    assert slope(1.0, 0.0) == 1
    slope = adc.grad(adc.compile("betainc(a, b, x)", backend="numpy"), "x")
    assert slope(1.0, 3.0, 0.0) == pytest.approx(3)
    assert slope(3.0, 1.0, 1.0) == pytest.approx(3)


@pytest.mark.slow
def test_in_a_comprehension():
    source = "def f(a, x):\n    return [gammainc(a, v) * v for v in x]"
    x = np.array([1.0, 2.0, 5.0])
    np.testing.assert_allclose(adc.compile(source)(2.0, x), special.gammainc(2, x) * x, rtol=1e-12)
    adc.check_grad(adc.compile(source, backend="numpy"), 2.0, x)
