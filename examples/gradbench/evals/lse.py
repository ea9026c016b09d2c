"""lse: the logarithm of a sum of exponentials, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

import adcompiler as adc
from evals.case import Case, floats, formulas

lse = formulas(__file__).lse


def prepare(given: Any) -> tuple[Any, ...]:
    return (floats(given["x"]),)


FUNCTIONS = {
    "primal": Case(prepare, lse, float),
    "gradient": Case(prepare, adc.grad(lse), np.ndarray.tolist),
}
