"""SciPy's functions that the language does not have: what a message names instead is SciPy's value."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import adcompiler as adc
from adcompiler.frontend.grammar.scipy_names import SPECIAL

CALLS = {
    "expon.rvs(3)": "draw the numbers before the call",
    "dirichlet.cdf(x, x)": "dirichlet.logpdf(x, a) is sum(",
    "multivariate_normal.logpdf(x, x, x)": "slogdet(C)[1]", "stats.binom.ppf(x, 3, x)": "binom has pmf",
    "poisson.isf(x, 3)": "call SciPy outside", "norm_pdf(x, loc=1.0)": "write norm.pdf(x, loc, scale)",
    "rgamma(x)": "write 1 / gamma(x)",
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
