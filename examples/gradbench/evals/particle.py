"""particle: the control of a charged particle's path, with one derivative inside another."""

from __future__ import annotations

from typing import Any

from evals.case import Case, modes


def prepare(given: Any) -> tuple[Any, ...]:
    return (float(given["w"]),)


FUNCTIONS = {name: Case(prepare, f, float) for name, f in modes(__file__).items()}
