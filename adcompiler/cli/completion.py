"""Completion in the shell of what Typer cannot know: the definitions of a file, after `model.adc:`.

Programs are not compiled, and Python files not run, while somebody types.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

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


def join_words(environment: dict[str, str] | os._Environ[str]) -> None:
    """Bash splits words at colons and completes what is behind the last one: Typer is given that, and what
    stands before it is kept under `PREFIX`."""
    if environment.get("_ADC_COMPLETE") != "complete_bash":
        return
    words, at = environment.get("COMP_WORDS", "").split("\n"), int(environment.get("COMP_CWORD") or 0)
    if len(words) <= at:
        return
    before = ""
    if words[at] == ":":
        before, words[at] = ":", ""
    while at > 1 and (words[at - 1] == ":" or before.startswith(":")):
        before, at = words.pop(at - 1) + before, at - 1
    environment.update({PREFIX: before, "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(at)})
