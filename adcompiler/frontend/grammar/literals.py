"""The values of numbers, strings and identifiers in the text; nothing is evaluated."""

from __future__ import annotations

import re
import unicodedata

_ESCAPE = re.compile(
    r"""\\(?: (?P<newline>\n) | (?P<letter>[\\'"abfnrtv]) | (?P<octal>[0-7]{1,3})
    | x(?P<x>[0-9a-fA-F]{2}) | u(?P<u>[0-9a-fA-F]{4}) | U(?P<U>[0-9a-fA-F]{8}) | N\{(?P<N>[^}\n]+)\} )""",
    re.VERBOSE,
)
_LETTERS = dict(zip("\\'\"abfnrtv", "\\'\"\a\b\f\n\r\t\v", strict=True))

_NUMBER_REMEDIES = (  # the first pattern found in a malformed number applies
    (r"[jJ]$", "complex numbers are not supported: use separate real and imaginary parts"),
    (r"^0[xX]", "hexadecimal digits are 0-9 and a-f, as in 0x1f"),
    (r"^0[oO]", "octal digits are 0-7, as in 0o17"),
    (r"^0[bB]", "binary digits are 0 and 1, as in 0b101"),
    (r"[eE]$", "an exponent needs digits, as in 1e3"),
    (r"_(_|\.|$)|\._", "an underscore must be between two digits, as in 1_000"),
    (r"\..*\.", "a number has only one decimal point"),
    (r"^0+[0-9]+$", "remove the leading zeros; an octal number begins with 0o"),
    (r"^[0-9_.]+(if|else|and|or|in|for)$", "write a space before the word"),
)


def number(literal: str) -> int | float:
    """The value of a number written as in Python; ValueError if it is malformed."""
    if re.match("0[xXoObB]|[0-9_]*$", literal):
        return int(literal, 0)  # base 0 accepts Python's prefixes and underscores, and rejects 0777
    return float(literal)


def number_remedy(literal: str) -> str:
    """The remedy for a malformed number."""
    for pattern, remedy in _NUMBER_REMEDIES:
        if re.search(pattern, literal):
            return remedy
    digits = re.match(r"[0-9_.]*", literal)
    split = digits.end() if digits else 0
    return f"write the operator: {literal[:split]}*{literal[split:]}"


def identifier(name: str) -> str:
    """The NFKC form, in which Python compares names."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


def quotes(literal: str) -> tuple[int, int]:
    """The number of characters before and after the content of a string."""
    prefix = len(literal) - len(literal.lstrip("rRuU"))
    width = 3 if literal[prefix:].startswith(('"""', "'''")) else 1
    return prefix + width, width


def string(literal: str) -> str:
    """The content of a string; an unknown escape is kept, as in Python."""
    before, after = quotes(literal)
    content = literal[before : len(literal) - after]
    return content if literal[0] in "rR" else _ESCAPE.sub(_unescape, content)


def _unescape(match: re.Match[str]) -> str:
    kind, value = match.lastgroup, match[match.lastgroup or 0]
    if kind == "newline":
        return ""
    if kind == "letter":
        return _LETTERS[value]
    try:
        return unicodedata.lookup(value) if kind == "N" else chr(int(value, 8 if kind == "octal" else 16))
    except (KeyError, ValueError, OverflowError):  # no such character
        return match[0]
