"""The kernel cache: damaged files are replaced, folders that cannot be written are done without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "import adcompiler as adc; print(adc.compile('x * exp(y) + 3')(1.0, 0.0))"


def answer(folder: str | Path) -> str:
    """What a fresh process computes with the cache in `folder`."""
    env = {**os.environ, "ADC_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=env)
    assert not done.stderr, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("ending", ["nbc", "nbi", "py"])
def test_a_damaged_file_is_replaced(tmp_path, ending):
    assert answer(tmp_path) == "4.0"
    files = list(tmp_path.glob(f"kernels/**/*.{ending}"))
    assert files
    for file in files:
        file.write_text("x")
    assert answer(tmp_path) == "4.0"
    assert all(file.read_bytes() != b"x" for file in files)


def test_a_folder_that_cannot_be_written_is_done_without():
    assert answer("/proc/nowhere") == "4.0"
