"""Series and DataFrames as arguments: what has the shape of an argument comes back with its labels."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import adcompiler as adc

pd = pytest.importorskip("pandas", reason="pandas is not installed")

loss = adc.compile("sum((y - X @ w)**2)", name="loss", args="w, X, y")
predict = adc.compile("X @ w", name="predict", args="w, X")


def given(dtype="float64", rows=5):
    """Weights, samples and targets: an index for the rows and one for the columns."""
    random = np.random.default_rng(0)
    index, columns = pd.Index([f"sample {k}" for k in range(rows)]), pd.Index(["a", "b", "c"])
    x = pd.DataFrame(random.normal(size=(rows, 3)), index, columns).astype(dtype)
    y = pd.Series(random.normal(size=rows), index, name="target").astype(dtype)
    return pd.Series([1.0, -2.0, 0.5], columns, name="weight").astype(dtype), x, y


def numbers(args):
    return [a.to_numpy() for a in args]


def weights(result, w, x, y):
    return pd.Series(result, w.index, name="weight")


# What is computed of (w, X, y), and what the result is made of NumPy's.
CASES = {
    "value": (lambda *a: loss(*a), lambda r, w, x, y: r),
    "by name": (lambda w, x, y: predict(X=x, w=w), lambda r, w, x, y: pd.Series(r, x.index)),
    "grad": (lambda *a: adc.grad(loss, "w")(*a), weights),
    "grad by a frame": (
        lambda *a: adc.grad(loss, "X")(*a), lambda r, w, x, y: pd.DataFrame(r, x.index, x.columns)
    ),
    "value_and_grad": (
        lambda *a: adc.value_and_grad(loss, ("w",))(*a)[1][0], weights
    ),
    "vjp": (
        lambda w, x, y: adc.vjp(predict, w, x)[1](y)[0], weights
    ),
    "vjp's value": (lambda w, x, y: adc.vjp(predict, w, x)[0], lambda r, w, x, y: pd.Series(r, x.index)),
    "jvp": (lambda w, x, y: adc.jvp(predict, (w, x), (w, None))[1], lambda r, w, x, y: pd.Series(r, x.index)),
    "jacobian": (
        lambda w, x, y: adc.jacobian(predict, "w")(w, x), lambda r, w, x, y: pd.DataFrame(r, x.index, w.index)
    ),
    "hessian": (
        lambda *a: adc.hessian(loss, "w")(*a), lambda r, w, x, y: pd.DataFrame(r, w.index, w.index)
    ),
    "hvp": (
        lambda *a: adc.hvp(loss, "w")(a, a[0]), weights
    ),
    "vmap": (
        lambda w, x, y: adc.vmap(adc.compile("sum(r * r)", args="r"))(x),
        lambda r, w, x, y: pd.Series(r, x.index),
    ),
    "taylor": (
        lambda w, x, y: adc.taylor(predict, (w, x), (w, x), 2)[2], lambda r, w, x, y: pd.Series(r, x.index)
    ),
    "jacobian of grad": (
        lambda w, x, y: adc.jacobian(adc.grad(adc.compile("sum(w**4)", args="w")))(w),
        lambda r, w, x, y: pd.DataFrame(r, w.index, w.index),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_arrays_with_labels(case, dtype):
    compute, labelled = CASES[case]
    args = given(dtype)
    found, expected = compute(*args), labelled(compute(*numbers(args)), *args)
    assert type(found) is type(expected)
    if isinstance(found, pd.Series):
        pd.testing.assert_series_equal(found, expected)
    elif isinstance(found, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected)
    else:
        assert found == expected


def test_blocks_of_more_axes_than_two_are_arrays():
    w, x, _ = given()
    assert type(adc.jacobian(predict, "X")(w, x)) is np.ndarray


def test_rows_without_samples():
    w, x, y = given(rows=0)
    assert loss(w, x, y) == 0
    assert predict(w, x).index.equals(x.index)
    pd.testing.assert_series_equal(adc.grad(loss, "w")(w, x, y), 0 * w)


def test_a_series_of_one():
    s = pd.Series([2.0], index=["only"], name="s")
    pd.testing.assert_series_equal(adc.compile("x * x")(s), s * s)
    pd.testing.assert_series_equal(adc.grad(adc.compile("sum(x * x)"))(s), 2 * s)


def test_numbers_are_not_copied():
    w, x, _ = given()
    from adcompiler.runtime.arguments.signature import describe

    assert np.shares_memory(describe(predict._parameters[0], w)[1], w.to_numpy())
    assert np.shares_memory(describe(predict._parameters[1], x)[1], x.to_numpy())


# -- labels that do not fit ----------

REFUSED = {
    "another order": lambda w, x, y: loss(w, x, y[::-1]),
    "another label": lambda w, x, y: loss(w, x, y.rename({"sample 0": "sample 9"})),
    "a default index": lambda w, x, y: loss(w, x, y.reset_index(drop=True)),
    "columns": lambda w, x, y: loss(w[["c", "b", "a"]], x, y),
    "of no one type": lambda w, x, y: loss(w, x, y.set_axis([1, "b", None, 2.0, "e"])),
    "in a derivative": lambda w, x, y: adc.hessian(loss)(w, x, y[::-1]),
    "a cotangent": lambda w, x, y: adc.vjp(predict, w, x)[1](y[::-1]),
    "a tangent": lambda w, x, y: adc.jvp(predict, (w, x), (w[::-1], None)),
    "a vector of hvp": lambda w, x, y: adc.hvp(loss, "w")((w, x, y), w[::-1]),
    "vjp": lambda w, x, y: adc.vjp(loss, w, x, y[::-1]),
    "into": lambda w, x, y: predict.into(np.empty(5), w[::-1], x),
    "split": lambda w, x, y: loss.split().forward(w, x, y[::-1]),
    "sparse": lambda w, x, y: adc.jacobian(predict, sparse=True)(w[::-1], x),
    "backward": lambda w, x, y: predict.backward(w[::-1], x, np.ones(5)),
    "beside a Variable": lambda w, x, y: loss(adc.Variable(w), x, y[::-1]),
    "in a container": lambda w, x, y: adc.compile("sum(p['a'] * p['b'])", args="p")({"a": y, "b": y[::-1]}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_labels_that_differ_where_axes_meet_are_refused(case):
    with pytest.raises(adc.ShapeError, match=r"labels|the result"):
        REFUSED[case](*given())


def test_the_message_says_which_and_what_to_write():
    w, x, y = given()
    with pytest.raises(adc.ShapeError) as caught:
        loss(w, x, y[::-1])
    assert "axis 0 of X with axis 0 of y element by element" in str(caught.value)
    assert "y = y.reindex(X.index), or pass y.to_numpy()" in str(caught.value)
    assert loss(w, x, y[::-1].reindex(x.index)) == loss(w, x, y)
    assert loss(w, x, y.to_numpy()[::-1]) == loss(*numbers((w, x, y[::-1])))


PAIRED = [
    "a * b",
    "where(a > 2.0, a, b)",
    "a[1:] * b[1:]",
    "a[::-1] * b[::-1]",
    "cumsum(a) * b",
    "cumsum(a[1:]) + cumsum(b[1:])",
    "[a[i] * b[i] for i in range(len(a))]",
    "sum(a[i] * b[i] for i in range(1, len(a)))",
    "sum(p * q for p, q in zip(a, b))",
    "def f(a: f64[3], b: f64[3]):\n    return sum(a * b)",
    "def f(a, b):\n    t = 0.0\n    for i in range(len(a)):\n        t = sin(t) + a[i] * b[i]\n    return t",
    "def f(a, b):\n    t = 0.0\n    for i in range(len(a) - 1):\n        t = sin(t) + a[i + 1] * b[i + 1]\n"
    "    return t",
    "def f(a, b):\n    for _ in range(3):\n        a = a + sin(a * b)\n    return a",
]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("text", PAIRED)
@pytest.mark.parametrize("derive", [lambda f: f, adc.jacobian], ids=["value", "derivative"])
def test_rows_of_different_labels_are_never_combined_however_a_program_counts(text, derive):
    f = derive(adc.compile(text, args=None if text.startswith("def") else "a, b"))
    a, b = pd.Series([1.0, 2.0, 4.0], list("abc")), pd.Series([3.0, 1.0, 5.0], list("cab"))
    f(a, b.to_numpy())
    f(a, b.set_axis(a.index))
    with pytest.raises(adc.ShapeError, match=r"pairs axis 0 of a with axis 0 of b .* in another order"):
        f(a, b)


@pytest.mark.parametrize(
    "text",
    ["a[1:] * b[:-1]", "concatenate([a, b])", "max(a) * b", "outer(a, b)", "a[::-1] * b", "sum(a) + sum(b)"],
)
def test_what_is_not_read_at_one_index_needs_no_equal_labels(text):
    f = adc.compile(text, args="a, b")
    a, b = pd.Series([1.0, 2.0, 4.0], list("abc")), pd.Series([3.0, 1.0, 5.0], list("cab"))
    np.testing.assert_array_equal(f(a, b), f(a.to_numpy(), b.to_numpy()))


def test_a_label_alone_is_not_broadcast():
    one, other, b = pd.Series([2.0], ["x"]), pd.Series([3.0], ["y"]), pd.Series([1.0, 2.0], ["x", "y"])
    product = adc.compile("a * b")
    for pair in ((one, b), (b, one)):
        with pytest.raises(adc.ShapeError, match="'x' only: no broadcasting"):
            product(*pair)
    with pytest.raises(adc.ShapeError, match="labels differ"):
        product(one, other)
    pd.testing.assert_series_equal(product(one.to_numpy(), b), 2 * b)
    pd.testing.assert_series_equal(product(one, one), one * one)
    assert type(product(one, b.to_numpy())) is np.ndarray


def test_of_a_longer_index_the_labels_that_are_paired_count():
    steps = adc.compile("sum(w[i] * (x[i + 1] - x[i]) for i in range(len(w)))", args="w, x")
    w, x = pd.Series([1.0, 2.0], ["a", "b"]), pd.Series([0.0, 1.0, 3.0], ["a", "b", "end"])
    assert steps(w, x) == 5.0
    with pytest.raises(adc.ShapeError, match="labels differ"):
        steps(w, x.set_axis(["a", "c", "end"]))


def test_labels_of_axes_that_do_not_meet_are_free():
    a, b = pd.Series([1.0, 2.0], ["p", "q"]), pd.Series([3.0, 4.0, 5.0], ["u", "v", "w"])
    outer = adc.compile("[a[i] * b[j] for i in range(len(a)) for j in range(len(b))]", args="a, b")
    expected = pd.DataFrame(np.multiply.outer(a.to_numpy(), b.to_numpy()), a.index, b.index)
    found = outer(a, b)
    assert isinstance(found, pd.DataFrame | np.ndarray)
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize(
    "text", ["x[::-1]", "concatenate([x[1:], x[:1]])", "[x[n - 1 - i] for i in range(n)]"]
)
def test_what_was_moved_has_no_labels_but_its_gradient_does(text):
    source = f"def f(x: f64[n]):\n    return {text}\n"
    w = given()[0]
    f = adc.compile(source)
    assert type(f(w)) is np.ndarray
    pulled = adc.vjp(f, w)[1](np.array([1.0, 2.0, 3.0]))[0]
    expected = adc.vjp(f, w.to_numpy())[1](np.array([1.0, 2.0, 3.0]))[0]
    pd.testing.assert_series_equal(pulled, pd.Series(expected, w.index, name="weight"))


def test_a_gather_has_the_labels_of_its_indices():
    observed = pd.Series([2, 0, 2, 1], index=["t0", "t1", "t2", "t3"])
    found = adc.compile("w[k]", args="w, k")(given()[0], observed)
    pd.testing.assert_series_equal(found, pd.Series([0.5, 1.0, 0.5, -2.0], observed.index))


def test_running_sums_and_loops_keep_labels():
    w, _, y = given()
    pd.testing.assert_series_equal(adc.compile("cumsum(x)")(y), y.cumsum())
    steps = adc.compile("""
def steps(x):
    for _ in range(3):
        x = x - 0.1 * sin(x)
    return x
""")
    assert steps(w).index.equals(w.index)


# -- containers, Variables, pickles ----------


def test_a_frame_as_a_dict_of_columns():
    f = adc.compile("sum(t['a'] * t['b'])", args="t")
    _, x, _ = given()
    found = adc.grad(f)(dict(x))
    pd.testing.assert_series_equal(found["a"], x["b"].rename("a"))
    pd.testing.assert_series_equal(found["c"], 0 * x["c"])


def test_beside_a_variable_series_are_constants():
    w, x, y = given()
    v = adc.Variable(w, requires_grad=True)
    loss(v, x, y).backward()
    np.testing.assert_array_equal(v.grad.value, adc.grad(loss, "w")(*numbers((w, x, y))))


def test_pullbacks_pickle():
    w, x, y = given()
    pull = adc.vjp(predict, w, x)[1]
    pd.testing.assert_series_equal(pickle.loads(pickle.dumps(pull))(y)[0], pull(y)[0])


def test_an_index_and_an_extension_array_are_arrays():
    for values in (pd.Index([1.0, 2.0]), pd.array([1.0, 2.0])):
        assert adc.compile("sum(x)")(values) == 3
        assert type(adc.compile("2 * x")(values)) is np.ndarray
        assert adc.jvp(adc.compile("sum(x)"), (values,), (values,))[1] == 3


# -- what holds no numbers ----------

NO_NUMBERS = {
    "str": lambda: pd.Series(["a"]),
    "datetime64": lambda: pd.Series(pd.date_range("2020-01-01", periods=2)),
    "category": lambda: pd.Series(["a", "b"], dtype="category"),
    "object": lambda: pd.Series([1.0, 2.0], dtype=object),
    "missing values": lambda: pd.Series([1, None], dtype="Int64"),
    "missing values ": lambda: pd.array([1.0, None]),
    "sparse": lambda: pd.Series(pd.arrays.SparseArray([0.0, 1.0])),
    "column 'b'": lambda: pd.DataFrame({"a": [1.0], "b": ["x"]}),
    "both boolean and numeric": lambda: pd.DataFrame({"a": [1.0], "b": [True]}),
    "complex128": lambda: pd.Series([1j]),
}


@pytest.mark.parametrize("what", NO_NUMBERS)
@pytest.mark.parametrize("use", [lambda v: adc.compile("sum(x)")(v), lambda v: adc.Variable(v)])
def test_what_holds_no_numbers_is_refused(what, use):
    with pytest.raises(adc.DtypeError) as caught:
        use(NO_NUMBERS[what]())
    assert what in str(caught.value) or (what == "str" and "object" in str(caught.value))
    assert "help:" in str(caught.value)


def test_a_column_in_a_dict_is_named():
    table = pd.DataFrame({"a": [1.0], "name": ["x"]})
    with pytest.raises(adc.DtypeError, match=r"t\['name'\]"):
        adc.compile("sum(t['a'])", args="t")(dict(table))


def test_remedies_are_those_of_the_kind():
    times = pd.Series(pd.date_range("2020-01-01", periods=2, tz="UTC"))
    with pytest.raises(adc.DtypeError, match="Timedelta") as caught:
        adc.compile("2 * x")(times)
    assert "t.iloc[0]" in str(caught.value)
    assert adc.compile("2 * x")((times - times.iloc[0]) / pd.Timedelta("1s")).tolist() == [0.0, 172800.0]
    with pytest.raises(adc.DtypeError, match=r"x\.cat\.codes"):
        adc.compile("2 * x")(pd.Series(["a"], dtype="category"))


def test_nullable_numbers_without_missing_ones_are_numbers():
    s = pd.Series([1.5, 2.0], dtype="Float64")
    pd.testing.assert_series_equal(adc.compile("2 * x")(s), pd.Series([3.0, 4.0]))


def test_a_frame_of_integers_and_floats_is_one_of_floats():
    d = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
    pd.testing.assert_frame_equal(adc.grad(adc.compile("sum(x * x)"))(d), 2.0 * d)
