"""NumPy as the judge of functions that bear its names: values, types, and derivatives by differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.special  # type: ignore[import-untyped]

import adcompiler as adc

RANDOM = np.random.default_rng(5)
# Vectors, matrices and a stack of floats; integers `i` that index the vector `v`;
# a stack `s` whose elements are far from each other.
VALUES = {
    "v": RANDOM.normal(size=5), "w": RANDOM.normal(size=3), "m": RANDOM.normal(size=(4, 3)),
    "n": RANDOM.normal(size=(3, 4)), "c": RANDOM.uniform(0.5, 2.0, size=(3, 4, 2)),
    "i": np.array([4, 0, -1, 2]), "s": np.random.default_rng(6).permutation(24).reshape(3, 4, 2) / 8,
}  # fmt: skip


def arguments(source: str) -> list[np.ndarray]:
    """The values of a source's variables, in the order of its parameters."""
    return [VALUES[p.name] for p in adc.compile(source)._parameters]


def numpy_value(source: str, names: Mapping[str, Any] = VALUES) -> Any:
    """What the source means to Python with NumPy."""
    known = {n: getattr(np, n) for n in dir(np)} | {"np": np, "special": scipy.special, **names}
    return eval(source, known)


def same(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol / 10)


def means_what_it_means_in_numpy(source: str) -> None:
    """Value and shape, the type for float32, and first and second derivatives."""
    f, given = adc.compile(source, backend="numpy"), arguments(source)
    same(f(*given), numpy_value(source))
    short = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in given]
    assert np.asarray(f(*short)).dtype == np.float32
    adc.check_grad(f, *given, order=2)


def kernels_agree(sources: list[str]) -> None:
    """One program of all sources: value and gradient of the sum of their squares on both backends."""
    lines = [f"    r{k} = {source}" for k, source in enumerate(sources)]
    total = " + ".join(f"sum(r{k}**2)" for k in range(len(sources)))
    text = "\n".join([f"def f({', '.join(VALUES)}):", *lines, f"    return {total}"])
    floats = [n for n, a in VALUES.items() if a.dtype.kind == "f"]
    found, expected = (
        adc.value_and_grad(adc.compile(text, backend=b), wrt=floats)(*VALUES.values())
        for b in ("cpu", "numpy")
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
