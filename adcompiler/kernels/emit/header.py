"""The top of a generated module: what its text uses, and no more."""

from __future__ import annotations

import re

from adcompiler.kernels.emit.reserved_words import NUMBA, SPECIAL
from adcompiler.loopir.intrinsics import INTRINSICS

OPTIONS = 'error_model="numpy", fastmath={"contract"}, nogil=True'


def with_header(comment: str, text: str) -> str:
    """A module of generated functions: `comment`, imports, and the decorator `jit`."""
    words = set(re.findall(r"\w+", text))
    lines = [f"import {name}" for name in ("math",) if name in words]
    lines += ["import numpy as np"] if "np" in words else []
    lines.append(f"from numba import {', '.join(n for n in NUMBA if n in words | {'njit'})}")
    if used := [n for n in INTRINSICS if n in words]:
        lines.append(f"from adcompiler.targets.numba.intrinsics import {', '.join(used)}")
    if used := [n for n in SPECIAL if f"{n}." in text]:
        lines.append(f"from adcompiler.targets.numba.special import {', '.join(used)}")
    if called := sorted(word for word in words if word.startswith("library_")):
        lines.append(f"from adcompiler.targets.numba.special import {', '.join(called)}")
    lines.append("")
    lines += [f"jit = njit({OPTIONS})"] if "@jit" in text else []
    return comment + "\n".join(lines) + "\n\n" + text
