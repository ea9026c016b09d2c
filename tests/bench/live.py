"""A worker that stays alive: it holds one entry of a workload, and times it whenever it is asked."""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from bench.isolate import Outcome, Task, command, environment, reason


class LostError(Exception):
    """A worker that ended, or did not answer in time."""


class Live:
    """A process with an entry's compiled call; `ask` times calls for some seconds."""

    def __init__(self, task: Task, seconds: float, **variables: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.seconds = seconds  # that an answer may take
        self.results = Path(self.folder.name) / "results.npz"
        self.errors = Path(self.folder.name) / "errors"
        self.process = subprocess.Popen(
            command({**task, "results": str(self.results)}),
            env=environment(task["threads"], **{"ADC_CACHE_DIR": self.folder.name, **variables}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors.open("w"),
            text=True,
        )

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def ready(self) -> list[np.ndarray]:
        """Wait until it is compiled: the results of its first call."""
        self._answer()
        with np.load(self.results) as found:
            return [found[name] for name in found.files]

    def ask(self, seconds: float) -> Outcome:
        """Calls for so many seconds: their mean, median and quartiles."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says why
        return self._answer()

    def _answer(self) -> Any:
        stdout = self.process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], self.seconds)[0]:
            raise LostError(f"over {self.seconds:.0f} s until an answer")
        line = stdout.readline()
        if not line:
            raise LostError(reason(self.process.wait(), self.errors.read_text()))
        return json.loads(line)
