"""Random programs of operations, branches and effects: adc.fuse changes nothing but their speed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adcompiler as adc
from adcompiler import GraphError, Variable, fuse, tape

UNARY = {
    "tanh": lambda x: x.tanh(), "sin": lambda x: x.sin(), "softplus": lambda x: x.softplus(),
    "negative": lambda x: -x,
    "power": lambda x: (x * x + 1.0) ** 0.5, "clone": lambda x: x.clone(), "abs": abs, "floor": np.floor,
    "sum": lambda x: 0.1 * x.sum(), "mean": lambda x: x.mean(axis=-1, keepdims=True) if x.ndim else x * 0.5,
    "turned": lambda x: x[..., ::-1] if x.ndim else x, "row": lambda x: x[0] if x.ndim else x,
    "picked": lambda x: x[..., np.array([0, 2, 2])] if x.ndim and x.shape[-1] == 3 else x,
    "max": lambda x: np.max(x, axis=-1, keepdims=True) if x.ndim else x, "detach": lambda x: x.detach(),
    "shaped": lambda x: x.reshape(-1).reshape(x.shape), "spread": lambda x: x.expand((2, 3)),
    "frozen": lambda x: x * float(x.mean()),
}  # fmt: skip
BINARY = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (1.0 + y * y), "maximum": np.maximum,
    "where": lambda x, y: np.where(np.arange(3) > 1, x, y),
    "product": lambda x, y: (x.expand((2, 3)) @ y.expand((2, 3)).T).tanh() @ y.expand((2, 3)),
}  # fmt: skip
EFFECTS = ("item", "store", "print", "write", "change", "array", "hook", "raise")
place = st.integers(0, 30)
statement = st.deferred(
    lambda: st.one_of(
        st.tuples(st.just("unary"), st.sampled_from(sorted(UNARY)), place),
        st.tuples(st.just("binary"), st.sampled_from(sorted(BINARY)), place, place),
        st.tuples(st.just("number"), st.sampled_from("+-*"), place, st.integers(0, 2)),
        st.tuples(st.just("effect"), st.sampled_from(EFFECTS), place),
        st.tuples(st.just("branch"), place, programs, programs),
        st.tuples(st.just("no_grad"), programs),
    )
)
programs = st.lists(statement, min_size=1, max_size=4)


class StopError(Exception):
    """What a program raises in its middle."""


class Machine:
    """What a program works on: Variables, numbers, and what it writes down."""

    def __init__(self, values, numbers):
        self.leaves = [Variable(v, requires_grad=k != 2) for k, v in enumerate(values)]
        self.numbers, self.log, self.kept = numbers, [], []
        self.array = np.linspace(-0.5, 0.5, 3)
        self.pool = list(self.leaves)

    def at(self, k):
        return self.pool[-1 - k % len(self.pool)]

    def run(self, program):
        for kind, *rest in program:
            getattr(self, kind)(*rest)
        return self.pool[-1]

    def unary(self, name, k):
        self.pool.append(UNARY[name](self.at(k)))

    def binary(self, name, j, k):
        self.pool.append(BINARY[name](self.at(j), self.at(k)))

    def number(self, sign, k, n):
        x, a = self.at(k), self.numbers[n]
        self.pool.append(x + a if sign == "+" else a - x if sign == "-" else x * a)

    def branch(self, k, then, otherwise):
        self.run(then if self.at(k).sum() > 0 else otherwise)

    def no_grad(self, program):
        with adc.no_grad():
            self.run(program)

    def effect(self, what, k):
        x = self.at(k)
        if what == "item":
            self.log.append(float(x.sum()))
        elif what == "store":
            self.kept.append(x)
        elif what == "print":
            self.log.append(x.value.copy())
        elif what == "write" and not x.is_leaf:
            x += 0.25
        elif what == "change":
            with adc.no_grad():
                self.leaves[0] *= 0.5
        elif what == "array":
            self.pool.append(x * self.array if x.ndim and x.shape[-1] == 3 else x + 0.5)
            self.array += 1.0
        elif what == "hook" and x.requires_grad:
            x.register_hook(lambda g: g * 2.0)
        elif what == "raise" and self.numbers[0] > 0.3:
            raise StopError


def outcome(wrap, program, values, numbers):
    """What a run of a program wrote down, its results, and their derivatives; refusals by their class."""
    machine = Machine(values, numbers)
    try:
        wrap(Machine.run)(machine, program)
    except (StopError, adc.Error) as error:
        machine.log.append(type(error).__name__)
    results = [machine.pool[-1], *machine.kept]
    needs = [v.requires_grad for v in results]
    return machine.log, [v.value for v in results], needs, derivatives(results, machine)


def derivatives(results, machine):
    """Gradients of the results with respect to leaves and what was kept, to second order."""
    wanted = [*machine.leaves, *machine.kept]
    try:
        first = tape.grad([(v * v).sum() for v in results], wanted, create_graph=True)
        known = [(g * g).sum() for g in first if g is not None]
        return [*first, *(tape.grad(known, wanted) if known else [])]
    except GraphError:
        return None  # a value that is needed was changed


def same(plain, fused):
    """A fused program did what the plain one did; where that refuses a gradient, it may have one."""
    assert len(plain[0]) == len(fused[0])
    for x, y in [*zip(plain[0], fused[0], strict=True), *zip(plain[1], fused[1], strict=True)]:
        if isinstance(x, str):
            assert x == y
        else:
            np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-9)
    assert plain[2] == fused[2]
    if plain[3] is not None:
        assert fused[3] is not None
        assert [g is None for g in plain[3]] == [g is None for g in fused[3]]
        for x, y in zip(plain[3], fused[3], strict=True):
            if x is not None:
                np.testing.assert_allclose(y.value, x.value, rtol=1e-7, atol=1e-8)


VALUES = [np.array([[0.3, -0.7, 0.9], [0.2, 0.8, -0.4]]), np.array([0.6, -0.5, 0.1]), np.array(0.8)]
NUMBERS = [(0.2, 1.5, -0.5), (0.1, 2.0, 0.75), (0.25, -1.0, 0.3), (0.4, 0.6, 0.9)]


@settings(max_examples=5)
@given(st.lists(statement, min_size=4, max_size=14))
def test_random_programs(program):
    holds(program)


@pytest.mark.slow
@settings(max_examples=500)
@given(st.lists(statement, min_size=4, max_size=14))
def test_many_random_programs(program):
    holds(program)


def holds(program):
    """A program gives the same for each of the numbers, fused and as it is."""
    wrapped = {}

    def fused(function):  # one for all calls
        return wrapped.setdefault(function, fuse(backend="numpy")(function))

    for numbers in NUMBERS:
        same(outcome(lambda f: f, program, VALUES, numbers), outcome(fused, program, VALUES, numbers))
