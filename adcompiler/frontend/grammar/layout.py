"""Lines and blocks: which newlines end a line, and INDENT and DEDENT between the lines."""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token

from adcompiler.errors import Span
from adcompiler.frontend import limits
from adcompiler.frontend.grammar.fault import Excess, Fault

_SHOWN = {"NEWLINE": "end of the line", "INDENT": "indentation", "DEDENT": "end of the block"}
_DEPTH = {"LPAR": 1, "LSQB": 1, "RPAR": -1, "RSQB": -1}


class Layout:
    """Lark's post-lexer. It holds no state, so that threads can share it.

    The indentation of the first line is that of the whole text: an indented text needs no dedent.
    """

    always_accept = ("NEWLINE",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The tokens, with those for indentation: Lark calls this."""
        levels: list[str] = []  # the indentation of each open block
        depth = 0  # the depth of brackets, which join lines
        newline: Token | None = None  # the latest newline, until another token follows
        last: Token | None = None
        for token in stream:
            if token.type == "NEWLINE":
                newline = None if depth else token
                continue
            if newline or not last:
                if last:
                    yield _after(last, "NEWLINE")
                yield from _blocks(levels, newline or "", token)
                newline = None
            depth += _DEPTH.get(token.type, 0)
            yield token
            last = token
        if last:
            yield _after(last, "NEWLINE")
            for _ in levels[1:]:
                yield _after(last, "DEDENT")


def _blocks(levels: list[str], newline: str, token: Token) -> Iterator[Token]:
    """Open or close the blocks between the lines before and after `newline`; `token` is the next one."""
    indentation = newline.rpartition("\n")[2].rpartition("\f")[2]  # a form feed resets the indentation
    if not levels:
        levels.append(indentation)
        return
    _check_tabs(levels[-1], indentation, token)
    if len(indentation) > len(levels[-1]):
        levels.append(indentation)
        remedy = "move a part to a separate def"
        Excess.check("indented blocks", len(levels) - 1, limits.BLOCKS, token_span(token), remedy)
        yield _before(token, "INDENT")
        return
    while len(indentation) < len(levels[-1]):
        if len(levels) == 1 or len(indentation) > len(levels[-2]):
            raise Fault(
                token_span(token),
                "this line is indented less than its block, but does not line up with an outer block",
                "indent it like one of the lines above",
            )
        levels.pop()
        yield _before(token, "DEDENT")


def _check_tabs(above: str, here: str, token: Token) -> None:
    if not above.startswith(here) and not here.startswith(above):
        raise Fault(
            token_span(token),
            "this line and the one above mix tabs and spaces in their indentation",
            "indent with four spaces for each block",
        )


def token_span(token: Token) -> Span:
    """The span of a token; Lark declares positions as optional, but always sets them."""
    return Span(token.line or 1, token.column or 1, token.end_line or 1, token.end_column or 1)


def _before(token: Token, kind: str) -> Token:
    line, column = token.line, token.column
    return Token(kind, _SHOWN[kind], token.start_pos, line, column, line, column, token.start_pos)


def _after(token: Token, kind: str) -> Token:
    line, column = token.end_line, token.end_column
    return Token(kind, _SHOWN[kind], token.end_pos, line, column, line, column, token.end_pos)
