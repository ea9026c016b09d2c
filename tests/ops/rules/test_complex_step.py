"""Complex steps judge the rule table to rounding, without a rule of differentiation."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.api import check_grad as check
from adcompiler.interpreter.complex_step import ANALYTIC, BOUNDED, ComplexStep, NotAnalytic
from adcompiler.ops.table import TABLE


def steps(f: adc.Function, *point: float) -> list[float]:
    types, values, *_ = f._describe(point)
    func = f._trace(types).func
    return [float(ComplexStep(func, [], values, k).slopes([()])[0]) for k in range(len(point))]


@pytest.mark.parametrize("name", [*ANALYTIC, *BOUNDED])
def test_the_derivative_of_an_analytic_primitive_is_exact(name):
    entry = TABLE[name]
    f = adc.compile(f"{name}({', '.join(entry.params)})", args=entry.params, backend="numpy")
    slope = adc.grad(f, tuple(entry.params))
    random = np.random.default_rng(0)
    for _ in range(10):
        point = [float(random.uniform(*domain[random.integers(len(domain))])) for domain in entry.domain]
        assert slope(*point) == pytest.approx(steps(f, *point), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", [p.name for p in TABLE.values() if len(p.params) == 1 and p.differentiable])
def test_no_primitive_is_silently_wrong(name):
    f = adc.compile(f"{name}(x)", backend="numpy")
    low, high = TABLE[name].domain[0][0]
    x = (2 * low + high) / 3
    if name in ANALYTIC or name in BOUNDED or all(p == "0" for p in TABLE[name].partials):
        assert steps(f, x) == pytest.approx([adc.grad(f)(x)], rel=1e-12)
    else:
        with pytest.raises(NotAnalytic, match=name):
            steps(f, x)


@pytest.mark.parametrize(
    "source",
    ["where(x > 0, log(x), 0)", "where(x < 0, x**2, sqrt(x))", "sum(exp(x * arange(3)))",
     "logsumexp(x * arange(3))", "prod(x + arange(3))", "std(x * arange(4))", "floor(x) * x"],
)  # fmt: skip
@pytest.mark.parametrize("x", [0.7, -0.7])
def test_conditions_go_by_real_parts(source, x):
    f = adc.compile(source, backend="numpy")
    assert steps(f, x) == pytest.approx([adc.grad(f)(x)], rel=1e-12)


def test_outside_a_real_domain_the_value_is_that_of_the_reals():
    assert math.isnan(adc.compile("log(x)", backend="numpy")(-1.0))
    assert steps(adc.compile("where(log(x) == log(x), 5 * x, 2 * x)", backend="numpy"), -1.0) == [2.0]


def test_the_report_names_the_worst_entry_of_each_kind():
    x = np.array([0.5, -1.0])
    report = adc.check_report(adc.compile("sum(sin(x)**3) * abs(y)", backend="numpy"), x, 2.0)
    kinds = [(c.what, c.reference) for c in report.comparisons]
    assert kinds == [
        (what, reference)
        for what in ("gradient", "second derivative")
        for reference in ("finite differences", "complex step")
    ]
    assert all(c.error < 1e-12 for c in report.comparisons if c.reference == "complex step")
    assert report.notes == ("no complex step for y: abs has no complex form",)
    assert report.worst == max(c.error for c in report.comparisons) == adc.check_grad(
        adc.compile("sum(sin(x)**3) * abs(y)", backend="numpy"), x, 2.0
    )  # fmt: skip
    assert "worst at x[" in str(report)


def test_an_error_below_the_reach_of_differences_is_seen(monkeypatch):
    def off(f, wrt):
        """A gradient with a small error."""

        def specialise(types):
            exact = adc.grad(f, wrt)._specialise(types)

            def bind(values):
                return SimpleNamespace(run=lambda: [g * (1 + 1e-9) for g in exact.bind(values).run()])

            return SimpleNamespace(bind=bind)

        return SimpleNamespace(_specialise=specialise)

    monkeypatch.setattr(check, "grad", off)
    with pytest.raises(adc.GradientError, match=r"with respect to x\[1\] is .* a complex step gives"):
        adc.check_grad(adc.compile("sum(x**3)", backend="numpy"), np.array([1.0, 2.0]), order=1)
    assert adc.check_grad(adc.compile("abs(x)**3", backend="numpy"), 2.0, order=1) < 1e-8


def test_cancellation_is_no_error():
    x = np.linspace(0.9, 1.1, 101)
    f = adc.compile("sum((x * y - 1)**2) * 1e6")  # compiled, x * y - 1 is rounded once
    interpreted = adc.grad(adc.compile("sum((x * y - 1)**2) * 1e6", backend="numpy"))
    assert np.max(np.abs(adc.grad(f)(x, 1.0 / x)[0] - interpreted(x, 1.0 / x)[0])) > 1e-11
    assert adc.check_grad(f, x, 1.0 / x, order=1) < 1e-6


def test_float32_is_judged_by_its_rounding():
    f = adc.compile("sum(exp(sin(x)) * x)")
    report = adc.check_report(f, np.linspace(0, 2, 5, dtype=np.float32))
    assert {c.reference for c in report.comparisons} == {"finite differences", "complex step"}


def test_many_entries_are_sampled():
    report = adc.check_report(adc.compile("sum(x**2)", backend="numpy"), np.linspace(0, 1, 400), order=1)
    assert report.comparisons[1].error < 1e-12
    assert report.notes == ("complex steps at 64 of the 400 entries of x",)
