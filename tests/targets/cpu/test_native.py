"""Kernels without numba: the bits that numba gives, arrays of every layout, threads."""

from __future__ import annotations

import gc
import math
import struct
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from programs.ir_evaluated import compiled as kernels
from programs.ir_evaluated import orders
from programs.ir_evaluated import program as read
from programs.ir_texts import CASES

import adcompiler as adc
from adcompiler.ir.nodes import Func, Input, Map, Read, const
from adcompiler.ir.types import DTYPES
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.loopir.parse import functions
from adcompiler.loopir.transforms.pipeline import transformed
from adcompiler.ops.build import apply
from adcompiler.ops.table import TABLE
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run
from adcompiler.targets.cpu.compiled import CpuKernel, _loaded
from adcompiler.targets.llvm.runtime.entry import KernelSource, Param, translated
from adcompiler.targets.llvm.runtime.jit import compiled

FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.7, 1e-310, 1e308, math.inf, -math.inf, math.nan)
SAMPLES = {
    "bool": (False, True),
    "i64": (0, 1, -1, 3, -7, 2**62, -(2**62), 63, 64),
    "f32": tuple(np.float32(x) for x in FLOATS if abs(x) != 1e308),
    "f64": FLOATS,
}


# Functions of ours that are compiled with what calls them contract otherwise, and gamma is the C library's.
NEARLY = ("series.", "bessel.", "incomplete.", "math.gamma")


def numba_cannot(op: str, dtype: str, args: tuple) -> bool:
    """Whether numba has no right value: programs check that whole exponents are not negative."""
    return op == "power" and dtype == "i64" and not 0 <= args[1] < 2**16


def close(value: object, other: object, few: float) -> bool:
    """Whether two numbers are equal but for the last bits."""
    return bits(value) == bits(other) or math.isclose(value, other, rel_tol=few, abs_tol=few)


def program(op: str, dtype: str) -> Func:
    """A program that applies one primitive to scalars."""
    entry = TABLE[op]
    order = () if entry.orders is None else (const(2, dtype),)
    names = entry.params[len(order) :]
    inputs = tuple(Input(k, dtype, ()) for k in range(len(names)))
    result = Map((), apply(op, *order, *(Read(i, ()) for i in inputs)))
    func = Func(op, inputs, names, (result,), ("result",))
    return run((*OPTIMISE, *KERNEL), func)


def bits(value: object) -> bytes | object:
    """What tells 0.0 from -0.0; all NaNs are one."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return value


def both(kernel: CpuKernel, args: tuple) -> tuple[list, list]:
    """The results without numba and with it."""
    return list(kernel.serial(*args)), list(_loaded(kernel.kernel.source)(*args))


PRIMITIVES = [
    (op, dtype)
    for op, entry in TABLE.items()
    for dtype in DTYPES
    if not (entry.kind == "integer" and dtype not in ("i64",))
    and not (entry.kind == "logical" and dtype != "bool")
]


@pytest.mark.optimised
@pytest.mark.thinned(4)
@pytest.mark.slow_when(lambda op, dtype: PRIMITIVES.index((op, dtype)) % 37)
@pytest.mark.parametrize(("op", "dtype"), PRIMITIVES)
def test_every_primitive_has_the_bits_of_numba(op, dtype):
    kernel = CpuKernel(scheduled(program(op, dtype)))
    assert kernel.native is not None
    for args in product(SAMPLES[dtype], repeat=len(kernel.func.inputs)):
        if not numba_cannot(op, dtype, args):
            without, with_numba = both(kernel, args)
            if any(name in TABLE[op].kernel for name in NEARLY):
                few = 1e-6 if dtype == "f32" else 1e-15
                assert all(close(x, y, few) for x, y in zip(without, with_numba, strict=True)), args
            else:
                assert [bits(x) for x in without] == [bits(x) for x in with_numba], args


@pytest.mark.parametrize("x", [0, 1, -1, 2, 3, -7, 10, 2**62])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 50, 63, 64, 2**16, 2**62])
def test_powers_of_integers_wrap(x, n):
    found = CpuKernel(scheduled(program("power", "i64"))).serial(x, n)[0]
    assert (found - pow(x, n, 2**64)) % 2**64 == 0


@pytest.mark.parametrize("op", ["floor_divide", "remainder"])
def test_the_least_integer_by_minus_one_wraps(op):
    with np.errstate(all="ignore"):
        expected = TABLE[op].numpy(np.int64(-(2**63)), np.int64(-1))
    assert CpuKernel(scheduled(program(op, "i64"))).serial(-(2**63), -1)[0] == expected


STATEMENTS = """
def run(x, n):
    a = 1.0
    b = x
    iteration = uint64(0)
    while True:
        if not np.int64(iteration) < n:
            break
        a, b = b, a + b
        iteration += uint64(1)
    for k_back in range(uint64(0), uint64(n)):
        k = uint64(n) - uint64(1) - k_back
        a = a * 0.5 + np.float64(np.int64(k))
        inner = uint64(0)
        while True:
            if not inner < k:
                break
            for j in range(uint64(0), uint64(n)):
                b = b + a
            inner += uint64(1)
    return (a, b)
"""


def test_statements_mean_what_they_mean_in_python():
    names = {"uint64": int, "np": np}
    exec(STATEMENTS, names)
    native = compiled(
        KernelSource(
            transformed(functions(STATEMENTS)), [Param("x", "f64"), Param("n", "i64")], ["f64", "f64"]
        )
    )
    for n in (0, 1, 7):
        assert tuple(native(0.25, n)) == names["run"](0.25, n)


@pytest.mark.thinned(20)
@pytest.mark.parametrize("text", CASES, ids=lambda text: read(text).name)
def test_whole_programs_and_their_derivatives_need_no_numba(text):
    for pair in orders(read(text)):
        for func in pair:
            assert kernels(func).general.native is not None, func.name


def test_results_are_written_wherever_the_buffer_is():
    f = adc.compile("x * 2 + 1")
    unaligned = np.frombuffer(bytearray(8 * 50 + 1), dtype=np.float64, offset=1)
    packed = np.zeros(50, np.dtype([("a", "u1"), ("b", "f8")]))["b"]
    for buffer in (unaligned, packed, np.zeros(100)[::2], np.zeros(50)[::-1]):
        f.into(buffer, np.arange(50.0))
        np.testing.assert_array_equal(buffer, np.arange(50.0) * 2 + 1)


def test_threads_do_the_same_to_the_bit():
    x = np.random.default_rng(0).normal(size=300_000)
    f = adc.grad(adc.compile("sum(exp(-x**2)) / sum(x**2)"))
    first = f(x)
    kernel = next(iter(f._programs.values())).executable.general
    assert kernel.native is not None
    parallel = kernel([len(x)], [x])[0]
    kernel.parallel = kernel.serial  # from here on without threads
    np.testing.assert_array_equal(kernel([len(x)], [x])[0], parallel)
    np.testing.assert_array_equal(first, parallel)


@pytest.mark.parametrize("text", ["sin(x) * y", "sum(exp(x * y[i]) for i in range(len(y)))"])
def test_the_llvm_of_a_kernel_is_shown(text):
    """It is the module that a call runs: LLVM reads it, and the kernel's entry is in it."""
    from llvmlite import binding

    y = np.ones(3) if "[" in text else 1.0
    f = adc.grad(adc.compile(text, args="x, y"))
    f(0.5, y)
    module = binding.parse_assembly(f.show("llvm"))
    module.verify()
    assert not module.get_function("entry").is_declaration


def test_calls_from_many_threads():
    f = adc.grad(adc.compile("sum(sin(a * x))", args="a, x"), "a")
    x = np.linspace(0, 1, 2000)
    expected = [np.sum(x * np.cos(a * x)) for a in range(50)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda a: f(float(a), x), range(50)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


OF_ITS_OWN_LENGTH = {
    "while": """
def f(x: f64[n], k: i64[m]):
    s = sum(x)
    while s < 90:
        x = x * 1.3
        s = sum(x * x)
    return s
""",
    "for": """
def f(x: f64[n], k: i64[m]):
    s = 1.0
    for i in range(k[0] * k[1]):
        s = sin(s * x[i % n]) + s
    return s
""",
    "inside": """
def f(x: f64[n], k: i64[m]):
    s = 0.0
    for t in range(n):
        y = x * (1.0 + t)
        while sum(y) < 10 * (t + k[0]):
            y = sin(y) + y * 1.5
        s += sum(y)
    return s
""",
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", OF_ITS_OWN_LENGTH)
def test_arrays_whose_lengths_the_kernel_computes_need_no_numba(name):
    source = OF_ITS_OWN_LENGTH[name]
    f = adc.value_and_grad(adc.compile(source, precise=True), "x")
    x, k = np.linspace(0.2, 1.1, 5), np.array([3, 4])
    value, slope = f(x, k)
    expected = adc.value_and_grad(adc.compile(source, backend="numpy"), "x")(x, k)
    assert np.allclose(value, expected[0], rtol=1e-12)
    assert np.allclose(slope, expected[1], rtol=1e-11)
    types, values, *_ = f._describe((x, k))
    program = f._specialise(types)
    kernel, sizes = program.executable.general, program.sizes(values)
    assert "np.empty" in kernel.kernel.text
    assert kernel.native is not None
    by_numba = CpuKernel(kernel.made)
    by_numba.native = None
    found = kernel(sizes, values), by_numba(sizes, values)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_such_arrays_are_given_back():
    source = OF_ITS_OWN_LENGTH["for"]
    f = adc.grad(adc.compile(source), "x")
    x, k = np.full(5, 0.5), np.array([100, 1000])
    f(x, k)
    tracemalloc.start()
    for _ in range(3):
        f(x, k)
    left, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most > 2 * 8 * 100 * 1000
    assert left < 100_000


@pytest.mark.parametrize("k", [(2**20, 2**30), (2**31, 2**31)])
def test_such_arrays_may_be_too_large(k):
    f = adc.grad(adc.compile(OF_ITS_OWN_LENGTH["for"]), "x")
    with pytest.raises(adc.LimitError, match="needs more memory than available"):
        f(np.ones(5), np.array(k))
    assert np.isfinite(f(np.ones(5), np.array([2, 3]))).all()


def test_a_function_lives_as_long_as_it_is_held():
    kept = [adc.compile(f"x * {k} + 1") for k in range(8)]
    values = [f(2.0) for f in kept]
    gc.collect()
    assert [f(2.0) for f in kept] == values == [2.0 * k + 1 for k in range(8)]


CYCLES = """
import gc, struct, weakref
import numpy as np
import adcompiler as adc
from adcompiler.targets.llvm.runtime import jit as machine

gc.disable()
BITS = [struct.unpack("<d", struct.pack("<Q", 0x3FF0000000000200 | k << 12))[0] for k in range(5)]
filled, watched, found = [], [], []


def fill(_):  # floats lie where a description of a function was given back
    filled.extend(x + 0.0 for x in BITS * 1000)


def forgotten():
    function = machine._callable(machine._FIXED.fast_path, machine.METH_FASTCALL, b"", None, held := [])
    watched.append(weakref.ref(array := np.zeros(1), fill))
    held += [late := [array], last := [function]]
    late.append(late)
    last.append(last)


class User:
    def __init__(self, f):
        self.f, self.own = f, self

    def __del__(self):
        found.append(self.f(np.ones(3)))


for k in range(30):
    forgotten()
    gc.collect()
    filled.clear()
for k in range(3):
    f = adc.compile(f"def f(x: f64[n]):\\n    return sum(x * x) + {k}")
    f(np.ones(3)), f(np.ones(3))
    watched.append(weakref.ref(f))
    f.__dict__["user"] = User(f)
    del f
    gc.collect()
assert found == [3.0, 4.0, 5.0]
assert not any(one() is not None for one in watched)
"""


def test_garbage_is_collected_in_any_order():
    """In cycles of functions a collector clears what a function needs before it clears the function."""
    subprocess.run([sys.executable, "-X", "faulthandler", "-c", CYCLES], check=True)


def test_what_is_beyond_the_compiler_is_left_to_numba():
    f = adc.compile("gamma(x) + x // y")
    assert f(5.0, 2.0) == 26.0
    unknown = functions("def run(x):\n    return (unknown(x),)\n")
    with pytest.raises(UnsupportedError):
        translated(KernelSource(unknown, [Param("x", "f64")], ["f64"]), True)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0), (0,), (3, 0, 2)])
def test_empty_arrays_are_contiguous(shape):
    """NumPy gives them strides of its own, or none; there is no second kernel for those."""
    sizes = ", ".join("nmk"[: len(shape)])
    text = f"def f(x: f64[{sizes}], y: f64[p]):\n    return sum(x) + sum(y * y), x * 2.0"
    f = adc.compile(text)
    total, double = f(np.empty(shape), np.arange(3.0))
    assert total == 5.0
    assert double.shape == shape
    assert "strided" not in vars(f._specialise(f._last).executable.general.native)
