"""What one checkout makes of the corpus: texts of kernels, LLVM's modules, PTX and bits of results, as files.

It knows adcompiler by its public functions alone, so that it runs on any checkout; LLVM's modules are taken
where llvmlite is given them.

    python worker.py PROGRAMS FOLDER
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import re
import runpy
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[2]
VALUE = re.compile(r'%"[^"]*"|%[-\w.$]+|^[-\w.$]+(?=:)')
STAGES = ("ir", "forward", "propagate", "kernel", "ptx")


class Recorder:
    """LLVM's modules as they are parsed, their values numbered in order."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.lock = threading.Lock()

    def start(self) -> None:
        """Take every module from now on."""
        import llvmlite.binding as llvm

        parse = llvm.parse_assembly

        def recorded(text: str, *more: Any) -> Any:
            with self.lock:
                self.texts.append(renumbered(text))
            return parse(text, *more)

        llvm.parse_assembly = recorded

    def taken(self) -> str:
        """The modules since the last time, in an order that no thread decides."""
        with self.lock:
            found, self.texts = sorted(self.texts), []
        return "\n; ----\n".join(found)


def renumbered(text: str) -> str:
    """A module whose values and blocks are numbered as they come, function by function."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        name = match[0]
        label = not name.startswith("%")
        found = numbers.setdefault("%" + name if label else name, f"%{len(numbers)}")
        return found[1:] if label else found

    lines = []
    for line in text.splitlines():
        if line.startswith("define"):
            numbers.clear()
        head, comment, rest = VALUE.sub(number, line).partition(";")  # which stands in a column
        lines.append(head.rstrip() + " " * bool(comment) + comment + rest)
    return "\n".join(lines)


# -- what is made of a program ---------------------------------------------------------------------------


def artefacts(program: Any, recorder: Recorder) -> Iterator[tuple[str, str]]:
    """Names of files and their contents."""
    recorder.taken()
    if program.kind == "bench":
        yield "bits", "\n".join(digests(_workload(program.name)))
    elif program.kind == "examples":
        yield "bits", _script(program.name)
    else:
        yield from _compiled(program)
    yield "llvm", recorder.taken()


def _workload(name: str) -> Any:
    from bench.workloads import every

    workload = every()[name]
    return workload.ours(workload.arguments("tiny"), "cpu")()


def _script(name: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(str(HERE / "examples" / name), run_name="__main__")
    return re.sub(r"[\d.]+ (ms|s|us|µs)\b", "TIME", out.getvalue())


def _compiled(program: Any) -> Iterator[tuple[str, str]]:
    import adcompiler as adc

    f = adc.compile(program.text, static=program.static)
    args = program.args
    lines = [f"{what}: {line}" for what, value in _calls(adc, f, args) for line in digests(value)]
    yield "bits", "\n".join(lines)
    for stage in STAGES:
        yield stage, attempted(lambda stage=stage: f.show(stage, *args))


def _calls(adc: Any, f: Any, args: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Values and derivatives of both orders, or why there are none."""
    wrt = tuple(k for k, a in enumerate(args) if np.asarray(a).dtype.kind == "f")
    yield "value", (value := f(*args))
    yield "vjp", tried(lambda: adc.vjp(f, *args, wrt=wrt)[1](_like(value)))
    if not isinstance(value, tuple | list | dict) and np.ndim(value) == 0:
        ways = tuple(np.cos(np.asarray(args[k])).astype(np.asarray(args[k]).dtype) for k in wrt)
        yield "gradient", tried(lambda: adc.value_and_grad(f, wrt)(*args))
        yield "hvp", tried(lambda: adc.hvp(f, wrt)(args, ways))


def _like(value: Any) -> Any:
    """A cotangent nested like a value."""
    if isinstance(value, tuple | list):
        return type(value)(map(_like, value))
    if isinstance(value, dict):
        return {key: _like(part) for key, part in value.items()}
    array = np.asarray(value)
    return (
        np.cos(np.arange(array.size)).reshape(array.shape).astype(array.dtype)
        if array.dtype.kind == "f"
        else None
    )


def tried(make: Callable[[], Any]) -> Any:
    """What a call gives, or how it is refused."""
    try:
        return make()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def attempted(make: Callable[[], str]) -> str:
    """A text, or how it is refused."""
    return str(tried(make))


def digests(value: Any, path: str = "") -> Iterator[str]:
    """A line for each array: its type, its shape, a digest of its bits and its first numbers."""
    if isinstance(value, dict):
        value = tuple(value.items())
    if isinstance(value, tuple | list):
        for k, part in enumerate(value):
            yield from digests(part, f"{path}[{k}]")
    elif value is None or isinstance(value, str):
        yield f"{path} {value}"
    else:
        array = np.ascontiguousarray(value)
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        first = " ".join(repr(v) for v in array.reshape(-1)[:4].tolist())
        yield f"{path} {array.dtype}{list(np.shape(value))} {digest} {first}"


def main(programs: str, folder: str) -> None:
    """Write the artefacts of all programs below a folder."""
    recorder = Recorder()
    recorder.start()
    for program in pickle.loads(Path(programs).read_bytes()):
        place = Path(folder) / program.folder
        place.mkdir(parents=True, exist_ok=True)
        print(program.folder, flush=True)
        with np.errstate(all="ignore"):
            try:
                for name, text in artefacts(program, recorder):
                    (place / name).write_text(text + "\n", "utf-8")
            except Exception as error:
                (place / "error").write_text(f"{type(error).__name__}: {error}\n", "utf-8")


if __name__ == "__main__":
    os.environ.setdefault("ADC_NUM_THREADS", "1")
    sys.path += [str(HERE / "tests"), str(HERE)]  # behind the checkout, which PYTHONPATH names
    main(*sys.argv[1:])
