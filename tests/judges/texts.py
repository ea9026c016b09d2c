"""Files with programs before and after a transform, which people read and tests check.

A file has one case or more: what it shows, the program `before` and `after`, or one that the transform leaves
`unchanged`. To add a case, write its title and the program before, and run the test with ADC_UPDATE_GOLDEN=1:
it adds the program after.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAM = r"(?:(?:def |func |[ }#]).*\n)+"
CASE = re.compile(
    r"(?P<title>(?:[^=\n].*\n)+)\n== (?:before|unchanged) ==\n"
    rf"(?P<before>{PROGRAM})(?:\n== after ==\n(?P<after>{PROGRAM}))?\n?"
)


class Case(NamedTuple):
    """What a case shows, and a program before and after a transform."""

    title: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.before == self.after:
            return f"{self.title}\n== unchanged ==\n{self.before}"
        return f"{self.title}\n== before ==\n{self.before}\n== after ==\n{self.after}"


def check_texts(path: Path, transform: Callable[[str], tuple[str, str]]) -> None:
    """Compare the cases of a file with a transform, which gives a program as it is printed, and after it."""
    written = path.read_text("utf-8")
    made = "\n".join(str(Case(case.title, *transform(case.before))) for case in _cases(written))
    if os.environ.get("ADC_UPDATE_GOLDEN"):
        path.write_text(made, "utf-8")
    elif made != written:
        lines = unified_diff(written.splitlines(), made.splitlines(), "expected", "actual", n=4, lineterm="")
        pytest.fail("\n".join((f"{path.name} (ADC_UPDATE_GOLDEN=1 accepts this):", *lines)), pytrace=False)


def _cases(text: str) -> Iterator[Case]:
    place = 0
    while place < len(text):
        match = CASE.match(text, place)
        assert match is not None, f"no case: {text[place:]}"
        yield Case(match["title"], match["before"], match["after"] or match["before"])
        place = match.end()
