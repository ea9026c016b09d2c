"""Calls of BLAS matrix products from the library shipped with SciPy."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any, NamedTuple

from adcompiler.kernels.routines.library import TILE
from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.llvm.limits import SHARING_BYTES
from adcompiler.targets.llvm.values import ArrayValue, Value, literal
from adcompiler.targets.llvm.variables import Variables

NAMES = {"double": "dgemm", "float": "sgemm"}
MODULE = "scipy.linalg.cython_blas"


class Factor(NamedTuple):
    """A matrix, or its transpose."""

    array: ArrayValue
    transposed: bool

    @property
    def terms(self) -> Value:
        """The number of terms, if it is the left factor."""
        return self.array.shape[0 if self.transposed else 1]


Matrix = tuple[Value, Value]  # its address, and its leading dimension


def product(code: Variables, a: Factor, b: Factor, c: ArrayValue) -> None:
    """C = A B."""
    begin = literal(0)
    matrices = (_matrix(code, x, begin, begin) for x in (a.array, b.array, c))
    _multiply(code, a, b, c, (*c.shape, a.terms), literal(0.0, c.type), *matrices)


def tile(code: Variables, a: Factor, b: Factor, c: ArrayValue, corner: tuple[Value, Value, Value]) -> None:
    """A tile of C += A B (`library.py`), from row i, column j and term k on; the first terms initialise C."""
    i, j, k = corner
    lengths = tuple(_up_to(code, n, at) for n, at in zip((*c.shape, a.terms), corner, strict=True))
    first = code.emit(f"icmp eq {k}, 0", "i1")
    kept = code.select(first, literal(0.0, c.type), literal(1.0, c.type))
    left = _copied(code, a.array, *((k, i) if a.transposed else (i, k)))
    right = _copied(code, b.array, *((j, k) if b.transposed else (k, j)))
    _multiply(code, a, b, c, lengths, kept, left, right, _matrix(code, c, i, j))


def _multiply(
    code: Variables,
    a: Factor,
    b: Factor,
    c: ArrayValue,
    lengths: tuple[Value, ...],
    kept: Value,
    *matrices: Matrix,
) -> None:
    """C = `kept` C + A B with the given rows, columns and terms. BLAS is column-major, so it computes Cᵀ = Bᵀ
    Aᵀ."""
    if any(x.strides is not None for x in (a.array, b.array, c)):
        raise UnsupportedError("products of strided matrices")
    name = NAMES[c.type]
    symbol = f"adc_{name}"
    code.needs.declared[symbol] = f"declare void @{symbol}({', '.join(['ptr'] * 13)})"
    code.needs.externals.add(symbol)
    _find(name)
    rows, columns, terms = (_integer(code, n) for n in lengths)
    left, right, result = matrices
    sides = (Value(str(ord("T" if f.transposed else "N")), "i8") for f in (b, a))
    given = [*sides, columns, rows, terms, literal(1.0, c.type), *right, *left, kept, *result]
    code.lines.append(f"call void @{symbol}({', '.join(_address(code, v) for v in given)})")


def _up_to(code: Variables, length: Value, first: Value) -> Value:
    """The extent of a tile on an axis from an index on."""
    return code.function("min", [literal(TILE), code.binary("-", length, first)])


def _matrix(code: Variables, array: ArrayValue, row: Value, column: Value) -> Matrix:
    """A matrix from an element on, and its leading dimension, which is at least 1."""
    width = array.shape[1]
    place = code.binary("+", code.binary("*", row, width), column)
    data = code.emit(f"getelementptr {array.type}, {array.data}, {place}", "ptr")
    return data, _integer(code, code.function("max", [width, literal(1)]))


def _copied(code: Variables, array: ArrayValue, row: Value, column: Value) -> Matrix:
    """A tile and its leading dimension; a contiguous copy, if rows of the matrix map to few cache sets."""
    data, width = _matrix(code, array, row, column)
    rows, columns = (_up_to(code, n, at) for n, at in zip(array.shape, (row, column), strict=True))
    size = SIZES[array.type]
    place = f"%tile{len(code.stack)}"
    code.stack.append(f"{place} = alloca [{TILE * TILE} x {array.type}], align 64")
    code.needs.declared[f"adc_tile_{size}"] = COPY.format(size=size, width=TILE * size)
    rest = code.emit(f"urem {array.shape[1]}, {SHARING_BYTES // size}", "i64")
    shares = code.emit(f"icmp eq {rest}, 0", "i1")
    with code.when(shares):
        given = f"ptr {place}, {data}, {rows}, {columns}, {array.shape[1]}"
        code.lines.append(f"call void @adc_tile_{size}({given})")
    tile = code.emit(f"select {shares}, ptr {place}, {data}", "ptr")
    return tile, code.emit(f"select {shares}, i32 {TILE}, {width}", "i32")


SIZES = {"double": 8, "float": 4}
COPY = """define internal void @adc_tile_{size}(
    ptr noalias %to, ptr noalias %from, i64 %rows, i64 %columns, i64 %width) nounwind {{
entry:
  %bytes = mul i64 %columns, {size}
  %distance = mul i64 %width, {size}
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %following, %row ]
  %start = mul i64 %i, %distance
  %source = getelementptr i8, ptr %from, i64 %start
  %first = mul i64 %i, {width}
  %target = getelementptr i8, ptr %to, i64 %first
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  %following = add i64 %i, 1
  %more = icmp ult i64 %following, %rows
  br i1 %more, label %row, label %done
done:
  ret void
}}"""


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
