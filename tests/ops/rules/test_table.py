"""Every entry of the rule table is proved by SymPy, by finite differences and against NumPy."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from ops.rules.evaluate import Numbers, Precise, evaluate, in_orders, parse, precise

from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.table import ALIASES, SECTIONS, TABLE

POINTS = 24
# Those without a form in SymPy are judged by mpmath: see test_incomplete_rules.py.
SMOOTH = in_orders(e for e in TABLE.values() if e.differentiable and e.sympy)
# A parameter that is sampled at one number is an order, by which nothing is differentiated.
PARTIALS = [(e, k) for e in SMOOTH for k, ((low, high), *_) in enumerate(e.domain) if low < high]
# The second parameter of heaviside matters at a single point, which the edges cover.
SLOPED = [(e, k) for e, k in PARTIALS if e.partials[k] != "0" and (e.name, k) != ("heaviside", 1)]


def named(cases: list[tuple[Primitive, int]]) -> Any:
    return pytest.mark.parametrize(
        ("entry", "k"), [pytest.param(e, k, id=f"{e.name}-{e.params[k]}") for e, k in cases]
    )


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mpmath.workdps(30):
        yield


def points(entry: Primitive) -> list[tuple[float, ...]]:
    """Points of the domain, the same in every run."""
    random = np.random.default_rng(zlib.crc32(entry.name.encode()))
    axes = [[random.uniform(*domain[i % len(domain)]) for i in range(POINTS)] for domain in entry.domain]
    for axis in axes[1:]:
        random.shuffle(axis)
    return list(zip(*axes, strict=True))


def precisely(entry: Primitive, k: int, point: tuple[Any, ...]) -> Any:
    """The text of the partial derivative number k at a point, in 30 digits."""
    values = [mpmath.mpf(v) for v in point]
    scope = dict(zip(entry.params, values, strict=True)) | {"r": precise(entry)(*values)}
    return evaluate(entry.partials[k], scope, Precise())


def central(function: Any, point: tuple[Any, ...], k: int, step: Any) -> Any:
    """The central difference of a function of several numbers in its argument number k."""
    up, down = ([v + s if i == k else v for i, v in enumerate(point)] for s in (step, -step))
    return (function(*up) - function(*down)) / (up[k] - down[k])


def close(a: Any, b: Any, tolerance: float) -> bool:
    return bool(abs(a - b) <= tolerance * max(1, abs(a), abs(b)))


def agrees_with_sympy(entry: Primitive, k: int) -> bool:
    truth = precise(entry, entry.params[k])
    return all(close(precisely(entry, k, p), truth(*map(mpmath.mpf, p)), 1e-14) for p in points(entry))


def agrees_with_differences(entry: Primitive, k: int) -> bool:
    def at(point: tuple[float, ...]) -> bool:
        partial, exact = precisely(entry, k, point), tuple(map(mpmath.mpf, point))
        fine = central(precise(entry), exact, k, mpmath.mpf("1e-10"))
        coarse = central(entry.numpy, tuple(map(np.float64, point)), k, 1e-5)
        return close(partial, fine, 1e-14) and close(partial, coarse, 1e-7)

    return all(map(at, points(entry)))


def test_every_entry_is_complete() -> None:
    for entry in TABLE.values():
        assert bool(entry.kernel) != bool(entry.expand), entry.name
        assert len(entry.domain) == len(entry.params), entry.name
        assert len(entry.partials) in (0, len(entry.params)), entry.name
        for text in filter(None, (*entry.partials, entry.expand)):
            parse(text)
    names = [entry.name for section in SECTIONS.values() for entry in section]
    assert len(set(names)) == len(names), "a name is given twice"
    assert set(ALIASES.values()) <= set(TABLE)
    assert not set(ALIASES) & set(TABLE)


@named(PARTIALS)
def test_partial_is_sympys(entry: Primitive, k: int) -> None:
    assert agrees_with_sympy(entry, k)


@pytest.mark.thinned(4)
@named(PARTIALS)
def test_partial_is_the_limit_of_differences(entry: Primitive, k: int) -> None:
    assert agrees_with_differences(entry, k)


@pytest.mark.thinned(4)
@named(SLOPED)
def test_a_wrong_sign_is_seen(entry: Primitive, k: int) -> None:
    texts = tuple(f"-({text})" if i == k else text for i, text in enumerate(entry.partials))
    mutant = replace(entry, partials=texts)
    assert not agrees_with_sympy(mutant, k)
    assert not agrees_with_differences(mutant, k)


@pytest.mark.thinned(4)
@named(SLOPED)
def test_partial_differentiates_to_sympys_second_derivatives(entry: Primitive, k: int) -> None:
    for j in [j for e, j in PARTIALS if e is entry]:
        truth = precise(entry, entry.params[k], entry.params[j])
        for point in points(entry)[:8]:
            exact = tuple(map(mpmath.mpf, point))
            second = central(lambda *p: precisely(entry, k, p), exact, j, mpmath.mpf("1e-9"))
            assert close(second, truth(*exact), 1e-13), (entry.params[j], point)


@pytest.mark.parametrize("entry", SMOOTH, ids=lambda e: e.name)
def test_reference_is_the_sympy_form(entry: Primitive) -> None:
    for point in points(entry):
        assert close(entry.numpy(*map(np.float64, point)), precise(entry)(*map(mpmath.mpf, point)), 2e-14)


@pytest.mark.parametrize("entry", [e for e in SMOOTH if e.expand], ids=lambda e: e.name)
def test_expansion_is_the_sympy_form(entry: Primitive) -> None:
    for point in points(entry):
        scope = dict(zip(entry.params, map(np.float64, point), strict=True))
        value = evaluate(entry.expand, scope, Numbers())
        assert close(value, precise(entry)(*map(mpmath.mpf, point)), 2e-14), point


@pytest.mark.parametrize("name", [e.name for e in TABLE.values() if e.kind == "bool" and e.sympy])
def test_comparisons_are_sympys(name: str) -> None:
    for x, y in product((-1.0, 0.0, 2.0), repeat=2):
        assert bool(precise(TABLE[name])(x, y)) == TABLE[name].numpy(x, y)
