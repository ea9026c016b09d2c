"""`adc.dask`: loops along chunks run chunk after chunk, and loops over passes are written out."""

from __future__ import annotations

import numpy as np
import pytest
from interop.dask.cases import X, assert_near, bits, chunked, computed, interpreted, labels, w, x

import adcompiler as adc

dask = pytest.importorskip("dask", reason="needs dask[array]")
da = pytest.importorskip("dask.array", reason="needs dask[array]")

ALONG_CHUNKS = {
    "cumulative sums": ("return sum(cumsum(a * x)**2)", (x, 0.3)),
    "cumulative products": ("return sum(cumprod(a * x + 0.6)**2)", (x, 0.8)),
    "the greatest so far": ("return sum(cummax(a * x)**2)", (x, 0.8)),
    "product": ("return prod(a * x + 0.5)", (x, 0.9)),
    "product with zeros": ("return prod(where(x == max(x), 0.0, a * x + 0.5))", (x, 0.9)),
    "product of rows": ("return sum(prod(a * x + 0.5, axis=0)**2)", (X, 0.9)),
    "recurrence": (
        "s = 0.2\n    for i in range(len(x)):\n        s = sin(s * a + x[i] * i)\n    return s",
        (x, 0.9),
    ),
    "recurrence of rows": (
        "s = a\n    for i in range(len(x)):\n        s = sin(s + x[i])\n    return sum(s**2)",
        (X, w),
    ),
    "the element before": (
        "s = 0.0\n    p = 0.0\n    for i in range(len(x)):\n        s += (x[i] - p)**2 * a\n"
        "        p = x[i]\n    return s",
        (x, 0.8),
    ),
}

OVER_PASSES = {
    "gradient descent": (
        "for i in range(4):\n        a = a - 0.6 * (x.T @ (x @ a - 1)) / len(x)\n"
        "    return sum((x @ a - 1)**2)",
        (X, w),
    ),
    "clusters": (
        "for i in range(4):\n        d = (x[:, None] - a)**2\n"
        "        q = where(d == min(d, axis=1, keepdims=True), 1.0, 0.0)\n"
        "        a = sum(q * x[:, None], axis=0) / (sum(q, axis=0) + 0.01)\n    return sum(a**2)",
        (x, w),
    ),
    "mixture": (
        "for i in range(3):\n        p = exp(-9 * (x[:, None] - a)**2)\n        "
        "q = p / sum(p, axis=1, keepdims=True)\n"
        "        a = sum(q * x[:, None], axis=0) / sum(q, axis=0)\n    return sum(a**2)",
        (x, w),
    ),
    "blocks that are carried": (
        "z = x\n    for i in range(4):\n        z = z - a * mean(z**2) + 0.1 * i\n    return sum(z**3)",
        (x, 0.3),
    ),
    "loops in loops": (
        "for i in range(3):\n        for j in range(2):\n            a = a - 0.1 * mean((a - x)**2) * j\n"
        "        a = a * 0.9 + i\n    return a",
        (x, 0.3),
    ),
    "scans in loops": (
        "for i in range(3):\n        a = a - 0.1 * mean(cumsum(x * a))\n    return a",
        (x, 0.3),
    ),
    "rows that are scanned": (
        "z = 0.0\n    for i in range(len(a)):\n        z = z - a[i] * mean((x - z)**2)\n    return z",
        (x, w),
    ),
    "no iteration at all": (
        "for i in range(0):\n        a = a - mean(tanh(a * x))\n    return a * sum(x)",
        (x, 0.3),
    ),
}
LOOPS = ALONG_CHUNKS | OVER_PASSES


@pytest.mark.parametrize(("body", "args"), LOOPS.values(), ids=LOOPS)
def test_values_gradients_and_second_orders_are_those_of_one_machine(body, args):
    f = interpreted(f"def f(x, a):\n    {body}")
    lazy = chunked(args, 10)
    assert_near(computed(adc.dask.value_and_grad(f)(*lazy)), adc.value_and_grad(f)(*args))
    along = tuple(0.5 + np.asarray(a) for a in args)
    assert_near(computed(adc.dask.hvp(f)(tuple(lazy), along)), adc.hvp(f)(args, along))


@pytest.mark.parametrize("name", ["recurrence", "product", "clusters"])
def test_float32_stays_float32(name):
    body, args = LOOPS[name]
    f = interpreted(f"def f(x, a):\n    {body}")
    single = [np.float32(a) for a in args]
    found = computed(adc.dask.value_and_grad(f)(*chunked(single, 10)))
    assert_near(found, adc.value_and_grad(f)(*single), np.float32)


def test_scans_over_no_elements():
    f = interpreted("def f(x, a):\n    return prod(x) + sum(cumsum(a * x))")
    value, (dx, slope) = computed(adc.dask.value_and_grad(f)(da.zeros(0, chunks=3), 2.0))
    assert (value, dx.shape, slope) == (1.0, (0,), 0.0)


def test_threads_do_not_change_bits_of_loops():
    for body, args in (LOOPS["recurrence"], LOOPS["mixture"]):
        f = adc.compile(f"def f(x, a):\n    {body}")
        lazy = adc.dask.value_and_grad(f)(*chunked(args, 2))
        one, four = (dask.compute(lazy, scheduler="threads", num_workers=n)[0] for n in (1, 4))
        assert bits(one) == bits(four)


def test_iterations_share_programs():
    """A loop over passes makes as many programs as a short one."""
    from adcompiler.interop.dask.worker import StageProgram

    def programs(steps: int) -> set[StageProgram]:
        f = interpreted(
            f"def f(x, a):\n    for i in range({steps}):\n        a = a - mean(tanh(a * x - i))\n    return a"
        )
        graph = f(da.from_array(x, 10), 0.3).__dask_graph__()
        return {task for task in graph.values() if isinstance(task, StageProgram)}

    assert len(programs(12)) == len(programs(9))


@pytest.mark.parametrize("returned", ["t, b", "sum(t), b", "sum(t) * b, b", "b"])
def test_what_a_loop_over_blocks_carries_for_all_of_them(returned):
    f = interpreted(
        "def f(x, y, a):\n    t = x\n    b = 1.0\n    for i in range(9):\n        "
        f"t = t - a * b * (t * t - y)\n        b = b * 0.9 + sin(a)\n    return {returned}"
    )
    assert_near(computed(f(*chunked((x, labels, 0.2)))), f(x, labels, 0.2))
