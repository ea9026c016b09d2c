"""One program in a process of its own: times of its calls beside JAX's, and of the nests of its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from bench.cliffs import every
from bench.cliffs.program import Program
from bench.compare import differences, leaves
from bench.frameworks import jax_call, jax_gradients
from bench.isolate import Outcome, Task
from bench.workload import Arguments, Run

LENGTH = 160  # of an error's first line


def cliff(task: Task) -> Outcome:
    """Everything about one program: `times` and `firsts` by what was called, `errors`, and its `nests`."""
    program = every()[task["program"]]
    args = program.arguments(task["size"])
    measured = Measurement(program, args)
    measured.ours(task["hvp"])
    if task["jax"]:
        measured.jax()
    measured.time(task["repeat"])
    measured.attempt("nests", lambda: measured.found.update(nests=[*nests(program, args)]))
    return measured.found


class Measurement:
    """What is found about a program; an error becomes its first line, and the rest is still measured."""

    def __init__(self, program: Program, args: Arguments) -> None:
        self.program, self.args = program, args
        self.runs: dict[str, Run] = {}
        self.results: dict[str, list[np.ndarray]] = {}
        self.found: Outcome = {"firsts": {}, "times": {}, "errors": {}, "nests": []}

    def attempt(self, what: str, work: Callable[[], Any]) -> Any:
        """The result of some work, None if it fails."""
        try:
            return work()
        except Exception as error:  # whatever it is, it is a row of the table
            self.found["errors"][what] = first_line(error)
            return None

    def ours(self, hvp: bool) -> None:
        """The value, the value with its gradients, and, if wanted, a Hessian times a direction."""
        import adcompiler as adc

        f = self.attempt("compile", lambda: self.program.compiled(self.args))
        if f is None:
            return
        wrt, args = self.program.wrt, self.args
        names = tuple(f._parameters[k].name for k in wrt)
        self.add("value", lambda: partial(f, *args))
        self.add("gradient", lambda: partial(adc.value_and_grad(f, names), *args))
        if hvp:
            directions = tuple(np.ones_like(args[k]) if np.ndim(args[k]) else 1.0 for k in wrt)
            self.add("hvp", lambda: partial(adc.hvp(f, names), args, directions))

    def jax(self) -> None:
        """The value, and the value with its gradients, by JAX; results that differ from ours are an error."""
        loss, wrt = self.program.loss, self.program.wrt
        if loss is None:
            return
        self.add("jax value", lambda: jax_call(lambda xp: partial(loss, xp))(self.args, "cpu"))
        self.add("jax gradient", lambda: jax_gradients(loss, wrt)(self.args, "cpu"))
        ours, theirs = self.results.get("gradient"), self.results.get("jax gradient")
        if ours is not None and theirs is not None:
            wrong = differences(ours, theirs, self.program.tolerance)
            if wrong:
                self.found["errors"]["differs from JAX"] = wrong

    def add(self, what: str, make: Callable[[], Run]) -> None:
        """Call it twice, and time the first call; what works is timed later."""
        from bench.worker import clock

        def first() -> None:
            results: list[Any] = []
            self.found["firsts"][what] = clock(lambda: results.append(make()))
            self.found["firsts"][what] += clock(lambda: results.append(results[0]()))
            self.results[what] = [np.array(a) for a in leaves(results[1])]
            self.runs[what] = results[0]

        self.attempt(what, first)

    def time(self, repeat: int) -> None:
        """All calls that work, in turn."""
        from bench.worker import in_iteration, summary

        for what, samples in in_iteration(self.runs, repeat).items():
            self.found["times"][what] = summary(samples)


def first_line(error: BaseException) -> str:
    """The kind and the first line of an error."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:LENGTH]


def nests(program: Program, args: Arguments) -> Iterator[Outcome]:
    """The nests of the kernel of the value and its gradients: their times, and what limits them."""
    from adcompiler.runtime.reports.ceilings import ceilings
    from adcompiler.runtime.reports.cost import Measured, kernels, roofline

    f = program.compiled(args)
    names = tuple(f._parameters[k].name for k in program.wrt)
    types, values, *_ = f._describe(args)
    gradient = next(k for k in kernels(f, names, types, values) if k.name == "value and grad")
    measured = Measured(gradient)
    for k, (work, threads, seconds) in enumerate(
        zip(measured.nests, measured.each, measured.seconds, strict=True)
    ):
        roof = roofline(work, ceilings(threads))
        yield {
            "nest": k,
            "loops": [*work.loops],
            "computes": [*work.made],
            "threads": threads,
            "seconds": seconds,
            "roofline": roof,
            "lost": max(0.0, seconds - roof) if seconds else 0.0,
            "reason": "; ".join(measured.reasons[k]),
        }
