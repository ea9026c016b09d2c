"""Options of compilation."""

from __future__ import annotations

import re
from collections.abc import Sequence

from adcompiler.errors import Error
from adcompiler.lazy_dataclass import dataclass
from adcompiler.runtime.programs.backends import backend_of
from adcompiler.runtime.programs.splitting import PARTIALS, Save, checked_save

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `adc.compile`, checked; `memory` is in bytes."""

    strict: bool = False
    backend: str = "cpu"
    memory: int | None = None
    save: Save = PARTIALS
    checks: bool = True


def options(
    broadcasting: str,
    backend: str,
    memory: int | str | None = None,
    precise: bool = False,
    save: str | Sequence[str] = PARTIALS,
    unchecked: bool = False,
    threads: int | None = None,
) -> Options:
    """The options that these arguments mean; Error for what is none."""
    if broadcasting not in ("numpy", "strict"):
        raise Error(f"unknown broadcasting {broadcasting!r}", remedy='use "numpy" or "strict"')
    amount = None if memory is None else in_bytes(memory)
    kind = backend_of(backend, precise, threads)
    return Options(broadcasting == "strict", kind, amount, checked_save(save), not unchecked)


def in_bytes(amount: int | str) -> int:
    """An amount of memory in bytes: a number, or a text such as "64MB" or "1.5 GiB"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(amount))
    if found is None or found[2].upper() not in UNITS or isinstance(amount, bool | float):
        raise Error(f"{amount!r} is not a size of memory", remedy='write memory="64MB", or a number of bytes')
    return int(float(found[1]) * UNITS[found[2].upper()])
