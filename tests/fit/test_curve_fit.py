"""`adc.curve_fit` reaches certified answers and agrees with SciPy's."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from fit.nist import DATA
from scipy import optimize

import adcompiler as adc

QUICK = ("Misra1a", "BoxBOD", "Thurber", "Lanczos3", "Nelson")
# Exact data: their residuals are as large as the rounding of float64, and so is the certified deviation.
DEVIATION = {"Lanczos1": 5e-3}


@pytest.mark.filterwarnings("ignore:overflow")  # at rejected points
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in DATA]
)
def test_certified_parameters_and_standard_errors(name, start):
    data = DATA[name]
    result = adc.curve_fit(data.function, data.x, data.y, data.starts[start])
    values, deviations = zip(*data.certified, strict=True)
    assert result.params == pytest.approx(values, rel=1e-6)
    assert result.stderr == pytest.approx(deviations, rel=DEVIATION.get(name, 1e-6))
    assert 2 * result.cost == pytest.approx(data.squares, rel=DEVIATION.get(name, 1e-9))


X = np.linspace(0, 4, 40)
SIGMA = 0.05 + 0.02 * X
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + SIGMA * np.random.default_rng(1).normal(size=X.size)


@adc.function(backend="numpy")
def decay(x, a, b, c):
    return a * exp(-b * x) + c  # noqa: F821


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"sigma": SIGMA},
        {"sigma": SIGMA, "absolute_sigma": True},
        {"sigma": np.diag(SIGMA**2) + 2e-4, "absolute_sigma": True},
        {"bounds": (0, [3.0, 2.0, 0.48])},
    ],
)
def test_agrees_with_scipy(keywords):
    start = np.array([1, 1, 0.2])
    tight = {"method": "trf", "ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14, "x_scale": "jac"}
    params, cov = optimize.curve_fit(
        lambda x, a, b, c: a * np.exp(-b * x) + c, X, Y, start, **keywords, **tight
    )
    result = adc.curve_fit(decay, X, Y, start, **keywords)
    assert result.params == pytest.approx(params, rel=1e-5)
    assert result.cov == pytest.approx(cov, rel=1e-4)


def test_the_result_is_scipys_with_additions():
    """Intervals are of Student's t, or normal if the deviations are known; the result can be pickled."""
    result = adc.curve_fit(decay, X, Y, (1, 1, 1))
    assert isinstance(result, optimize.OptimizeResult)
    assert result.success
    lower, upper = result.confidence(0.95)
    assert (np.array(upper) - lower) / (2 * np.array(result.stderr)) == pytest.approx(2.0262, rel=1e-4)
    known = adc.curve_fit(decay, X, Y, (1, 1, 1), SIGMA, absolute_sigma=True)
    lower, upper = known.confidence(0.95)
    assert (np.array(upper) - lower) / (2 * np.array(known.stderr)) == pytest.approx(1.95996, rel=1e-4)
    assert pickle.loads(pickle.dumps(result)).stderr == result.stderr
    assert "params" in repr(result)


@dataclass
class Decay:
    scale: float
    rate: float
    floor: float


def test_parameters_nest_like_the_start():
    """Each parameter by position or name, or all in one container; float32 data are fitted in float64."""
    truth = adc.curve_fit(decay, X, Y).x
    named = adc.curve_fit(
        decay, X, Y, {"c": 1, "b": 1.0, "a": 1}, bounds=({"a": 0, "b": None, "c": 0.1}, None)
    )
    assert named.params == pytest.approx(dict(zip("abc", truth, strict=True)), rel=1e-5)
    assert isinstance(adc.curve_fit(decay, X, Y, np.ones(3)).params, np.ndarray)
    single = adc.compile("def f(x, p): return p.scale * exp(-p.rate * x) + p.floor", backend="numpy")
    found = adc.curve_fit(single, X.astype(np.float32), Y.astype(np.float32), Decay(1.0, 1.0, 1.0))
    assert isinstance(found.params, Decay)
    assert isinstance(found.stderr, Decay)
    assert found.x == pytest.approx(truth, rel=1e-5)


def test_several_independent_variables():
    u, v = np.random.default_rng(2).normal(size=(2, 30))
    apart = adc.compile("def f(u, v, a, b): return a * u + b * v**2", backend="numpy")
    together = adc.compile("def f(x, a, b): return a * x[0] + b * x[1]**2", backend="numpy")
    for f, x in ((apart, (u, v)), (together, np.array([u, v]))):
        assert adc.curve_fit(f, x, 3 * u - 2 * v**2, (1, 1)).params == pytest.approx((3, -2))


def test_parameters_that_the_data_do_not_determine_have_no_finite_error():
    twice = adc.compile("def f(x, a, b): return a * x + 2 * b * x", backend="numpy")
    result = adc.curve_fit(twice, X, Y, (1, 1))
    assert np.isinf(result.cov).all()


def test_a_robust_loss_has_hubers_covariance():
    """Outliers hardly change the fit, and the covariance is that of an M-estimate, computed here by hand."""
    spoiled = Y.copy()
    spoiled[::7] += 3
    result = adc.curve_fit(decay, X, spoiled, (1, 1, 1), loss="soft_l1", f_scale=0.05)
    a, b, _ = result.x
    assert abs(result.x - adc.curve_fit(decay, X, Y).x).max() < 0.2
    jacobian = np.stack([np.exp(-b * X), -a * X * np.exp(-b * X), np.ones_like(X)], axis=1)
    z = (result.fun / 0.05) ** 2
    slope = result.fun / np.sqrt(1 + z)
    inverse = np.linalg.inv(jacobian.T @ (jacobian * ((1 + z) ** -1.5)[:, None]))
    expected = inverse @ jacobian.T @ jacobian @ inverse * (slope @ slope) / (X.size - 3)
    assert result.cov == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "keywords", "cause"),
    [
        ((X, Y[:-1], (1, 1, 1)), {}, r"returns an array of shape \(40,\), but ydata has shape \(39,\)"),
        ((X, Y, (1, 1)), {}, "p0 has 2 values, but decay.* has 3 parameters besides 1 of xdata"),
        ((X, Y, (1, 1, np.nan)), {}, r"p0\[2\] is nan"),
        ((np.append(X[:-1], np.inf), Y, (1, 1, 1)), {}, r"xdata\[39\] is inf"),
        ((X, Y, (1, 1, 1), SIGMA[:3]), {}, "sigma has shape"),
        ((X, Y, (1, 1, 1), 0 * SIGMA), {}, "not positive"),
        ((X, Y, (1, 1, 1)), {"jac": "2-point"}, "no option 'jac'\n  help: the Jacobian is exact"),
        ((X, Y, (1, 1, 1)), {"bounds": (2, None)}, "number 0 of p0, 1.0, is outside its bounds"),
        (([], [], (1, 1, 1)), {}, "no residuals"),
        ((X, Y, {"a": 1, "b": 1, "d": 1}), {}, "p0 has the keys 'a', 'b', 'd'"),
        ((X, Y + 1j, (1, 1, 1)), {}, "ydata is complex"),
    ],
)
def test_refusals(arguments, keywords, cause):
    with pytest.raises(adc.Error, match=cause):
        adc.curve_fit(decay, *arguments, **keywords)
