"""Generated source on disk, where numba keeps the machine code beside it.

A file's name is the digest of its content and of the versions that compile it, so a file never
changes once it is there; numba adds the processor's features to its own keys.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from adcompiler.errors import Error

_lock = threading.RLock()


def folder() -> Path:
    """`$ADC_CACHE_DIR`, else the platform's cache folder."""
    if given := os.environ.get("ADC_CACHE_DIR"):
        return Path(given)
    from numba.misc.appdirs import user_cache_dir

    return Path(user_cache_dir("adcompiler", "adcompiler"))


def load(source: str) -> ModuleType:
    """Generated `source` as a module, executed from its file in the cache.

    The module is registered: numba's cached machine code looks its module up by name.
    """
    path = _written(source)
    name = f"_adcompiler_kernel_{path.stem}"
    with _lock:
        if name not in sys.modules:
            spec = spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        return sys.modules[name]


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
            f"cannot write the kernel cache: {error}",
            remedy="set ADC_CACHE_DIR to a folder that can be written",
        ) from error
    return path
