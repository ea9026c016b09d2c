"""What to write instead, where Typer refuses a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

EXTRA = re.compile(r"unexpected extra arguments?(?:\(s\))? \((.*)\)", re.DOTALL)
COMMAND = re.compile(r"No such command '(.*?)'\.", re.DOTALL)
OPTION = re.compile(r"No such option:? '?(-{1,2}[^\s']*)")
MISSING = re.compile(r"Missing argument '(SOURCE)'")
CHOICE = re.compile(r"Invalid value for '(--\w+)':.*?'(.*?)' is not one of (.*)\.", re.DOTALL)
NUMBER = re.compile(r"[-+]?\d|\[|@")
LETTER = re.compile(r"-[A-Za-z]\d?")  # an option of one letter, as -n or -O3

# What other tools and other verbs call our verbs and options.
VERBS = {
    "compile": "build", "export": "build", "emit": "build", "library": "build",
    "eval": "run", "evaluate": "run", "call": "run", "exec": "run",
    "grad": "run SOURCE --grad", "gradient": "run SOURCE --grad", "diff": "run SOURCE --grad",
    "derivative": "run SOURCE --grad", "differentiate": "run SOURCE --grad",
    "test": "check", "verify": "check", "gradcheck": "check", "check_grad": "check", "validate": "check",
    "time": "bench", "benchmark": "bench", "profile": "bench", "timeit": "bench",
    "print": "show", "dump": "show", "ir": "show", "view": "show", "inspect": "show", "html": "show",
    "why": "explain", "cost": "explain SOURCE --cost",
    "clean": "cache --clear", "clear": "cache --clear", "version": "--version",
}  # fmt: skip
OPTIONS = {
    "gradient": "--grad", "grads": "--grad", "derivative": "--grad", "args": "--arg", "argument": "--arg",
    "param": "--arg", "set": "--arg", "with": "--arg", "out": "--output", "outdir": "--output",
    "output-dir": "--output", "dest": "--output", "file": "--output", "o": "--output", "lang": "--emit",
    "language": "--emit", "format": "--emit", "target": "--emit", "f": "--emit", "functions": "--what",
    "n": "--size", "sizes": "--size", "length": "--size", "lengths": "--size", "shape": "--size",
    "device": "--backend", "engine": "--backend", "dtype": "--types", "dtypes": "--types", "type": "--types",
    "level": "--stage", "s": "--stage", "only": "--stage", "by": "--wrt", "respect": "--wrt",
    "variables": "--wrt", "vars": "--wrt", "page": "--html", "march": "--native", "j": "--json",
}  # fmt: skip
# By verb, where the general word means something else.
OF_VERB = {
    ("show", "output"): "--html", ("show", "o"): "--html", ("show", "out"): "--html",
    ("run", "wrt"): "--grad", ("check", "n"): "--size", ("check", "grad"): "--wrt",
    ("build", "grad"): "--what", ("build", "value"): "--what", ("build", "hessian"): "--what",
    ("build", "jacobian"): "--what", ("build", "gpu"): "--arch",
}  # fmt: skip
CHOICES = {
    "gpu": "cuda", "nvidia": "cuda", "jit": "cpu", "llvm": "cpu", "python": "numpy", "asm": "llvm",
    "assembly": "llvm", "backward": "propagate", "reverse": "propagate", "grad": "propagate",
    "value": "forward", "code": "kernel", "loops": "loopir", "parse": "ast", "cubin": "ptx",
}  # fmt: skip
# The values of options, which a user may write as options.
VALUES = {
    "--stage": ("source", "ast", "ir", "forward", "propagate", "kernel", "loopir", "llvm", "ptx"),
    "--backend": ("cpu", "numba", "cuda", "numpy"),
}
VERSION = ("V", "version", "Version")


def hint(message: str, words: Sequence[str], context: Any = None) -> str:
    """A remedy for Typer's message about these words; `context` is its own of the command."""
    for pattern, remedy in HINTS:
        if found := pattern.search(message):
            return remedy(found, words, context)
    return _help(words)


def _help(words: Sequence[str]) -> str:
    return f"adc {words[0]} --help" if words and words[0].isalpha() else "adc --help"


def _extra(found: re.Match[str], words: Sequence[str], context: Any) -> str:
    """Arguments without --arg, names without commas, or an expression without quotes."""
    given = found[1]
    if (option := f"--{given}") in _options(context):
        return f"write {option}"
    if re.match(r"\w+=", given):
        return f"write {' '.join(f'--arg {word}' for word in given.split())}"
    for k, word in enumerate(words[:-2]):
        if word in ("--arg", "-a") and words[k + 1].isidentifier() and words[k + 2] == given.split()[0]:
            return f"write --arg {words[k + 1]}={words[k + 2]}"
    if "--grad" in words or "--wrt" in words:
        return "write names together: --grad a,b"
    return "SOURCE must be one word: put an expression in quotes"


def _command(found: re.Match[str], words: Sequence[str], context: Any) -> str:
    """A SOURCE without a verb, or a verb of another tool."""
    given = found[1]
    verbs = sorted(getattr(getattr(context, "command", None), "commands", ()))
    if given == "help":
        return (
            f"adc {words[1]} --help" if words[1:2] and words[1] in verbs else "adc --help lists the commands"
        )
    if given.lower() in VERBS:
        return f"did you mean adc {VERBS[given.lower()]}?"
    return (
        "adc --help lists the commands"
        if given.isidentifier()
        else f"add a command: adc run {shlex.quote(given)}"
    )


def _option(found: re.Match[str], words: Sequence[str], context: Any) -> str:
    """An argument as an option, an option of another name or verb, or an expression that starts with a
    minus."""
    given = found[1]
    word = next((w for w in words if w == given or w.startswith(given)), given)
    if word == given and given not in words:  # a letter in a word of several, as -help
        word = next((w for w in words if re.match(r"-\w", w) and given[1:] in w), given)
    name = (given if given.startswith("--") else word).lstrip("-").partition("=")[0]
    if name in VERSION or (name == "v" and words[0] == word):
        return "adc --version prints the version"
    if name == "help":
        return _help(words)
    if not given.startswith("--") and (not LETTER.fullmatch(word) or _is_parameter(name, words)):
        return f"put an expression that starts with a minus last, after --: -- {shlex.quote(word)}"
    return _named(name[:1] if LETTER.fullmatch(word) else name, word, words, context)


def _named(name: str, word: str, words: Sequence[str], context: Any) -> str:
    """For an option that there is not: another name of one, one of another verb, or an argument."""
    known = _options(context)
    verb = getattr(context, "info_name", None) or ""
    meant = OF_VERB.get((verb, name), OPTIONS.get(name, ""))
    if meant not in known:
        near = get_close_matches(f"--{name}", known, 1, 0.75) if len(name) > 1 else ()
        meant = near[0] if near else ""
    if meant:
        return f"did you mean {meant}?"
    for option, values in VALUES.items():
        if option in known and name in values:
            return f"did you mean {option} {name}?"
    others = [f"adc {other}" for other, options in _others(context) if f"--{name}" in options]
    if others:
        listed = f"{', '.join(others[:-1])} and {others[-1]}" if others[1:] else others[0]
        return f"--{name} is an option of {listed}; {_lists(words)}"
    k = words.index(word) if word in words else len(words)
    value = word.partition("=")[2] if "=" in word else "".join(words[k + 1 : k + 2])
    if word.startswith("--") and name.isidentifier() and NUMBER.match(value):
        return f"write an argument as --arg {name}={value}"
    return _lists(words)


def _lists(words: Sequence[str]) -> str:
    return f"{_help(words)} lists the options"


def _is_parameter(name: str, words: Sequence[str]) -> bool:
    """Whether an argument is given for a name, so that `-x` is an expression."""
    return any(re.match(rf"{re.escape(name)}\s*=", word) for word in words)


def _options(context: Any) -> list[str]:
    """The long options of a command."""
    found = getattr(getattr(context, "command", None), "params", ())
    return [option for one in found for option in one.opts if option.startswith("--")] + ["--help"]


def _others(context: Any) -> Iterator[tuple[str, list[str]]]:
    """The other verbs, and their options."""
    parent = getattr(context, "parent", None)
    for name, command in getattr(getattr(parent, "command", None), "commands", {}).items():
        yield name, [option for one in command.params for option in one.opts]


def _missing(found: re.Match[str], words: Sequence[str], context: Any) -> str:
    return f'add an expression or a file: adc {words[0]} "x * sin(y)"; adc {words[0]} --help has examples'


def _choice(found: re.Match[str], words: Sequence[str], context: Any) -> str:
    """The nearest of the values that an option takes."""
    option, given, known = found[1], found[2], re.findall(r"'(.*?)'", found[3])
    meant = CHOICES.get(given.lower(), given.lower())
    near = [meant] if meant in known else get_close_matches(meant, known, 1)
    if option == "--stage" and given.lower() in ("asm", "assembly", "html", "all"):
        return "adc show SOURCE --html page.html shows all stages and the assembly"
    return f"did you mean {option} {near[0]}?" if near else _help(words)


HINTS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Sequence[str], Any], str]], ...] = (
    (EXTRA, _extra),
    (COMMAND, _command),
    (OPTION, _option),
    (MISSING, _missing),
    (CHOICE, _choice),
)
