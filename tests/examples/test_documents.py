"""Documents name what exists: paths, links, pages in the navigation. The site builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
PATH = re.compile(r"`(?:python )?([\w-]+/[\w./-]+\.py|(?:adcompiler|tests|docs|grammar|examples)/[\w./-]+)`")
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)\s]*\)")


def missing(page: Path) -> list[str]:
    text = page.read_text("utf-8")
    named = PATH.findall(text)  # of the package's files also as from its folder
    paths = [
        path for path in named if not any((base / path).exists() for base in (ROOT, ROOT / "adcompiler"))
    ]
    prose = CODE.sub("", FENCED.sub("", text))
    return paths + [link for link in LINK.findall(prose) if not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page):
    assert not missing(page)


def test_a_path_that_is_gone_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "`adcompiler/gone.py`, `tests/conftest.py`, [a](gone.md), [b](page.md#part), [c](https://x.org)"
    )
    assert missing(page) == ["adcompiler/gone.py", "gone.md"]


def test_all_pages_are_in_the_navigation():
    listed = re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in ROOT.glob("docs/*.md"))


def test_no_tab_is_a_single_page():
    """The sidebar has the pages of the tab: beside a tab that is one page it would show this page alone."""
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    tabs = re.findall(r"^  - (.*)$", nav, re.MULTILINE)
    assert len(tabs) > 3
    assert all(tab.endswith(":") for tab in tabs)


def test_continuous_integration_runs_the_commands_of_the_readme():
    """The lines under "Run the tests" are, word for word and in order, lines of `.ci/run`."""
    section = (ROOT / "README.md").read_text("utf-8").partition("## Run the tests\n")[2]
    setup, tests = re.search(r"^```bash\n(.*?)\n```$", section, re.DOTALL | re.MULTILINE)[1].splitlines()
    script = (ROOT / ".ci/run").read_text("utf-8").splitlines()
    assert [line for line in script if line in (setup, tests)] == [setup, tests]
    assert script[-1] == tests, "the status of the tests is that of the script"


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("material") is None, reason="needs mkdocs-material: pip install 'adcompiler[docs]'"
)
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
