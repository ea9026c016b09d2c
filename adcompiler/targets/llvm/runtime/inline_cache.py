"""Fast-path dispatch of a kernel, which Python takes for arguments like those of the last call.

Everything is then known beforehand: lengths, blocks of nests, memory, nesting of results. It checks
arguments, fills in addresses and numbers, calls the kernel and nests its results, without running Python
code. In all other cases, including errors, it calls the *general* path with the same arguments.

All fast paths share one machine code. The `self` of one makes it that of a kernel: a tuple of a table, as
bytes, the general path, and the objects whose addresses are in the table. The table consists of words:

    arguments, makers, words, checks, outputs   the number of each
    kernel, loops                               the address of its `packed`; whether Python's lock is released
    per argument: class, place, how, rank       the word that it goes to; the dtype, or its conversion; for
                                                known values, the value replaces the class
    per maker: object, place                    it makes an array, whose address goes to that word
    words                                       the kernel's: lengths follow the array's address
    checks                                      numbers of words that must not be zero afterwards
    per output: what, which, class              results, in postfix order: a tuple pops its parts off a stack
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from adcompiler.ir.types import Dtype
from adcompiler.targets.llvm.functions import Module
from adcompiler.targets.llvm.instructions import Instructions
from adcompiler.targets.llvm.limits import MOST_WORDS
from adcompiler.targets.llvm.runtime.entry import Code, boxed, context, restored
from adcompiler.targets.llvm.tables import TYPES
from adcompiler.targets.llvm.values import Value, literal

HEAD_WORDS = 7  # words
SIZES = ARGUMENT, MAKER, WORD, CHECK, OUTPUT = 4, 2, 1, 1, 3  # words of an entry of each part
TUPLE, ARRAY, *KINDS = range(6)  # kinds of outputs; numbers by their type
NUMBERS: dict[Dtype, int] = dict(zip(TYPES, KINDS, strict=True))
SAME, FROM_FLOAT, TO_FLOAT, TO_INTEGER = range(4)  # conversions of arguments that are not arrays
CARRAY = 0x101  # NumPy's flags for contiguous and aligned arrays
DATA, RANK, LENGTHS, DTYPE, FLAGS = 0, 1, 2, 5, 6  # words of NumPy's array header


class _FastPath(Instructions):
    """Loads and stores of words, and branches to exits."""

    def at(self, base: Value, k: Value | int, kind: str = "i64") -> Value:
        """A word; `base` is a pointer."""
        return self.emit(f"load {kind}, ptr {self.place(base, k).text}", kind)

    def place(self, base: Value, k: Value | int) -> Value:
        """The address of a word."""
        number = k.text if isinstance(k, Value) else k
        return self.emit(f"getelementptr i64, ptr {base.text}, i64 {number}", "ptr")

    def put(self, base: Value, k: Value | int, value: Value) -> None:
        """Store a word."""
        self.lines.append(f"store {value}, ptr {self.place(base, k).text}")

    def pointer(self, word: Value) -> Value:
        return self.emit(f"inttoptr {word} to ptr", "ptr")

    def holds(self, how: str, x: Value, y: Value | int) -> Value:
        return self.emit(f"icmp {how} {x}, {y.text if isinstance(y, Value) else y}", "i1")

    def sum(self, x: Value, y: Value | int) -> Value:
        return self.emit(f"add {x}, {y.text if isinstance(y, Value) else y}", "i64")

    def insist(self, guard: Value, otherwise: str = "general") -> None:
        """Branch to `otherwise` if `guard` does not hold."""
        label = f"{self.label()}_so"
        self.lines.append(f"br {guard}, label %{label}, label %{otherwise}")
        self.begin(label)

    @contextmanager
    def each(self, first: Value | int, count: Value, size: int = 1) -> Iterator[tuple[Value, Value]]:
        """Iterate over the entries of a part of the table; yields the number and address of each."""
        with self.iterations(literal(0), count) as k:
            offset = self.emit(f"mul {k}, {size}", "i64")
            yield k, self.place(Value("%table", "ptr"), self.sum(offset, first))


def fast_path() -> Code:
    """The function `entry(self, arguments, count, names)` as LLVM IR."""
    module = Module(())
    code = _FastPath(module.needs)
    own = Value("%own", "ptr")
    for name in ("own", "made", "stack"):
        code.stack.append(f"%{name} = alloca [{MOST_WORDS} x i64], align 64")
    code.stack += ["%top = alloca i64", "store i64 0, ptr %top"]
    code.stack += ["%started = alloca i64", "store i64 0, ptr %started"]
    table = code.call("PyTuple_GetItem", "i64", [Value("%self", "i64"), literal(0)])
    text = code.call("PyBytes_AsString", "i64", [table]).text
    code.lines.append(f"%table = inttoptr i64 {text} to ptr")
    count, makers, words, checks, outputs, kernel, loops = (
        code.at(Value("%table", "ptr"), k) for k in range(HEAD_WORDS)
    )
    code.insist(code.holds("eq", Value("%count", "i64"), count))
    code.insist(code.holds("eq", Value("%names", "i64"), 0))
    from_makers = code.sum(code.emit(f"mul {count}, {ARGUMENT}", "i64"), HEAD_WORDS)
    from_words = code.sum(code.emit(f"mul {makers}, {MAKER}", "i64"), from_makers)
    from_checks = code.sum(from_words, words)
    from_outputs = code.sum(from_checks, checks)
    with code.each(from_words, words) as (k, place):
        code.put(own, k, code.at(place, 0))
    with code.each(HEAD_WORDS, count, ARGUMENT) as (k, place):
        _argument(code, code.at(Value("%args", "ptr"), k), *(code.at(place, n) for n in range(ARGUMENT)))
    with code.each(from_makers, makers, MAKER) as (k, place):
        _make(code, k, *(code.at(place, n) for n in range(MAKER)))
    _run(code, kernel, loops)
    with code.each(from_checks, checks) as (_, place):
        code.insist(code.holds("ne", code.at(own, code.at(place, 0)), 0), "failed")
    with code.each(from_outputs, outputs, OUTPUT) as (_, place):
        _output(code, *(code.at(place, n) for n in range(OUTPUT)))
    _forget(code)
    result = code.at(Value("%stack", "ptr"), 0)
    code.lines.append(f"ret {result}")
    code.begin("nothing")  # no array: allocation failed, or a signal handler raised
    code.needs.declared["PyExc_MemoryError"] = "@PyExc_MemoryError = external global i64"
    kind = code.emit("load i64, ptr @PyExc_MemoryError", "i64")
    matches = code.call("PyErr_ExceptionMatches", "i32", [kind])
    code.insist(code.emit(f"icmp ne {matches}, 0", "i1"), "raised")
    code.lines.append("br label %failed")
    code.begin("raised")
    _forget(code)
    code.lines.append("ret i64 0")
    code.begin("failed")  # the general path raises the error with its message
    _forget(code)
    code.call("PyErr_Clear", "void", [])
    code.lines.append("br label %general")
    code.begin("general")
    general = code.call("PyTuple_GetItem", "i64", [Value("%self", "i64"), literal(1)])
    given = [Value("%args", "ptr"), Value("%count", "i64"), Value("%names", "i64")]
    end = f"ret {code.call('PyObject_Vectorcall', 'i64', [general, *given])}"
    entry = code.definition("i64 @entry(i64 %self, ptr %args, i64 %count, i64 %names)", end)
    return Code(module.text(entry), frozenset(code.needs.externals), ("entry",))


def _head(code: _FastPath, array: Value) -> Value:
    """The NumPy fields of an array object, after Python's own header."""
    return code.pointer(code.sum(array, object.__basicsize__))


def _argument(code: _FastPath, given: Value, kind: Value, place: Value, how: Value, rank: Value) -> None:
    """Unpack a number, or an array's address, from an argument of the expected type."""
    own = Value("%own", "ptr")
    same = code.holds("eq", how, SAME)
    found = code.select(same, given, code.at(code.pointer(given), object.__basicsize__ // 8 - 1))
    code.insist(code.holds("eq", found, kind))
    with code.when(code.holds("eq", how, FROM_FLOAT)):
        code.put(own, place, code.call("PyFloat_AsDouble", "double", [given]))
    for whole, function, type_ in (
        (TO_FLOAT, "PyLong_AsDouble", "double"),
        (TO_INTEGER, "PyLong_AsLongLong", "i64"),
    ):
        with code.when(code.holds("eq", how, whole)):
            code.put(own, place, code.call(function, type_, [given]))
            code.insist(code.holds("eq", code.call("PyErr_Occurred", "i64", []), 0), "failed")
    with code.when(code.holds("ugt", how, TO_INTEGER)):
        head = _head(code, given)
        code.insist(code.holds("eq", code.at(head, DTYPE), how))
        code.insist(code.holds("eq", _half(code, head, RANK), rank))
        flags = code.emit(f"and {_half(code, head, FLAGS)}, {CARRAY}", "i64")
        code.insist(code.holds("eq", flags, CARRAY))
        lengths, known = code.pointer(code.at(head, LENGTHS)), code.sum(place, 1)
        with code.iterations(literal(0), rank) as axis:
            expected = code.at(own, code.sum(known, axis))
            code.insist(code.holds("eq", code.at(lengths, axis), expected))
        code.put(own, place, code.at(head, DATA))


def _make(code: _FastPath, k: Value, maker: Value, place: Value) -> None:
    """Allocate array number `k`, for a result or a temporary."""
    nothing = [Value("null", "ptr"), literal(0), literal(0)]
    array = code.call("PyObject_Vectorcall", "i64", [maker, *nothing])
    code.insist(code.holds("ne", array, 0), "nothing")
    code.put(Value("%made", "ptr"), k, array)
    code.lines.append(f"store {code.sum(k, 1)}, ptr %started")
    code.put(Value("%own", "ptr"), place, code.at(_head(code, array), DATA))


def _run(code: _FastPath, kernel: Value, loops: Value) -> None:
    """Call the kernel; if it has loops, other threads may run meanwhile."""
    context(code, code.holds("ne", loops, 0))
    gave_up = code.emit(f"call i1 {code.pointer(kernel).text}(ptr %own, ptr %context, i64 0, i64 1)", "i1")
    restored(code)
    with code.when(gave_up):
        raised = code.holds("ne", code.call("PyErr_Occurred", "i64", []), 0)
        code.lines.append(f"br {raised}, label %raised, label %failed")
        code.begin(f"{code.label()}_never")


def _half(code: _FastPath, base: Value, k: int) -> Value:
    """The number in the first half of a word."""
    return code.emit(f"sext i32 {code.at(base, k, 'i32').text} to i64", "i64")


def _output(code: _FastPath, what: Value, which: Value, kind: Value) -> None:
    """Push a result on the stack, or gather the last ones into a tuple."""
    own, made, stack = (Value(name, "ptr") for name in ("%own", "%made", "%stack"))
    top = code.at(Value("%top", "ptr"), 0)
    with code.when(code.holds("eq", what, ARRAY)):
        array = code.at(made, which)
        code.call("Py_IncRef", "void", [array])
        code.put(stack, top, array)
    for dtype, mark in NUMBERS.items():
        with code.when(code.holds("eq", what, mark)):
            code.put(stack, top, boxed(code, code.at(own, which, TYPES[dtype])))
    with code.when(code.holds("ne", kind, 0)):  # call a NumPy class with the number
        number = code.at(stack, top)
        given = [code.place(stack, top), literal(1), literal(0)]
        code.put(stack, top, code.call("PyObject_Vectorcall", "i64", [kind, *given]))
        code.call("Py_DecRef", "void", [number])
    first = code.select(code.holds("eq", what, TUPLE), code.emit(f"sub {top}, {which.text}", "i64"), top)
    with code.when(code.holds("eq", what, TUPLE)):
        parts = code.call("PyTuple_New", "i64", [which])
        with code.iterations(literal(0), which) as k:
            part = code.at(stack, code.sum(first, k))
            code.call("PyTuple_SetItem", "i32", [parts, k, part])
        code.put(stack, first, parts)
    code.lines.append(f"store {code.sum(first, 1)}, ptr %top")


def _forget(code: _FastPath) -> None:
    """Release the allocated arrays; results hold their own references."""
    with code.iterations(literal(0), code.at(Value("%started", "ptr"), 0)) as k:
        code.call("Py_DecRef", "void", [code.at(Value("%made", "ptr"), k)])
