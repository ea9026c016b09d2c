"""A content-addressed cache on disk, verified and private: machine code, the parser's table, measurements.

The name of a file is the digest of everything its content follows from, so the file never changes. It begins
with a digest of its content: incomplete files are not used. Files that others can write are neither read nor
written, because machine code in them is executed. If reading or writing fails, for example because the disk
is full, the content is simply made again.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from adcompiler.errors import Error

DIGEST_BYTES = 32  # bytes, in front of the content
STALE_SECONDS = 3600  # seconds after which nobody writes a temporary file any more
_notified: list[Path] = []  # what the user was told of: once is enough


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


def kept(source: str, ending: str, make: Callable[[], bytes]) -> bytes:
    """The result of `make` for `source`: from its file if that is intact, otherwise made again."""
    content = find(source, ending)
    if content is None:
        content = make()
        keep(source, ending, content)
    return content


def find(source: str, ending: str) -> bytes | None:
    """What is kept of all that stands in `source`, or None."""
    digest = sha256(source.encode())
    path = _place(digest.hexdigest()[:32], ending)
    with suppress(OSError):
        content = _read(path) if path is not None else b""
        if content[:DIGEST_BYTES] == sha256(digest.digest() + content[DIGEST_BYTES:]).digest():
            return content[DIGEST_BYTES:]
    return None


def keep(source: str, ending: str, made: bytes) -> None:
    """Put what follows from `source` into its file, in place of what is there, if that can be."""
    digest = sha256(source.encode())
    path = _place(digest.hexdigest()[:32], ending)
    if path is not None:
        with suppress(OSError):  # where it cannot be written, the next process makes it again
            _write(path, sha256(digest.digest() + made).digest() + made)


def contents() -> tuple[int, int]:
    """How many kernels, and tables, the cache folder holds, and the bytes of all their files."""
    files = [path for path in (folder() / "kernels").rglob("*") if path.is_file()]
    digests = {path.name.split(".")[0] for path in files if ".tmp" not in path.name}
    return len(digests), sum(path.stat().st_size for path in files)


def clear() -> None:
    """Remove all files from the cache folder: they are made again when they are needed."""
    if not _is_ours(folder()):
        raise Error(f"{folder()} belongs to another user", remedy="set ADC_CACHE_DIR to a folder of your own")
    shutil.rmtree(folder() / "kernels", ignore_errors=True)


def _place(digest: str, ending: str) -> Path | None:
    """Where the file of a digest stands: in the cache folder, in a private one, or nowhere."""
    for root in _roots():
        path = root / digest[:2] / f"{digest}{ending}"
        if _may_use(path.parent) and _may_use(path):
            _sweep_top(root)
            return path
    return None


def _roots() -> Iterator[Path]:
    """The folders in which files are kept, the first that can be used first."""
    if (shared := _shared(os.environ.get("ADC_CACHE_DIR"))) is not None:
        yield shared
    if (private := _private()) is not None:
        yield private


@cache
def _shared(given: str | None) -> Path | None:
    """The folder for files in the cache folder, unless it cannot be written, or others may write it."""
    try:
        root = folder() / "kernels"
        _make(root)
        usable = _may_use(root.parent) and _may_use(root) and os.access(root, os.W_OK)
        return root if usable else None
    except (OSError, RuntimeError):  # pathlib raises RuntimeError for a user without a home
        return None


@cache
def _private() -> Path | None:
    """A folder of this process alone, removed when it ends."""
    try:
        own = Path(tempfile.mkdtemp(prefix="adcompiler-"))
    except OSError:
        return None
    process = os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # and not a fork of it
            shutil.rmtree(own, ignore_errors=True)

    atexit.register(remove)
    return own


def _make(root: Path) -> None:
    """A folder and those around it, if they are not there, for this user alone; raises OSError."""
    for made in (root.parent.parent, root.parent, root):
        made.mkdir(mode=0o700, parents=True, exist_ok=True)


def _may_use(path: Path) -> bool:
    """Whether only this user can have written the file or folder, if it exists; otherwise warn."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    if _alone(found):
        return True
    if not _notified:
        _notified.append(path)
        other = "belongs to another user" if found.st_uid != os.geteuid() else "can be written by other users"
        warnings.warn(
            f"adcompiler does not use its cache: {path} {other}. Kernels are kept in a private folder until "
            "this process ends.\n  help: remove it, or set ADC_CACHE_DIR to a folder that only you can write",
            stacklevel=2,
        )
    return False


def _alone(found: os.stat_result) -> bool:
    """Whether only this user may write this; Windows keeps a user's folders apart by other means."""
    return os.name == "nt" or (found.st_uid == os.geteuid() and not found.st_mode & 0o022)


def _is_ours(path: Path) -> bool:
    try:
        return os.name == "nt" or path.stat().st_uid == os.geteuid()
    except OSError:
        return True


def _read(path: Path) -> bytes:
    """The bytes of a file, if it is one and this user's alone; raises OSError."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe must not hang us
    with os.fdopen(os.open(path, flags), "rb") as file:
        found = os.fstat(file.fileno())
        return file.read() if stat.S_ISREG(found.st_mode) and _alone(found) else b""


def _write(path: Path, content: bytes) -> None:
    """Put `content` at `path` as a whole: beside it first, then moved; raises OSError."""
    root = path.parent.parent
    _make(path.parent)
    _sweep_all(root)
    handle, temporary = tempfile.mkstemp(prefix=f"{os.getpid()}-", suffix=".tmp", dir=root)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


@cache
def _sweep_top(root: Path) -> None:
    """Remove what killed writers left: once a process, where the files stand that are being written."""
    _sweep(root)


@cache
def _sweep_all(root: Path) -> None:
    """The same in each folder inside, where earlier versions wrote: once a process that writes."""
    with suppress(OSError):
        for entry in os.scandir(root):
            if entry.is_dir(follow_symlinks=False):
                _sweep(Path(entry.path))


def _sweep(place: Path) -> None:
    with suppress(OSError):
        for entry in os.scandir(place):
            if ".tmp" in entry.name and not _is_written(entry):
                os.unlink(entry.path)


def _is_written(entry: os.DirEntry[str]) -> bool:
    """Whether a process that runs may be writing this file. If one of another machine is, it only keeps
    nothing."""
    if time.time() - entry.stat().st_mtime > STALE_SECONDS:
        return False
    process = entry.name.partition("-")[0]
    if os.name == "nt" or not process.isdecimal():
        return os.name == "nt"
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
