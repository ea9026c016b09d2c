"""`adc.fit.batch` finds for each fit what SciPy finds, and what fails disturbs no other fit."""

from __future__ import annotations

import io
import math
import pickle
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from fit.nist import DATA
from numba import njit
from scipy import optimize

import adcompiler as adc
from adcompiler.fit import batch_waves, watch

RANDOM = np.random.default_rng(3)
X = np.linspace(0.1, 4, 24)


@adc.function(backend="numpy")
def decay(x, a, b, c):
    return a * exp(-b * x) + c  # noqa: F821


@adc.function(backend="numpy")
def logistic(x, top, bottom, middle, slope):
    return bottom + (top - bottom) / (1 + exp(slope * (middle - x)))  # noqa: F821


@adc.function(backend="numpy")
def peak(x, height, place, width):
    return height * exp(-(((x - place) / width) ** 2) / 2)  # noqa: F821


MODELS = {
    decay: ([(1, 3), (0.5, 2), (0, 1)], (1.0, 1.0, 0.5)),
    logistic: ([(2, 3), (0, 0.5), (1.5, 2.5), (1.5, 4)], (2.0, 0.5, 2.0, 2.0)),
    peak: ([(1, 3), (1.5, 2.5), (0.4, 0.9)], (1.0, 2.0, 1.0)),
}


def data(model, fits, noise=0.03):
    """Random data of a model, and the start of their fits."""
    ranges, start = MODELS[model]
    truth = [RANDOM.uniform(low, high, fits) for low, high in ranges]
    y = np.stack([model(X, *p) for p in zip(*truth, strict=True)])
    return y + noise * RANDOM.normal(size=y.shape), start


def scipys(model, x, y, start, sigma=1.0, **options):
    """SciPy's solution of one fit, with the last digits from a few steps of Gauss and Newton."""
    slopes = adc.jacobian(model, tuple(range(1, len(start) + 1)))

    def residuals(p):
        return (model(x, *p) - y) / sigma

    def jacobian(p):
        return np.stack(slopes(x, *p), axis=1) / np.reshape(sigma, (-1, 1))

    tight = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15, "x_scale": "jac"}
    found = optimize.least_squares(residuals, start, jacobian, **tight, **options)
    p = found.x
    for _ in range(0 if options else 8):
        p = p - np.linalg.lstsq(jacobian(p), residuals(p))[0]
    return p, np.linalg.inv(jacobian(p).T @ jacobian(p)), found.cost


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_agrees_with_scipy(model):
    y, start = data(model, 4)
    result = adc.fit.batch(model, X, y, start)
    assert result.success.all()
    for k in range(len(y)):
        params, inverse, cost = scipys(model, X, y[k], start)
        assert result.x[k] == pytest.approx(params, rel=1e-8, abs=1e-9)
        assert result.cost[k] == pytest.approx(cost, rel=1e-10)
        cov = inverse * 2 * cost / (len(X) - len(start))
        assert result.cov[k] == pytest.approx(cov, rel=1e-6)
        assert result.stderr[k] == pytest.approx(np.sqrt(np.diagonal(cov)), rel=1e-6)


@pytest.mark.slow
def test_standard_deviations_and_intervals_are_those_of_curve_fit():
    """Of a number, of each point, and of each point of each fit; known absolutely or not."""
    y, start = data(decay, 3)
    for sigma in (0.1, 0.02 + 0.01 * X, RANDOM.uniform(0.02, 0.05, y.shape)):
        for absolute in (False, True):
            result = adc.fit.batch(decay, X, y, start, sigma, absolute)
            for k in range(3):
                own = sigma[k] if np.ndim(sigma) == 2 else sigma
                one = adc.curve_fit(decay, X, y[k], start, own, absolute)
                assert result.cov[k] == pytest.approx(one.cov, rel=1e-5)
                assert result.cost[k] == pytest.approx(one.cost)
                for side in (0, 1):
                    limits = result.confidence(0.9)[side][k]
                    assert limits == pytest.approx(np.array(one.confidence(0.9)[side]), rel=1e-5)


@pytest.mark.parametrize("name", ["Rat43", "Nelson", pytest.param("Lanczos3", marks=pytest.mark.slow)])
def test_certified_parameters(name):
    """Those of NIST, whose Jacobians have columns that are almost dependent."""
    case = DATA[name]
    result = adc.fit.batch(case.function, case.x, case.y[None], np.array(case.starts[1], float))
    values, deviations = zip(*case.certified, strict=True)
    assert result.x[0] == pytest.approx(values, rel=1e-6)
    assert result.stderr[0] == pytest.approx(deviations, rel=1e-6)


def test_each_fit_has_its_own_status_and_disturbs_no_other():
    """On the back end for processors: bits of good fits are the same without the others."""
    f = adc.compile("def f(x, a, b): return a * exp(-b * x)")
    x = np.tile(np.linspace(0, 2, 9), (40, 1))
    y = np.exp(-x * np.arange(40)[:, None] / 20) + 0.01 * RANDOM.normal(size=(40, 9))
    start = np.ones((40, 2))
    start[3] = 1.0, -1e6  # overflows
    y[5, 1:] = np.nan  # one point
    x[7] = 1.0  # all points at one place
    result = adc.fit.batch(f, x, y, start, max_nfev=40)
    bad = {3: -1, 5: -2, 7: -3}
    assert {k: int(s) for k, s in enumerate(result.status) if s < 0} == bad
    assert np.isnan(result.x[[3, 5]]).all()
    assert np.isinf(result.cov[7]).all()
    good = [k for k in range(40) if k not in bad]
    assert result.success[good].all()
    alone = adc.fit.batch(f, x[good], y[good], start[good], max_nfev=40)
    assert np.array_equal(alone.x, result.x[good])
    assert np.array_equal(alone.cov, result.cov[good])
    one = adc.fit.batch(f, x[:1], y[:1], start[:1])
    assert np.array_equal(one.x[0], result.x[0])
    few = adc.fit.batch(f, x[good], y[good], start[good], max_nfev=2)
    assert (few.status == 0).all()
    assert (few.nfev == 2).all()
    assert not few.success.any()
    assert "37 stopped at max_nfev" in repr(few)


def test_bits_do_not_depend_on_threads():
    f = adc.compile("def f(x, a, b): return a * exp(-b * x)")
    y = np.exp(-np.outer(RANDOM.uniform(0.5, 2, 3000), X)) + 0.01 * RANDOM.normal(size=(3000, len(X)))
    threads, found = adc.get_num_threads(), []
    try:
        for count in (1, 2):
            adc.set_num_threads(count)
            found.append(adc.fit.batch(f, X, y, (1.0, 1.0)))
    finally:
        adc.set_num_threads(threads)
    assert np.array_equal(found[0].x, found[1].x)
    assert np.array_equal(found[0].cov, found[1].cov)


def test_more_fits_than_are_computed_at_once(monkeypatch):
    """New fits take the places of those that have ended."""
    y, start = data(decay, 60)
    whole = adc.fit.batch(decay, X, y, start)
    monkeypatch.setattr(batch_waves, "FEWEST_WAVE_FITS", 16)
    monkeypatch.setattr(batch_waves, "MOST_WAVE_FITS", 32)
    parts = adc.fit.batch(decay, X, y, start)
    assert parts.x == pytest.approx(whole.x, rel=1e-9)
    assert parts.cov == pytest.approx(whole.cov, rel=1e-9)
    assert parts.success.all()


def test_missing_points():
    """Where y is NaN: fits of different numbers of points are filled up with NaN."""
    y, start = data(decay, 4)
    x = np.tile(X, (4, 1))
    y[0, 3] = y[1, 10:12] = np.nan
    y[2, 15:] = x[2, 15:] = np.nan
    result = adc.fit.batch(decay, x, y, start)
    for k in range(4):
        here = np.isfinite(y[k])
        params, inverse, cost = scipys(decay, X[here], y[k, here], start)
        assert result.x[k] == pytest.approx(params, rel=1e-8, abs=1e-9)
        assert result.cov[k] == pytest.approx(inverse * 2 * cost / (here.sum() - 3), rel=1e-6)


@pytest.mark.slow
def test_float32_and_integers():
    """Data are fitted in float64; the parameters have the dtype of the start."""
    y, start = data(decay, 3)
    given = y.astype(np.float32)
    result = adc.fit.batch(decay, X.astype(np.float32), given, np.array(start, np.float32))
    assert result.params.dtype == np.float32
    assert result.x.dtype == np.float64
    exact = adc.fit.batch(decay, X.astype(np.float32).astype(float), given.astype(float), start)
    assert np.array_equal(result.x, exact.x)
    single = adc.compile(
        "def f(x: f32[n], a: f32, b: f32, c: f32): return a * exp(-b * x) + c", backend="numpy"
    )
    assert adc.fit.batch(single, X, y, start).x == pytest.approx(exact.x, rel=1e-4, abs=1e-5)
    line = adc.compile("def f(x, a, b): return a * x + b", backend="numpy")
    assert adc.fit.batch(line, np.arange(4), [[1, 3, 5, 7]], [0, 0]).x == pytest.approx(np.array([[2, 1]]))


def test_no_fits():
    result = adc.fit.batch(decay, X, np.zeros((0, len(X))), (1, 1, 1))
    assert result.x.shape == result.stderr.shape == (0, 3)
    assert result.cov.shape == (0, 3, 3)
    assert repr(result) == "<0 fits of 3 parameters: none>"


@dataclass
class Decay:
    a: float
    b: float
    c: float


class Pair(NamedTuple):
    a: float
    b: float


@pytest.mark.slow
def test_parameters_have_the_form_of_the_start():
    """An array, a dict by name, or the model's container; in these, starts of each fit are arrays."""
    y, start = data(decay, 5)
    whole = adc.fit.batch(decay, X, y, np.tile(start, (5, 1)))
    assert whole.params.shape == (5, 3)
    named = adc.fit.batch(decay, X, y, {"c": 0.5, "a": np.ones(5), "b": 1})
    assert list(named.params) == ["a", "b", "c"]
    assert named.params["b"] == pytest.approx(whole.x[:, 1])
    assert named.stderr["b"] == pytest.approx(whole.stderr[:, 1])
    field = adc.compile("def f(x, p): return p.a * exp(-p.b * x) + p.c", backend="numpy")
    found = adc.fit.batch(field, X, y, Decay(1.0, 1.0, 0.5)).params
    assert isinstance(found, Decay)
    assert found.c == pytest.approx(whole.x[:, 2])
    vector = adc.compile("def f(x, p): return p[0] * exp(-p[1] * x) + p[2]", backend="numpy")
    assert adc.fit.batch(vector, X, y, list(start)).params == pytest.approx(whole.x)
    single = adc.compile("def f(x, a): return a * x", backend="numpy")
    assert adc.fit.batch(single, X, [2 * X, 3 * X], 1.0).params == pytest.approx([2, 3])
    line = adc.compile("def f(x, p): return p.a * x + p.b", backend="numpy")
    assert adc.fit.batch(line, X, [2 * X + 1], Pair(0.0, 0.0)).params.a == pytest.approx([2])


def test_functions_of_numba_and_several_variables():
    @njit
    def plane(u, v, a, b):
        return a * u + math.pi * b * v**2

    u, v = RANDOM.normal(size=(2, 30))
    y = np.stack([plane(u, v, 3, -2), plane(u, v, 1, 4)])
    result = adc.fit.batch(plane, (u, np.tile(v, (2, 1))), y)
    assert result.params == pytest.approx(np.array([[3, -2], [1, 4]]))
    together = adc.compile("def f(x, a): return a * x[0] * x[1]", backend="numpy")
    assert adc.fit.batch(together, (u, v), np.stack([3 * u * v])).params == pytest.approx(np.array([[3]]))


@pytest.mark.slow
def test_models_with_loops_and_branches():
    """Here a differential equation by steps; each fit has its own number of them."""

    @adc.function(backend="numpy")
    def steps(x, a, b):
        out = np.zeros(len(x))
        value, time = a, 0.0
        for i in range(len(x)):
            while time < x[i]:
                value = value - 0.01 * b * value
                time = time + 0.01
            out[i] = value if value > 0 else 0.0
        return out

    x = np.stack([X[:6], X[3:9]])
    y = np.stack([steps(x[0], 2.0, 0.8), steps(x[1], 1.0, 1.3)])
    result = adc.fit.batch(steps, x, y, (1.0, 1.0))
    assert result.params == pytest.approx(np.array([[2, 0.8], [1, 1.3]]), rel=1e-6)


def test_bounds():
    y, start = data(decay, 8)
    upper = {"a": None, "b": 1.2, "c": 0.6}
    result = adc.fit.batch(decay, X, y, dict(zip("abc", start, strict=True)), bounds=(0, upper))
    limits = (0, [np.inf, 1.2, 0.6])
    assert result.success.all()
    assert np.isin(result.x, (1.2, 0.6)).any()
    for k in range(8):
        params, _, cost = scipys(decay, X, y[k], start, bounds=limits)
        assert result.cost[k] <= cost * (1 + 1e-9)
        assert result.x[k] == pytest.approx(params, rel=1e-4)


def test_the_result_can_be_pickled():
    y, start = data(decay, 2)
    result = adc.fit.batch(decay, X, y, start)
    assert np.array_equal(pickle.loads(pickle.dumps(result)).stderr, result.stderr)


def test_progress(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(watch, "terminal", lambda: stream)
    monkeypatch.setattr(watch, "PROGRESS_SECONDS", 0)
    y, start = data(decay, 3)
    adc.fit.batch(decay, X, y, start, progress=True)
    assert "adc: fit.batch, 3 of 3 fits" in stream.getvalue()


Y = np.ones((2, len(X)))


@pytest.mark.parametrize(
    ("arguments", "keywords", "cause"),
    [
        ((X, Y[0], (1, 1, 1)), {}, r"y has shape \(24,\)\n  help: pass \(fits, points\)"),
        ((X[:5], Y, (1, 1, 1)), {}, r"x has shape \(5,\), but y has \(2, 24\)"),
        ((X[:2], Y[:, :2], (1, 1, 1)), {}, "y has 2 points for each fit, but a fit has 3 parameters"),
        ((X, Y, (1, 1)), {}, "start has 2 values, but decay.* has 3 parameters besides 1 of x"),
        ((X, Y, np.ones((3, 3))), {}, r"start has shape \(3, 3\), but there are 2 fits"),
        ((X, Y, {"a": np.ones(3), "b": 1, "c": 1}), {}, r"start\['a'\] has shape \(3,\), but there are 2"),
        ((X, Y, [[1, 1, 1], [1, np.nan, 1]]), {}, r"start\[1, 1\] is nan"),
        ((X, np.where(X > 3, np.inf, Y), (1, 1, 1)), {}, r"y\[0, 18\] is inf"),
        (
            (np.where(X > 3, np.nan, X), Y, (1, 1, 1)),
            {},
            r"x\[18\] is nan\n  help: .* where y is NaN",
        ),
        ((X, Y, (1, 1, 1), 0.0), {}, "not positive"),
        ((X, Y, (1, 1, 1), np.ones(3)), {}, r"sigma has shape \(3,\)"),
        ((X, Y, (1, 1, 1)), {"method": "trf"}, "fit.batch has no method 'trf'\n  help: use one of 'lm'"),
        ((X, Y, (1, 1, 1)), {"max_nfev": 0}, "max_nfev is 0\n  help: pass a positive integer"),
        ((X, Y, (1, 1, 1)), {"gtol": -1}, "gtol is -1"),
        ((X, Y, (1, 1, 1)), {"bounds": (2, None)}, "the start of parameter 0 of fit 0, 1.0, is outside"),
        ((X, Y, (1, 1, 1)), {"bounds": ([0, 0], None)}, "bounds.0. has shape .2,., but a fit has 3"),
        ((X, Y + 1j, (1, 1, 1)), {}, "y is complex"),
    ],
)
def test_refusals(arguments, keywords, cause):
    with pytest.raises(adc.Error, match=cause):
        adc.fit.batch(decay, *arguments, **keywords)


def test_refused_models():
    short = adc.compile("def f(x, a): return a * x[1:]", backend="numpy")
    with pytest.raises(adc.ShapeError, match=r"f returns an array of shape \(23,\), but a fit has 24 points"):
        adc.fit.batch(short, X, Y, 1.0)
    with pytest.raises(adc.DtypeError, match="takes a compiled function"):
        adc.fit.batch(len, X, Y, 1.0)
    with pytest.raises(adc.DtypeError, match="made from another function"):
        adc.fit.batch(adc.vmap(decay, in_axes=(0, None, None, None)), X, Y)
    with pytest.raises(adc.LimitError, match="a fit has 20 parameters"):
        adc.fit.batch(adc.compile("def f(x, p): return sum(p) * x"), X, Y, np.ones(20))
