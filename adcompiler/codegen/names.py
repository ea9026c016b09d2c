"""Identifiers of generated code: a user's name can never be a keyword or one of the code's own names."""

from __future__ import annotations

import keyword
import re

_OWN = re.compile(
    r"[vijc]\d+|turn\d+\w*|nest\d+\w*|part\d+|blocks\d*|rows\d*|block|start|stop|run\w*|library_\w*|_.*"
)
_GLOBALS = frozenset(
    ("math", "np", "njit", "prange", "range", "min", "max", "abs", "round", "uint64", "int64", "jit",
     "parallel", "reduce_add", "reduce_max", "reduce_min", "rsqrt", "select", "fma", "ticks", "bessel",
     "series", "add_rn", "sub_rn", "mul_rn", "div_rn", "narrow",
     "call", "carray", "cfunc", "entry", "need", "types", "scalars",
     "True", "False", "None", "print", "bool", "int", "float", "len")
)  # fmt: skip


class Names:
    """Hands out identifiers, each once."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def fresh(self, wanted: str) -> str:
        """An ASCII identifier as close to `wanted` as can be."""
        name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in wanted)
        if not name or name[0].isdigit():
            name = "x" + name
        if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in _GLOBALS or _OWN.fullmatch(name):
            name = f"{name.lstrip('_')}_"
        base, k = name, 2
        while name in self.taken:
            name, k = f"{base}_{k}", k + 1
        self.taken.add(name)
        return name
