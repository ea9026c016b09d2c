"""Programs judged by JAX: value, gradient, second and third derivatives by every route.

A program's results are summed with weights of their own, so that a derivative that belongs to another entry
of a result is seen. Of the derivatives of order k, contracted with k - 1 directions, every entry is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from judges.compared import leaves
from oracle import derivative, evaluate
from programs import Program

import adcompiler as adc
from adcompiler.api.modes import Tangent
from adcompiler.api.transforms import Gradient

RELATIVE = 1e-9
Vectors = Sequence[Any]


def is_float(value: Any) -> bool:
    return np.asarray(value).dtype.kind == "f"


def weighted(program: Program) -> Program:
    """The sum of all floats that a program returns, each with a weight, as one more def."""
    f = adc.compile(program.source)
    names = [p.name for p in f._parameters]
    source = program.source.strip()
    if not source.startswith("def "):
        source = f"def {f.__name__}({', '.join(names)}):\n    return ({source})"
    made = evaluate(program.source, *program.args)
    values = list(leaves(made))
    results = [f"r_{k}" for k in range(len(values))]
    kept = [k for k, value in enumerate(values) if is_float(value)]
    random = np.random.default_rng(5)
    weights = tuple(random.uniform(0.5, 1.5, np.shape(values[k])) for k in kept)
    whole = {n for n, a in zip(names, program.args, strict=True) if type(a) is int}
    parameters = ", ".join([*(f"{n}: i64" if n in whole else n for n in names), *(f"c_{k}" for k in kept)])
    total = " + ".join(["0.0", *(f"sum(c_{k} * r_{k})" for k in kept)])
    call = f"{', '.join(results)} = {f.__name__}({', '.join(names)})"
    text = f"{source}\n\ndef total({parameters}):\n    {call}\n    return {total}\n"
    return Program(text, (*program.args, *(w if w.shape else float(w) for w in weights)))


class Judged:
    """A program, and what JAX says of it: `expected[0]` is the value, `expected[k]` the k-th derivative."""

    def __init__(self, program: Program, backend: str, order: int) -> None:
        from oracle import jax as oracle_jax

        self.program, self.order = program, order
        self.total = weighted(program)
        self.args = self.total.args
        self.f = adc.compile(self.total.source, backend=backend)
        self.wrt = tuple(k for k, a in enumerate(program.args) if is_float(a))
        random = np.random.default_rng(1)
        shapes = [np.shape(self.args[k]) for k in self.wrt]
        self.ways = [[random.uniform(0.5, 1.5, shape) for shape in shapes] for _ in range(3)]
        self.expected = oracle_jax.orders(self.total.source, self.args, self.ways[: order - 1], self.wrt)
        self.results = [np.asarray(r) for r in leaves(oracle_jax.value(program.source, program.args))]
        self.backend = backend

    # -- comparison ------------------------------------------------------------------------------

    def scale(self, order: int) -> float:
        """What an error is relative to: the greatest number in the derivatives up to this order, or 1.

        An entry that is small is the rest of terms that cancelled, and those of order k are products of what
        the lower orders are made of.
        """
        known = [np.abs(e).max(initial=1.0) for entries in self.expected[: order + 1] for e in entries]
        return float(max(known))

    def compare(self, route: str, found: Vectors, order: int) -> None:
        for k, one, other in zip(self.wrt, found, self.expected[order], strict=True):
            made = np.zeros(np.shape(other)) if one is None else np.asarray(one)
            assert made.shape == other.shape, route
            outside = ~(np.abs(made - other) <= RELATIVE * self.scale(order))
            assert not np.any(outside), f"{route}, argument {k}:\n{made}\n is not JAX's\n{other}"

    def contracted(self, route: str, found: Any, order: int, way: Vectors) -> None:
        """A number that is the derivative along one more way."""
        terms = [np.sum(e * w) for e, w in zip(self.expected[order], way, strict=True)]
        assert np.abs(found - sum(terms)) <= RELATIVE * self.scale(order) * max(1, self.size), (
            f"{route}: {found} is not JAX's {sum(terms)}"
        )

    @property
    def size(self) -> int:
        return sum(np.size(self.args[k]) for k in self.wrt)

    # -- routes ----------------------------------------------------------------------------------

    def full(self, way: Vectors) -> list[Any]:
        """A way with None for the arguments without derivatives."""
        return [dict(zip(self.wrt, way, strict=True)).get(k) for k in range(len(self.args))]

    def of_wrt(self, found: Vectors) -> list[Any]:
        return [found[k] for k in self.wrt]

    def values(self) -> None:
        found = adc.compile(self.program.source, backend=self.backend)(*self.program.args)
        for one, other in zip(leaves(found), self.results, strict=True):
            assert np.shape(one) == other.shape
            scale = np.abs(other).max(initial=1.0)
            assert np.all(np.abs(np.subtract(one, other, dtype=float)) <= RELATIVE * scale), (one, other)

    def first(self) -> None:
        self.compare("reverse", adc.grad(self.f, self.wrt)(*self.args), 1)
        tangent = adc.jvp(self.f, self.args, self.full(self.ways[0]))[1]
        self.contracted("forward", tangent, 1, self.ways[0])
        split = self.f.split(self.wrt)
        self.compare("propagate", split.propagate(split.forward(*self.args)[1], 1.0), 1)

    def second(self) -> None:
        v = self.ways[0]
        self.compare("forward over reverse", adc.hvp(self.f, self.wrt)(self.args, tuple(v)), 2)
        blocks = adc.hessian(self.f, self.wrt)(*self.args)
        self.compare("dense", [sum(map(times, row, v)) for row in blocks], 2)
        pullback = adc.vjp(adc.grad(self.f, self.wrt), *self.args, wrt=self.wrt)[1]
        self.compare("reverse over reverse", pullback(tuple(v)), 2)
        pullback = adc.vjp(Tangent(self.f, self.wrt), *self.args, *v, wrt=self.wrt)[1]
        self.compare("reverse over forward", pullback((None, 1.0)), 2)

    def third(self) -> None:
        v, w, u = self.ways
        pushed = Tangent(Gradient(self.f, self.wrt, "grad"), self.wrt)
        pullback = adc.vjp(pushed, *self.args, *v, wrt=self.wrt)[1]
        none = (None,) * len(self.wrt)
        self.compare("reverse over forward over reverse", pullback((none, tuple(w))), 3)
        moved = adc.jvp(adc.hessian(self.f, self.wrt), self.args, self.full(w))[1]
        self.compare("forward over dense", [sum(map(times, row, v)) for row in moved], 3)
        twice = Tangent(Tangent(self.f, self.wrt), self.wrt)
        nothing = [None] * len(v)
        along = adc.jvp(twice, (*self.args, *v, *w), (*self.full(u), *nothing, *nothing))[1]
        self.contracted("forward in forward in forward", along[1][1], 3, u)

    def has_differences(self) -> None:
        """JAX agrees with differences of a hundred digits, but where these meet a kink."""
        for k in range(1, self.order + 1):
            ways = [self.full(way) for way in self.ways[:k]]
            found, error = derivative(self.total.source, self.args, ways)
            if error <= RELATIVE * max(1.0, abs(found)):
                self.contracted("differences", found, k, self.ways[k - 1])

    def holds(self) -> None:
        self.values()
        for check in (self.first, self.second, self.third)[: self.order]:
            check()


def times(block: Any, way: Any) -> Any:
    return 0.0 if block is None else np.tensordot(block, way, np.ndim(way))
