"""A module of LLVM IR in parts."""

from __future__ import annotations

import pytest

from adcompiler.targets.llvm.module_text import parts

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
