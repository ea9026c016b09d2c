"""docs/api.md is up to date, and leaves out no public name."""

from __future__ import annotations

import re

import pytest
from api.document import PATH, Entry, api, shown

import adcompiler as adc


@pytest.fixture(scope="module")
def page() -> str:
    return api()


def test_the_page_is_up_to_date(page):
    assert PATH.read_text("utf-8") == page, "run: PYTHONPATH=tests python tests/api/document.py"


def test_the_page_has_every_public_name(page):
    modules = ("fit", "optim", "tape")  # their functions are on the page
    named = {
        *modules,
        *re.findall(r"^### (\w+)$", page, re.MULTILINE),
        *re.findall(r"^\| `(\w+)`", page, re.MULTILINE),
    }
    assert {*adc.__all__} - named == {"Error"}


def test_a_table_of_parameters_becomes_a_list():
    doc = "The root.\n\nx, y  the ends,\n      in order\ntol   a number\n\n    x < y\n\nSee docs/cli.md."
    assert shown(Entry("root", "adc.root(x, y, tol=0.1)", doc)) == (
        "### root\n\n```text\nadc.root(x, y, tol=0.1)\n```\n\nThe root.\n\n"
        "- `x`, `y`: the ends, in order\n- `tol`: a number\n\n```text\nx < y\n```\n\nSee [cli](cli.md).\n"
    )
