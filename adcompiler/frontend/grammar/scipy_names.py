"""SciPy's distributions and special functions missing from the language, and their replacements.

Formulas are texts in the language. Those of distributions are for the standard form; with `loc` and `scale`,
use (x - loc) / scale and divide the density by scale.
"""

from __future__ import annotations

from typing import NamedTuple

from adcompiler.frontend.grammar.other_languages import DRAW


class Distribution(NamedTuple):
    """The parameters of SciPy's methods, the log density or log probability, and the probabilities below and
    above x.

    A text is empty if there is no short formula.
    """

    params: str
    log: str
    below: str = ""
    above: str = ""


DISTRIBUTIONS = {
    "bernoulli": Distribution("k, p", "xlogy(k, p) + xlog1py(1 - k, -p)"),
    "beta": Distribution(
        "x, a, b", "xlogy(a - 1, x) + xlog1py(b - 1, -x) - lbeta(a, b)", "betainc(a, b, x)",
        "betainc(b, a, 1 - x)",
    ),
    "binom": Distribution(
        "k, n, p",
        "lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + xlogy(k, p) + xlog1py(n - k, -p)",
        "betainc(n - k, k + 1, 1 - p)", "betainc(k + 1, n - k, p)",
    ),
    "cauchy": Distribution("x", "-log(pi) - log1p(x**2)", "0.5 + atan(x) / pi", "0.5 - atan(x) / pi"),
    "chi2": Distribution(
        "x, k", "xlogy(k / 2 - 1, x) - x / 2 - k / 2 * log(2) - lgamma(k / 2)", "gammainc(k / 2, x / 2)",
        "gammaincc(k / 2, x / 2)",
    ),
    "dirichlet": Distribution("x, a", "sum(xlogy(a - 1, x)) + lgamma(sum(a)) - sum(lgamma(a))"),
    "expon": Distribution("x", "-x", "-expm1(-x)", "exp(-x)"),
    "f": Distribution(
        "x, n, m",
        "xlogy(n / 2 - 1, x) + n / 2 * log(n / m) - (n + m) / 2 * log1p(n * x / m) - lbeta(n / 2, m / 2)",
        "betainc(n / 2, m / 2, n * x / (n * x + m))", "betainc(m / 2, n / 2, m / (n * x + m))",
    ),
    "gamma": Distribution("x, a", "xlogy(a - 1, x) - x - lgamma(a)", "gammainc(a, x)", "gammaincc(a, x)"),
    "geom": Distribution(
        "k, p", "xlog1py(k - 1, -p) + log(p)", "-expm1(k * log1p(-p))", "exp(k * log1p(-p))"
    ),
    "gumbel_r": Distribution("x", "-x - exp(-x)", "exp(-exp(-x))", "-expm1(-exp(-x))"),
    "halfnorm": Distribution("x", "norm.logpdf(x) + log(2)", "erf(x / sqrt(2))", "erfc(x / sqrt(2))"),
    "invgamma": Distribution(
        "x, a", "-(a + 1) * log(x) - 1 / x - lgamma(a)", "gammaincc(a, 1 / x)", "gammainc(a, 1 / x)"
    ),
    "laplace": Distribution(
        "x", "-abs(x) - log(2)", "where(x < 0, exp(x) / 2, 1 - exp(-x) / 2)",
        "where(x < 0, 1 - exp(x) / 2, exp(-x) / 2)",
    ),
    "logistic": Distribution("x", "-x - 2 * softplus(-x)", "sigmoid(x)", "sigmoid(-x)"),
    "lognorm": Distribution(
        "x, s", "norm.logpdf(log(x) / s) - log(s * x)", "norm.cdf(log(x) / s)", "norm.cdf(-log(x) / s)"
    ),
    "multivariate_normal": Distribution(
        "x, m, C", "-0.5 * ((x - m) @ solve(C, x - m) + slogdet(C)[1] + len(x) * log(2 * pi))"
    ),
    "nbinom": Distribution(
        "k, n, p", "lgamma(k + n) - lgamma(k + 1) - lgamma(n) + n * log(p) + xlog1py(k, -p)",
        "betainc(n, k + 1, p)", "betainc(k + 1, n, 1 - p)",
    ),
    "pareto": Distribution("x, b", "log(b) - (b + 1) * log(x)", "1 - x**-b", "x**-b"),
    "poisson": Distribution(
        "k, m", "xlogy(k, m) - m - lgamma(k + 1)", "gammaincc(k + 1, m)", "gammainc(k + 1, m)"
    ),
    "rayleigh": Distribution("x", "log(x) - x**2 / 2", "-expm1(-(x**2) / 2)", "exp(-(x**2) / 2)"),
    "t": Distribution(
        "x, v", "lgamma((v + 1) / 2) - lgamma(v / 2) - log(v * pi) / 2 - (v + 1) / 2 * log1p(x**2 / v)",
        "0.5 + 0.5 * sign(x) * betainc(0.5, v / 2, x**2 / (v + x**2))",
        "0.5 - 0.5 * sign(x) * betainc(0.5, v / 2, x**2 / (v + x**2))",
    ),
    "uniform": Distribution("x", "where((x >= 0) & (x <= 1), 0, -inf)", "clip(x, 0, 1)", "1 - clip(x, 0, 1)"),
    "weibull_min": Distribution("x, c", "log(c) + xlogy(c - 1, x) - x**c", "-expm1(-(x**c))", "exp(-(x**c))"),
}  # fmt: skip
NORMAL = {"sf": "norm.cdf(-x)", "logsf": "norm.logcdf(-x)", "isf": "-norm.ppf(x)"}
_STATS = ("", "stats", "scipy.stats", "jax.scipy.stats")
_METHODS = {
    "logpdf": "{log}", "logpmf": "{log}", "pdf": "exp({log})", "pmf": "exp({log})", "cdf": "{below}",
    "sf": "{above}", "logcdf": "log({below})", "logsf": "log({above})",
}  # fmt: skip

OWN = "adc.primitive adds your own function from a formula and its derivatives"
SECOND_KIND = f"the supported Bessel functions are j0, j1, jn, i0, i1 and ive, none of the second kind; {OWN}"
# Special functions, with SciPy's arguments.
SPECIAL = {
    "rgamma": "write 1 / gamma(x), or exp(-lgamma(x)) if x is positive",
    "loggamma": "write lgamma(x), where x is positive",
    "gammasgn": "write where((x > 0) | (floor(x) % 2 == 0), 1, -1)",
    "factorial": "write gamma(n + 1)",
    "comb": "write exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1))",
    "binom": "write exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1))",
    "poch": "write exp(lgamma(z + m) - lgamma(z))",
    "multigammaln": "write d * (d - 1) / 4 * log(pi) + sum(lgamma(a - 0.5 * j) for j in range(d))",
    "entr": "write -xlogy(x, x)",
    "rel_entr": "write xlogy(x, x / y)",
    "kl_div": "write xlogy(x, x / y) - x + y",
    "huber": "write where(abs(r) <= d, 0.5 * r**2, d * (abs(r) - 0.5 * d))",
    "pseudo_huber": "write d**2 * (sqrt(1 + (r / d)**2) - 1)",
    "boxcox": "write (x**p - 1) / p, and log(x) for p = 0",
    "betaincc": "write betainc(b, a, 1 - x)",
    "chdtr": "write gammainc(v / 2, x / 2)",
    "chdtrc": "write gammaincc(v / 2, x / 2)",
    "gdtr": "write gammainc(b, a * x)",
    "gdtrc": "write gammaincc(b, a * x)",
    "pdtr": "write gammaincc(k + 1, m)",
    "pdtrc": "write gammainc(k + 1, m)",
    "bdtr": "write betainc(n - k, k + 1, 1 - p)",
    "fdtr": "write betainc(a / 2, b / 2, a * x / (a * x + b))",
    "stdtr": "write 0.5 + 0.5 * sign(t) * betainc(0.5, df / 2, t**2 / (df + t**2))",
    **dict.fromkeys(
        ("y0", "y1", "yn", "yv", "yve", "k0", "k1", "kn", "kv", "kve", "k0e", "k1e"), SECOND_KIND
    ),
    **dict.fromkeys(
        ("zeta", "zetac", "expi", "exp1", "expn", "dawsn", "wofz", "erfi", "struve", "airy", "hyp0f1",
         "hyp1f1", "hyp2f1", "ellipk", "ellipkm1", "ellipe", "ellipkinc", "ellipeinc", "gammaincinv",
         "gammainccinv", "betaincinv", "owens_t", "spherical_jn", "spherical_yn",
         "spence", "sici", "shichi", "fresnel",
         "lambertw"),
        f"it is not part of the language; {OWN}",
    ),
}  # fmt: skip


def of_scipy(whole: str) -> str | None:
    """A suggestion for a SciPy distribution function, such as `scipy.stats.chi2.pdf`; None for others."""
    *before, name, method = ["", *whole.split(".")]
    if ".".join(before).strip(".") not in _STATS:
        return None
    if name == "norm" and method in NORMAL:
        return f"write {NORMAL[method]}"
    if name not in DISTRIBUTIONS or not method:
        return None
    if method == "rvs":
        return DRAW
    found = DISTRIBUTIONS[name]
    formula = _METHODS.get(method, "").format(**found._asdict())
    if formula in ("", "log()"):
        return f"{name}.logpdf({found.params}) is {found.log}; for others call SciPy outside"
    return f"write {formula} for {name}.{method}({found.params})"
