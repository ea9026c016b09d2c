"""What a function took is returned when it is dropped."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, gc
import numpy as np
import adcompiler as adc

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena o s h mapped u f used free top".split()]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Info
x, count, what = np.linspace(0, 1, 10), [0], {what}

def run(n):
    for _ in range(n):
        count[0] += 1
        what(adc.compile(f"sum(x * {{count[0]}}.5 + sin(x))"))
    gc.collect()
    return mallinfo().used + mallinfo().mapped

first = run(35)
print((run(32) - first) // 32)
"""


def has_mallinfo() -> bool:
    """Whether the C library tells how much memory is in use."""
    return sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "mallinfo2")


@pytest.mark.slow
@pytest.mark.skipif(not has_mallinfo(), reason="needs glibc")
@pytest.mark.parametrize(
    ("what", "most"),
    [
        ("lambda f: adc.grad(f)(x)", 5000),
        ("lambda f: (f(x), adc.grad(f)(x))", 5000),
        ("lambda f: f.split().forward(x)", 5000),
        ("lambda f: (f(x), f(x[::2]), f(1.0), f(np.float32(x)))", 5000),
    ],
)
def test_memory_of_dropped_functions_is_returned(what, most):
    """Of each function that was made, called and dropped, less than 5 KB stay; it was 117 KB."""
    program, env = PROGRAM.format(what=what), os.environ | {"PYTHONMALLOC": "malloc"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env
    )
    assert int(done.stdout) < most
