"""The page in a browser without network: what lights up, by pointer and keys, on wide and narrow screens."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.explain.page.html import document
from tests.explain.page.browser import FOUND, Browser
from tests.explain.page.test_page import HOSTILE, Explored

pytestmark = [pytest.mark.slow, pytest.mark.skipif(FOUND is None, reason="there is no Chromium")]

TEXT = """def f(x, y):
    s = sin(x)
    t = s * y
    return t + exp(y), s * s
"""
VISIBLE = "[...document.querySelectorAll('.column')].filter(e => e.offsetParent).map(e => e.id)"


@pytest.fixture(scope="module")
def page():
    return Explored(adc.compile(TEXT))


@pytest.fixture(scope="module")
def file(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "f.html"
    path.write_text(document(page.page), "utf-8")
    return path


@pytest.fixture(scope="module")
def wide(file):
    with Browser() as browser:
        browser.open(file)
        yield browser
        assert not browser.errors()


def expression(text, column="source"):
    """The script that finds the element of an expression."""
    return (
        f"[...document.querySelectorAll('#{column} [data-at]')].find(e => e.textContent.trim() == `{text}`)"
    )


def lit(browser, panel):
    """The lines of a panel that are lit, also where it is hidden."""
    lines = f"[...document.querySelectorAll('#{panel} .lit')].map(e => e.closest('.line').textContent.trim())"
    return list(dict.fromkeys(browser.run(lines)))


def test_a_click_lights_up_what_came_of_an_expression_in_every_column(page, wide):
    wide.click(expression("exp(y)"))
    for column in page.page.columns:
        for k in range(len(column.tabs)):
            expected = list(dict.fromkeys(page.lines(column.key, "exp(y)", k)))
            assert lit(wide, f"{column.key}-{k}") == expected
    assert wide.run("document.getElementById('status').textContent") == "exp(y) in line 4"
    assert wide.run("document.querySelector('[data-shows=ir] b').textContent") == "1"


def test_a_line_lights_up_where_it_comes_from(wide):
    wide.click(expression("sin(%x)", "ir"))
    assert lit(wide, "source-0") == ["s = sin(x)"]
    assert any("cos" in line for line in lit(wide, "propagate-0"))


def test_pointing_at_an_operation_lights_up_its_derivative(wide):
    def pointed(text):
        box = wide.run(
            f"(() => {{ const b = {expression(text)}.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2] })()"
        )
        wide.mouse("mouseMoved", *box)
        return lit(wide, "propagate-0")

    assert pointed("s * s") == ["u0 = %dr1 * %s"]
    assert pointed("sin(x)")[0] == "%0 = array () {"
    assert pointed("exp(y)") == ["%dy = array () { %dr0 * %t1 + %dr0 * %s }"]
    wide.mouse("mouseMoved", 5, 5)


def test_a_name_lights_up_its_value(wide):
    wide.click(expression("s"))
    assert "s = sin(x)" in lit(wide, "source-0")
    assert any("sin" in line for line in lit(wide, "ir-0"))


def test_the_parts_of_an_expression_are_shaded(wide):
    wide.click(expression("t + exp(y)"), across=0.25)  # at the sign
    assert wide.run(f"{expression('exp(y)')}.classList.contains('part')")


def test_pointing_shows_and_leaving_returns_to_what_was_clicked(wide):
    wide.click(expression("exp(y)"))
    box = wide.run(
        f"(() => {{ const b = {expression('sin(x)')}.getBoundingClientRect(); return [b.x + 2, b.y + 4] }})()"
    )
    wide.mouse("mouseMoved", *box)
    assert lit(wide, "source-0") == ["s = sin(x)"]
    wide.mouse("mouseMoved", 5, 5)
    assert lit(wide, "source-0") == ["return t + exp(y), s * s"]


def test_tabs_and_keys(wide):
    wide.run("document.getElementById('propagate-tab1').click()")
    assert wide.run("document.getElementById('propagate-0').hidden")
    wide.run("document.getElementById('source-0').focus()")
    wide.press("Escape")
    assert lit(wide, "source-0") == []
    wide.press("ArrowDown")
    assert wide.run("document.querySelector('#source .at') !== null")


def test_narrow_screens_show_the_source_and_one_stage(file):
    with Browser(390, 844) as browser:
        browser.open(file)
        assert browser.run(VISIBLE) == ["source", "ir"]
        browser.run("document.querySelector('[data-shows=kernel]').click()")
        assert browser.run(VISIBLE) == ["source", "kernel"]
        browser.click(expression("exp(y)"))
        assert lit(browser, "kernel-0")
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert not browser.errors()


LONG = """def f(weights, y):
    inner = sum(exp(-weights * y)) + log(1 + sum(weights**2)) * cos(sum(y)) - sqrt(1 + sum(weights * y)**2)
    return inner * tanh(inner)
"""


@pytest.mark.parametrize("width", [1100, 1500, 2500])
def test_no_line_is_cut_off(tmp_path, width):
    """Long lines go on in the next one, where no panel scrolls to the side; the source stays in sight."""
    path = tmp_path / "f.html"
    path.write_text(document(Explored(adc.compile(LONG), np.ones(3), np.ones(3)).page), "utf-8")
    with Browser(width, 1000) as browser:
        browser.open(path)
        panels = "[...document.querySelectorAll('.panel:not([hidden])')]"
        assert browser.run(f"{panels}.filter(e => e.scrollWidth > e.clientWidth).map(e => e.id)") == []
        assert browser.run("document.documentElement.scrollWidth") <= width
        browser.resize(width, 500)
        browser.run("window.scrollTo(0, 400)")
        assert browser.run("document.getElementById('source').getBoundingClientRect().top") < 100
        line = "[...document.querySelectorAll('#source .line')]"
        heights = browser.run(f"{line}.map(e => e.getBoundingClientRect().height)")
        assert heights[1] > heights[0]
        colour = "getComputedStyle({}).color"
        word = colour.format("document.querySelector('#source .kw')")
        assert browser.run(word) != browser.run(colour.format("document.body"))


def test_colours_follow_the_scheme(file):
    def ground(dark):
        with Browser(dark=dark) as browser:
            browser.open(file)
            return browser.run("getComputedStyle(document.body).backgroundColor")

    assert ground(False) != ground(True)


def test_hostile_texts_do_nothing(tmp_path):
    path = tmp_path / "f.html"
    path.write_text(document(Explored(adc.compile(HOSTILE)).page), "utf-8")
    with Browser() as browser:
        browser.open(path)
        assert browser.run("document.querySelectorAll('script, img, svg').length") == 1
        assert not browser.errors()
