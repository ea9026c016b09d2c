"""Random programs of the intermediate representation that keep its invariants."""

from __future__ import annotations

from random import Random

from adcompiler.ir.nodes import (
    PUTS,
    REDUCERS,
    Accumulate,
    Apply,
    Const,
    Func,
    Index,
    Input,
    Map,
    Put,
    Read,
    Reduce,
    Size,
    const,
    select,
)
from adcompiler.ir.types import DTYPES
from adcompiler.ops.build import apply, result_dtype
from adcompiler.ops.table import TABLE

SIZES = (Size(0), Size(1), Size(2))
NAMES = ["d", "t", "x0", "n", "i", "select", "a b", "r0", "u", "k_1"]
OPS = {entry.kind: [op for op, e in TABLE.items() if e.kind == entry.kind] for entry in TABLE.values()}


def random_func(seed):
    """The random program of that number."""
    return _Builder(seed).program()


class _Builder:
    """The arrays of a program, and names for some of its nodes."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.pick = self.random.choice
        self.arrays = []
        self.names = {}

    def lengths(self, least, most):
        counts = [Read(a, ()) for a in self.arrays if a.dtype == "i64" and not a.rank]
        known = [*SIZES, const(1, "i64"), const(3, "i64"), apply("add", *SIZES[:2]), *counts]
        return tuple(self.pick(known) for _ in range(self.random.randint(least, most)))

    def leaf(self, axes):
        bits = self.random.randbytes(8)
        constants = [
            Const("f64", bits),
            Const("f32", bits[:4]),
            Const("i64", bits),
            const(bits[0] % 2, "bool"),
        ]
        return self.pick(
            [self.pick(constants), const(bits[0] - 128, "f64"), *SIZES, *map(Index, range(axes))]
        )

    def of_dtype(self, pool, dtypes):
        """One of the pool, the later the likelier, or a constant."""
        found = [e for e in pool if e.dtype in dtypes]
        return self.pick(found[-3:]) if found else const(1, dtypes[0])

    def grow(self, pool, axes):
        """One more element, made of those in the pool."""
        kind = self.pick(["leaf", "read", "read", "select", "cast", *OPS])
        if kind == "leaf" or (kind == "read" and not self.arrays):
            return self.leaf(axes)
        if kind == "read":
            array = self.pick(self.arrays)
            return Read(array, tuple(self.of_dtype(pool, ["i64"]) for _ in array.shape))
        if kind == "select":
            then = self.pick(pool)
            return select(self.of_dtype(pool, ["bool"]), then, self.of_dtype(pool, [then.dtype]))
        if kind == "cast":
            return Apply(dtype := self.pick(DTYPES), (self.pick(pool),), dtype)
        op = self.pick(OPS[kind])
        takes = {"logical": "bool", "integer": "i64"}.get(kind) or self.pick(["f64", "f32", "i64"])
        operand, result = result_dtype(op, (takes,))
        return Apply(op, tuple(self.of_dtype(pool, [operand]) for _ in TABLE[op].params), result)

    def elements(self, axes):
        pool = [self.leaf(axes) for _ in range(3)]
        for _ in range(self.random.randint(0, 40)):
            pool.append(self.grow(pool, axes))
            if self.random.random() < 0.5:
                self.names[pool[-1]] = self.pick(NAMES)
        return pool

    def array(self):
        shape, domain = self.lengths(0, 3), self.lengths(1, 3)
        numbers = ["f64", "f32", "i64"]
        kind = self.pick(["array", "reduce", "accumulate", "put"])
        if kind == "put" and (bases := [a for a in self.arrays if a.dtype != "bool"]):
            return self.put(self.pick(bases))
        if kind == "array":
            return Map(shape, self.elements(len(shape))[-1])
        if kind == "reduce":
            pool = self.elements(len(shape) + len(domain))
            return Reduce(self.pick(REDUCERS), shape, domain, self.of_dtype(pool, numbers))
        pool = self.elements(len(domain))
        indices = tuple(self.of_dtype(pool, ["i64"]) for _ in shape)
        return Accumulate(shape, domain, indices, self.of_dtype(pool, numbers))

    def put(self, base):
        """What some points store in an array: each axis of them decides an index of its own."""
        axes = self.random.sample(range(base.rank), self.random.randint(0, base.rank))
        domain = self.lengths(len(axes), len(axes))
        pool = self.elements(len(axes))
        places = dict(zip(axes, map(Index, range(len(axes))), strict=True))
        fixed = [e for e in pool if e.dtype == "i64" and not e.axes] or [const(1, "i64")]
        moved = {
            k: apply("add", i, self.pick(fixed)) if self.random.random() < 0.5 else i
            for k, i in places.items()
        }
        indices = tuple(moved[k] if k in moved else self.pick(fixed) for k in range(base.rank))
        op = self.pick(PUTS)
        if op == "add":
            indices = tuple(self.of_dtype(pool, ["i64"]) for _ in indices)
        return Put(
            base, op, domain, indices, self.of_dtype(pool, ["bool"]), self.of_dtype(pool, [base.dtype])
        )

    def program(self):
        for position in range(self.random.randint(0, 4)):
            self.arrays.append(Input(position, self.pick(DTYPES), self.lengths(0, 2)))
        inputs = tuple(self.arrays)
        for _ in range(self.random.randint(1, 5)):
            self.arrays.append(self.array())
            if self.random.random() < 0.5:
                self.names[self.arrays[-1]] = self.pick(NAMES)
        results = (self.arrays[-1], *self.random.choices(self.arrays, k=self.random.randint(0, 2)))
        input_names = tuple(f"x{k}" for k in range(len(inputs)))
        result_names = tuple(f"r{k}" for k in range(len(results)))
        sizes = self.pick([("n", "m", "k"), ("i", "j", "u0"), ("select", "a b", "d")])
        return Func("f", inputs, input_names, results, result_names, sizes, self.names)
