"""The CUDA backend in numba's simulator: the CPU backend's own tests, and what only a device has.

The simulator is chosen when numba.cuda is imported, so each of these is a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
ROOT = Path(__file__).resolve().parents[3]
EVERYTHING = 10**9

QUICK = {
    "language": ["tests/frontend/lowering/test_array_language.py"],
    "loops": ["tests/frontend/lowering/test_loops.py", "-k", "not matrices"],
    "device": ["tests/targets/cuda/simulated.py"],
    "host loops": ["tests/targets/cuda/hostloops.py"],
}
# Files whose tests are of the language and its derivatives, and not of one backend's code or times. Sparse
# Jacobians make hundreds of calls: they take the simulator too long.
ALL = [
    "tests/ad/test_derivatives.py",
    "tests/ad/test_modes.py",
    "tests/ad/test_taylor.py",
    "tests/api/pairs/test_pairs.py",
    "tests/api/test_custom_vjp.py",
    "tests/api/test_function.py",
    "tests/api/test_primitive.py",
    "tests/api/test_vmap.py",
    "tests/eager/test_tape.py",
    "tests/frontend/indexing/test_cut_slices.py",
    "tests/frontend/indexing/test_index_notation.py",
    "tests/frontend/indexing/test_scattering.py",
    "tests/frontend/library/test_methods.py",
    "tests/frontend/library/test_special.py",
    "tests/frontend/linalg/test_einsum.py",
    "tests/frontend/linalg/test_linalg.py",
    "tests/frontend/linalg/test_matrices.py",
    "tests/frontend/lowering/test_appending.py",
    "tests/frontend/lowering/test_array_language.py",
    "tests/frontend/lowering/test_language.py",
    "tests/frontend/lowering/test_leaving.py",
    "tests/frontend/lowering/test_loops.py",
    "tests/frontend/values/test_broadcasting.py",
    "tests/pytree/test_containers.py",
    "tests/programs/test_ir_programs.py",
    "tests/programs/test_random_programs.py",
    "tests/ad/test_guards.py",
    "tests/examples/test_simple_autograd.py",
    "tests/examples/test_misra1a.py",
]  # fmt: skip


def run(files: list[str], *options: str, **settings: int) -> None:
    """Run test files with the CUDA backend in place of the CPU's."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "targets" / "cuda")}
    env |= {f"ADC_TEST_{name.upper()}": str(value) for name, value in settings.items()}
    call = [sys.executable, "-m", "pytest", "-p", "as_cuda", "-q", "-n0", *options, *files]
    done = subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.long
@pytest.mark.slow_when(lambda name: name != "device")
@pytest.mark.parametrize("name", QUICK)
def test_the_cpus_tests_pass(name: str) -> None:
    run(QUICK[name])


@pytest.mark.slow
def test_they_pass_on_one_block() -> None:
    run(QUICK["language"], small=EVERYTHING)


SETTINGS = {
    "as they are": {},
    "on one block": {"small": EVERYTHING},
    "loops on the host": {"large_iteration": -1, "fewest": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_all_of_the_language(name: str) -> None:
    run(ALL, "-n2", **SETTINGS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["device", "host loops"])
def test_their_slow_cases(name: str) -> None:
    run(QUICK[name], "-m", "slow")


@pytest.mark.slow
def test_the_proof_runs_here() -> None:
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    call = [sys.executable, "-m", "tests.gpu.prove", "--quick"]
    done = subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
