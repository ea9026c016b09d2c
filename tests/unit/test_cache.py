"""The kernel cache: damaged files are replaced, folders that cannot be written are done without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import store

# The second is one that numba compiles.
PROGRAM = """
import adcompiler as adc
print(adc.compile('x * exp(y) + 3')(1.0, 0.0), adc.compile('gamma(x)')(4.0))
"""


def start(folder: str | Path) -> subprocess.Popen[str]:
    """A fresh process with the cache in `folder`."""
    env = {**os.environ, "ADC_CACHE_DIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


def answer(process: subprocess.Popen[str]) -> str:
    """What it computes."""
    out, errors = process.communicate()
    assert not errors, errors
    return out.strip()


def replaced(whole: bytes) -> bytes:
    return b"x"


def with_another_end(whole: bytes) -> bytes:
    return whole[:-1] + bytes([whole[-1] ^ 1])


@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        *((ending, replaced) for ending in ("nbc", "nbi", "py", "o", "table")),
        *((ending, with_another_end) for ending in ("o", "table")),
    ],
)
def test_a_damaged_file_is_replaced(tmp_path, ending, damage):
    assert answer(start(tmp_path)) == "4.0 6.0"
    files = {file: file.read_bytes() for file in tmp_path.glob(f"kernels/**/*.{ending}")}
    assert files
    for file, whole in files.items():
        file.write_bytes(damage(whole))
    assert answer(start(tmp_path)) == "4.0 6.0"
    assert all(file.read_bytes() != damage(whole) for file, whole in files.items())


def test_many_processes_at_once(tmp_path):
    processes = [start(tmp_path) for _ in range(4)]
    assert [answer(process) for process in processes] == ["4.0 6.0"] * 4
    assert not list(tmp_path.glob("kernels/**/*.tmp"))


def test_a_folder_that_cannot_be_written_is_done_without():
    assert answer(start("/proc/nowhere")) == "4.0 6.0"


def test_what_is_kept_is_made_once_and_belongs_to_its_source(tmp_path, monkeypatch):
    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path))
    made = []

    def make() -> bytes:
        made.append(1)
        return b"content %d" % len(made)

    assert [store.kept(source, ".test", make) for source in ("a", "a", "b", "a")] == [
        b"content 1", b"content 1", b"content 2", b"content 1"
    ]  # fmt: skip
    a, b = (next(tmp_path.glob(f"kernels/*/{store.sha256(s).hexdigest()[:32]}.test")) for s in (b"a", b"b"))
    a.write_bytes(b.read_bytes())  # whole, but of another source
    assert store.kept("a", ".test", make) == b"content 3"


def test_the_folder_is_the_one_asked_for_else_the_platforms(monkeypatch, tmp_path):
    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path / "own"))
    assert store.folder() == tmp_path / "own"
    monkeypatch.delenv("ADC_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.folder() == tmp_path / "adcompiler"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert store.folder() == tmp_path / "adcompiler" / "adcompiler" / "Cache"


def test_nothing_is_compiled_that_nobody_called(monkeypatch, tmp_path):
    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path))

    def count():
        return len(list(tmp_path.rglob("*.o")))

    f = adc.compile("def f(x, y):\n    t = x * y + 7.25\n    return sin(t) * t, t * y")
    split, x = f.split(), np.linspace(0, 1, 100_000)
    assert count() == 0
    f(x, x)  # on all threads
    assert count() == 1
    f(x[:9], x[:9])  # on one
    assert count() == 1
    f(x[::-2], x[::2])
    assert count() == 2
    _, saved = split.forward(x, x)
    assert count() == 3
    split.propagate(saved, (x, x))
    assert count() == 4
    split.propagate(saved, (None, x))
    split.propagate(saved, (None, x))
    assert count() == 5
