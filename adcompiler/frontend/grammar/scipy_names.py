"""SciPy's special functions that are not in the language, and their replacements."""

from __future__ import annotations

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
         "hyp1f1", "hyp2f1", "ellipk", "ellipkm1", "ellipe", "ellipkinc", "ellipeinc",
         "owens_t", "spherical_jn", "spherical_yn",
         "spence", "sici", "shichi", "fresnel",
         "lambertw"),
        f"it is not part of the language; {OWN}",
    ),
}  # fmt: skip
