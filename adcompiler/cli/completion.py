"""Shell completion beyond Typer's: definitions in a file, after `model.adc:`, and parameters of SOURCE.

While the user types, programs are not compiled and Python files are not run.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import typer

from adcompiler.errors import Error
from adcompiler.frontend.grammar.parse import parse
from adcompiler.frontend.lowering.program import closure_of

BREAKS = (":", "=")  # at which bash breaks words, each a word of its own
PREFIX = "_ADC_COMPLETES_BEHIND"
MAKERS = ("compile", "function", "grad", "value_and_grad", "jacobian", "hessian", "vmap", "taylor")
DEFINITION = re.compile(r"^def[ \t]+(\w+)", re.MULTILINE)


def names_in(incomplete: str) -> list[str]:
    """The definitions of the file that stands before the last colon, each behind it; none without a colon, so
    that the shell completes files."""
    before = os.environ.get(PREFIX, "")
    place, colon, start = (before + incomplete).rpartition(":")
    if not colon:
        return []
    found = [f"{place}:{name}" for name in _defined(Path(place)) if name.startswith(start)]
    return [name.removeprefix(before) for name in found]


def _defined(path: Path) -> list[str]:
    """The definitions of a file, in order; of one that cannot be read none."""
    try:
        text = path.expanduser().read_text("utf-8-sig")
        if path.suffix == ".py":
            return list(dict.fromkeys(_compiled(ast.parse(text))))
    except (OSError, ValueError, SyntaxError):
        return []
    if path.suffix != ".adc":
        return []
    return list(dict.fromkeys(DEFINITION.findall(text))) or [path.stem]


def _compiled(module: ast.Module) -> Iterator[str]:
    """The decorated functions of a Python file, and the names that are given what our functions make: that
    they are compiled functions only running it would tell."""
    for one in module.body:
        if isinstance(one, ast.FunctionDef) and one.decorator_list:
            yield one.name
        elif isinstance(one, ast.Assign) and _makes(one.value):
            yield from (t.id for t in one.targets if isinstance(t, ast.Name))


def _makes(value: ast.expr) -> bool:
    """Whether it is a call of what makes compiled functions, by its name."""
    if not isinstance(value, ast.Call):
        return False
    made_by = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
    return made_by in MAKERS


def parameters_in(ctx: typer.Context, incomplete: str) -> list[str]:
    """Lists of parameters of SOURCE, as in `b1,b2`, by one more than what is there."""
    listed, comma, start = incomplete.rpartition(",")
    given = (ctx.params.get("source"), *ctx.args)  # not yet a parameter, where an option waits for its value
    try:
        names = _parameters(next(filter(None, given), ""))
    except (Error, OSError, ValueError, SyntaxError):
        return []
    free = [name for name in names if name.startswith(start) and name not in listed.split(",")]
    return [f"{listed}{comma}{name}" for name in free]


def _parameters(source: str) -> list[str]:
    """The parameters of a SOURCE, which is parsed."""
    found = re.fullmatch(r"(.*\.(?:adc|py))(?::(\w*))?", source, re.DOTALL)
    if found is None:
        return [p.name for p in closure_of(parse(source), None, None, {}).definition.parameters]
    text = Path(found[1]).expanduser().read_text("utf-8-sig")
    if found[1].endswith(".adc"):
        return [p.name for p in closure_of(parse(text), found[2] or None, None, {}).definition.parameters]
    functions = [
        one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef) and one.decorator_list
    ]
    return [a.arg for f in functions if f.name == found[2] for a in f.args.args]


def join_words(environment: dict[str, str] | os._Environ[str]) -> None:
    """Bash splits words at colons and = and completes what is behind the last one: Typer is given that, and
    what stands before it is kept under `PREFIX`."""
    if environment.get("_ADC_COMPLETE") != "complete_bash":
        return
    words, at = environment.get("COMP_WORDS", "").split("\n"), int(environment.get("COMP_CWORD") or 0)
    if len(words) <= at:
        return
    groups: list[list[str]] = []
    for word in words[: at + 1]:
        if groups and (word in BREAKS or groups[-1][-1] in BREAKS):
            groups[-1].append(word)
        else:
            groups.append([word])
    *before, start = [*groups[-1], ""] if groups[-1][-1] in BREAKS else groups[-1]
    joined = [*("".join(group) for group in groups[:-1]), start]
    asked = {PREFIX: "".join(before), "COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(len(joined) - 1)}
    environment.update(asked)
