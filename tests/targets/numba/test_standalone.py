"""`adc build --emit python`: one file of Python that needs NumPy and numba alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.cli import main

X = np.array([0.25, 0.75, 1.5])
SMALL = "def f(x: f64[n], a: f64):\n    return sum(where(x > a, x, x * j0(a))) ** 2\n"
LARGE = """
def f(x: f64[n], a: f64):
    s = outer(x, x) + eye(len(x))
    for k in range(3):
        s = s + polygamma(1, a + k) * s.T
    return sum(solve(s, x) * x) + log(det(s)) + max(x) * min(x) + sum(sort(x) * arange(len(x)))
"""
RUN = """
import json, sys
sys.modules["adcompiler"] = None
import f
flat = [f.f([0.25, 0.75, 1.5], 0.5), *f.f_value_and_grad([0.25, 0.75, 1.5], 0.5)]
print(json.dumps([getattr(a, "tolist", lambda: a)() for a in flat]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("source", [SMALL, LARGE])
def test_it_runs_without_this_package(tmp_path, source):
    (tmp_path / "f.adc").write_text(source)
    assert main(["build", str(tmp_path / "f.adc"), "--emit", "python", "-o", str(tmp_path)]) == 0
    done = subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    value, (dx, da) = adc.value_and_grad(adc.compile(source))(X, 0.5)
    for got, want in zip(json.loads(done.stdout), (value, value, dx, da), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_lengths_that_do_not_fit_and_names_of_several_programs(tmp_path, monkeypatch):
    source = "def f(x: f64[n], y: f64[n], k: i64):\n    return sum([x[2 * j] * y[j] for j in range(k)])\n"
    (tmp_path / "lengths.adc").write_text(source)
    assert main(["build", str(tmp_path / "lengths.adc"), "--emit", "python", "-o", str(tmp_path)]) == 0
    namespace: dict[str, object] = {}
    exec(compile((tmp_path / "f.py").read_text(), "f.py", "exec"), namespace)
    f = namespace["f"]
    assert f(X, X, 2) == X[0] * X[0] + X[2] * X[1]
    with pytest.raises(ValueError, match="lengths do not fit"):
        f(X, X, 3)
    with pytest.raises(ValueError, match="axis 0 of y has a length that does not fit"):
        f(X, X[:2], 1)


def test_what_numba_lacks_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "fma(x, y, z)", "--emit", "python", "-o", str(tmp_path / "out")]) == 1
    assert "fma has no form in Python that numba compiles\n  help: write x * y + z" in capsys.readouterr().err
