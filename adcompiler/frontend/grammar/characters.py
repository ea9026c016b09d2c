"""Conversion of the user's input to text, and characters that a source may not contain."""

from __future__ import annotations

import re
import unicodedata

from adcompiler.errors import DtypeError, Span
from adcompiler.frontend import limits
from adcompiler.frontend.grammar.fault import Excess, Fault

_NOWHERE = re.compile("[\0\ud800-\udfff]")  # not even in a string or comment

_LOOKALIKES = {
    "×·⋅∙∗": "*", "−–—‐": "-", "÷∕⁄": "/", "≤": "<=", "≥": ">=", "≠": "!=", "²": "**2", "³": "**3",
    "∧": "and", "∨": "or", "¬": "not", "√": "sqrt", "∑": "sum", "∏": "prod", "∞": "inf", "π": "pi",
    "“”„": '"', "‘’‚": "'",
}  # fmt: skip


def decode(given: str | bytes) -> str:
    """The text with plain newlines and no byte order mark, truncated just past the limit; never fails on
    bytes."""
    if not isinstance(given, str | bytes):
        raise DtypeError(
            f"a source is str or UTF-8 bytes, not {type(given).__name__}", remedy="pass the text itself"
        )
    start = given[: 4 * limits.CHARACTERS + 8]
    text = start if isinstance(start, str) else start.decode(errors="replace")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")[: limits.CHARACTERS + 1]


def check_characters(given: str | bytes, text: str) -> None:
    """Raise a Fault for too long a text, for bytes that are not UTF-8, and for NUL and lone surrogates."""
    if len(text) > limits.CHARACTERS:
        end = span_at(text, limits.CHARACTERS, len(text))
        Excess.check("characters", len(given), limits.CHARACTERS, end, "split the source")
    if isinstance(given, bytes):
        try:
            given.decode()
        except UnicodeDecodeError as error:
            place = len(decode(given[: error.start]))
            cause = f"the byte 0x{given[error.start]:02x} at offset {error.start} is not UTF-8"
            raise Fault(span_at(text, place, place + 1), cause, "save the file as UTF-8") from None
    for found in _NOWHERE.finditer(text):
        check_character(found[0], span_at(text, *found.span()))


def check_character(character: str, span: Span) -> None:
    """Raise a Fault if `character` cannot be part of a name."""
    if ("a" + character).isidentifier():
        return
    shown = f"'{character}' " if character.isprintable() else ""
    name = unicodedata.name(character, "no name")
    cause = f"the character {shown}({name}, U+{ord(character):04X}) is not part of the language"
    raise Fault(span, cause, _remedy(character))


def span_at(text: str, start: int, end: int) -> Span:
    """Lines and columns of `text[start:end]`."""
    line, end_line = text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 1
    return Span(line, start - text.rfind("\n", 0, start), end_line, end - text.rfind("\n", 0, end))


def _remedy(character: str) -> str:
    for lookalikes, meant in _LOOKALIKES.items():
        if character in lookalikes:
            return f"write {meant}"
    if character == "?":
        return "write a if condition else b, or where(condition, a, b)"
    return "write a space instead" if character.isspace() else "remove it"
