"""This checkout beside another: paired times of processes that stay alive, and paired first gradients."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.compare import differences
from bench.isolate import HERE, Outcome, spawn
from bench.live import Live, LostError
from bench.paired import alternate, compared
from bench.report import grid, ratio_cell, seconds
from bench.runner import Settings
from bench.workload import Workload

SPELL = 0.1  # seconds of calls that are compared
PAUSE = 0.02  # seconds until threads that spin after a call of the other sleep
FIRSTS = 3  # processes of each for first gradients


def against(workload: Workload, checkout: Path, settings: Settings) -> Outcome:
    """Times and first gradients of both, or why there are none."""
    found: Outcome = {"about": workload.about}
    try:
        found["times"] = times(workload, checkout, settings)
        if settings.probe:
            found["first"] = firsts(workload, checkout, settings)
    except LostError as error:
        found["skipped"] = str(error)
    return found


def times(workload: Workload, checkout: Path, settings: Settings) -> Outcome:
    """Medians of short spells, which alternate; both have to agree before."""
    task = settings.task("serve", workload, "ours")
    with (
        Live(task, settings.patience, PYTHONPATH=HERE) as here,
        Live(task, settings.patience, PYTHONPATH=str(checkout)) as there,
    ):
        wrong = differences(there.ready(), here.ready(), workload.tolerance)
        if wrong:
            raise LostError(f"disagrees: {wrong}")
        return compared(alternate(lambda: spell(here), lambda: spell(there), settings.repeat))


def spell(worker: Live) -> float:
    time.sleep(PAUSE)
    return float(worker.ask(SPELL)["median"])


def firsts(workload: Workload, checkout: Path, settings: Settings) -> Outcome:
    """Wall times of fresh processes with empty caches, from their start to the first gradient."""
    both = (lambda: wall(workload, Path(HERE), settings)), (lambda: wall(workload, checkout, settings))
    return compared(alternate(*both, min(FIRSTS, settings.repeat)))


def wall(workload: Workload, checkout: Path, settings: Settings) -> float:
    with tempfile.TemporaryDirectory() as cache:
        task = settings.task("first", workload, "ours")
        found = spawn(task, settings.patience, ADC_CACHE_DIR=cache, PYTHONPATH=str(checkout))
    if "skipped" in found:
        raise LostError(f"{checkout}: {found['skipped']}")
    return float(found["wall"])


def table(results: Mapping[str, Any]) -> str:
    """All workloads; a ratio over 1 says that this checkout is faster."""
    rows = []
    for name, found in results["workloads"].items():
        row = [name]
        for kind in ("times", "first"):
            pair = found.get(kind)
            row += [seconds(pair["one"]), seconds(pair["other"]), ratio_cell(pair)] if pair else ["—"] * 3
        rows.append([*row, found.get("skipped", "")])
    head = ["workload", "this", "other", "other / this", "first, this", "other", "other / this", ""]
    return grid(head, rows)
