from __future__ import annotations

from ops.rules.document import PATH, rules


def test_the_page_is_up_to_date() -> None:
    assert PATH.read_text() == rules(), "run: PYTHONPATH=tests python tests/ops/rules/document.py"
