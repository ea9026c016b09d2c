"""Cases that fail, kill their process, hang, or break the device do not stop the others."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.gpu import supervised

CASES = """
import os, sys, time
from pathlib import Path
from tests.gpu import supervised

def wrong(): raise ValueError("no")
def dies(): os._exit(9)
def hangs(): time.sleep(60)
def breaks():
    global broken
    broken = True
    raise RuntimeError("illegal address")
def usable():
    assert not broken
broken = False
cases = [("right", lambda: {"x": 1}), ("wrong", wrong), ("dies", dies), ("hangs", hangs), ("breaks", breaks),
         ("last", lambda: {"x": 2, "broken": broken})]
sys.exit(supervised.run(cases, Path(sys.argv[1]), float(sys.argv[2]), usable))
"""
ROOT = Path(__file__).resolve().parents[2]


def rows_of(path: Path, cases: str, until: float, longest: float) -> dict[str, supervised.Row]:
    path.touch()
    begin = f"import sys; sys.path.insert(0, {str(ROOT)!r})"
    command = [sys.executable, "-c", f"{begin}\n{cases}", str(path), str(until)]
    seen: list[list[supervised.Row]] = []
    rows = supervised.supervise(command, path, until + 10, longest, seen.append)
    assert seen[-1] == rows
    return {row["case"]: row for row in rows}


@pytest.mark.slow
def test_every_case_has_a_result(tmp_path: Path) -> None:
    rows = rows_of(tmp_path / "rows", CASES, time.time() + 60, 4.0)
    assert list(rows) == ["right", "wrong", "dies", "hangs", "breaks", "last"]
    assert rows["right"]["x"] == 1
    assert rows["wrong"]["error"] == "ValueError: no"
    assert "status 9" in rows["dies"]["error"]
    assert rows["hangs"]["error"] == "was too long"
    assert "illegal address" in rows["breaks"]["error"]
    assert rows["last"]["broken"] is False
    assert "| dies | error" in supervised.table(list(rows.values()))


def test_cases_end_in_time_and_a_process_that_does_not_begin_is_told(tmp_path: Path) -> None:
    rows = rows_of(tmp_path / "late", CASES, time.time() - 1, 4.0)
    assert all(row["skipped"] == "out of time" for row in rows.values())
    rows = rows_of(tmp_path / "none", "raise SystemExit(5)", time.time() + 60, 4.0)
    assert "status 5" in rows["all cases"]["error"]
