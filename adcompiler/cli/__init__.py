"""The command line, `adc`: one file per command. It needs Typer and Rich: `adcompiler[cli]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run one command, by default that of `sys.argv`; returns its exit code."""
    try:
        from adcompiler.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("rich", "typer"):
            raise
        print('adc needs Typer and Rich: pip install "adcompiler[cli]"', file=sys.stderr)
        return 2
    return run(args)
