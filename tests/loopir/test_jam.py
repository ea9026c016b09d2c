"""Several iterations of a loop at once: which loops, and that what they compute stays the same."""

import numpy as np
import pytest
from judges.plain_kernels import ran as run_by_python
from judges.plain_kernels import several

from adcompiler.loopir.nodes import For, Function
from adcompiler.loopir.parse import functions
from adcompiler.loopir.printer import lines
from adcompiler.loopir.unroll_and_jam import Jam, jammed
from adcompiler.loopir.walk import statements

PRODUCT = """
def f(n, m, a, b, c):
    for i in range(uint64(0), uint64(n)):
        s = 0.0
        for j in range(uint64(0), uint64(m)):
            s = reduce_add(s, a[i, j] * b[j])
        c[i] = s
"""
TRANSPOSED = """
def f(n, m, a, b, c):
    for i in range(uint64(0), uint64(n)):
        v = b[i] * 2.0
        for j in range(uint64(0), uint64(m)):
            c[j] = reduce_add(c[j], v * a[i, j])
"""
GUARDED = """
def f(n, m, a, b, c):
    for i in range(uint64(0), uint64(n)):
        v = b[i]
        if v > 0.5:
            w = v * v
            c[0] += w
        for j in range(uint64(0), uint64(m)):
            c[j] = reduce_add(c[j], v * a[i, j])
"""
TOTAL = """
def f(n, m, a, b, c):
    t = 1.0
    for i in range(uint64(0), uint64(n)):
        s = 0.0
        for j in range(uint64(0), uint64(m)):
            s = reduce_add(s, a[i, j] * b[j] * b[j])
        for k in range(uint64(i), uint64(m)):
            s = s + a[i, k]
        t = reduce_max(t, s)
    c[0] = t
"""
DEEP = """
def f(n, m, a, b, c):
    for k in range(uint64(0), uint64(2)):
        for i in range(uint64(1), uint64(n)):
            for j in range(uint64(0), uint64(m)):
                x = a[i, j] * b[k]
                c[j] = reduce_add(c[j], x * b[j] * a[k, j])
"""
JAMMED = {"product": PRODUCT, "transposed": TRANSPOSED, "guarded": GUARDED, "total": TOTAL, "deep": DEEP}

REFUSED = {
    "an iteration reads what another one wrote": PRODUCT.replace("b[j]", "c[j]"),
    "a number is carried": PRODUCT.replace("        s = 0.0\n", "")
    .replace("    for i in", "    s = 0.0\n    for i in", 1)
    .replace("c[i] = s", "c[i] = s * 2.0"),
    "sums and other stores to one array": TRANSPOSED + "        c[0] = v\n",
    "a product of what is there": TRANSPOSED.replace("reduce_add(c[j], v * a[i, j])", "c[j] * v + a[i, j]"),
    "sums and products of one array": TRANSPOSED
    + "        for k in range(uint64(0), uint64(m)):\n            c[k] = c[k] * (v + b[k] * b[k])\n",
    "rows of one array, which may overlap for all that LLVM knows": """
def f(n, m, a, b, c):
    for i in range(uint64(0), uint64(n)):
        for j in range(uint64(0), uint64(m)):
            a[i, j] = a[i, j] + b[j] * c[j]
""",
    "nothing is shared": PRODUCT.replace("b[j]", "a[i, j]"),
    "no loop inside": """
def f(n, m, a, b, c):
    for i in range(uint64(0), uint64(n)):
        c[i] = b[i]
""",
    "the inner loop depends on the iteration": PRODUCT.replace("uint64(m)", "uint64(i)"),
    "a loop that ends early": PRODUCT + "        break\n",
}


def loops(text: str) -> list[Jam]:
    (function,) = functions(text)
    return [s for s in statements(jammed(function).body) if isinstance(s, Jam)]


def ran(function: Function, n: int, m: int) -> np.ndarray:
    found = run_by_python([function], numbers=False)
    a, b = np.linspace(0.1, 1.3, 12 * 12).reshape(12, 12), np.linspace(0.2, 0.9, 12)
    c = np.arange(12.0)
    found["f"](n, m, a, b, c)
    return np.concatenate((c, a.ravel()))


@pytest.mark.parametrize("name", JAMMED)
@pytest.mark.parametrize("n", range(10))
def test_the_results_are_those_of_one_iteration_after_the_other(name: str, n: int) -> None:
    assert len(loops(JAMMED[name])) == 1
    (function,) = functions(JAMMED[name])
    expected = ran(function, n, 7)
    np.testing.assert_array_equal(ran(several(function), n, 7), expected)


@pytest.mark.parametrize("name", REFUSED)
def test_iterations_that_need_each_other_stay_apart(name: str) -> None:
    assert not loops(REFUSED[name])


def test_inner_loops_are_shared() -> None:
    """Four iterations add to an element that is read and written once."""
    (loop,) = loops(TRANSPOSED)
    assert isinstance(loop, Jam)
    *scalars, inner = loop.together
    assert list(lines(scalars)) == [f"v.{k} = b[i.{k}] * 2.0" for k in range(4)]
    assert isinstance(inner, For)
    assert list(lines(inner.body)) == [f"c[j] = reduce_add(c[j], v.{k} * a[i.{k}, j])" for k in range(4)]


def test_an_extremum_waits_for_one_operation() -> None:
    (loop,) = loops(TOTAL)
    assert isinstance(loop, Jam)
    last = loop.together[-1]
    (text,) = lines([last])
    assert text == "t = reduce_max(t, reduce_max(reduce_max(s.0, s.1), reduce_max(s.2, s.3)))"
