"""What goes wrong in a called function has its place there: the file, the line and the text."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import adcompiler as adc

HELPERS = """import adcompiler as adc
import numpy as np
from numba import njit

# helpers stand below other lines than their callers


{decorator}
def added(x):
    y = 2 * x
    return sum(y + np.ones(3))


{decorator}
def element(x, k):
    return x[k]


{decorator}
def whole(x):
    return floor(x) + round(x)


{decorator}
def inverse(x):
    a = 1.0
    return a / x


{decorator}
def through(x, k):
    return element(x, k) * 2


{decorator}
def bounded(x):
    if x[0] < 0:
        raise ValueError("negative")
    return sum(x)
"""
CALLERS = """import helpers_{number} as helpers


def added(x): return helpers.added(x)

def element(x, k): return helpers.element(x, int(k[0]))

def whole(x): return helpers.whole(x)

def inverse(x): return 3 * helpers.inverse(x)

def through(x, k): return helpers.through(x, int(k[0]))

def bounded(x): return helpers.bounded(x)
"""
KINDS = ("@adc.function", "@njit", "")


@pytest.fixture(params=KINDS, scope="module")
def callers(request: Any, tmp_path_factory: Any) -> ModuleType:
    number = KINDS.index(request.param)
    folder = tmp_path_factory.mktemp("helpers")
    name = f"helpers_{number}"
    (folder / f"{name}.py").write_text(HELPERS.format(decorator=request.param))
    (folder / f"callers_{number}.py").write_text(CALLERS.format(number=number))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        spec = importlib.util.spec_from_file_location(f"callers_{number}", folder / f"callers_{number}.py")
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
    return found


def place_of(callers: ModuleType, text: str) -> tuple[str, int, int]:
    file = Path(callers.helpers.__file__)
    lines = file.read_text().split("\n")
    line = next(k for k, one in enumerate(lines, 1) if text in one)
    return str(file), line, lines[line - 1].index(text) + 1


ERRORS = {
    "added": ((np.ones(4),), adc.ShapeError, "y + np.ones(3)"),
    "element": ((np.ones(3), np.array([7])), adc.OutOfRangeError, "x[k]"),
    "through": ((np.ones(3), np.array([7])), adc.OutOfRangeError, "x[k]"),
    "bounded": ((-np.ones(3),), adc.ShapeError, "raise ValueError"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_a_call(callers: ModuleType, name: str) -> None:
    """Of lengths, indices and conditions, in values and derivatives."""
    args, kind, text = ERRORS[name]
    f = adc.function(getattr(callers, name))
    for use in (f, adc.grad(f, "x"), lambda *a: adc.jvp(f, a, (a[0], *(None for _ in a[1:])))):
        with pytest.raises(kind) as caught:
            use(*args)
        error = caught.value
        file, line, column = place_of(callers, text)
        assert (error.file, error.line) == (file, line)
        assert error.column >= column
        assert f"{file}:{line}:" in str(error)
        assert text in str(error)


def test_why_none(callers: ModuleType) -> None:
    words = adc.function(callers.whole).why_none("x")
    file, line, column = place_of(callers, "floor(x)")
    assert f"{file}:{line}:{column}: floor" in words
    assert "return floor(x) + round(x)" in words


def test_explain_nan(callers: ModuleType) -> None:
    found = adc.explain_nan(adc.function(callers.inverse), 0.0)
    file, line, _ = place_of(callers, "a / x")
    assert f"{file}:{line}:" in str(found)
    assert found.source == file


def test_an_error_of_types(callers: ModuleType) -> None:
    with pytest.raises(adc.Error) as caught:
        adc.function(callers.element)(1.0, np.array([0]))
    assert (caught.value.file, caught.value.line) == place_of(callers, "x[k]")[:2]


def test_comments_of_a_kernel_are_lines_of_the_helper(callers: ModuleType) -> None:
    kernel = adc.function(callers.added).show("kernel", np.ones(3))
    assert "# y = 2 * x" in kernel or "# return sum(y + np.ones(3))" in kernel
