"""Whether two ways to compute the same thing agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def leaves(result: Any) -> Iterator[np.ndarray]:
    """The arrays and numbers of nested tuples, lists and dicts, in order."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from leaves(part)
    else:
        yield array(result)


def array(value: Any) -> np.ndarray:
    """A NumPy array of what any of the libraries gives."""
    if type(value).__module__.startswith("torch"):
        return np.asarray(value.detach().cpu())
    if hasattr(value, "full") and type(value).__module__.startswith("casadi"):
        return np.asarray(value.full())
    return np.asarray(value)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The greatest difference of two arrays, relative to the greatest element; infinite if one is not finite.

    A vector may come as a column: CasADi has matrices only.
    """
    if one.size != other.size:
        return float("inf")
    one, other = one.reshape(other.shape).astype(np.float64), other.astype(np.float64)
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return float("inf")
    scale = max(float(np.abs(other).max(initial=0.0)), 1e-300)
    return float(np.abs(one - other).max(initial=0.0)) / scale


def differences(result: Any, expected: Any, tolerance: float) -> str:
    """What is wrong with a result, in words; nothing if it agrees."""
    ours, theirs = list(leaves(expected)), list(leaves(result))
    if len(ours) != len(theirs):
        return f"{len(theirs)} results instead of {len(ours)}"
    for k, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        apart = distance(one, other)
        if not apart <= tolerance:
            return f"result {k} of shape {one.shape} differs by {apart:.1e} of {other.shape}"
    return ""
