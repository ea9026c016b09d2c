"""Short loops in the iterations of a program have a kernel of their own: the same results, chosen by lengths;
no order of additions that the user wrote is changed."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import indent

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.loopir.dependence import are_unordered
from adcompiler.loopir.limits import MOST_LOW_TRIPS
from adcompiler.loopir.nodes import For
from adcompiler.loopir.parse import functions
from adcompiler.loopir.short_loops import low_trip_guard
from adcompiler.targets.llvm.runtime.entry import translated

STATE = """
def f(A: f64[n, n], x: f64[n], y: f64[t, n]):
    total = 0.0
    for k in range(t):
        x = tanh(A @ x) + y[k]
        A = A - 0.1 * outer(x, x) @ A
        total += x @ A @ x
    return total
"""
LENGTHS = [0, 1, 2, 3, 4, 5, 7, MOST_LOW_TRIPS, MOST_LOW_TRIPS + 1, 3 * MOST_LOW_TRIPS]


def arguments(n: int, dtype: type = np.float64) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [0.3 * rng.standard_normal(shape).astype(dtype) for shape in ((n, n), (n,), (5, n))]


@pytest.mark.slow
def test_results_are_those_of_the_reference_for_all_lengths():
    f, reference = (adc.value_and_grad(adc.compile(STATE, backend=b)) for b in ("cpu", "numpy"))
    for n in LENGTHS:
        for a, b in zip(leaves(f(*arguments(n))), leaves(reference(*arguments(n))), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, MOST_LOW_TRIPS])
def test_second_order_and_float32(n):
    f, reference = adc.compile(STATE), adc.compile(STATE, backend="numpy")
    point = arguments(n)
    product = adc.hvp(f, "x")(point, point[1])
    np.testing.assert_allclose(product, adc.hvp(reference, "x")(point, point[1]), rtol=1e-10, atol=1e-12)
    single = adc.grad(adc.compile(STATE.replace("f64", "f32")))(*arguments(n, np.float32))
    for a, b in zip(single, adc.grad(reference)(*point), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def leaves(found: object) -> list[object]:
    return [leaf for part in found for leaf in leaves(part)] if isinstance(found, tuple) else [found]


def test_lengths_choose_the_kernel():
    f = adc.compile(STATE)
    f(*arguments(3))
    kernels = f._specialise(f._last).executable
    n, t = (kernels.general.kernel.plan.sizes.index(name) for name in "nt")
    sizes = [0] * len(kernels.general.kernel.plan.sizes)

    def at(length: int, steps: int) -> object:
        sizes[n], sizes[t] = length, steps
        return kernels.at(sizes)

    assert at(MOST_LOW_TRIPS, 1000).mode.low_trips
    assert at(MOST_LOW_TRIPS + 1, 1000) is kernels.general
    few, many = (translated(k.source, True).text for k in (at(MOST_LOW_TRIPS, 1000), kernels.general))
    assert few.count("vectorize.width") > many.count("vectorize.width")


def test_a_call_of_other_lengths_takes_the_other_kernel():
    f, reference = adc.compile(STATE), adc.compile(STATE, backend="numpy")
    for n in (MOST_LOW_TRIPS, MOST_LOW_TRIPS + 1, MOST_LOW_TRIPS, MOST_LOW_TRIPS + 1):
        for _ in range(2):  # the second call takes the fast path
            np.testing.assert_allclose(f(*arguments(n)), reference(*arguments(n)), rtol=1e-12)


@pytest.mark.parametrize(
    ("body", "free"),
    [
        ("t[k, i] = a[i] * b[k]", True),
        ("v = a[i]\nt[i] = v * v", True),
        ("s = reduce_add(s, a[i])", True),
        ("t[k] = reduce_add(t[k], a[i])", False),  # an element that all iterations add to
        ("s = reduce_min(s, a[i])", True),
        ("s = reduce_min(s, select(a[i] > 0.0, a[i], math.inf))", False),  # LLVM has no vectors for it
        ("v = a[i] if b[i] else 0.0\ns = reduce_max(s, v)", False),
        ("s = s + a[i]", False),  # the order that the user wrote
        ("s = a[i] - s", False),
        ("if a[i] > 0:\n    s = s + a[i]", False),
    ],
)
def test_what_may_be_added_in_another_order(body, free):
    (function,) = functions("def f():\n    for i in range(n):\n" + indent(body, " " * 8))
    (loop,) = function.body
    assert isinstance(loop, For)
    assert are_unordered(loop, {"s"}) == free


CHOSEN = """
import adcompiler as adc, numpy as np
for kind in ("f64", "f32"):
    for value in ("min(x[j] for j in range(n) if x[j] > 0)", "max(x[j] for j in range(n) if j % 2 == 0)",
                  "logsumexp(x[i[j]] for j in range(n) if x[j] > 0)", "min(where(x > 0.1, x, 1))"):
        f = adc.compile(f"def f(x: {kind}[n], i: i64[n], t: i64):\\n    for k in range(t):\\n"
                        f"        x = 0.9 * x + {value}\\n    return sum(x)")
        adc.value_and_grad(f)(np.ones(4, {"f64": "d", "f32": "f"}[kind]), np.array([3, 1, 0, 2]), 3)
"""


@pytest.mark.slow
def test_llvm_says_nothing_of_loops_that_it_makes_no_vectors_of(tmp_path):
    kept = {**os.environ, "ADC_CACHE_DIR": str(tmp_path)}  # nothing is there, so all is compiled
    done = subprocess.run([sys.executable, "-c", CHOSEN], capture_output=True, text=True, env=kept)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "text",
    [
        "def run(n, x):\n    for i in range(uint64(n)):\n        x[i] = 0.0",  # no loop of the program
        "def run(n, x):\n    for iteration0 in range(uint64(n)):\n        x[iteration0] = 0.0",  # none inside
        "def run(n):\n    for iteration0 in range(n):\n        m = n * n\n        for i in range(m): pass",
    ],
)
def test_lengths_that_only_the_kernel_knows_choose_nothing(text):
    assert low_trip_guard(functions(text), ["n"]) is None


def test_a_compensated_sum_in_short_iterations_stays_one():
    """Kahan's sum: what is lost in each addition is added again."""
    source = """
def f(x: f64[t, n]):
    total, lost = zeros(n), zeros(n)
    for k in range(t):
        term = x[k] - lost
        more = total + term
        lost = (more - total) - term
        total = more
    return sum(total)
"""
    x = np.full((10_000, 3), 0.1)
    assert adc.compile(source)(x) == pytest.approx(3000.0, abs=1e-12)
