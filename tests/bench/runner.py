"""Measures workloads one after another and gathers what came of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from bench.isolate import Outcome, spawn
from bench.workload import Workload

PATIENCE = 120.0  # seconds for import, compilation and two calls of one peer
PACKAGES = {"torch.compile": "torch"}

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """What to measure, and how long."""

    size: str = "full"
    repeat: int = 7
    threads: int = 2
    device: str = "cpu"
    probe: bool = True  # first gradients and memory, each in a process of its own
    time: bool = True  # calls, and memory
    patience: float = PATIENCE

    def task(self, kind: str, workload: Workload, who: Any) -> Outcome:
        """What a worker is told."""
        return {
            "kind": kind,
            "workload": workload.name,
            "who": who,
            "size": self.size,
            "repeat": self.repeat,
            "threads": self.threads,
            "device": self.device,
        }


def installed(who: str) -> bool:
    return who == "ours" or find_spec(PACKAGES.get(who, who)) is not None


def applies(workload: Workload, who: str, device: str) -> str:
    """Why a peer is not measured; nothing if it is."""
    if who in workload.absent:
        return workload.absent[who]
    if who not in workload.peers:
        return "not written"
    if not installed(who):
        return "not installed"
    if device != "cpu" and who in ("numba", "autograd", "casadi"):
        return "no such device"
    return ""


def probe(workload: Workload, who: str, settings: Settings) -> Outcome:
    """First gradient and memory of one entry, or why it is skipped."""
    with tempfile.TemporaryDirectory() as cache:
        task = settings.task("first", workload, who)
        found = spawn(task, settings.patience, ADC_CACHE_DIR=cache)
        if "skipped" in found:
            return found
        if who == "ours":
            found["warm"] = spawn(task, settings.patience, ADC_CACHE_DIR=cache).get("first")
    if not settings.time:
        return found
    measured = spawn(settings.task("memory", workload, who), settings.patience)
    return {**found, "memory": measured.get("memory")}


def measure(workload: Workload, peers: Sequence[str], settings: Settings, say: Say = print) -> Outcome:
    """All entries of a workload: ours and the peers', timed or with a reason why not."""
    entries: dict[str, Outcome] = {"ours": {}}
    for who in peers:
        missing = applies(workload, who, settings.device)
        entries[who] = {"skipped": missing} if missing else {}
    if settings.probe:
        for who, entry in entries.items():
            if not entry:
                entry.update(probe(workload, who, settings))
                say(f"  {who}: {entry.get('skipped') or 'first call {first:.2f} s'.format(**entry)}")
    ready = [who for who, entry in entries.items() if "skipped" not in entry]
    if "ours" in ready and settings.time:
        found = spawn(settings.task("time", workload, ready), settings.patience * len(ready))
        if "skipped" in found:
            say(f"  {found['skipped']}")
            found = {"entries": dict.fromkeys(ready, found)}
        for who, entry in found["entries"].items():
            entries[who].update(entry)
    return {"about": workload.about, "entries": entries, "targets": targets(workload, entries)}


# -- ratios and targets --------------------------------------------------------------------------------


def rival(entries: dict[str, Outcome], against: str) -> str | None:
    """Whose time a target is about: the fastest peer where it says "best"."""
    timed = {who: e["median"] for who, e in entries.items() if "median" in e}
    if against != "best":
        return against if against in timed else None
    peers = {who: t for who, t in timed.items() if who not in ("ours", "numba")}
    return min(peers, key=peers.__getitem__) if peers else None


def targets(workload: Workload, entries: dict[str, Outcome]) -> list[Outcome]:
    """For each target: against whom, the ratio reached, and whether it is met; None where not measured."""
    found = []
    for target in workload.all_targets():
        who = rival(entries, target.against)
        ratio = None
        if who is not None and "median" in entries["ours"]:
            ratio = entries[who]["median"] / entries["ours"]["median"]
        met = None if ratio is None else ratio >= target.ratio
        found.append({"against": who or target.against, "target": target.ratio, "ratio": ratio, "met": met})
    return found
