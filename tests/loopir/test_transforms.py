"""Loop IR before and after transforms, against the texts in `transforms/`.

`ADC_UPDATE_GOLDEN=1 pytest tests/loopir` writes what transforms make now: look at the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from adcompiler.loopir.outer_vectorisation import vectorised
from adcompiler.loopir.parse import functions
from adcompiler.loopir.printer import source
from adcompiler.loopir.verify import verify

FILES = sorted((Path(__file__).parent / "transforms").glob("*.txt"))
SECTION = re.compile(r"^== (\w+) ==\n", re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_transform(path):
    title, _, before, _, after = SECTION.split(path.read_text("utf-8"))
    (function,) = functions(before)
    verify(function)
    made = source(vectorised(function, frozenset()))
    if os.environ.get("ADC_UPDATE_GOLDEN"):
        path.write_text(f"{title}== before ==\n{before}== after ==\n{made}", "utf-8")
    else:
        assert made == after
    assert source(function) == source(functions(before)[0]), "a transform changes no statement in place"
