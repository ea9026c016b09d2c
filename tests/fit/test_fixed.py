"""Parameters that are fixed by name or by equal bounds, and bounds of some parameters only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numba import njit
from scipy import optimize

import adcompiler as adc

X = np.linspace(0, 4, 40)
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + 0.05 * np.random.default_rng(1).normal(size=X.size)


@adc.function(backend="numpy")
def decay(x, a, b, c):
    return a * exp(-b * x) + c  # noqa: F821


@njit
def decay_of_numba(x, a, b, c):
    return a * np.exp(-b * x) + c


@dataclass
class Decay:
    a: float
    b: float
    c: float


packed = adc.compile("def f(x, p): return p.a * exp(-p.b * x) + p.c", backend="numpy")
nested = adc.compile(
    "def f(x, p): return p['slow'].a * exp(-p['slow'].b * x) + p['slow'].c + 0 * p['t']", backend="numpy"
)

C = 0.45
WANTED, COVARIANCE = optimize.curve_fit(lambda x, a, b: a * np.exp(-b * x) + C, X, Y, (1, 1), xtol=1e-14)


@pytest.mark.parametrize(
    ("model", "start", "keywords"),
    [
        (decay, {"a": 1, "b": 1, "c": C}, {"fixed": "c"}),
        (decay, (1, 1, C), {"fixed": ("c",)}),
        (decay, np.array([1, 1, C]), {"fixed": ["c"], "method": "lm"}),
        (decay, (1, 1, C), {"fixed": "c", "bounds": ({"a": 0}, {"b": 5})}),
        (decay, (1, 1, 7.0), {"bounds": ({"c": C}, {"c": C})}),
        (decay, np.array([1, 1, C]), {"bounds": ([0, 0, C], [9, 9, C]), "method": "dogbox"}),
        (decay, (1, 1, C), {"bounds": ((None, None, C), (None, None, C)), "method": "lm"}),
        (decay, (1, 1, C), {"bounds": optimize.Bounds([-np.inf, 0, C], [np.inf, 9, C])}),
        (decay, (1, 1, C), {"fixed": "c", "x_scale": [1.0, 2.0, 3.0]}),
        (decay_of_numba, {"a": 1, "b": 1, "c": C}, {"fixed": "c"}),
        (packed, Decay(1.0, 1.0, C), {"fixed": "c"}),
        (packed, Decay(1.0, 1.0, C), {"bounds": ({"c": C}, {"c": C})}),
        (packed, Decay(1.0, 1.0, C), {"bounds": (Decay(0, 0, C), Decay(9, 9, C))}),
        (nested, {"slow": Decay(1.0, 1.0, C), "t": 0.0}, {"fixed": {"slow.c", "t"}}),
    ],
)
def test_a_fit_of_the_rest(model, start, keywords):
    """As a model of the others: parameters, covariance, intervals; what is fixed has no error."""
    result = adc.curve_fit(model, X, Y, start, **keywords)
    assert result.x == pytest.approx(WANTED, rel=1e-6)
    assert result.cov == pytest.approx(COVARIANCE, rel=1e-5)
    assert result.jac.shape == (X.size, 2)
    params, errors = numbers(result.params), numbers(result.stderr)
    low, high = map(numbers, result.confidence())
    assert params == pytest.approx([*WANTED, C], rel=1e-6)
    assert errors == pytest.approx([*np.sqrt(np.diagonal(COVARIANCE)), 0], rel=1e-5)
    assert (low[2], high[2]) == (C, C)
    assert low[0] < WANTED[0] < high[0]


def numbers(params):
    """The three numbers of a container."""
    if isinstance(params, dict):
        params = params.get("slow", params)
    if isinstance(params, Decay):
        params = vars(params)
    return list(params.values() if isinstance(params, dict) else params)


def test_entries_of_an_array_are_held_by_bounds():
    model = adc.compile("def f(x, p): return p[0] * exp(-p[1] * x) + p[2]", backend="numpy")
    result = adc.curve_fit(model, X, Y, np.array([1, 1, C]), bounds=([0, 0, C], [np.inf, np.inf, C]))
    assert result.params == pytest.approx([*WANTED, C], rel=1e-6)
    assert result.cov.shape == (2, 2)


def test_what_is_fixed_needs_no_derivative():
    """A number of iterations, and an index, are fixed as what they are."""
    power = adc.compile(
        "def f(x, a, n):\n    y = a + 0 * x\n    for i in range(n):\n        y = y * x\n    return y",
        backend="numpy",
    )
    for n in (3, np.int64(3)):
        assert adc.curve_fit(power, X, 2 * X**3, {"a": 1.0, "n": n}, fixed="n").params["a"] == pytest.approx(
            2
        )


def test_sparse_jacobians_lose_columns():
    pairs = adc.compile("def r(p): return p['u'][1:] - p['u'][:-1] * p['k'], p['u'] - 1", backend="numpy")
    start = {"u": np.linspace(0, 1, 50), "k": 0.5}
    for keywords in ({"fixed": "k"}, {"bounds": ({"k": 0.5}, {"k": 0.5})}):
        dense, sparse = (adc.least_squares(pairs, start, sparse=s, **keywords) for s in (False, True))
        assert sparse.jac.shape == dense.jac.shape == (99, 50)
        assert sparse.jac.toarray() == pytest.approx(dense.jac)
        assert sparse.x == pytest.approx(dense.x, abs=1e-5)
        assert dense.params["k"] == 0.5


ROSEN = adc.compile("def f(p, s): return 100 * (p['y'] - p['x']**2)**2 + (s - p['x'])**2", backend="numpy")
APART = adc.compile("def f(x, y, s): return 100 * (y - x**2)**2 + (s - x)**2", backend="numpy")


@pytest.mark.parametrize(
    "method", ["BFGS", "L-BFGS-B", "Newton-CG", "trust-exact", "trust-krylov", "trust-constr", "Nelder-Mead"]
)
def test_minimize_what_is_not_fixed(method):
    wanted = optimize.minimize_scalar(lambda x: 100 * (0.5 - x**2) ** 2 + (1 - x) ** 2, (0.5, 1)).x
    result = adc.minimize(ROSEN, {"x": 1.0, "y": 0.5}, (1.0,), method, fixed="y")
    assert result.params == pytest.approx({"x": wanted, "y": 0.5}, rel=1e-3)
    assert result.x.shape == (1,)
    apart = adc.minimize(APART, (1.0, 0.5), (1.0,), method, wrt=("x", "y"), fixed=("y",))
    assert apart.params == pytest.approx((wanted, 0.5), rel=1e-3)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_constraints_of_what_is_not_fixed(method):
    """Of compiled functions, and of matrices: x + 2 y <= 1.5 with y = 0.5 leaves x <= 0.5."""
    far = adc.compile("def far(p): return (p['x'] - 2)**2 + (p['y'] - 1)**2", backend="numpy")
    line = adc.compile("def line(p): return 1.5 - p['x'] - 2 * p['y']", backend="numpy")
    for constraint in (
        {"type": "ineq", "fun": line},
        optimize.NonlinearConstraint(line, 0, np.inf),
        optimize.LinearConstraint([1, 2], -np.inf, 1.5),
    ):
        result = adc.minimize(
            far, {"x": 0.1, "y": 0.5}, (), method, constraints=constraint, fixed="y", tol=1e-9
        )
        assert result.params == pytest.approx({"x": 0.5, "y": 0.5}, abs=1e-3)


@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        (({"y": 0.5}, {"y": 0.5}), {"y": 0.5}),
        ((None, {"x": 0.2}), {"x": 0.2}),
        (({"x": 2}, None), {"x": 2.0, "y": 4.0}),
    ],
)
def test_minimize_with_bounds_of_some_parts(bounds, wanted):
    params = adc.minimize(ROSEN, {"x": 0.1, "y": 0.5}, (1.0,), bounds=bounds).params
    assert {name: params[name] for name in wanted} == pytest.approx(wanted, rel=1e-4)


def test_a_batch_takes_bounds_of_some_parameters():
    fits = adc.fit.batch(
        decay, X, np.stack([Y, Y + 1]), {"a": 1, "b": 1, "c": 0.1}, bounds=(None, {"c": 0.2})
    )
    assert fits.params["c"] == pytest.approx([0.2, 0.2])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"fixed": "d"}, "fixed names 'd', which is no part of p0\n  help: it has a, b, c"),
        ({"fixed": ("a", "b", "c")}, "fixed names all parameters\n  help: leave one"),
        ({"fixed": 2}, "fixed is 2\n  help: pass a name or several"),
        ({"fixed": "c", "bounds": ({"c": 2}, None)}, "number 2 of p0, 1.0, is outside its bounds"),
        ({"bounds": (1, 1)}, "all bounds are equal: nothing varies"),
        ({"bounds": ({"rate": 0}, None)}, "bounds.0. names 'rate', but there is only 'a', 'b', 'c'"),
        ({"bounds": ({"a": 2}, {"a": 1})}, "the bounds of number 0 are"),
    ],
)
def test_refusals(keywords, message):
    with pytest.raises(adc.Error, match=message):
        adc.curve_fit(decay, X, Y, (1.0, 1.0, 1.0), **keywords)
    with pytest.raises(adc.Error, match="no named parts; equal bounds hold"):
        adc.minimize(adc.compile("sum(x**2)", args="x"), np.ones(2), fixed="x")


@pytest.mark.parametrize("option", ["maxfev", "maxfun", "maxiter"])
def test_the_name_of_the_limit_of_evaluations(option):
    """Each message names what the method takes, and that works."""
    with pytest.raises(adc.Error, match="did you mean max_nfev"):
        adc.curve_fit(decay, X, Y, **{option: 3})
    with pytest.raises(adc.Error, match="curve_fit has no option 'max_nfew'\n  help: did you mean max_nfev"):
        adc.curve_fit(decay, X, Y, max_nfew=3)
    assert adc.curve_fit(decay, X, Y, max_nfev=3).nfev == 3


SCIPYS = {  # what SciPy warns of, or raises TypeError for
    "Nelder-Mead": "max_nfev", "Powell": "maxfun", "COBYLA": "maxfev", "COBYQA": "max_nfev", "CG": "maxfev",
    "BFGS": "maxfev", "L-BFGS-B": "maxfev", "TNC": "maxiter", "SLSQP": "maxfev", "Newton-CG": "maxfun",
    "trust-ncg": "maxfev", "trust-krylov": "max_nfev", "trust-constr": "maxfev", "dogleg": "maxfev",
    "trust-exact": "max_iter",
}  # fmt: skip


@pytest.mark.parametrize("method", SCIPYS)
def test_each_method_names_its_limit(method):
    sphere = adc.compile("def f(x): return sum(x**4)", backend="numpy")
    with pytest.raises(adc.Error, match=f"'{method}' has no option '{SCIPYS[method]}'") as raised:
        adc.minimize(sphere, np.ones(3), method=method, options={SCIPYS[method]: 9})
    option = str(raised.value).rpartition("did you mean ")[2].rstrip("?")
    few = 5 if method == "COBYLA" else 2
    assert not adc.minimize(sphere, np.ones(3), method=method, options={option: few}).success


@pytest.mark.parametrize(("method", "option"), [("hybr", "maxiter"), ("lm", "maxfev"), ("krylov", "maxfev")])
def test_methods_of_root_name_their_limit(method, option):
    cube = adc.compile("def f(x): return x**3 - stack((1.0, 2.0))", backend="numpy")
    with pytest.raises(adc.Error, match="has no option") as raised:
        adc.root(cube, np.ones(2) * 9, method=method, options={option: 9})
    name = str(raised.value).rpartition("did you mean ")[2].rstrip("?")
    adc.root(cube, np.ones(2) * 9, method=method, options={name: 100})
