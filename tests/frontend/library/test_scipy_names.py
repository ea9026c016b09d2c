"""What SciPy calls distributions and special functions: what a message names instead is SciPy's value."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import adcompiler as adc
from adcompiler.frontend.grammar.scipy_names import DISTRIBUTIONS, SPECIAL

# A point and the parameters for each, as SciPy takes them.
POINTS = {
    "bernoulli": (1.0, 0.3), "beta": (0.4, 2.5, 1.5), "binom": (2.0, 5.0, 0.3), "cauchy": (0.7,),
    "chi2": (1.7, 3.0), "dirichlet": (np.array([0.2, 0.5, 0.3]), np.array([1.5, 2.0, 0.7])), "expon": (0.6,),
    "f": (1.3, 4.0, 7.0), "gamma": (1.7, 2.5), "geom": (3.0, 0.4), "gumbel_r": (0.3,), "halfnorm": (0.8,),
    "invgamma": (0.9, 2.5), "laplace": (-0.4,), "logistic": (0.3,), "lognorm": (1.7, 0.6),
    "multivariate_normal": (np.array([0.3, 1.2]), np.array([0.1, 0.9]), np.array([[2.0, 0.3], [0.3, 1.0]])),
    "nbinom": (3.0, 4.0, 0.4), "pareto": (1.7, 2.5), "poisson": (3.0, 2.2), "rayleigh": (0.8,),
    "t": (-0.8, 4.0), "uniform": (0.3,), "weibull_min": (0.8, 1.7),
}  # fmt: skip
DISCRETE = ("bernoulli", "binom", "geom", "nbinom", "poisson")


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_formulas_of_distributions(name):
    found, args = DISTRIBUTIONS[name], POINTS[name]
    params, theirs = found.params.split(", "), getattr(stats, name)
    names = {"log": "logpmf" if name in DISCRETE else "logpdf", "below": "cdf", "above": "sf"}
    for kind, method in names.items():
        formula = getattr(found, kind)
        if formula:
            ours = adc.compile(formula, args=params, backend="numpy")(*args)
            assert ours == pytest.approx(getattr(theirs, method)(*args), rel=1e-11)


CALLS = {
    "chi2.pdf(x, 3)": "write exp(xlogy(k / 2 - 1, x)", "stats.chi2.cdf(x, 3)": "write gammainc(k / 2, x / 2)",
    "scipy.stats.t.logpdf(x, 3)": "write lgamma((v + 1) / 2)", "gamma.sf(x, 2.0)": "write gammaincc(a, x)",
    "poisson.logpmf(2, x)": "write xlogy(k, m) - m - lgamma(k + 1) for poisson.logpmf(k, m)",
    "beta.logcdf(x, 1, 2)": "write log(betainc(a, b, x))", "expon.rvs(3)": "draw the numbers before the call",
    "dirichlet.cdf(x, x)": "dirichlet.logpdf(x, a) is sum(", "norm.sf(x)": "write norm.cdf(-x)",
    "stats.norm.logsf(x)": "write norm.logcdf(-x)", "norm.isf(x)": "write -norm.ppf(x)",
    "norm.pdf(x, loc=1.0)": "write norm.pdf((x - m) / s) / s", "rgamma(x)": "write 1 / gamma(x)",
    "special.y0(x)": "none of the second kind; adc.primitive", "k1(x)": "none of the second kind",
    "zeta(x)": "adc.primitive", "scipy.special.comb(5, 2) * x": "write exp(lgamma(n + 1)",
}  # fmt: skip


@pytest.mark.parametrize("form", ["{}", "def f(x):\n    return {}"])
@pytest.mark.parametrize("call", CALLS)
def test_messages_name_what_to_write(call, form):
    with pytest.raises(adc.ParseError) as found:
        adc.compile(form.format(call), backend="numpy")(np.array([0.3, 0.7]))
    assert CALLS[call] in found.value.remedy
    assert found.value.column is not None


NUMBERS = {
    "factorial": "n", "comb": "n, k", "poch": "z, m", "multigammaln": "a, d", "entr": "x", "rel_entr": "x, y",
    "kl_div": "x, y", "huber": "d, r", "pseudo_huber": "d, r", "rgamma": "x", "gammasgn": "x",
    "betaincc": "a, b, x",
    "chdtr": "v, x", "chdtrc": "v, x", "gdtr": "a, b, x", "gdtrc": "a, b, x", "pdtr": "k, m", "pdtrc": "k, m",
    "bdtr": "k, n, p", "fdtr": "a, b, x", "stdtr": "df, t", "loggamma": "x", "binom": "n, k",
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_formulas_of_special_functions(name):
    params = NUMBERS[name].split(", ")
    values = {"n": 5, "k": 2, "m": 3, "d": 2, "a": 2.5, "b": 1.5, "p": 0.3, "x": 0.7, "df": 3.0}
    args = [values.get(p, 0.6) for p in params]
    formula = SPECIAL[name].removeprefix("write ").partition(", or ")[0].partition(", where")[0]
    static = ("d",) if "range" in formula else ()
    source = f"def f({NUMBERS[name]}):\n    return {formula}"
    ours = adc.compile(source, static=static, backend="numpy")(*args)
    assert ours == pytest.approx(getattr(special, name)(*args), rel=1e-11)


X, M = np.array([0.3, -0.7, 1.1]), np.arange(6.0).reshape(2, 3)
PARTS = ("np.real(x)", "np.imag(x)", "np.conj(x)", "np.conjugate(x)", "x.real", "x.imag", "x.conj()",
         "np.atleast_1d(x)", "np.atleast_2d(x)", "np.hstack(x)", "np.vstack(x)", "np.hstack((x,))",
         "np.vstack((x,))", "np.column_stack((x,))")  # fmt: skip


OF_NUMBERS = [text for text in PARTS if text.startswith("np.") and "stack(x)" not in text]


@pytest.mark.parametrize(
    ("value", "text"),
    [*((X, text) for text in PARTS), *((M, text) for text in PARTS), *((0.4, text) for text in OF_NUMBERS)],
)
def test_parts_of_real_numbers_and_stacks_of_one_array(text, value):
    """As in NumPy, with derivatives; `hstack(x)` is of the rows of one array."""
    f = adc.compile(f"def f(x):\n    return {text}", backend="numpy")
    expected = eval(text, {"np": np, "x": value})
    assert np.shape(f(value)) == np.shape(expected)
    np.testing.assert_array_equal(f(value), expected)
    slope = adc.grad(adc.compile(f"def f(x):\n    return sum({text} ** 2)", backend="numpy"))(value)
    np.testing.assert_allclose(slope, 0 * value if "imag" in text else 2 * np.asarray(value))


def test_parts_of_python_numbers():
    f = adc.compile("def f(x):\n    return real(2.0) * x + np.atleast_1d(3.0) + imag(2) + np.ravel(1.0)")
    np.testing.assert_array_equal(f(X), 2 * X + 4)
