"""Bessel functions of integer order, and the derivatives of sinc, as scalar functions like `series.py`'s."""

from __future__ import annotations

from typing import Any

import numpy as np

Number = Any  # np.float64; numba compiles these functions, and Python runs them


def _ascending(order: int, x: Number, sign: float) -> Number:
    """The power series of J (sign -1) or I (sign 1), without the factor (x / 2)**n / n!."""
    quarter = sign * 0.25 * x * x
    total = np.float64(1)
    term = total
    k = 0
    while abs(term) > 1e-17 * abs(total):
        k += 1
        term = term * (quarter / (k * (k + order)))
        total = total + term
    return total


def _leading(order: int, x: Number) -> Number:
    """(x / 2)**n / n!"""
    factor = np.float64(1)
    for k in range(1, order + 1):
        factor = factor * (0.5 * x / k)
    return factor


def jn(n: Number, x: Number) -> Number:
    """J of order n: its power series near 0, Hankel's expansion far from it, else Miller's recurrence."""
    order = abs(int(n))
    sign = -1.0 if order % 2 and np.signbit(x) != (n < 0) else 1.0
    z = abs(x)
    if not z < np.inf:
        return 0.0 if z == np.inf else x
    if z * z < 4 * (order + 1):
        return sign * _leading(order, z) * _ascending(order, z, -1.0)
    if z >= 25 + 0.5 * order * order:
        return sign * _hankel(order, z)
    after, here, found, total = np.float64(0), np.float64(1e-300), np.float64(0), np.float64(0)
    first = max(int(1.1 * z + 12 * np.cbrt(z)) + 5, order + 30)  # where J is below 1e-17
    for k in range(first - first % 2, -1, -1):  # here is J of order k
        if k == order:
            found = here
        total = total + (here if k == 0 else 2 * here if k % 2 == 0 else 0.0)
        after, here = here, 2 * k / z * here - after
        if abs(here) > 1e200:
            after, here, found, total = after * 1e-200, here * 1e-200, found * 1e-200, total * 1e-200
    return sign * found / total


def _hankel(order: int, x: Number) -> Number:
    """J for large x; the phase is taken apart, so that x - pi / 4 is never rounded."""
    p, q, term = np.float64(1), np.float64(0), np.float64(1)
    for k in range(1, 60):
        factor = (4.0 * order * order - (2 * k - 1) ** 2) / (8 * k * x)
        if abs(factor) >= 1 or abs(term) < 1e-17:
            break
        term = term * factor
        sign = 1.0 if k % 4 < 2 else -1.0
        if k % 2:
            q = q + sign * term
        else:
            p = p + sign * term
    cosine, sine = np.cos(x), np.sin(x)
    c, s = cosine + sine, sine - cosine  # cos and sin of x - pi / 4, times sqrt(2)
    turn = order % 4
    if turn == 1:
        c, s = s, -c
    elif turn == 2:
        c, s = -c, -s
    elif turn == 3:
        c, s = -s, c
    return (p * c - q * s) / np.sqrt(np.pi * x)


def ive(n: Number, x: Number) -> Number:
    """exp(-abs(x)) times I of order n."""
    order = abs(int(n))
    sign = -1.0 if order % 2 and np.signbit(x) else 1.0
    z = abs(x)
    if z <= 30:
        return sign * _leading(order, z) * (_ascending(order, z, 1.0) * np.exp(-z))
    if z != z:
        return x
    if z >= 1.0 * order * order:
        return sign * _scaled(order, z)
    after, here, found = np.float64(0), np.float64(1e-300), np.float64(0)
    for k in range(order + 30 + int(np.sqrt(40 * z)), -1, -1):
        if k == order:
            found = here
        if k:
            after, here = here, 2 * k / z * here + after
        if here > 1e200:
            after, here, found = after * 1e-200, here * 1e-200, found * 1e-200
    return sign * found / here * _scaled(0, z)


def _scaled(order: int, x: Number) -> Number:
    """exp(-x) times I for large x."""
    total, term = np.float64(1), np.float64(1)
    for k in range(1, 60):
        factor = -(4.0 * order * order - (2 * k - 1) ** 2) / (8 * k * x)
        if abs(factor) >= 1 or abs(term) < 1e-17:
            break
        term = term * factor
        total = total + term
    return total / np.sqrt(2 * np.pi * x)


def ive_derivative(n: Number, k: Number, x: Number) -> Number:
    """The n-th derivative of exp(-abs(x)) times I of order k; at 0 the mean of both sides.

    Where the exponential nearly cancels the growth of I, it is the sum of derivatives of order 0 that
    belongs to the Chebyshev polynomial of d/dx + 1; elsewhere, the binomial sum of neighbouring orders.
    """
    times, order = int(n), abs(int(k))
    z = abs(x)
    odd = (times + order) % 2 == 1
    if odd and z == 0:
        return np.float64(0)
    sign = -1.0 if odd and x < 0 else 1.0
    total = np.float64(0)
    if 4 * z >= 1.0 * order * order:
        factor = np.float64(1)
        for j in range(order + 1):
            total = total + factor * _zeroth(times + j, z)
            factor = factor * (1.0 * (order - j) * (order + j) / ((2.0 * j + 1) * (j + 1)))
        return sign * total
    outer = np.float64(1) if times % 2 == 0 else np.float64(-1)
    for j in range(times + 1):
        inner = outer
        for i in range(j + 1):
            total = total + inner * ive(1.0 * (order - j + 2 * i), z)
            inner = inner * (j - i) / (i + 1)
        outer = -0.5 * outer * (times - j) / (j + 1)
    return sign * total


def _zeroth(n: int, x: Number) -> Number:
    """The n-th derivative of exp(-x) times I of order 0 for x >= 0: a series whose terms have one sign.

    It is 1F1(1/2; 1 + n; 2 x) by its power series near 0, and by its asymptotic expansion far from it.
    """
    scale = np.float64(1)
    if x >= 30 + n:
        for k in range(n):
            scale = -scale * (k + 0.5) / x
        total, term, k = np.float64(1), np.float64(1), 0
        while term > 1e-17 * total:
            term = term * ((k + 0.5) * (k + 0.5 + n) / (2 * (k + 1) * x))
            total = total + term
            k += 1
        return scale * (total / np.sqrt(2 * np.pi * x))
    for k in range(n):
        scale = -scale * (2 * k + 1) / (k + 1)
    total, term, k = np.float64(1), np.float64(1), 0
    while term > 1e-17 * total:
        term = term * ((2 * k + 1) * x / ((k + 1) * (k + 1 + n)))
        total = total + term
        k += 1
    return scale * (total * np.exp(-2 * x))


def iv(n: Number, x: Number) -> Number:
    """I of order n."""
    half = np.exp(0.5 * abs(x))
    return half * ive(n, x) * half


def sinc_derivative(n: Number, x: Number) -> Number:
    """The n-th derivative of sin(pi x) / (pi x): its power series near 0, a recurrence elsewhere."""
    order = int(n)
    u = np.pi * x
    scale = 1.0
    for _ in range(order):
        scale = scale * np.pi
    if abs(u) < 1.5 + 0.6 * order:
        return scale * _sinc_series(order, u)
    if abs(u) == np.inf:
        return 0.0
    turn = np.pi * (x - 2 * np.rint(0.5 * x))
    sine, cosine = np.sin(turn), np.cos(turn)
    if turn == np.pi or turn == -np.pi:
        sine = np.float64(0)
    here = sine / u
    for k in range(1, order + 1):
        sine, cosine = cosine, -sine
        here = (sine - k * here) / u
    return scale * here


def _sinc_series(order: int, u: Number) -> Number:
    """The sum of (-1)**k u**(2 k - n) / ((2 k + 1) (2 k - n)!) over 2 k >= n."""
    k = (order + 1) // 2
    power = np.float64(1) if order % 2 == 0 else u
    total, m = np.float64(0), 2 * k - order
    while True:
        term = (power if k % 2 == 0 else -power) / (2 * k + 1)
        total = total + term
        if abs(power) <= 1e-18 or m > 100:
            return total
        power = power * (u / (m + 1) * (u / (m + 2)))
        k, m = k + 1, m + 2
