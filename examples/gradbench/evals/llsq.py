"""llsq: the least squares fit of a polynomial to the sign function, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

import adcompiler as adc
from evals.case import Case, floats, formulas

llsq = formulas(__file__).llsq


def prepare(given: Any) -> tuple[Any, ...]:
    return floats(given["x"]), int(given["n"])


FUNCTIONS = {
    "primal": Case(prepare, llsq, float),
    "gradient": Case(prepare, adc.grad(llsq), np.ndarray.tolist),
}
