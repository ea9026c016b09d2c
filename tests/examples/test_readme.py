"""README.md and docs/ are tests: every block of Python and every `adc` command runs, in order.

A page's ```python blocks share one namespace, and its working folder is a fresh one that holds `examples/`.
Of ```console and ```bash blocks the `adc` commands run, also after `&&`; in a console block they follow `$ `.
Where a block of either sort is followed by a ```text block, that is exactly what it prints.
A page stops, as skipped, at the first block that imports an optional library that is not installed. Pages
that show another library beside this one, `from_*.md`, leave out only the blocks that import it.
"""

from __future__ import annotations

import gc
import io
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

from adcompiler.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [page for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))] if page.exists()]
OPTIONAL = ("torch", "jax", "dask", "casadi", "cupy", "pandas", "xarray", "IPython", "tqdm", "matplotlib")

FENCE = re.compile(r"^( *)(`{3,}) *([\w+-]*)[^\n]*\n(.*?)^\1\2 *$", re.DOTALL | re.MULTILINE)
IMPORT = re.compile(r"^\s*(?:import|from)\s+(\w+)", re.MULTILINE)


@dataclass
class Block:
    language: str
    text: str
    line: int  # of its first line of code, from 1
    expected: str | None = None


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page; a text block is what the block before it prints."""
    found = [
        Block(fence[3], dedent(fence[4]), text.count("\n", 0, fence.start(4)) + 1)
        for fence in FENCE.finditer(text)
    ]
    for block, following in pairwise([*found, Block("", "", 0)]):
        block.expected = following.text if following.language == "text" else None
        yield block


def commands(block: Block) -> Iterator[list[str]]:
    """The `adc` commands of a shell block, each as its arguments."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    for line in lines:
        for command in line.split("&&"):
            if command.strip().startswith("adc "):
                yield shlex.split(command, comments=True)[1:]


def run_shell(block: Block, page: Path) -> str:
    """What the block's commands print, in this process: test_cli.py has `adc` as a program of its own."""
    with redirect_stdout(io.StringIO()) as printed:
        for command in commands(block):
            assert main(command) == 0, f"{page.name}:{block.line}: adc {shlex.join(command)}"
    return printed.getvalue()


def missing(block: Block) -> str | None:
    """The optional library that a block imports and that is not installed."""
    imported = (library for library in IMPORT.findall(block.text) if library in OPTIONAL)
    return next((library for library in imported if find_spec(library) is None), None)


def run_python(block: Block, page: Path, namespace: dict[str, object]) -> str:
    """What the block prints. It is a real file, so `inspect` finds its source, at the page's own lines.

    A place in a block is printed as PAGE.py:LINE, where LINE is counted from the block's first.
    """
    file = Path(f"{page.stem}_line_{block.line}.py").resolve()
    file.write_text("\n" * (block.line - 1) + block.text, "utf-8")
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(file.read_text("utf-8"), file, "exec", dont_inherit=True), namespace)
    return re.sub(
        rf"\b{page.stem}_line_(\d+)\.py:(\d+)",
        lambda m: f"{page.stem}.py:{int(m[2]) - int(m[1]) + 1}",
        printed.getvalue(),
    )


def tidy(text: str) -> list[str]:
    """Lines to compare: the last digits of a float are those of a processor and its C library."""
    text = re.sub(r"\d+\.\d{9,}(e[+-]?\d+)?", lambda m: f"{float(m[0]):.10g}", text)
    return [line.rstrip() for line in text.rstrip().splitlines()]


def run(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a page in `folder`, as `python` there would: its modules are found."""
    (folder / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    module = ModuleType(f"{page.stem}_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks(page.read_text("utf-8")):
        if block.language == "python":
            if library := missing(block):
                if page.stem.startswith("from_"):
                    continue
                pytest.skip(f"{page.name}:{block.line} needs {library}")
            printed = run_python(block, page, module.__dict__)
        elif block.language in ("console", "bash"):
            printed = run_shell(block, page)
        else:
            continue
        if block.expected is not None:
            assert tidy(printed) == tidy(block.expected), f"{page.name}:{block.line}"


def case(page):
    marks = [pytest.mark.long] if page.name == "language.md" else []
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", [case(page) for page in PAGES])
def test_page_runs_as_written(page, tmp_path, monkeypatch):
    gc.freeze()  # the page on leaks searches what it has made itself
    for name in ("ceilings.CEILING_SECONDS", "cost.KERNEL_SECONDS"):  # no page prints what is measured
        monkeypatch.setattr(f"adcompiler.runtime.reports.{name}", 0.0)
    run(page, tmp_path, monkeypatch)


PAGE = """
```python
import inspect
a = 2
def double(x):
    return 2 * x
```
In between, prose and a figure:
```
not run
```
1. In a list:
   ```python
   print(double(a), inspect.getsource(double).count("x"))
   ```
   It prints
   ```text
   4 2
   ```
"""


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("", ""), None),
        (("not run", "1/0"), None),
        (("4 2", "4 2  "), None),
        (("4 2", "5 2"), AssertionError),
        (("4 2", "4 2\n   more"), AssertionError),
        (("a = 2", "a = 1/0"), ZeroDivisionError),
        (("a = 2", "import no_such_library"), ModuleNotFoundError),
    ],
)
def test_a_wrong_page_fails(change, error, tmp_path, monkeypatch):
    (tmp_path / "page").mkdir()
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace(*change), "utf-8")
    if error is None:
        run(page, tmp_path / "page", monkeypatch)
    else:
        with pytest.raises(error):
            run(page, tmp_path / "page", monkeypatch)


def test_places_are_counted_from_the_first_line_of_a_block(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block = Block("python", "import sys\nprint(f'{__file__()}:{sys._getframe().f_lineno}')\n", 41)
    namespace = {"__file__": lambda: "page_line_41.py"}
    assert run_python(block, Path("page.md"), namespace) == "page.py:2\n"


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("bash", 'pip install ".[cli]" && adc run "a * b" --arg a=1\n', [["run", "a * b", "--arg", "a=1"]]),
        ("bash", "adc show f.adc \\\n  --stage ir  # a comment\nls\n", [["show", "f.adc", "--stage", "ir"]]),
        ("console", "$ adc cache\nadc keeps nothing\n$ ls\n", [["cache"]]),
    ],
)
def test_adc_commands_are_found(language, text, expected):
    assert list(commands(Block(language, text, 1))) == expected
