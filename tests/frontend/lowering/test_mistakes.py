"""A table of mistakes that people make from habit: place, cause and remedy of each message, and that
who follows the remedy gets what NumPy gives. A decorated function and a file give the same messages, at their
own lines."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frontend.lowering.mistakes.julia import ROWS as JULIA
from frontend.lowering.mistakes.numpy import ROWS as NUMPY
from frontend.lowering.mistakes.python import ROWS as PYTHON
from frontend.lowering.mistakes.torch import ROWS as TORCH
from scipy import special, stats

import adcompiler as adc

Row = tuple[str, str, str, str, str, str, str]
ROWS: list[Row] = [*PYTHON, *NUMPY, *TORCH, *JULIA]
GIVEN: dict[str, Any] = {
    "x": np.array([1.5, 2.0, 4.0]),
    "m": np.array([[2.0, 0.5, 0.0], [0.5, 3.0, 1.0], [0.0, 1.0, 4.0]]),
    "a": 0.5,
    "i": np.array([0, 2, 0]),
    "k": 2,
    "total": 1.0,
    "noise": np.array([0.1, 0.2, 0.3]),
    "mask": np.array([1.0, 0.0, 1.0]),
}
HEADER = "import adcompiler as adc\nimport numpy as np\n\n\ndef make():\n    @adc.function\n"


def written(parameters: str, body: str) -> str:
    return f"def f({parameters}):\n    " + body.replace("\n", "\n    ") if parameters else body


def refused(make: Any) -> adc.Error:
    """The error of a function that is made and called."""

    def run() -> None:
        f = make()
        f(*(GIVEN.get(p.name, GIVEN["x"]) for p in f._parameters))

    with pytest.raises(adc.Error) as caught:
        run()
    return caught.value


def test_there_are_many() -> None:
    assert len({row[1] for row in ROWS}) == len(ROWS) >= 150


@pytest.mark.parametrize("row", ROWS, ids=[repr(row[1]) for row in ROWS])
def test_a_mistake_is_told_with_its_place_its_cause_and_a_remedy(row: Row) -> None:
    marked = written(row[0], row[1])
    before, _, after = marked.partition("»")
    error = refused(lambda: adc.compile(before + after))
    assert (error.line, error.column) == (before.count("\n") + 1, len(before.rsplit("\n", 1)[-1]) + 1)
    assert row[2] in error.cause
    assert row[3] in str(error.remedy)


@pytest.mark.parametrize("row", ROWS, ids=[repr(row[1]) for row in ROWS])
def test_the_remedy_is_right_when_followed(row: Row) -> None:
    f = adc.compile(written(row[4] or row[0], row[5]), backend="numpy")
    required = [p.name for p in inspect.signature(f).parameters.values() if p.default is p.empty]
    found = f(*(GIVEN[name] for name in required))
    expected = eval(row[6], {"np": np, "sum": np.sum, "special": special, "stats": stats, **GIVEN})
    for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def is_python(text: str) -> bool:
    try:
        compile(text, "<text>", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def programs() -> Iterator[str]:
    for row in ROWS:
        text = written(row[0], row[1]).replace("»", "")
        if row[0] and is_python(text) and "np.str" not in text:
            yield text


@pytest.mark.parametrize("text", list(programs()))
def test_a_decorated_function_and_a_file_give_the_same_message_at_their_own_lines(
    text: str, tmp_path: Path
) -> None:
    error = refused(lambda: adc.compile(text))
    (tmp_path / "m.adc").write_text(f"scale = 2.0\n\n{text}\n", "utf-8")
    (tmp_path / "m.py").write_text(
        HEADER + "    " + text.replace("\n", "\n    ") + "\n\n    return f\n", "utf-8"
    )

    def decorated() -> Any:
        spec = importlib.util.spec_from_file_location("m", tmp_path / "m.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.make()

    for make, lines, columns in ((lambda: adc.load(tmp_path / "m.adc").f, 2, 0), (decorated, 6, 4)):
        other = refused(make)
        assert (type(other), other.cause, other.remedy) == (type(error), error.cause, error.remedy)
        assert error.line is not None
        assert error.column is not None
        assert (other.line, other.column) == (error.line + lines, error.column + columns)
        assert str(tmp_path) in str(other.file)
