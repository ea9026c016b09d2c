"""On what the figures were taken."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("adcompiler", "numpy", "numba", "torch", "jax", "autograd", "casadi")


def processor() -> str:
    """The processor's name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def vectors() -> str:
    """The widest vectors that it has."""
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
    return next((name for name in ("avx512f", "avx2") if name in flags), "")


def versions() -> dict[str, str]:
    """Of what is installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def taken() -> dict[str, str]:
    """The day, and the commit of this checkout, with a + behind it where files differ from it."""
    day = datetime.now(UTC).date().isoformat()
    changed = "+" * bool(_git("diff", "HEAD", "--name-only"))
    return {"date": day, "commit": _git("rev-parse", "--short", "HEAD") + changed}


def _git(*words: str) -> str:
    """What git prints of this checkout; nothing where it is none."""
    try:
        done = subprocess.run(["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


def describe(threads: int) -> dict[str, Any]:
    """Processor, cores, memory, system, versions, threads."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": processor(),
        "vectors": vectors(),
        "cores": cores,
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": versions(),
    }
