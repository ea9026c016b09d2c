"""`python -m tests.bench --cliffs`: all programs, each in a process of its own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from bench.cliffs.report import ratio, tables, trouble
from bench.isolate import Outcome, Task, spawn
from bench.report import seconds
from bench.runner import PATIENCE

REPEAT = 3


def run(names: Sequence[str], how: Task, written: Path | None, say: Callable[[str], None]) -> None:
    """Measure the programs of these names, and say what was found."""
    how = {**how, "kind": "cliff", "repeat": REPEAT, "jax": how["jax"] and find_spec("jax") is not None}
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as cache:  # of all: the machine's rates are measured once
        for name in names:
            found[name] = measured({**how, "program": name}, cache)
            say(line(name, found[name]))
            if written is not None:
                written.write_text(json.dumps({"size": how["size"], "programs": found}, indent=1), "utf-8")
    say("\n" + tables(found))


def measured(task: Task, cache: str) -> Outcome:
    """What a process of its own finds about a program."""
    found = spawn(task, PATIENCE, ADC_CACHE_DIR=cache)
    if "skipped" in found:
        return {"firsts": {}, "times": {}, "nests": [], "errors": {"process": found["skipped"]}}
    return found


def line(name: str, found: Outcome) -> str:
    """One program in a line, while the others are still measured."""
    times = found["times"]
    shown = ", ".join(f"{what} {seconds(times[what]['median'])}" for what in times)
    how = ratio(found)
    beside = "" if how is None else f", JAX / ours {how:.2f}"
    return f"{name}: {shown}{beside}" + (f" [{trouble(found)}]" if found["errors"] else "")
