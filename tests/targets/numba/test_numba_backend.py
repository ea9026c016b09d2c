"""`backend="numba"`: numba compiles what `show("kernel")` shows, and finds what the interpreter finds."""

from __future__ import annotations

import numpy as np
import pytest
from judges.compared import leaves, near, totalled
from programs import Program
from programs.written_loops import PROGRAMS

import adcompiler as adc
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.cpu.kernels import kernel_at

LONG = "def f(x: f64[n], y: f64[n]): return sum(exp(x) * y), max(x) * y"
POINTS = "def f(x: f64[n, d], c: f64[d]): return sum(norm(x[i] - c)**3 for i in range(len(x)))"
ROUTINES = """
def f(A: f64[n, n], b: f64[n]):
    return sum(solve(A @ A.T + eye(len(b)), b)**2 + lgamma(b + 2))
"""
MORE = {
    "long": Program(LONG, (np.ones(70_000),) * 2),
    "points": Program(POINTS, (np.sin(np.arange(300.0)).reshape(100, 3), np.ones(3))),
    "routines": Program(ROUTINES, (np.sin(np.arange(9.0)).reshape(3, 3), np.arange(3.0))),
}
ALL = MORE | PROGRAMS
QUICK = ("while",)


@pytest.mark.slow_when(lambda name: name not in QUICK)
@pytest.mark.parametrize("name", ALL)
def test_values_and_derivatives(name):
    program = ALL[name]
    for source in (program.source, totalled(program).source):
        f, plain = (adc.compile(source, backend=b) for b in ("numba", "numpy"))
        for one, other in zip(leaves(f(*program.args)), leaves(plain(*program.args)), strict=True):
            near(one, other, 1e-10)
    wrt = tuple(k for k, a in enumerate(program.args) if np.asarray(a).dtype.kind == "f")
    ways = tuple(np.cos(np.asarray(program.args[k])) for k in wrt)
    for derived in (lambda f: adc.grad(f, wrt)(*program.args), lambda f: adc.hvp(f, wrt)(program.args, ways)):
        for one, other in zip(leaves(derived(f)), leaves(derived(plain)), strict=True):
            near(one, other, 1e-9 * max(1.0, np.max(np.abs(other), initial=0.0)))


def test_what_runs_is_what_is_shown():
    f = adc.compile("def f(x): return sum(sin(x)**2)", backend="numba")
    x = np.ones(5)
    assert f(x) == pytest.approx(5 * np.sin(1.0) ** 2)
    kernel = kernel_at(f._specialise(f._last).executable, [5])
    assert isinstance(kernel, CpuKernel)
    assert kernel.native is None
    assert kernel.kernel.source == f.show("kernel", x)
