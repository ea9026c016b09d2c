"""Generated source on disk, where numba keeps the machine code beside it.

A file's name is the digest of its content and of the versions that compile it, so a file never
changes once it is there; numba adds the processor's features to its own keys.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import threading
from functools import cache
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


def contents() -> tuple[int, int]:
    """How many kernels the cache folder holds, and the bytes of all their files."""
    kernels = folder() / "kernels"
    files = [path for path in kernels.rglob("*") if path.is_file()]
    return sum(path.suffix == ".py" for path in files), sum(path.stat().st_size for path in files)


def clear() -> None:
    """Remove all kernels from the cache folder: they are compiled again when they are needed."""
    shutil.rmtree(folder() / "kernels", ignore_errors=True)


def _module_name(path: Path) -> str:
    return f"_adcompiler_kernel_{path.stem}"


@cache
def _routines() -> str:
    """The digest of what generated modules import from here, and hold as machine code."""
    here = Path(__file__).parent
    return hashlib.sha256(
        b"".join((here / f"{n}.py").read_bytes() for n in ("intrinsics", "library"))
    ).hexdigest()


def _path(source: str) -> Path:
    import llvmlite
    import numba

    versions = f"{numba.__version__} {llvmlite.__version__} {_routines()}"
    digest = hashlib.sha256(f"{versions}\n{source}".encode()).hexdigest()[:32]
    return _writable() / "kernels" / digest[:2] / f"{digest}.py"


@cache
def _folder_of(given: str | None) -> Path:
    """The cache folder, or one of this process alone where that cannot be written."""
    wanted = folder()
    try:
        (wanted / "kernels").mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted / "kernels"):
            return wanted
    except OSError:
        own = tempfile.mkdtemp(prefix="adcompiler-")
        atexit.register(shutil.rmtree, own, ignore_errors=True)
        return Path(own)


def _writable() -> Path:
    return _folder_of(os.environ.get("ADC_CACHE_DIR"))


def _written(source: str) -> Path:
    """The file of a generated source, which holds just that."""
    path = _path(source)
    if path.exists() and path.read_text("utf-8") == source:
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
