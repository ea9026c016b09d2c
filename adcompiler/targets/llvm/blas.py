"""Matrix products: tiles by our own functions, and large products by the BLAS shipped with SciPy."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any, NamedTuple

from adcompiler.kernels.routines.library import TERMS, TILE
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.llvm.values import ArrayValue, Value, literal
from adcompiler.targets.llvm.variables import Variables

NAMES = {"double": "dgemm", "float": "sgemm"}
MODULE = "scipy.linalg.cython_blas"
LETTERS = {"double": "d", "float": "s"}


def symbol(kind: str, left: bool, right: bool, packed: bool = False) -> str:
    """The name of our function (`runtime/gemm.py`) for a type, and for transposed or `packed` factors."""
    return f"adc_{'tile' if packed else 'gemm'}_{LETTERS[kind]}{'nt'[left]}{'nt'[right]}"


SIDES = (False, False), (False, True), (True, False), (True, True)  # which factors are transposed
SYMBOLS = {  # and their types
    symbol(kind, *sides, packed=packed): kind
    for kind in LETTERS
    for sides in SIDES
    for packed in (False, True)
}


class Factor(NamedTuple):
    """A matrix, or its transpose."""

    array: ArrayValue
    transposed: bool

    @property
    def terms(self) -> Value:
        """The number of terms, if it is the left factor."""
        return self.array.shape[0 if self.transposed else 1]


def product(code: Variables, a: Factor, b: Factor, c: ArrayValue) -> None:
    """C = A B by BLAS. It is column-major, so it computes Cᵀ = Bᵀ Aᵀ. Leading dimensions are at least 1."""
    _check(a, b, c)
    name = NAMES[c.type]
    symbol = f"adc_{name}"
    code.needs.declared[symbol] = f"declare void @{symbol}({', '.join(['ptr'] * 13)})"
    code.needs.externals.add(symbol)
    _find(name)
    rows, columns, terms = (_integer(code, n) for n in (*c.shape, a.terms))
    right, left, result = (
        (x.data, _integer(code, code.function("max", [x.shape[1], literal(1)])))
        for x in (b.array, a.array, c)
    )
    sides = (Value(str(ord("T" if f.transposed else "N")), "i8") for f in (b, a))
    one, zero = literal(1.0, c.type), literal(0.0, c.type)
    given = [*sides, columns, rows, terms, one, *right, *left, zero, *result]
    code.lines.append(f"call void @{symbol}({', '.join(_address(code, v) for v in given)})")


def tile(code: Variables, a: Factor, b: Factor, c: ArrayValue, corner: tuple[Value, Value, Value]) -> None:
    """A tile of C += A B (`library.py`), from row i, column j and term k on; the first terms initialise C."""
    _check(a, b, c)
    i, j, k = corner
    most = (TILE, TILE, TERMS)
    lengths = tuple(
        code.function("min", [literal(limit), code.binary("-", n, at)])
        for n, at, limit in zip((*c.shape, a.terms), corner, most, strict=True)
    )
    places = ((i, j), (k, i) if a.transposed else (i, k), (j, k) if b.transposed else (k, j))
    arrays = (c, a.array, b.array)
    data = tuple(_address_of(code, x, *at) for x, at in zip(arrays, places, strict=True))
    _add(code, symbol(c.type, a.transposed, b.transposed), (c, a.array, b.array), data, lengths, k)


def add_product(
    code: Variables, a: Factor, b: Factor, c: ArrayValue, lengths: Sequence[Value], first: Value
) -> None:
    """C += A B, of the leading rows, columns and terms of packed factors; the `first` terms, 0, initialise
    C."""
    _check(a, b, c)
    arrays = (c, a.array, b.array)
    name = symbol(c.type, a.transposed, b.transposed, packed=True)
    _add(code, name, arrays, [x.data for x in arrays], lengths, first)


def _add(
    code: Variables,
    name: str,
    arrays: Sequence[ArrayValue],
    data: Sequence[Value],
    lengths: Sequence[Value],
    first: Value,
) -> None:
    """Call our own product."""
    keeps = code.emit(f"icmp ne {first}, 0", "i1")
    code.needs.externals.add(name)
    rows = (x.shape[1] for x in arrays)
    code.call(name, "void", [*data, *lengths, *rows, keeps], "nounwind")


def _check(a: Factor, b: Factor, c: ArrayValue) -> None:
    if any(x.strides is not None for x in (a.array, b.array, c)):
        raise UnsupportedError("products of strided matrices")


def _address_of(code: Variables, array: ArrayValue, row: Value, column: Value) -> Value:
    """The address of an element."""
    place = code.binary("+", code.binary("*", row, array.shape[1]), column)
    return code.emit(f"getelementptr {array.type}, {array.data}, {place}", "ptr")


def _integer(code: Variables, value: Value) -> Value:
    """An integer for Fortran."""
    return code.emit(f"trunc {value} to i32", "i32")


def _address(code: Variables, value: Value) -> str:
    """The argument that passes a value by reference."""
    if value.type == "ptr":
        return str(value)
    place = f"%blas{len(code.stack)}"
    code.stack.append(f"{place} = alloca {value.type}")
    code.lines.append(f"store {value}, ptr {place}")
    return f"ptr {place}"


@cache
def _find(name: str) -> None:
    """Register the address of a function with LLVM."""
    from llvmlite import binding as llvm

    capsule = _module().__pyx_capi__[name]
    text = ctypes.pythonapi.PyCapsule_GetName
    text.restype, text.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    llvm.add_symbol(f"adc_{name}", pointer(capsule, text(capsule)))


def _module() -> Any:
    """SciPy's module of BLAS, without the rest of `scipy.linalg`, which is slow to import."""
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
