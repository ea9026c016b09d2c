"""Kernels of scalars without numba: the same bits as numba gives, for every primitive of the table."""

from __future__ import annotations

import math
import struct
from itertools import product
from types import BuiltinFunctionType

import numpy as np
import pytest

from adcompiler.codegen.cpu import Compiled
from adcompiler.ir.nodes import Func, Input, Map, Read
from adcompiler.ir.types import DTYPES
from adcompiler.ops.build import apply
from adcompiler.ops.table import TABLE
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.7, 1e-310, 1e308, math.inf, -math.inf, math.nan)
SAMPLES = {
    "bool": (False, True),
    "i64": (0, 1, -1, 3, -7, 2**62, -(2**62), 63, 64),
    "f32": tuple(np.float32(x) for x in FLOATS if abs(x) != 1e308),
    "f64": FLOATS,
}
# numba compiles these: division and powers of whole numbers have loops and branches, gamma is numba's own.
BY_NUMBA = {"gamma", "floor_divide", "remainder"}


def program(op: str, dtype: str) -> Func:
    """A program that applies one primitive to scalars."""
    entry = TABLE[op]
    inputs = tuple(Input(k, dtype, ()) for k in range(len(entry.params)))
    result = Map((), apply(op, *(Read(i, ()) for i in inputs)))
    func = Func(op, inputs, entry.params, (result,), ("result",))
    return run((*OPTIMISE, *KERNEL), func)


def bits(value: object) -> bytes | object:
    """What tells 0.0 from -0.0; all NaNs are one."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return value


def both(compiled: Compiled, args: tuple) -> tuple[list, list]:
    """The results without numba and with it."""
    scalars = compiled.serial(*args)
    return compiled.scalar(*args), [scalars[k] for k in compiled.picks]


CASES = [
    (op, dtype)
    for op, entry in TABLE.items()
    for dtype in DTYPES
    if not (entry.kind == "integer" and dtype not in ("i64",))
    and not (entry.kind == "logical" and dtype != "bool")
]


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_every_primitive_has_the_bits_of_numba(op, dtype):
    compiled = Compiled(program(op, dtype))
    if dtype in ("f32", "f64") and op not in BY_NUMBA:
        assert isinstance(compiled.scalar, BuiltinFunctionType)
    for args in product(SAMPLES[dtype], repeat=len(compiled.func.inputs)):
        without, with_numba = both(compiled, args)
        assert [bits(x) for x in without] == [bits(x) for x in with_numba], args
