"""Every way of calling gives arrays of the library of the arguments, and compares their labels."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import adcompiler as adc

predict = adc.compile("X @ w", name="predict", args="w, X")
energy = adc.compile("sum((X @ w)**3)", name="energy", args="w, X")


def in_pandas(array, axes, name=None):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    if array.ndim == 1:
        return pd.Series(array, axes[0], name=name)
    return pd.DataFrame(array, axes[0], axes[1])


def in_xarray(array, axes, name=None):
    xr = pytest.importorskip("xarray", reason="xarray is not installed")
    dims = ["row" if labels[0].startswith("r") else "col" for labels in axes]
    return xr.DataArray(array, dict(zip(dims, axes, strict=True)), dims, name)


def in_array_api(array, axes, name=None):
    xp = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    return xp.asarray(array)


ROWS, COLUMNS = ["r1", "r2", "r3", "r4"], ["a", "b", "c"]
LIBRARIES = [in_pandas, in_xarray, in_array_api]
LABELLED = LIBRARIES[:2]


class Given:
    """Weights, samples and a cotangent in a library, and as NumPy's."""

    def __init__(self, library, dtype="float64"):
        random = np.random.default_rng(1)
        self.library, self.dtype = library, dtype
        self.plain = [random.normal(size=n).astype(dtype) for n in (3, (4, 3), 4)]
        self.w, self.x, self.y = (self.like(k, a) for k, a in enumerate(self.plain))

    def like(self, k, array):
        """An array with the labels of the argument number k."""
        axes = [(COLUMNS,), (ROWS, COLUMNS), (ROWS,)][k]
        return self.library(np.asarray(array), axes, "w" if k == 0 else None)

    def turned(self, k):
        """The argument with its last labels, and numbers, in another order."""
        found = (self.w, self.x, self.y)[k]
        if found.ndim == 1:
            return found[::-1]
        return found[["c", "b", "a"]] if self.library is in_pandas else found[:, ::-1]


def is_same(found, expected):
    """Numbers in the same class, with the same labels, that are equal but for rounding."""
    assert type(found) is type(expected)
    assert found.dtype == expected.dtype if found.ndim == 1 else True
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5)
    if hasattr(expected, "coords"):  # xarray's
        assert found.copy(data=expected).identical(expected)
    elif hasattr(expected, "axes"):
        assert all(a.equals(b) for a, b in zip(found.axes, expected.axes, strict=True))
        assert getattr(found, "name", None) == getattr(expected, "name", None)


def split(f, w, x, y):
    value, saved = f.split().forward(w, x)
    return value, *f.split().propagate(saved, y)


def pickled(f, w, x, y):
    value, saved = f.split().forward(w, x)
    return value, *f.split().propagate(pickle.loads(pickle.dumps(saved)), y)


def vjp(f, w, x, y):
    value, pullback = adc.vjp(f, w, x)
    return value, *pullback(y)


def pairs(f, w, x, y):
    value = f.forward(adc.DiffPair(w, w), x)
    assert type(value.d) is type(value.p)
    own, other = adc.DiffPair(w), adc.DiffPair(x)
    f.backward(own, other, y)
    return value.p, own.d, other.d


WAYS = [split, pickled, vjp, pairs, lambda f, *args: (f(*args[:2]), *f.backward(*args))]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("way", WAYS, ids=["split", "pickled", "vjp", "pairs", "backward"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_values_and_gradients_are_of_the_library(library, way, dtype):
    given = Given(library, dtype)
    found, expected = way(predict, given.w, given.x, given.y), way(predict, *given.plain)
    for one, plain, k in zip(found, expected, (2, 0, 1), strict=True):
        is_same(one, given.like(k, plain))


@pytest.mark.parametrize("library", LIBRARIES)
def test_so_are_derivatives_of_second_order(library):
    given = Given(library)
    pair, plain = adc.DiffPair(given.w, given.w), adc.DiffPair(given.plain[0], given.plain[0])
    gradient = energy.backward(adc.DiffPair(pair), given.x, 1.0)[0]
    expected = energy.backward(adc.DiffPair(plain), given.plain[1], 1.0)[0]
    is_same(gradient.p, given.like(0, expected.p))
    is_same(gradient.d, given.like(0, expected.d))
    is_same(adc.hvp(energy, "w")((given.w, given.x), given.w), given.like(0, expected.d))
    value, saved = adc.grad(energy, "w").split("w").forward(given.w, given.x)
    is_same(value, given.like(0, expected.p))
    is_same(adc.grad(energy, "w").split("w").propagate(saved, given.w)[0], given.like(0, expected.d))


@pytest.mark.parametrize("library", LIBRARIES)
def test_empty_arrays(library):
    given = Given(library)
    for found in (split, pairs):
        value, dw, dx = found(
            predict, given.w, given.x[:0, :] if library is not in_pandas else given.x[:0], given.y[:0]
        )
        assert value.shape == (0,)
        assert dx.shape == (0, 3)
        is_same(dw, given.like(0, np.zeros(3)))


def test_cotangents_of_saved_temporaries_follow_those_of_results():
    given = Given(in_pandas)
    f = adc.compile("def f(x):\n    t = sin(x)\n    return exp(t * x)")
    saved = f.split(save=["t"]).forward(given.w)[1]
    plain = f.split(save=["t"]).forward(given.plain[0])[1]
    ones = np.ones(3)
    expected = f.split(save=["t"]).propagate(plain, (ones, ones))[0]
    is_same(f.split(save=["t"]).propagate(saved, (given.like(0, ones), ones))[0], given.like(0, expected))


@pytest.mark.parametrize("library", LABELLED)
def test_pairs_gather_series_of_their_own_labels(library):
    given = Given(library)
    pair = adc.DiffPair(given.w)
    first = predict.backward(pair, given.x, given.y)[0]
    predict.backward(pair, given.x, given.y)
    is_same(pair.d, first + first)
    total = adc.DiffPair(given.w, accumulator="total")
    predict.backward(total, given.x, given.y)
    assert total.d == pytest.approx(float(first.sum()))
    each = adc.DiffPair(given.w, accumulator="push")
    adc.compile("X * w", args="w, X").backward(each, given.x, given.x)
    is_same(each.d[0], given.like(0, given.plain[1][0] ** 2))


def test_a_cotangent_of_what_has_no_labels_may_have_any():
    given = Given(in_pandas)
    pullback = adc.vjp(adc.compile("concatenate([a, b])"), given.y, given.w)[1]
    ones = np.ones(7)
    is_same(pullback(given.library(ones, (list("stuvwxy"),)))[0], given.like(2, ones[:4]))


# -- labels that differ ----------


def gathered(g):
    predict.backward(adc.DiffPair(g.w, g.turned(0)), g.x, g.y)


def updated(g):
    rule = adc.optim.Adam(lr=0.1)
    rule.update({"w": g.turned(0)}, {"w": g.w}, rule.init({"w": g.w}))


REFUSED = {
    "forward of split": lambda g: predict.split().forward(g.turned(0), g.x),
    "propagate": lambda g: split(predict, g.w, g.x, g.turned(2)),
    "pullback": lambda g: vjp(predict, g.w, g.x, g.turned(2)),
    "tangent": lambda g: adc.jvp(predict, (g.w, g.x), (g.turned(0), None)),
    "tangent in a container": lambda g: adc.jvp(
        adc.compile("p['x'] @ p['w']", args="p"), ({"w": g.w, "x": g.x},), ({"w": None, "x": g.turned(1)},)
    ),
    "pair": lambda g: predict.forward(adc.DiffPair(g.w, g.turned(0)), g.x),
    "backward": lambda g: predict.backward(g.w, g.x, g.turned(2)),
    "gathered": gathered,
    "taylor": lambda g: adc.taylor(predict, (g.w, g.x), (g.turned(0), g.x), 2),
    "hvp": lambda g: adc.hvp(energy, "w")((g.w, g.x), g.turned(0)),
    "update": updated,
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("library", LABELLED)
def test_what_is_labelled_otherwise_than_what_it_belongs_to_is_refused(library, case):
    with pytest.raises(adc.ShapeError, match=r"order|coordinates"):
        REFUSED[case](Given(library))


# -- parameters ----------


@pytest.mark.parametrize("library", LABELLED)
def test_unravel_and_optimisers_give_parameters_their_labels(library):
    given = Given(library)
    params = {"w": given.w, "x": given.x, "k": 3.0}
    vector, unravel = adc.ravel(params)
    again = pickle.loads(pickle.dumps(unravel))(vector)
    is_same(again["w"], params["w"])
    is_same(again["x"], params["x"])
    rule = adc.optim.SGD(lr=0.5, momentum=0.9)
    grads = {"w": given.w, "x": None, "k": 1.0}
    new, state = rule.update(grads, params, rule.init(params))
    is_same(new["w"], given.like(0, given.plain[0] / 2))
    is_same(new["x"], params["x"])
    is_same(state["momentum_buffer"]["w"], params["w"])
    assert new["k"] == 2.5
