"""`adc.dask`: functions and their derivatives on chunked arrays equal those on one machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interop.dask.cases import (
    X,
    assert_near,
    bits,
    chunked,
    computed,
    interpreted,
    labels,
    matrices,
    places,
    rng,
    sides,
    w,
    x,
)

import adcompiler as adc

dask = pytest.importorskip("dask", reason="needs dask[array]")
da = pytest.importorskip("dask.array", reason="needs dask[array]")

# A source, its arguments (arrays of 33 rows come in chunks of 7), and how often the data is read.
DECOMPOSE = {
    "mean": ("def f(x, m, t):\n    return mean((x - m)**2) * exp(t)", (x, 0.5, 0.1), 1),
    "outer": ("def f(x, m, t):\n    return log(mean((x - m)**2)) * exp(t)", (x, 0.5, 0.1), 2),
    "logistic": ("def f(X, w, y):\n    return mean(log(1 + exp(-y * (X @ w))))", (X, w, labels), 1),
    "max": ("def f(x, a):\n    return max(a * x)", (x, 2.0), 3),
    "max of sums": ("def f(X, w):\n    return max(X @ w)**2", (X, w), 2),
    "min and max": ("def f(x, a):\n    return max(a * x) - min(a * x)", (x, 2.0), 3),
    "logsumexp": ("def f(x, a):\n    return logsumexp(a * x)", (x, 2.0), 2),
    "standardise": ("def f(x, a):\n    return sum(((x - mean(x)) / std(x))**3) * a", (x, 0.5), 6),
    "pairs": (
        "def f(x, e):\n    return sum(e / (1 + (x[i] - x[j])**2) for i in range(len(x)) for j in range(i))",
        (x, 2.0),
        1,
    ),
    "outer product": ("def f(x, y):\n    return sum(exp(-(x[:, None] - y)**2))", (x, x[:20]), 1),
    "loop that is a sum": (
        "def f(x, a):\n    s = 0.0\n    for i in range(len(x)):\n        s = s + sin(a * x[i])\n    return s",
        (x, 2.0),
        1,
    ),
    "loop over whole arrays": (
        "def f(x, a):\n    t = x\n    b = 1.0\n    for i in range(40):\n        t = t - a * b * (t * t - x)\n"
        "        b = b * 0.9 + a * 0.01\n    return sum(t)",
        (x, 0.2),
        1,
    ),
    "loop over columns": (
        "def f(X, a):\n    s = 0.0\n    for i in range(len(a)):\n        s = s + sum((X[:, i] - a[i])**2)\n"
        "    return s",
        (X, w),
        1,
    ),
    "gather from a whole array": (
        "def f(x, w, k: i64[n]):\n    return sum(x * w[k])**2",
        (x, w, places),
        2,
    ),
    "position": ("def f(x, a):\n    return sum(sin(a * i) * x[i] for i in range(len(x)))", (x, 0.5), 1),
    "condition": ("def f(x, a):\n    return sum(where(x > a, sqrt(x - a), 0.0))", (x, 0.5), 1),
    "normal equations": ("def f(X, w):\n    return sum(solve(X.T @ X / len(X), w)**2)", (X, w), 2),
    "batch of systems": (
        "def f(A, b):\n    return sum(solve(A + 3.0 * eye(3), b)**2)",
        (matrices, sides),
        1,
    ),
}


@pytest.mark.parametrize(("source", "args"), [case[:2] for case in DECOMPOSE.values()], ids=DECOMPOSE)
def test_values_and_gradients_are_those_of_one_machine(source, args):
    f = adc.compile(source)
    assert_near(computed(adc.dask.value_and_grad(f)(*chunked(args))), adc.value_and_grad(f)(*args))


@pytest.mark.parametrize(("source", "args"), [case[:2] for case in DECOMPOSE.values()], ids=DECOMPOSE)
def test_products_with_the_hessian_too(source, args):
    f = interpreted(source)
    along = [rng.standard_normal(np.shape(a)) for a in args if np.asarray(a).dtype.kind == "f"]
    found = computed(adc.dask.hvp(f)(tuple(chunked(args)), tuple(chunked(along))))
    assert_near(found, adc.hvp(f)(args, tuple(along)))


def test_derivatives_of_derivatives_are_functions_as_any_other():
    f = interpreted("def f(x, a):\n    return log(sum(exp(a * x)))")
    third = adc.grad(adc.grad(adc.grad(f, "a"), "a"), "a")
    assert_near(computed(adc.dask.blockwise(third)(*chunked((x, 0.7)))), third(x, 0.7))
    assert_near(
        computed(adc.dask.grad(adc.grad(f, "a"))(*chunked((x, 0.7)))), adc.grad(adc.grad(f, "a"))(x, 0.7)
    )


@pytest.mark.parametrize("name", ["mean", "logistic", "max", "logsumexp", "pairs", "loop over whole arrays"])
def test_float32_stays_float32(name):
    source, args, _ = DECOMPOSE[name]
    single = [np.float32(a) for a in args]
    found = computed(adc.dask.value_and_grad(adc.compile(source))(*chunked(single)))
    assert_near(found, adc.value_and_grad(adc.compile(source))(*single), np.float32)


@pytest.mark.parametrize("chunks", [(33,), (1,) * 33, (32, 1), (0, 20, 0, 13), (5, 28)])
def test_chunks_of_any_lengths(chunks):
    f = interpreted(
        "def f(x, a):\n    return max(x) * log(mean((x - a)**2)) + sum(x[i] * i for i in range(len(x)))"
    )
    found = computed(adc.dask.value_and_grad(f)(da.from_array(x, (chunks,)), 0.3))
    assert_near(found, adc.value_and_grad(f)(x, 0.3))


@pytest.mark.parametrize("chunks", [(7, 2), (33, 1), (10, 3)])
def test_chunks_along_several_axes(chunks):
    f = interpreted("def f(X, w, y):\n    return sqrt(sum((X @ w - y)**2)) + max(X @ w)")
    found = computed(adc.dask.value_and_grad(f)(da.from_array(X, chunks), w, y=x))
    assert_near(found, adc.value_and_grad(f)(X, w, x))


def test_no_elements_at_all():
    f = interpreted("def f(x, a):\n    return sum(exp(a * x))")
    value, (dx, da_) = computed(adc.dask.value_and_grad(f)(da.zeros(0, chunks=3), 2.0))
    assert (value, dx.shape, da_) == (0.0, (0,), 0.0)


def test_elementwise_results_come_in_the_chunks_of_the_arguments():
    f = interpreted("def f(x, y, a):\n    return exp(-a * x) * y, sum(x * y), x")
    lazy = da.from_array(x, 7)
    product, total, same = adc.dask.blockwise(f)(lazy, da.from_array(x, 10), 0.5)
    assert product.chunks == ((7, 3, 4, 6, 1, 7, 2, 3),)  # those of both arguments
    assert total.shape == ()
    assert_near(computed((product, total, same)), f(x, x, 0.5))


def test_arguments_of_numpy_are_cut_where_others_are():
    f = interpreted("def f(X, y, w):\n    return sum((X @ w - y)**2)")
    lazy = adc.dask.value_and_grad(f)(da.from_array(X, (7, 3)), x, w)
    assert lazy[1][1].chunks == ((7, 7, 7, 7, 5),)
    assert_near(computed(lazy), adc.value_and_grad(f)(X, x, w))


def test_parameters_in_containers():
    f = interpreted("def f(p, X, y):\n    return mean((tanh(X @ p['w'] + p['b'])[:] - y)**2)")
    p = {"w": w, "b": 0.1}
    value, grads = computed(adc.dask.value_and_grad(f, "p")(p, *chunked((X, x))))
    expected, wanted = adc.value_and_grad(f, "p")(p, X, x)
    assert_near((value, grads["w"], grads["b"]), (expected, wanted["w"], wanted["b"]))


def test_results_are_arguments_of_the_next_call():
    """Three steps of gradient descent as one graph."""
    f = interpreted("def f(X, y, w):\n    return mean((X @ w - y)**2)")
    lazy, here = da.zeros(3), np.zeros(3)
    for _ in range(3):
        lazy = lazy - 0.1 * adc.dask.grad(f, "w")(*chunked((X, x)), lazy)
        here = here - 0.1 * adc.grad(f, "w")(X, x, here)
    assert_near(computed(lazy), here)


# -- passes over the data -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["logistic", "outer", "max", "max of sums", "standardise", "pairs"])
@pytest.mark.parametrize("keep", [False, True])
def test_the_data_is_read_as_often_as_there_are_passes(name, keep):
    source, args, passes = DECOMPOSE[name]
    read = []

    def block(block_info: Any = None) -> np.ndarray:
        read.append(block_info[None]["chunk-location"])
        lo, hi = block_info[None]["array-location"][0]
        return args[0][lo:hi]

    rest = [(7,) * 4 + (5,), *((n,) for n in args[0].shape[1:])]
    lazy = da.map_blocks(block, chunks=tuple(map(tuple, rest)), dtype=float, meta=args[0][:0])
    computed(adc.dask.value_and_grad(interpreted(source), keep=keep)(lazy, *chunked(args[1:])))
    assert len(read) == 5 * (1 if keep else passes)


@pytest.mark.parametrize(
    "derived",
    [
        lambda made: made.rechunk(5),
        lambda made: da.concatenate([made[3:], made[:3]]),
        lambda made: made - made.mean(),
        lambda made: da.stack([made, made], axis=1).sum(axis=1),
        lambda made: da.from_array(x, 33).rechunk(5),
    ],
    ids=["rechunked", "slices", "centred", "stacked", "in memory"],
)
def test_whatever_graph_the_data_comes_from_is_read_again(derived):
    f = interpreted("def f(x, y, a):\n    return log(sum(exp(a * x))) * max(x * y)")
    made = da.from_array(x, 7).map_blocks(np.sin)
    lazy, here = derived(made), computed(derived(made))
    found = computed(adc.dask.value_and_grad(f)(lazy, da.from_array(x, 10), 0.7))
    assert_near(found, adc.value_and_grad(f)(here, x, 0.7))


def test_what_is_compared_with_itself_at_two_points_is_one_value():
    """Sums X @ w of two blocks are rounded alike, so each is no less than itself."""
    f = adc.compile(
        "def f(X, w):\n    s = X @ w\n"
        "    return sum(where(s[i] >= s[j], 1.0, 0.0) for i in range(len(s)) for j in range(len(s)))"
    )
    wide = np.random.default_rng(0).standard_normal((40, 50))
    found = computed(f(da.from_array(wide, (7, 50)), np.cos(np.arange(50.0))))
    assert found == 40 * 41 / 2


def test_a_call_computes_nothing():
    def never(block: np.ndarray) -> np.ndarray:
        raise AssertionError("computed")

    lazy = da.zeros(10, chunks=5).map_blocks(never, meta=np.zeros(0))
    f = interpreted("def f(x, a):\n    return sum(exp(a * x))")
    value, grads = adc.dask.value_and_grad(f)(lazy, 2.0)
    assert (value.shape, value.dtype, grads[0].chunks) == ((), np.float64, lazy.chunks)
    with pytest.raises(AssertionError, match="computed"):
        computed(value)


# -- bits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["outer", "logistic", "max of sums", "logsumexp", "pairs"])
def test_threads_do_not_change_bits(name):
    source, args, _ = DECOMPOSE[name]
    lazy = adc.dask.value_and_grad(adc.compile(source))(*chunked(args, 2))
    one, four = (dask.compute(lazy, scheduler="threads", num_workers=n)[0] for n in (1, 4))
    assert bits(one) == bits(four)


def test_layout_of_blocks_does_not_change_bits():
    f = adc.value_and_grad(adc.compile("def f(X, w):\n    return sum(exp(X @ w))"))
    found = [computed(adc.dask.blockwise(f)(da.from_array(a, (11, 3)), w)) for a in (X, np.asfortranarray(X))]
    assert bits(found[0]) == bits(found[1])


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def f(x):\n    return sum((x[1:] - x[:-1])**2)", "gather across chunks.*x.rechunk"),
        ("def f(x):\n    return sum(x * x[::-1])", "gather across chunks.*x.rechunk"),
        ("def f(x):\n    return x[0] * sum(x)", "gather across chunks.*as another argument"),
        (
            "def f(x):\n    s = 0.0\n    for i in range(len(x)):\n        s = s + max(x * s)\n    return s",
            "reads more than its own row.*x.rechunk",
        ),
        (
            "def f(x):\n    a = 1.0\n    while a > 0.1:\n        a = a * mean(sin(a * x))\n    return a",
            "branch on a sum over chunks.*run this loop in Python",
        ),
        (
            "def f(x):\n    a = 0.0\n    for i in range(101):\n        a += sum(tanh(a - x))\n    return a",
            "101 passes over the data.*run this loop in Python",
        ),
    ],
)
def test_what_does_not_decompose_is_refused_with_a_remedy(source, why):
    f = interpreted(source)
    with pytest.raises(adc.LimitError, match=f"(?s){why}"):
        adc.dask.value_and_grad(f)(da.from_array(x, 7))
    whole = da.from_array(x, 33)  # what the remedy says
    assert_near(computed(adc.dask.value_and_grad(f)(whole)), adc.value_and_grad(f)(x))


def test_a_matrix_in_chunks_is_not_solved():
    f = interpreted("def f(A, b):\n    return sum(solve(A, b))")
    with pytest.raises(adc.LimitError, match=r"solve.* of a chunked matrix"):
        adc.dask.value_and_grad(f)(da.eye(8, chunks=4), np.ones(8))


def test_lengths_that_do_not_fit_are_refused_at_the_call():
    f = interpreted("def f(x, y):\n    return sum(x * y)")
    with pytest.raises(adc.ShapeError, match="lengths"):
        adc.dask.value_and_grad(f)(da.zeros(10, chunks=5), da.zeros(11, chunks=5))


def test_chunks_of_unknown_lengths_are_refused():
    lazy = da.from_array(x, 7)
    f = interpreted("def f(x):\n    return sum(x**2)")
    unknown = lazy[lazy > 0.5]
    with pytest.raises(adc.ShapeError, match="compute_chunk_sizes"):
        adc.dask.value_and_grad(f)(unknown)
    known = unknown.compute_chunk_sizes()
    assert_near(computed(adc.dask.value_and_grad(f)(known)), adc.value_and_grad(f)(x[x > 0.5]))


def test_lengths_follow_from_numbers_but_not_from_lazy_ones():
    f = interpreted("def f(x, n: i64):\n    return sum(x**k for k in range(n))")
    lazy = da.from_array(x, 7)
    assert_near(computed(adc.dask.blockwise(f)(lazy, 3)), f(x, 3))
    with pytest.raises(adc.LimitError, match="a length depends on integers in a Dask array"):
        adc.dask.blockwise(f)(lazy, da.asarray(3))


def test_an_index_out_of_range_raises_when_it_is_computed():
    f = interpreted("def f(x, w, k: i64[n]):\n    return sum(x * w[k])")
    wrong = places.copy()
    wrong[20] = 3
    value, (dx, dw, *_) = adc.dask.value_and_grad(f)(*chunked((x, w, wrong)))
    for lazy in (value, dx, dw):
        with pytest.raises(adc.OutOfRangeError, match="index is out of range"):
            computed(lazy)


def test_complex_numbers_and_plain_functions_are_refused():
    f = interpreted("def f(x):\n    return sum(x)")
    with pytest.raises(adc.DtypeError, match="complex"):
        adc.dask.value_and_grad(f)(da.zeros(4, dtype=complex, chunks=2))
    with pytest.raises(adc.DtypeError, match="compile it"):
        adc.dask.value_and_grad(np.sum)


def test_without_dask_a_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dask.array", None)
    with pytest.raises(adc.Error, match=r"pip install .*\[dask\]"):
        adc.dask.value_and_grad(interpreted("x**2"))(1.0)


def test_a_study_without_a_client_says_how_to_make_one():
    pytest.importorskip("distributed", reason="needs dask[distributed]")
    with pytest.raises(adc.Error, match=r"distributed.Client\(\)"):
        adc.dask.map(interpreted("x**2"), np.ones(3))


def test_a_function_that_is_called_with_dask_arrays_is_lazy():
    f = interpreted("def f(x, a):\n    return log(sum(exp(a * x)))")
    lazy = adc.value_and_grad(f)(da.from_array(x, 7), 0.7)
    assert isinstance(lazy[0], da.Array)
    assert_near(computed(lazy), adc.value_and_grad(f)(x, 0.7))
    with pytest.raises(adc.Error, match=r"Dask array, which has no values yet(?s:.*)adc\.dask.*vjp, jvp"):
        adc.vjp(f, da.from_array(x, 7), 0.7)
