"""The incomplete gamma and beta functions and their derivatives by parameters, as scalar functions like those
of `series.py`.

The values are power series and continued fractions where these are short. Elsewhere, and for derivatives by
parameters, they are areas under a density: `_gamma_area` and `_beta_area` integrate from a point outwards, on
the logarithmic scale, where the density is log-concave and smooth. The integrand has one sign, so that areas
have full relative accuracy in both tails. All loops are bounded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adcompiler.ops.rules.limits import FRACTION_TERMS, PANELS, QUANTILE_STEPS, SERIES_TERMS
from adcompiler.ops.rules.series import (
    _digamma_excess,
    _lgamma,
    _stirling,
    digamma,
    lbeta,
    polygamma,
    polygamma_difference,
)

Number = Any  # np.float64; numba compiles these functions, and Python runs them

# Gauss' rule of 16 points: the positive nodes and their weights.
NODES = (0.09501250983763744, 0.2816035507792589, 0.45801677765722737, 0.6178762444026438, 0.755404408355003,
         0.8656312023878318, 0.9445750230732326, 0.9894009349916499)  # fmt: skip
WEIGHTS = (0.1894506104550685, 0.18260341504492358, 0.16915651939500254, 0.14959598881657674,
           0.12462897125553388, 0.09515851168249279, 0.062253523938647894, 0.027152459411754096)  # fmt: skip
# (-1)**k (zeta(k) - 1) / k from k = 2 on: the power series of log(gamma(2 + z)).
ZETA = (0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986,
        0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425, -0.00022315475845357939,
        9.945751278180853e-05, -4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06,
        4.374866789907488e-06, -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07,
        2.1207184805554665e-07, -1.0043224823968099e-07, 4.7698101693639804e-08, -2.2711094608943164e-08,
        1.0838659214896955e-08, -5.183475041970047e-09, 2.4836745438024785e-09, -1.1921401405860912e-09,
        5.731367241678862e-10, -2.7595228851242334e-10)  # fmt: skip


# -- parts of both families --------------------------------------------------------------------


def _log1p_less(x: Number) -> Number:
    """log1p(x) - x, without cancellation."""
    if abs(x) > 0.5:
        return np.log1p(x) - x
    r = x / (2 + x)
    square, power, total = r * r, 2 * r, np.float64(0)
    for k in range(1, 24):
        power = power * square
        total = total + power / (2 * k + 1)
        if abs(power) < 1e-17 * abs(total):
            break
    return total - x * r


def _expm1_less(x: Number) -> Number:
    """expm1(x) - x, without cancellation."""
    if abs(x) > 0.5:
        return np.expm1(x) - x
    total = np.float64(1)
    for k in range(14, 2, -1):
        total = 1 + total * x / k
    return 0.5 * x * x * total


def _log_less(ratio: Number, less: Number) -> Number:
    """log(ratio) - less, where less is ratio - 1."""
    return _log1p_less(less) if abs(less) < 0.5 else np.log(ratio) - less


def _lgamma1p(x: Number) -> Number:
    """log(gamma(1 + x)) for x from 0 to 1.5, with full relative accuracy near 0."""
    z = x if x <= 0.5 else x - 1
    total = np.float64(0)
    for k in range(len(ZETA) - 1, -1, -1):
        total = total * z + ZETA[k]
    total = z * (0.42278433509846714 + z * total)
    return total - np.log1p(z) if x <= 0.5 else total


def _log_to_digamma1p(x: Number) -> Number:
    """log(x) - digamma(x + 1), for x >= 10."""
    return _digamma_excess(x) - 1 / x


def _bell(n: int, first: Number, second: Number, third: Number, fourth: Number) -> Number:
    """The derivative number n of exp(f) over exp(f), from the derivatives of f."""
    if n <= 0:
        return np.float64(1)
    if n == 1:
        return first
    if n == 2:
        return first * first + second
    if n == 3:
        return first * (first * first + 3 * second) + third
    return first * (first * (first * first + 6 * second) + 4 * third) + 3 * second * second + fourth


def _panel(slope: Number, curvature: Number) -> Number:
    """The length along which an exponent falls by 9, which Gauss' rule integrates to rounding."""
    return 18 / (slope + math.hypot(slope, np.sqrt(18 * curvature)))


# -- the gamma function ------------------------------------------------------------------------


def _gamma_power(a: Number, x: Number) -> Number:
    """x**a exp(-x) / gamma(a + 1), for x > 0."""
    if a < 10:
        return x**a * np.exp(-x) / math.gamma(a + 1) if x < 800 else np.float64(0)
    exponent = a * _log_less(x / a, (x - a) / a)
    return np.exp(exponent - _stirling(a)) / np.sqrt(2 * np.pi * a)


def _gamma_slope(a: Number, x: Number) -> Number:
    """The derivative by a of log(x**a / gamma(a + 1))."""
    if a < 10:
        return np.log(x) - digamma(a + 1)
    near = abs(x - a) < 0.5 * a
    return (np.log1p((x - a) / a) if near else np.log(x / a)) + _log_to_digamma1p(a)


def _gamma_cumulant(n: int, order: int, a: Number) -> Number:
    """The derivative number `order` of -log(gamma(a + 1)), where derivatives up to the n-th are needed."""
    return -polygamma(order - 1, a + 1) if n >= order else np.float64(0)


def _gamma_weight(n: int, a: Number, f1: Number, f2: Number, f3: Number, f4: Number) -> Number:
    """The derivative number n by a of t**a / gamma(a), over t**a / gamma(a + 1)."""
    found = a * _bell(n, f1, f2, f3, f4)
    return found + n * _bell(n - 1, f1, f2, f3, f4) if n > 0 else found


def _gamma_area(n: int, a: Number, x: Number, side: Number) -> Number:
    """The area under the n-th derivative by a of the gamma density, below x (side -1) or above it (side 1),
    over x**a exp(-x) / gamma(a + 1). The variable is s = log(t / x)."""
    f1 = _gamma_slope(a, x) if n > 0 else np.float64(0)
    f2, f3, f4 = _gamma_cumulant(n, 2, a), _gamma_cumulant(n, 3, a), _gamma_cumulant(n, 4, a)
    most = 2.0 if side < 0 else 1.0
    s, total = np.float64(0), np.float64(0)
    for _ in range(PANELS):
        rate = x * np.exp(s)
        slope = side * (rate - a)
        half = 0.5 * min(_panel(max(slope, np.float64(0)), rate), most if rate > 1e-18 else np.inf)
        for k in range(2 * len(NODES)):
            j = k // 2
            node = 1 + NODES[j] if k % 2 == 0 else 1 - NODES[j]
            t = s + side * half * node
            weight = _gamma_weight(n, a, f1 + t, f2, f3, f4)
            total = total + WEIGHTS[j] * half * weight * np.exp((a - x) * t - x * _expm1_less(t))
        s = s + side * 2 * half
        if not x * _expm1_less(s) - (a - x) * s <= 50:
            break
    return total


def _gamma_series(n: int, a: Number, x: Number) -> Number:
    """The n-th derivative by a of gammainc, for x < 1 and n > 0: that of the series of t**(a - 1) exp(-t)."""
    f1 = _gamma_slope(a, x)
    f2, f3, f4 = _gamma_cumulant(n, 2, a), _gamma_cumulant(n, 3, a), _gamma_cumulant(n, 4, a)
    total, binomial, factor = np.float64(0), np.float64(1), np.float64(1)
    for j in range(n + 1):
        term, part = np.float64(1), np.float64(1 if j == 0 else 0)
        for k in range(1, 25):
            term = -term * x / k
            quotient = a / (a + k) if j == 0 else -k / (a + k)
            for _ in range(j):
                quotient = quotient / (a + k)
            part = part + term * quotient
        total = total + binomial * factor * part * _bell(n - j, f1, f2, f3, f4)
        binomial = binomial * (n - j) / (j + 1)
        factor = -factor * (j + 1)
    return total * np.exp(x) * _gamma_power(a, x)


def _gamma_part(a: Number, x: Number, upper: bool) -> Number:
    """The probability below or above x."""
    if a >= 20 and abs(x - a) < 0.4 * a:
        above = x >= a
        part = _gamma_power(a, x) * _gamma_area(0, a, x, 1.0 if above else -1.0)
    elif x <= a or x < 1:
        above = False
        part = _gamma_ascending(a, x)
        if upper and part > 0.7:
            return _gamma_complement(a, x)
    else:
        above = True
        part = _gamma_power(a, x) * a * _gamma_fraction(a, x)
    return part if above == upper else 1 - part


def _gamma_ascending(a: Number, x: Number) -> Number:
    """The probability below x by its power series."""
    term, total = np.float64(1), np.float64(1)
    for k in range(1, SERIES_TERMS):
        term = term * x / (a + k)
        total = total + term
        if term < 1e-17 * total:
            break
    return total * _gamma_power(a, x)


def _gamma_complement(a: Number, x: Number) -> Number:
    """The probability above x for x < 1 and a < 1.5, without cancellation for small a."""
    term, total = np.float64(1), np.float64(0)
    for k in range(1, 25):
        term = -term * x / k
        total = total + term / (a + k)
    power = a * np.log(x) - _lgamma1p(a)
    return -np.expm1(power) - a * total * np.exp(power)


def _gamma_fraction(a: Number, x: Number) -> Number:
    """The probability above x over x**a exp(-x) / gamma(a), by Legendre's continued fraction and Lentz's
    method."""
    b = x + 1 - a
    d = 1 / b
    c, found = np.float64(1e300), d
    for k in range(1, FRACTION_TERMS):
        by = k * (a - k)
        b = b + 2
        d = 1 / (by * d + b)
        c = b + by / c
        found = found * (c * d)
        if abs(c * d - 1) < 3e-16:
            break
    return found


def _gamma_edge(a: Number, x: Number) -> Number:
    """The probability below x at the ends of the domain, and NaN outside."""
    if not (a >= 0 and x >= 0) or (a == 0 and x == 0) or (a == np.inf and x == np.inf):
        return np.nan * (a + x)
    return np.float64(0) if x == 0 or a == np.inf else np.float64(1)


def gammainc(a: Number, x: Number) -> Number:
    """The regularised lower incomplete gamma function."""
    if not (0 < a < np.inf and 0 < x < np.inf):
        return _gamma_edge(a, x)
    return _gamma_part(a, x, False)


def gammaincc(a: Number, x: Number) -> Number:
    """The regularised upper incomplete gamma function."""
    if not (0 < a < np.inf and 0 < x < np.inf):
        return 1 - _gamma_edge(a, x)
    return _gamma_part(a, x, True)


def gammainc_derivative(n: Number, a: Number, x: Number) -> Number:
    """The n-th derivative by a of gammainc."""
    order = int(n)
    if order == 0:
        return gammainc(a, x)
    if not (0 <= a < np.inf and 0 < x < np.inf):
        return 0 * _gamma_edge(a, x)
    if x < 1:
        return _gamma_series(order, a, x)
    side = -1.0 if a * _gamma_slope(a, x) + 1 < 0 else 1.0
    return -side * _gamma_power(a, x) * _gamma_area(order, a, x, side)


def gammainc_density(n: Number, a: Number, x: Number) -> Number:
    """The n-th derivative by a of x**(a - 1) exp(-x) / gamma(a)."""
    order = int(n)
    if x == 0 and -1 < a <= 1:  # below 0 for the derivative by x
        value = np.float64(a if a == 0 or a == 1 else np.copysign(np.inf, a))
        return value if order == 0 else np.inf if order % 2 == 0 else -np.inf
    if not (0 <= a < np.inf and 0 < x < np.inf):
        return 0 * _gamma_edge(a, x)
    f1 = _gamma_slope(a, x)
    f2, f3, f4 = _gamma_cumulant(order, 2, a), _gamma_cumulant(order, 3, a), _gamma_cumulant(order, 4, a)
    return _gamma_weight(order, a, f1, f2, f3, f4) * (_gamma_power(a, x) / x)


# -- the beta function -------------------------------------------------------------------------


def _beta_power(a: Number, b: Number, x: Number) -> Number:
    """x**a (1 - x)**b gamma(a + b) / (gamma(a + 1) gamma(b + 1)), for 0 < x <= 1/2."""
    both, rest = a + b, np.log1p(-x)
    if a >= 10 and b >= 10:
        u, v = (both * x - a) / a, (a - both * x) / b
        exponent = a * _log_less(both * x / a, u) + b * _log_less(both * (1 - x) / b, v)
        exponent = exponent + _stirling(both) - _stirling(a) - _stirling(b)
        return np.exp(exponent) / np.sqrt(2 * np.pi * a * b * both)
    if b >= 10:
        exponent = b * (rest + _log1p_less(a / b)) + _stirling(both) - _stirling(b)
        if exponent < -1000:
            return np.float64(0)
        return (x * both) ** a * np.exp(exponent) / (math.gamma(a + 1) * np.sqrt(both * b))
    if a >= 10:
        exponent = a * (np.log(x) + _log1p_less(b / a)) + b * rest + _stirling(both) - _stirling(a)
        if exponent < -1000:
            return np.float64(0)
        return both**b * np.exp(exponent) / (math.gamma(b + 1) * np.sqrt(both * a))
    scale = math.gamma(both + 1) / (math.gamma(a + 1) * math.gamma(b + 1) * both)
    return x**a * np.exp(b * rest) * scale


def _beta_cumulant(n: int, order: int, a: Number, both: Number) -> Number:
    """The derivative number `order` by a of log(gamma(both) / gamma(a + 1)), where both is a + b. Derivatives
    up to the n-th are needed."""
    if n < order:
        return np.float64(0)
    if both < 0.5:
        return polygamma(order - 1, both) - polygamma(order - 1, a + 1)
    return -polygamma_difference(order - 1, a + 1, both - a - 1)


def _beta_bell(
    m: int, k: int, f1: Number, f2: Number, f3: Number, g1: Number, s2: Number, s3: Number
) -> Number:
    """The derivative number m by a and k <= 1 by b of exp(f) over exp(f), from the derivatives of f."""
    found = _bell(m, f1, f2, f3, 0.0)
    if k == 0:
        return found
    found = g1 * found
    if m > 0:
        found = found + m * s2 * _bell(m - 1, f1, f2, f3, 0.0)
    return found + s3 if m == 2 else found


def _beta_weight(
    m: int,
    k: int,
    a: Number,
    b: Number,
    f1: Number,
    f2: Number,
    f3: Number,
    g1: Number,
    s2: Number,
    s3: Number,
) -> Number:
    """The derivative number m by a and k <= 1 by b of a b exp(f) over exp(f), from the derivatives of f."""
    found = a * b * _beta_bell(m, k, f1, f2, f3, g1, s2, s3)
    if m > 0:
        found = found + m * b * _beta_bell(m - 1, k, f1, f2, f3, g1, s2, s3)
    if k > 0:
        found = found + a * _beta_bell(m, 0, f1, f2, f3, g1, s2, s3)
        if m > 0:
            found = found + m * _beta_bell(m - 1, 0, f1, f2, f3, g1, s2, s3)
    return found


def _log_sum(p: Number, s: Number) -> Number:
    """log(1 - p + p exp(s))."""
    if s <= 40:
        return np.log1p(p * np.expm1(s))
    z = np.log(p) + s
    return max(z, 0.0) + np.log1p(np.exp(-abs(z)))


def _beta_exponent(a: Number, b: Number, x: Number, s: Number, log_sum: Number) -> Number:
    """log(t**a (1 - t)**b) less its value at x, where logit(t) is logit(x) + s."""
    if abs(s) > 0.5:
        return a * s - (a + b) * log_sum
    return (a - (a + b) * x) * s - (a + b) * (x * _expm1_less(s) + _log1p_less(x * np.expm1(s)))


def _beta_area(m: int, k: int, a: Number, b: Number, x: Number, side: Number) -> Number:
    """The area under the derivative number m by a and k by b of the beta density, below x (side -1) or above
    it (side 1), over the power of `_beta_power`, for 0 < x <= 1/2. The variable is logit(t) - logit(x)."""
    both = a + b
    log_x, log_rest = np.log(x), np.log1p(-x)
    swapped = k > m  # at most one derivative is by the second parameter
    first, second = (b if swapped else a), (a if swapped else b)
    high, low = max(m, k), min(m, k)
    f1, f2 = _beta_cumulant(high, 1, first, both), _beta_cumulant(high, 2, first, both)
    f3, g1 = _beta_cumulant(high, 3, first, both), _beta_cumulant(low, 1, second, both)
    s2 = polygamma(1, both) if low > 0 else np.float64(0)
    s3 = polygamma(2, both) if low > 0 else np.float64(0)
    s, total = np.float64(0), np.float64(0)
    for _ in range(PANELS):
        log_sum = _log_sum(x, s)
        t, rest = np.exp(log_x + s - log_sum), np.exp(log_rest - log_sum)
        curvature = both * t * rest
        slope = side * (both * t - a if t < 0.5 else b - both * rest)
        most = 2.5 + abs(log_x - log_rest + s) / 3
        if side > 0 and t < 0.5:  # the curvature grows exponentially
            most = min(most, max(1.0, -np.log(2 * both * t)))
        elif curvature < 1e-18 and t * rest < 1e-18:
            most = np.inf
        half = 0.5 * min(_panel(max(slope, np.float64(0)), curvature), most)
        for i in range(2 * len(NODES)):
            j = i // 2
            at = s + side * half * (1 + NODES[j] if i % 2 == 0 else 1 - NODES[j])
            log_sum = _log_sum(x, at)
            log_t, log_u = log_x + at - log_sum, log_rest - log_sum
            f, g = (f1 + (log_u if swapped else log_t)), (g1 + (log_t if swapped else log_u))
            weight = _beta_weight(high, low, first, second, f, f2, f3, g, s2, s3)
            total = total + WEIGHTS[j] * half * weight * np.exp(_beta_exponent(a, b, x, at, log_sum))
        s = s + side * 2 * half
        if not _beta_exponent(a, b, x, s, _log_sum(x, s)) >= -50:
            break
    return total


def _beta_fraction(a: Number, b: Number, x: Number) -> Number:
    """The probability below x over x**a (1 - x)**b / (a beta(a, b)), by the continued fraction of DLMF
    8.17.22 and Lentz's method."""
    c = np.float64(1)
    d = 1 / (1 - (a + b) * x / (a + 1))
    found = d
    for k in range(1, FRACTION_TERMS):
        even = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k))
        d = 1 / (1 + even * d)
        c = 1 + even / c
        found = found * (c * d)
        odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))
        d = 1 / (1 + odd * d)
        c = 1 + odd / c
        found = found * (c * d)
        if abs(c * d - 1) < 3e-16:
            break
    return found


def _beta_part(a: Number, b: Number, x: Number, upper: bool) -> Number:
    """The probability below or above x <= 1/2; the smaller one is computed, unless the other is small too."""
    power = _beta_power(a, b, x)
    above = x >= (a + 1) / (a + b + 2)
    if max(a, b) > 60:
        part = power * _beta_area(0, 0, a, b, x, 1.0 if above else -1.0)
    elif above:
        part = power * a * _beta_fraction(b, a, 1 - x)
    else:
        part = power * b * _beta_fraction(a, b, x)
    if above == upper:
        return part
    return 1 - part if part < 0.7 else power * _beta_area(0, 0, a, b, x, 1.0 if upper else -1.0)


def _beta_edge(a: Number, b: Number, x: Number) -> Number:
    """The probability below x where a parameter is 0 or infinite, or x is 0 or 1, and NaN outside of the
    domain. All of it is at 0, or at 1."""
    if not (a >= 0 and b >= 0 and 0 <= x <= 1):
        return np.nan * (a + b + x)
    first = (a == 0 and b > 0) or (b == np.inf and a < np.inf)
    last = (b == 0 and a > 0) or (a == np.inf and b < np.inf)
    if first and (b == np.inf or x == 0):
        return np.float64(1 if x > 0 else 0)
    if last and (a == np.inf or x == 1):
        return np.float64(1 if x == 1 else 0)
    if not (a < np.inf and b < np.inf) or (a == 0 and b == 0):
        return np.float64(np.nan)
    if first:
        return np.float64(1)
    return np.float64(0 if last or x == 0 else 1)


def betainc(a: Number, b: Number, x: Number) -> Number:
    """The regularised incomplete beta function."""
    if not (0 < a < np.inf and 0 < b < np.inf and 0 < x < 1):
        return _beta_edge(a, b, x)
    return _beta_part(a, b, x, False) if x <= 0.5 else _beta_part(b, a, 1 - x, True)


def betaincc(a: Number, b: Number, x: Number) -> Number:
    """The complement of betainc."""
    if not (0 < a < np.inf and 0 < b < np.inf and 0 < x < 1):
        return 1 - _beta_edge(a, b, x)
    return _beta_part(a, b, x, True) if x <= 0.5 else _beta_part(b, a, 1 - x, False)


def betainc_derivative(n: Number, a: Number, b: Number, x: Number) -> Number:
    """The derivative of betainc of order n // 10 by a and n % 10 by b."""
    m, k = int(n) // 10, int(n) % 10
    if n == 0:
        return betainc(a, b, x)
    if not (0 <= a < np.inf and 0 <= b < np.inf and 0 < x < 1) or (a == 0 and b == 0):
        return 0 * _beta_edge(a, b, x)
    if (a == 0 and m == 0) or (b == 0 and k == 0):
        return np.float64(0)
    if x > 0.5:
        return -_beta_slope(k, m, b, a, 1 - x)
    return _beta_slope(m, k, a, b, x)


def _beta_slope(m: int, k: int, a: Number, b: Number, x: Number) -> Number:
    """The derivative of betainc for x <= 1/2, from the side where the first derivative of the density has one
    sign."""
    both = a + b
    if m > 0:
        above = a * (np.log(x) + _beta_cumulant(1, 1, a, both)) + 1 > 0
    else:
        above = b * (np.log1p(-x) + _beta_cumulant(1, 1, b, both)) + 1 < 0
    side = 1.0 if above and b > 0 else -1.0
    return -side * _beta_power(a, b, x) * _beta_area(m, k, a, b, x, side)


def betainc_density(n: Number, a: Number, b: Number, x: Number) -> Number:
    """The derivative of x**(a - 1) (1 - x)**(b - 1) / beta(a, b) of order n // 10 by a and n % 10 by b."""
    m, k = int(n) // 10, int(n) % 10
    if x == 0:
        return _beta_density_at_zero(m, k, a, b)
    if x == 1:
        return _beta_density_at_zero(k, m, b, a)
    if not (0 <= a < np.inf and 0 <= b < np.inf and 0 < x < 1) or (a == 0 and b == 0):
        return 0 * _beta_edge(a, b, x)
    return _beta_density(m, k, a, b, x) if x <= 0.5 else _beta_density(k, m, b, a, 1 - x)


def _beta_density(m: int, k: int, a: Number, b: Number, x: Number) -> Number:
    """The same for 0 < x <= 1/2."""
    both, high, low = a + b, max(m, k), min(m, k)
    swapped = k > m
    first, second = (b if swapped else a), (a if swapped else b)
    f1 = (np.log1p(-x) if swapped else np.log(x)) + _beta_cumulant(high, 1, first, both)
    g1 = (np.log(x) if swapped else np.log1p(-x)) + _beta_cumulant(low, 1, second, both)
    f2, f3 = _beta_cumulant(high, 2, first, both), _beta_cumulant(high, 3, first, both)
    s2 = polygamma(1, both) if low > 0 else np.float64(0)
    s3 = polygamma(2, both) if low > 0 else np.float64(0)
    weight = _beta_weight(high, low, first, second, f1, f2, f3, g1, s2, s3)
    return weight * (_beta_power(a, b, x) / x) / (1 - x)


def _beta_density_at_zero(m: int, k: int, a: Number, b: Number) -> Number:
    """The same for x = 0; a or b may be below 0, for the derivative by x."""
    if not (-1 < a < np.inf and -1 < b < np.inf):
        return np.float64(np.nan)
    if a > 1 or (a == 0 and m == 0):
        return np.float64(0)
    if a == 1 and m == 0:
        return b if k == 0 else np.float64(1 if k == 1 else 0)
    return np.inf * a * b if m == 0 and k == 0 else np.float64(np.nan)


# -- quantiles ---------------------------------------------------------------------------------

# Newton's method for the logarithm of the smaller of the probabilities below and above, between bounds. Below
# 1e-300 the leading power is exact.


def _newton(y: Number, step: Number, low: Number, high: Number) -> Number:
    """The next point: by the step, or halfway where that leads out of the bounds."""
    found = y + step
    return found if low < found < high else 0.5 * (low + high)


def gamma_log_quantile(q: Number, p: Number, a: Number) -> Number:
    """log(x) where the probability of gamma(a) below x is q, and p is 1 - q."""
    if not (0 < q <= 1 and 0 < p <= 1 and 0 < a < np.inf):
        return np.float64(np.nan)
    least = (np.log(q) + _lgamma(a + 1)) / a
    if least < -690:
        return least
    below = q < 0.5
    low, high = np.float64(-700), np.float64(709)
    y = min(max(least, low), np.log(a + 1)) if below else np.log(a)
    y = max(y, low)
    for _ in range(QUANTILE_STEPS):
        x = np.exp(y)
        part = _gamma_part(a, x, not below)
        error = np.log(part / (q if below else p))
        if (error > 0) == below:
            high = y
        else:
            low = y
        slope = _gamma_power(a, x) * a / part
        step = -error / slope if below else error / slope
        if abs(step) <= 1e-10 * max(1.0, abs(y)) / np.sqrt(1 + a):
            return y + step
        y = _newton(y, step, low, high)
    return y


def beta_log_odds(q: Number, p: Number, a: Number, b: Number) -> Number:
    """log(x / (1 - x)) where the probability of beta(a, b) below x is q, and p is 1 - q."""
    if not (0 < q <= 1 and 0 < p <= 1 and 0 < a < np.inf and 0 < b < np.inf):
        return np.float64(np.nan)
    least = (np.log(q) + np.log(a + b) + lbeta(a + 1, b)) / a
    most = -(np.log(p) + np.log(a + b) + lbeta(a, b + 1)) / b
    if least < -690:
        return least
    if most > 690:
        return most
    below = q < 0.5
    low, high = np.float64(-700), np.float64(700)
    y = min(max(np.log(a / b), low), high)
    for _ in range(QUANTILE_STEPS):
        x = 1 / (1 + np.exp(abs(y)))  # the smaller one of x and 1 - x
        if y > 0:
            part, power = _beta_part(b, a, x, below), _beta_power(b, a, x)
        else:
            part, power = _beta_part(a, b, x, not below), _beta_power(a, b, x)
        error = np.log(part / (q if below else p))
        if (error > 0) == below:
            high = y
        else:
            low = y
        slope = power * a * b / part
        step = -error / slope if below else error / slope
        if abs(step) <= 1e-10 * max(1.0, abs(y)) / np.sqrt(1 + a + b):
            return y + step
        y = _newton(y, step, low, high)
    return y
