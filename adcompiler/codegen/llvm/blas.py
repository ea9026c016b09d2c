"""Calls of BLAS's products of matrices, from the library that SciPy brings."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any, NamedTuple

from adcompiler.codegen.llvm.values import ArrayValue, UnsupportedError, Value, literal
from adcompiler.codegen.llvm.variables import Variables

NAMES = {"double": "dgemm", "float": "sgemm"}
MODULE = "scipy.linalg.cython_blas"


class Factor(NamedTuple):
    """A matrix, or its transpose."""

    array: ArrayValue
    transposed: bool


def product(code: Variables, a: Factor, b: Factor, c: ArrayValue) -> None:
    """C = A B. BLAS has columns of numbers beside each other, so that it is told Cᵀ = Bᵀ Aᵀ."""
    if any(x.strides is not None for x in (a.array, b.array, c)):
        raise UnsupportedError  # the kernel is run on copies
    name = NAMES[c.type]
    symbol = f"adc_{name}"
    code.needs.declared[symbol] = f"declare void @{symbol}({', '.join(['ptr'] * 13)})"
    code.needs.externals.add(symbol)
    _find(name)
    one, zero = literal(1.0, c.type), literal(0.0, c.type)
    inner = a.array.shape[0 if a.transposed else 1]
    given = [
        *(Value(str(ord("T" if f.transposed else "N")), "i8") for f in (b, a)),
        *(_integer(code, n) for n in (c.shape[1], c.shape[0], inner)), one,
        *_matrix(code, b.array), *_matrix(code, a.array), zero, *_matrix(code, c),
    ]  # fmt: skip
    code.lines.append(f"call void @{symbol}({', '.join(_address(code, v) for v in given)})")


def _matrix(code: Variables, array: ArrayValue) -> tuple[Value, Value]:
    """A matrix, and the distance of its rows: at least 1."""
    return array.data, _integer(code, code.function("max", [array.shape[1], literal(1)]))


def _integer(code: Variables, value: Value) -> Value:
    """An integer of Fortran's."""
    return code.emit(f"trunc {value} to i32", "i32")


def _address(code: Variables, value: Value) -> str:
    """What is passed for a value: where it stands."""
    if value.type == "ptr":
        return str(value)
    place = f"%blas{len(code.stack)}"
    code.stack.append(f"{place} = alloca {value.type}")
    code.lines.append(f"store {value}, ptr {place}")
    return f"ptr {place}"


@cache
def _find(name: str) -> None:
    """Tell LLVM where a function is."""
    from llvmlite import binding as llvm

    capsule = _module().__pyx_capi__[name]
    text = ctypes.pythonapi.PyCapsule_GetName
    text.restype, text.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    llvm.add_symbol(f"adc_{name}", pointer(capsule, text(capsule)))


def _module() -> Any:
    """SciPy's module of BLAS, without the rest of `scipy.linalg`, which takes a while to import."""
    if MODULE in sys.modules:
        return sys.modules[MODULE]
    import scipy

    found = (Path(scipy.__file__).parent / "linalg").glob("cython_blas.*")
    file = next(f for f in found if f.suffix in (".so", ".pyd"))
    spec = util.spec_from_file_location(MODULE, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[MODULE] = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
