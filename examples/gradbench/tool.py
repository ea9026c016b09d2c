"""A tool for GradBench: it reads messages from standard input and answers on standard output, line by line.

    python examples/gradbench/tool.py [--multithreaded]

`start` is answered with the tool's name, `define` with whether there is such an eval, `evaluate` with the
output of one of its functions and with timings: `prepare` for the first run, which compiles, then `evaluate`
for each of at least `min_runs` runs, and for as many as take `min_seconds` together.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any, TextIO

# The evals stand beside this file; a script's folder is not on the path where Python runs in safe mode.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

EVALS = ("ba", "det", "gmm", "hello", "ht", "kmeans", "llsq", "lse", "lstm", "ode", "particle", "saddle")
Response = dict[str, Any]


class RefusalError(Exception):
    """A message that the tool cannot answer as it is asked to."""


def functions(module: Any) -> dict[str, Any]:
    """The functions of an eval, by name."""
    if module not in EVALS:
        raise RefusalError(f"unknown module {module!r}: there are {', '.join(EVALS)}")
    return import_module(f"evals.{module}").FUNCTIONS


def timed(name: str, run: Callable[[], Any]) -> tuple[Any, Response]:
    """A result, and how long it took."""
    start = time.perf_counter_ns()
    result = run()
    return result, {"name": name, "nanoseconds": time.perf_counter_ns() - start}


def define(message: Response) -> Response:
    _, timing = timed("define", lambda: functions(message.get("module")))
    return {"success": True, "timings": [timing]}


def evaluate(message: Response) -> Response:
    known, name, given = functions(message.get("module")), message.get("function"), message.get("input")
    if name not in known:
        raise RefusalError(f"unknown function {name!r} of {message['module']}: there are {', '.join(known)}")
    case = known[name]
    args = case.prepare(given)
    result, timing = timed("prepare", lambda: case.run(*args))
    timings, spent = [timing], 0
    runs, seconds = (
        (given.get("min_runs", 1), given.get("min_seconds", 0)) if isinstance(given, dict) else (1, 0)
    )
    while len(timings) <= runs or spent < seconds * 1e9:
        result, timing = timed("evaluate", lambda: case.run(*args))
        timings.append(timing)
        spent += timing["nanoseconds"]
    return {"success": True, "output": case.output(result), "timings": timings}


ANSWERS: dict[Any, Callable[[Response], Response]] = {
    "start": lambda message: {"tool": "adcompiler"},
    "define": define,
    "evaluate": evaluate,
}


def answer(line: str) -> str:
    """The response to a line, as a line; what goes wrong is told in it."""
    identity = None
    try:
        message = json.loads(line)
        if not isinstance(message, dict) or "id" not in message:
            raise RefusalError("a message is an object with an id")
        identity = message["id"]
        kind = message.get("kind")
        response = ANSWERS[kind](message) if isinstance(kind, str) and kind in ANSWERS else {}
        return json.dumps({"id": identity, **response}, allow_nan=False)
    except Exception as error:
        text = str(error) if isinstance(error, RefusalError) else f"{type(error).__name__}: {error}"
        return json.dumps({"id": identity, "success": False, "error": text})


def serve(lines: Iterable[str], out: TextIO) -> None:
    """Answer each line; nothing but answers is written to `out`."""
    with redirect_stdout(sys.stderr):
        for line in lines:
            if line.strip():
                print(answer(line), file=out, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="adcompiler as a tool for GradBench")
    parser.add_argument("--multithreaded", action="store_true", help="use all processors, not one")
    if not parser.parse_args().multithreaded:
        os.environ["NUMBA_NUM_THREADS"] = "1"  # read when numba is imported, which is not yet
    serve(sys.stdin, sys.stdout)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads: say no more
