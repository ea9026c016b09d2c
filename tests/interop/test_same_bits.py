"""A call has the same bits from Python, njit code, a C library, PyTorch and JAX: it is one machine code."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

import adcompiler as adc
from adcompiler.cli import main

RNG = np.random.default_rng(0)
# Several blocks of vectors with exponentials and sums of lanes; numbers alone; an iteration in float32.
PROGRAMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "regression": (
        """
def f(x: f64[n, d], w: f64[d], y: f64[n], scale: f64):
    return sum(log1p(exp(-y * (x @ w)))) * scale + sqrt(sum(w**2))
""",
        (RNG.normal(size=(3000, 17)), RNG.normal(size=17), RNG.choice([-1.0, 1.0], 3000), 0.3),
    ),
    "numbers": ("def f(a: f64, b: f64):\n    return exp(-a) * (1 - a)**2 + 100 * (b - a**2)**2", (0.3, -1.7)),
    "iteration": (
        """
def f(x: f32[n], a: f32):
    s, total = x[0] * 0, x[0] * 0
    for i in range(len(x)):
        s = tanh(a * s + x[i])
        total = total + s * s / (1 + x[i]**2)
    return total
""",
        (RNG.normal(size=301).astype(np.float32), np.float32(0.7)),
    ),
}
Way = Callable[[Path, str, tuple[Any, ...]], Any]


def in_njit(folder: Path, source: str, args: tuple[Any, ...]) -> Any:
    inside = adc.value_and_grad(adc.compile(source)).jitted
    return njit(lambda *args: inside(*args))(*args)


def in_c(folder: Path, source: str, args: tuple[Any, ...]) -> Any:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    (folder / "f.adc").write_text(source)
    assert main(["build", str(folder / "f.adc"), "-o", str(folder), "--native"]) == 0
    library = ctypes.CDLL(str(next(folder.glob("libf*"))))
    arrays = [np.asarray(a) for a in args]
    lengths = dict.fromkeys(n for a in arrays for n in a.shape)
    value = np.zeros((), arrays[0].dtype)
    grads = [np.zeros_like(a) for a in arrays]
    numbers = {"d": ctypes.c_double, "f": ctypes.c_float}
    given = [a.ctypes.data_as(ctypes.c_void_p) if a.ndim else numbers[a.dtype.char](a.item()) for a in arrays]
    out = [a.ctypes.data_as(ctypes.c_void_p) for a in (value, *grads)]
    assert library.f_value_and_grad(*map(ctypes.c_int64, lengths), *given, *out) == 0
    return value, grads


def in_torch(folder: Path, source: str, args: tuple[Any, ...]) -> Any:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    tensors = [torch.from_numpy(np.array(a)).requires_grad_() for a in args]
    value = adc.compile(source).torch()(*tensors)
    value.backward()
    return value.detach().numpy(), [t.grad.numpy() for t in tensors]


def in_jax(folder: Path, source: str, args: tuple[Any, ...]) -> Any:
    jax = pytest.importorskip("jax", reason="jax is not installed: pip install 'adcompiler[jax]'")
    with jax.enable_x64(True):
        given = [jax.numpy.asarray(a, np.asarray(a).dtype) for a in args]
        return jax.jit(jax.value_and_grad(adc.compile(source).jax(), range(len(args))))(*given)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("way", [in_njit, in_c, in_torch, in_jax])
def test_value_and_gradient_have_the_same_bits_everywhere(tmp_path: Path, way: Way, name: str) -> None:
    source, args = PROGRAMS[name]
    value, grads = adc.value_and_grad(adc.compile(source))(*args)
    found, slopes = way(tmp_path, source, args)
    for got, want in zip((found, *slopes), (value, *grads), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want), strict=False)
        assert np.asarray(got).tobytes() == np.asarray(want, np.asarray(got).dtype).tobytes()
