"""Programs of scalars as functions of Python, without numba.

The machine code takes a tuple of Python's numbers and makes a list of results itself, by Python's stable
C interface: a call costs no more than one of a function of `math`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from adcompiler import store
from adcompiler.codegen.straight import TYPES, Straight, UnsupportedError, Value
from adcompiler.ir.types import Dtype

METH_VARARGS = 1
# Pointers are i64 here: their type in LLVM's text differs between versions.
PYTHON = (
    "PyFloat_AsDouble", "PyLong_AsLongLong", "PyObject_IsTrue", "PyErr_Occurred", "PyTuple_GetItem",
    "PyList_New", "PyList_SetItem", "PyFloat_FromDouble", "PyLong_FromLongLong", "PyBool_FromLong",
)  # fmt: skip


class Code(NamedTuple):
    """A function in LLVM's language, and what it calls of the C library."""

    text: str
    externals: frozenset[str]


def scalar_function(
    text: str, params: Sequence[tuple[str, Dtype]], results: Sequence[tuple[int, Dtype]]
) -> Callable[..., list[Any]]:
    """`run` of a kernel's text as a function of these parameters that gives a list of results: which of
    the values that `run` returns, and their types. Raises UnsupportedError where numba is needed."""
    try:
        code = translated(text, params, results)
        return _loaded(code)
    except (ImportError, RuntimeError, KeyError, AttributeError) as error:
        raise UnsupportedError from error  # llvmlite without what is used here: numba knows how to do with it


def translated(text: str, params: Sequence[tuple[str, Dtype]], results: Sequence[tuple[int, Dtype]]) -> Code:
    """The function `entry(self, arguments)` in LLVM's language: unbox, compute, box."""
    code = Straight()
    for k, (name, dtype) in enumerate(params):
        given = code.call("PyTuple_GetItem", "i64", [Value("%args", "i64"), Value(str(k), "i64")])
        code.values[name] = _unboxed(code, given, dtype)
    failed = code.emit(f"icmp ne {code.call('PyErr_Occurred', 'i64', [])}, 0", "i1")
    code.lines += [f"br {failed}, label %fail, label %body", "fail:", "ret i64 0", "body:"]
    values = code.run(text)
    made = code.call("PyList_New", "i64", [Value(str(len(results)), "i64")])
    for k, (which, dtype) in enumerate(results):
        boxed = _boxed(code, code.cast(values[which], TYPES[dtype]))
        code.call("PyList_SetItem", "i32", [made, Value(str(k), "i64"), boxed])
    body = "\n".join(["define i64 @entry(i64 %self, i64 %args) {", *code.lines, f"ret {made}", "}"])
    return Code("\n".join([*code.declared.values(), body, ""]), frozenset(code.externals))


def _unboxed(code: Straight, given: Value, dtype: Dtype) -> Value:
    """The number in a Python object."""
    if dtype == "bool":
        true = code.call("PyObject_IsTrue", "i32", [given])
        return code.emit(f"icmp ne {true}, 0", "i1")
    if dtype == "i64":
        return code.call("PyLong_AsLongLong", "i64", [given])
    return code.cast(code.call("PyFloat_AsDouble", "double", [given]), TYPES[dtype])


def _boxed(code: Straight, value: Value) -> Value:
    """A Python object of a number."""
    if value.is_float:
        return code.call("PyFloat_FromDouble", "i64", [code.cast(value, "double")])
    function = "PyBool_FromLong" if value.type == "i1" else "PyLong_FromLongLong"
    return code.call(function, "i64", [code.cast(value, "i64")])


class _Method(ctypes.Structure):
    """Python's description of a function written in C."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def _loaded(code: Code) -> Callable[..., list[Any]]:
    """The function, from its machine code; that comes from the cache if it is there."""
    from llvmlite import binding as llvm

    machine, target = _host()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine())
    if not all(llvm.address_of_symbol(name) for name in code.externals):
        raise UnsupportedError
    content = store.kept(f"{target}\n{code.text}", ".o", lambda: _compiled(code.text))
    engine.add_object_file(llvm.ObjectFileRef.from_data(content))
    engine.finalize_object()
    method = _Method(b"kernel", engine.get_function_address("entry"), METH_VARARGS, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    # The function's `self` keeps its code and its description alive as long as itself.
    function: Callable[..., list[Any]] = make(ctypes.addressof(method), (engine, method), None)
    return function


def _compiled(text: str) -> bytes:
    """The machine code of a module in LLVM's language."""
    from llvmlite import binding as llvm

    machine = _host()[0]()
    module = llvm.parse_assembly(text)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    compiled: bytes = machine.emit_object(module)
    return compiled


@cache
def _host() -> tuple[Callable[[], Any], str]:
    """What makes a target machine for this processor, and the name of it and of the compiler."""
    import llvmlite
    from llvmlite import binding as llvm

    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise UnsupportedError
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in PYTHON:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        llvm.add_symbol(name, address)
    triple, cpu, features = (
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )
    target = llvm.Target.from_triple(triple)
    reloc = "static" if target.name.startswith("x86") else "default"

    def machine() -> Any:
        return target.create_target_machine(
            cpu=cpu, features=features, opt=3, reloc=reloc, codemodel="jitdefault", jit=True
        )

    return machine, f"llvmlite {llvmlite.__version__} {triple} {cpu} {features}"
