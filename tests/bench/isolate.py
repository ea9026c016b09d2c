"""A process of its own for each measurement, with the same threads for everyone and limits that hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "ADC_NUM_THREADS",
    "BENCH_THREADS",
)
SUITE = Path(__file__).resolve().parent
HERE = str(SUITE.parents[1])  # this checkout
SHARE = 0.9  # of the memory that is free, which one measurement may take
OUT_OF_MEMORY = (
    "MemoryError",
    "bad_alloc",
    "can't allocate",
    "RESOURCE_EXHAUSTED",
    "Out of memory",
    "ENOMEM",
)

Task = Mapping[str, Any]
Outcome = dict[str, Any]


def environment(threads: int, **more: str) -> dict[str, str]:
    """The variables that the libraries read when they are imported.

    Python keeps the bytecode of a checkout, as it does for installed packages.
    """
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return kept | dict.fromkeys(THREADS, str(threads)) | more


def free_memory() -> int | None:
    """Bytes that a process could take, where the system says so."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    return found[0] if found else None


def processors(threads: int) -> list[int]:
    """Those that a measurement with so many threads has."""
    return sorted(os.sched_getaffinity(0))[:threads]


def confine(threads: int) -> None:
    """In a fresh process: as many processors as threads, and no more memory than there is."""
    if hasattr(os, "sched_setaffinity"):  # XLA asks for the processors, not for a variable
        os.sched_setaffinity(0, processors(threads))
    free = free_memory()
    if free is not None:
        import resource

        limit = int(free * SHARE)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def reason(code: int, text: str) -> str:
    """Why a process ended without a result, in few words."""
    if code in (-9, 137) or any(sign in text for sign in OUT_OF_MEMORY):
        return "needs more memory than there is"
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return f"failed: {lines[-1][:120]}" if lines else f"ended with code {code}"


def command(task: Task) -> list[str]:
    """The command line of a worker with a task."""
    return [sys.executable, str(SUITE), "worker", json.dumps({**task, "started": time.time()})]


def spawn(task: Task, seconds: float, **variables: str) -> Outcome:
    """Run a task of `worker.py` in a process of its own: its outcome, or {"skipped": why}."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        variables = {"TORCHINDUCTOR_CACHE_DIR": folder, **variables}
        try:
            done = subprocess.run(
                command({**task, "answer": str(answer)}),
                env=environment(task["threads"], **variables),
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"skipped": f"over {seconds:.0f} s until the second call"}
        if not answer.exists():
            return {"skipped": reason(done.returncode, done.stderr)}
        return dict(json.loads(answer.read_text()))
