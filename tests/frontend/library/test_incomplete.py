"""The incomplete gamma and beta functions against SciPy, their slopes by all parameters against mpmath."""

from __future__ import annotations

import sys
from itertools import product
from types import FrameType

import mpmath
import numpy as np
import pytest
from scipy import special, stats

import adcompiler as adc
from adcompiler.ops.rules import incomplete, series
from adcompiler.ops.table import TABLE

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


P = np.geomspace(0.1, 1e3, 1000)
ORDINARY = {
    "gammainc(a, x)": (P, 1.1 * P),
    "gammaincc(a, x)": (P, 0.9 * P[::-1]),
    "gammainc(a, x) ": (np.linspace(0.1, 10, 1000), np.linspace(0.1, 11, 1000)),
    "betainc(a, b, x)": (P, P[::-1], np.linspace(1e-9, 1, 1001)[:-1]),
    "betaincc(a, b, x)": (P, 2 * P, np.full(1000, 0.3)),
}


@pytest.mark.parametrize("source", ORDINARY)
def test_arrays_of_a_thousand_elements(source):
    """Each element converges by itself, whatever the others need."""
    args = ORDINARY[source]
    name = source.partition("(")[0]
    f = adc.compile(source)
    close(f(*args), getattr(special, name)(*args), 1e-12)
    slopes = adc.grad(adc.compile(f"sum({source})"))(*args)
    assert all(np.isfinite(slope).all() for slope in slopes)
    singly = adc.grad(adc.compile(source))(*(x[500] for x in args))
    assert [slope[500] for slope in slopes] == pytest.approx(list(singly), rel=1e-12)


def exact_gamma(upper):
    return lambda a, x: mpmath.gammainc(a, *((x,) if upper else (0, x)), regularized=True)


def exact_beta(upper):
    def found(a, b, x):  # with digits for a and b that differ by many powers of ten
        a, b, x = (b, a, 1 - x) if upper else (a, b, x)
        return mpmath.betainc(a, b, 0, x, regularized=True)

    return found


# Values by mpmath: of 60 digits and more by its own functions, or by quadrature where these take too long.
DIFFICULT = {
    "gammainc": {
        (513669.1875, 513667.1875): 0.4990722791644015, (1e8, 1e8): 0.5000132980760141,
        (1e8, 1e8 - 2e4): 0.022744732581593558, (1e-12, 0.5): 0.9999999999994402,
        (25.0, 0.25): 4.502725978878787e-41, (3e-05, 0.999): 0.999993407232322,
        (1.4, 1.0): 0.46590371892020305, (20.0, 20.0): 0.52974273316076, (19.99, 28.5): 0.9605919629946428,
        (5e3, 4.2e3): 2.379645645332112e-33, (0.5, 1e-300): 1.1283791670955126e-150,
    },
    "gammaincc": {
        (1e-12, 0.5): 5.597735947764542e-13, (1e-300, 0.2): 1.222650544183893e-300,
        (0.001, 1.0): 0.0002196083575855564, (0.9, 1.1): 0.2920029849968411,
        (1e8, 1e8 + 3e4): 0.0013510801016019577, (1e5, 1.03e5): 2.8706236917814667e-21,
        (20.0, 28.1): 0.04605450405910219, (1e-9, 1e-30): 6.850033477959427e-08,
        (1.0, 700.0): 9.85967654375977e-305, (0.0004, 30.0): 1.2105607069897398e-18,
    },
    "betainc": {
        (18.239, 3.87e-05, 0.96887): 1.903658982427156e-05, (1e3, 1e-05, 0.9): 1.732521022480626e-53,
        (1e-9, 1e-9, 0.5): 0.5, (1e7, 1e7, 0.5001): 0.8144533146406578,
        (3e4, 7.0, 0.9997): 0.20657593049057135, (0.01, 1.0, 0.2): 0.9840344433634576,
        (60.0, 61.0, 0.47): 0.2850251191107871, (0.001, 30.0, 1e-12): 0.9766077688027712,
        (2e5, 9e3, 0.956): 0.017828640634668075, (5.0, 1e8, 6e-08): 0.7149435398391533,
    },
    "betaincc": {
        (3.87e-05, 18.239, 0.03): 1.9874588729018372e-05, (1e-9, 1e-9, 0.5): 0.5,
        (1e7, 1e7, 0.4999): 0.8144533146406578, (0.01, 1.0, 0.9): 0.0010530503095456181,
        (1.5, 1e4, 0.0003): 0.11155914197048027, (12.0, 0.002, 0.5): 0.9999999237655447,
    },
}  # fmt: skip
EXACT = {
    "gammainc": exact_gamma(False), "gammaincc": exact_gamma(True),
    "betainc": exact_beta(False), "betaincc": exact_beta(True),
}  # fmt: skip


@pytest.mark.slow_when(lambda backend: backend != "cpu")
@pytest.mark.parametrize("backend", ["cpu", "numba"])  # that of NumPy calls SciPy, which has fewer digits
@pytest.mark.parametrize("name", DIFFICULT)
def test_twelve_digits_where_parameters_are_large_or_small(name, backend):
    points = np.array(list(DIFFICULT[name])).T
    found = adc.compile(f"{name}({', '.join('abx'[: len(points)])})", backend=backend)(*points)
    np.testing.assert_allclose(found, list(DIFFICULT[name].values()), rtol=1e-12)


def steps(function, *args):
    """The number of lines that a scalar function runs."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with np.errstate(all="ignore"):
            function(*map(np.float64, args))
    finally:
        sys.settrace(before)
    return count


MOST = 120_000  # lines: an area of 64 panels of 16 points, each a weight of about a hundred
EXTREMES = [0.0, 5e-324, 1e-9, 0.3, 19.9, 60.1, 1e4, 1e9, 1e300, np.inf, np.nan]


@pytest.mark.parametrize("name", ["gammainc", "betainc"])
def test_the_number_of_steps_is_bounded(name):
    """An element that never converged would wait for the bounds of all loops."""
    places = EXTREMES[::2] if name == "gammainc" else (1e-300, 0.4, 1 - 1e-12)
    for a in EXTREMES:
        for rest in product(EXTREMES[1::3], places) if name == "betainc" else product(places):
            assert steps(getattr(incomplete, name), a, *rest) < MOST
            order = 2 if name == "gammainc" else 11
            if a in EXTREMES[1:-2:3]:
                assert steps(getattr(incomplete, f"{name}_derivative"), order, a, *rest) < MOST


TAILS = {
    "gamma": (np.linspace(0.2, 30, 1000), np.linspace(0.1, 40, 1000)),
    "chi2": (np.linspace(0.2, 30, 1000), np.linspace(0.1, 40, 1000)),
    "beta": (np.linspace(0, 1, 1000), np.linspace(0.2, 30, 1000), np.linspace(40, 0.1, 1000)),
    "f": (np.linspace(0.01, 9, 1000), np.linspace(1, 80, 1000), np.linspace(60, 2, 1000)),
    "t": (np.linspace(-9, 9, 1000), np.linspace(1, 80, 1000)),
    "binom": (np.arange(1000.0) % 50, np.full(1000, 60.0), np.linspace(0.01, 0.99, 1000)),
    "poisson": (np.arange(1000.0) % 50, np.linspace(0.1, 70, 1000)),
    "nbinom": (np.arange(1000.0) % 50, np.linspace(0.5, 30, 1000), np.linspace(0.05, 0.95, 1000)),
}


@pytest.mark.parametrize("n", [400, 1000])
@pytest.mark.parametrize("name", TAILS)
def test_probabilities_of_arrays(name, n):
    args = [v[:n] for v in TAILS[name]]
    names = ", ".join("xabc"[: len(args)])
    for method in ("cdf", "sf"):
        found = adc.compile(f"stats.{name}.{method}({names})")(*args)
        np.testing.assert_allclose(
            found, getattr(getattr(stats, name), method)(*args), rtol=1e-11, atol=1e-290
        )


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
@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "betainc", "betaincc"])
def test_values_at_the_edges_are_those_of_scipy(name, backend):
    """Parameters that are 0 or infinite, ends of the domain, and what lies outside."""
    count = 3 if name.startswith("beta") else 2
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


POINTS = {
    "gammainc": [(0.4, 0.3), (3.0, 9.0), (1e-3, 2.0), (150.0, 140.0), (0.9, 1e-4), (3e3, 3.1e3)],
    "gammaincc": [(0.4, 0.3), (3.0, 9.0), (1e-6, 0.7), (40.0, 60.0)],
    "betainc": [(0.7, 1.5, 0.2), (4.0, 2.0, 0.9), (0.02, 30.0, 1e-3), (300.0, 200.0, 0.58),
                (9.0, 0.03, 0.999)],
    "betaincc": [(0.7, 1.5, 0.2), (4.0, 2.0, 0.9), (30.0, 0.4, 0.95)],
}  # fmt: skip


@pytest.mark.slow_when(lambda name: name != "gammainc")
@pytest.mark.parametrize("name", POINTS)
def test_derivatives_by_all_parameters_to_the_third_order(name):
    exact, count = EXACT[name], len(POINTS[name][0])
    f = adc.compile(f"{name}({', '.join('abx'[:count])})", backend="cpu")
    slope, curvature = adc.grad(f), adc.hessian(f)
    axes = np.eye(count, dtype=int)
    for point in POINTS[name]:
        with mpmath.workdps(60):
            at = tuple(map(mpmath.mpf, point))
            first = [float(mpmath.diff(exact, at, tuple(axes[k]))) for k in range(count)]
            second = [
                [float(mpmath.diff(exact, at, tuple(axes[k] + axes[j]))) for j in range(count)]
                for k in range(count)
            ]
            third = float(mpmath.diff(exact, at, (3,) + (0,) * (count - 1)))
        np.testing.assert_allclose(slope(*point), first, rtol=1e-11)
        np.testing.assert_allclose(np.array(curvature(*point)), second, rtol=1e-10)
        found = adc.taylor(f, point, (1.0,) + (0.0,) * (count - 1), 3)[3]
        assert float(found) == pytest.approx(third, rel=1e-10)


@pytest.mark.parametrize("name", ["gammainc", "betainc"])
def test_every_partial_is_the_limit_of_differences(name):
    """The rules of the derivatives and densities, of every order."""
    ways = [
        (f"{name}_{kind}", n) for kind in ("derivative", "density") for n in TABLE[f"{name}_density"].orders
    ]
    point = (2.3, 0.8) if name == "gammainc" else (2.3, 1.4, 0.3)
    params = "abx" if name == "betainc" else "ax"
    top = max(digits(n) for _, n in ways)
    for f, n in ways:
        if digits(n) < top:
            program = adc.compile(f"{f}({n}, {', '.join(params)})", args=tuple(params), backend="numpy")
            assert adc.check_grad(program, *point, order=1) < 1e-7


def digits(n):
    """The number of derivatives that an order stands for."""
    return n // 10 + n % 10


def test_the_fifth_derivative_by_a_is_refused():
    f = adc.compile("gammainc(a, 0.7)", backend="numpy")
    with pytest.raises(adc.Error, match="gammainc_derivative"):
        adc.taylor(f, (1.0,), (1.0,), 5)


@pytest.mark.parametrize("source", ["gammainc(x, y)", "gammaincc(x, y)", "betainc(x, y, z)"])
def test_derivatives_of_arrays(source):
    values = {"x": np.array([0.3, 9.0]), "y": np.array([[0.5], [4.0]]), "z": 0.3}
    f = adc.compile(source)
    adc.check_grad(f, *(values[p.name] for p in f._parameters), order=2)


def test_under_conditions_and_in_loops():
    source = """def f(a, x):
    t = 0.0
    for i in range(len(x)):
        if x[i] > 0:
            t += gammainc(a, x[i])
            if t < 1:
                t += betainc(a, 1 + x[i], 0.3) * t
    return t
"""
    x = np.array([0.5, -1.0, 2.0])
    for backend in ("cpu", "numpy"):
        f = adc.compile(source, backend=backend)
        adc.check_grad(f, 1.3, x, order=2)
        assert f(1.3, x[:0]) == 0
    slope = adc.grad(adc.compile(source))(0.3, np.array([0.0, 1.0]))[1]  # inf at the guarded 0
    assert slope[0] == 0
    assert np.isfinite(slope[1])


def test_the_slope_where_x_is_zero():
    slope = adc.grad(adc.compile("gammainc(a, x)", backend="numpy"), "x")
    assert slope(2.0, 0.0) == 0
    assert slope(1.0, 0.0) == 1
    slope = adc.grad(adc.compile("betainc(a, b, x)", backend="numpy"), "x")
    assert slope(1.0, 3.0, 0.0) == pytest.approx(3)
    assert slope(3.0, 1.0, 1.0) == pytest.approx(3)


@pytest.mark.parametrize("x", [0.0, 1e-9])
def test_curvatures_by_x_at_the_ends(x):
    """At the end, and beside it."""
    gamma = adc.grad(adc.grad(adc.compile("gammainc(a, x)", backend="numpy"), "x"), "x")
    beta = adc.grad(adc.grad(adc.compile("betainc(a, b, x)", backend="numpy"), "x"), "x")
    assert [gamma(a, x) for a in (1.0, 2.0, 3.0)] == pytest.approx([-1, 1, 0], abs=1e-8)
    assert [beta(a, 4.0, x) for a in (1.0, 2.0, 3.0)] == pytest.approx([-12, 20, 0], abs=1e-6)
    assert [beta(4.0, b, 1 - x) for b in (1.0, 2.0, 3.0)] == pytest.approx([12, -20, 0], abs=1e-6)


def test_in_a_comprehension():
    source = "def f(a, x):\n    return [gammainc(a, v) * v for v in x]"
    x = np.array([1.0, 2.0, 5.0])
    np.testing.assert_allclose(adc.compile(source)(2.0, x), special.gammainc(2, x) * x, rtol=1e-12)
    adc.check_grad(adc.compile(source, backend="numpy"), 2.0, x)


QUANTILES = {
    "gammaincinv(a, q)": "a q", "gammainccinv(a, q)": "a q",
    "betaincinv(a, b, q)": "a b q", "betainccinv(a, b, q)": "a b q",
}  # fmt: skip


@pytest.mark.slow_when(lambda backend: backend != "cpu")
@pytest.mark.parametrize("backend", ["cpu", "numpy", "numba"])
@pytest.mark.parametrize("source", QUANTILES)
def test_inverses(source, backend):
    """Arrays with the ends of the domain, and what lies outside."""
    n = 1000 if backend == "cpu" else 20
    values = {"a": np.geomspace(0.05, 1e3, n), "b": np.linspace(0.2, 60, n), "q": np.linspace(0, 1, n)}
    args = [values[name] for name in QUANTILES[source].split()]
    f, exact = adc.compile(source, backend=backend), getattr(special, source.partition("(")[0])
    np.testing.assert_allclose(f(*args), exact(*args), rtol=1e-12, atol=1e-300)
    args[-1] = np.full(n, 1.5)
    assert np.isnan(f(*args)).all()
    assert f(*(x[:0] for x in args)).shape == (0,)


@pytest.mark.parametrize("source", QUANTILES)
def test_derivatives_of_inverses(source):
    values = {
        "a": np.array([0.4, 3.0, 150.0]),
        "b": np.array([1.5, 0.7, 80.0]),
        "q": np.array([0.3, 0.9, 0.02]),
    }
    args = [values[name] for name in QUANTILES[source].split()]
    adc.check_grad(adc.compile(source), *args, order=2)
    narrow = [np.float32(x) for x in args]
    assert adc.compile(source)(*narrow).dtype == np.float32


def test_slopes_of_quantiles_of_large_and_small_parameters():
    """By q they are the reciprocal of the density; a power that underflows leaves 0, and not NaN."""
    gamma, beta = (
        adc.grad(adc.compile(f"stats.{name}"), "q") for name in ("gamma.ppf(q, a)", "beta.ppf(q, a, b)")
    )
    with mpmath.workdps(50):
        x = mpmath.mpf(special.gammaincinv(1e8, 0.3))
        density = mpmath.exp(mpmath.mpf(1e8 - 1) * mpmath.log(x) - x - mpmath.loggamma(1e8))
    assert gamma(0.3, 1e8) == pytest.approx(float(1 / density), rel=1e-9)
    assert gamma(0.3, 1e-6) == 0
    assert beta(0.3, 1e-6, 2.0) == 0


@pytest.mark.parametrize("name", ["gamma_log_quantile", "beta_log_odds"])
def test_the_number_of_steps_of_quantiles_is_bounded(name):
    function = getattr(incomplete, name)
    rest = [(a,) for a in EXTREMES] if name == "gamma_log_quantile" else product(EXTREMES[1::3], repeat=2)
    for parameters in rest:
        for q in (0.3, 1 - 1e-9):
            assert steps(function, q, 1 - q, *parameters) < 30 * MOST


@pytest.mark.parametrize(
    "name", ["lbeta", "beta", "gamma_log_quantile", "gammainc_density", "betainc_density"]
)
def test_python_gives_what_kernels_give_at_poles_and_where_numbers_overflow(name):
    """Python's own functions raise there."""
    function = getattr(incomplete, name, None) or getattr(series, name)
    count = len(TABLE[name].params) - (TABLE[name].orders is not None)
    places = [0.0, 5e-324, -1.0, 0.3, 1.0, 1e306, np.inf, np.nan]
    for order in (0, 1) if TABLE[name].orders else (None,):
        for point in product(places, repeat=count):
            args = point if order is None else (order, *point)
            with np.errstate(all="ignore"):
                assert isinstance(float(function(*map(np.float64, args))), float)
