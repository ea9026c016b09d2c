"""A recorded operation as the user wrote it: the expression whose instruction called it, and its operands."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path
from typing import NamedTuple

from adcompiler.eager.graph.user_lines import Place
from adcompiler.errors import Source, Span


class Written(NamedTuple):
    """An operation as the user wrote it: its file, its text, and its operands' texts where they are known."""

    source: Source | None
    span: Span | None
    text: str
    operands: tuple[str, ...]


def written(place: Place | None) -> Written:
    """The expression whose instruction called an operation; Python knows its columns."""
    if place is None:
        return Written(None, None, "", ())
    file = place.code.co_filename
    lines = linecache.getlines(file)
    spots = list(place.code.co_positions())
    line, end_line, column, end = spots[place.instruction // 2]
    if not lines or line is None or end_line is None or column is None or end is None:
        return Written(None, None, "", ())
    first, last = lines[line - 1].encode(), lines[end_line - 1].encode()
    span = Span(line, len(first[:column].decode()) + 1, end_line, len(last[:end].decode()) + 1)
    source = Source("".join(lines), Path(file).name)
    inside = [text.rstrip("\n") for text in lines[line - 1 : end_line]]
    inside[-1] = inside[-1][: span.end_column - 1]
    inside[0] = inside[0][span.column - 1 :]
    text = " ".join(part.strip() for part in inside)
    return Written(source, span, text, _operands(text))


def _operands(text: str) -> tuple[str, ...]:
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return ()
    match statement.value if isinstance(statement, ast.Expr) else statement:
        case ast.AugAssign(target=target, value=value):
            return ast.unparse(target), ast.unparse(value)
        case ast.BinOp(left=left, right=right):
            return ast.unparse(left), ast.unparse(right)
        case ast.UnaryOp(operand=operand):
            return (ast.unparse(operand),)
        case ast.Call(func=ast.Attribute(value=value), args=args):
            method = ast.unparse(value).partition(".")[0] not in ("np", "numpy", "adc")
            return (*([ast.unparse(value)] if method else ()), *map(ast.unparse, args))
        case ast.Call(args=args):
            return tuple(map(ast.unparse, args))
    return ()
