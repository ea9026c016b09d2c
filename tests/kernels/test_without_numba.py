"""Nothing of the rule table or of the library of routines needs numba on the backend `cpu`.

Each is compiled for both types of floats, as a value and to second derivatives, and beside a reduction that
runs in parallel; meanwhile numba cannot make kernels. Most cases of a primitive are slow tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.ops.library import LIBRARY
from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.table import TABLE
from adcompiler.targets.cpu import compiled as cpu

FLOATS = (np.float64, np.float32)
LONG = 100_000  # elements of a reduction that runs in parallel


@pytest.fixture(autouse=True)
def _no_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str) -> Any:
        raise AssertionError(f"numba is asked to compile\n{source}")

    monkeypatch.setattr(cpu, "_loaded", refuse)


def text_of(entry: Primitive) -> tuple[str, tuple[str, ...]]:
    """A call of a primitive, and its arguments; an order is 2."""
    if entry.orders is None:
        return f"{entry.name}({', '.join(entry.params)})", entry.params
    names = entry.params[1:]
    return f"{entry.name}(2, {', '.join(names)})", names


def arguments(entry: Primitive, dtype: Any) -> list[np.ndarray]:
    """Numbers of the domain of each argument."""
    if entry.kind == "integer":
        return [np.arange(1, 5)] * len(entry.params)
    if entry.kind == "logical":
        return [np.array([True, False, True, True])] * len(entry.params)
    domain = entry.domain[entry.orders is not None :]
    return [np.linspace(*parts[-1], 4).astype(dtype) for parts in domain]


def near(found: Any, expected: Any, dtype: Any) -> None:
    """The results are those of the interpreter."""
    for a, b in zip(flat(found), flat(expected), strict=True):
        scale = max(1, np.max(np.abs(b), initial=0))
        np.testing.assert_allclose(a, b, rtol=0, atol=scale * (2e-3 if dtype == np.float32 else 1e-9))


def flat(tree: Any) -> Iterator[Any]:
    if isinstance(tree, tuple | list):
        for part in tree:
            yield from flat(part)
    else:
        yield tree


GROUPS = [[*TABLE][k : k + 8] for k in range(0, len(TABLE), 8)]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_every_primitive(group: list[str], dtype: Any) -> None:
    """Several in one program, each of arguments of its own."""
    texts, params, args = [], [], []
    for k, entry in enumerate(TABLE[name] for name in group):
        text, names = text_of(entry)
        own = [f"{name}_{k}" for name in names]
        texts.append(f"{text.partition('(')[0]}({'2, ' * (entry.orders is not None)}{', '.join(own)})")
        params += own
        args += arguments(entry, dtype)
    source = f"def f({', '.join(params)}):\n    return {', '.join(texts)}"
    f, reference = (adc.compile(source, backend=b) for b in ("cpu", "numpy"))
    near(f(*args), reference(*args), dtype)
    near(f(*(x[0] for x in args)), reference(*(x[0] for x in args)), dtype)


SMOOTH = [name for name, e in TABLE.items() if e.differentiable and e.kind not in ("integer", "logical")]
WAYS = list(product(FLOATS, (adc.grad, adc.hessian)))


@pytest.mark.thinned(4)
@pytest.mark.slow_when(lambda name, dtype, transform: (dtype, transform) != WAYS[SMOOTH.index(name) % 4])
@pytest.mark.parametrize("transform", [adc.grad, adc.hessian])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_every_primitive(name: str, dtype: Any, transform: Any) -> None:
    text, names = text_of(TABLE[name])
    args = arguments(TABLE[name], dtype)
    f, reference = (adc.compile(f"sum({text})", args=", ".join(names), backend=b) for b in ("cpu", "numpy"))
    near(transform(f)(*args), transform(reference)(*args), dtype)


# For each routine a program that calls it, or one that a derivative of does.
ROUTINES = {
    "lu": "sum(inv(a))",
    "solve": "sum(solve(a, b)**2)",
    "solve_transposed": "sum(solve(a.T, b)**2)",
    "triangular": "sum(solve_triangular(a, b, lower=True)**2)",
    "triangular_transposed": "sum(solve_triangular(a.T, b)**2)",
    "det": "det(a)",
    "pivoted": "2 * det(a)",
    "cofactors": "det(a)**2",
    "cofactors_along": "det(a)**3",
    "slogdet": "slogdet(a)[1]",
    "cholesky": "sum(cholesky(a)**3)",
    "argsort": "sum(sort(b, axis=0)**3 * b)",
    "search_left": "sum(where(searchsorted(sort(b[:, 0]), b) > 1, b**2, b**3))",
    "search_right": "sum(where(searchsorted(sort(b[:, 0]), b, side='right') > 1, b**2, b**3))",
    "eigh": "sum(eigvalsh(a)**3)",
    "eigh_values": "sum(sqrt(eigh(a)[0]))",
    "eigh_vectors": "sum(eigh(a)[1]**3)",
    "qr": "sum(qr(a)[0]**2)",
    "qr_columns": "sum(qr(a)[0]**3)",
    "qr_triangle": "sum(qr(a, mode='r')**3)",
    "pseudoinverse": "sum(lstsq(a, b)[0]**2)",
    "pinv": "sum(pinv(a)**3)",
    "svd": "sum(svd(a, compute_uv=False)**3)",
    "svd_values": "sum(svd(a, full_matrices=False)[1]**2)",
    "svd_left": "sum(svd(a, full_matrices=False)[0]**3)",
    "svd_right": "sum(svd(a, full_matrices=False)[2]**3)",
}
KINDS = [(np.float64, (0, 4)), (np.float32, (0, 4)), (np.float64, (1,))]  # each routine is of one in CI
PRODUCTS = {"matmul": "a @ b", "matmul_nt": "a @ b.T", "matmul_tn": "a.T @ b"}


def test_every_routine_has_a_program() -> None:
    assert {*ROUTINES, *PRODUCTS} == set(LIBRARY)
    for name, source in ROUTINES.items():
        f = adc.compile(source, args="a, b", backend="numpy")
        derived = (f, adc.grad(f), *([adc.hessian(f)] if name.endswith("_along") else []))
        texts = [g.show("ir", *matrices(4, np.float64)) for g in derived]
        assert any(f"call {name}(" in text for text in texts), name


def matrices(n: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    a = rng.normal(size=(n, n)) / np.sqrt(n)
    return (a @ a.T + 2 * np.eye(n)).astype(dtype), rng.normal(size=(n, 3)).astype(dtype)


@pytest.mark.slow_when(lambda name: name != "solve")
@pytest.mark.slow_when(lambda dtype, lengths: dtype is np.float32 or lengths == (1,))
@pytest.mark.parametrize("lengths", [(1,), (0, 4)], ids=str)  # a length of 1 is a program of its own
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ROUTINES)
def test_every_routine_and_its_second_derivatives(name: str, dtype: Any, lengths: tuple[int, ...]) -> None:
    f, reference = (adc.compile(ROUTINES[name], args="a, b", backend=b) for b in ("cpu", "numpy"))
    f, reference = adc.hessian(f), adc.hessian(reference)
    for args in (matrices(n, dtype) for n in lengths):
        near(f(*args), reference(*args), dtype)


@pytest.mark.thinned(4)
@pytest.mark.slow_when(lambda name, dtype, lengths: (dtype, lengths) != KINDS[[*ROUTINES].index(name) % 3])
@pytest.mark.parametrize("lengths", [(1,), (0, 4)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ROUTINES)
def test_every_routine_and_its_gradient(name: str, dtype: Any, lengths: tuple[int, ...]) -> None:
    f, reference = (adc.compile(ROUTINES[name], args="a, b", backend=b) for b in ("cpu", "numpy"))
    for args in (matrices(n, dtype) for n in lengths):
        for how in (lambda g: g, adc.grad):
            near(how(f)(*args), how(reference)(*args), dtype)


@pytest.mark.slow_when(lambda name: name not in [*ROUTINES][::4])
@pytest.mark.parametrize("name", ROUTINES)
def test_every_routine_takes_arrays_of_any_layout(name: str) -> None:
    f, reference = (adc.compile(ROUTINES[name], args="a, b", backend=b) for b in ("cpu", "numpy"))
    a, b = matrices(4, np.float64)
    wide = np.zeros((4, 9))
    wide[:, ::3] = b
    near(f(np.asfortranarray(a), wide[:, ::3]), reference(a, b), np.float64)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_calls_of_blas(name: str, dtype: Any) -> None:
    n = 260  # large enough for a call
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(n, n)).astype(dtype) for _ in range(2))
    f = adc.compile(f"exp({PRODUCTS[name]} / 100)", args="a, b")
    expected = np.exp(eval(PRODUCTS[name]) / 100)  # our own text
    for x, y in ((a, b), (np.asfortranarray(a), b), (a[:, ::-1][:, ::-1], b)):
        near(f(x, y), expected, dtype)


# Functions that no instruction and no function of the C library's vectors computes.
OWN = [
    name
    for name, e in TABLE.items()
    if e.differentiable and any(m in e.kernel for m in ("series.", "bessel.", "incomplete.", "gamma"))
]


@pytest.mark.thinned(2)
@pytest.mark.slow_when(lambda name: name in OWN and name not in OWN[::8])
@pytest.mark.parametrize("name", [*OWN, "floor_divide", "remainder"])
def test_beside_a_long_reduction_in_parallel(name: str) -> None:
    text, names = text_of(TABLE[name])
    source = f"logsumexp(v) + {text} + max(v) * sum(v * {text})"
    args = [np.linspace(0, 1, LONG), *(float(x[1]) for x in arguments(TABLE[name], np.float64))]
    params = ", ".join(("v", *names))
    f, reference = (adc.compile(source, args=params, backend=b) for b in ("cpu", "numpy"))
    near(f(*args), reference(*args), np.float64)
    near(adc.grad(f)(*args), adc.grad(reference)(*args), np.float64)


ALONE = """
import sys
sys.modules["numba"] = None  # whoever imports it fails
import numpy as np
import adcompiler as adc
source = "sum(lgamma(x + 1) + x ** 1.5) + slogdet(a)[1] + sum(cholesky(a)) + sum(exp(v) // 0.7)"
f = adc.compile(source, args="x, a, v")
print(*adc.grad(f, ("x", "a"))(np.ones(3), 2 * np.eye(2), np.linspace(0, 1, 300_000))[1].ravel())
"""


def test_a_process_without_numba() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    root = 0.5 / np.sqrt(2)  # of the derivative of a Cholesky factor's diagonal
    assert np.allclose(np.array(done.stdout.split(), float)[[0, 3]], 0.5 + root)
