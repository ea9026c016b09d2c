"""Where the entries of a family (`ad/programs/entries.py`) are, for the lengths and integers of one call."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from adcompiler.ad.guards import TRUE
from adcompiler.ad.programs.entries import Family
from adcompiler.interpreter.reference import Values
from adcompiler.interpreter.sparsity import Scope, limit
from adcompiler.ir.nodes import Apply, Array, Element
from adcompiler.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Places:
    """The flat positions of a family's entries at the points `kept` of its domain.

    `guard` is the family's guard if it follows from floats: entries are zero where it does not hold, but have
    a place.
    """

    rows: np.ndarray
    columns: np.ndarray
    domain: tuple[int, ...]
    kept: np.ndarray
    guard: Element


def places(
    found: Sequence[Sequence[Family]], results: Sequence[Array], values: Values, sizes: Sequence[int]
) -> list[list[Places]] | None:
    """The places of each result's families; None if one of them follows from floats. `values` are the inputs
    known."""
    scope = Scope(dict(values), {}, sizes, 0)
    made: list[list[Places]] = []
    for result, families in zip(results, found, strict=True):
        made.append([])
        for family in families:
            place = _placed(family, result, scope)
            if place is None:
                return None
            made[-1].append(place)
    return made


def _placed(family: Family, result: Array, scope: Scope) -> Places | None:
    domain = scope.lengths_of(family.domain)
    limit(prod(domain))
    if not prod(domain):
        nothing = np.zeros(0, np.int64)
        return Places(nothing, nothing, domain, nothing, TRUE)
    rows, _, more_rows = scope.flat(family.rows, scope.lengths_of(result.shape), domain)
    columns, _, more = scope.flat(family.columns, scope.lengths_of(family.source.shape), domain)
    if more_rows is not None or more is not None:
        return None
    inside = ((rows >= 0) & (columns >= 0)).reshape(domain)
    kept = np.flatnonzero(inside & _possible(family.guard, scope, domain))
    known = scope.value(family.guard, domain) is not None
    return Places(rows[kept], columns[kept], domain, kept, TRUE if known else family.guard)


def _possible(guard: Element, scope: Scope, domain: tuple[int, ...]) -> np.ndarray:
    """Where a condition may hold, whatever the floats are."""
    holds = scope.value(guard, domain)
    if holds is not None:
        return holds
    if isinstance(guard, Apply) and guard.op in ("logical_and", "logical_or"):
        parts = [_possible(a, scope, domain) for a in guard.args]
        found: np.ndarray = (np.logical_and if guard.op == "logical_and" else np.logical_or)(*parts)
        return found
    return np.ones((1,) * len(domain), bool)
