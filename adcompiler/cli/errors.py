"""How the command line reports what went wrong, and the exit code it leaves."""

from __future__ import annotations

import os
import traceback

from rich.console import Console
from rich.text import Text

from adcompiler.errors import Error

INTERNAL = 70  # EX_SOFTWARE


class UsageError(Error):
    """The command line itself is wrong, rather than a program or its data."""


def exit_code(error: Exception) -> int:
    """2 for wrong usage, 1 for an error in a program or its data, 70 for one of adcompiler's own."""
    if isinstance(error, UsageError):
        return 2
    return 1 if isinstance(error, Error | OSError) else INTERNAL


def report(error: Exception) -> None:
    """Print `error` on stderr, in colour on a terminal; no traceback unless ADC_TRACEBACK is set."""
    if os.environ.get("ADC_TRACEBACK"):
        traceback.print_exception(error)
    Console(stderr=True).print(_styled(_message(error)), soft_wrap=True, highlight=False)


def _message(error: Exception) -> str:
    if isinstance(error, Error):
        return str(error) if error.line is not None else f"adc: {error}"
    if isinstance(error, OSError):
        return f"adc: {error.filename}: {error.strerror}" if error.filename else f"adc: {error}"
    return (
        f"adc: internal error: {type(error).__name__}: {error}\n"
        "  help: this is a fault of adcompiler; with ADC_TRACEBACK=full in the environment adc shows where"
    )


def _styled(message: str) -> Text:
    """The message with its cause in bold, its carets in red and its remedy in cyan."""
    text = Text()
    for k, line in enumerate(message.splitlines()):
        style = "bold" if k == 0 else "bold red" if set(line) <= {" ", "^"} else ""
        text.append(line if k == 0 else f"\n{line}", "cyan" if line.startswith("  help:") else style)
    return text
