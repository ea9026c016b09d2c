"""A plugin of pytest: the CPU's tests with the CUDA backend in its place, in numba's simulator.

NUMBA_ENABLE_CUDASIM=1 python -m pytest -p tests.cuda.as_cuda tests/unit/test_language.py
"""

from __future__ import annotations

import os
import sys

import pytest

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
sys.setswitchinterval(1e-5)  # the simulator's threads wait for each other


def pytest_configure(config: pytest.Config) -> None:
    from adcompiler.codegen.cuda import executable
    from adcompiler.runtime import specialise

    executable.SMALL = int(os.environ.get("ADC_TEST_SMALL", executable.SMALL))
    specialise.BACKENDS["cpu"] = specialise.BACKENDS["cuda"]
    config.addinivalue_line("filterwarnings", "ignore::RuntimeWarning")
