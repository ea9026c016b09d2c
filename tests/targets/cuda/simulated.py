"""What only a device has, in numba's simulator; `test_simulator.py` runs this file with its flag set."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from judges.compared import leaves
from numba import cuda
from programs.ir_evaluated import arguments, optimised, orders, program, reference, sizes_of
from programs.ir_texts import CASES
from programs.written_loops import BEHIND

import adcompiler as adc
from adcompiler.targets.cpu import kernels
from adcompiler.targets.cuda import executable, plan, product
from adcompiler.targets.cuda import program as device_program
from adcompiler.targets.cuda.backend import of_device
from adcompiler.targets.cuda.device import arrays, simulated
from adcompiler.targets.cuda.device.memory import Memory
from adcompiler.targets.cuda.emit import tiles
from adcompiler.targets.cuda.emit.steps import HostLoop, Product
from adcompiler.targets.cuda.executable import CudaExecutable
from adcompiler.targets.cuda.scatter import fill, scatter

RANDOM = np.random.default_rng(0)
LAUNCHES = {
    "threads on their own": plan.Machine(threads=4, warp=4, busy=0, enough=0, most_blocks=3, tile=10**9),
    "slices": plan.Machine(threads=4, warp=4, busy=10**6, enough=0, most_blocks=2, tile=10**9),
    "teams": plan.Machine(threads=4, warp=4, busy=0, enough=10**6, most_blocks=3, tile=10**9),
    "tiles": plan.Machine(threads=4, warp=4, busy=0, enough=0, most_blocks=2, tile=1),
    "slices of tiles": plan.Machine(threads=4, warp=4, busy=10**6, enough=0, most_blocks=2, tile=1),
}


def programs(made: Any) -> dict[Any, Any]:
    """The programs on the device of a compiled program's only configuration."""
    (kernel,) = made.executable.kernels.values()
    found: dict[Any, Any] = kernel.programs
    return found


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


SUMS = """
def f(x, w, v):
    y = tanh(x * w)
    return sum(y * v[:, None]), sum(y, axis=0), sum(y * y, axis=1), max(y, axis=1), sum(x)
"""


@pytest.mark.parametrize("name", LAUNCHES)
def test_every_way_to_launch_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_program, "MACHINE", LAUNCHES[name])
    args = RANDOM.normal(size=(9, 7)), RANDOM.normal(size=7), RANDOM.normal(size=9)
    f, g = (adc.compile(SUMS, backend=b) for b in ("cuda", "numpy"))
    for found, expected in zip(f(*args), g(*args), strict=True):
        same(found, expected)
    total = "def f(x, w, v):\n    return sum(exp(-(x * w) ** 2) * v[:, None])\n"
    for found, expected in zip(
        *(adc.grad(adc.compile(total, backend=b))(*args) for b in ("cuda", "numpy")), strict=True
    ):
        same(found, expected)


PAIRS = {
    "all": "sum(w[j] * exp(-(x[i] - x[j])**2) for i in range(n) for j in range(n))",
    "triangle": "sum(w[j] * sin(x[i] - x[j]) for i in range(n) for j in range(i))",
    "the rest": "sum(w[j] * sin(x[i] - x[j]) for i in range(n) for j in range(i + 1, n))",
    "largest": "sum([max([w[j] * cos(x[i] - x[j]) for j in range(n)]) for i in range(n)])",
    "under a condition": "sum(w[j] * sin(x[i]) if x[i] > x[j] else 0 for i in range(n) for j in range(n))",
    "places": "sum(w[at[j]] * (x[i] - x[at[j]])**3 for i in range(n) for j in range(n))",
    "shifted": "sum(x[i] * (w[j + 1] - x[j])**2 for i in range(n) for j in range(n - 1))",
    "two sums": "sum(sum(sin(w[j] - v) for j in range(n)) * sum(exp(w[j] * v) for j in range(n)) for v in x)",
}


@pytest.mark.thinned(8)
@pytest.mark.parametrize("name", LAUNCHES)
@pytest.mark.parametrize("pairs", PAIRS)
def test_pairs_of_points(pairs: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks have four threads, tiles four iterations: the last ones of eleven are not full."""
    monkeypatch.setattr(device_program, "MACHINE", LAUNCHES[name])
    source = f"def f(x: f64[n], w: f64[n], at: i64[n]):\n    return {PAIRS[pairs]}\n"
    args = RANDOM.normal(size=11), RANDOM.normal(size=11), RANDOM.integers(0, 11, 11)
    f, g = (adc.value_and_grad(adc.compile(source, backend=b), ("x", "w")) for b in ("cuda", "numpy"))
    (value, found), (expected, exact) = f(*args), g(*args)
    same(value, expected)
    for one, other in zip(found, exact, strict=True):
        same(one, other)
    (made,) = f._programs.values()
    kernels = [text for p in programs(made).values() for text in p.kernels if text[-1] is True]
    assert bool(kernels) == ("tiles" in name)


ROWS = {
    "rows": "sum(exp(-sum((x[i, k] - y[j, k])**2 for k in range(d))) * b[j] for j in range(m))",
    "columns": "sum(sin(sum(cos(x[i, k] + t[k, j]) for k in range(d)) + b[j]) for j in range(m))",
    "nearest": "min([sum(abs(x[i, k] - y[j, k]) for k in range(d)) for j in range(m)])",
    "twice": "sum(sum(sin(x[i, k] * y[j, k]) for k in range(d)) + max([y[j, l] * x[i, 0] for l in range(d)]) "
    "for j in range(m))",
    "two arrays": "sum(exp(sum(sin(x[i, k] + y[j, k] * t[k, j]) for k in range(d))) for j in range(m))",
    "triangle": "sum(b[j] * sum(cos(x[i, k] - y[j, k]) for k in range(d)) for j in range(m) if j < i)",
    "two loops": "sum(sin(sum(cos(x[i, k] - y[j, k]) for k in range(d))) for j in range(m)) * "
    "sum(sin(b[j] * x[i, 0]) for j in range(m))",
}


@pytest.mark.thinned(12)
@pytest.mark.parametrize("lengths", [(11, 9, 3), (5, 4, 1), (4, 13, 7), (3, 0, 2), (3, 5, 0)])
@pytest.mark.parametrize("name", ["tiles", "slices of tiles"])
@pytest.mark.parametrize("rows", ROWS)
def test_rows_of_other_points_lie_in_tiles(
    rows: str, name: str, lengths: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_program, "MACHINE", LAUNCHES[name])
    monkeypatch.setattr(executable, "SMALL", 0)
    n, m, d = lengths
    if "x[i, 0]" in ROWS[rows] and not d:
        pytest.skip("there is no first one")
    source = "def f(x: f64[n, d], y: f64[m, d], t: f64[d, m], b: f64[m]):\n"
    source += f"    return [{ROWS[rows]} for i in range(n)]\n"
    args = [RANDOM.normal(size=s) for s in ((n, d), (m, d), (d, m), m)]
    f, g = (adc.compile(source, backend=b) for b in ("cuda", "numpy"))
    try:
        expected = g(*args)
    except adc.Error as error:
        with pytest.raises(type(error)):
            f(*args)
        return
    same(f(*args), expected)
    (made,) = f._programs.values()
    kernels = [text for p in programs(made).values() for text in p.kernels if text[-1] is True]
    assert kernels or not m * n or d == 1
    for few in (1, 2):  # iterations a tile
        monkeypatch.setattr(tiles, "WIDE_TILE_BYTES", 16 * few * max(d, 1))
        monkeypatch.setattr(tiles, "FEWEST_TILE_ITERATIONS", 1)
        same(adc.compile(source, backend="cuda")(*args), expected)
    monkeypatch.setattr(tiles, "WIDE_TILE_BYTES", 0)
    same(adc.compile(source, backend="cuda")(*args), expected)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("places", [
    np.array([0, 3, 3, 1, 9, 0, 4, 9, 9, 9, 9, 9]), np.full(70, 2), np.arange(40) % 10, np.full(5, 10),
    RANDOM.integers(0, 11, 200),
])  # fmt: skip
@pytest.mark.parametrize("atomics", [False, True])
def test_a_scatter_adds_runs_of_any_length(places: np.ndarray, atomics: bool) -> None:
    values, out = RANDOM.normal(size=len(places)), cuda.device_array(10, np.float64)
    fill(out, 0, 0)
    scatter(cuda.to_device(places), cuda.to_device(values), out, Memory().rows(), 0, atomics)
    expected = np.zeros(11)
    np.add.at(expected, places, values)
    same(out.copy_to_host(), expected[:10])


def test_a_scatter_is_sorted_by_place_and_then_by_position() -> None:
    from adcompiler.targets.cuda.scatter import _sorted

    places = RANDOM.integers(0, 400, 300)
    found = _sorted(cuda.to_device(places), cuda.to_device(np.arange(300.0)), 400, Memory().rows(), 0)
    np.testing.assert_array_equal(found[1].copy_to_host(), np.argsort(places, kind="stable"))


def test_arrays_on_the_device_stay_there() -> None:
    x, w = RANDOM.normal(size=(4, 5)), RANDOM.normal(size=5)
    f = adc.compile("tanh(x * w)", backend="cuda")
    found = f(cuda.to_device(x), cuda.to_device(w))
    assert not isinstance(found, np.ndarray)
    same(found.copy_to_host(), np.tanh(x * w))
    value, gradient = adc.value_and_grad(adc.compile("sum(tanh(x * w))", backend="cuda"))(
        cuda.to_device(x), w
    )
    same(value, np.sum(np.tanh(x * w)))
    same(gradient[0].copy_to_host(), w / np.cosh(x * w) ** 2)


STRIDED = {
    "elements": "sum(x * w)",
    "product": "sum((x @ w.T) * 2)",
    "other products": "sum(x.T @ w) + sum(w @ x.T)",
    "loop": "h = x\n    for t in range(3):\n        h = tanh(h * w)\n    return sum(h)",
    "routine": "sum(cholesky(x.T @ x + eye(3)) * w[:3])",
}


@pytest.mark.thinned(8)
@pytest.mark.parametrize("large", [-1, 10**9])
@pytest.mark.parametrize("name", STRIDED)
def test_arrays_on_the_device_may_have_any_strides(
    name: str, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executable, "LARGE_ITERATION", large)
    monkeypatch.setattr(kernels, "chosen", lambda *_: True)
    monkeypatch.setattr(kernels._Program, "alone", lambda *_: True)
    monkeypatch.setattr(device_program, "multiply", undisturbed(product.multiply))
    x, w = cuda.to_device(RANDOM.normal(size=(14, 6))), cuda.to_device(RANDOM.normal(size=(3, 7)))
    args = x[::2, 1:4], w.T
    text = f"def f(x, w):\n    {'return ' * (name != 'loop')}{STRIDED[name]}\n"
    (value, found), (expected, exact) = (
        adc.value_and_grad(adc.compile(text, backend=b))(*a)
        for b, a in (("cuda", args), ("numpy", [a.copy_to_host() for a in args]))
    )
    same(value, expected)
    for one, other in zip(found, exact, strict=True):
        same(one.copy_to_host(), other)
    kept = arrays.copy_of(args[0])
    same(kept.copy_to_host(), args[0].copy_to_host())


def test_forward_and_propagate_on_the_device() -> None:
    x = RANDOM.normal(size=6)
    parts = adc.compile("sin(x) * x", backend="cuda").split()
    results, saved = parts.forward(cuda.to_device(x))
    (found,) = parts.propagate(saved, cuda.to_device(np.ones(6)))
    same(results.copy_to_host(), np.sin(x) * x)
    same(found.copy_to_host(), np.cos(x) * x + np.sin(x))


def test_dlpack_gives_the_memory_of_an_array() -> None:
    array = np.ones((3, 4))[:, ::2]
    interface = arrays._Shared(array, 0).__cuda_array_interface__
    assert interface["data"][0] == array.ctypes.data
    assert (interface["shape"], interface["strides"]) == (array.shape, array.strides)


def test_tangents_and_containers_on_the_device() -> None:
    x, v = RANDOM.normal(size=(2, 5))
    here, along = cuda.to_device(x), cuda.to_device(v)
    f = adc.compile("sin(x) * x", backend="cuda")
    value, tangent = adc.jvp(f, (here,), (along,))
    same(value.copy_to_host(), np.sin(x) * x)
    same(tangent.copy_to_host(), (np.cos(x) * x + np.sin(x)) * v)
    found = adc.hvp(adc.compile("sum(x ** 3)", backend="cuda"))((here,), along)
    same(found.copy_to_host(), 6 * x * v)
    (inside,) = adc.grad(adc.compile('sum(p["w"] ** 2)', backend="cuda"))({"w": here}).values()
    same(inside.copy_to_host(), 2 * x)


def test_an_array_on_the_device_is_refused_elsewhere() -> None:
    with pytest.raises(adc.DtypeError, match=r"'x' is on a CUDA device(.|\n)*backend=\"cuda\""):
        adc.compile("sum(x)")(cuda.to_device(np.ones(3)))
    with pytest.raises(adc.DtypeError, match="int32"):
        adc.compile("sum(x)", backend="cuda")(cuda.to_device(np.ones(3, np.int32)))


HALVES = {
    "elements": "sum(tanh(x[:, None] * y) * y + x[:, None])",
    "pairs": "sum(exp(-(x[i] - x[j])**2) * y[i, j % 3] for i in range(len(x)) for j in range(len(x)))",
    "places": "sum(x[i // 2] * y[i, 0] for i in range(len(x)))",
    "product": "sum((y @ y.T) * x)",
    "loop": "h = x\n    for row in y.T:\n        h = tanh(h * row + x)\n    return sum(h * h)",
    "routine": "sum(cholesky(y @ y.T + eye(len(x))) * x)",
    "itself": "x, y * 2",
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", HALVES)
def test_storage_of_16_bits_is_read_as_float32(name: str, dtype: str) -> None:
    kind = np.float16 if dtype == "float16" else pytest.importorskip("ml_dtypes").bfloat16
    x, y = RANDOM.normal(size=9).astype(kind), RANDOM.normal(size=(9, 4)).astype(kind)
    source = f"def f(x, y):\n    {'return ' * (name != 'loop')}{HALVES[name]}\n"
    f, g = (adc.compile(source, backend=b) for b in ("cuda", "numpy"))
    if name != "itself":
        f, g = adc.value_and_grad(f, ("x", "y")), adc.value_and_grad(g, ("x", "y"))
    wide = x.astype(np.float32), y.astype(np.float32)
    for args in ((x, y), (cuda.to_device(x), y) if dtype == "float16" else (x, wide[1])):
        for found, expected in zip(flat(f(*args)), flat(g(*wide)), strict=True):
            found = found if isinstance(found, np.ndarray | np.generic | float) else found.copy_to_host()
            assert np.asarray(found).dtype == np.float32
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def flat(value: Any) -> list[Any]:
    """The leaves of nested tuples."""
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, tuple) else [value]


INTO = {
    "elements": "tanh(x[:, None] * y)",
    "several": "tanh(x[:, None] * y), sum(y, axis=1) * x, x, x",
    "rows": "sum(exp(y) * x[:, None], axis=1)",
    "columns": "sum(exp(y) * x[:, None], axis=0)",
    "read again": "r = exp(y)\n    return r, sum(r @ r.T, axis=0)",
    "places": "[sum(x[i] * y[i, 0] for i in range(len(x)) if i // 2 == j) for j in range(len(x))]",
    "product": "y @ y.T",
    "loop": "h = x\n    for row in y.T:\n        h = tanh(h * row + x)\n    return h, sum(h)",
}


@pytest.mark.thinned(12)
@pytest.mark.parametrize("launch", ["usual", "slices", "teams"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", INTO)
def test_results_are_written_into_arrays_on_the_device(
    name: str, dtype: str, launch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 16 bits too: what is summed has 32 until it is stored."""
    if launch != "usual":
        monkeypatch.setattr(device_program, "MACHINE", LAUNCHES[launch])
        monkeypatch.setattr(executable, "SMALL", 0)
    kind = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    x, y = RANDOM.normal(size=9).astype(kind), RANDOM.normal(size=(9, 4)).astype(np.float32)
    source = f"def f(x, y):\n    {'return ' * (chr(10) not in INTO[name])}{INTO[name]}\n"
    f, g = (adc.compile(source, backend=b) for b in ("cuda", "numpy"))
    wide = x.astype(np.float32), y
    expected = g(*wide)
    expected = expected if isinstance(expected, tuple) else (expected,)
    buffers = tuple(
        cuda.to_device(np.zeros(np.shape(e), kind)) if np.ndim(e) else np.zeros((), np.float32)
        for e in expected
    )
    given = (cuda.to_device(x), y) if dtype != "bfloat16" else (x, y)
    assert f.into(buffers if len(buffers) > 1 else buffers[0], *given)[0] is buffers[0] or len(buffers) == 1
    for found, one in zip(buffers, expected, strict=True):
        here = found.copy_to_host() if np.ndim(one) else found
        close = {"float32": 2e-6, "float16": 6e-4, "bfloat16": 5e-3}[dtype]
        np.testing.assert_allclose(
            here.astype(np.float32), one, rtol=close, atol=1e-5 if dtype == "float32" else 1e-4
        )


def test_arrays_that_results_are_written_into_may_be_arguments_or_have_strides() -> None:
    x = RANDOM.normal(size=20).astype(np.float32)
    f = adc.compile("x[::-1] * 2 + 0 * sum(x)", backend="cuda")
    held = cuda.to_device(x)
    f.into(held, held)
    same(held.copy_to_host(), x[::-1] * 2)
    held = cuda.to_device(x)
    f.into(held[:-1], held[1:])
    same(held.copy_to_host()[:-1], x[:0:-1] * 2)
    whole = cuda.to_device(np.zeros(40, np.float16))
    f.into(whole[::2], cuda.to_device(x))
    np.testing.assert_array_equal(whole.copy_to_host()[::2], (x[::-1] * 2).astype(np.float16))
    here = np.zeros(20, np.float32)
    f.into(here, cuda.to_device(x))
    same(here, x[::-1] * 2)
    gradient = cuda.to_device(np.zeros(20, np.float16))
    adc.grad(adc.compile("sum(x ** 3)", backend="cuda")).into(gradient, cuda.to_device(x))
    np.testing.assert_array_equal(gradient.copy_to_host(), (3 * x * x).astype(np.float16))


def test_buffers_on_the_device_are_checked() -> None:
    f, x = adc.compile("x * 2", backend="cuda"), np.ones(3)
    with pytest.raises(adc.ShapeError, match="shape"):
        f.into(cuda.to_device(np.ones(4)), x)
    with pytest.raises(adc.DtypeError, match="float16"):
        f.into(cuda.to_device(np.ones(3, np.float16)), x)  # of float64
    with pytest.raises(adc.DtypeError, match="must be a writable NumPy array"):
        adc.compile("x * 2").into(cuda.to_device(x), x)


def test_kernels_store_results_of_16_bits_themselves() -> None:
    x = RANDOM.normal(size=50).astype(np.float32)
    f = adc.compile("tanh(x) * x, sum(x)", backend="cuda")
    f.into((cuda.to_device(np.zeros(50, np.float16)), np.zeros((), np.float32)), cuda.to_device(x))
    (found,) = f._programs.values()
    (program,) = [p for key, p in programs(found).items() if key[-1] and p.kernels]
    assert program.fills(0, cuda.to_device(np.zeros(50, np.float16)))


def test_rounding_to_bfloat16() -> None:
    numbers = np.array([1.0, -2.5, 3e38, 1e-40, np.inf, -0.0, 1 + 2**-8, 1 + 3 * 2**-8, 3.4e38], np.float32)
    target = np.zeros(1, np.int16)
    found = [simulated.wide(simulated.narrow(target, one)) for one in numbers]
    expected = [1.0, -2.5, found[2], found[3], np.inf, -0.0, 1.0, 1 + 2**-6, np.inf]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))
    np.testing.assert_allclose(found[2:4], numbers[2:4], rtol=2**-8, atol=2e-41)  # one is subnormal
    assert np.isnan(simulated.wide(simulated.narrow(target, np.float32(np.nan))))


def test_the_bits_of_bfloat16_are_those_of_float32() -> None:
    numbers = np.array([1.0, -2.5, 3e38, 1e-40, np.inf, -0.0], np.float32)
    upper = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    found = [simulated.wide(one) for one in upper.view(np.int16)]
    np.testing.assert_array_equal(found, (upper.astype(np.uint32) << 16).view(np.float32))


def test_large_numpy_arrays_are_copied_with_one_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_notified", False)
    monkeypatch.setattr(arrays, "NOTICE_FROM", 8)
    f = adc.compile("sum(x)", backend="cuda")
    with pytest.warns(arrays.CopyNotice, match="copied to the CUDA device"):
        f(np.ones(4))
    f(np.ones(4))  # a warning would be an error


@pytest.mark.thinned(5)
@pytest.mark.parametrize("text", CASES, ids=lambda text: program(text).name)
def test_programs_of_the_ir(text: str) -> None:
    for func in (program(text), *next(orders(program(text)))):
        args = arguments(func, CASES[text])
        made = CudaExecutable(of_device(optimised(func)))(sizes_of(func, args), args)
        for found, expected in zip(made, reference(func, args), strict=True):
            same(found, expected)


def undisturbed(call: Any) -> Any:
    """A call in which threads change as seldom as usual: two that ask the simulator for shared memory at the
    same time may get two."""

    def changed(*args: Any) -> None:
        before = sys.getswitchinterval()
        sys.setswitchinterval(5e-3)  # as usual
        try:
            call(*args)
        finally:
            sys.setswitchinterval(before)

    return changed


@pytest.mark.thinned(2)
@pytest.mark.parametrize("expression", ["x @ y", "x @ z.T", "z @ x.T", "y.T @ x.T", "x.T @ x"])
def test_products_are_made_by_tiles(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "chosen", lambda *_: True)
    monkeypatch.setattr(kernels._Program, "alone", lambda *_: True)
    monkeypatch.setattr(device_program, "multiply", undisturbed(product.multiply))
    args = RANDOM.normal(size=(7, 5)), RANDOM.normal(size=(5, 6)), RANDOM.normal(size=(6, 5))
    f, g = (adc.compile(f"def f(x, y, z):\n    return {expression}", backend=b) for b in ("cuda", "numpy"))
    same(f(*args), g(*args))
    (found,) = f._programs.values()
    assert any(isinstance(s, Product) for k in found.executable.kernels.values() for s in k.get().steps)


@pytest.mark.parametrize("expression", ["sum(solve(a, b))", "det(a)", "sum(cholesky(a @ a.T))"])
def test_routines_on_matrices(expression: str) -> None:
    args = RANDOM.normal(size=(4, 4)) + 4 * np.eye(4), RANDOM.normal(size=4)
    f, g = (
        adc.grad(adc.compile(f"def f(a, b):\n    return {expression}", backend=b)) for b in ("cuda", "numpy")
    )
    for found, expected in zip(f(*args), g(*args), strict=True):
        if expected is not None:
            same(found, expected)


NAMED = [
    "sort(x)", "median(x, axis=0)", "interp(x, sort(v), w)", "softmax(x, axis=1)", "cov(x)",
    "roll(x, 1) + flip(x)", "bincount(k, w, minlength=3)", "convolve(v, w[:3], 'same')",
    "segment_sum(outer(v, w), k, 4)", "eigvalsh(x @ x.T)", "qr(x.T)[0]", "svd(x.T, compute_uv=False)",
    "expm(x @ x.T / 9)", "pinv(x.T)", "lstsq(x.T, v[:7])[0]", "gammainc(w**2, 0.7)",
    "betainc(1.5, v**2, 0.3)", "mean(x[x > 0] ** 2)", "std(v[w > 0], ddof=1)",
]  # fmt: skip


@pytest.mark.thinned(3)
@pytest.mark.slow_when(lambda expression: expression.startswith(("gammainc", "expm")))
@pytest.mark.parametrize("expression", NAMED)
def test_functions_that_numpy_names(expression: str) -> None:
    args = RANDOM.normal(size=(3, 7)), *RANDOM.normal(size=(2, 9)), np.array([0, 2, 1, 1, 0, 2, 2, 2, 1])
    text = f"def f(x, v, w, k):\n    return sum(sin({expression}))"
    one, other = (
        adc.value_and_grad(adc.compile(text, backend=b), wrt=["x", "v", "w"]) for b in ("cuda", "numpy")
    )
    (value, found), (wanted, expected) = one(*args), other(*args)
    same(value, wanted)
    for a, b in zip(found, expected, strict=True):
        same(a, b)


def test_rows_of_different_lengths() -> None:
    rows = [RANDOM.normal(size=n) for n in (2, 0, 5, 1)]
    text = "def f(x: list[f64[:]], w):\n    return sum(sum(r * w) ** 2 + sum(r[r > 0.1]) for r in x)"
    one, other = (adc.value_and_grad(adc.compile(text, backend=b)) for b in ("cuda", "numpy"))
    (value, (found, by_w)), (wanted, (expected, by)) = one(rows, 2.0), other(rows, 2.0)
    same([value, by_w], [wanted, by])
    for a, b in zip(found, expected, strict=True):
        same(a, b)


STATEMENTS = {
    "stores at indices": "x[k] += x[k - 1] * w\n    x[x < 0.6] = w * w\n    return sum(x * x)",
    "a list": (
        "p = []\n    for i in range(len(x)):\n        p.append(x[i] * (sin(p[-1]) if i > 0 else w))\n"
        "    return sum(np.array(p) ** 2)"
    ),
    "a return": (
        "s = w\n    for v in x:\n        s = s * v + sin(s)\n        if s > 2.5:\n"
        "            return s * v * w\n    return s"
    ),
}


@pytest.mark.slow_when(lambda name: name != "a list")
@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_that_change_what_follows(name: str) -> None:
    text = f"def f(x, w, k):\n    {STATEMENTS[name]}\n"
    args = np.array([0.5, 1.2, 0.7, 0.9]), 1.1, np.array([0, 2])
    one, other = (adc.compile(text, backend=b) for b in ("cuda", "numpy"))
    for way in (adc.value_and_grad, adc.hessian):
        for found, expected in zip(leaves(way(one)(*args)), leaves(way(other)(*args)), strict=True):
            same(found, expected)


def test_a_thread_takes_several_points_a_iteration() -> None:
    a, b = RANDOM.normal(size=(2, 203))
    value, (da, db) = adc.value_and_grad(adc.compile("sum((a + b) * b)", backend="cuda"))(a, b)
    same(value, np.sum((a + b) * b))
    same(da, b)
    same(db, a + 2 * b)


def test_the_kernels_of_a_program_do_not_depend_on_its_lengths() -> None:
    f = adc.compile("sum((a + b) * b)", backend="cuda")
    for n in (3, 50, 200):
        f(np.ones(n), np.ones(n))
    (found,) = f._programs.values()
    assert len(found.executable.general.get().kernels) == 2  # the nest, and the sum of its parts


LOOP = """
def f(h, w, x):
    k = 0.0
    for t in range(len(x)):
        k = 0.5 * k + sum(h)
        h = tanh(w @ h + x[t]) + 0.1 * k
        h[0] = h[0] * k
    return sum(h * h) + k
"""
WHILE = """
def f(x, a):
    while sum(x * x) < 100:
        x = x * a + 0.1
        x[0] = x[1] + a
    return sum(x * x)
"""


def test_rows_that_iterations_of_the_host_leave_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of computed length, too: no iteration has a new array for the rows of all of them."""
    x, k = np.array([0.45, 0.2]), np.array([3, 4])
    fresh = cuda.device_array

    def marked(shape: Any, dtype: Any = np.float64, **more: Any) -> Any:
        found = fresh(shape, dtype, **more)
        found.copy_to_device(np.full(shape, -7, dtype))
        return found

    monkeypatch.setattr(cuda, "device_array", marked)
    (_, found), (_, expected) = (
        adc.compile(BEHIND, backend=b).split().forward(x, k) for b in ("cuda", "numpy")
    )
    for one, other in zip(found, expected, strict=True):
        same(np.asarray(one), np.asarray(other))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("large", [-1, 10**9])
@pytest.mark.parametrize("text", [LOOP, WHILE], ids=["for", "while"])
def test_loops_run_on_one_block_and_on_the_host(
    text: str, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executable, "LARGE_ITERATION", large)
    args: tuple[Any, ...] = (RANDOM.normal(size=5), 1.3)
    if text == LOOP:
        args = RANDOM.normal(size=5), RANDOM.normal(size=(5, 5)) / 3, RANDOM.normal(size=(4, 5))
    f, g = (adc.value_and_grad(adc.compile(text, backend=b)) for b in ("cuda", "numpy"))
    (value, found), (expected, exact) = f(*args), g(*args)
    same(value, expected)
    for one, other in zip(found, exact, strict=True):
        same(one, other)
    (made,) = f._programs.values()
    steps = [s for p in programs(made).values() for s in p.steps]
    assert any(isinstance(s, HostLoop) for s in steps) == (large < 0)


@pytest.mark.slow_when(lambda order: order > 0)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_values_that_several_nests_need_are_stored_where_they_are_results_too(order: int) -> None:
    lines = "\n".join(f"    y = tanh(sin(y * w) * y + sum(y) / {40 + k})" for k in range(5))
    source = f"def f(x, w):\n    y = x\n{lines}\n    return sum(y * y)"
    args = tuple(np.random.default_rng(0).uniform(0.5, 1.0, (2, 31)))
    found = []
    for backend in ("cuda", "numpy"):
        f = adc.compile(source, backend=backend)
        if order == 2:
            found.append(adc.hvp(f)(args, args))
        else:
            found.append(adc.grad(f)(*args) if order else [f(*args)])
    for one, other in zip(*found, strict=True):
        same(np.asarray(one), other)
