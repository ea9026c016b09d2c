"""Identifiers of generated code. User names never clash with keywords or with names of the generated code."""

from __future__ import annotations

import keyword
import re

from adcompiler.loopir.intrinsics import INTRINSICS

_OWN = re.compile(
    r"[vijc]\d+|iteration\d+\w*|nest\d+\w*|part\d+|blocks\d*|rows\d*|block|start|stop|run\w*|library_\w*|_.*"
)
NUMBA = ("carray", "njit", "types", "uint64")
SPECIAL = ("bessel", "incomplete", "series")
CUDA = (
    "add_rn", "bessel", "cuda", "div_rn", "fma", "incomplete", "math", "mul_rn", "narrow", "np", "reduce_add",
    "reduce_max", "reduce_min", "rsqrt", "select", "series", "sub_rn", "uint64", "wide",
    *(f"_{team}_{what}" for team in ("block", "warp") for what in ("max", "min", "prod", "sum", "sync")),
)  # fmt: skip
DEFINED = ("call", "cfunc", "entry", "int64", "jit", "kernel", "need", "parallel", "prange", "scalars")
PYTHON = (
    "False", "None", "True", "abs", "bool", "float", "int", "len", "max", "min", "print", "range", "round",
)  # fmt: skip
RESERVED = frozenset((*NUMBA, *INTRINSICS, *SPECIAL, *CUDA, *DEFINED, *PYTHON))


class Names:
    """Generates unique identifiers."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def fresh(self, wanted: str) -> str:
        """An ASCII identifier as close to `wanted` as possible."""
        name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in wanted)
        if not name or name[0].isdigit():
            name = "x" + name
        if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in RESERVED or _OWN.fullmatch(name):
            name = f"{name.lstrip('_')}_"
        base, k = name, 2
        while name in self.taken:
            name, k = f"{base}_{k}", k + 1
        self.taken.add(name)
        return name
