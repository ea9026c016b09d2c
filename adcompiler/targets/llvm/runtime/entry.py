"""The entry point of a kernel, which takes words: of an array its address and lengths. Python's calls
(`words.py`), fast paths (`inline_cache.py`) and other languages use it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from adcompiler.ir.types import Dtype
from adcompiler.loopir import nodes as loopir
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.llvm.functions import Function, Module
from adcompiler.targets.llvm.instructions import CONTEXT, POLL, STATE, Instructions
from adcompiler.targets.llvm.libmvec import vectors
from adcompiler.targets.llvm.places import Places
from adcompiler.targets.llvm.tables import TYPES
from adcompiler.targets.llvm.values import ArrayValue, Needs, Value, literal

# Objects are i64 here: they are only passed through.
PYTHON = (
    "PyFloat_AsDouble", "PyLong_AsDouble", "PyLong_AsLongLong", "PyBytes_AsString",
    "PyTuple_GetItem", "PyTuple_New", "PyTuple_SetItem",
    "PyFloat_FromDouble", "PyLong_FromLongLong", "PyBool_FromLong", "PyObject_Vectorcall",
    "PyErr_Occurred", "PyErr_Clear", "Py_IncRef", "Py_DecRef",
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyMem_RawMalloc", "PyMem_RawFree",
    "PyThread_get_thread_ident", "PyErr_CheckSignals", "PyErr_ExceptionMatches", "PyExc_MemoryError",
)  # fmt: skip

_PARAMETER = re.compile(r"%p\d+\b")


class Param(NamedTuple):
    """A parameter of a kernel."""

    name: str
    dtype: Dtype
    lengths: tuple[int | None, ...] = ()  # None if unknown

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.lengths)


class Code(NamedTuple):
    """A module of LLVM IR, the C library functions it calls, and its exported functions."""

    text: str
    externals: frozenset[str]
    functions: Sequence[str]


class KernelSource(NamedTuple):
    """A kernel's functions after all transforms, the parameters and result types of its `run`, and the nests
    whose blocks may run in parallel. If there are any, `run` takes two more numbers: the address of the
    pool's `launch` and the number of threads; or 0 and 1. A `precise` kernel, or one without arrays, uses the
    scalar C library for all mathematics. The parameters from number `written` on are outputs. Blocks of the
    nests `short` have few points, unless the kernel is `heavy`."""

    functions: tuple[loopir.Function, ...]
    params: Sequence[Param]
    results: Sequence[Dtype]
    shared: Sequence[str] = ()
    precise: bool = False
    written: int = 0
    heavy: bool = False  # whether loops inside blocks poll
    low_trips: bool = False  # whether loops in iterations of program loops are short
    located: bool = False  # whether instructions have the marks of the loop IR
    short: Sequence[str] = ()
    ranks: Sequence[int] = ()  # of the results, if some are arrays that the kernel allocates


def translated(source: KernelSource, contiguous: bool) -> Code:
    """The function `packed(words, context, launch, threads)` as LLVM IR.

    Its parameters are words (for an array, the address and lengths, and strides unless it is contiguous), and
    results become the following words. It returns whether it gave up: allocation failed, or a signal handler
    raised.
    """
    return _for_words(source, contiguous, "i1", "packed")


def for_words(source: KernelSource, name: str) -> Code:
    """The same as the function `name`, for callers that are not Python: it returns a C integer."""
    return _for_words(source, True, "i32", name)


def _for_words(source: KernelSource, contiguous: bool, kind: str, name: str) -> Code:
    module = _module(source)
    given = [_unnamed(p, contiguous) for p in source.params]
    used = _define_run(module, source, given)
    parts = [p for g in given for p in g.parts]
    text = module.text(_packed(module, source, parts, used, kind, name))
    return Code(text, frozenset(module.needs.externals), (name,))


def _module(source: KernelSource) -> Module:
    module = Module(source.functions, source.shared, _needs(source))
    module.heavy, module.low_trips, module.short = source.heavy, source.low_trips, source.short
    return module


def _unnamed(param: Param, contiguous: bool = True) -> Value | ArrayValue:
    """A parameter of a type; of an array, the lengths that are known are constants."""
    kind = TYPES[param.dtype]
    if not param.rank:
        return Value("%given", kind)
    shape = tuple(Value("%given", "i64") if n is None else literal(n) for n in param.lengths)
    strides = None if contiguous else tuple(Value("%given", "i64") for _ in shape)
    return ArrayValue(Value("%given", "ptr"), kind, shape, strides)


def context(code: Instructions, releases: bool | Value) -> None:
    """The context of a call (`polls.py`); the thread `releases` Python's lock at once, or not yet."""
    code.needs.externals.add(POLL)
    code.needs.declared[POLL] = f"declare i1 @{POLL}(ptr)"
    code.stack.append(f"%context = alloca {CONTEXT}")
    thread = code.call("PyThread_get_thread_ident", "i64", [])
    for k, value in enumerate((Value(f"@{POLL}", "ptr"), literal(0), literal(0), literal(0), thread)):
        code.lines.append(f"store {value}, ptr {code.slot('%context', k)}")
    with code.when(releases if isinstance(releases, Value) else Value(str(int(releases)), "i1")):
        code.lines.append(
            f"store {code.call('PyEval_SaveThread', 'i64', [])}, ptr {code.slot('%context', STATE)}"
        )


def restored(code: Instructions) -> None:
    """Reacquire Python's lock, if the thread has released it."""
    state = code.load("%context", STATE, "i64")
    with code.when(code.emit(f"icmp ne {state}, 0", "i1")):
        code.call("PyEval_RestoreThread", "void", [state])


def _listed(values: Sequence[Value]) -> str:
    return ", ".join(map(str, values))


def _packed(
    module: Module, source: KernelSource, parts: Sequence[Value], used: Sequence[int], kind: str, name: str
) -> str:
    """`run` with parameters in words, the context of a call (`polls.py`), and threads: see `KernelSource`."""
    code = Function(module)
    given = [code.load("%words", k, parts[k].type) for k in used]
    extra = [Value(f"%{name}", "i64") for name in ("launch", "threads")] if source.shared else []
    results = Value(code.slot("%words", len(parts)), "ptr")
    extra += [Value("%words", "ptr"), results, Value("%context", "ptr")]
    failed = code.emit(f"call i1 @run({_listed([*given, *extra])})", "i1")
    if kind != "i1":
        failed = code.emit(f"zext {failed} to {kind}", kind)
    head = f"{kind} @{name}(ptr %words, ptr %context, i64 %launch, i64 %threads)"
    return code.definition(head, f"ret {failed}")


def _define_run(module: Module, source: KernelSource, given: Sequence[Value | ArrayValue]) -> list[int]:
    """The kernel as a function that stores its results and returns whether it gave up. LLVM knows that
    parameters do not alias; program loops are inside. Returns the numbers of the words that it takes."""
    parts = [p for g in given for p in g.parts]
    inside = module.function("run")
    module.words = {f"%p{k}": k for k in range(len(parts))}
    names = iter(module.words)
    for param, value in zip(source.params, given, strict=True):
        inside.bind(param.name, value.named(names))
    inside.run("run", given)
    results = [
        inside.cast(value, TYPES[dtype]) if isinstance(value, Value) else value
        for value, dtype in zip(inside.results, source.results, strict=True)
    ]
    for k, part in enumerate(p for r in results for p in r.parts):
        inside.lines.append(f"store {part}, ptr {inside.slot('%results', k)}")
    extra = ["i64 %launch", "i64 %threads"] if source.shared else []
    extra += ["ptr %words", "ptr noalias %results", "ptr %context"]
    body = {*_PARAMETER.findall("\n".join([*inside.stack, *inside.lines]))}
    used = [k for k in range(len(parts)) if f"%p{k}" in body]
    types = ("ptr noalias" if parts[k].type == "ptr" else parts[k].type for k in used)
    params = ", ".join([*(f"{t} %p{k}" for k, t in zip(used, types, strict=True)), *extra])
    if sum(isinstance(r, ArrayValue) for r in results) > len(inside.kept):
        raise UnsupportedError("a result that is an array of the caller")
    for name in (n for n in inside.heap if n not in inside.kept):  # in order: text is the cache key
        inside.free(name)
    alone = " noinline" if any(p.rank for p in source.params) else ""
    module.compiled["run"] = inside.definition(
        f"internal i1 @run({params}){alone}", "ret i1 false", "ret i1 true"
    )
    return used


def _needs(source: KernelSource) -> Needs:
    """The mathematics of a kernel: vectorised if it has arrays."""
    kinds = {p.dtype for p in source.params if p.rank}
    found = vectors() if kinds and not source.precise else None
    places = Places() if source.located else None
    return Needs(found, len(kinds - {"bool"}) > 1, not kinds <= {"f32", "bool"}, places)


def boxed(code: Instructions, value: Value) -> Value:
    """A Python object of a number."""
    if value.is_float:
        return code.call("PyFloat_FromDouble", "i64", [code.cast(value, "double")])
    function = "PyBool_FromLong" if value.type == "i1" else "PyLong_FromLongLong"
    return code.call(function, "i64", [code.cast(value, "i64")])
