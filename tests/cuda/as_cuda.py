"""A plugin of pytest: the CPU's tests with the CUDA backend in its place, in numba's simulator.

    PYTHONPATH=tests/cuda python -m pytest -p as_cuda tests/unit/test_language.py

ADC_TEST_SMALL is up to how many points one block computes a program alone, ADC_TEST_LARGE_TURN from how many
points of a turn the host runs a loop.
"""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
sys.setswitchinterval(1e-5)  # the simulator's threads wait for each other: this halves its time

# What cannot pass, and why; by the end of the test's name.
REASONS = {
    "test_many_threads_call_a_function_while_it_compiles": "the simulator runs one kernel at a time",
}


def compiled(func: Any) -> Any:
    """`irprograms.compiled` on the device."""
    from irprograms import optimised

    from adcompiler.codegen.cuda.backend import executable

    made = executable(optimised(func))
    made.kernel = SimpleNamespace(source="")
    return made


def pytest_configure(config: pytest.Config) -> None:
    import irprograms

    from adcompiler.codegen.cuda import executable
    from adcompiler.runtime import specialise

    irprograms.compiled = compiled

    executable.SMALL = int(os.environ.get("ADC_TEST_SMALL", executable.SMALL))
    executable.LARGE_TURN = int(os.environ.get("ADC_TEST_LARGE_TURN", executable.LARGE_TURN))
    for name in ("cpu", "cpu-precise"):
        specialise.BACKENDS[name] = specialise.BACKENDS["cuda"]
    config.addinivalue_line("filterwarnings", "ignore::RuntimeWarning")
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnhandledThreadExceptionWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        reason = REASONS.get(item.name.split("[")[0])
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
