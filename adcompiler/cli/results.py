"""What `adc run` prints and writes: one set of names for a table, lines, JSON and .npz."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adcompiler.errors import Error

TYPE = {"float64": "f64", "float32": "f32", "int64": "i64", "bool": "bool"}
SHOWN = 24  # numbers of an array; the rest is in --json and -o


@dataclass(frozen=True, slots=True)
class Results:
    """A value, or nested tuples of them, and the gradients asked for, by parameter."""

    value: Any
    grad: dict[str, Any] | None

    def named(self) -> dict[str, np.ndarray]:
        """Every array by its name: `value`, or `value_0`, `value_1`, ...; `grad_b1`, ..."""
        grads = {f"grad_{name}": np.asarray(value) for name, value in (self.grad or {}).items()}
        return dict(_flat("value", self.value)) | grads

    def fields(self) -> dict[str, Any]:
        """The value, and the gradients by parameter."""
        return {"value": self.value} | ({} if self.grad is None else {"grad": self.grad})

    def print(self) -> None:
        """A table on a terminal, else a line `name = value` each."""
        if sys.stdout.isatty():
            self._print_table()
        else:
            print("\n".join(_line(name, value) for name, value in self.named().items()))

    def _print_table(self) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        console = Console()
        named = {(name, _type(value)): value for name, value in self.named().items()}
        width = console.width - sum(max(map(len, column)) + 2 for column in zip(*named, strict=True))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("name", style="bold cyan", no_wrap=True)
        table.add_column("type", style="green", no_wrap=True)
        table.add_column("value", overflow="fold")
        for (name, kind), value in named.items():
            table.add_row(name, Text(kind), Text(_text(value, width)))
        console.print(table)

    def write(self, path: Path) -> None:
        """Write an .npz file: all of it, or nothing."""
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with open(part, "xb") as file:
                np.savez(file, **self.named())  # type: ignore[arg-type]
            os.replace(part, path)
        except OSError as error:
            remedy = "name a file in a folder that exists and can be written"
            raise Error(f"cannot write {path}: {error.strerror}", remedy=remedy) from error
        finally:
            part.unlink(missing_ok=True)


def _flat(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    if not isinstance(value, tuple):
        yield name, np.asarray(value)
        return
    for k, part in enumerate(value):
        yield from _flat(f"{name}_{k}", part)


def _type(value: np.ndarray) -> str:
    kind = TYPE.get(value.dtype.name, value.dtype.name)
    return f"{kind}[{', '.join(map(str, value.shape))}]" if value.ndim else kind


def _text(value: np.ndarray, width: int = 75) -> str:
    if not value.ndim:
        return repr(value.item())
    return np.array2string(value, max_line_width=width, threshold=SHOWN, edgeitems=3)


def _line(name: str, value: np.ndarray) -> str:
    """One line; the type of an array that is not shown whole follows it."""
    text = re.sub(r"\s*\n\s*", " ", _text(value))
    return f"{name} = {text}" + (f"  # {_type(value)}" if value.size > SHOWN else "")
