"""Inputs of a command: an existing file, or standard input, written `-`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from difflib import get_close_matches
from functools import lru_cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

from adcompiler.errors import Error
from adcompiler.lazy_dataclass import dataclass

STDIN = "-"
STARTS = ((b"\x93NUMPY", ".npy"), (b"PK\x03\x04", ".npz"))  # what arrays begin with where no name says so


@dataclass(frozen=True)
class Input:
    """A file or standard input: its `name` in messages, as it is `written` on the command line, and its kind
    as the ending of a file's name."""

    name: str
    written: str
    suffix: str
    open: Callable[[], BinaryIO]

    def __str__(self) -> str:
        return self.name

    def text(self) -> str:
        """All of it, with \\n at the ends of lines. Raises UnicodeDecodeError where it is not UTF-8."""
        with TextIOWrapper(self.open(), "utf-8-sig") as lines:
            return lines.read()


def existing(name: str) -> Input:
    """The input that `name` means; for a missing file, the error suggests a similar name."""
    if name == STDIN:
        data = _of_stdin(sys.stdin)
        suffix = next((suffix for start, suffix in STARTS if data.startswith(start)), "")
        return Input("<stdin>", STDIN, suffix, lambda: BytesIO(data))
    path = Path(name).expanduser()
    if path.is_dir():
        raise Error(f"{name} is a folder", remedy="give a file")
    if not path.exists():  # a pipe does: @/dev/stdin
        raise Error(f"there is no file {name}", remedy=_like(path))
    return Input(str(path), str(path), path.suffix, lambda: open(path, "rb"))


def _like(path: Path) -> str:
    files = [p.name for p in path.parent.glob("*") if p.is_file()] if path.parent.is_dir() else []
    near = get_close_matches(path.name, files, 1)
    return f"did you mean {path.with_name(near[0])}?" if near else f"the folder here is {Path.cwd()}"


@lru_cache(1)
def _of_stdin(stream: Any) -> bytes:
    """All of standard input, which can be read once: several columns of it may be asked for."""
    data: bytes = stream.buffer.read()
    return data
