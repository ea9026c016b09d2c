"""Generated source on disk, where numba keeps the machine code beside it.

A file's name is the digest of its content and of the versions that compile it, so a file never
changes once it is there; numba adds the processor's features to its own keys.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from adcompiler.errors import Error


def folder() -> Path:
    """`$ADC_CACHE_DIR`, else the platform's cache folder."""
    if given := os.environ.get("ADC_CACHE_DIR"):
        return Path(given)
    from numba.misc.appdirs import user_cache_dir

    return Path(user_cache_dir("adcompiler", "adcompiler"))


def load(source: str) -> dict[str, Any]:
    """The names that generated `source` defines, executed from its file in the cache."""
    path = _written(source)
    namespace: dict[str, Any] = {"__name__": f"adc_{path.stem}", "__file__": str(path)}
    exec(compile(source, str(path), "exec"), namespace)  # our own text: users' names are mangled in it
    return namespace


def _written(source: str) -> Path:
    import llvmlite
    import numba

    versions = f"{numba.__version__} {llvmlite.__version__}"
    digest = hashlib.sha256(f"{versions}\n{source}".encode()).hexdigest()[:32]
    path = folder() / "kernels" / digest[:2] / f"{digest}.py"
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(source)
        os.replace(temporary, path)
    except OSError as error:
        raise Error(
            f"cannot write the kernel cache: {error}", remedy="set ADC_CACHE_DIR to a folder that can be written"
        ) from error
    return path
