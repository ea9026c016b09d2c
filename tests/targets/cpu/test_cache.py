"""The kernel cache: damaged files are replaced, and what others may write is not used; without a place to
write everything works as well."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import store
from adcompiler.targets.numba import modules as cache

# The last three are compiled by numba.
PROGRAM = """
import adcompiler as adc, numba
g = adc.compile('gamma(x)', backend='numba')
jitted = g.jitted
twice = numba.njit(lambda x: jitted(x))(4.0)
print(adc.compile('x * exp(y) + 3')(1.0, 0.0), g(4.0), g.cfunc.ctypes(4.0), twice)
"""
ANSWER = "4.0 6.0 6.0 6.0"
# For what is of the folder, whoever compiles.
NATIVE = "import adcompiler as adc; print(adc.compile('x * exp(y) + 3')(1.0, 0.0))"
ANSWERS = {PROGRAM: ANSWER, NATIVE: "4.0"}


def start(
    folder: str | Path, prepare: Callable[[], None] | None = None, program: str = PROGRAM, **env: str
) -> subprocess.Popen[str]:
    """A fresh process with the cache in `folder`."""
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ADC_CACHE_DIR": str(folder), **env},
        preexec_fn=prepare,
    )


def answer(process: subprocess.Popen[str]) -> str:
    """What it computes, without a word about the cache."""
    out, errors = process.communicate()
    assert not errors, errors
    return out.strip()


def noticed(folder: Path, program: str) -> str:
    """The one notice of a process that computes the right answer."""
    out, errors = start(folder, program=program).communicate()
    assert out.strip() == ANSWERS[program], errors
    assert errors.count("adcompiler does not use its cache") == 1, errors
    return errors


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds all that the program needs."""
    folder = tmp_path_factory.mktemp("whole")
    assert answer(start(folder)) == ANSWER
    return folder


@pytest.fixture
def filled(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(whole, tmp_path / "filled"))


def files(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def replaced(whole: bytes) -> bytes:
    return b"x"


def emptied(whole: bytes) -> bytes:
    return b""


def with_another_end(whole: bytes) -> bytes:
    return whole[:-1] + bytes([whole[-1] ^ 1])


def with_another_middle(whole: bytes) -> bytes:
    middle = len(whole) // 2
    return whole[:middle] + bytes([whole[middle] ^ 16]) + whole[middle + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [replaced, emptied, with_another_end, with_another_middle])
def test_damaged_files_are_replaced(filled, damage):
    before = files(filled)
    assert {file.suffix for file in before} == {".nbc", ".o"}
    for file, content in before.items():
        file.write_bytes(damage(content))
    assert answer(start(filled)) == ANSWER
    assert all(file.read_bytes() != damage(content) for file, content in before.items())


def test_a_second_process_compiles_nothing(filled):
    before = files(filled)
    assert answer(start(filled)) == ANSWER
    assert files(filled) == before


class Trap:
    """A pickle that leaves a mark where it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("kept", [0, store.DIGEST_BYTES])
def test_nothing_is_unpickled_before_its_digest_matched(filled, tmp_path, kept):
    before = files(filled)
    for file, content in before.items():
        file.write_bytes(content[:kept] + pickle.dumps(Trap(tmp_path / "mark")))
    damaged = files(filled)
    assert answer(start(filled)) == ANSWER
    assert not (tmp_path / "mark").exists()
    assert all(content != damaged[file] for file, content in files(filled).items())


def test_without_the_parsers_table_it_is_made_and_kept(tmp_path):
    another = "import lark; lark.__version__ = '0'\n"
    another += "from adcompiler.frontend.grammar.parse import parse\nparse('x + 1')"
    assert not answer(start(tmp_path, program=another))
    (table,) = tmp_path.rglob("*.table")
    assert table.read_bytes()[store.DIGEST_BYTES :].startswith(b'{"data":')  # plain data
    written = table.stat().st_mtime_ns
    assert not answer(start(tmp_path, program=another))
    assert table.stat().st_mtime_ns == written


def reader(where: str) -> str:
    """Files are numba's or ours; a folder is refused before anybody looks for one."""
    return PROGRAM if where.endswith("/*/*") else NATIVE


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("where", "mode"),
    [("", 0o777), ("", 0o775), ("kernels", 0o1777), ("kernels/*", 0o777), ("kernels/*/*", 0o664)],
)
def test_what_others_may_write_is_neither_used_nor_written(filled, where, mode):
    opened = list(filled.glob(where)) if where else [filled]
    for path in opened:
        path.chmod(mode)
    before = files(filled)
    assert str(filled) in noticed(filled, reader(where))
    assert files(filled) == before


@pytest.mark.thinned(2)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("where", ["", "kernels", "kernels/*", "kernels/*/*"])
def test_what_is_another_users_is_neither_used_nor_written(filled, where):
    for path in list(filled.glob(where)) if where else [filled]:
        os.chown(path, 12345, 12345)
    before = files(filled)
    assert "belongs to another user" in noticed(filled, reader(where))
    assert files(filled) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_is_another_users_is_not_cleared(tmp_path, monkeypatch):
    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path))
    (tmp_path / "kernels").mkdir()
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(adc.Error, match="belongs to another user"):
        store.clear()
    assert (tmp_path / "kernels").exists()


EITHER = pytest.mark.parametrize("program", [NATIVE, pytest.param(PROGRAM, marks=pytest.mark.slow)])


@EITHER
def test_folders_are_made_for_their_user_alone(tmp_path, program):
    made = start(tmp_path / "a" / "b", lambda: os.umask(0) and None, program)
    assert answer(made) == ANSWERS[program]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in files(tmp_path)} == {0o600}


@EITHER
def test_a_pipe_in_place_of_a_file_is_not_waited_for(filled, program):
    for file in files(filled):
        file.unlink()
        os.mkfifo(file, 0o600)
    assert answer(start(filled, program=program)) == ANSWERS[program]


def no_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@pytest.mark.slow
def test_where_no_file_may_have_content_all_works(tmp_path):
    assert answer(start(tmp_path, no_files, TMPDIR=str(tmp_path))) == ANSWER
    assert not files(tmp_path)


@pytest.mark.slow
def test_where_folders_cannot_be_made_all_works(tmp_path):
    (tmp_path / "kernels").mkdir(0o700)
    for number in range(256):
        (tmp_path / "kernels" / f"{number:02x}").touch()
    assert answer(start(tmp_path, TMPDIR="/proc/nowhere")) == ANSWER


@pytest.mark.parametrize("call", ["mkstemp", "mkdtemp"])
@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG])
def test_a_full_disk_is_done_without(tmp_path, monkeypatch, call, problem):
    def full(*args: object, **options: object) -> None:
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path if call == "mkstemp" else "/proc/nowhere"))
    monkeypatch.setattr(tempfile, call, full)
    store._private.cache_clear()
    assert store.kept(f"full {problem}", ".test", lambda: b"made") == b"made"
    assert cache.load("from numba import njit\n\n\n@njit\ndef run(x):\n    return x + 1\n").run(1) == 2
    store._private.cache_clear()


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    "left", ["{dead}-abc.tmp", "tmpabc.tmp", "a8/tmpabc.tmp", "a8/kernel.nbi.tmp.0123456789abcdef"]
)
def test_what_killed_writers_left_is_removed(tmp_path, left):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for folder in ("kernels", "kernels/a8"):
        (tmp_path / folder).mkdir(mode=0o700)
    (tmp_path / "kernels" / left.format(dead=ended.pid)).touch()
    written = tmp_path / "kernels" / f"{os.getpid()}-abc.tmp"
    old = tmp_path / "kernels" / f"{os.getpid()}-old.tmp"
    written.touch()
    old.touch()
    os.utime(old, (time.time() - 2 * store.STALE_SECONDS,) * 2)
    assert answer(start(tmp_path, program=NATIVE)) == ANSWERS[NATIVE]
    assert list(tmp_path.rglob("*.tmp*")) == [written], "only what a living process may be writing"


def test_the_private_folder_is_removed_by_its_process_only(tmp_path):
    program = """
import os, sys
from adcompiler import store
store.keep("a", ".test", b"b")
if (child := os.fork()) == 0:
    sys.exit()
os.waitpid(child, 0)
print(store.find("a", ".test") == b"b")
"""
    assert answer(start("/proc/nowhere", program=program, TMPDIR=str(tmp_path))) == "True"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_many_processes_at_once(tmp_path):
    processes = [start(tmp_path) for _ in range(3)]
    assert [answer(process) for process in processes] == [ANSWER] * 3
    assert not list(tmp_path.glob("kernels/**/*.tmp"))


@EITHER
def test_a_folder_that_cannot_be_written_is_done_without(program):
    assert answer(start("/proc/nowhere", program=program)) == ANSWERS[program]


def test_what_is_kept_is_made_once_and_belongs_to_its_source(tmp_path, monkeypatch):
    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path))
    made = []

    def make() -> bytes:
        made.append(1)
        return b"content %d" % len(made)

    assert [store.kept(source, ".test", make) for source in ("a", "a", "b", "a")] == [
        b"content 1", b"content 1", b"content 2", b"content 1"
    ]  # fmt: skip
    a, b = (next(tmp_path.glob(f"kernels/*/{store.sha256(s).hexdigest()[:32]}.test")) for s in (b"a", b"b"))
    a.write_bytes(b.read_bytes())  # whole, but of another source
    assert store.kept("a", ".test", make) == b"content 3"


def test_the_folder_is_the_one_asked_for_else_the_platforms(monkeypatch, tmp_path):
    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path / "own"))
    assert store.folder() == tmp_path / "own"
    monkeypatch.delenv("ADC_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.folder() == tmp_path / "adcompiler"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert store.folder() == tmp_path / "adcompiler" / "adcompiler" / "Cache"


def test_nothing_is_compiled_that_nobody_called(monkeypatch, tmp_path):
    first = adc.compile("x * 7.75")
    (
        first(np.ones(3)),
        first(np.ones(100_000)),
    )  # what all functions share is compiled: the fast path, the pool
    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path))

    def count():
        return len(list(tmp_path.rglob("*.o")))

    f = adc.compile("def f(x, y):\n    t = x * y + 7.25\n    return sin(t) * t, t * y")
    split, x = f.split(), np.linspace(0, 1, 100_000)
    assert count() == 0
    f(x, x)  # on all threads
    assert count() == 1
    f(x[:9], x[:9])  # on one
    assert count() == 1
    f(x[::-2], x[::2])
    assert count() == 2
    _, saved = split.forward(x, x)
    assert count() == 3
    split.propagate(saved, (x, x))
    assert count() == 4
    split.propagate(saved, (None, x))
    split.propagate(saved, (None, x))
    assert count() == 5
