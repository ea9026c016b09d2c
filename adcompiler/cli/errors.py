"""How the command line reports errors, and its exit codes."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from adcompiler.cli.hints import hint
from adcompiler.cli.output import as_json
from adcompiler.errors import Error

INTERNAL = 70  # EX_SOFTWARE
HELP = "\n  help: "


class UsageError(Error):
    """The command line itself is wrong, rather than a program or its data."""


def exit_code(error: Exception) -> int:
    """2 for wrong usage, 1 for an error in a program or its data, 70 for one of adcompiler's own."""
    if isinstance(error, UsageError) or is_typers(error):
        return 2
    return 1 if isinstance(error, Error | OSError) else INTERNAL


def is_typers(error: Exception) -> bool:
    """Whether Typer found it in the command line, such as an option that there is not."""
    return hasattr(error, "format_message")


def report(error: Exception, words: Sequence[str], wants_json: bool) -> None:
    """Print `error`, of these words, on stderr, in colour on a terminal, or on stdout as JSON; no traceback
    unless ADC_TRACEBACK is set."""
    if os.environ.get("ADC_TRACEBACK"):
        traceback.print_exception(error)
    if getattr(error, "possibilities", None):
        error.possibilities = None  # type: ignore[attr-defined]  # by spelling alone; the remedy has a better one
    if wants_json:
        print(as_json({"error": _fields(error, words)}))
        return
    if is_typers(error):
        error.show()  # type: ignore[attr-defined]
        if not words or "Did you mean" in str(error):
            return  # `adc` alone, which shows its help, or a misspelt verb
    message = f"  help: {_hint(error, words)}" if is_typers(error) else _message(error)
    Console(stderr=True).print(_styled(message), soft_wrap=True, highlight=False)


def _hint(error: Any, words: Sequence[str]) -> str:
    return hint(error.format_message(), words, getattr(error, "ctx", None))


def _fields(error: Exception, words: Sequence[str]) -> dict[str, Any]:
    """An error as JSON has it: what it says, where it stands, the remedy."""
    code, kind = exit_code(error), UsageError.__name__ if is_typers(error) else type(error).__name__
    place: dict[str, Any] = {"file": None, "line": None, "column": None}
    if isinstance(error, Error):
        place |= {"file": error.file, "line": error.line, "column": error.column}
        message, remedy = error.cause, error.remedy
    elif is_typers(error):
        message, remedy = error.format_message(), _hint(error, words)  # type: ignore[attr-defined]
    else:
        message, _, remedy = _message(error).removeprefix("adc: ").partition(HELP)
    return {"kind": kind, "message": message, **place, "remedy": remedy or None, "exit_code": code}


def _message(error: Exception) -> str:
    if isinstance(error, Error):
        return str(error) if error.line is not None else f"adc: {error}"
    if isinstance(error, OSError):
        return f"adc: {error.filename}: {error.strerror}" if error.filename else f"adc: {error}"
    return (
        f"adc: internal error: {type(error).__name__}: {error}"
        f"{HELP}this is a bug in adcompiler; ADC_TRACEBACK=full in the environment shows its traceback"
    )


def _styled(message: str) -> Text:
    """The message with its cause in bold, its carets in red and its remedy in cyan."""
    text = Text()
    for k, line in enumerate(message.splitlines()):
        style = "bold" if k == 0 else "bold red" if set(line) <= {" ", "^"} else ""
        text.append(line if k == 0 else f"\n{line}", "cyan" if line.startswith("  help:") else style)
    return text
