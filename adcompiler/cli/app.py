"""The application: its commands, and how each of them ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from typing import Annotated

import typer
from typer.main import get_command

from adcompiler.cli import bench, build, cache, check, explain, show
from adcompiler.cli import run as run_verb
from adcompiler.cli.completion import join_words
from adcompiler.cli.errors import exit_code, report
from adcompiler.cli.output import Answer, as_json, is_json
from adcompiler.cli.source import Verb

EXAMPLES = """\b
Examples:
  adc run "a * sin(b)" --arg a=2 --arg b=0.5 --grad
  adc run model.adc:loss --arg b1=250 --arg @data.csv --grad b1 --json
  adc check model.adc:loss --arg b1=250 --arg b2=5e-4 --arg @data.csv
  adc show model.adc --stage propagate

\b
A SOURCE is an expression, a file (.adc or .py; its main definition), file:name,
or - for a program from standard input. With --json a command prints one JSON
object, also for an error. adc --install-completion sets up completion.
Exit codes: 0 success, 1 an error in the program or its data, 2 wrong usage.
"""

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def _version(wanted: bool) -> None:
    if wanted:
        from adcompiler import __version__

        print(f"adcompiler {__version__}")
        raise typer.Exit


@app.callback(epilog=EXAMPLES)
def options(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Compile formulas and functions together with their gradients."""


app.command("run", cls=run_verb.Run, epilog=run_verb.EXAMPLES)(run_verb.run_source)
app.command("check", cls=Verb, epilog=check.EXAMPLES)(check.check_source)
app.command("explain", cls=Verb, epilog=explain.EXAMPLES)(explain.explain_source)
app.command("show", cls=Verb, epilog=show.EXAMPLES)(show.show_source)
app.command("bench", cls=Verb, epilog=bench.EXAMPLES)(bench.bench_source)
app.command("build", cls=Verb, epilog=build.EXAMPLES)(build.build_source)
app.command("cache", epilog=cache.EXAMPLES)(cache.show_cache)


def run(args: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Every error is reported, a broken pipe is silent."""
    join_words(os.environ)
    words = sys.argv[1:] if args is None else list(args)
    wants_json = is_json(words)
    try:
        code = _answered(words, wants_json)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left has no reader
        return 1
    except Exception as error:
        report(error, words, wants_json)
        return exit_code(error)
    return code


def _answered(words: list[str], wants_json: bool) -> int:
    """Print what a verb answers; with JSON, whatever else prints goes to stderr."""
    with redirect_stdout(sys.stderr) if wants_json else nullcontext():
        answer = _finished(words)
        text = None if answer is None or isinstance(answer, int) or not wants_json else answer.fields()
    if isinstance(answer, int) or answer is None:
        return answer or 0
    if text is not None:
        print(as_json(text))
    else:
        answer.print()
    return 0


def _finished(words: list[str]) -> Answer | int | None:
    """What a verb returns; the exit code of what ends by itself, such as `--help`."""
    try:
        answer: Answer | int | None = get_command(app).main(words, prog_name="adc", standalone_mode=False)
        return answer
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except typer.Abort:
        print("Aborted!", file=sys.stderr)
        return 1
