"""All errors that the parser finds in the source of a Python function, not only the first.

Python's own parser, which accepts the text, locates statements. A rejected statement is replaced: the names
that it assigns get the value UNKNOWN, and the text is parsed again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from adcompiler.errors import Error, ParseError
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.parse import parse
from adcompiler.frontend.limits import MOST_FAULTS

UNKNOWN = "__unknown__"  # stands for an unknown value
BLOCKS = (ast.If, ast.For, ast.While, ast.Try, ast.With)


def parse_all(text: str, name: str, first_line: int, indent: int) -> tuple[tree.Module, list[Error]]:
    """The syntax tree, with UNKNOWN in place of rejected code, and the errors.

    Raises the errors if the rest cannot be parsed.
    """
    faults: list[Error] = []
    lines = text.split("\n")
    while True:
        try:
            return parse("\n".join(lines), name, first_line, indent), faults
        except ParseError as error:
            line = error.line or 0
            if len(faults) == MOST_FAULTS or any(fault.line == line for fault in faults):
                raise Error.together(faults) from None
            faults.append(error)
            if not _replaced(lines, line - first_line + 1):
                raise Error.together(faults) from None


def _replaced(lines: list[str], line: int) -> bool:
    """Replace the innermost statement on this line; False if it is the function itself."""
    try:
        statement = _innermost(ast.parse("\n".join(lines)), line)
    except SyntaxError:
        return False
    if statement is None:
        return False
    if isinstance(statement, BLOCKS):
        headers = list(_headers(statement, lines))
        for first, last, text in headers:
            _write(lines, first, last, text)
        return any(first <= line <= last for first, last, _ in headers)
    assert statement.end_lineno is not None
    if isinstance(statement, ast.Return):
        _write(lines, statement.lineno, statement.end_lineno, f"return {UNKNOWN}")
        return True
    names = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    text = " = ".join((*dict.fromkeys(names), UNKNOWN)) if names else "pass"
    _write(lines, statement.lineno, statement.end_lineno, text)
    return True


def _innermost(module: ast.Module, line: int) -> ast.stmt | None:
    """The innermost statement on a line, inside a function."""
    found: ast.stmt | None = None
    for node in ast.walk(module):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            inner = found is None or node.lineno >= found.lineno
            found = node if inner else found
    return None if isinstance(found, ast.FunctionDef) else found


def _headers(block: ast.stmt, lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """The first and last lines of the headers of a block, and their replacements."""
    parts: list[list[ast.stmt]] = [block.body, getattr(block, "orelse", []), getattr(block, "finalbody", [])]  # type: ignore[attr-defined]
    word = "elif" if lines[block.lineno - 1].lstrip().startswith("elif") else "if"
    yield block.lineno, block.body[0].lineno - 1, f"{word} True:"  # type: ignore[attr-defined]
    for handler in getattr(block, "handlers", []):
        yield handler.lineno, handler.body[0].lineno - 1, "if True:"
    if isinstance(block, ast.Try):
        for part in filter(None, parts[1:]):
            yield part[0].lineno - 1, part[0].lineno - 1, "if True:"


def _write(lines: list[str], first: int, last: int, text: str) -> None:
    """Replace some lines by a text with the same indentation."""
    before = lines[first - 1]
    lines[first - 1] = before[: len(before) - len(before.lstrip())] + text
    lines[first:last] = [""] * (last - first)
