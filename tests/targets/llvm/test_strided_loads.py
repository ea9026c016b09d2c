"""Vectors of elements that are a few places apart."""

from __future__ import annotations

import re

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.targets.llvm.limits import MOST_STRIDE
from adcompiler.targets.llvm.passes import parsed
from adcompiler.targets.llvm.runtime.entry import translated
from adcompiler.targets.llvm.runtime.machine_code import optimised
from adcompiler.targets.llvm.strided_loads import loads, strided
from adcompiler.targets.llvm.vectormath.second_pass import _is_possible

GATHER = "@llvm.masked.gather"
wide = pytest.mark.skipif(not _is_possible(), reason="this processor has no AVX-512")


def code(f, *args, second: bool = True) -> str:
    """The kernel of a call as LLVM makes it."""
    f(*args)
    kernel = f._specialise(f._last).executable.general
    return str(optimised(translated(kernel.source, True).text, second=second))


@wide
@pytest.mark.optimised
@pytest.mark.parametrize(("step", "dtype"), [(2, "f32"), (3, "f64"), (4, "f32")])
def test_strided_reads(step, dtype):
    """Loops over every second, third or fourth element have no gathers, and the same values."""
    kind = np.float64 if dtype == "f64" else np.float32
    f = adc.compile(
        f"def f(x: {dtype}[n], c: {dtype}[m]):\n"
        f"    y = [3 * x[{step} * i + 1] for i in range((n - 2) // {step})]\n"
        f"    return y, [x[{step} * i] if c[i] > 0 else -1.0 for i in range(n // {step})]"
    )
    for n in (2, 3, 5, 8, 17, 33, 64, 127, 200):
        x = np.random.default_rng(n).standard_normal(n).astype(kind)
        c = x[: n // step]
        y, z = f(x, c)  # with conditions, only every second element is loaded
        assert np.array_equal(y, 3 * x[1 : 1 + step * ((n - 2) // step) : step][: (n - 2) // step])
        assert np.array_equal(z, np.where(c > 0, x[::step][: n // step], kind(-1)))
    assert GATHER + "." in code(f, x, c, second=False)
    masks = re.findall(rf"call [^@]*{GATHER}\.\w+\.\w+\([^)]* %\S+, <\d+ x i1> (\S+)", code(f, x, c))
    assert "splat" not in masks
    assert bool(masks) == (step > 2)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("step", range(1, MOST_STRIDE + 1))
def test_loads(lanes, step):
    """The lanes are those of the gather, and no load reaches beyond the elements of the first and last."""
    lines = loads("%r", lanes, "float", "4", "%p", step, "splat (i1 true)", "poison")
    memory = np.arange(step * (lanes - 1) + 1)
    values: dict[str, np.ndarray] = {}
    start = 0
    for line in lines:
        numbers = [int(n) for n in re.findall(r"i32 (\d+)", line)]
        name, *used = re.findall(r'%"?[\w.]+"?', line)
        if "getelementptr" in line:
            start = int(line.split("i64 ")[1])
        elif " load " in line:
            assert start + lanes <= len(memory)
            values[name] = memory[start : start + lanes]
        elif "shufflevector" in line:
            values[name] = np.concatenate([values[v] for v in used])[numbers]
        elif "select" in line:
            values[name] = values[used[0]]
    assert values["%r"].tolist() == memory[::step].tolist()


TEXT = """\
define <4 x float> @f(ptr %p, i64 %i, <4 x i64> %k, <4 x i1> %m, <4 x float> %o) {{
  %one = insertelement <4 x i64> poison, i64 %i, i64 0
  %same = shufflevector <4 x i64> %one, <4 x i64> poison, <4 x i32> zeroinitializer
  %lane = add <4 x i64> %same, <i64 0, i64 1, i64 2, i64 3>
  {place}
  %at = getelementptr float, ptr %p, <4 x i64> %place
  %r = call <4 x float> @llvm.masked.gather.v4f32.v4p0(<4 x ptr> align 4 %at, <4 x i1> {mask}, <4 x float> %o)
  ret <4 x float> %r
}}

declare <4 x float> @llvm.masked.gather.v4f32.v4p0(<4 x ptr>, <4 x i1>, <4 x float>)
"""


@pytest.mark.parametrize("mask", ["splat (i1 true)", "%m"])
@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("%place = shl <4 x i64> %lane, splat (i64 1)", True),
        ("%place = mul nsw <4 x i64> %lane, splat (i64 3)", True),
        ("%place = sub <4 x i64> %lane, <i64 3, i64 2, i64 1, i64 0>", True),
        ("%place = mul <4 x i64> %lane, splat (i64 5)", False),
        ("%place = sub <4 x i64> %same, %lane", False),
        ("%place = mul <4 x i64> %lane, %same", False),
        ("%place = add <4 x i64> %lane, %k", False),
        ("%place = add <4 x i64> %same, <i64 0, i64 2, i64 4, i64 7>", False),
    ],
)
def test_affine_places(place, found, mask):
    """A gather stays unless its addresses grow by a few elements from lane to lane."""
    text, changed = strided(TEXT.format(place=place, mask=mask))
    found = found and (mask != "%m" or int(re.findall(r"splat \(i64 (\d)\)|$", place)[0] or 2) < 3)
    assert (f"call <4 x float> {GATHER}" not in text) == found == (changed == {"f"})
    parsed(text).close()
