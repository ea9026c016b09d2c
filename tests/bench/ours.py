"""Our side of a workload: programs as texts, and the transforms that users call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.workload import Arguments, Build, Run

EVALS = Path(__file__).resolve().parents[2] / "examples/gradbench/evals"


def gradbench(name: str) -> str:
    """The program of one of GradBench's evals, as the examples have it."""
    return (EVALS / f"{name}.adc").read_text("utf-8")


def call(make: Callable[[Any, Any], Callable[..., Any]], source: str, name: str | None = None) -> Build:
    """`make(adc, f)` of the compiled function, called with the inputs as a user calls it."""

    def build(args: Arguments, device: str) -> Run:
        import adcompiler as adc

        options = {} if device == "cpu" else {"backend": device}
        f = adc.compile(source, name=name, **options)
        made = make(adc, f)
        return lambda: made(*args)

    return build


def value_and_grad(source: str, name: str | None = None, wrt: Sequence[str] | None = None) -> Build:
    """`adc.value_and_grad`."""
    chosen = None if wrt is None else tuple(wrt)
    return call(lambda adc, f: adc.value_and_grad(f, chosen), source, name)
