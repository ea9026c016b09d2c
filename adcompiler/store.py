"""Files on disk that save a later process work: generated source, machine code, the parser's table.

A file's name is a digest of all that its content follows from, so a file never changes once it is
there. Files are written beside their place and then moved to it: no process ever reads half a file.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path


def folder() -> Path:
    """`$ADC_CACHE_DIR`, else the platform's cache folder."""
    if given := os.environ.get("ADC_CACHE_DIR"):
        return Path(given)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(base) / "adcompiler" / "adcompiler" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "adcompiler"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "adcompiler"


def place(digest: str, ending: str) -> Path:
    """Where the file of a digest stands, in a folder that can be written."""
    return _writable(os.environ.get("ADC_CACHE_DIR")) / "kernels" / digest[:2] / f"{digest}{ending}"


@cache
def _writable(given: str | None) -> Path:
    """The cache folder, or one of this process alone where that cannot be written."""
    try:
        wanted = folder()
        (wanted / "kernels").mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted / "kernels"):
            return wanted
    except (OSError, RuntimeError):  # pathlib raises RuntimeError for a user without a home
        own = tempfile.mkdtemp(prefix="adcompiler-")
        atexit.register(shutil.rmtree, own, ignore_errors=True)
        return Path(own)


def write(path: Path, content: bytes) -> None:
    """Put `content` at `path` as a whole; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def kept(source: str, ending: str, make: Callable[[], bytes]) -> bytes:
    """What `make` makes of all that stands in `source`: from its file if that is whole, else made anew."""
    digest = sha256(source.encode())
    path = place(digest.hexdigest()[:32], ending)
    try:
        content = path.read_bytes()
        if content[:32] == sha256(digest.digest() + content[32:]).digest():
            return content[32:]
    except OSError:
        pass
    made = make()
    keep(source, ending, made)
    return made


def keep(source: str, ending: str, made: bytes) -> None:
    """Put what follows from `source` into its file, in place of what is there."""
    digest = sha256(source.encode())
    path = place(digest.hexdigest()[:32], ending)
    with suppress(OSError):  # where it cannot be written, the next process makes it again
        write(path, sha256(digest.digest() + made).digest() + made)


def contents() -> tuple[int, int]:
    """How many kernels, and tables, the cache folder holds, and the bytes of all their files."""
    files = [path for path in (folder() / "kernels").rglob("*") if path.is_file()]
    digests = {path.name.split(".")[0] for path in files if path.parent.name != "__pycache__"}
    return len(digests), sum(path.stat().st_size for path in files)


def clear() -> None:
    """Remove all files from the cache folder: they are made again when they are needed."""
    shutil.rmtree(folder() / "kernels", ignore_errors=True)
