"""Random programs of the IR: every backend and every pass agrees, and so do derivatives with differences."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from adcompiler.ir.nodes import (
    Accumulate,
    Array,
    Const,
    Element,
    Func,
    Index,
    Input,
    Map,
    Read,
    Reduce,
    Shape,
    Size,
    const,
    is_const,
    select,
)
from adcompiler.ops.build import apply
from programs.ir_evaluated import backends, check, kernel, near, orders, reference, slopes

LENGTHS = (3, 4)  # of the size symbols
SIZES: Shape = (Size(0), Size(1), const(1, "i64"), const(2, "i64"))
# Smooth and bounded on bounded arguments: values and differences stay accurate however they are combined.
UNARY = ("sin", "tanh", "exp_of_tanh", "square_of_sin", "root", "negative", "atan")
BINARY = ("add", "subtract", "multiply", "ratio", "hypot_like", "maximum")


class Maker:
    """Makes one random program; arrays refer to any that were made before."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.inputs = [
            Input(0, "f64", SIZES[:1]),
            Input(1, "f64", SIZES[:2]),
            Input(2, "f64", (SIZES[2], SIZES[1])),
            Input(3, "f64", ()),
            Input(4, "i64", SIZES[:1]),
        ]
        self.arrays: list[Array] = [i for i in self.inputs if i.dtype == "f64"]

    def func(self) -> Func:
        """Several arrays upon each other; the last ones are the results, and one of them stands twice."""
        for _ in range(self.random.randint(2, 5)):
            self.arrays.append(self.array())
        made = self.arrays[4:]
        results = (*made[-2:], self.random.choice(made[-2:]))
        names = tuple(f"r{k}" for k in range(len(results)))
        return Func("random", tuple(self.inputs), tuple("abcde"), results, names, size_names=("n", "m"))

    def array(self) -> Array:
        kept = tuple(self.random.choice(SIZES) for _ in range(self.random.randint(0, 2)))
        reduced = tuple(self.random.choice(SIZES) for _ in range(self.random.randint(1, 2)))
        kind = self.random.choice(("map", "map", "sum", "sum", "extremum", "accumulate"))
        if kind == "map":
            return Map(kept, self.element(kept))
        if kind == "sum":
            return Reduce("sum", kept, reduced, self.element(kept + reduced))
        if kind == "extremum":
            return Reduce(self.random.choice(("max", "min")), kept, reduced, self.element(kept + reduced))
        indices = tuple(self.index(n, reduced) for n in kept)
        return Accumulate(kept, reduced, indices, self.element(reduced))

    def element(self, domain: Shape) -> Element:
        """An expression with shared parts: operands are drawn from those made so far."""
        pool = [self.read(domain) for _ in range(3)]
        pool.append(const(self.random.choice((0.5, -1.0, 2.0)), "f64"))
        for _ in range(self.random.randint(1, 4)):
            x, y = self.random.choice(pool), self.random.choice(pool)
            choice = self.random.random()
            if choice < 0.4:
                pool.append(self.unary(self.random.choice(UNARY), x))
            elif choice < 0.85:
                pool.append(self.binary(self.random.choice(BINARY), x, y))
            else:
                pool.append(select(self.guard(domain), x, y))
        return pool[-1]

    def unary(self, name: str, x: Element) -> Element:
        match name:
            case "exp_of_tanh":
                return apply("exp", apply("tanh", x))
            case "square_of_sin":
                return apply("square", apply("sin", x))
            case "root":
                return apply("sqrt", apply("add", apply("square", apply("sin", x)), const(0.5, "f64")))
        return apply(name, x)

    def binary(self, name: str, x: Element, y: Element) -> Element:
        match name:
            case "ratio":
                return apply("divide", x, apply("add", const(2.5, "f64"), apply("sin", y)))
            case "hypot_like":
                squares = apply("add", apply("square", apply("sin", x)), apply("square", apply("cos", y)))
                return apply("sqrt", apply("add", squares, const(0.25, "f64")))
            case "multiply":
                return apply("multiply", apply("tanh", x), y)
        return apply(name, x, y)

    def guard(self, domain: Shape) -> Element:
        left, right = self.index(SIZES[1], domain), self.index(SIZES[0], domain)
        return apply(self.random.choice(("less", "greater_equal")), left, right)

    def read(self, domain: Shape) -> Element:
        array = self.random.choice(self.arrays)
        return Read(array, tuple(self.index(n, domain) for n in array.shape))

    def index(self, size: Element, domain: Shape) -> Element:
        """An index inside `size`: mostly an axis of that length."""
        plain = [Index(k) for k, n in enumerate(domain) if n is size]
        if is_const(size, 1):
            return const(0, "i64")
        if plain and self.random.random() < 0.8:
            return self.random.choice(plain)
        anywhere: Element = const(self.random.randint(0, 3), "i64")
        gathers = [Index(k) for k, n in enumerate(domain) if n is SIZES[0]]
        if gathers and self.random.random() < 0.6:
            anywhere = Read(self.inputs[4], (self.random.choice(gathers),))
        elif domain:
            anywhere = apply("add", anywhere, Index(self.random.randrange(len(domain))))
        return apply("remainder", anywhere, size if isinstance(size, Size) else const(size_of(size), "i64"))


def size_of(size: Element) -> int:
    assert isinstance(size, Const)
    return int(size.value)


def arguments(seed: int) -> tuple[object, ...]:
    random = np.random.default_rng(seed)
    n, m = LENGTHS
    return (
        random.uniform(-1, 1, n),
        random.uniform(-1, 1, (n, m)),
        random.uniform(-1, 1, (1, m)),
        random.uniform(-1, 1),
        random.integers(0, n, n),
    )


@pytest.mark.slow_when(lambda seed: seed not in (0, 2, 112))
@pytest.mark.parametrize("seed", [*range(12), 95, 112])  # the last two have bounds that read arrays
def test_kernels(seed):
    func, args = Maker(seed).func(), arguments(seed)
    check(func)
    backends(func, args)
    *_, (_, joint) = orders(func, 1 + seed % 2)
    backends(joint, args)


@pytest.mark.thinned(16)
@pytest.mark.parametrize("seed", range(100, 140))
def test_derivatives_and_passes(seed):
    """Two orders against differences, and the same values after the passes."""
    func, args = Maker(seed).func(), arguments(seed)
    for value, joint in orders(func, 2):
        true = reference(joint, args)
        near(true[1:], slopes(value, args), 1e-6, f"seed {seed}", 1e-11)
        near(reference(kernel(joint), args), true, 1e-11, f"seed {seed} after the passes")
