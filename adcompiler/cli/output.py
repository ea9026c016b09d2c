"""Output of a command: text, or with `--json` one object, whose fields docs/cli.md lists."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Protocol

import numpy as np
import typer

from adcompiler.lazy_dataclass import dataclass

AsJson = Annotated[
    bool,
    typer.Option(
        "--json", show_default=False,
        help='Print one JSON object, also for an error; infinities and NaN are "inf", "-inf" and "nan".',
    ),
]  # fmt: skip


class Answer(Protocol):
    """The result of a command, which prints itself or returns its fields."""

    def print(self) -> None: ...
    def fields(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Text:
    """An answer whose text is known."""

    text: str
    data: Mapping[str, Any]

    def print(self) -> None:
        """Print the text."""
        print(self.text)

    def fields(self) -> Mapping[str, Any]:
        """The fields for JSON."""
        return self.data


def is_json(args: Iterable[str]) -> bool:
    """Whether a command line asks for JSON: also one that cannot be parsed, whose error is JSON too."""
    for word in args:
        if word in ("--", "--json"):
            return word == "--json"
    return False


def as_json(value: Mapping[str, Any]) -> str:
    """One object on one line."""
    return json.dumps(plain(value), allow_nan=False, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Numbers, strings, lists and objects for JSON; arrays become lists, and non-finite numbers strings."""
    match value:
        case Mapping():
            return {str(k): plain(v) for k, v in value.items()}
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case float():
            return value if math.isfinite(value) else str(value)
        case None | bool() | int() | str():
            return value
        case Sequence():
            return [plain(part) for part in value]
        case _ if is_dataclass(value):
            return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    return str(value)
