"""Errors of the elementary functions in kernels, against mpmath; run this file to write docs/accuracy.md.

PYTHONPATH=tests python tests/ops/rules/accuracy.py
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mpmath
import numpy as np
from mpmath import mpf
from ops.rules.document import table

import adcompiler as adc
from adcompiler.targets.llvm.libmvec import vectors
from adcompiler.targets.llvm.vectormath.elementary import ELEMENTARY

PATH = Path(__file__).parents[3] / "docs" / "accuracy.md"
POINTS = 4000
BITS = 200
Interval = tuple[float, float]


class Case(NamedTuple):
    """A function of one or two numbers, the truth, and where it is sampled: for float64, then for float32.

    Besides the interval itself, numbers of all magnitudes inside it are taken; `largest` bounds those.
    """

    text: str
    truth: Callable[..., Any]
    interval: Interval = (-20.0, 20.0)
    narrow: Interval | None = None
    largest: tuple[float, float] = (1e300, 1e36)

    @property
    def params(self) -> list[str]:
        return sorted(set(re.findall(r"\b[xy]\b", self.text)))


EVERYWHERE = (-np.inf, np.inf)
ABOVE = (5e-324, np.inf)
ANGLES = (1e10, 1e4)


def cbrt(x: Any) -> Any:
    return mpmath.cbrt(abs(x)) * mpmath.sign(x)


CASES = (
    Case("exp(x)", mpmath.exp, (-745.0, 709.7), (-103.0, 88.7)),
    Case("exp2(x)", lambda x: mpf(2) ** x, (-1074.0, 1023.9), (-149.0, 127.9)),
    Case("expm1(x)", mpmath.expm1, (-40.0, 709.7), (-20.0, 88.7)),
    Case("log(x)", mpmath.log, ABOVE),
    Case("log2(x)", lambda x: mpmath.log(x, 2), ABOVE),
    Case("log10(x)", mpmath.log10, ABOVE),
    Case("log1p(x)", mpmath.log1p, (-0.999999, np.inf)),
    Case("sin(x)", mpmath.sin, largest=ANGLES),
    Case("cos(x)", mpmath.cos, largest=ANGLES),
    Case("tan(x)", mpmath.tan, largest=ANGLES),
    Case("sinh(x)", mpmath.sinh, (-710.0, 710.0), (-89.0, 89.0)),
    Case("cosh(x)", mpmath.cosh, (-710.0, 710.0), (-89.0, 89.0)),
    Case("tanh(x)", mpmath.tanh),
    Case("asin(x)", mpmath.asin, (-1.0, 1.0)),
    Case("acos(x)", mpmath.acos, (-1.0, 1.0)),
    Case("atan(x)", mpmath.atan, EVERYWHERE),
    Case("asinh(x)", mpmath.asinh, EVERYWHERE),
    Case("acosh(x)", mpmath.acosh, (1.0, np.inf)),
    Case("atanh(x)", mpmath.atanh, (-0.999999, 0.999999)),
    Case("cbrt(x)", cbrt, EVERYWHERE),
    Case("erf(x)", mpmath.erf, (-6.0, 6.0), (-4.0, 4.0)),
    Case("erfc(x)", mpmath.erfc, (-6.0, 26.0), (-4.0, 9.0)),
    Case("x ** y", mpmath.power, (1e-15, 30.0), (1e-3, 10.0), (1e15, 1e3)),
    Case("rsqrt(x)", lambda x: 1 / mpmath.sqrt(x), ABOVE),
    Case("x ** -1.5", lambda x: x ** (-mpf(3) / 2), (0.0, 1e100), (0.0, 1e12), (1e100, 1e12)),
    Case("x ** 2.5", lambda x: x ** (mpf(5) / 2), (0.0, 1e100), (0.0, 1e12), (1e100, 1e12)),
    Case("atan2(x, y)", mpmath.atan2, EVERYWHERE, largest=(1e100, 1e12)),
    Case("hypot(x, y)", mpmath.hypot, EVERYWHERE, largest=(1e100, 1e12)),
)  # fmt: skip


def points(case: Case, dtype: Any, count: int, seed: int = 0) -> list[np.ndarray]:
    """The arguments at which a function is measured: half of them are spread over all magnitudes."""
    random = np.random.default_rng(seed)
    single = dtype is np.float32
    low, high = case.narrow if single and case.narrow else case.interval
    largest = case.largest[single]
    found = []
    for _ in case.params:
        magnitudes = np.exp(random.uniform(np.log(1 / largest), np.log(largest), count))
        spread = magnitudes * random.choice([-1.0, 1.0], count)
        near = random.uniform(max(low, -20.0), min(high, 20.0), count)
        wide = random.uniform(max(low, -largest), min(high, largest), count)
        kept = np.concatenate([spread, near, wide])
        kept = kept[(kept >= low) & (kept <= high)]
        found.append(random.choice(kept, count).astype(dtype))
    return found


def ulps(case: Case, args: list[np.ndarray], found: np.ndarray) -> np.ndarray:
    """The errors of results in units in the last place of the truth."""
    limits = np.finfo(found.dtype)
    errors = []
    with mpmath.workprec(BITS):
        for *point, value in zip(*args, found, strict=True):
            truth = case.truth(*(mpf(float(p)) for p in point))
            exponent = mpmath.frexp(truth)[1] if truth else limits.minexp
            unit = mpf(2) ** (max(exponent - 1, limits.minexp) - limits.nmant)
            errors.append(float(abs(mpf(float(value)) - truth) / unit))
    return np.array(errors)


def measured(case: Case, dtype: Any, count: int = POINTS, precise: bool = False) -> float:
    """The greatest error of a function at random points."""
    args = points(case, dtype, count)
    f = adc.compile(case.text, args=case.params, precise=precise)
    return float(ulps(case, args, f(*args)).max())


INTRODUCTION = """\
# Accuracy

Kernels with arrays compute elementary functions on vectors. With AVX-512, {names} are adcompiler's own
implementations, with measured errors of at most {most} units in the last place (ulp). All others, and all
with AVX2, are those of glibc's libmvec if it has them (x86-64; glibc 2.35 or later has all), with at most 4
ulp. Kernels that work only on scalars, and all kernels on platforms without libmvec (musl, macOS, Windows,
other processors), call the scalar C library. So do the kernels of functions compiled with `precise=True`,
and of their derivatives:

```python
import adcompiler as adc

f = adc.compile("sum(exp(-x * x))", precise=True)
g = adc.grad(f)  # precise as well
```

The value of a function depends only on its argument. It does not depend on the place in an array, on the
array's length or layout, or on the number of threads. Special values follow C: infinities, NaN, -0.0 and
subnormal numbers give the same results as the scalar functions. Powers with small exponents that are whole
or half-integer become multiplications and a square root, also in precise kernels; as in NumPy, `x ** 0.5` is
the square root.

The environment variable `ADC_VECTOR_MATH` turns vector functions off (`0`), or selects those of AVX2 on a
machine with AVX-512 (`256`). Code that only numba compiles, `f.jitted`, `f.cfunc` and `adc build` always use
the scalar functions.

Special functions that are computed number by number, such as gamma, beta, incomplete and Bessel
functions, have relative errors of at most 1e-12 in the tables of Boost that SciPy contains, with two
exceptions. Where a Bessel function is near one of its zeros, its error is relative to the size of the
oscillation. A quantile of a gamma or beta distribution with a small parameter a is a power with the
exponent 1 / a, and its error may be 16 / a ulp.

The table shows the largest errors in ulp, compared with mpmath at {points} random points per function. Half
of the points cover all magnitudes (angles up to 1e10 in float64 and 1e4 in float32). The precise functions
are those of this C library. No kernel calls `tanh`: it is computed from an exponential, which its derivative
shares. `PYTHONPATH=tests python tests/ops/rules/accuracy.py` measures again and writes this page.

"""


def page() -> str:
    """The text of docs/accuracy.md, measured on this machine."""
    found = vectors()
    assert found is not None, "there is no libmvec here"
    what = f"{found.bits} bits"
    head = ("function", f"float64, {what}", "float64, precise", f"float32, {what}", "float32, precise")
    rows = [
        (
            f"`{c.text}`",
            *(f"{measured(c, t, precise=p):.2f}" for t in (np.float64, np.float32) for p in (False, True)),
        )
        for c in CASES
    ]
    own = [f"`{name}`" for name in ELEMENTARY]
    most = max(float(row[k]) for row in rows for k in (1, 3) if row[0].split("(")[0] + "`" in own)
    text = INTRODUCTION.format(points=POINTS, names=", ".join(own[:-1]) + f" and {own[-1]}", most=most)
    title, first, others = text.split("\n\n", 2)
    text = "\n\n".join([title, textwrap.fill(first, 110), others])
    return text + table(head, rows)


if __name__ == "__main__":
    PATH.write_text(page())
