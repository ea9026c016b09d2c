"""saddle: a saddle point, with one descent inside another."""

from __future__ import annotations

from typing import Any

import numpy as np

from evals.case import Case, floats, modes


def prepare(given: Any) -> tuple[Any, ...]:
    return (floats(given["start"]),)


FUNCTIONS = {name: Case(prepare, f, np.ndarray.tolist) for name, f in modes(__file__).items()}
