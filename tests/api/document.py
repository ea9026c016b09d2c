"""docs/api.md, written from the docstrings of the public names: run this file to write it."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import adcompiler as adc
from adcompiler.api.check_grad import Report
from adcompiler.explain.nan.nan_report import NanExplanation
from adcompiler.fit.batch_result import BatchResult
from adcompiler.fit.nlp import NonlinearProgram
from adcompiler.fit.results import FitResult
from adcompiler.runtime.programs.splitting import SplitFunction

ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs" / "api.md"
WIDTH = 100  # of a signature

INTRODUCTION = """\
# The API

This page is the reference of every public name of `adcompiler`, imported as `adc`. `help(adc.grad)` shows
the same text. [The language](language.md) describes what a compiled function may contain, and
[the command line](cli.md) the program `adc`.

All functions that take a compiled function also take a function of numba. Transforms (`grad`, `jacobian`,
`vmap` and others) take and return functions, so they nest: `adc.grad(adc.grad(f))`.
"""

PAIRS = "Pairs of a value and a derivative"
SLANGPY = "call forward backward"  # of a function, with pairs

SECTIONS = {
    "Compile": "compile function load",
    "Compiled functions": "Function",
    "Derivatives": "grad value_and_grad jacobian hessian hvp vjp jvp taylor vmap",
    "Your own derivatives": "custom_vjp primitive",
    "Checks and explanations": "check_grad check_report explain_nan why_none",
    "Fits and solvers": "curve_fit least_squares minimize root nlp fit.batch",
    "Containers": "ravel",
    "Variables": "Variable Parameter parameters no_grad enable_grad fuse",
    "The tape": "tape.grad tape.record tape.check tape.anomaly tape.draw tape.leaks tape.trace tape.show "
    "tape.reset tape.verbose tape.where",
    "Optimisers": "optim.SGD optim.Adam optim.AdamW optim.Optimizer",
    PAIRS: "DiffPair",
    "Threads and memory": "set_num_threads get_num_threads recycle",
}
MEMBERS = {  # those that users call
    "Function": "into show explain why_none split jitted cfunc low_level_callable torch jax latex sympy",
    "Variable": "value numpy item tolist shape dtype ndim size requires_grad requires_grad_ grad is_leaf "
    "backward retain_grad register_hook detach detach_ clone copy_ fill_ zero_ astype sum mean reshape "
    "expand transpose T mT",
    "optim.Optimizer": "step zero_grad add_param_group state_dict load_state_dict init update",
    "DiffPair": "primal grad",
}
RESULTS = {
    SplitFunction: ("Function.split", "forward propagate"),
    Report: ("check_report", "worst"),
    NanExplanation: ("explain_nan", "iteration"),
    FitResult: ("curve_fit` and `least_squares", "cov stderr confidence"),
    BatchResult: ("fit.batch", "success iterations cov stderr confidence"),
    NonlinearProgram: (
        "nlp",
        "solve objective gradient constraints jacobian jacobianstructure hessian hessianstructure",
    ),
}
OTHERS = {  # what other libraries are needed for, read from its source
    "dask": ("derivatives.py", "value_and_grad grad hvp jvp vjp", "lazy.py", "blockwise", "study.py", "map"),
    "torch": ("module.py", "Module"),
}

ITEM = re.compile(r"(?P<names>[\w*]+(?:, [\w*]+)*) {2,}(?P<text>\S.*)")


class Entry(NamedTuple):
    name: str
    signature: str | None  # of what is called
    doc: str


def public(name: str) -> Any:
    """The object of a public name, such as `tape.grad`."""
    found = adc
    for part in name.split("."):
        found = getattr(found, part)
    return found


def signature(value: Any, method: bool = False) -> str:
    """The parameters of a function, without annotations; of a method without the first."""
    found = inspect.signature(value)
    named = list(found.parameters.values())[method:]
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in named]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def entry(name: str, value: Any) -> Entry:
    doc = inspect.getdoc(value)
    assert doc, f"{name} has no docstring"
    made = not inspect.isclass(value) or value is not adc.Function  # users do not call the class Function
    return Entry(name, f"adc.{name}{signature(value)}" if made else None, doc)


def member(kind: type, owner: str, name: str) -> Entry:
    value = inspect.getattr_static(kind, name)
    doc = inspect.getdoc(value)
    assert doc, f"{kind.__name__}.{name} has no docstring"
    called = inspect.isfunction(value)
    return Entry(f"{owner}.{name}", f"{owner}.{name}{signature(value, True)}" if called else None, doc)


@cache
def parsed(path: Path) -> dict[str, ast.AST]:
    return {getattr(node, "name", ""): node for node in ast.parse(path.read_text("utf-8")).body}


def from_source(module: str, file: str, name: str) -> Entry:
    """An entry that is read from a file, because its library may be missing."""
    node = parsed(ROOT / "adcompiler" / "interop" / module / file)[name]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    doc = ast.get_docstring(node)
    assert doc, f"{name} has no docstring"
    if isinstance(node, ast.ClassDef):
        called = next(n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    else:
        called = node
    arguments = called.args
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        each.annotation = None
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            rest.annotation = None
    text = ast.unparse(arguments).removeprefix("self, ")
    return Entry(f"{module}.{name}", f"adc.{module}.{name}({text})", doc)


def wrapped(signature: str) -> str:
    """A signature in lines of at most WIDTH characters."""
    if len(signature) <= WIDTH:
        return signature
    head, _, rest = signature.partition("(")
    lines, line = [], "   "
    for part in re.split(r"(?<=,) (?![^(]*\))", rest.removesuffix(")")):
        if len(line) + len(part) + 1 > WIDTH:
            lines, line = [*lines, line], "   "
        line += f" {part}"
    return "\n".join([f"{head}(", *lines, line, ")"])


def paragraphs(doc: str) -> Iterator[str]:
    """A docstring as Markdown: its tables of parameters become lists, indented lines become code."""
    for text in dedent(doc).split("\n\n"):
        lines = text.split("\n")
        if ITEM.match(lines[0]) and all(line.startswith(" ") or ITEM.match(line) for line in lines):
            yield "\n".join(item(block) for block in re.split(r"\n(?=\S)", text))
        elif all(line.startswith("    ") for line in lines):
            yield f"```text\n{dedent(text)}\n```"
        else:
            yield " ".join(text.split())


def item(block: str) -> str:
    found = ITEM.match(block.replace("\n", " "))
    assert found is not None
    names = ", ".join(f"`{name}`" for name in found["names"].split(", "))
    return f"- {names}: {' '.join(found['text'].split())}"


def links(text: str) -> str:
    """References to pages as links: (docs/cuda.md) becomes ([cuda](cuda.md))."""
    return re.sub(r"docs/(\w+)\.md", r"[\1](\1.md)", text)


def shown(found: Entry, level: int = 3) -> str:
    parts = [f"{'#' * level} {found.name}"]
    if found.signature is not None:
        parts.append(f"```text\n{wrapped(found.signature)}\n```")
    return "\n\n".join((*parts, *map(links, paragraphs(found.doc)))) + "\n"


def with_members(kind: type, names: str) -> str:
    """The members of a class: those with a short text in a list, then the others with a heading."""
    owner = "f" if kind is adc.Function else kind.__name__
    found = [member(kind, owner, name) for name in names.split()]
    long = [each for each in found if "\n\n" in each.doc or len(each.doc) > 3 * WIDTH]
    short = [f"- `{e.signature or e.name}`: {' '.join(e.doc.split())}\n" for e in found if e not in long]
    return "\n".join(["", *filter(None, ["".join(short)]), *(shown(each, 4) for each in long)])


def errors() -> str:
    """A table of the classes of errors."""
    rows = ["| class | also a | raised if |", "| --- | --- | --- |"]
    for name in adc.__all__:
        value = getattr(adc, name)
        if inspect.isclass(value) and issubclass(value, adc.Error) and value is not adc.Error:
            other = ", ".join(f"`{b.__name__}`" for b in value.__bases__ if b is not adc.Error) or "—"
            rows.append(f"| `{name}` | {other} | {' '.join((inspect.getdoc(value) or '').split())} |")
    base = "\n\n".join(paragraphs(inspect.getdoc(adc.Error) or ""))
    return f"## Errors\n\n`adc.Error`: {base}\n\n" + "\n".join(rows) + "\n"


def results() -> Iterator[str]:
    yield "## Results\n\nThe classes of results.\n"
    for kind, (maker, members) in RESULTS.items():
        made = Entry(kind.__name__, None, f"Returned by `{maker}`.\n\n{inspect.getdoc(kind)}")
        yield shown(made) + with_members(kind, members)


def others() -> Iterator[str]:
    yield (
        "## With other libraries\n\n`adc.dask` and `adc.torch` need the library. [Dask](dask.md), "
        "[PyTorch](torch.md) and [JAX](jax.md) have their own pages.\n"
    )
    for module, files in OTHERS.items():
        for file, names in zip(files[::2], files[1::2], strict=True):
            yield from (shown(from_source(module, file, name)) for name in names.split())


def api() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in names.split():
            value, members = public(name), MEMBERS.get(name)
            parts.append(shown(entry(name, value)) + (with_members(value, members) if members else ""))
        if title == PAIRS:
            parts.append(with_members(adc.Function, SLANGPY).lstrip("\n"))
    return "\n".join([*parts, *results(), *others(), errors()])


if __name__ == "__main__":
    PATH.write_text(api(), "utf-8")
