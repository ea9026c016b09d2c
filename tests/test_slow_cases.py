"""Which cases of a test are slow: what the markers `slow_when` and `thinned` say of its parameters."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

CONFTEST = Path(__file__).parent / "conftest.py"
LETTERS, NUMBERS, WORDS = "abcd", (1, 2, 3, 4), ("one", "two", "three", "four")
TABLE = [
    pytest.mark.parametrize("letter", LETTERS),
    pytest.mark.parametrize(("number", "word"), list(zip(NUMBERS, WORDS, strict=True))),
]


@pytest.fixture
def quick(request: pytest.FixtureRequest) -> Any:
    """The cases of a test with two parameters that are not slow."""
    plugins = request.config.pluginmanager.get_plugins()
    (conftest,) = (p for p in plugins if Path(getattr(p, "__file__", None) or "") == CONFTEST)

    def cases(mark: pytest.MarkDecorator) -> list[tuple[str, int]]:
        found = []
        for letter, (number, word) in product(LETTERS, zip(NUMBERS, WORDS, strict=True)):
            spec = SimpleNamespace(params={"letter": letter, "number": number, "word": word})
            marks: list[str] = []
            item = SimpleNamespace(
                callspec=spec,
                add_marker=marks.append,
                iter_markers=lambda name: [m.mark for m in (mark, *TABLE) if m.name == name],
            )
            conftest.pytest_itemcollected(item)
            if "slow" not in marks:
                found.append((letter, number))
        return found

    return cases


def test_a_condition_names_the_parameters_that_it_reads(quick: Any) -> None:
    found = quick(pytest.mark.slow_when(lambda number: number > 1))
    assert found == [(letter, 1) for letter in LETTERS]
    assert len(quick(pytest.mark.slow_when(lambda letter, number: (letter, number) == ("a", 1)))) == 15


@pytest.mark.parametrize("k", [2, 3, 4])
def test_each_value_of_each_parameter_is_in_a_case_that_is_left(quick: Any, k: int) -> None:
    found = quick(pytest.mark.thinned(k))
    assert len(found) in (16 // k, 16 // k + 1)
    assert {letter for letter, _ in found} == set(LETTERS)
    assert {number for _, number in found} == set(NUMBERS)


def test_cases_with_one_value_may_be_thinned_alone(quick: Any) -> None:
    found = quick(pytest.mark.thinned(2, letter="b"))
    assert [number for letter, number in found if letter == "b"] == [1, 3]
    assert len(found) == 14
