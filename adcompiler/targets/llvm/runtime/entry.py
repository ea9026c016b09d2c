"""Entry points of a kernel: for Python (objects) and for the fast path (`inline_cache.py`: extracted values).

The machine code unpacks numbers and arrays itself, through Python's stable C interface and the header of
NumPy arrays, which is equally stable: extension modules read it in the same way. A call costs little more
than one of `math.exp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.loopir import nodes as loopir
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.llvm.functions import Function, Module
from adcompiler.targets.llvm.instructions import CONTEXT, POLL, STATE, Instructions
from adcompiler.targets.llvm.libmvec import vectors
from adcompiler.targets.llvm.places import Places
from adcompiler.targets.llvm.tables import BYTES, TYPES
from adcompiler.targets.llvm.values import ArrayValue, Needs, Value, literal

# Objects are i64 here: they are only passed through.
PYTHON = (
    "PyFloat_AsDouble", "PyLong_AsDouble", "PyLong_AsLongLong", "PyObject_IsTrue", "PyBytes_AsString",
    "PyTuple_GetItem", "PyTuple_New", "PyTuple_SetItem", "PyList_New", "PyList_SetItem",
    "PyFloat_FromDouble", "PyLong_FromLongLong", "PyBool_FromLong", "PyObject_Vectorcall",
    "PyByteArray_FromStringAndSize",
    "PyErr_Occurred", "PyErr_Clear", "PyErr_NoMemory", "PyErr_BadArgument", "Py_IncRef", "Py_DecRef",
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyMem_RawMalloc", "PyMem_RawFree",
    "PyThread_get_thread_ident", "PyErr_CheckSignals", "PyErr_ExceptionMatches", "PyExc_MemoryError",
)  # fmt: skip


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
    """A module of LLVM IR, the C library functions it calls, and its exported functions. The loops of a
    `plain` one are as they shall run, so LLVM only cleans up. The functions `apart` may be compiled apart."""

    text: str
    externals: frozenset[str]
    functions: Sequence[str]
    plain: bool = False
    apart: Sequence[str] = ()


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


def translated(source: KernelSource, contiguous: bool) -> Code:
    """The function `entry(self, arguments, count)` as LLVM IR: unbox, compute, box.

    It returns False if arrays that must be contiguous are not. It calls `packed(words, context, launch,
    threads)`, as the fast path does: its parameters are words (for an array, the address and lengths), and
    results become the following words. That returns whether it gave up: allocation failed, or a signal
    handler raised.
    """
    module = _module(source)
    given = [_unnamed(p, contiguous) for p in source.params]
    results = _define_run(module, source, given)
    parts = [p for g in given for p in g.parts]
    linkage = "" if contiguous else "internal "
    packed = _packed(module, source, parts, f"{linkage}i1 @packed")
    entry = _entry(module, source, results, contiguous)
    exported = ("entry", "packed") if contiguous else ("entry",)
    return Code(
        module.text(f"{packed}\n{entry}"), frozenset(module.needs.externals), exported, apart=module.regions
    )


def _entry(
    module: Module, source: KernelSource, results: Sequence[Value | ArrayValue], contiguous: bool
) -> str:
    """The function that Python calls."""
    code = Function(module)
    count = len(source.params) + 2 * bool(source.shared)
    with code.when(code.emit(f"icmp ne i64 %count, {count}", "i1")):
        code.lines.append(f"ret {code.call('PyErr_BadArgument', 'i64', [])}")
        code.begin(f"{code.label()}_never")
    objects = [code.load("%args", k, "i64") for k in range(count)]
    first = _unboxed(code, source.params, objects, contiguous)
    shared = [_number(code, value, "i64") for value in objects[len(source.params) :]] or [
        literal(0),
        literal(1),
    ]
    with code.when(code.emit(f"icmp ne {code.call('PyErr_Occurred', 'i64', [])}, 0", "i1")):
        code.lines.append("ret i64 0")
        code.begin(f"{code.label()}_never")
    code.stack.append(f"%words = alloca [{first + sum(len(r.parts) for r in results) or 1} x i64]")
    context(code, any(p.rank for p in source.params))
    passed = [Value("%words", "ptr"), Value("%context", "ptr"), *(shared or (literal(0), literal(1)))]
    failed = code.emit(f"call i1 @packed({_listed(passed)})", "i1")
    restored(code)
    with code.when(failed):
        with code.when(code.emit(f"icmp ne {code.call('PyErr_Occurred', 'i64', [])}, 0", "i1")):
            code.lines.append("ret i64 0")  # a signal handler raised
            code.begin(f"{code.label()}_never")
        code.lines.append(f"ret {code.call('PyErr_NoMemory', 'i64', [])}")
        code.begin(f"{code.label()}_never")
    made = _boxed_all(code, results, first)
    return code.definition("i64 @entry(i64 %self, ptr %args, i64 %count)", f"ret {made}")


def _unboxed(code: Function, params: Sequence[Param], objects: Sequence[Value], contiguous: bool) -> int:
    """Write the words of parameters, given as Python objects; returns their number. Returns False to Python
    if an array is not contiguous and aligned, where that is demanded."""
    numbers: list[tuple[int, Value, Dtype]] = []
    guards: list[Value] = []
    first = 0
    for param, given in zip(params, objects, strict=False):
        if not param.rank:
            numbers.append((first, given, param.dtype))
            first += 1
            continue
        unpack = _unpacking(code.module, param.rank, contiguous)
        size, place = literal(NUMPY[param.dtype].itemsize), Value(code.slot("%words", first), "ptr")
        guards.append(code.emit(f"call i1 @{unpack}({given}, {size}, {place})", "i1"))
        first += 1 + param.rank * (1 if contiguous else 2)
    if guards and contiguous:
        with code.when(code.emit(f"xor {code.both('and', guards)}, true", "i1")):
            code.lines.append(f"ret {code.call('PyBool_FromLong', 'i64', [literal(0)])}")
            code.begin(f"{code.label()}_never")  # unreachable after a return
    for word, given, dtype in numbers:
        code.lines.append(f"store {_number(code, given, dtype)}, ptr {code.slot('%words', word)}")
    return first


def for_words(source: KernelSource, name: str) -> Code:
    """The function `name(words, context, launch, threads)`, for callers that are not Python: `packed`, which
    returns a C integer."""
    module = _module(source)
    given = [_unnamed(p) for p in source.params]
    _define_run(module, source, given)
    parts = [p for g in given for p in g.parts]
    text = module.text(_packed(module, source, parts, f"i32 @{name}"))
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


def _boxed_all(code: Function, results: Sequence[Value | ArrayValue], first: int) -> Value:
    """The list of results, which begin with the word `first`: numbers, and the bytes and lengths of arrays
    that the kernel allocates."""
    parts = [p for r in results for p in r.parts]
    slots = iter([code.load("%words", k, p.type) for k, p in enumerate(parts, first)])
    made = code.call("PyList_New", "i64", [literal(len(results))])
    for k, result in enumerate(results):
        words = [next(slots) for _ in result.parts]
        value = boxed(code, words[0]) if isinstance(result, Value) else _boxed_array(code, result, words)
        code.call("PyList_SetItem", "i32", [made, literal(k), value])
    return made


def _boxed_array(code: Function, array: ArrayValue, words: Sequence[Value]) -> Value:
    """A tuple of the bytes of an array and its lengths; its memory is freed."""
    data, *lengths = words
    size = literal(BYTES[array.type])
    for n in lengths:
        size = code.product(size, n)
    contents = code.call("PyByteArray_FromStringAndSize", "i64", [data, size])
    code.call("PyMem_RawFree", "void", [data])
    with code.when(code.emit(f"icmp eq {contents}, 0", "i1")):
        code.lines.append("ret i64 0")
        code.begin(f"{code.label()}_never")
    made = code.call("PyTuple_New", "i64", [literal(1 + len(lengths))])
    for k, item in enumerate((contents, *(boxed(code, n) for n in lengths))):
        code.call("PyTuple_SetItem", "i32", [made, literal(k), item])
    return made


def _listed(values: Sequence[Value]) -> str:
    return ", ".join(map(str, values))


def _packed(module: Module, source: KernelSource, parts: Sequence[Value], head: str) -> str:
    """`run` with parameters in words, the context of a call (`polls.py`), and threads: see `KernelSource`."""
    code = Function(module)
    given = [code.load("%words", k, p.type) for k, p in enumerate(parts)]
    extra = [Value(f"%{name}", "i64") for name in ("launch", "threads")] if source.shared else []
    results = Value(code.slot("%words", len(parts)), "ptr")
    extra += [Value("%words", "ptr"), results, Value("%context", "ptr")]
    failed = code.emit(f"call i1 @run({_listed([*given, *extra])})", "i1")
    if head.startswith("i32"):
        failed = code.emit(f"zext {failed} to i32", "i32")
    return code.definition(f"{head}(ptr %words, ptr %context, i64 %launch, i64 %threads)", f"ret {failed}")


def _define_run(
    module: Module, source: KernelSource, given: Sequence[Value | ArrayValue]
) -> list[Value | ArrayValue]:
    """The kernel as a function that stores its results and returns whether it gave up. LLVM knows that
    parameters do not alias; program loops are inside. Returns the results."""
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
    types = ("ptr noalias" if p.type == "ptr" else p.type for p in parts)
    params = ", ".join([*(f"{t} %p{k}" for k, t in enumerate(types)), *extra])
    if sum(isinstance(r, ArrayValue) for r in results) > len(inside.kept):
        raise UnsupportedError("a result that is an array of the caller")
    for name in (n for n in inside.heap if n not in inside.kept):  # in order: text is the cache key
        inside.free(name)
    alone = " noinline" if any(p.rank for p in source.params) else ""
    module.compiled["run"] = inside.definition(
        f"internal i1 @run({params}){alone}", "ret i1 false", "ret i1 true"
    )
    return results


def _needs(source: KernelSource) -> Needs:
    """The mathematics of a kernel: vectorised if it has arrays."""
    kinds = {p.dtype for p in source.params if p.rank}
    found = vectors() if kinds and not source.precise else None
    places = Places() if source.located else None
    return Needs(found, len(kinds - {"bool"}) > 1, not kinds <= {"f32", "bool"}, places)


def _number(code: Function, given: Value, dtype: Dtype) -> Value:
    """The number in a Python object."""
    if dtype == "bool":
        return code.emit(f"icmp ne {code.call('PyObject_IsTrue', 'i32', [given])}, 0", "i1")
    if dtype == "i64":
        return code.call("PyLong_AsLongLong", "i64", [given])
    return code.cast(code.call("PyFloat_AsDouble", "double", [given]), TYPES[dtype])


def boxed(code: Instructions, value: Value) -> Value:
    """A Python object of a number."""
    if value.is_float:
        return code.call("PyFloat_FromDouble", "i64", [code.cast(value, "double")])
    function = "PyBool_FromLong" if value.type == "i1" else "PyLong_FromLongLong"
    return code.call(function, "i64", [code.cast(value, "i64")])


def _unpacking(module: Module, rank: int, contiguous: bool) -> str:
    """The function that writes the words of an array of a rank: its address and lengths, and its strides
    unless it has to be contiguous. It returns whether it is contiguous and aligned. A NumPy array's header
    has: data, rank, lengths, strides in bytes.

    Arrays share it: each inlined copy would take as much compile time as a loop.
    """
    name = f"unpack{rank}"
    if name not in module.compiled:
        code = Function(module)
        head = code.emit(f"add i64 %array, {object.__basicsize__}", "i64")  # of NumPy's own fields
        data, _, lengths, strides = (_word(code, head, k) for k in range(4))
        counts, steps = ([_word(code, at, k) for k in range(rank)] for at in (lengths, strides))
        for k, word in enumerate((data, *counts, *(() if contiguous else steps))):
            code.lines.append(f"store {word}, ptr {code.slot('%place', k)}")
        rest = code.emit(f"and {data}, {code.emit('sub i64 %size, 1', 'i64').text}", "i64")
        guards, empty, expected = [], [], Value("%size", "i64")
        for n, step in zip(reversed(counts), reversed(steps), strict=True):
            alone = code.emit(f"icmp sle {n}, 1", "i1")
            guards.append(code.both("or", [alone, code.emit(f"icmp eq {step}, {expected.text}", "i1")]))
            empty.append(code.same(n, 0))  # strides of empty arrays are arbitrary
            expected = code.emit(f"mul {expected}, {n.text}", "i64")
        beside = code.both("or", [*empty, code.both("and", guards)])
        text = f"internal i1 @{name}(i64 %array, i64 %size, ptr %place) noinline"
        module.compiled[name] = code.definition(text, f"ret {code.both('and', [code.same(rest, 0), beside])}")
    return name


def _word(code: Function, address: Value, k: int) -> Value:
    """The integer number `k` at an address."""
    place = code.emit(f"inttoptr i64 {code.emit(f'add {address}, {8 * k}', 'i64').text} to ptr", "ptr")
    return code.emit(f"load i64, ptr {place.text}", "i64")
