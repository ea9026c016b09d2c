"""The blocks of a nest: the numbers that Python computes for a call are what the expressions say in C."""

from __future__ import annotations

from itertools import product

import pytest

import adcompiler as adc
from adcompiler.kernels.emit.writer import Writer
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.loopir.nodes import Var
from adcompiler.loopir.printer import text
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run
from adcompiler.targets.cpu.compiled import CpuKernel

PROGRAMS = {
    "a sum": "def f(x: f64[n, m]):\n    return sum(sin(x))",
    "lanes": "def f(x: f64[n, m], w: f64[m, 5]):\n    return sum(tanh(x @ w)**2)",
    "tiles": "def f(x: f64[n, m]):\n    return x.T * 2",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_expressions_say_what_a_call_computes(program: str) -> None:
    f = adc.compile(PROGRAMS[program])
    kernel = CpuKernel(scheduled(run((*OPTIMISE, *KERNEL), f._trace(f._shown(())).func)))
    plan, writer = kernel.plan, Writer(kernel.kernel.arrays, kernel.plan.sizes, (), {})
    assert kernel.partitions
    for sizes in product((0, 1, 3, 100, 129, 5000, 100_000), (1, 2, 40, 9000)):
        known = dict(zip(plan.sizes, sizes, strict=True))
        for partition in kernel.partitions:
            blocks, rows, *_ = partition.plan(sizes)
            assert eval(text(partition.rows(writer)), {}, known) == rows
            assert eval(text(partition.blocks(writer, Var("rows"))), {}, {**known, "rows": rows}) == blocks
