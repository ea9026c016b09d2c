"""LLVM prints nothing: it warns of loops that it is forced to vectorise and cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import numpy as np
import adcompiler as adc

x = np.linspace(0.1, 1.3, 4)
for terms in (
    "y[i] * logsumexp(x[:i + 1])",
    "y[i] * softmax(x[:i + 1])[i]",
    "y[i] * sum(exp(x[:i + 1] - y[:i + 1]))",
):
    f = adc.compile(f"def f(y, x):\\n    return sum({terms} for i in range(3))")
    value, slope = adc.jvp(f, (x, x), (x, x))
    assert np.isclose(slope, sum(np.vdot(g, x) for g in adc.grad(f)(x, x)))
"""


def test_derivatives_of_sums_over_prefixes_print_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "ADC_CACHE_DIR": str(tmp_path), "ADC_OPT": "3"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "")
