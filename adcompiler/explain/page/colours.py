"""The kinds of words in a listing, for its colours: keywords, calls, numbers, comments, texts and names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from keyword import kwlist

# Pieces of one line, each with its kind, which is the class of its element. Other text has no colour.
Span = tuple[int, int, str]
KEYWORD, CALL, NUMBER, COMMENT, TEXT, NAME, TYPE = "kw", "fn", "num", "com", "str", "var", "ty"

NUMBERS = r"(?<![\w.])(?:0x[0-9a-fA-F]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.])"
TYPES = r"\b(?:[fiu](?:8|16|32|64)|bool|float32|float64|u?int(?:8|16|32|64))\b"
QUOTES = ('"""', "'''")


def _pattern(**kinds: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}>{text})" for kind, text in kinds.items()))


PYTHON = _pattern(
    com=r"#.*",
    str=r"[rbfRBF]?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")",
    kw=rf"\b(?:{'|'.join(kwlist)})\b|^\s*@[\w.]+",
    ty=TYPES,
    num=NUMBERS,
    fn=r"\b[A-Za-z_]\w*(?=\()",
)
IR = _pattern(
    com=r"//.*|#.*",
    kw=r"\b(?:func|array|reduce|contract|accumulate|call|input|loop|while|next|out|check|return|not)\b",
    ty=TYPES,
    var=r"%\w+",
    fn=r"@[\w.]+|\b[A-Za-z_]\w*(?=\()",
    num=NUMBERS,
)
ASSEMBLY = _pattern(
    com=r"(?:#|//|;).*",
    fn=r"^[\w.$@]+:",
    ty=r"^\s+\.\w+",
    kw=r"^\s+[A-Za-z][\w.]*",
    var=r"%[a-z]\w*|\b(?:[xwvdqsbhz]\d+(?:\.\w+)?|sp|xzr|wzr)\b",
    num=r"[$#]?-?\b(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?)\b",
)


def python(lines: Sequence[str]) -> list[list[Span]]:
    """Of Python and of the language; texts in three quotes may have several lines."""
    found: list[list[Span]] = []
    open_quote = ""
    for line in lines:
        spans: list[Span] = []
        at = 0
        while at < len(line):
            if open_quote:
                end = line.find(open_quote, at)
                stop = len(line) if end < 0 else end + len(open_quote)
                spans.append((at, stop, TEXT))
                open_quote, at = (open_quote if end < 0 else ""), stop
                continue
            start, open_quote = _next_quote(line, at)
            spans += _words(PYTHON, line, at, start)
            if open_quote:
                spans.append((start, start + 3, TEXT))
                start += 3
            at = start
        found.append(spans)
    return found


def _next_quote(line: str, at: int) -> tuple[int, str]:
    """Where the next text in three quotes begins, and its quotes; a comment or another text contains none."""
    while at < len(line):
        if line[at] == "#":
            return len(line), ""
        for quote in QUOTES:
            if line.startswith(quote, at):
                return at, quote
        if line[at] in "'\"" and (text := PYTHON.match(line, at)):
            at = text.end()
        else:
            at += 1
    return len(line), ""


def _words(pattern: re.Pattern[str], line: str, start: int = 0, stop: int | None = None) -> Iterator[Span]:
    """The words of a line that have a colour."""
    for found in pattern.finditer(line, start, len(line) if stop is None else stop):
        if found.lastgroup and found.end() > found.start():
            yield found.start(), found.end(), found.lastgroup


def _by_line(pattern: re.Pattern[str]) -> Callable[[Sequence[str]], list[list[Span]]]:
    return lambda lines: [list(_words(pattern, line)) for line in lines]


LANGUAGES: dict[str, Callable[[Sequence[str]], list[list[Span]]]] = {
    "ir": _by_line(IR),
    "forward": _by_line(IR),
    "propagate": _by_line(IR),
    "assembly": _by_line(ASSEMBLY),
}


def coloured(column: str, lines: Sequence[str]) -> list[list[Span]]:
    """The pieces with a colour of each line of a column."""
    return LANGUAGES.get(column, python)(lines)
