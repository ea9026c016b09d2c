"""The sweep: random programs of all kinds, for as long as one likes; those that disagree are made small.

    python -m tests.sweep --minutes 60 --seed 1
    python -m tests.sweep --kinds extrema,ragged --seed 7 --examples 40 --minutes 5

A batch of a kind runs in a process of its own. Where that crashes or hangs, the batch runs again with a
process a program, so that Hypothesis finds a minimal one there too. A line a batch says how to run it again.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))
os.environ["ADC_STRICT"] = "1"  # a module that LLVM refuses is a fault, not a kernel of numba's
# `-m tests.sweep`, also where Python leaves the current folder out of sys.path: what is installed goes first.
ITSELF = (
    f"import runpy, sys; sys.path.append({str(TESTS.parent)!r}); "
    "runpy.run_module('tests.sweep', run_name='__main__')"
)
ALONE = 60  # seconds that a program may take in a process of its own
SILENT = 180  # seconds that a batch may take for one program


@dataclass(frozen=True)
class Kind:
    """Programs, what is asked of them, and how many make a batch."""

    draw: Callable[[], Any]  # a strategy of Hypothesis
    holds: Callable[[Any, bool], None]  # of a program, in float32 or not
    examples: int
    single: bool = True  # in float32 too


def every() -> dict[str, Kind]:
    """All kinds by name."""
    import sweepchecks as checks
    from hypothesis import strategies as st
    from judges import guard_zones
    from programs import programs
    from programs.aliases import alias_programs
    from programs.extrema import extremum_programs
    from programs.guarded import guarded_programs
    from programs.large import large_programs
    from programs.loops import loop_programs
    from programs.mixed import mixed_programs
    from programs.ragged import ragged_programs
    from programs.routines import routine_programs
    from programs.rows import rows_programs

    def guarded(program: Any, narrow: bool) -> None:
        with guard_zones.guard_zones():
            guard_zones.holds(program, narrow, True)

    def either(check: Callable[[Any], None]) -> Callable[[Any, bool], None]:
        return lambda program, narrow: check(checks.narrowed(program) if narrow else program)

    def some() -> Any:
        return st.one_of(programs(smooth=True, empty=False), loop_programs(), mixed_programs())

    def large() -> Any:
        return st.one_of(large_programs(), some())

    return {
        "adjoint": Kind(loop_programs, lambda program, narrow: None, 40),
        "guarded": Kind(
            guarded_programs, lambda program, narrow: checks.finite_derivatives(program), 40, False
        ),
        "extrema": Kind(extremum_programs, either(checks.exact_extrema), 20),
        "ragged": Kind(ragged_programs, either(checks.second_orders), 12, single=False),
        "rows": Kind(rows_programs, either(checks.same_rows), 12, single=False),
        "routines": Kind(routine_programs, either(checks.same_routines), 8),
        "aliases": Kind(alias_programs, either(checks.same_or_refused), 60, single=False),
        "mutated": Kind(some, either(checks.unharmed), 20),
        "forks": Kind(large, either(checks.survives_forks), 12),
        "interrupts": Kind(
            lambda: st.one_of(large_programs(), some()), either(checks.survives_interrupts), 8
        ),
        "threads": Kind(large, either(checks.same_on_all_threads), 12),
        "memory": Kind(loop_programs, either(checks.same_in_segments), 10),
        "expressions": Kind(programs, guarded, 30, single=False),
        "loops": Kind(loop_programs, guarded, 12),
        "mixed": Kind(mixed_programs, guarded, 8),
    }


# -- a batch, in a process of its own ------------------------------------------------------------------


def batch(name: str, first: int, examples: int, apart: bool) -> None:
    """Random programs of a kind; ends with a report of a minimal one where something does not hold."""
    import numpy as np
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st
    from judges.guard_zones import in_parallel, short_constants

    kind, last = every()[name], ""

    @seed(first)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(kind.draw(), st.booleans() if kind.single else st.just(False))
    def call(program: Any, narrow: bool) -> None:
        nonlocal last
        last = shown(program, narrow)
        print(last, flush=True)
        if apart:
            alone(name, program, narrow)
        else:
            judge(kind, program, narrow)

    with in_parallel(first % 2 == 0), short_constants(first % 3 == 0), np.errstate(all="ignore"):
        try:
            call()
        except BaseException as error:
            print(f"{MINIMAL}\n{last}\n{why(error)}", flush=True)
            sys.exit(1)


def judge(kind: Kind, program: Any, narrow: bool) -> None:
    """What the kind asks, then what holds for every program; it may be refused for a store in elements that
    names share."""
    from sweepchecks import adjoint, narrowed

    from adcompiler import ParseError

    try:
        kind.holds(program, narrow)
        adjoint(narrowed(program) if narrow else program)
    except ParseError as error:
        if not re.search("shares (its )?elements", str(error)):
            raise


MINIMAL = "==== minimal program ===="


def shown(program: Any, narrow: bool) -> str:
    """A program and its arguments; NumPy writes the ends of long ones."""
    return f"{program.source.strip()}\n# arguments{' in float32' * narrow}: {program.args!r}"


def why(error: BaseException) -> str:
    """The error that was raised, without the frames around it; of those that come and go, the first."""
    often = ""
    while isinstance(error, BaseExceptionGroup):
        error, often = error.exceptions[0], "not every time: "
    return f"{often}{type(error).__name__}: {str(error).strip()[:2000]}"


def alone(name: str, program: Any, narrow: bool) -> None:
    """A program in a process of its own."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        pickle.dump((program, narrow), file)
        file.flush()
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-c",
            ITSELF,
            "--one",
            file.name,
            "--kinds",
            name,
        ]
        try:
            done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, timeout=ALONE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"over {ALONE} s") from None
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stderr[-1500:]}"


def one(name: str, file: str) -> None:
    """Check one program in this process."""
    import numpy as np

    with np.errstate(all="ignore"):
        judge(every()[name], *pickle.loads(Path(file).read_bytes()))


# -- the driver ----------------------------------------------------------------------------------------


def sweep(kinds: Sequence[str], seconds: float, first: int, examples: int | None) -> int:
    """Batches of all kinds in turn until the time is over; the number of those that disagree."""
    end, faults, done = time.monotonic() + seconds, 0, 0
    for k in count():
        for name in kinds:
            if k and time.monotonic() > end:
                print(f"{done} batches, {faults} with a disagreement")
                return faults
            number = examples or every()[name].examples
            report = judged(name, first + k, number)
            again = f"python -m tests.sweep --kinds {name} --seed {first + k} --examples {number} --minutes 0"
            print(f"{time.strftime('%H:%M:%S')} {'FAULT' if report else 'holds'}: {again}", flush=True)
            if report:
                print(report, flush=True)
            faults, done = faults + bool(report), done + 1
    raise AssertionError


def judged(name: str, first: int, examples: int) -> str:
    """What a batch reports; if its process crashed or hung, what the same programs report one by one."""
    code, text = run(name, first, examples)
    if code == 0:
        return ""
    if MINIMAL in text:
        return text.partition(MINIMAL)[2].strip()
    tail = f"the process ended with {code} after this program:\n{text[-3000:]}"
    code, text = run(name, first, examples, "--apart")
    return text.partition(MINIMAL)[2].strip() if MINIMAL in text else tail


def run(name: str, first: int, examples: int, *options: str) -> tuple[int, str]:
    """A batch in a process of its own: how it ended and what it said; it is ended where it says nothing."""
    command = [sys.executable, "-X", "faulthandler", "-c", ITSELF, "--batch", "--kinds", name]
    command += ["--seed", str(first), "--examples", str(examples), *options]
    with private_cache() as folder, open(f"{folder}/output", "w+") as output:
        process = subprocess.Popen(command, cwd=TESTS.parent, stdout=output, stderr=subprocess.STDOUT)
        size, since = 0, time.monotonic()
        while process.poll() is None:
            time.sleep(0.1)
            now = os.fstat(output.fileno()).st_size
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > SILENT:
                process.kill()
        output.seek(0)
        return process.returncode, output.read()


@contextmanager
def private_cache() -> Iterator[str]:
    """A folder for a batch, which holds its cache."""
    with tempfile.TemporaryDirectory(prefix="adc-sweep-") as folder:
        os.environ["ADC_CACHE_DIR"] = f"{folder}/cache"
        os.environ.setdefault("NUMBA_NUM_THREADS", "2")
        yield folder


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tests.sweep", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="how long; every kind has a batch at least")
    parser.add_argument("--seed", type=int, default=1, help="of the first batches; later ones count up")
    parser.add_argument("--kinds", default=",".join(every()), help="with commas: %(default)s")
    parser.add_argument("--examples", type=int, help="programs of a batch")
    for hidden in ("--batch", "--apart"):
        parser.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    found = parser.parse_args(arguments)
    kinds = found.kinds.split(",")
    if unknown := set(kinds) - set(every()):
        parser.error(f"unknown kinds {', '.join(sorted(unknown))}: there are {', '.join(every())}")
    if found.one:
        one(kinds[0], found.one)
    elif found.batch:
        batch(kinds[0], found.seed, found.examples, found.apart)
    else:
        return 1 if sweep(kinds, 60 * found.minutes, found.seed, found.examples) else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
