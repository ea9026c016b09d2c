"""A module of ours that LLVM refuses is an error in tests, and for users a warning and a slower way."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.codegen.llvm import machine
from adcompiler.codegen.llvm.entry import Code
from adcompiler.codegen.llvm.values import BrokenModuleError

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
    with pytest.warns(RuntimeWarning, match="fault of adcompiler: LLVM refuses the code of product"):
        assert f(np.ones(3), np.ones(3)) == 3


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
