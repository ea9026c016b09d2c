"""What compiles for long says so on a terminal, and nowhere else."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import progress
from adcompiler.progress import CLEAR, compiling


class Terminal(io.StringIO):
    """One that tells when something was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found))
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "_reporter", progress.Reporter())
    monkeypatch.delenv("ADC_PROGRESS", raising=False)
    return found


def test_a_long_compile_says_what_it_compiles_and_removes_the_line(terminal):
    with compiling("f"), compiling("part of it"):
        assert terminal.written.wait(10)
    text = terminal.getvalue()
    assert text.startswith(f"{CLEAR}adc: compiling f, 0 s")
    assert text.endswith(CLEAR)
    assert "\n" not in text


class Notebook(Terminal):
    """The error stream of a notebook: no terminal, but shown."""

    def isatty(self) -> bool:
        return False


Notebook.__module__ = "ipykernel.iostream"


@pytest.mark.parametrize("tqdm", [True, False], ids=["with tqdm", "without"])
def test_a_notebook_shows_a_line_too(terminal, monkeypatch, tqdm):
    if tqdm:
        pytest.importorskip("tqdm", reason="tqdm is not installed")
    else:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    seen = Notebook()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=seen))
    bars = []
    monkeypatch.setattr(progress.Bar, "remove", lambda bar: bars.append(bar.bar.desc))
    with compiling("f"):
        assert seen.written.wait(10)
    assert bars == (["adc: compiling f, 0 s"] if tqdm else [])
    assert ("compiling f" in seen.getvalue()) or tqdm


def test_a_bar_leaves_nothing():
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    seen = Notebook()
    bar = progress.Bar(seen)
    bar.show("adc: compiling f, 1 s")
    assert "adc: compiling f, 1 s" in seen.getvalue()
    bar.remove()
    assert not seen.getvalue().rpartition("\r")[0].rpartition("\r")[2].strip()


def test_a_short_one_is_silent(terminal, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 3600.0)
    with compiling("f"):
        pass
    assert terminal.getvalue() == ""


def test_parts_count_together(terminal, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.2)
    monkeypatch.setattr(progress, "GAP", 3600.0)
    for _ in range(200):
        with compiling("f"):
            if terminal.written.wait(0.01):
                break
    assert "adc: compiling f" in terminal.getvalue()


def test_functions_are_named(terminal):
    text = (
        "def waves(x):\n" + "".join(f"    x = sin(x * {k}.5) + x\n" for k in range(30)) + "    return sum(x)"
    )
    adc.grad(adc.compile(text))(np.ones(3))
    assert "adc: compiling waves" in terminal.getvalue()


@pytest.mark.parametrize("how", ["ADC_PROGRESS", "no terminal", "closed", "none"])
def test_elsewhere_it_is_silent(terminal, monkeypatch, how):
    if how == "ADC_PROGRESS":
        monkeypatch.setenv("ADC_PROGRESS", "0")
    elif how == "no terminal":
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    elif how == "closed":
        closed = io.StringIO()
        closed.close()
        monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=closed))
    else:
        monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=None))
    with compiling("f"):
        assert not terminal.written.wait(0.1)


def test_errors_end_it(terminal):
    with pytest.raises(ValueError, match="wrong"), compiling("f"):
        raise ValueError("wrong")
    assert progress._reporter.names == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs pseudo-terminals")
@pytest.mark.parametrize(("env", "says"), [({}, True), ({"ADC_PROGRESS": "0"}, False)])
def test_on_a_terminal(tmp_path, env, says):
    """The line is seen on a real terminal, and nothing in a pipe."""
    program = """
from adcompiler import progress
progress.PATIENCE = 0.001
import adcompiler as adc, numpy as np
adc.compile("def f(x):\\n" + "    x = sin(x) * x + 1.75\\n" * 20 + "    return sum(x)")(np.ones(3))
"""
    import pty

    ours, theirs = pty.openpty()
    given = os.environ | {"ADC_CACHE_DIR": str(tmp_path)} | env
    subprocess.run([sys.executable, "-c", program], stderr=theirs, check=True, env=given)
    os.close(theirs)
    try:
        seen = os.read(ours, 10**6) if says else b""
    finally:
        os.close(ours)
    assert (b"adc: compiling f" in seen) is says
    if says:
        piped = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=given)
        assert piped.stderr == b""
