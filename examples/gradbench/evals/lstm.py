"""lstm: the loss of a recurrent network, and its gradient by the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

import adcompiler as adc
from evals.case import Case, floats, formulas

loss = formulas(__file__).loss


def prepare(given: Any) -> tuple[Any, ...]:
    return tuple(floats(given[name]) for name in ("main_params", "extra_params", "state", "sequence"))


def flat(gradients: tuple[np.ndarray, ...]) -> list[float]:
    return np.concatenate([g.ravel() for g in gradients]).tolist()


FUNCTIONS = {
    "objective": Case(prepare, loss, float),
    "jacobian": Case(prepare, adc.grad(loss, ("main", "extra")), flat),
}
