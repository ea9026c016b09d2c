"""`python -m tests.bench --cliffs --first`: first gradients in fresh processes with empty caches.

Times are those of the clock for the import of the library and the first result, on as many processors as
threads: both libraries compile on several. Measure on a quiet machine.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.cliffs import every
from bench.frameworks import jax_gradients
from bench.isolate import Outcome, Task, spawn
from bench.report import figures, grid, seconds
from bench.runner import PATIENCE

WHO = ("ours", "jax")
ROUNDS = 2  # processes of each, of which the fastest counts

Found = Mapping[str, Mapping[str, float]]


def first_cliff(task: Task) -> Outcome:
    """Seconds for the import and the first value and gradients of one program, by one library."""
    program = every()[task["program"]]
    args = program.arguments(task["size"])
    start = time.perf_counter()
    if task["who"] == "jax":
        assert program.loss is not None
        jax_gradients(program.loss, program.wrt)(args, "cpu")()
    else:
        import adcompiler as adc

        f = program.compiled(args)
        adc.value_and_grad(f, tuple(f._parameters[k].name for k in program.wrt))(*args)
    return {"seconds": time.perf_counter() - start}


def run(names: Sequence[str], how: Task, written: Path | None, say: Callable[[str], None]) -> None:
    """Measure the programs of these names, and say what was found."""
    found: dict[str, dict[str, float]] = {}
    for name in names:
        found[name] = {}
        for who in WHO[: 1 + (how["jax"] and every()[name].loss is not None)]:
            rounds = [
                measured({**how, "kind": "first cliff", "program": name, "who": who}) for _ in range(ROUNDS)
            ]
            if all("seconds" in r for r in rounds):
                found[name][who] = min(r["seconds"] for r in rounds)
            else:
                say(f"{name}: {who}: {next(r['skipped'] for r in rounds if 'skipped' in r)}")
        say(f"{name}: " + ", ".join(f"{who} {seconds(t)}" for who, t in found[name].items()))
        if written is not None:
            written.write_text(json.dumps(found, indent=1), "utf-8")
    say("\n" + table(found))


def measured(task: Task) -> Outcome:
    """What a process of its own with an empty cache finds."""
    with tempfile.TemporaryDirectory() as cache:
        return spawn(task, PATIENCE, ADC_CACHE_DIR=cache)


def ratio(times: Mapping[str, float]) -> float | None:
    """Our time over JAX's."""
    return times["ours"] / times["jax"] if len(times) > 1 else None


def table(found: Found) -> str:
    """The programs by the ratio of our time to JAX's, and the median of the ratios."""
    ratios = [r for times in found.values() if (r := ratio(times)) is not None]
    rows = [
        [name, *(seconds(times.get(who)) for who in WHO), "—" if (r := ratio(times)) is None else figures(r)]
        for name, times in sorted(found.items(), key=lambda item: -(ratio(item[1]) or 0.0))
    ]
    text = grid(["program", "ours", "JAX", "ours / JAX"], rows)
    if not ratios:
        return text
    share = f"{sum(r > 1 for r in ratios)} of {len(ratios)} above 1, {sum(r > 2 for r in ratios)} above 2"
    return (
        f"first results, our time over JAX's: median {figures(statistics.median(ratios))}, {share}\n\n{text}"
    )
