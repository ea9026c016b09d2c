"""A module of LLVM IR in parts, and as modules that can be compiled apart."""

from __future__ import annotations

import pytest

from adcompiler.targets.llvm import module_text
from adcompiler.targets.llvm.module_text import divided, parts

ONE, TWO = "define i64 @one() {\nstart:\n  ret i64 1\n}\n", "define void @two() #0 {\n  ret void\n}\n"
CASES = {
    "alone": [ONE],
    "next to each other": [ONE, TWO],
    "declarations between": ["; name\n\n", ONE, "\ndeclare i64 @other()\n\n", TWO, "\n!0 = !{}\n"],
    "only declarations": ["declare i64 @define()\n"],
    "nothing": [],
}


@pytest.mark.parametrize("case", CASES)
def test_functions_are_parts(case):
    assert parts("".join(CASES[case])) == CASES[case]


KEPT = '@llvm.compiler.used = appending global [1 x ptr] [ptr @wide], section "llvm.metadata"\n'
HEAD = "declare double @llvm.sqrt.f64(double)\n"
WIDE = "define internal <4 x double> @wide(<4 x double> %x) {\nret <4 x double> %x\n}\n"
COMMON = "define internal i64 @common(i64 %x) {\nret i64 %x\n}\n"
FIRST = (
    "define internal i1 @first(i64 %x) noinline {\n%y = call i64 @common(i64 %x)"
    ' "vector-function-abi-variant"="_ZGV_LLVM_N4v_common(wide)"\nret i1 true\n}\n'
)
SECOND = "define internal i1 @second(i64 %x) noinline {\n%y = call i1 @first(i64 %x)\nret i1 %y\n}\n"
ENTRY = "define i64 @entry(i64 %x) {\n%y = call i64 @go(ptr @second, i64 %x)\nret i64 %y\n}\n"
GO = "define internal i64 @go(ptr %f, i64 %x) {\nret i64 %x\n}\n"
TAIL = '!0 = !{!"of a loop"}\n'
TEXT = "".join([KEPT, HEAD, WIDE, COMMON, FIRST, SECOND, GO, ENTRY, TAIL])


def test_modules_have_what_they_call_and_declare_what_is_apart(monkeypatch):
    monkeypatch.setattr(module_text, "PART_CHARACTERS", 1)
    first, second = (f.replace("define internal", "define") for f in (FIRST, SECOND))
    declared = "declare i1 @first(i64 %x) noinline\n", "declare i1 @second(i64 %x) noinline\n"
    head = HEAD + TAIL
    assert {frozenset(parts(one)) for one in divided(TEXT, ("first", "second"))} == {
        frozenset([KEPT + head, WIDE, COMMON, first]),
        frozenset([head + declared[0], second]),
        frozenset([head + declared[1], GO, ENTRY]),
    }


def test_short_functions_stay_together(monkeypatch):
    assert divided(TEXT, ("first", "second")) == [TEXT]
    monkeypatch.setattr(module_text, "PART_CHARACTERS", len(WIDE + COMMON + FIRST + "."))
    assert len(divided(TEXT, ("first", "second"))) == 2


def test_a_module_without_functions_apart_is_whole(monkeypatch):
    monkeypatch.setattr(module_text, "PART_CHARACTERS", 1)
    assert divided(TEXT, ()) == [TEXT]
