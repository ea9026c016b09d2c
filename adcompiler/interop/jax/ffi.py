"""Handlers of XLA's foreign function interface: machine code that calls a kernel, without Python.

A handler is written in LLVM for one kernel and its lengths, using the layout of `XLA_FFI_CallFrame`
in XLA's C interface (`xla/ffi/api/c_api.h`, which comes with jaxlib). It takes the addresses of arrays out of
the call frame, calls the kernel's `packed`, and returns failed checks as XLA errors. Temporaries are an
additional result, whose memory XLA provides.

The name of a target is derived from the content of its kernel and its handler. XLA's disk caches store only
the name, so they never lead to other code.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import jax

from adcompiler.fork import Locked
from adcompiler.interpreter.reference import extent
from adcompiler.ir.nodes import Input
from adcompiler.ir.types import NUMPY
from adcompiler.kernels.emit.call_plan import Kind
from adcompiler.lazy_dataclass import dataclass
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.cpu.kernels import kernel_at
from adcompiler.targets.cpu.threads import region
from adcompiler.targets.llvm.runtime.entry import Code
from adcompiler.targets.llvm.runtime.jit import keep_alive, linked

MAJOR = 0  # the version of the interface with this layout
API, STAGE, ARGS, RETS = 16, 32, 72, 112  # offsets in a call frame, in bytes
DATA_OFFSET = 24  # of the address in a buffer
CREATE_ERROR_OFFSET = 48  # of the function that creates errors in XLA_FFI_Api
EXECUTE, OUT_OF_RANGE, EXHAUSTED = 3, 11, 8
ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class Target:
    """A registered handler, and the size in bytes of its last result, the temporaries."""

    name: str
    scratch: int


_registered: dict[str, Target] = {}
_registering = Locked()


def target(executable: Any, sizes: Sequence[int]) -> Target | None:
    """The target that XLA calls for a program with these lengths. None if only Python can call it: on other
    systems, and for programs computed by numba or NumPy."""
    kernel = kernel_at(executable, sizes)
    if _version() is None or not isinstance(kernel, CpuKernel) or kernel.native is None:
        return None
    given = zip(kernel.func.results, kernel.plan.results, strict=True)
    if kernel.plan.computed or any(r.rank and place.kind is Kind.INPUT for r, place in given):
        return None
    handler = _Handler(kernel, sizes)
    text = handler.text()
    name = f"adc_{sha256(repr((kernel.source, text)).encode()).hexdigest()[:40]}"
    with _registering.lock:
        if name not in _registered:
            try:
                library = linked(Code(text, frozenset(), ("handler",)), handler.symbols)
            except UnsupportedError:
                return None
            keep_alive((library, kernel.native))
            jax.ffi.register_ffi_target(name, _capsule(library["handler"]), platform="cpu")
            _registered[name] = Target(name, handler.scratch)
    return _registered[name]


@cache
def _version() -> tuple[int, int] | None:
    """The version of jaxlib's interface, if its layout is this one."""
    try:
        header = (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()
        found = [int(re.findall(rf"#define XLA_FFI_API_{n} (\d+)", header)[0]) for n in ("MAJOR", "MINOR")]
    except (AttributeError, OSError, IndexError):
        return None
    return (found[0], found[1]) if found[0] == MAJOR else None


def _capsule(address: int) -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(address, None, None)


class _Handler:
    """The text of a handler."""

    def __init__(self, kernel: CpuKernel, sizes: Sequence[int]) -> None:
        assert kernel.native is not None
        self.func, self.plan = kernel.func, kernel.plan
        blocks, parallel, needed, _ = kernel.layout(tuple(sizes))
        launch, self.threads = region(kernel.threads) if parallel else (0, 1)
        self.symbols = {"kernel": kernel.native.packed} | ({"launch": launch} if launch else {})
        self.lines: list[str] = []
        inputs = [extent(i.shape, sizes) for i in self.func.inputs]
        for k, word in enumerate(self.plan.frame(sizes, inputs, [shape for shape, _ in needed], blocks)):
            self.store("i64", str(word), k)
        for k, (given, word) in enumerate(zip(self.func.inputs, self.plan.words.inputs, strict=True)):
            self.operand(k, given, word)
        self.scratch = self.buffers([prod(shape) * dtype.itemsize for shape, dtype in needed])

    # -- before the call -----------------------------------------------------------------------

    def store(self, kind: str, value: str, word: int) -> None:
        """Store a word of the kernel's call."""
        self.lines.append(f"store {kind} {value}, ptr {self.place('%words', 8 * word)}")

    def operand(self, k: int, given: Input, word: int) -> None:
        """Store an array's address, or the value of a number."""
        data, kind = self.data("%args", k), WORDS[NUMPY[given.dtype].itemsize]
        self.store(*(("ptr", data) if given.rank else (kind, self.load(kind, data))), word)

    def buffers(self, sizes: Sequence[int]) -> int:
        """Store the addresses of results and temporaries; returns the bytes of temporaries."""
        results = enumerate(self.plan.results)
        places = {r.number: k for k, r in reversed([*results]) if r.kind is Kind.BUFFER}
        taken = 0
        for p, (size, word) in enumerate(zip(sizes, self.plan.words.buffers, strict=True)):
            if p in places:
                self.store("ptr", self.data("%rets", places[p]), word)
            else:
                self.store("ptr", self.place(self.data("%rets", len(self.plan.results)), taken), word)
                taken += max(-(-size // ALIGNMENT_BYTES), 1) * ALIGNMENT_BYTES  # at least one unit if empty
        return taken

    # -- behind it -----------------------------------------------------------------------------

    def results(self) -> None:
        """Copy numbers to XLA's results."""
        for k, result in enumerate(self.plan.results):
            if result.kind is Kind.BUFFER:
                continue
            kind = WORDS[NUMPY[result.dtype].itemsize]
            if result.kind is Kind.INPUT:
                source = self.data("%args", result.number)
            else:
                source = self.place("%words", 8 * self.plan.words.returned[result.number])
            self.lines.append(f"store {kind} {self.load(kind, source)}, ptr {self.data('%rets', k)}")

    def fails(self, guard: str, code: int, message: str) -> str:
        """Emit the return of an error if a guard holds; returns the constant with its message."""
        text, k = message.encode() + b"\0", len(self.lines)
        bytes_ = "".join(f"\\{b:02X}" for b in text)
        self.lines += [
            f"br i1 {guard}, label %fails{k}, label %holds{k}",
            f"fails{k}:",
            f"%error{k} = call ptr @error(ptr %frame, ptr @message{k}, i32 {code})",
            f"ret ptr %error{k}",
            f"holds{k}:",
        ]
        return f'@message{k} = internal constant [{len(text)} x i8] c"{bytes_}"'

    def text(self) -> str:
        """The LLVM module as text."""
        launch = "ptrtoint (ptr @launch to i64)" if "launch" in self.symbols else "0"
        self.lines.append(
            f"%failed = call i1 @kernel(ptr %words, ptr %context, i64 {launch}, i64 {self.threads})"
        )
        func = self.func
        messages = [self.fails("%failed", EXHAUSTED, f"{func.name} needs more memory than available")]
        for check, value in zip(func.checks, self.plan.checks, strict=True):
            word = self.load("i64", self.place("%words", 8 * self.plan.words.returned[value]))
            guard = self.made(f"icmp eq i64 {word}, 0")
            error = check.error(check.cause, remedy=check.remedy, source=func.source, span=check.span)
            messages.append(self.fails(guard, OUT_OF_RANGE, str(error)))
        self.results()
        version = _version()
        assert version is not None
        words = self.plan.words.count + 1
        names = {"$MAJOR": version[0], "$MINOR": version[1], "$WORDS": words}
        text = TEXT
        for name, value in names.items():
            text = text.replace(name, str(value))
        declared = "declare void @launch()" if "launch" in self.symbols else ""
        return text.replace("$BODY", "\n".join(self.lines)) + "\n".join([declared, *messages, ""])

    # -- instructions --------------------------------------------------------------------------

    def made(self, instruction: str) -> str:
        """Emit an instruction; returns the name of its result."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {instruction}")
        return name

    def load(self, kind: str, place: str) -> str:
        """The value at an address."""
        return self.made(f"load {kind}, ptr {place}")

    def place(self, base: str, offset: int) -> str:
        """The address at an offset in bytes."""
        return self.made(f"getelementptr i8, ptr {base}, i64 {offset}")

    def data(self, base: str, k: int) -> str:
        """The address of an operand's or a result's array."""
        return self.load("ptr", self.place(self.load("ptr", self.place(base, 8 * k)), DATA_OFFSET))


WORDS = {1: "i8", 4: "i32", 8: "i64"}  # by the size of a number in bytes
TEXT = f"""
declare i1 @kernel(ptr, ptr, i64, i64)

define internal ptr @error(ptr %frame, ptr %message, i32 %code) {{
  %args = alloca [4 x i64]
  store i64 28, ptr %args
  %extension = getelementptr i64, ptr %args, i64 1
  store ptr null, ptr %extension
  %text = getelementptr i64, ptr %args, i64 2
  store ptr %message, ptr %text
  %number = getelementptr i64, ptr %args, i64 3
  store i32 %code, ptr %number
  %at = getelementptr i8, ptr %frame, i64 {API}
  %api = load ptr, ptr %at
  %place = getelementptr i8, ptr %api, i64 {CREATE_ERROR_OFFSET}
  %create = load ptr, ptr %place
  %made = call ptr %create(ptr %args)
  ret ptr %made
}}

define ptr @handler(ptr %frame) {{
start:
  %behind = getelementptr i64, ptr %frame, i64 1
  %extension = load ptr, ptr %behind
  %none = icmp eq ptr %extension, null
  br i1 %none, label %staged, label %asked
asked:
  %at.kind = getelementptr i64, ptr %extension, i64 1
  %kind = load i32, ptr %at.kind
  %metadata = icmp eq i32 %kind, 1
  br i1 %metadata, label %described, label %staged
described:
  %at.data = getelementptr i64, ptr %extension, i64 3
  %data = load ptr, ptr %at.data
  %at.major = getelementptr i8, ptr %data, i64 24
  store i32 $MAJOR, ptr %at.major
  %at.minor = getelementptr i8, ptr %data, i64 28
  store i32 $MINOR, ptr %at.minor
  %at.traits = getelementptr i8, ptr %data, i64 32
  store i32 0, ptr %at.traits
  ret ptr null
staged:
  %at.stage = getelementptr i8, ptr %frame, i64 {STAGE}
  %stage = load i32, ptr %at.stage
  %now = icmp eq i32 %stage, {EXECUTE}
  br i1 %now, label %run, label %done
done:
  ret ptr null
run:
  %words = alloca [$WORDS x i64], align 64
  %context = alloca [5 x i64]
  store [5 x i64] zeroinitializer, ptr %context
  %at.args = getelementptr i8, ptr %frame, i64 {ARGS}
  %args = load ptr, ptr %at.args
  %at.rets = getelementptr i8, ptr %frame, i64 {RETS}
  %rets = load ptr, ptr %at.rets
$BODY
  ret ptr null
}}
"""
