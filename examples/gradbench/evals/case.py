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


def floats(values: Any) -> np.ndarray:
    """Numbers from JSON as an array of float64."""
    return np.array(values, np.float64)


def indices(values: Any) -> np.ndarray:
    """Whole numbers from JSON as an array of int64."""
    return np.array(values, np.int64)
