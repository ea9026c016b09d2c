"""`predict`, `profile` and `correlation` of a fit, against formulas, SciPy's solvers and published values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import optimize, stats

import adcompiler as adc

CONC = np.repeat([0.02, 0.06, 0.11, 0.22, 0.56, 1.1], 2)
RATE = np.array([76, 47, 97, 107, 123, 139, 159, 152, 191, 201, 207, 200.0])
michaelis = adc.compile("limit * x / (half + x)", args="x, limit, half", backend="numpy")


def test_profiles_are_those_of_r():
    """`confint(nls(rate ~ Vm * conc / (K + conc), Puromycin, state == "treated"))` of R prints these, which
    interpolate."""
    fit = adc.curve_fit(michaelis, CONC, RATE, {"limit": 200, "half": 0.1})
    assert fit.profile("limit") == pytest.approx((197.30212848, 229.29006490), rel=1e-5)
    assert fit.profile("half") == pytest.approx((0.04692517, 0.08615995), rel=2e-4)
    assert fit.profile(1, 0.95) == fit.profile("half")


def scipys_profile(model, x, y, best, k, height, weights=1.0):
    """Where the sum of squares rises by `height`, with derivatives by differences: independent of ours."""

    def squares(value):
        def residuals(p):
            return (model(x, *np.insert(p, k, value)) - y) * weights

        others = np.delete(best, k)
        found = optimize.least_squares(
            residuals, others, x_scale=abs(others), xtol=1e-14, ftol=1e-14, gtol=1e-14
        )
        return 2 * found.cost

    least, reach = squares(best[k]), abs(best[k])
    return [
        optimize.brentq(lambda v: squares(v) - least - height, best[k], best[k] + side * reach, xtol=1e-12)
        for side in (-1, 1)
    ]


X = np.linspace(0, 4, 30)
TRUTH = (2.5, 1.3, 0.5)
NOISE = np.random.default_rng(1).normal(size=X.size)
decay = adc.compile("a * exp(-b * x) + c", args="x, a, b, c", backend="numpy")


def plain(x, a, b, c):
    return a * np.exp(-b * x) + c


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("level", [0.68, 0.99])
@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_profiles_agree_with_scipys_solvers(absolute, level, name):
    """By quantiles of F for unknown errors, and of chi2 for known ones."""
    sigma = 0.1 + 0.02 * X
    y = plain(X, *TRUTH) + sigma * NOISE
    fit = adc.curve_fit(decay, X, y, TRUTH, sigma, absolute)
    if absolute:
        height = stats.chi2.ppf(level, 1)
    else:
        height = stats.f.ppf(level, 1, X.size - 3) * 2 * fit.cost / (X.size - 3)
    k = "abc".index(name)
    wanted = scipys_profile(plain, X, y, fit.x, k, height, 1 / sigma)
    assert fit.profile(name, level) == pytest.approx(wanted, rel=1e-5)


def test_of_a_linear_model_all_intervals_are_the_same():
    """Profiles are Student's intervals, and predictions have the textbook's errors, at any level."""
    line = adc.compile("a + b * x", args="x, a, b", backend="numpy")
    y = 1 + 2 * X + NOISE
    fit = adc.curve_fit(line, X, y)
    wanted = stats.linregress(X, y)
    assert fit.x == pytest.approx((wanted.intercept, wanted.slope))
    for level in (0.5, 0.95, 0.999):
        reach = stats.t.ppf((1 + level) / 2, X.size - 2)
        assert fit.profile("b", level) == pytest.approx(
            (wanted.slope - reach * wanted.stderr, wanted.slope + reach * wanted.stderr)
        )
        low, high = fit.confidence(level)
        assert fit.profile("a", level) == pytest.approx((low[0], high[0]))
    at = np.array([-1.0, 2.0, 9.0])
    value, error = fit.predict(at)
    scale = np.sqrt(2 * fit.cost / (X.size - 2))
    assert value == pytest.approx(wanted.intercept + wanted.slope * at)
    assert error == pytest.approx(
        scale * np.sqrt(1 / X.size + (at - X.mean()) ** 2 / np.sum((X - X.mean()) ** 2))
    )
    assert fit.correlation == pytest.approx(np.array([[1, r := -X.mean() / np.sqrt(np.mean(X**2))], [r, 1]]))


def test_predictions_are_those_of_the_delta_method():
    """With derivatives by differences; also of one number, and of other lengths."""
    fit = adc.curve_fit(decay, X, plain(X, *TRUTH) + 0.1 * NOISE, TRUTH)
    at = np.linspace(-1, 5, 7)
    value, error = fit.predict(at)
    h = 1e-6
    slopes = np.stack(
        [(plain(at, *(fit.x + h * e)) - plain(at, *(fit.x - h * e))) / (2 * h) for e in np.eye(3)], 1
    )
    assert value == pytest.approx(plain(at, *fit.x))
    assert error == pytest.approx(np.sqrt(np.diagonal(slopes @ fit.cov @ slopes.T)), rel=1e-6)
    one = fit.predict(at[2])
    assert np.shape(one[0]) == np.shape(one[1]) == ()
    assert one == pytest.approx((value[2], error[2]))
    assert fit.predict([0, 1])[0] == pytest.approx(plain(np.arange(2), *fit.x))
    again = pickle.loads(pickle.dumps(fit))
    assert again.predict(at)[1] == pytest.approx(error)
    assert again.profile("a") == pytest.approx(fit.profile("a"))


def test_several_variables_groups_and_containers():
    """An index of groups stays an integer; one number of an array has a profile of its own."""
    model = adc.compile("def f(t, k, p): return p['scale'] * exp(-p['rate'][k] * t)", backend="numpy")
    groups = np.arange(X.size) % 2
    y = 2 * np.exp(-np.array([0.5, 1.5])[groups] * X) + 0.05 * NOISE
    fit = adc.curve_fit(model, (X, groups), y, {"scale": 1.0, "rate": np.array([1.0, 1.0])})
    value, error = fit.predict((X[:5], groups[:5]))
    assert value == pytest.approx(y[:5] - 0.05 * NOISE[:5], abs=0.05)
    assert (error > 0).all()

    def apart(x, scale, *rates):
        return scale * np.exp(-np.array(rates)[groups] * x)

    height = stats.f.ppf(0.95, 1, X.size - 3) * 2 * fit.cost / (X.size - 3)
    best = np.array([fit.params["scale"], *fit.params["rate"]])
    assert fit.profile("rate[1]") == pytest.approx(scipys_profile(apart, X, y, best, 2, height), rel=1e-5)
    assert fit.profile("scale") == pytest.approx(scipys_profile(apart, X, y, best, 0, height), rel=1e-5)
    with pytest.raises(adc.Error, match="rate is an array\n  help: pass one of 'scale', 'rate"):
        fit.profile("rate")
    with pytest.raises(adc.Error, match="xdata has 1 arrays, but the fit had 2"):
        fit.predict(X)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, bool])
def test_integers_are_floats_unless_the_model_needs_them(dtype):
    """As in SciPy, where `x**9` of integers does not overflow; an index stays what it is."""
    k = np.arange(40).astype(dtype)
    value = np.array([1.0, 3.0])
    index = adc.compile("def f(t, k, v): return v[where(k, 1, 0)] * t", backend="numpy")
    assert adc.curve_fit(
        index, (1.0 + np.arange(40), k), value[(k != 0) * 1] * (1 + np.arange(40)), np.ones(2)
    ).x == (pytest.approx(value))
    power = adc.compile("def f(k, a, b): return a * (1000 * k)**9 + b", backend="numpy")
    fit = adc.curve_fit(power, k, 2e-27 * (1000.0 * k) ** 9 + 1, (1e-27, 0.0))
    assert fit.x == pytest.approx((2e-27, 1), rel=1e-6)
    if dtype is not bool:
        fit = adc.curve_fit(adc.compile("def f(k, v): return v[k % 2]"), k, value[k % 2], np.ones(2))
        assert fit.predict(np.array([1, 0], dtype))[0] == pytest.approx([3, 1])
    single = adc.compile("def f(x: f32[n], a: f32): return a * x", backend="numpy")
    x = np.arange(5, dtype=np.float32)
    assert adc.curve_fit(single, x, 2 * x, np.float32(1)).x == pytest.approx([2], rel=1e-5)
    annotated = adc.compile("def f(k: f64[n], a): return a * k", backend="numpy")
    assert adc.curve_fit(annotated, k, 3.0 * k).x == pytest.approx([3])


def test_an_interval_ends_at_a_bound_or_nowhere():
    """A saturation that the data hardly show: the rate has no upper end."""
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    y = np.array([1.02, 0.97, 1.01, 0.99, 1.0])
    step = adc.compile("a * (1 - exp(-b * x))", args="x, a, b", backend="numpy")
    fit = adc.curve_fit(step, x, y, (1.0, 3.0))
    low, high = fit.profile("b")
    assert 0 < low < fit.x[1]
    assert high == np.inf
    bounded = adc.curve_fit(step, x, y, (1.0, 3.0), bounds=(None, {"b": 50}))
    assert bounded.profile("b") == pytest.approx((low, 50), rel=1e-3)


def test_a_model_that_is_not_finite_everywhere():
    """Beyond the end of its domain a model cannot be fitted, and the interval ends before."""
    root = adc.compile("sqrt(x - a)", args="x, a", backend="numpy")
    x = np.array([0.0, 1.0, 2.0, 3.0])
    with np.errstate(invalid="ignore"):
        fit = adc.curve_fit(root, x, np.sqrt(x + 0.2) + 0.3 * NOISE[:4], -0.5)
        low, high = fit.profile("a")
    assert low < fit.x[0] < high <= 1e-6


def test_a_perfect_fit_has_no_width():
    line = adc.compile("a + b * x", args="x, a, b", backend="numpy")
    x = np.arange(4.0)
    fit = adc.curve_fit(line, x, 0 * x, (0.0, 0.0))
    assert fit.profile("a") == (0, 0)
    assert fit.correlation[0, 1] == pytest.approx(-1.5 / np.sqrt(3.5))
    assert fit.predict(x)[1] == pytest.approx(0 * x)


def test_refusals():
    fit = adc.curve_fit(michaelis, CONC, RATE, {"limit": 200, "half": 0.1})
    with pytest.raises(adc.Error, match="the fit has no parameter 'K'\n  help: pass one of 'limit', 'half'"):
        fit.profile("K")
    with pytest.raises(adc.Error, match="is not a level"):
        fit.profile("half", 95)
    held = adc.curve_fit(michaelis, CONC, RATE, {"limit": 200, "half": 0.1}, fixed="half")
    with pytest.raises(adc.Error, match="half was fixed\n  help: pass one of 'limit'"):
        held.profile("half")
    robust = adc.curve_fit(michaelis, CONC, RATE, {"limit": 200, "half": 0.1}, loss="huber")
    with pytest.raises(adc.Error, match="profile does not take the loss 'huber'"):
        robust.profile("half")
    twice = adc.compile("def f(x, a, b): return a * x + 2 * b * x", backend="numpy")
    vague = adc.curve_fit(twice, X, X)
    assert np.isnan(vague.correlation).all()
    assert np.isinf(vague.predict(X)[1]).all()
    with pytest.raises(adc.Error, match="the data do not determine all parameters"):
        vague.profile("a")
    residuals = adc.compile("def r(p): return p - 1", backend="numpy")
    with pytest.raises(adc.Error, match="predict needs a model of data"):
        adc.least_squares(residuals, np.ones(3)).predict(X)


def test_a_fit_that_is_not_the_best_is_reported():
    """The profile passes by the better minimum."""
    wave = adc.compile("sin(w * x)", args="x, w", backend="numpy")
    x = np.linspace(0, 10, 25)
    fit = adc.curve_fit(wave, x, np.sin(1.4 * x) + 0.01 * NOISE[:25], 2.1)
    assert abs(fit.x[0] - 1.4) > 0.1
    with pytest.raises(adc.Error, match=r"the cost is lower at w = .*(?s:.*)fit again from another start"):
        fit.profile("w", 0.9999)
