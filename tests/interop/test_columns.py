"""Columns and tables of polars and pyarrow: numbers are read, what is missing or no number is refused."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

squares = adc.compile("sum(x * x)")
LIBRARIES = ["polars", "pyarrow"]


def column(library, values):
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    return module.Series(values) if library == "polars" else module.array(values)


def table(library, columns):
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    return module.DataFrame(columns) if library == "polars" else module.table(columns)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_are_arrays(library, dtype):
    values = np.array([1.0, 2.0, 4.0], dtype)
    given = column(library, values)
    found = adc.grad(squares)(given)
    assert found.dtype == dtype
    assert np.array_equal(found, 2 * values)
    assert np.array_equal(adc.hvp(squares)((given,), given), 2 * values)
    assert np.array_equal(adc.vjp(squares, given)[1](1.0)[0], 2 * values)
    assert squares(column(library, values[:0])) == 0.0
    assert squares({"x": given}["x"]) == 21.0


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_are_arrays_of_two_axes(library):
    given = table(library, {"a": [1.0, 2.0], "b": [3, 4]})
    assert np.array_equal(adc.compile("2 * x")(given), [[2.0, 6.0], [4.0, 8.0]])


def test_chunks_of_pyarrow():
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    assert squares(pa.chunked_array([[1.0], [2.0, 4.0]])) == 21.0


NO_NUMBERS = {
    "missing values": lambda library: column(library, [1.0, None]),
    "missing": lambda library: column(library, [1, None]),
    "tring": lambda library: column(library, ["a"]),
    "column 'name'": lambda library: table(library, {"a": [1.0], "name": ["x"]}),
    "column 'b' .* missing": lambda library: table(library, {"a": [1.0], "b": [None]}),
    "both boolean and numeric": lambda library: table(library, {"a": [1.0], "b": [True]}),
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("what", NO_NUMBERS)
def test_what_holds_no_numbers_is_refused(library, what):
    given = NO_NUMBERS[what](library)
    for use in (squares, adc.Variable, lambda v: adc.vjp(squares, np.ones(1))[1](v)):
        with pytest.raises(adc.DtypeError, match=what):
            use(given)


def test_a_query_has_to_be_run():
    pl = pytest.importorskip("polars", reason="polars is not installed")
    with pytest.raises(adc.DtypeError, match=r"x\.collect"):
        squares(pl.DataFrame({"a": [1.0]}).lazy())


def test_beside_labels_they_are_refused():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    with pytest.raises(adc.DtypeError, match="but others are of"):
        adc.compile("a * b")(column("polars", [1.0]), pd.Series([1.0]))
