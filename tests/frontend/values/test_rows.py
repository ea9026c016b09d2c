"""Lists of arrays of different lengths as one argument, `x: list[f64[:]]`: against Python, derivatives of all
modes, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from oracle import evaluate

import adcompiler as adc

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "cpu"])
RANDOM = np.random.default_rng(4)
LENGTHS = {
    "all lengths": [2, 1, 3],
    "an empty row": [2, 0, 3],
    "empty rows at the ends": [0, 4, 0],
    "one row": [5],
    "equal rows": [2, 2, 2, 2],
    "no row": [],
    "one element": [0, 1, 0],
    "one row of one": [1],
}
HEAD = "def f(x: list[f64[:]], y: list[f64[:]], w: f64[n]):\n    "
BODIES = {
    "sums": "return [sum((r * u) ** 2) ** 2 for r, u in zip(x, w)]",
    "two lists": "return [sum(a * exp(b)) + a @ b for a, b in zip(x, y)]",
    "counts": "return [len(r) * sum(r) for r in x]",
    "elements": "return sum(v * u * v for r, u in zip(x, w) for v in r)",
    "numbered": "return [sum(k * v**2 for k, v in enumerate(r)) for r in x]",
    "differences": "return [sum((r[1:] - r[:-1]) ** 2) + sum(r[-2:] * 3) for r in x]",
    "indices": "return [sum(x[i][j] * x[i][len(x[i]) - 1 - j] * w[i] for j in range(len(x[i]))) "
    "for i in range(len(x))]",
    "masks": "return [sum(r[r > 0] ** 2) + len(r[r > 0]) * w[0] for r in x]",
    "masks of another": "return [sum(a[a > 0.3] * b[a > 0.3]) + sum(b[b > 0][b[b > 0] < 1]) "
    "for a, b in zip(x, y)]",
    "extrema": "return [max(r * r) + min(r) + logsumexp(r) if len(r) > 0 else 0.0 for r in x]",
    "products": "return [prod(1 + r * r) for r in x]",
    "spreads": "return [std(r) + mean(r * r) if len(r) > 0 else 0.0 for r in x]",
    "a loop over rows": "s = 0.5\n    for r, u in zip(x, w):\n        s = sin(s) * u + sum(r**2)\n"
    "    return s",
    "a loop over elements": "s = 0.5\n    for r in x:\n        for v in r:\n            s = sin(s) + v\n"
    "    return s",
    "stored": "z = zeros(len(x))\n    for i in range(len(x)):\n        z[i] = sum(x[i]) * w[i]\n"
    "    return z * z",
    "all elements": "return concatenate(x) ** 2",
    "a function of a row": "g = 0.0\n    return [h(r, u) for r, u in zip(x, w)]",
}
HELPER = "def h(r, u):\n    return sum(tanh(u * r))\n\n"


def rows(lengths, *behind):
    return [RANDOM.uniform(0.2, 1.5, (n, *behind)) * RANDOM.choice([-1, 1]) for n in lengths]


def given(name):
    lengths = LENGTHS[name]
    return rows(lengths), rows(lengths), RANDOM.uniform(0.5, 1.5, len(lengths))


def skipped(name, body):
    return (name == "no row" and body in ("masks", "all elements")) or (
        min(LENGTHS[name], default=1) == 0 and body in ("extrema", "spreads")
    )


@pytest.mark.thinned(6)
@pytest.mark.parametrize("body", BODIES)
def test_rows_mean_what_they_mean_in_python(body):
    """The value is Python's own, by the oracle; derivatives of both orders are those of differences."""
    source = f"{HELPER}{HEAD}{BODIES[body]}"
    f = adc.compile(source, backend="numpy")
    for name in LENGTHS:
        if skipped(name, body):
            continue
        args = given(name)
        found = f(*args)
        if name != "no row":
            np.testing.assert_allclose(found, evaluate(source, *args), rtol=1e-12, atol=1e-13, err_msg=name)
        if name in ("all lengths", "empty rows at the ends", "one row of one"):
            adc.check_grad(f, *args, order=2)


@pytest.mark.thinned(12)
@pytest.mark.parametrize("body", BODIES)
def test_kernels_give_the_same(body):
    source = f"{HELPER}{HEAD}{BODIES[body]}"
    f, plain = (adc.compile(source, backend=b) for b in ("cpu", "numpy"))
    for name in LENGTHS:
        if skipped(name, body):
            continue
        args = given(name)
        (value, pull), (expected, back) = (adc.vjp(g, *args) for g in (f, plain))
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-14)
        weights = np.cos(np.arange(np.size(value))).reshape(np.shape(value))
        for one, other in zip(pull(weights)[0], back(weights)[0], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


SQUARES = "def f(x: list[f64[:]], w):\n    return sum(sum(r * w) ** 2 for r in x)"


def squares(x, w):
    """The gradient of SQUARES by hand."""
    return [2 * w * w * np.sum(r) * np.ones(len(r)) for r in x], sum(2 * w * np.sum(r) ** 2 for r in x)


def alike(found, expected):
    assert isinstance(found, list)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.thinned(6)
@BACKENDS
@pytest.mark.parametrize("name", LENGTHS)
def test_gradients_of_every_mode_are_lists_of_rows(name, backend):
    f, (x, _, _) = adc.compile(SQUARES, backend=backend), given(name)
    slope, by_w = squares(x, 1.5)
    alike(adc.grad(f)(x, 1.5)[0], slope)
    alike(adc.grad(f, "x")(tuple(x), 1.5), slope)
    alike(adc.value_and_grad(f)(w=1.5, x=x)[1][0], slope)
    value, pull = adc.vjp(f, x, 1.5)
    alike(pull(2.0)[0], [2 * r for r in slope])
    along = sum(np.sum(a * b) for a, b in zip(slope, x, strict=True))
    assert adc.jvp(f, (x, 1.5), (x, None))[1] == pytest.approx(along)
    assert adc.jvp(f, (x, 1.5), (None, 1.0))[1] == pytest.approx(by_w)
    one = [np.cos(np.arange(len(r))) for r in x]
    alike(adc.hvp(f, "x")((x, 1.5), one), squares(one, 1.5)[0])
    assert adc.jacobian(f, "w")(x, 1.5) == pytest.approx(by_w)
    assert np.shape(value) == ()


def test_a_program_is_for_any_number_of_rows_and_lengths():
    f = adc.compile(SQUARES)
    for lengths in LENGTHS.values():
        if len(lengths) != 1 != sum(lengths):  # an axis of length 1 is known to be one
            f(rows(lengths), 1.0)
    assert len(f._programs) == 1


def test_nothing_is_stored_for_a_row():
    """A loop over the row in the loop over rows."""
    f = adc.compile(SQUARES)
    f(rows([2, 3]), 1.0)
    assert f.show("ir").count("array") == 0
    assert "min(max(" in f.show("kernel")  # the inner loop ends with the row


def test_rows_of_matrices():
    body = "[sum(r @ m) + sum(r[:, 0] * r[:, -1]) + sum(mean(r, axis=0) ** 2 * m) for r in x]"
    source = f"def f(x: list[f64[:, d]], m: f64[d]):\n    return {body}"
    f, x, m = adc.compile(source, backend="numpy"), rows([2, 1, 4], 3), np.arange(3.0)
    np.testing.assert_allclose(
        f(x, m), [np.sum(r @ m) + np.sum(r[:, 0] * r[:, -1]) + np.sum(np.mean(r, axis=0) ** 2 * m) for r in x]
    )
    adc.check_grad(f, x, m, order=2)
    assert [g.shape for g in adc.vjp(f, x, m)[1](np.ones(3))[0]] == [r.shape for r in x]
    assert adc.compile("def f(x: list[f64[:, 3]]):\n    return sum(sum(r) for r in x)")([]) == 0


def test_float32_integers_and_lists():
    f = adc.compile(SQUARES.replace("f64", "f32"))
    x = [r.astype(np.float32) for r in rows([2, 3])]
    assert [g.dtype for g in adc.grad(f, "x")(x, np.float32(2))] == [np.float32] * 2
    chosen = adc.compile(
        "def f(k: list[i64[:]], v):\n    return [sum(v[j] for j in r) for r in k]", backend="numpy"
    )
    k, v = [np.array([0, 2]), np.array([], int), np.array([1])], np.array([1.0, 2.0, 4.0])
    np.testing.assert_array_equal(chosen(k, v), [5, 0, 2])
    adc.check_grad(chosen, k, v, order=2)
    np.testing.assert_array_equal(adc.grad(adc.compile(SQUARES), "x")([[1, 2], [], (3.0,)], 1.0)[0], [6, 6])


def test_variables_in_a_list():
    x = [adc.Variable(r, requires_grad=True) for r in rows([2, 3])]
    adc.compile(SQUARES)(x, 1.0).backward()
    alike([v.grad.data for v in x], squares([v.data for v in x], 1.0)[0])


def test_what_is_saved_pickles():
    x = rows([2, 0, 3])
    split = adc.compile(SQUARES).split()
    saved = pickle.loads(pickle.dumps(split.forward(x, 1.0)[1]))
    alike(split.propagate(saved, 1.0)[0], squares(x, 1.0)[0])


def test_a_decorated_function():
    @adc.function
    def total(x: "list[f64[:]]"):  # noqa: F821, UP037 (a type of the language)
        return sum(sum(r) ** 2 for r in x)

    x = rows([1, 2])
    alike(adc.grad(total)(x), squares(x, 1.0)[0])
    assert "x.lengths" in adc.compile(SQUARES).show("ir")  # by its annotation, before any call


X = [np.ones(2), np.ones(3)]
MISTAKES = [
    ("x", adc.DtypeError, "the result is a list of arrays", "concatenate"),
    ("x[0]", adc.DtypeError, "the result is a row", "sum\\(row\\)"),
    ("[r**2 for r in x]", adc.ShapeError, "an item of this list is a row", "reduce it"),
    ("sum(x)", adc.DtypeError, "not a list of arrays", "reduce each row"),
    ("x + 1", adc.DtypeError, "add takes numbers and arrays", "reduce each row"),
    ("sum(x[2])", adc.OutOfRangeError, "index: the axis has length 2", "be inside the axis"),
    ("x[0][2]", adc.OutOfRangeError, "out of range in a row", "negative ones from the end of the row"),
    ("sum(x[0:1])", adc.DtypeError, "is indexed by one integer", "for row in x"),
    ("sum(x[0][::2])", adc.ParseError, "a slice of a row", "row\\[1:\\]"),
    ("sum(x[0] * x[1])", adc.OutOfRangeError, "two rows have different lengths", "equal lengths"),
    ("sum(x[0] * w)", adc.ShapeError, "combined with a row", "y\\[:len\\(row\\)\\]"),
    ("[sort(r)[0] for r in x]", adc.DtypeError, "sort takes an array", "reduce each row"),
    ("[sum(w[r]) for r in x]", adc.DtypeError, "an index is a row", "for k in row"),
    ("argmax(x[0])", adc.ParseError, "argmax of a row", "where"),
]


@pytest.mark.parametrize(("source", "kind", "cause", "remedy"), MISTAKES)
def test_mistakes_are_named(source, kind, cause, remedy):
    f = adc.compile(f"def f(x: list[f64[:]], w):\n    return {source}", backend="numpy")
    with pytest.raises(kind, match=cause) as found:
        f(X, np.ones(2))
    with pytest.raises(kind, match=remedy):
        raise found.value


ARGUMENTS = [
    (np.ones((2, 3)), adc.DtypeError, "is a ndarray"),
    ([np.array([1, 2])], adc.DtypeError, "x\\[0\\] is int64"),
    ([np.ones(2), np.ones((1, 2))], adc.ShapeError, "x\\[1\\] has rank 2"),
    ([1.0, 2.0], adc.ShapeError, "x\\[0\\] has rank 0"),
    (["a"], adc.DtypeError, "x\\[0\\] is <U1"),
    ([None], adc.DtypeError, "x\\[0\\] is object"),
]


@pytest.mark.parametrize(("value", "kind", "cause"), ARGUMENTS)
def test_arguments_that_are_no_rows_are_named(value, kind, cause):
    with pytest.raises(kind, match=cause):
        adc.compile(SQUARES)(value, 1.0)
    with pytest.raises(adc.ShapeError, match="x\\[1\\] \\(1, 3\\)"):
        adc.compile("def f(x: list[f64[:, d]]):\n    return sum(x[0])")([np.ones((1, 2)), np.ones((1, 3))])


REFUSED = {
    "jacobian": lambda f: adc.jacobian(f, "x")(X, 1.0),
    "hessian": lambda f: adc.hessian(f)(X, 1.0),
    "vmap": lambda f: adc.vmap(f, (0, None))(X, 1.0),
    "into": lambda f: adc.grad(f, "x").into(X, X, 1.0),
    "a pair": lambda f: f.backward(adc.DiffPair(X), 1.0, 1.0),
    "pairs": lambda f: f.backward([adc.DiffPair(r) for r in X], 1.0, 1.0),
    "a pair: x": lambda f: f.forward(adc.DiffPair(X, X), 1.0),
    "a C function": lambda f: f.cfunc,
    "the rows of the tangent": lambda f: adc.jvp(f, (X, 1.0), (X[::-1], None)),
    "the rows of the tangent of x": lambda f: adc.hvp(f, "x")((X, 1.0), X[::-1]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_there_is_not_is_refused(what):
    with pytest.raises(adc.Error, match=what.removesuffix("s") if what == "pairs" else what):
        REFUSED[what](adc.compile(SQUARES))


def test_other_arguments_are_batched():
    assert adc.vmap(adc.compile(SQUARES), (None, 0))(X, np.array([1.0, 2.0])) == pytest.approx([13, 52])
