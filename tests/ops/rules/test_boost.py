"""Special functions against the tables of Boost, which SciPy has in its wheel: errors of at most 1e-12.

Errors are relative. What is 0 or infinite in float64, or below 1e-300, has fewer digits, and is left out. The
quantile x of a distribution with a small parameter a is a power with the exponent 1 / a: the errors of a few
units in the last place of probabilities are as many times larger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

import adcompiler as adc

DATA = Path(scipy.__file__).parent / "special" / "tests" / "data"
pytestmark = pytest.mark.skipif(not (DATA / "boost.npz").exists(), reason="this SciPy lacks Boost's tables")
LEAST, MOST = 1e-300, 1e-12
FEW = 16 * np.finfo(float).eps


@cache
def table(file: str, name: str) -> np.ndarray:
    """One table: rows of arguments and results."""
    with np.load(DATA / f"{file}.npz") as found:
        full = name if file == "local" else next(k for k in found.files if k.endswith(f"ipp-{name}"))
        rows: np.ndarray = found[full]
    return rows


# A call, the columns of its arguments, the column of its value, and the tables.
GAMMAS = ("igamma_big_data", "igamma_int_data", "igamma_med_data", "igamma_small_data")
BETAS = ("ibeta_data", "ibeta_int_data", "ibeta_large_data", "ibeta_small_data")
INVERSE_GAMMAS = ("gamma_inv_data", "gamma_inv_big_data", "gamma_inv_small_data")
ERRORS = ("erf_data", "erf_large_data", "erf_small_data")
NEAR = ("factorials", "near_0", "near_1", "near_2", "near_m10", "near_m55")
CASES = (
    ("gammainc(a, x)", "a x", (0, 1), 5, GAMMAS),
    ("gammaincc(a, x)", "a x", (0, 1), 3, GAMMAS),
    ("betainc(a, b, x)", "a b x", (0, 1, 2), 5, BETAS),
    ("betaincc(a, b, x)", "a b x", (0, 1, 2), 6, BETAS),
    ("betainc(b, a, 1 - x)", "a b x", (0, 1, 2), 6, ("ibeta_small_data",)),
    ("gammaincinv(a, q)", "a q", (0, 1), 2, INVERSE_GAMMAS),
    ("gammainccinv(a, q)", "a q", (0, 1), 3, INVERSE_GAMMAS),
    ("stats.gamma.ppf(q, a)", "a q", (0, 1), 2, INVERSE_GAMMAS),
    ("stats.gamma.isf(q, a)", "a q", (0, 1), 3, INVERSE_GAMMAS),
    ("betaincinv(a, b, q)", "a b q", (0, 1, 2), 3, ("ibeta_inv_data",)),
    ("betainccinv(a, b, q)", "a b q", (0, 1, 2), 4, ("ibeta_inv_data",)),
    ("beta(a, b)", "a b", (0, 1), 2, ("beta_exp_data", "beta_med_data")),
    ("exp(lbeta(a, b))", "a b", (0, 1), 2, ("beta_exp_data", "beta_med_data")),
    ("gamma(x)", "x", (0,), 1, NEAR),
    ("lgamma(x)", "x", (0,), 2, NEAR),
    ("digamma(x)", "x", (0,), 1,
     ("digamma_data", "digamma_neg_data", "digamma_root_data", "digamma_small_data")),
    ("erf(x)", "x", (0,), 1, ERRORS),
    ("erfc(x)", "x", (0,), 2, ERRORS),
    ("erfinv(x)", "x", (0,), 1, ("erf_inv_data",)),
    ("erfcinv(x)", "x", (0,), 1, ("erfc_inv_data", "erfc_inv_big_data")),
    ("log1p(x)", "x", (0,), 1, ("log1p_expm1_data",)),
    ("expm1(x)", "x", (0,), 2, ("log1p_expm1_data",)),
    ("cbrt(x)", "x", (1,), 0, ("cbrt_data",)),
    ("sinc(x / 3.141592653589793)", "x", (0,), 1, ("sinc_data",)),
)  # fmt: skip
ROWS = [(*case[:4], name) for case in CASES for name in case[4]]


def judged(
    found: np.ndarray, expected: np.ndarray, arguments: list[np.ndarray], condition: Any = 0.0
) -> None:
    """Compare where numbers neither underflow nor overflow."""
    seen = (np.abs(expected) > LEAST) & np.isfinite(expected)
    for argument in arguments:
        seen &= (np.abs(argument) > LEAST) | (argument == 0) & (expected == found)
    error = np.abs(found - expected) / np.where(seen, np.abs(expected), 1)
    assert np.all((error <= np.maximum(MOST, FEW * condition))[seen]), np.max(error[seen])
    small = np.abs(expected) <= LEAST
    assert np.all(np.abs(found[small]) < 10 * LEAST)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "params", "columns", "result", "name"), ROWS)
def test_tables(text: str, params: str, columns: tuple[int, ...], result: int, name: str) -> None:
    rows = table("boost", name)
    arguments = [rows[:, k] for k in columns]
    condition = 1 / np.minimum(*rows[:, :2].T) if name == "ibeta_inv_data" else 0.0
    judged(adc.compile(text, args=params.split())(*arguments), rows[:, result], arguments, condition)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_tables_of_scipys_own(name: str) -> None:
    a, x, expected = table("local", name).T
    judged(adc.compile(f"{name}(a, x)")(a, x), expected, [a])


def slope(text: str) -> Callable[..., np.ndarray]:
    return adc.vmap(adc.grad(adc.compile(text)))


# Bessel functions of whole orders, one program for each, and their derivatives. The condition of an
# oscillation is infinite at its zeros: where J is small, errors are relative to a thousandth of the envelope.
ORDERS: Mapping[str, tuple[str, Callable[[str], Callable[..., np.ndarray]]]] = {
    "bessel_i_int_data": ("iv", adc.compile),
    "bessel_j_int_data": ("jn", adc.compile),
    "bessel_i_prime_int_data": ("iv", slope),
    "bessel_j_prime_int_data": ("jn", slope),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERS)
def test_tables_of_bessel_functions(name: str) -> None:
    function, way = ORDERS[name]
    rows = table("boost", name)
    for order in np.unique(rows[:, 0])[:: 5 if way is slope else 3]:
        n = int(order)
        if n == order and abs(n) < 100:
            x, expected = rows[rows[:, 0] == order, 1:].T
            seen = np.isfinite(expected) & (np.abs(expected) > LEAST)
            found = way(f"{function}({n}, x)")(x)
            envelope = 1e-3 / np.sqrt(1 + np.abs(x)) if function == "jn" else 0 * x
            error = np.abs(found - expected)[seen]
            size = np.maximum(np.abs(expected), np.where(np.abs(x) > n, envelope, 0))[seen]
            assert np.all(error <= MOST * size), (n, (error / size).max())
