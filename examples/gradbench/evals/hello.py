"""hello: the square of a number, and its derivative."""

from __future__ import annotations

from typing import Any

import adcompiler as adc
from evals.case import Case, formulas

square = formulas(__file__).square


def prepare(value: Any) -> tuple[Any, ...]:
    return (float(value),)


FUNCTIONS = {"square": Case(prepare, square, float), "double": Case(prepare, adc.grad(square), float)}
