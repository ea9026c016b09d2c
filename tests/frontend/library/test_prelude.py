"""Functions of the prelude: signatures, errors at the call, and definitions that are parsed when needed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from frontend.library.document import PATH, functions
from frontend.library.plotted import CALLS, MOVING, columns, pictures
from ops.rules.plots import picture, shown

import adcompiler as adc
from adcompiler.frontend.library import prelude

V, M = np.arange(5.0), np.ones((4, 3))


@pytest.mark.parametrize("name", prelude.PRELUDE)
def test_a_definition_is_documented_and_has_a_signature(name):
    function = prelude.own(name)
    assert function.doc.endswith(".")
    assert str(function.signature).startswith(f"{name}(")


ADVICE = "run: PYTHONPATH=tests python tests/frontend/library/document.py"


def test_the_reference_is_up_to_date():
    assert PATH.read_text() == functions(), ADVICE
    for name, plots in pictures().items():
        assert shown(PATH.with_name(name)) == [call for call, _ in plots], ADVICE


def test_every_function_has_a_plot_or_moves_elements():
    assert not CALLS.keys() & MOVING
    assert CALLS.keys() | MOVING == prelude.PRELUDE.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", pictures())
def test_pictures_are_drawn_the_same_again(name):
    assert PATH.with_name(name).read_text() == picture(pictures()[name], columns(name)), ADVICE


def test_a_signature_shows_the_defaults():
    assert str(prelude.own("average").signature) == "average(x, axis=None, weights=None, keepdims=False)"
    assert str(prelude.own("softmax").signature) == "softmax(x, axis=)"


@pytest.mark.parametrize(
    ("body", "args", "column", "cause"),
    [
        ("2 * softmax(x)", (M, V), 16, "softmax of an array of rank 2 without an axis"),
        ("sum(interp(x, y, y[:3]))", (V, V), 16, "interp: the points and their values: the lengths 5"),
        ("[quantile(x, q) for q in y]", (V, 2 * V), 13, "quantile: q is out of range"),
        ("convolve(x[:0], y)", (V, V), 12, "convolve of an empty array: the axis has length 0"),
        ("softmax(x, axis=1)", (V, V), 12, "axis 1 is out of range for an array of rank 1"),
        ("average(x, 0, y)", (M, V), 12, "average: multiply: axis -1 of its operands: the lengths"),
    ],
)
def test_what_goes_wrong_inside_is_reported_at_the_call(body, args, column, cause):
    """With the name of the function, whether it is found while compiling, from lengths, or from values."""
    with pytest.raises(adc.Error) as found:
        adc.compile(f"def f(x, y):\n    return {body}", backend="numpy")(*args)
    error = found.value
    assert (error.file, error.line, error.column) == ("<expression>", 2, column)
    assert error.cause.startswith(cause)


def test_a_nan_inside_is_reported_at_the_call():
    f = adc.compile("def f(a, x):\n    y = 2 * a\n    return gammainc(y, x)", backend="numpy")
    report = str(adc.explain_nan(f, 1.0, -1.0))
    assert "3:12: gammainc(y, x) is nan" in report
    assert "prelude" not in report


@pytest.mark.parametrize("name", ["_at", "_below", "require"])
def test_names_of_the_prelude_are_its_own(name):
    with pytest.raises(adc.ParseError, match=f"unknown function '{name}'"):
        adc.compile(f"{name}(x)")


def test_a_program_with_names_of_the_prelude_has_its_own():
    f = adc.compile("def f(x):\n    last, _at = 3.0, x\n    return interp(_at, x, x) + last", backend="numpy")
    np.testing.assert_array_equal(f(V), V + 3)


def test_arrays_of_the_caller_are_unchanged_and_current():
    """The prelude's names are no other names of the caller's arrays."""
    f = adc.compile("def f(x):\n    y = x.copy()\n    m = median(y)\n    y[0] = m\n    return y, median(y)")
    y, m = f(V)
    np.testing.assert_array_equal(y, [2, 1, 2, 3, 4])
    assert m == 2


def test_only_definitions_that_are_used_are_parsed():
    script = (
        "import adcompiler as adc, numpy as np; from adcompiler.frontend.library import prelude\n"
        "adc.compile('sum(softmax(x))', backend='numpy')(np.ones(3))\n"
        "print(*(name for name, f in prelude._ALL.items() if 'definition' in vars(f)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["softmax", "_chosen", "_below"]
