"""Each entry on a machine that does something else as well: beside one spinning process a core, and alone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from bench.compare import differences
from bench.isolate import HERE, Outcome, processors
from bench.live import Live, LostError
from bench.paired import alternate, compared
from bench.report import grid, ratio_cell, seconds, title
from bench.runner import Settings, applies
from bench.workload import PEERS, Workload

SPELL = 0.3  # seconds of calls that are compared: many slices of the scheduler
PAUSE = 0.05  # seconds until the machine is as it will be
SPIN = "import os\nos.sched_setaffinity(0, {})\nwhile True: pass"


class Spinners:
    """One process a core that spins, stopped until it is told to go on."""

    def __init__(self, threads: int) -> None:
        cores = processors(threads)
        command = [sys.executable, "-S", "-c", SPIN.format(cores)]
        self.processes = [subprocess.Popen(command) for _ in cores]
        time.sleep(0.3)  # until they have started
        self.spin(False)

    def spin(self, on: bool) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGCONT if on else signal.SIGSTOP)
        time.sleep(PAUSE)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@contextmanager
def spinners(threads: int) -> Iterator[Spinners]:
    """As many as a measurement has cores."""
    made = Spinners(threads)
    try:
        yield made
    finally:
        made.end()


def busy(workload: Workload, peers: Sequence[str], settings: Settings, others: Spinners) -> Outcome:
    """Ours, and the peers that are installed and agree with it."""
    missing = {who: applies(workload, who, settings.device) for who in peers}
    entries: dict[str, Outcome] = {who: {"skipped": why} for who, why in missing.items() if why}
    expected: list[np.ndarray] = []
    for who in ("ours", *(who for who in peers if not missing[who])):
        try:
            with Live(settings.task("serve", workload, who), settings.patience, PYTHONPATH=HERE) as worker:
                found = worker.ready()
                expected = expected or found
                wrong = differences(found, expected, workload.tolerance)
                entries[who] = (
                    {"skipped": f"disagrees: {wrong}"} if wrong else slowed(worker, others, settings)
                )
        except LostError as error:
            entries[who] = {"skipped": str(error)}
            if who == "ours":
                break
    return {"about": workload.about, "entries": entries}


def slowed(worker: Live, others: Spinners, settings: Settings) -> Outcome:
    """The means of an entry alone and beside them."""

    def spell(on: bool) -> float:
        others.spin(on)
        found = worker.ask(SPELL)["mean"]
        others.spin(False)
        return float(found)

    return compared(alternate(lambda: spell(False), lambda: spell(True), settings.repeat))


def table(results: Mapping[str, Any]) -> str:
    """For each entry that was measured anywhere: alone, busy, and busy / alone."""
    workloads = results["workloads"]
    names = [
        w for w in ("ours", *PEERS) if any("ratio" in f["entries"].get(w, {}) for f in workloads.values())
    ]
    rows = []
    for name, found in workloads.items():
        row = [name]
        for who in names:
            pair = found["entries"].get(who, {})
            known = "ratio" in pair
            row += [seconds(pair["one"]), seconds(pair["other"]), ratio_cell(pair)] if known else ["—"] * 3
        rows.append(row)
    head = ["workload", *(cell for who in names for cell in (title(who), "busy", "busy / alone"))]
    return grid(head, rows)
