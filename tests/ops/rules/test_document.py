from __future__ import annotations

import re

from ops.rules.document import PATH, rules
from ops.rules.plots import DOCS, SECTIONS_SHOWN, calls, file_of


def test_the_page_is_up_to_date() -> None:
    assert PATH.read_text() == rules(), "run: PYTHONPATH=tests python tests/ops/rules/document.py"


def test_the_pictures_show_all_functions() -> None:
    for title in SECTIONS_SHOWN:
        shown = re.findall(r'font-size="12">([^<]+)</text>', (DOCS / file_of(title)).read_text("utf-8"))
        assert shown == [call for _, call in calls(title)], (
            "run: PYTHONPATH=tests python tests/ops/rules/document.py"
        )
