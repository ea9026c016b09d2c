"""Random programs whose functions have each other's names: `log` is bound to `np.tanh`, `sum` to `np.prod`.

The value must be what Python computes when it runs the function itself, and value and gradient those of the
oracle, which reads names as Python's interpreter does.
"""

from __future__ import annotations

import linecache
import types
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import oracle
import pytest
import scipy.special
from numba import njit
from oracle.surroundings import source_of

import adcompiler as adc

ELEMENTWISE = [
    np.sin, np.cos, np.tanh, np.arctan, np.exp, np.expm1, np.log1p, np.square, np.cbrt, np.sqrt, np.sinh,
    scipy.special.erf, scipy.special.erfc, scipy.special.expit, scipy.special.gammaln, np.log2, np.log,
]  # fmt: skip
PAIRS = [np.add, np.subtract, np.multiply, np.hypot, np.logaddexp, np.maximum, np.minimum, np.arctan2]
TOTALS = [np.sum, np.prod, np.mean, np.max, np.min, np.std, np.var]


def renamed(random: Random) -> tuple[str, dict[str, Any]]:
    """The text of a function, and what its names are bound to: other functions, some in a module."""
    around: dict[str, Any] = {}
    spelled: list[list[str]] = []
    for group in (ELEMENTWISE, PAIRS, TOTALS):
        objects = random.sample(group, len(group))
        names = [f.__name__ for f in group]
        around |= dict(zip(names, objects, strict=True))
        spelled.append(names)
    module = types.ModuleType("others")
    vars(module).update({n: random.choice(ELEMENTWISE) for n in ("sin", "exp", "log")})
    around["np"] = module
    one, two, all_of = spelled
    one = [*one, "np.sin", "np.exp", "np.log"]

    def term(depth: int) -> str:
        if depth == 0:
            return random.choice("xyxy")
        kind = random.random()
        if kind < 0.6:
            return f"{random.choice(one)}(0.3 + abs({term(depth - 1)}))"
        return f"{random.choice(two)}({term(depth - 1)}, {term(depth - 1)})"

    text = (
        f"def f(x, y):\n    z = {term(2)}\n    return {random.choice(all_of)}(tanh_of(z + {term(2)} * x))\n"
    )
    around["tanh_of"] = np.tanh
    return text, around


def python_function(text: str, around: dict[str, Any]) -> Callable[..., Any]:
    file = f"<renamed {len(linecache.cache)}>.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), around)
    found: Callable[..., Any] = around["f"]
    return found


X, Y = np.array([0.31, 0.74, 1.12]), np.array([0.55, 0.23, 0.91])


@pytest.mark.parametrize("seed", range(24))
def test_names_are_the_objects_that_they_are_bound_to(seed: int) -> None:
    f = python_function(*renamed(Random(seed)))
    expected = f(X, Y)
    source = source_of(f)
    np.testing.assert_allclose(oracle.evaluate(source, X, Y), expected, rtol=1e-11)
    for compiled in (adc.compile(f, backend="numpy"), adc.compile(njit(f), backend="numpy")):
        np.testing.assert_allclose(compiled(X, Y), expected, rtol=1e-11)
    slopes = adc.grad(adc.compile(f, backend="numpy"))(X, Y)
    h = 1e-6
    for k, (slope, point) in enumerate(zip(slopes, (X, Y), strict=True)):
        for i in range(len(point)):
            step = h * np.eye(len(point))[i]
            ends = [f(X + s * step, Y) if k == 0 else f(X, Y + s * step) for s in (1, -1)]
            assert slope[i] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-7)


def test_the_oracle_reads_names_as_python_does() -> None:
    log, total, scale = np.log2, np.prod, 3.0

    def helper(v):
        return log(v) * scale

    def f(x):
        return total(helper(x)) + np.sum(x)

    found = oracle.gradient(source_of(f), (X,))
    np.testing.assert_allclose(adc.grad(f)(X), found, rtol=1e-12)
    assert oracle.evaluate(source_of(f), X) == pytest.approx(f(X), rel=1e-14)
