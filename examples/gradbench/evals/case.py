"""What the tool knows of a function that an eval asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import adcompiler as adc


@dataclass(frozen=True)
class Case:
    """A function of an eval: `output(run(*prepare(input)))` is the answer to `input`; only `run` is timed."""

    prepare: Callable[[Any], tuple[Any, ...]]
    run: Callable[..., Any]
    output: Callable[[Any], Any]


def formulas(module: str) -> SimpleNamespace:
    """The definitions in the .adc file beside a module, by its `__file__`."""
    return adc.load(Path(module).with_suffix(".adc"))


def modes(module: str) -> dict[str, adc.Function]:
    """The functions of a module with nested derivatives by their modes, forward or reverse, outer mode first.

    Their formulas begin with those of `descent.adc`.
    """
    path = Path(module)
    text = path.with_name("descent.adc").read_text("utf-8") + path.with_suffix(".adc").read_text("utf-8")
    return {name: adc.compile(text, name=name) for name in ("ff", "fr", "rf", "rr")}


def floats(values: Any) -> np.ndarray:
    """Numbers from JSON as an array of float64."""
    return np.array(values, np.float64)


def indices(values: Any) -> np.ndarray:
    """Whole numbers from JSON as an array of int64."""
    return np.array(values, np.int64)
