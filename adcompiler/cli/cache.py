"""`adc cache`: where compiled kernels are kept."""

from __future__ import annotations

from typing import Annotated

import typer

from adcompiler import store
from adcompiler.cli.output import AsJson, Text

EXAMPLES = """\b
Examples:
  adc cache
  ADC_CACHE_DIR=/tmp/kernels adc cache --clear
"""


def show_cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove every kernel from it.")] = False,
    as_json: AsJson = False,
) -> Text:
    """Print or clear the cache of compiled kernels.

    Prints its folder, the number of kernels and their size. The folder is given by ADC_CACHE_DIR, or else by
    the platform. Kernels are compiled again when needed.
    """
    count, size = store.contents()
    if clear:
        store.clear()
    done = "removed " if clear else ""
    text = f"{store.folder()}: {done}{count} kernel{'s' * (count != 1)}, {_bytes(size)}"
    return Text(text, {"folder": str(store.folder()), "kernels": count, "bytes": size, "removed": clear})


def _bytes(size: float) -> str:
    """A number of bytes in the unit that suits it."""
    units = ["bytes", "KiB", "MiB", "GiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.3g} {units[0]}" if units[0] != "bytes" else f"{size:.0f} bytes"
