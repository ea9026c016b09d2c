"""Our side of a workload: programs as texts, and the transforms that users call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.workload import Arguments, Build, Run

EVALS = Path(__file__).resolve().parents[2] / "examples/gradbench/evals"


def gradbench(name: str) -> str:
    """The program of one of GradBench's evals, as the examples have it."""
    return (EVALS / f"{name}.adc").read_text("utf-8")


def compiled(source: str, name: str | None, args: Arguments, device: str) -> Any:
    """The function; its annotations say f32 where the inputs are."""
    import adcompiler as adc

    if any(isinstance(a, np.ndarray) and a.dtype == np.float32 for a in args):
        source = source.replace("f64[", "f32[")
    return adc.compile(source, name=name, backend=device)


def call(make: Callable[[Any, Any], Callable[..., Any]], source: str, name: str | None = None) -> Build:
    """`make(adc, f)` of the compiled function, called with the inputs as a user calls it."""

    def build(args: Arguments, device: str) -> Run:
        import adcompiler as adc

        made = make(adc, compiled(source, name, args, device))
        return lambda: made(*args)

    return build


def value_and_grad(source: str, name: str | None = None, wrt: Sequence[str | int] | None = None) -> Build:
    """`adc.value_and_grad`."""
    chosen = None if wrt is None else tuple(wrt)
    return call(lambda adc, f: adc.value_and_grad(f, chosen), source, name)


def hvp(source: str, name: str, wrt: str) -> Build:
    """`adc.hvp`; the direction is the last of the inputs."""

    def build(args: Arguments, device: str) -> Run:
        import adcompiler as adc

        product, point, direction = adc.hvp(compiled(source, name, args, device), wrt), args[:-1], args[-1]
        return lambda: product(point, direction)

    return build
