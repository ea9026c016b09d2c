"""DataArrays as arguments: dimensions and coordinates agree where axes meet, and come back."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import adcompiler as adc

xr = pytest.importorskip("xarray", reason="xarray is not installed")

energy = adc.compile("sum((T * w)**2)", name="energy", args="T, w")
scaled = adc.compile("T * w", name="scaled", args="T, w")
mixed = adc.compile("T @ w", name="mixed", args="T, w")

X = [10.0, 20.0, 30.0]


def given(dtype="float64"):
    """A field over time and x with coordinates of all kinds, and weights over x."""
    coords = {
        "time": [0, 1, 2, 3],
        "x": X,
        "lat": ("x", [1.0, 2.0, 3.0]),
        "run": 7,
        "ok": (("time", "x"), np.ones((4, 3))),
    }
    values = np.random.default_rng(0).normal(size=(4, 3)).astype(dtype)
    field = xr.DataArray(values, coords, ("time", "x"), name="T", attrs={"units": "K"})
    return field, xr.DataArray(np.array([1.0, -2.0, 0.5], dtype), {"x": X}, ("x",), name="w")


def like(array, values, name):
    """An argument with other values and no attributes, as derivatives have no units of it."""
    return array.copy(data=values).drop_attrs().rename(name)


def time_only(field, values):
    return xr.DataArray(values, {"time": field.time, "run": field.run}, ("time",))


CASES = {
    "a map": (lambda T, w: scaled(T, w), lambda r, T, w: like(T, r, None)),
    "a product": (lambda T, w: mixed(T, w), lambda r, T, w: time_only(T, r)),
    "grad": (lambda T, w: adc.grad(energy, "T")(T, w), lambda r, T, w: like(T, r, "T")),
    "value_and_grad": (
        lambda T, w: adc.value_and_grad(energy, "w")(T, w)[1], lambda r, T, w: like(w, r, "w")
    ),
    "vjp": (lambda T, w: adc.vjp(mixed, T, w)[1](mixed(T, w))[1], lambda r, T, w: like(w, r, "w")),
    "jvp": (lambda T, w: adc.jvp(mixed, (T, w), (None, w))[1], lambda r, T, w: time_only(T, r)),
    "hvp": (lambda T, w: adc.hvp(energy, "w")((T, w), w), lambda r, T, w: like(w, r, "w")),
    "jacobian": (
        lambda T, w: adc.jacobian(mixed, "w")(T, w),
        lambda r, T, w: xr.DataArray(r, {"time": T.time, "x": X, "run": 7}, ("time", "x")),
    ),
    "hessian": (
        lambda T, w: adc.hessian(energy, "w")(T, w),
        lambda r, T, w: xr.DataArray(r, {"x": X, "x_2": X}, ("x", "x_2")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_arrays_with_coordinates(case, dtype):
    compute, labelled = CASES[case]
    args = given(dtype)
    plain = compute(*(a.to_numpy() for a in args))
    xr.testing.assert_identical(compute(*args), labelled(plain, *args))
    assert compute(*args).dtype == dtype


def test_numbers_are_numbers():
    T, w = given()
    assert energy(T, w) == energy(T.to_numpy(), w.to_numpy())


def test_four_axes():
    T, w = given()
    assert adc.hessian(energy, "T")(T, w).dims == ("time", "x", "time_2", "x_2")
    assert adc.jacobian(scaled, "T")(T, w).dims == ("time", "x", "time_2", "x_2")


def test_names_of_dimensions_stay_distinct():
    square = xr.DataArray(np.ones((2, 2)), dims=("x", "x_2"))
    assert adc.hessian(adc.compile("sum(a * a)"))(square).dims == ("x", "x_2", "x_3", "x_2_2")


def test_empty_arrays():
    T, w = given()
    assert scaled(T[:0], w).sizes == {"time": 0, "x": 3}
    xr.testing.assert_identical(adc.grad(energy, "w")(T[:0], w), like(w, np.zeros(3), "w"))


REFUSED = {
    "coordinates": lambda T, w: energy(T, w.assign_coords(x=[10.0, 20.0, 31.0])),
    "an order": lambda T, w: energy(T, w[::-1]),
    "dimensions": lambda T, w: energy(T, w.rename(x="y")),
    "a transpose": lambda T, w: adc.compile("a * b")(T[:3], T[:3].transpose("x", "time")),
    "a broadcast coordinate": lambda T, w: adc.compile("a * b")(T[:1], T),
    "a loop": lambda T, w: adc.compile("sum(p * q for p, q in zip(a, b))", args="a, b")(w, w[::-1]),
    "a cotangent": lambda T, w: adc.vjp(scaled, T, w)[1](T[::-1]),
    "a tangent": lambda T, w: adc.jvp(scaled, (T, w), (None, w[::-1])),
}


@pytest.mark.parametrize("case", REFUSED)
def test_axes_that_meet_have_one_name_and_the_same_coordinates(case):
    with pytest.raises(adc.ShapeError, match=r"dimension|coordinates"):
        REFUSED[case](*given())


def test_without_coordinates_the_name_is_enough():
    T, w = given()
    xr.testing.assert_identical(scaled(T, w.drop_vars("x")), scaled(T, w))


def test_several_indexes():
    stacked = given()[0].stack(z=("time", "x"))
    found = adc.grad(adc.compile("sum(x * x)"))(stacked)
    xr.testing.assert_equal(found, stacked.copy(data=2 * stacked.data))


def test_datasets_are_dicts_of_their_variables():
    w = given()[1]
    data = xr.Dataset({"a": w, "b": 2 * w})
    f = adc.compile("sum(d['a'] * d['b'])", args="d")
    with pytest.raises(adc.DtypeError, match="dict"):
        f(data)
    xr.testing.assert_identical(adc.grad(f)(dict(data.data_vars))["a"], like(w, 2 * w.data, "a"))


def test_other_libraries_beside_are_refused():
    pd = pytest.importorskip("pandas")
    T, _ = given()
    with pytest.raises(adc.DtypeError, match="but others are of xarray"):
        energy(T, pd.Series([1.0, 2.0, 3.0]))


def test_chunks_are_refused():
    pytest.importorskip("dask.array", reason="dask is not installed")
    T, w = given()
    with pytest.raises(adc.DtypeError, match="compute"):
        energy(T.chunk(), w)


def test_pullbacks_pickle():
    T, w = given()
    pull = adc.vjp(scaled, T, w)[1]
    xr.testing.assert_identical(pickle.loads(pickle.dumps(pull))(T)[1], pull(T)[1])
