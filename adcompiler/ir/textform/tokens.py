"""The tokens of the text form, and a cursor over them that reports what does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from adcompiler.errors import ParseError, Source, Span
from adcompiler.ir.textform.notation import ARRAY_NAME, FUNC_NAME, IDENTIFIER, NUMBER

T = TypeVar("T")

_QUOTED = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-f]{4}))*"'  # JSON's strings
_TOKEN = re.compile(
    rf"(?P<space>[ \t\r]+|\#[^\n]*)|(?P<line>\n)|(?P<func>@(?:{FUNC_NAME}|{_QUOTED}))"
    rf"|(?P<array>%(?:{ARRAY_NAME}|{_QUOTED}))|(?P<number>{NUMBER})|(?P<quoted>{_QUOTED})"
    rf"|(?P<name>{IDENTIFIER}(?:\.{IDENTIFIER})?)"
    r"|(?P<symbol>\*\*|->|\+=|[<>=!]=|[-+*/<>=(){}\[\],:|?])|(?P<bad>.)"
)


class Token(NamedTuple):
    """A token: its kind is the name of its group in the pattern, or `end`."""

    kind: str
    text: str
    start: int

    @property
    def name(self) -> str:
        """The name without sigil and quotes."""
        bare = self.text[1:] if self.kind in ("func", "array") else self.text
        return str(json.loads(bare)) if bare.startswith('"') else bare


def tokens(text: str) -> list[Token]:
    """The tokens of `text`; a line ends only outside of parentheses and brackets."""
    found: list[Token] = []
    depth = 0
    for match in _TOKEN.finditer(text):
        token = Token(match.lastgroup or "", match[0], match.start())
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if token.kind != "space" and not (token.kind == "line" and depth):
            found.append(token)
    return [*found, Token("end", "", len(text))]


class Cursor:
    """A position among the tokens of a text."""

    def __init__(self, text: str) -> None:
        self.source = Source(text, "<ir>")
        self.tokens = tokens(text)
        self.at = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.at]

    def fail(self, cause: str, token: Token | None = None) -> NoReturn:
        """Raise a `ParseError` at `token`, or else at the next one."""
        token = token or self.token
        before = self.source.text[: token.start].split("\n")
        line, column = len(before), len(before[-1]) + 1
        span = Span(line, column, line, column + max(1, len(token.text)))
        raise ParseError(cause, source=self.source, span=span)

    def step(self) -> Token:
        """The next token, which is stepped over."""
        token = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, text: str) -> bool:
        """Step over the next token if it reads `text`."""
        found = self.token.text == text
        if found:
            self.step()
        return found

    def expect(self, text: str) -> None:
        """Step over the next token, which must read `text`."""
        if not self.accept(text):
            self.fail(f"expected {text!r}, not {self.token.text!r}")

    def take(self, *kinds: str) -> Token:
        """Step over the next token, which must be of one of `kinds`."""
        if self.token.kind not in kinds:
            self.fail(f"expected a token of kind {kinds[0]}, not {self.token.text!r}")
        return self.step()

    def lines(self) -> None:
        """Step over ends of lines."""
        while self.token.kind == "line":
            self.step()

    def items(self, item: Callable[[], T], *ends: str) -> tuple[T, ...]:
        """Items behind commas up to one of `ends`, which is stepped over."""
        found: list[T] = []
        while self.token.text not in ends:
            found.append(item())
            if self.token.text not in ends:
                self.expect(",")
        self.step()
        return tuple(found)
