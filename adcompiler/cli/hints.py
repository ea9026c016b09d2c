"""What would mend a command line that Typer refuses: the slips that people make with this program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

EXTRA = re.compile(r"unexpected extra arguments?(?:\(s\))? \((.*)\)", re.DOTALL)
COMMAND = re.compile(r"No such command '(.*)'\.", re.DOTALL)
OPTION = re.compile(r"No such option:? '?(-{1,2}[^\s']*)")
NUMBER = re.compile(r"[-+]?\d|\[|@")


def hint(message: str, words: Sequence[str]) -> str:
    """A remedy for Typer's message about these words."""
    for pattern, remedy in HINTS:
        if found := pattern.search(message):
            return remedy(found[1], words)
    return f"adc {words[0]} --help" if words and words[0].isalpha() else "adc --help"


def _extra(given: str, words: Sequence[str]) -> str:
    """Arguments without --arg, names without commas, or an expression without quotes."""
    if re.match(r"\w+=", given):
        return f"write {' '.join(f'--arg {word}' for word in given.split())}"
    if "--grad" in words or "--wrt" in words:
        return "names stand together: --grad a,b"
    return "SOURCE is one word: put an expression in quotes"


def _command(given: str, words: Sequence[str]) -> str:
    """A SOURCE without a verb."""
    if given == "help" or given.isidentifier():
        return "adc --help lists the verbs"
    return f"say what to do with it: adc run {shlex.quote(given)}"


def _option(given: str, words: Sequence[str]) -> str:
    """An argument as an option, or an expression that starts with a minus."""
    k = next((k for k, word in enumerate(words) if word == given or word.startswith(f"{given}=")), None)
    name = given.lstrip("-")
    value = words[k].partition("=")[2] or words[k + 1 : k + 2] if k is not None else ""
    text = value if isinstance(value, str) else "".join(value)
    if given.startswith("--") and name.isidentifier() and NUMBER.match(text):
        return f"an argument is written --arg {name}={text}"
    if not given.startswith("--"):
        source = next((word for word in words if word.startswith(given)), given)
        return f"an expression that starts with a minus stands last, behind --: -- {shlex.quote(source)}"
    return f"adc {words[0]} --help lists the options"


HINTS: tuple[tuple[re.Pattern[str], Callable[[str, Sequence[str]], str]], ...] = (
    (EXTRA, _extra),
    (COMMAND, _command),
    (OPTION, _option),
)
