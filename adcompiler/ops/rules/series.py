"""Scalar special functions that neither the C library nor the language itself has.

Plain Python on np.float64: compiled kernels call the same functions, which numba compiles
(`targets/numba/special.py`), and they are the reference where SciPy has none. Each states its method. The
relative accuracy is some units in the last place, except near a root, where the error is absolute. `n` is an
integer.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Number = Any  # np.float64; numba compiles these functions, and Python runs them

ROOT_PI = 1.7724538509055160  # sqrt(pi)
ROOT_HALF = 0.7071067811865476  # sqrt(1 / 2)


def ierfcx(n: Number, x: Number) -> Number:
    """exp(x**2) times the n times repeated integral of erfc, of DLMF 7.18; `ierfcx(0, x)` is erfcx.

    Upwards by 2 k F[k] = F[k - 2] - 2 x F[k - 1] where x < 1, which loses digits beyond, downwards (Miller)
    above. Order 0 is right up to 2 by its definition.
    """
    order = int(n)
    before, here = np.float64(2 / ROOT_PI), np.float64(0)
    if x >= 1e8:
        here = before
        for _ in range(order + 1):
            here = here / (2 * x)
        return here
    if not x >= (2 if order == 0 else 1):
        here = np.exp(x * x) * math.erfc(x)
        for k in range(1, order + 1):
            before, here = here, (before - 2 * x * here) / (2 * k)
        return here
    after, here, found = here, here + 1e-200, here
    for k in range(order + 12 + int(200 / (x * x)), -1, -1):
        if k == order:
            found = here
        after, here = here, 2 * (k + 1) * after + 2 * x * here
    return found / here * before


def log_ndtr(x: Number) -> Number:
    """log of the standard normal's probability below x."""
    if x < -1:
        return np.log(0.5 * ierfcx(0, -ROOT_HALF * x)) - 0.5 * x * x
    return np.log1p(-0.5 * math.erfc(ROOT_HALF * x))


def norm_hazard(x: Number) -> Number:
    """The standard normal's density over its probability below x: the derivative of log_ndtr."""
    if x < -2.9:
        return 2 * ROOT_HALF / (ROOT_PI * ierfcx(0, -ROOT_HALF * x))
    return 2 * ROOT_HALF / ROOT_PI * np.exp(-0.5 * x * x) / math.erfc(-ROOT_HALF * x)


def norm_excess(x: Number) -> Number:
    """x + norm_hazard(x), without cancellation far below 0."""
    if x < -1e8:
        return -1 / x
    if x < -1.5:
        u = -ROOT_HALF * x
        return 2 * ROOT_HALF * ierfcx(1, u) / ierfcx(0, u)
    return x + norm_hazard(x)


def norm_excess_slope(x: Number) -> Number:
    """The derivative of norm_excess: 1 above 0, 1 / x**2 far below."""
    if x < -1e5:
        return (1 - 6 / (x * x)) / x / x
    if x < -0.5:
        u = -ROOT_HALF * x
        whole, once = ierfcx(0, u), ierfcx(1, u)
        once = once / whole
        return 4 * (ierfcx(2, u) / whole) - 2 * once * once
    return 1 - norm_excess(x) * norm_hazard(x) if x < 39 else np.float64(1)


def norm_excess_curvature(x: Number) -> Number:
    """The second derivative of norm_excess: 0 above 0, -2 / x**3 far below."""
    if x < -1e5:
        return -2 * (1 - 12 / (x * x)) / x / x / x
    if x < -0.5:
        u = -ROOT_HALF * x
        whole = ierfcx(0, u)
        once, twice = ierfcx(1, u) / whole, ierfcx(2, u) / whole
        return ROOT_HALF * (24 * (ierfcx(3, u) / whole) - 24 * once * twice + 8 * once * once * once)
    excess = norm_excess(x)
    return norm_hazard(x) * (excess * excess - norm_excess_slope(x)) if x < 39 else np.float64(0)


def _quantile(q: Number, tail: Number) -> Number:
    """The standard normal's quantile of the probability 0.5 + q, with `tail` beyond it on its side.

    Wichura's algorithm AS 241 (Applied Statistics 37, 1988), PPND16.
    """
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        above = (((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r + 6.7265770927008700853e4)
                     * r + 4.5921953931549871457e4) * r + 1.3731693765509461125e4) * r
                   + 1.9715909503065514427e3) * r + 1.3314166789178437745e2) * r
                 + 3.3871328727963666080)  # fmt: skip
        below = (((((((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r + 3.9307895800092710610e4)
                     * r + 2.1213794301586595867e4) * r + 5.3941960214247511077e3) * r
                   + 6.8718700749205790830e2) * r + 4.2313330701600911252e1) * r + 1)  # fmt: skip
        return q * above / below
    r = np.sqrt(-np.log(tail))
    if tail == 0:
        return np.copysign(np.inf, q)
    if r <= 5:
        r = r - 1.6
        above = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r
                      + 2.41780725177450611770e-1) * r + 1.27045825245236838258) * r
                    + 3.64784832476320460504) * r + 5.76949722146069140550) * r
                  + 4.63033784615654529590) * r + 1.42343711074968357734)  # fmt: skip
        below = (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r
                      + 1.51986665636164571966e-2) * r + 1.48103976427480074590e-1) * r
                    + 6.89767334985100004550e-1) * r + 1.67638483018380384940) * r
                  + 2.05319162663775882187) * r + 1)  # fmt: skip
    else:
        r = r - 5
        above = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r
                      + 1.24266094738807843860e-3) * r + 2.65321895265761230930e-2) * r
                    + 2.96560571828504891230e-1) * r + 1.78482653991729133580) * r
                  + 5.46378491116411436990) * r + 6.65790464350110377720)  # fmt: skip
        below = (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r
                      + 1.84631831751005468180e-5) * r + 7.86869131145613259100e-4) * r
                    + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r
                  + 5.99832206555887937690e-1) * r + 1)  # fmt: skip
    return np.copysign(above / below, q)


def ndtri(x: Number) -> Number:
    """The inverse of the standard normal's probability."""
    return _quantile(x - 0.5, x if x < 0.5 else 1 - x)


def erfinv(x: Number) -> Number:
    """The inverse of erf."""
    return ROOT_HALF * _quantile(0.5 * x, 0.5 * (1 - abs(x)))


def erfcinv(x: Number) -> Number:
    """The inverse of erfc."""
    return -ROOT_HALF * ndtri(0.5 * x)


# -- the gamma function ------------------------------------------------------------------------


def _stirling(z: Number) -> Number:
    """log(gamma(z)) less (z - 1/2) log(z) - z + log(2 pi) / 2, for z >= 10."""
    s = 1 / (z * z)
    tail = 1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * (691 / 360360 - s / 156)))
    return (1 / 12 - s * (1 / 360 - s * tail)) / z


# Coefficients of the power series of digamma at its root above 0, from the first power on.
DIGAMMA = (0.9676722454476212, -0.4427631689835921, 0.258499760955651, -0.16394270544240652,
           0.10782405069126237, -0.07219956125645471, 0.04880428816414311, -0.03316112647484736,
           0.022597648232218104, -0.01542476590494896, 0.010538791616612175, -0.007204534386356869,
           0.004926781395729853, -0.003369801655439328, 0.002305126326734928, -0.0015769367714301972,
           0.0010788252019162967, -0.0007380709389960052, 0.000504953265834602, -0.0003454680251063077,
           0.00023635601564027053, -0.00016170622091974803)  # fmt: skip


def digamma(x: Number) -> Number:
    """The first derivative of log(gamma(x)): Stirling's series above 10, the recurrence below, and the power
    series around its root."""
    below = np.float64(0)
    z = x
    if abs(x - 1.4616321449683622) < 0.25:
        s = (x - 1.4616321449683622) - 9.549995429965697e-17  # the root is their sum
        for k in range(len(DIGAMMA) - 1, -1, -1):
            below = (below + DIGAMMA[k]) * s
        return below
    if x <= 0:
        if x == 0:
            return -np.copysign(np.inf, x)
        if x == np.floor(x):
            return np.nan * x
        below = -np.pi / np.tan(np.pi * (x - np.rint(x)))
        z = 1 - x
    while z < 10:
        below = below - 1 / z
        z = z + 1
    return below + np.log(z) - _digamma_excess(z)


def _digamma_excess(z: Number) -> Number:
    """log(z) - digamma(z), for z >= 10."""
    s = 1 / (z * z)
    tail = 1 / 252 - s * (1 / 240 - s * (1 / 132 - s * (691 / 32760 - s / 12)))
    return 0.5 / z + s * (1 / 12 - s * (1 / 120 - s * tail))


def _inverse(z: Number, p: int) -> Number:
    """z**-p for p >= 0; numba's own power of a whole exponent raises at 0."""
    power = np.float64(1)
    for _ in range(p):
        power = power * z
    return 1 / power


def _power(z: Number, y: Number, p: int) -> Number:
    """z**-p - (z + y)**-p, without cancellation; z**-p for an infinite y."""
    if p == 1:
        return y / (z * (z + y)) if y < np.inf else 1 / z
    return -_inverse(z, p) * np.expm1(-p * np.log1p(y / z))


def _zeta(s: int, x: Number) -> Number:
    """Hurwitz' zeta function for whole s > 1 and x > 0, by the Euler-Maclaurin formula."""
    total = np.float64(0)
    z = x
    while z < 10 + 1.5 * s:
        total = total + _inverse(z, s)
        z = z + 1
    tail = 1 / (s - 1) + 0.5 / z
    factor = s / (z * z)
    for k in range(len(EULER)):
        tail = tail + EULER[k] * factor
        factor = factor * (s + 2 * k + 1) / z * ((s + 2 * k + 2) / z)
    return total + tail * _inverse(z, s - 1)


# Bernoulli's B2, B4, ... over the factorials of their index.
EULER = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
         -3617 / 10670622842880000)  # fmt: skip


def polygamma(n: Number, x: Number) -> Number:
    """The derivative number n + 1 of log(gamma(x))."""
    order = int(n)
    if order == 0:
        return digamma(x)
    s = order + 1
    sign = 1.0 if s % 2 == 0 else -1.0
    if not x <= 0:
        total = _zeta(s, x)
    elif x == np.floor(x):
        total = np.inf if s % 2 == 0 or x == 0 else np.nan
    else:  # the sum over all integers has period 1
        w = x - np.rint(x)
        total = _inverse(w, s) + _zeta(s, 1 + w) + sign * (_zeta(s, 1 - w) - _zeta(s, 1 - x))
    if x == 0 and sign < 0:
        total = np.copysign(total, x)
    for k in range(2, order + 1):
        total = total * k
    return sign * total


def polygamma_difference(n: Number, x: Number, y: Number) -> Number:
    """polygamma(n, x) - polygamma(n, x + y), without cancellation for small y: term by term."""
    order = int(n)
    if not (x > 0 and x + y > 0 and y < np.inf):
        return polygamma(n, x) - polygamma(n, x + y)
    s = order + 1
    total = np.float64(0)
    z = x
    while z < 10 + 1.5 * s:
        total = total + _power(z, y, s)
        z = z + 1
    lead = np.log1p(y / z) if s == 1 else _power(z, y, s - 1) / (s - 1)
    total = total + lead + 0.5 * _power(z, y, s)
    rising = 1.0 * s
    for k in range(len(EULER)):
        total = total + EULER[k] * rising * _power(z, y, s + 2 * k + 1)
        rising = rising * (s + 2 * k + 1) * (s + 2 * k + 2)
    for k in range(2, order + 1):
        total = total * k
    return total if s % 2 == 0 else -total


def lbeta(x: Number, y: Number) -> Number:
    """log(abs(beta(x, y))); with Stirling's remainders for large arguments, whose sizes would cancel."""
    p, q = min(x, y), max(x, y)
    if not (p > 0 and q < np.inf) or p < 1e-300:
        if q == np.inf and p > 0:
            return -q
        return _lgamma(p) + _lgamma(q) - _lgamma(p + q)
    both = p + q
    if p >= 10:
        rest = _stirling(p) + _stirling(q) - _stirling(both)
        lead = 0.9189385332046727 - 0.5 * np.log(q)
        return lead + rest + (p - 0.5) * np.log(p / both) + q * np.log1p(-p / both)
    if q >= 10:
        rest = _stirling(q) - _stirling(both)
        return math.lgamma(p) + rest + p - p * np.log(both) + (q - 0.5) * np.log1p(-p / both)
    return np.log(math.gamma(p) * (math.gamma(q) / math.gamma(both)))


def _lgamma(x: Number) -> Number:
    """log(abs(gamma(x))); infinite at its poles, and where it overflows."""
    if x > 2.5e305 or (x <= 0 and x == np.floor(x)):
        return np.inf
    return math.lgamma(x)


def beta(x: Number, y: Number) -> Number:
    """gamma(x) * gamma(y) / gamma(x + y)."""
    if x > 0 and y > 0 and (x + y > 20 or min(x, y) < 1e-300):
        return np.exp(lbeta(x, y))
    return _gamma(x) * (_gamma(y) / _gamma(x + y))


def _gamma(x: Number) -> Number:
    """The gamma function; NaN at its poles, and infinite where it overflows."""
    if x > 171.7:
        return np.inf
    if abs(x) < 5.6e-309:
        return np.copysign(np.inf, x)
    if x < 0 and x == np.floor(x):
        return np.nan
    return math.gamma(x)
