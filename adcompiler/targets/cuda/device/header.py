"""The header of a generated module: only the imports and definitions that it uses."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from adcompiler.kernels.emit.names import CUDA

COMPILED = ("intrinsics", "mathematics")  # modules here that are compiled into kernels
OTHERS = (
    "adcompiler.loopir.intrinsics",
    "adcompiler.ops.rules.series",
    "adcompiler.ops.rules.bessel",
    "adcompiler.ops.rules.incomplete",
    "adcompiler.kernels.routines.library",
    "adcompiler.kernels.routines.decompositions",
)


def with_header(comment: str, text: str, fast: bool = False) -> str:
    """A module of generated kernels: `comment`, imports, and the `kernel` decorator.

    Arithmetic is IEEE with contraction; with `fast`, mathematics is approximate.
    """
    words = set(re.findall(r"\w+", text)) | {"cuda"}
    used = [n for n in CUDA if n in words]
    lines = [f"from adcompiler.targets.cuda.device.device import {', '.join(used)}"]
    for name in sorted({"_TILE", "_WARP"} & words):
        lines.append(f"from adcompiler.targets.cuda.device.device import {name[1:]} as {name}")
    if called := sorted(word for word in words if word.startswith("library_")):
        lines.append(f"from adcompiler.targets.cuda.device.device_library import {', '.join(called)}")
    lines += ["", f"kernel = cuda.jit({'fastmath=True' * fast})  # with {_digest()}"]
    return comment + "\n".join(lines) + "\n\n\n" + text


@cache
def _digest() -> str:
    """A digest of the code compiled into kernels, so that cached machine code depends on it."""
    package = Path(str(find_spec("adcompiler.targets.cuda.device.header").origin)).parent  # type: ignore[union-attr]
    files = [package / f"{name}.py" for name in COMPILED]
    files += [Path(str(find_spec(name).origin)) for name in OTHERS]  # type: ignore[union-attr]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:16]
