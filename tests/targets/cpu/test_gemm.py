"""Matrix products in kernels: what is one is seen however it is written, and BLAS gets the large ones."""

from __future__ import annotations

import numpy as np
import pytest
from bench.workloads.residual import BURGERS

import adcompiler as adc
from adcompiler.frontend.lowering.program import lower
from adcompiler.ir.nodes import Call
from adcompiler.ir.textform.verify import verify
from adcompiler.ir.walk import arrays_of
from adcompiler.kernels.emit.traffic import calls_pay
from adcompiler.passes.order.gemm import chosen, found, with_calls
from adcompiler.passes.pipeline import OPTIMISE, run
from adcompiler.pytree.kinds import ArgType
from adcompiler.runtime.programs.program import Program
from adcompiler.targets.cpu.gemm_epilogue import OPERANDS, product_of_two
from adcompiler.targets.cpu.kernels import Configuration, KernelSelector
from adcompiler.targets.cpu.targets import Cpu, Finished

RANDOM = np.random.default_rng(2)
X, Y, Z = RANDOM.normal(size=(120, 100)), RANDOM.normal(size=(100, 130)), RANDOM.normal(size=(130, 100))
V, B = RANDOM.normal(size=100), RANDOM.normal(size=(3, 90, 100))
W = RANDOM.normal(size=(90, 100, 7))
ARGS = {"x": X, "y": Y, "z": Z, "v": V, "b": B, "w": W}

# what is a product, and the names of the routines that it becomes
PRODUCTS = {
    "x @ y": ["matmul"],
    "x @ z.T": ["matmul_nt"],
    "y.T @ x.T": ["matmul"],
    "(x.T).T @ y": ["matmul"],
    "y @ z": ["matmul"],
    "z.T @ y.T": ["matmul"],
    "x @ y @ z": ["matmul", "matmul"],
    "x.T @ x": ["matmul_tn"],
    "(x * v) @ tanh(y)": ["matmul"],
    "(-x / v) @ y * 2": ["matmul"],
    'einsum("ik,kj->ji", x, y)': ["matmul"],
    'einsum("ki,kj->ij", y, z.T)': ["matmul"],
    'einsum("bik,kj->bij", b, y)': ["matmul"],
    'einsum("bik,bjk->bij", b, b)': ["matmul_nt"],
    'einsum("bik,bjk->bij", b, b + 1)': ["matmul_nt"],
    "b @ y": ["matmul"],
    'einsum("bki,bkj->ij", b, b)': ["matmul_tn"],
    'einsum("bik,kj->jib", b, y)': ["matmul"],
    'einsum("bik,jk->jbi", b, tanh(z))': ["matmul_nt"],
    'einsum("abk,kcd->acbd", b, b.T)': ["matmul_nt"],
    'einsum("abc,bcd->ad", b, w)': ["matmul"],
    'einsum("abc,bcd->da", b * b, w)': ["matmul"],
}
OTHERS = [
    "x @ v",
    "sum(x * v, axis=1)",
    "sum((x[:, None, :] - z[None, :, :])**2, axis=2)",
    "sum(x)",
    'einsum("ij,ij->i", x, x)',
]


def program(source):
    f = adc.compile(source)
    types = [ArgType("f64", (False,) * ARGS[p.name].ndim) for p in f._parameters]
    func = run(OPTIMISE, lower(f._closure, types).func)
    return func, [ARGS[p.name] for p in f._parameters]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("source", PRODUCTS)
def test_a_product_becomes_a_call(source):
    func, args = program(source)
    made = with_calls(func, found(func))
    verify(made)
    assert [a.op for a in arrays_of(made.roots) if isinstance(a, Call)] == PRODUCTS[source]
    expected = adc.compile(source, backend="numpy")(*args)
    for backend in ("numpy", "cpu"):
        np.testing.assert_allclose(_run(made, backend, args), expected, rtol=1e-11, atol=1e-11)


def _run(func, backend, args):
    return Program(func, backend).bind(args, True).run()[0]


@pytest.mark.parametrize("source", OTHERS)
def test_what_is_no_product_is_left_to_the_loops(source):
    func, _ = program(source)
    assert not found(func)


@pytest.mark.parametrize(
    ("lengths", "called"),
    [
        ((1024, 1024, 1024), True),
        ((4096, 256, 256), True),
        ((64, 128, 128, 128), True),
        ((2**12, 20, 20, 20), True),
        ((2**12, 12, 12, 12), False),  # cases run one by one, each with a call
        ((32, 32, 32), True),
        ((16, 16, 16), False),  # the loops are as fast
        ((1000, 8, 8, 8), False),
        ((50_000, 50_000, 64), False),  # all pairs of points: they are not to be stored
        ((4096, 4096, 3), False),
    ],
)
def test_lengths_choose(lengths, called):
    assert chosen(lengths) == called


def test_a_layer_and_its_gradient():
    f = adc.compile("sum(tanh(x @ w + b))")
    x, w, b = X, Y / 10, RANDOM.normal(size=130)
    value, (dx, dw, db) = adc.value_and_grad(f)(x, w, b)
    t = np.tanh(x @ w + b)
    d = 1 - t * t
    np.testing.assert_allclose(value, t.sum())
    for one, other in ((dx, d @ w.T), (dw, x.T @ d), (db, d.sum(axis=0))):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    small = adc.value_and_grad(f)(x[:5], w, b)[1][0]
    np.testing.assert_allclose(small, dx[:5], rtol=1e-9)


BLOCK = """def f(x: {0}[n, t, d], w: {0}[d, h], b: {0}[h], v: {0}[h, d]):
    y = tanh(x @ w + b) @ v + x
    return sum(y * y * y)"""


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_cases_of_one_factor_are_rows(dtype):
    """A feed-forward block: two axes of points are one axis of the products, forward and in all gradients."""
    kind = np.float64 if dtype == "f64" else np.float32
    shapes = (40, 70, 32), (32, 33), (33,), (33, 32)
    args = [(RANDOM.normal(size=shape) / 3).astype(kind) for shape in shapes]
    f = adc.compile(BLOCK.format(dtype))
    slow = adc.compile(BLOCK.format(dtype), backend="numpy")
    close = {"rtol": 1e-9, "atol": 1e-9} if dtype == "f64" else {"rtol": 1e-3, "atol": 1e-2}
    both = (adc.value_and_grad(g)(*args) for g in (f, slow))
    for one, other in zip(*map(_arrays, both), strict=True):
        np.testing.assert_allclose(one, other, **close)
    gradient = adc.grad(f)
    gradient(*args)
    executable = gradient._specialise(gradient._last).executable
    assert len(executable.select((40, 70, 32, 33)).products) == 6
    nothing = [args[0][:0], *args[1:]]
    for one, other in zip(_arrays(adc.grad(f)(*nothing)), nothing, strict=True):
        np.testing.assert_array_equal(one, np.zeros_like(other))


ATTENTION = """def f(q: {0}[b, h, t, d], k: {0}[b, h, s, d], v: {0}[b, h, s, d]):
    p = softmax(einsum("bhtd,bhsd->bhts", q, k) / sqrt(d), axis=3)
    y = einsum("bhts,bhsd->bhtd", p, v)
    return sum(y * y * y)"""


@pytest.mark.thinned(2)
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_threads_share_several_products(dtype):
    """Attention: products of each head, forward and in all gradients, of arrays of any layout."""
    kind = np.float64 if dtype == "f64" else np.float32
    args = [RANDOM.normal(size=(3, 2, 48 + 8 * (n > 0), 40)).astype(kind) for n in range(3)]
    f, slow = (adc.compile(ATTENTION.format(dtype), backend=b) for b in ("cpu", "numpy"))
    close = {"rtol": 1e-9, "atol": 1e-9} if dtype == "f64" else {"rtol": 1e-3, "atol": 1e-2}
    for derive in (adc.value_and_grad, lambda g: lambda *a: adc.hvp(g)(a, a)):
        for one, other in zip(_arrays(derive(f)(*args)), _arrays(derive(slow)(*args)), strict=True):
            np.testing.assert_allclose(one, other, **close)
    f(*args)
    products = f._specialise(f._last).executable.select((3, 2, 48, 40, 56)).products
    assert len(products) == 2
    strided = [np.ascontiguousarray(a.transpose(3, 0, 1, 2)).transpose(1, 2, 3, 0) for a in args]
    np.testing.assert_allclose(f(*strided), f(*args), rtol=1e-12 if dtype == "f64" else 1e-5)
    alone, both = (adc.compile(ATTENTION.format(dtype), threads=n)(*args) for n in (1, 2))
    assert alone == both
    assert f(*(a[:0] for a in args)) == 0


def _arrays(found):
    return [a for part in found for a in _arrays(part)] if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("op", ["matmul", "matmul_nt", "matmul_tn"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_tiles_make_the_product(op, dtype):
    """By all threads as by one, whatever the last tiles of an axis have, whether tiles are copied or not, and
    of strided factors."""
    one, two = (KernelSelector(Finished(threads=k), product_of_two(op, dtype)) for k in (1, 2))
    for rows, terms, columns in ((1, 1, 1), (64, 64, 64), (65, 129, 63), (130, 256, 512), (200, 70, 128)):
        sizes = rows, terms, columns
        (a, b), close = _factors(op, dtype, sizes), 1e-10 if dtype == "f64" else 1e-4
        (found,) = one(sizes, (a, b))
        expected = (a.T if op == "matmul_tn" else a) @ (b.T if op == "matmul_nt" else b)
        np.testing.assert_allclose(found, expected, rtol=close, atol=close * terms)
        assert found.tobytes() == two(sizes, (a, b))[0].tobytes()
        strided = np.repeat(a, 2, axis=1)[:, ::2], b[:, ::-1].copy()[:, ::-1]
        assert found.tobytes() == two(sizes, strided)[0].tobytes()


def _factors(op, dtype, sizes):
    types = {"f32": np.float32, "f64": np.float64}
    shapes = ([sizes[k] for k in axes] for axes in OPERANDS[op])
    return [RANDOM.normal(size=shape).astype(types[dtype]) for shape in shapes]


@pytest.mark.slow
@pytest.mark.parametrize("op", ["matmul", "matmul_nt", "matmul_tn"])
@pytest.mark.parametrize("size", [512, 640])
def test_large_products_are_the_librarys(op, size):
    (a, b), sizes = _factors(op, "f64", (size,) * 3), (size,) * 3
    (found,) = KernelSelector(Finished(), product_of_two(op, "f64"))(sizes, (a, b))
    expected = (a.T if op == "matmul_tn" else a) @ (b.T if op == "matmul_nt" else b)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow  # numba takes seconds to compile them
def test_numba_makes_tiles_as_well():
    x, y = RANDOM.normal(size=(260, 300)), RANDOM.normal(size=(300, 270))
    np.testing.assert_allclose(adc.compile("x @ y.T", backend="numba")(x, y.T.copy()), x @ y, rtol=1e-9)


def test_results_go_into_buffers_of_any_layout():
    f = adc.compile("x @ y")
    for out in (np.empty((120, 130)), np.empty((130, 120)).T, np.empty((240, 130))[::2]):
        f.into(out, X, Y)
        np.testing.assert_allclose(out, X @ Y)


def test_each_kernel_is_compiled_when_lengths_first_ask_for_it(monkeypatch):
    monkeypatch.setattr("adcompiler.passes.order.gemm.KERNEL_POINTS", 2**20)
    func, _ = program("x @ y")
    kernels, called = KernelSelector(Cpu(), func), Configuration(products=(0,))
    kernels((3, 4, 5), (np.ones((3, 4)), np.ones((4, 5))))
    assert list(kernels.kernels) == [Configuration()]
    kernels((120, 100, 130), (X, Y))
    assert list(kernels.kernels) == [Configuration(), called]
    assert "library_matmul" in kernels.kernels[called].kernel.source


def calls(points, units):
    """The routines that the gradient of Burgers' residual calls, for points and units of two layers."""
    args = [np.ones(shape) for shape in ((2, units), units, (units, units), units, units)]
    args += [0.1, np.ones(points), np.ones(points), 0.1]
    f = adc.value_and_grad(adc.compile(BURGERS, name="loss"), (0, 1, 2, 3, 4))
    made = Program.of(f._trace(f._describe(tuple(args), {})[0]), "cpu")
    selector = made.executable
    form = selector.form(selector.select(made.sizes(args)))
    return [a.op for a in arrays_of(form.func.roots) if isinstance(a, Call)]


def test_calls_do_not_split_loops_that_share_more_than_calls_gain():
    assert not calls(2000, 20)  # a point's layers and their derivatives share each tanh
    assert calls(500, 200)


TRANSFORMER = """
def normal(x: f64[b, t, d]):
    m = mean(x, axis=-1, keepdims=True)
    return (x - m) / sqrt(var(x, axis=-1, keepdims=True) + 1e-5)

def block(x: f64[b, t, d], QKV: f64[d, 3 * d], O: f64[d, d], W: f64[d, h], U: f64[h, d]):
    qkv = (normal(x) @ QKV).reshape(b, t, 3, 4, d // 4)
    score = einsum("bihd,bjhd->bhij", qkv[:, :, 0], qkv[:, :, 1]) / sqrt(d // 4)
    score = where(tril(ones((t, t))) > 0, score, -1e9)
    x = x + einsum("bhij,bjhd->bihd", softmax(score, axis=-1), qkv[:, :, 2]).reshape(b, t, d) @ O
    return mean((x + tanh(normal(x) @ W) @ U)**2)
"""


def test_products_in_nests_of_many_loops_are_calls():
    """A case of a batch has loops over rows, whose sums start a short loop each time."""
    args = [np.ones(shape) for shape in ((4, 32, 32), (32, 96), (32, 32), (32, 128), (128, 32))]
    f = adc.compile(TRANSFORMER, name="block")
    made = Program.of(f._trace(f._describe(tuple(args), {})[0]), "cpu")
    selector = made.executable
    form = selector.form(selector.select(made.sizes(args)))
    assert sum(isinstance(a, Call) for a in arrays_of(form.func.roots)) >= 4


CONVOLUTION = """
def loss(x0: f64[n, c, h, w], k: f64[o, c, 3, 3]):
    x = np.pad(x0, ((0, 0), (0, 0), (BORDER, BORDER), (BORDER, BORDER)))
    z = [[[[sum(x[s, b, STEP * i + u, STEP * j + v] * k[a, b, u, v]
                for b in range(c) for u in range(3) for v in range(3))
            for j in range((w + 2 * BORDER - 3) // STEP + 1)]
           for i in range((h + 2 * BORDER - 3) // STEP + 1)] for a in range(o)] for s in range(n)]
    return sum(tanh(z))
"""


@pytest.mark.slow  # programs of many windows
@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize(("border", "step"), [(0, 1), (1, 1), (0, 2), (1, 2)])
def test_convolutions_are_products_of_windows(border, step, dtype, monkeypatch):
    """Values, gradients and products with Hessians, also of no images."""
    monkeypatch.setattr("adcompiler.targets.cpu.kernels._Program.alone", lambda *_: True)
    text = CONVOLUTION.replace("BORDER", str(border)).replace("f64", dtype)
    text = (
        text.replace("STEP", str(step)) if step > 1 else text.replace("STEP * ", "").replace(" // STEP", "")
    )
    if not border:
        text = text.replace("x0:", "x:").replace(text.splitlines()[2], "")
    f, slow = (adc.compile(text, backend=b) for b in ("cpu", "numpy"))
    close = {"rtol": 1e-9, "atol": 1e-9} if dtype == "f64" else {"rtol": 1e-3, "atol": 1e-2}
    for images in (2 * step**2, 0):
        shapes = (images, 3, 14, 13), (8, 3, 3, 3)
        args = [0.3 * RANDOM.normal(size=shape).astype(f"float{dtype[1:]}") for shape in shapes]
        for derive in (adc.value_and_grad, lambda g: lambda *a: adc.hvp(g)(a, a)):
            for one, other in zip(_arrays(derive(f)(*args)), _arrays(derive(slow)(*args)), strict=True):
                np.testing.assert_allclose(one, other, **close)
        bound = f._bind(args)
        assert bool(bound.program.executable.select(bound.sizes).products) == (images > 0)


LINES = """
def loss(x: f64[n, c, m], k: f64[o, c, 3], y: f64[n, o, m - 2]):
    z = [[[sum(x[s, b, i + u] * k[a, b, u] for b in range(c) for u in range(3)) for i in range(m - 2)]
          for a in range(o)] for s in range(n)]
    return sum(y * z)
"""


@pytest.mark.parametrize("channels", [2, 5])
def test_few_channels_are_rows_of_products(channels, monkeypatch):
    """Also where kernels for long arrays know the number of channels."""
    monkeypatch.setattr("adcompiler.targets.cpu.kernels._Program.alone", lambda *_: True)
    args = [RANDOM.normal(size=shape) for shape in ((3, channels, 70), (50, channels, 3), (3, 50, 68))]
    fast, slow = (adc.grad(adc.compile(LINES, backend=b), ("x", "k")) for b in ("cpu", "numpy"))
    for one, other in zip(_arrays(fast(*args)), _arrays(slow(*args)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    bound = fast._bind(args)
    assert len(bound.program.executable.select(bound.sizes).products) == 2


def test_zeros_around_a_window_are_not_multiplied_by_infinity(monkeypatch):
    """An infinite weight at the edge of a window makes no gradient of an image NaN that is finite."""
    monkeypatch.setattr("adcompiler.targets.cpu.kernels._Program.alone", lambda *_: True)
    x, k, y = (RANDOM.normal(size=shape) for shape in ((40, 8, 20), (8, 8, 3), (40, 8, 18)))
    gradients = [adc.grad(adc.compile(LINES, backend=b), wrt=("x",)) for b in ("cpu", "numpy")]
    for weight in (0.5, np.inf):
        k[0, 0, 2] = weight
        (one,), (other,) = (_arrays(gradient(x, k, y)) for gradient in gradients)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        assert np.isfinite(one[:, 0, :2]).all()


TRANSCENDENTAL = """
def f(x: f64[n, m], y: f64[m, k]):
    return sum(exp(tanh(x @ y)) ** 1.3)
"""


def test_loops_are_not_scheduled_where_they_cannot_be_faster():
    """That follows from the schedule with calls, if operations outside of products take most of the time."""
    bound = adc.compile(TRANSCENDENTAL)._bind((X[:, :60].copy(), Y[:60, :33].copy()))
    executable = bound.program.executable
    configuration = executable.select(bound.sizes)
    program = executable.program(configuration.known)
    assert configuration.products == (0,)
    assert [*program.slower.values()] == [False]
    assert [*program.times] == [*program.programs] == [((0,), False)]


@pytest.mark.parametrize(
    ("pays", "rows", "columns", "terms"),
    [(True, 512, 512, 512), (None, 896, 16, 16), (False, 2116, 8, 3), (False, 5000, 1, 4)],
)
def test_products_alone_decide_where_the_rest_of_a_program_does_not_matter(pays, rows, columns, terms):
    assert calls_pay([("f64", (rows, columns, terms))]) is pays
