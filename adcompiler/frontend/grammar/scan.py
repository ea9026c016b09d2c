"""One linear scan of the text before it is parsed: limits, brackets, and characters that are not tokens."""

from __future__ import annotations

import re

from adcompiler.errors import Span
from adcompiler.frontend import limits
from adcompiler.frontend.grammar import literals
from adcompiler.frontend.grammar.characters import check_character, span_at
from adcompiler.frontend.grammar.fault import Excess, Fault

RESERVED = frozenset(
    ("and", "or", "not", "is", "if", "elif", "else", "for", "while", "in", "def", "return", "raise", "assert")
)

_TOKEN = re.compile(
    r"""
      (?P<space>     [ \t\f]+ | \#[^\n]* | \\\n )
    | (?P<newline>   (?: \n [ \t\f]* (?: \#[^\n]* )? )++ )
    | (?P<string>    (?P<prefix> [rRuUbBfF]{0,2} ) (?:
                     \"{3} (?> (?: [^"\\] | \\. | "(?!"") )* ) \"{3} | "(?!"") (?: [^"\\\n] | \\. )*+ "
                   | '{3}  (?> (?: [^'\\] | \\. | '(?!'') )* ) '{3}  | '(?!'') (?: [^'\\\n] | \\. )*+ ' ) )
    | (?P<quote>     \"{3} | '{3} | ["'] )
    | (?P<name>      (?![0-9]) [\w\x80-\U0010FFFF]+ )
    | (?P<number>    0[xX][A-Za-z0-9_.]* | \.?[0-9] (?> (?: [eE][+-]?(?=[0-9]) | [A-Za-z0-9_.] )* ) )
    | (?P<open>      [(\[] )
    | (?P<close>     [)\]] )
    | (?P<ellipsis>  \.\.\. )
    | (?P<foreign>   && | \|\| | :=(?!=) | <> | !(?!=) | [{}`$?\\] )
    | (?P<separator> [,;:] )
    | (?P<operator>  (?: \*\* | // | << | >> | [-+*/%@&|^<>=!] ) =? | -> | ~ | \. )
    | (?P<stray>     . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS_OPERAND = ("name", "number", "string", "close")  # a + or - after these is binary
_CLOSING = {"(": ")", "[": "]"}

_SHORTEN = "assign a part of it to a variable"

_FOREIGN = {
    "&&": ("'&&' is not an operator", "write and, or & for the bits of integers"),
    "||": ("'||' is not an operator", "write or, or | for the bits of integers"),
    "!": ("'!' is not an operator", "write not, or != to compare"),
    "<>": ("'<>' is not an operator", "write != to compare"),
    ":=": ("':=' cannot assign inside an expression", "assign on a separate line: name = value"),
    "{": ("'{' is not part of the language: sets and dict literals are not supported", "use ( ) or [ ]"),
    "}": ("'}' is not part of the language: sets and dict literals are not supported", "use ( ) or [ ]"),
    "\\": ("a backslash can only end a line", "remove it; to solve A x = b write solve(A, b)"),
}


def scan(text: str) -> None:
    """Raise a Fault if `text` exceeds a limit, or has unmatched brackets or parts that are not tokens."""
    _Scan(text).run(0, len(text))


class _Scan:
    """One method per kind of token that needs a check."""

    def __init__(self, text: str, tokens: int = 0) -> None:
        self.text, self.tokens = text, tokens
        self.opened: list[re.Match[str]] = []  # brackets not yet closed
        self.towers = [0]  # for each open bracket: consecutive right-associative operators
        self.elses = [0]  # for each open bracket: consecutive elses in one expression
        self.kind, self.last = "newline", ""  # the previous token

    def run(self, start: int, end: int) -> None:
        for token in _TOKEN.finditer(self.text, start, end):
            kind = token.lastgroup or "stray"
            if kind == "space" or (kind == "newline" and self.opened):
                continue
            if kind == "name" and token[0] in RESERVED:
                kind = "word"
            self.tokens += 1
            self.limit("tokens", self.tokens, limits.TOKENS, token, "split the source")
            getattr(self, kind)(token)
            self.kind, self.last = kind, token[0]
        if self.opened:
            bracket = self.opened[-1]
            raise self.fault(
                bracket, f"'{bracket[0]}' is never closed", f"write {_CLOSING[bracket[0]]} at its end"
            )

    def span(self, token: re.Match[str]) -> Span:
        return span_at(self.text, *token.span())

    def limit(self, what: str, count: int, most: int, token: re.Match[str], remedy: str) -> None:
        if count > most:
            Excess.check(what, count, most, self.span(token), remedy)

    def fault(self, token: re.Match[str], cause: str, remedy: str | None = None) -> Fault:
        return Fault(self.span(token), cause, remedy)

    def newline(self, token: re.Match[str]) -> None:
        self.towers[-1] = self.elses[-1] = 0

    separator = ellipsis = newline

    def name(self, token: re.Match[str]) -> None:
        if not token[0].isascii() and not token[0].isidentifier():
            self.characters(token)
        self.limit("characters in a name", len(token[0]), limits.IDENTIFIER, token, "shorten it")

    def characters(self, token: re.Match[str]) -> None:
        for place, character in enumerate(token[0], token.start()):
            check_character(character, span_at(self.text, place, place + 1))
        raise self.fault(token, f"'{token[0]}' cannot begin a name", "begin it with a letter or _")

    stray = characters

    def word(self, token: re.Match[str]) -> None:
        if token[0] == "not":
            self.tower(self.towers, token)
        elif token[0] == "else":
            self.tower(self.elses, token)
        else:
            self.towers[-1] = 0

    def operator(self, token: re.Match[str]) -> None:
        unary = token[0] == "~" or (token[0] in "+-" and self.kind not in _ENDS_OPERAND)
        if unary or token[0] == "**":
            self.tower(self.towers, token)
        elif token[0] != ".":
            self.towers[-1] = 0

    def tower(self, counts: list[int], token: re.Match[str]) -> None:
        counts[-1] += 1
        self.limit("operators that wait for their right operand", counts[-1], limits.TOWER, token, _SHORTEN)

    def number(self, token: re.Match[str]) -> None:
        self.limit("characters in a number", len(token[0]), limits.NUMBER, token, "write it as 1.5e100")
        try:
            literals.number(token[0])
        except ValueError:
            remedy = literals.number_remedy(token[0])
            raise self.fault(token, f"'{token[0]}' is not a number", remedy) from None

    def string(self, token: re.Match[str]) -> None:
        prefix = token["prefix"].lower()
        if prefix not in ("", "r", "u"):
            what = "f-strings are" if "f" in prefix else "bytes are" if "b" in prefix else f"'{prefix}' is"
            remedy = "remove the letter before the quotes"
            remedy += "; print takes values after strings: print('x is', x)" if "f" in prefix else ""
            raise self.fault(token, f"{what} not part of the language", remedy)
        if self.last == ":" and self.opened and self.opened[-1][0] == "(":  # an annotation in quotes
            before, after = literals.quotes(token[0])
            annotation = _Scan(self.text, self.tokens)
            annotation.run(token.start() + before, token.end() - after)
            self.tokens = annotation.tokens

    def quote(self, token: re.Match[str]) -> None:
        before = self.text[: token.start()]
        if token[0] == "'" and before and (before[-1].isalnum() or before[-1] in ")]_"):
            raise self.fault(token, "this string is never closed", "end it with '; write x.T for a transpose")
        raise self.fault(token, "this string is never closed", f"end it with {token[0]}")

    def open(self, token: re.Match[str]) -> None:
        self.opened.append(token)
        self.towers.append(0)
        self.elses.append(0)
        self.limit("brackets inside each other", len(self.opened), limits.BRACKETS, token, _SHORTEN)

    def close(self, token: re.Match[str]) -> None:
        if not self.opened:
            raise self.fault(token, f"'{token[0]}' closes nothing", "remove it, or open it before")
        opening = self.opened.pop()
        wanted = _CLOSING[opening[0]]
        if token[0] != wanted:
            cause = f"'{token[0]}' cannot close the '{opening[0]}' before it"
            raise self.fault(token, cause, f"write {wanted}")
        self.towers.pop()
        self.elses.pop()

    def foreign(self, token: re.Match[str]) -> None:
        cause, remedy = _FOREIGN.get(token[0], (f"'{token[0]}' is not part of the language", "remove it"))
        raise self.fault(token, cause, remedy)
