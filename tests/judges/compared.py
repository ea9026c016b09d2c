"""Programs compared with the oracle: results by shape, dtype and value, derivatives along directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from oracle import derivative, evaluate
from programs import Program

import adcompiler as adc

RELATIVE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


def leaves(value: Any) -> Iterator[Any]:
    """The arrays and scalars of nested tuples, in order."""
    if isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def structure(value: Any) -> Any:
    """How tuples nest."""
    return tuple(map(structure, value)) if isinstance(value, tuple) else None


def near(actual: Any, expected: Any, slack: Any = 0.0) -> None:
    """Equal but for rounding: relative to the greater of the value and 1, and `slack` on top."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    allowed = RELATIVE.get(actual.dtype, 0.0) * np.maximum(1, np.abs(expected)) + slack
    outside = actual != expected if actual.dtype == bool else np.abs(actual - expected) > allowed
    assert not np.any(outside | (np.isnan(actual) != np.isnan(expected))), f"{actual}\n is not\n{expected}"


def rounding(program: Program, expected: Sequence[Any]) -> list[Any]:
    """How far float32 may stray: a few times what it costs NumPy to compute in it."""
    wide = [np.float64(a) if getattr(a, "dtype", None) == np.float32 else a for a in program.args]
    exact = leaves(evaluate(program.source, *wide))
    narrow = [np.asarray(e).dtype == np.float32 for e in expected]
    return [
        10 * np.abs(e - np.asarray(x)) if n else 0.0 for e, x, n in zip(expected, exact, narrow, strict=True)
    ]


def has_oracles_value(program: Program, backend: str) -> None:
    """Structure, shapes, dtypes and values of a call are those of NumPy."""
    actual = adc.compile(program.source, backend=backend)(*program.args)
    expected = evaluate(program.source, *program.args)
    assert structure(actual) == structure(expected)
    wanted = list(leaves(expected))
    for one, other, slack in zip(leaves(actual), wanted, rounding(program, wanted), strict=True):
        assert np.shape(one) == np.shape(other)
        assert np.asarray(one).dtype == np.asarray(other).dtype
        near(one, other, slack)


def totalled(program: Program) -> Program:
    """The sum of all that a program returns, as a program of one more def."""
    f = adc.compile(program.source, backend="numpy")
    names = [p.name for p in f._parameters]
    whole = {n for n, a in zip(names, program.args, strict=True) if type(a) is int}
    parameters = ", ".join(f"{n}: i64" if n in whole else n for n in names)
    value = f(*program.args)
    results = [f"r_{k}" for k in range(len(value))] if isinstance(value, tuple) else ["r_0"]
    source = program.source.strip()
    if not source.startswith("def "):
        source = f"def {f.__name__}({', '.join(names)}):\n    return ({source})"
    sums = " + ".join(["0.0", *(f"sum({name})" for name in results)])
    call = f"{', '.join(results)} = {f.__name__}({', '.join(names)})"
    return Program(f"{source}\n\ndef total({parameters}):\n    {call}\n    return {sums}\n", program.args)


def directions(program: Program, count: int) -> list[list[np.ndarray]]:
    """Random directions for all arguments."""
    random = np.random.default_rng(count)
    return [[random.uniform(0.5, 1.5, np.shape(a)) for a in program.args] for _ in range(count)]


def along(program: Program, *ways: Sequence[Any]) -> float | None:
    """The oracle's mixed derivative of one scalar result, or None at a kink."""
    value, error = derivative(program.source, program.args, ways)
    return float(value) if error <= 1e-9 * max(1.0, abs(value)) else None


def dotted(gradient: Sequence[Any], direction: Sequence[Any]) -> tuple[float, float]:
    """Σ gradient · direction, and the same of the magnitudes: the scale of its rounding."""
    pairs = [(np.float64(g), d) for g, d in zip(gradient, direction, strict=True) if g is not None]
    return sum(float(np.sum(g * d)) for g, d in pairs), sum(float(np.sum(np.abs(g * d))) for g, d in pairs)


def agrees(
    gradient: Sequence[Any], direction: Sequence[Any], expected: float, relative: float = 1e-9
) -> None:
    """The directional derivative that a gradient gives is the oracle's."""
    value, scale = dotted(gradient, direction)
    assert abs(value - expected) <= relative * max(1.0, scale, abs(expected)), f"{value} is not {expected}"
