"""Arrays that mean more than their numbers say are refused, and the error says what to do instead."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import adcompiler as adc


class Metres(np.ndarray):
    """An array with units, as astropy's quantities are."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        raise AssertionError("an operation of its own")


class Quantity:
    """What has units and no base class in NumPy, as pint's."""

    def __array__(self, dtype=None, copy=None):
        return np.ones(2)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        raise AssertionError("an operation of its own")


f, total = adc.compile("x * x"), adc.compile("sum(x * x)")
PLAIN = np.array([1.0, 2.0])

VALUES = {
    "a matrix": (np.matrix([[1.0, 2.0]]), "np.asarray"),
    "units": (PLAIN.view(Metres), "np.asarray"),
    "a quantity": (Quantity(), "np.asarray"),
    "a sparse array": (sparse.csr_array(np.eye(2)), "toarray"),
    "a sparse matrix": (sparse.coo_matrix(np.eye(2)), "toarray"),
    "dates": (np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), "timedelta64"),
    "durations": (np.array([1, 2], "timedelta64[s]"), "timedelta64"),
    "objects": (np.array([1.0, 2.0], object), "astype"),
    "texts": (np.array(["1", "2"]), "astype"),
    "bytes": (np.array([b"1", b"2"]), "astype"),
    "complex numbers": (np.array([1j, 2j]), "two real ones"),
}
PLACES = {
    "a call": f,
    "by name": lambda v: f(x=v),
    "grad": adc.grad(total),
    "vjp": lambda v: adc.vjp(f, v),
    "jvp": lambda v: adc.jvp(f, (v,), (PLAIN,)),
    "jacobian": adc.jacobian(f),
    "hessian": adc.hessian(total),
    "hvp": lambda v: adc.hvp(total)((v,), PLAIN),
    "sparse": adc.jacobian(f, sparse=True),
    "into": lambda v: f.into(np.empty(2), v),
    "a dict": lambda v: adc.compile("p['x'] * 2", args="p")({"x": v}),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", VALUES)
def test_arguments(what, place):
    value, remedy = VALUES[what]
    with pytest.raises(adc.DtypeError, match=remedy) as caught:
        PLACES[place](value)
    assert str(caught.value).count("help:") == 1


@pytest.mark.parametrize("what", VALUES)
def test_variables_cotangents_and_tangents(what):
    value, _ = VALUES[what]
    for use in (
        adc.Variable,
        lambda v: adc.vjp(f, PLAIN)[1](v),
        lambda v: adc.jvp(f, (PLAIN,), (v,)),
        lambda v: f.backward(PLAIN, v),
    ):
        with pytest.raises((adc.DtypeError, adc.ShapeError)):
            use(value)


def test_the_remedies_work():
    assert np.array_equal(f(np.asarray(VALUES["a matrix"][0])), [[1.0, 4.0]])
    t = VALUES["dates"][0]
    assert np.array_equal(f((t - t[0]) / np.timedelta64(1, "s")), [0.0, 86400.0**2])
    assert np.array_equal(f(VALUES["texts"][0].astype(float)), [1.0, 4.0])


def test_records_are_containers():
    """A recarray is a structured array, whose fields are those of a struct."""
    table = np.rec.array([(1.0, 2.0), (3.0, 4.0)], dtype=[("a", float), ("b", float)])
    g = adc.compile("sum(t.a * t.b)", args="t")
    assert g(table) == 14.0
    found = adc.grad(g)(table)
    assert np.array_equal(found["a"], table["b"])
    assert np.array_equal(found["b"], table["a"])
