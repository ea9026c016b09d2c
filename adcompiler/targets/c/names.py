"""Names in generated C: those of the program, unless C has them."""

from __future__ import annotations

import re

from adcompiler.errors import Error
from adcompiler.targets.numba.ahead import HEADERS, KEYWORDS

MACROS = frozenset({
    "bool", "true", "false", "isnan", "isinf", "isfinite", "signbit", "linux", "unix", "i386", "NULL",
    "INT64_C", "INT64_MIN", "NAN", "INFINITY",
})  # fmt: skip
TAKEN = (KEYWORDS | HEADERS | MACROS) - {"bytes", "work", "code", "none", "failed", "temporary"}


def local(name: str) -> str:
    """The name of a variable or a parameter of the program, none of which begins with an underscore."""
    return f"_{name}" if name in TAKEN or name.startswith("adc_") else name


def check_name(name: str) -> None:
    """Raise an Error unless `name` can be the name of a C function."""
    taken = name in TAKEN
    if taken or not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        why = "C has the name" if taken else "names have letters, digits and _"
        free = "my_" + re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
        remedy = f"give the function another name: adc build --name {free}"
        raise Error(f"{name!r} cannot be the name of a C function: {why}", remedy=remedy)
