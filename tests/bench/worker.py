"""What runs in a process of its own: interleaved times, a first gradient, memory, or a server of times."""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bench.cliffs.first import first_cliff
from bench.cliffs.measure import cliff
from bench.compare import differences, leaves
from bench.isolate import Outcome, Task, confine, reason
from bench.products import product
from bench.workload import Run, Workload
from bench.workloads import every

SLOWEST = 20.0  # seconds a call may take
ITERATION = 0.05  # seconds that each has in an iteration
LONG = 1.0  # seconds of a call that needs no warming
SHORTEST = 1e-3  # seconds of calls that are timed together, where one is too short to be timed
TOLD = ("failed", "too slow", "needs")  # how reasons begin that are no disagreement
LIBRARIES = {"ours": "adcompiler", "torch.compile": "torch"}


def main(text: str) -> None:
    """Do a task and write the outcome where it says; a server answers until nobody asks."""
    task = json.loads(text)
    confine(task["threads"])
    if task["kind"] == "serve":
        return serve(task)
    kinds = {
        "time": times, "first": first, "memory": memory, "cliff": cliff, "first cliff": first_cliff,
        "product": product,
    }  # fmt: skip
    outcome = kinds[task["kind"]](task)
    Path(task["answer"]).write_text(json.dumps(outcome))


def workload_of(task: Task) -> Workload:
    return every()[task["workload"]]


def clock(run: Run, calls: int = 1) -> float:
    """Seconds a call; each drops its result before the next, and the last within the time."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


# -- times in turn -------------------------------------------------------------------------------------


def times(task: Task) -> Outcome:
    """Whoever agrees with us is timed, all in turn; the others are told why not."""
    workload = workload_of(task)
    args = workload.arguments(task["size"])
    runs, entries = checked(workload, args, task["who"], task["device"])
    for who, samples in in_iteration(runs, task["repeat"]).items():
        entries[who] = summary(samples)
    return {"entries": entries}


def checked(
    workload: Workload, args: Any, names: Sequence[str], device: str
) -> tuple[dict[str, Run], dict[str, Outcome]]:
    """The calls whose results agree with ours, and what is wrong with the others."""
    runs: dict[str, Run] = {"ours": workload.ours(args, device)}
    expected = [np.array(a) for a in leaves(runs["ours"]())]  # copies: buffers are written again
    entries: dict[str, Outcome] = {}
    for who in names:
        if who == "ours":
            continue
        try:
            run = workload.peers[who](args, device)
            wrong = differences(run(), expected, workload.tolerance) or slow(run)
        except Exception as error:  # whatever a peer raises, the others are still measured
            wrong = reason(1, f"{type(error).__name__}: {error}")
        if wrong:
            entries[who] = {"skipped": wrong if wrong.startswith(TOLD) else f"disagrees: {wrong}"}
        else:
            runs[who] = run
    return runs, entries


def slow(run: Run) -> str:
    """Whether a second call takes too long, in words."""
    second = clock(run)
    return f"too slow: {second:.0f} s a call" if second > SLOWEST else ""


def in_iteration(runs: Mapping[str, Run], repeat: int) -> dict[str, list[float]]:
    """`repeat` iterations of everyone; each begins with a call that is not timed, unless calls are long."""
    samples: dict[str, list[float]] = {who: [] for who in runs}
    for _ in range(repeat):
        for who, run in runs.items():
            last = samples[who][-1] if samples[who] else 0.0
            samples[who] += several(run, last, ITERATION)
    return samples


def several(run: Run, last: float, seconds: float) -> list[float]:
    """Times of calls for so many seconds, after one that is not timed unless the last one was long."""
    warm = clock(run) if last < LONG else LONG
    calls = max(1, int(SHORTEST / max(warm, 1e-7)))
    samples: list[float] = []
    while sum(samples) * calls < seconds:
        samples.append(clock(run, calls))
    return samples


def summary(samples: Sequence[float]) -> Outcome:
    """Median and quartiles, in seconds."""
    cuts = statistics.quantiles(samples, n=4) if len(samples) > 1 else [samples[0]] * 3
    return {"median": statistics.median(samples), "low": cuts[0], "high": cuts[2], "samples": len(samples)}


# -- a process that stays alive ------------------------------------------------------------------------


def serve(task: Task) -> None:
    """Write the results of a first call where the task says, then call for as long as each line asks."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    workload = workload_of(task)
    run = workload.build(task["who"])(workload.arguments(task["size"]), task["device"])
    np.savez(task["results"], *leaves(run()))
    last = clock(run)
    print(json.dumps({"second": last}), file=answers)
    for line in sys.stdin:
        samples = several(run, last, float(line))
        last = samples[-1]
        print(json.dumps(summary(samples) | {"mean": statistics.fmean(samples)}), file=answers)


# -- the first gradient, and memory --------------------------------------------------------------------


def first(task: Task) -> Outcome:
    """Seconds for the import, for the first call beyond it, and for all since the process was started."""
    start = time.perf_counter()
    import_module(LIBRARIES.get(task["who"], task["who"]))
    imported = time.perf_counter() - start
    workload = workload_of(task)
    args = workload.arguments(task["size"])
    start = time.perf_counter()
    run = workload.build(task["who"])(args, task["device"])
    run()
    done, now = time.perf_counter() - start, time.time()
    outcome = {"import": imported, "first": done, "wall": now - task["started"]}
    why = slow(run)
    return {"skipped": why} if why else outcome


def memory(task: Task) -> Outcome:
    """The peak of a call beyond the inputs, in bytes.

    A call on tiny inputs loads and compiles what does not depend on sizes; the peak is that of a second call
    on the real ones, so that a compiler's own memory is not counted but what it keeps is.
    """
    workload = workload_of(task)
    build = workload.build(task["who"])
    build(workload.arguments("tiny"), task["device"])()
    args = workload.arguments(task["size"])
    gc.collect()
    before = status("VmRSS")
    run = build(args, task["device"])
    run()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    run()
    return {"memory": max(0, status("VmHWM") - before)}


def status(name: str) -> int:
    """A size that Linux knows of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)
