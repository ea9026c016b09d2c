"""A plugin of pytest: the CPU's tests with the CUDA backend in its place, in numba's simulator.

    PYTHONPATH=tests/targets/cuda python -m pytest -p as_cuda tests/frontend/lowering/test_language.py

Where a test asks for the NumPy backend, the device makes the same call, and must agree with it.
ADC_TEST_SMALL is up to how many points one block computes a program alone, ADC_TEST_LARGE_ITERATION from how
many points of an iteration the host runs a loop, ADC_TEST_FEWEST of how many iterations that are left it
captures one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

import adcompiler as adc

sys.setswitchinterval(1e-5)  # the simulator's threads wait for each other: this halves its time

PLAIN: dict[str, Any] = {}  # the backends as they are without this plugin
# What cannot pass, and why; by the end of the test's name.
REASONS = {
    "test_many_threads_call_a_function_while_it_compiles": "the simulator runs one kernel at a time",
}


def compiled(func: Any) -> Any:
    """`irprograms.compiled` on the device."""
    from programs.ir_evaluated import optimised

    from adcompiler.targets.cuda.backend import executable

    made = executable(optimised(func))
    made.general = SimpleNamespace(kernel=SimpleNamespace(source=""))
    return made


class Beside:
    """The NumPy backend, with the device beside it."""

    def __init__(self, func: Any, reference: Any, device: Any) -> None:
        self.func, self.reference, self.device = func, reference(func), device(func)

    def __call__(self, sizes: Sequence[int], args: Sequence[Any], into: Any = None) -> list[Any]:
        refused: Any = None
        found: list[Any] = []
        try:
            found = self.device(sizes, args)
        except adc.Error as error:
            refused = error
        try:
            expected: list[Any] = self.reference(sizes, args, into)
        except adc.Error as error:
            if type(refused) is type(error):
                raise
            raise AssertionError(f"the device says {refused!r}") from error
        assert refused is None, refused
        for one, other in zip(found, expected, strict=True):
            agree(np.asarray(one), np.asarray(other))
        return expected


def agree(found: np.ndarray, expected: np.ndarray) -> None:
    """Fail if results differ by more than rounding, relative to the largest element."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    finite = np.abs(expected[np.isfinite(expected)])
    scale, close = np.max(finite, initial=1.0), 1e-3 if found.dtype == np.float32 else 1e-8
    np.testing.assert_allclose(found, expected, rtol=close, atol=close * scale)


def pytest_configure(config: pytest.Config) -> None:
    from programs import ir_evaluated as irprograms

    from adcompiler.runtime.programs import backends
    from adcompiler.targets.cuda import executable, program

    irprograms.compiled = compiled

    executable.SMALL = int(os.environ.get("ADC_TEST_SMALL", executable.SMALL))
    executable.LARGE_ITERATION = int(os.environ.get("ADC_TEST_LARGE_ITERATION", executable.LARGE_ITERATION))
    program.FEWEST_CAPTURED_ITERATIONS = int(
        os.environ.get("ADC_TEST_FEWEST", program.FEWEST_CAPTURED_ITERATIONS)
    )
    PLAIN.update(backends.BACKENDS)
    for name in ("cpu", "cpu-precise"):
        backends.BACKENDS[name] = backends.BACKENDS["cuda"]
    numpy, cuda = backends.BACKENDS["numpy"], backends.BACKENDS["cuda"]
    backends.BACKENDS["numpy"] = lambda func: Beside(func, numpy, cuda)
    config.addinivalue_line("filterwarnings", "ignore::RuntimeWarning")
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnhandledThreadExceptionWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        reason = REASONS.get(item.name.split("[")[0])
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
