"""Generated source on disk, where numba keeps the machine code beside it.

A file's name is the digest of its content and of the versions that compile it, so a file never
changes once it is there; numba adds the processor's features to its own keys.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from adcompiler import store
from adcompiler.errors import Error

_lock = threading.RLock()


def load(source: str) -> ModuleType:
    """Generated `source` as a module, executed from its file in the cache.

    The module is registered: numba's cached machine code looks its module up by name.
    """
    path = _written(source)
    name = _module_name(path)
    with _lock:
        if name not in sys.modules:
            spec = spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
        return sys.modules[name]


def forget(source: str) -> None:
    """Remove generated source and its machine code from the cache: a file of it is damaged."""
    path = _path(source)
    with _lock:
        sys.modules.pop(_module_name(path), None)
        for damaged in (path, *path.parent.glob(f"__pycache__/{path.stem}*")):
            damaged.unlink(missing_ok=True)


def _module_name(path: Path) -> str:
    return f"_adcompiler_kernel_{path.stem}"


def _path(source: str) -> Path:
    import llvmlite
    import numba

    versions = f"{numba.__version__} {llvmlite.__version__}{_library()}"
    digest = hashlib.sha256(f"{versions}\n{source}".encode()).hexdigest()[:32]
    return store.place(digest, ".py")


@cache
def _library() -> str:
    """The digest of our own modules that are compiled into kernels: numba does not look at those."""
    from adcompiler.codegen import intrinsics, library, special

    modules = (intrinsics, library, special, special.series, special.bessel)
    files = (module.__file__ for module in modules)
    return hashlib.sha256(b"".join(Path(str(f)).read_bytes() for f in files)).hexdigest()


def _written(source: str) -> Path:
    """The file of a generated source, which holds just that."""
    path = _path(source)
    if path.exists() and path.read_text("utf-8") == source:
        return path
    try:
        store.write(path, source.encode())
    except OSError as error:
        raise Error(
            f"cannot write the kernel cache: {error}",
            remedy="set ADC_CACHE_DIR to a folder that can be written",
        ) from error
    return path
