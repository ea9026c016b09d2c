"""Why a nest is slower than its roofline: reasons that are read off the innermost loops."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.kernels.emit.traffic import Counted
from adcompiler.runtime.reports.reasons import Circumstances, circumstances, reasons
from adcompiler.targets.cpu.timed import Timed
from adcompiler.targets.llvm.libmvec import vectors

X, M, K = np.linspace(0.1, 1, 60), np.ones((60, 60)), np.arange(60)[::-1].copy()
SLOW = {
    "a remainder": ("x: f64[n], k: i64[n]", "return [x[a % n] for a in k]", (X, K), "divides integers"),
    "a gather": ("x: f64[n], k: i64[n]", "return x[k]", (X, K), "reads x at computed places"),
    "a scatter": (
        "x: f64[n], k: i64[n]",
        "y = zeros(n)\n    y[k] += exp(x)\n    return y",
        (X, K),
        "stores t_3 at computed places",
    ),
    "a step": ("x: f64[n]", "return sum(x[::3] * 2.0)", (X,), "stride of 3"),
    "columns": ("m: f64[n, n]", "return cumsum(m.T, axis=1)[-1]", (M,), "from row to row"),
    "a recurrence": (
        "x: f64[n]",
        "s = 0.0\n    for i in range(n):\n        s = sin(s) + x[i]\n    return s",
        (X,),
        "wait for each other",
    ),
    "a sweep": (
        "x: f64[n]",
        "y = x.copy()\n    for i in range(2, n):\n        y[i] = 0.5 * max(y[i - 2], x[i - 1])\n    return y",
        (X,),
        "each reads",
    ),
    "a routine": (
        "x: f64[n], m: f64[n, n]",
        "for i in range(3):\n        x = solve(m, x)\n    return x",
        (X, M + np.eye(60)),
        "calls solve, whose operations are not counted",
    ),
    "a search": (
        "x: f64[n]",
        "s = x[0]\n    while s < 100:\n        s = s * 1.5\n    return s",
        (X,),
        "not known",
    ),
    "a function without vectors": ("x: f64[n]", "return digamma(x + 2.0)", (X,), "one number at a time"),
}
RECORDS = "x: f64[n, 6]", "return [sum(exp(x[i, a]) for a in range(6)) for i in range(n)]", (M[:, :6],)
FAST = {
    "elements": ("x: f64[n]", "return exp(x) * x[::-1]", (X,)),
    "a counter": ("x: f64[n], k: i64", "return [x[i % n] * (i // k) for i in range(k)]", (X, 7)),
    "a sum": ("x: f64[n]", "return sum(x * x)", (X,)),
    "rows": ("m: f64[n, n]", "return sum(tanh(m), axis=1)", (M,)),
    "a product": ("m: f64[n, n]", "return [sum(m[i] * m[j]) for i in range(n) for j in range(n)]", (M,)),
}


def compiled(parameters, body):
    return adc.compile(f"def f({parameters}):\n    {body}")


def timed(parameters, body, args):
    f = compiled(parameters, body)
    f(*args)
    kernel = f._specialise(f._last).executable.general
    return Timed(kernel.made, kernel.precise)


def found(parameters, body, args):
    kernel = timed(parameters, body, args)
    return [reason for k in range(len(kernel.items)) for reason in reasons(kernel, k)]


@pytest.mark.parametrize("name", SLOW)
def test_what_is_slow_is_named(name):
    *program, words = SLOW[name]
    assert any(words in reason for reason in found(*program))


@pytest.mark.parametrize("name", FAST)
def test_vectors_at_unit_stride_have_no_reason(name):
    assert found(*FAST[name]) == []


@pytest.mark.skipif(vectors() is None, reason="needs vectors")
def test_elements_that_lanes_gather_are_named():
    assert "reads x from row to row" in found(*RECORDS)


def rows(columns, seconds):
    """What is said of sums of 60 rows, if they take so many nanoseconds and their roofline is one."""
    kernel = timed("x: f64[n, m]", "return sum(x, axis=1)", (np.ones((60, columns)),))
    work = Counted(kernel.func, kernel.kernel.arrays, (60, columns), {}).item(kernel.items[0])
    known = Circumstances(work, own=1, threads=1, measured=seconds * 1e-9, roof=1e-9, again={})
    return [reason for reason in circumstances(kernel, 0, known) if "innermost" in reason]


def test_short_inner_loops_are_a_reason_if_starting_them_takes_that_long():
    assert rows(5, 300) == ["starts its innermost loops 60 times, for 5 iterations each"]
    assert rows(5, 3_000) == []  # they take less than a tenth of it
    assert rows(500, 300) == []  # not short
    assert rows(5, 1.5) == []  # near the roofline


def test_the_report_gives_the_reasons(monkeypatch):
    for name in ("ceilings.CEILING_SECONDS", "cost.KERNEL_SECONDS"):
        monkeypatch.setattr(f"adcompiler.runtime.reports.{name}", 0.0)
    parameters, body, args, _ = SLOW["a remainder"]
    report = compiled(parameters, body).explain((), *args, cost=True)
    assert "because   divides integers" in report


def test_the_report_names_routines_one_thread_and_functions_that_nests_repeat():
    source = """
def f(x: f64[n], k: i64[n]):
    y = zeros(n)
    y[k] += exp(x)
    return sum((exp(x) - sum(sort(x)))**2) + sum(y * x)
"""
    x = np.linspace(0, 1, 100_000)
    report = adc.compile(source).explain((), x, np.arange(len(x)), cost=True)
    for words in ("calls argsort", "runs on one thread: several iterations may add", "computes exp again"):
        assert words in report
