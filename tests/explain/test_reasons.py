"""Why a nest is slower than its roofline: reasons that are read off the innermost loops."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.runtime.reports.reasons import reasons
from adcompiler.targets.cpu.timed import Timed

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
    "a search": (
        "x: f64[n]",
        "s = x[0]\n    while s < 100:\n        s = s * 1.5\n    return s",
        (X,),
        "not known",
    ),
    "a function without vectors": ("x: f64[n]", "return digamma(x + 2.0)", (X,), "one number at a time"),
}
FAST = {
    "elements": ("x: f64[n]", "return exp(x) * x[::-1]", (X,)),
    "a counter": ("x: f64[n], k: i64", "return [x[i % n] * (i // k) for i in range(k)]", (X, 7)),
    "a sum": ("x: f64[n]", "return sum(x * x)", (X,)),
    "rows": ("m: f64[n, n]", "return sum(tanh(m), axis=1)", (M,)),
    "a product": ("m: f64[n, n]", "return [sum(m[i] * m[j]) for i in range(n) for j in range(n)]", (M,)),
}


def compiled(parameters, body):
    return adc.compile(f"def f({parameters}):\n    {body}")


def found(parameters, body, args):
    f = compiled(parameters, body)
    f(*args)
    kernel = f._specialise(f._last).executable.general
    timed = Timed(kernel.made, kernel.precise)
    return [reason for k in range(len(timed.items)) for reason in reasons(timed, k)]


@pytest.mark.parametrize("name", SLOW)
def test_what_is_slow_is_named(name):
    *program, words = SLOW[name]
    assert any(words in reason for reason in found(*program))


@pytest.mark.parametrize("name", FAST)
def test_vectors_at_unit_stride_have_no_reason(name):
    assert found(*FAST[name]) == []


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
