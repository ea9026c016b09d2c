"""A module of ours that LLVM refuses is an error in tests, and for users a warning and a slower way; what
ends LLVM, and the process with it, is not handed to it. What only numba compiles is announced likewise."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.llvm.runtime import jit as machine
from adcompiler.targets.llvm.runtime.entry import Code
from adcompiler.targets.llvm.values import BrokenModuleError

# What LLVM does not parse, does not verify, and does not link: nobody has that name.
ENTRY = "define i64 @entry(i64 %a, ptr %b, i64 %c) {\n"
BROKEN = {
    "no text": "define",
    "another type": ENTRY + "ret double 0.0\n}",
    "no block": ENTRY + "br i1 true, label %x, label %y\nx:\nret i64 0\n}",
    "used before it is made": ENTRY + "%x = add i64 %y, 1\n%y = add i64 %c, 1\nret i64 %x\n}",
    "no function": f"declare i64 @adc_nobody()\n{ENTRY}%x = call i64 @adc_nobody()\nret i64 %x\n}}",
}


def broken(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler writes this for every kernel, and every kernel is new."""
    monkeypatch.setattr(machine, "translated", lambda *_: Code(text, frozenset(), ("entry",)))


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_module_that_llvm_refuses_is_an_error_in_tests(text, monkeypatch):
    broken(text, monkeypatch)
    with pytest.raises(BrokenModuleError):
        adc.compile("sum(x * y)")(np.ones(3), np.ones(3))


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_users_are_told_of_a_module_that_llvm_refuses_and_get_their_results(text, monkeypatch):
    monkeypatch.delenv("ADC_STRICT")
    broken(text, monkeypatch)
    f = adc.compile("def product(x, y): return sum(x * y)")
    with pytest.warns(RuntimeWarning, match="bug in adcompiler: LLVM refuses the code of product"):
        assert f(np.ones(3), np.ones(3)) == 3


def test_users_are_told_once_why_numba_compiles_a_kernel(monkeypatch):
    def unsupported(*_):
        raise UnsupportedError("the function unheard_of")

    monkeypatch.setattr(machine, "translated", unsupported)
    with pytest.raises(adc.Error, match=r"needs numba, .*: the function unheard_of\n.*unset ADC_STRICT"):
        adc.compile("x + 1")(1.0)
    monkeypatch.delenv("ADC_STRICT")
    f = adc.compile("def product(x, y): return sum(x * y)")
    with pytest.warns(RuntimeWarning, match="product needs numba, .*: the function unheard_of") as warned:
        assert f(np.ones(3), np.ones(3)) == f(np.ones(3), np.ones(3)) == 3
    assert len(warned) == 1


def test_strided_arrays_are_copied_where_llvm_refuses_their_kernel(monkeypatch):
    f = adc.compile("def f(x): return sum(x * x), x + 1")
    f(np.arange(3.0))
    broken(BROKEN["no text"], monkeypatch)
    with pytest.raises(BrokenModuleError):
        f(np.arange(6.0)[::2])
    monkeypatch.delenv("ADC_STRICT")
    with pytest.warns(RuntimeWarning, match="strided"):
        total, more = f(np.arange(6.0)[::2])
    assert total == 20
    np.testing.assert_array_equal(more, [1, 3, 5])


# Loops that add up or compare, divide by what varies, and load under conditions: LLVM 22 interleaves them
# without vectors if it is told to, and fails by an assertion.
GATHERED = {
    "a column": "[y[i % n, 0] for i in range(n)]",
    "an element": "[x[-1] for i in range(n)]",
    "a row": "[x[i % n] for i in range(n)]",
    "an index": "[y[at[i % m], 0] for i in range(n)]",
    "largest": "max(at[i % m] for i in range(n))",
    "sum": "sum(x[at[i // m]] for i in range(n))",
}
TOGETHER = [
    ("a column", "an element", "largest"),
    ("a column", "an element", "sum"),
    ("a column", "an element", "an index"),
    ("a column", "largest", "a row"),
]
CHILD = """
import sys
import numpy as np
import adcompiler as adc
x, at = np.arange(3.0), np.array([1, 2])
f = adc.compile(sys.argv[1])
v, back = adc.vjp(f, x, x[:, None], at, wrt=(0, 1))
same = zip(v, adc.compile(sys.argv[1], backend="numpy")(x, x[:, None], at))
print(all(np.array_equal(a, b) for a, b in same))
"""


@pytest.mark.thinned(4)
@pytest.mark.parametrize("names", TOGETHER, ids=", ".join)
def test_loops_that_llvm_fails_to_interleave(names):
    results = ", ".join(GATHERED[name] for name in names)
    source = f"def f(x: f64[n], y: f64[n, d], at: i64[m]):\n    return {results}\n"
    child = subprocess.run([sys.executable, "-c", CHILD, source], capture_output=True, text=True, check=False)
    assert (child.returncode, child.stdout.strip()) == (0, "True"), child.stderr
