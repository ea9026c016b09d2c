"""Machine code of kernels in the cache, by numba-cuda's own dispatcher and not its simulator's.

No device is needed: what asks for one, the kernel and the version of the driver, is replaced.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba_cuda")

PROGRAM = """
import sys
from types import SimpleNamespace
from numba import cuda
from numba.cuda import dispatcher
from numba.cuda.codegen import JITCUDACodegen
from adcompiler.targets.numba import modules

VERSION = "13.0", (9, 0)
JITCUDACodegen.magic_tuple = lambda self: VERSION


class Kernel:
    codegen = SimpleNamespace(magic_tuple=lambda: VERSION)

    def __init__(self, function, types, **options):
        print("compiled", *types)

    def bind(self):
        pass

    def _reduce_states(self):
        return {"found": True}

    @staticmethod
    def _rebuild(found):
        print("found")
        return Kernel.__new__(Kernel)


dispatcher._Kernel = Kernel
for source in sys.argv[1:]:
    modules.load(source).run.compile((cuda.types.float64[::1],))
"""
KERNEL = "from numba import cuda\n\n@cuda.jit\ndef run(x):\n    x[0] = 2.0\n"
OTHER = KERNEL.replace("2.0", "3.0")


def ran(folder: object, *sources: str) -> list[str]:
    """What a new process compiles and finds."""
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    env["ADC_CACHE_DIR"] = str(folder)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *sources], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_second_process_finds_the_kernel_of_the_first(tmp_path):
    assert ran(tmp_path, KERNEL) == ["compiled array(float64, 1d, C)"]
    assert ran(tmp_path, OTHER, KERNEL) == ["compiled array(float64, 1d, C)", "found"]
