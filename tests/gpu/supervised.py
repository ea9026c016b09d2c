"""Cases one after the other, in a process of their own: what one raises is its result, and one that kills the
process, hangs, or leaves the device of no use ends that process and not the others.

The process writes a line of JSON for each case into a file, and before it begins a line with its name only;
the one that supervises it reads them, and begins a new process with the cases that have no result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Case = Callable[[], Row]
USELESS = 3  # the exit status of a process that leaves the rest to another one


def read(path: Path) -> list[Row]:
    """The results so far; a case that only began has none."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    rows = {row["case"]: row for row in map(json.loads, lines)}
    return list(rows.values())


def append(path: Path, row: Row) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, default=str) + "\n")


def run(cases: Iterable[tuple[str, Case]], path: Path, until: float, usable: Callable[[], Any]) -> int:
    """Run the cases that have no result yet, none of them later than `until`; returns the exit status."""
    done = {row["case"] for row in read(path)}
    for name, case in cases:
        if name in done:
            continue
        if time.time() > until:
            append(path, {"case": name, "skipped": "out of time", "seconds": 0.0})
            continue
        append(path, {"case": name})
        row = {"case": name, **result(case)}
        append(path, row)
        shown = {k: v for k, v in row.items() if k not in ("case", "trace")}
        print(f"{name:<28}", ", ".join(f"{k} {v}" for k, v in shown.items()), flush=True)
        if "error" in row and "error" in result(usable):
            return USELESS
    return 0


def result(case: Case) -> Row:
    """What a case gives, or raises, and the time it takes."""
    begun = time.perf_counter()
    try:
        found = case() or {}
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        lines = traceback.format_exception(error)
        found = {"error": f"{type(error).__name__}: {error}"[:600], "trace": "".join(lines)[-3000:]}
    return {**found, "seconds": round(time.perf_counter() - begun, 2)}


def supervise(
    command: list[str], path: Path, until: float, longest: float, seen: Callable[[list[Row]], Any]
) -> list[Row]:
    """The results of all cases of a command that calls `run`; `seen` gets them as they come."""
    rows: list[Row] = []
    while True:
        before = len(finished(path))
        status = watched(command, path, until, longest, seen)
        rows = read(path)
        for row in unfinished(rows):
            why = "was too long" if status is None else f"ended its process with status {status}"
            append(path, {**row, "error": why, "seconds": round(time.time() - path.stat().st_mtime, 2)})
        if status == 0 or time.time() > until or len(finished(path)) == before:
            if status != 0:
                append(path, {"case": "all cases", "error": f"the last process ended with status {status}"})
            rows = read(path)
            seen(rows)
            return rows


def watched(
    command: list[str], path: Path, until: float, longest: float, seen: Callable[[list[Row]], Any]
) -> int | None:
    """The exit status of one process; None if it was killed for its time."""
    child = subprocess.Popen(command)
    count = -1
    try:
        while child.poll() is None:
            time.sleep(0.1)
            now = path.stat().st_mtime if path.exists() else time.time()
            if time.time() > until or time.time() - now > longest:
                return None
            if count != (count := len(finished(path))):
                seen(read(path))
        return child.returncode
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def finished(path: Path) -> list[Row]:
    return [row for row in read(path) if len(row) > 1]


def unfinished(rows: list[Row]) -> Iterator[Row]:
    """The case that began and has no result: one at most."""
    return (row for row in rows if len(row) == 1)


def again(*options: str) -> list[str]:
    """The command that runs this module's caller once more."""
    return [sys.executable, "-m", "tests.gpu.prove", *sys.argv[1:], *options]


def table(rows: list[Row]) -> str:
    """The results as Markdown."""
    lines = ["| case | result |", "| --- | --- |"]
    for row in rows:
        cells = (f"{k} {v}" for k, v in row.items() if k not in ("case", "trace"))
        lines.append(f"| {row['case']} | {', '.join(cells)} |".replace("\n", " "))
    return "\n".join(lines) + "\n"


def written(rows: list[Row]) -> None:
    """JSON and a table, if $OUT is a folder."""
    if folder := os.environ.get("OUT"):
        Path(folder, "cuda.json").write_text(json.dumps(rows, indent=1), "utf-8")
        Path(folder, "cuda.md").write_text(table(rows), "utf-8")
