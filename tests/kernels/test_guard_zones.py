"""Kernels touch nothing but their arrays: in processes of their own, which would end where one did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


def child(*call: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"}
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", *call], env=env, capture_output=True, text=True
    )


def keeps_to_its_arrays(kind: str, examples: int, seed: int, threads: int) -> None:
    done = child(str(TESTS / "judges" / "guard_zones.py"), kind, str(examples), str(seed), str(threads))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_a_guard_ends_a_process_that_touches_it() -> None:
    """The last element and the first one are there; what lies beyond them is not."""
    text = """
import ctypes, os, judges.guard_zones as g
a, b, c = (g.empty((5,), float) for _ in range(3))
for place in (b.ctypes.data + 32, a.ctypes.data, b.ctypes.data + 40, a.ctypes.data - 8):
    if not os.fork():
        ctypes.c_double.from_address(place).value
        os._exit(0)
    print(os.wait()[1] == 0)
"""
    done = child("-c", text)
    assert done.stdout.split() == ["True", "True", "False", "False"], done.stderr


@pytest.mark.thinned(2)
@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_of_some_programs_keep_to_their_arrays(threads: int) -> None:
    keeps_to_its_arrays("named", 1, threads, threads)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("kind", "examples"), [("named", 100), ("expressions", 200), ("loops", 60), ("mixed", 40)]
)
def test_kernels_of_many_programs_keep_to_their_arrays(kind: str, examples: int, threads: int) -> None:
    keeps_to_its_arrays(kind, examples, 10 + threads if kind != "named" else 0, threads)
