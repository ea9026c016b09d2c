from __future__ import annotations

from ops.rules.document import PATH, rules
from ops.rules.plots import DOCS, SECTIONS_SHOWN, calls, file_of, shown


def test_the_page_is_up_to_date() -> None:
    assert PATH.read_text() == rules(), "run: PYTHONPATH=tests python tests/ops/rules/document.py"


def test_the_pictures_show_all_functions() -> None:
    for title in SECTIONS_SHOWN:
        assert shown(DOCS / file_of(title)) == [call for _, call in calls(title)], (
            "run: PYTHONPATH=tests python tests/ops/rules/document.py"
        )
