"""Machine code of modules of LLVM IR."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHILD = """
import sys
from adcompiler.targets.llvm.runtime.entry import Code
from adcompiler.targets.llvm.runtime.machine_code import object_code

text = "define i32 @f() {\\nret i32 0\\n}\\n"
assert object_code(Code(text, frozenset(), ("f",)), native=sys.argv[1] == "native")
"""


@pytest.mark.parametrize("processor", ["native", "any"])
def test_the_first_module_of_a_process_may_be_for_any_processor(processor):
    subprocess.run([sys.executable, "-c", CHILD, processor], check=True)
