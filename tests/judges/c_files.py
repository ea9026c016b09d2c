"""Exported C: compiled with all warnings as errors, called through ctypes or by a program in C."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import adcompiler as adc
from adcompiler.cli.c_source import c_texts
from adcompiler.cli.programs import ExportedProgram, programs_of
from adcompiler.ir.types import NUMPY
from adcompiler.kernels.emit.block_partition import lengths

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wvla")
FUNCTIONS = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs floor fma
fmod hypot lgamma log log10 log1p log2 pow rint sin sinh sqrt tan tanh tgamma trunc
"""
LIBM = frozenset(name + end for name in FUNCTIONS.split() for end in ("", "f"))
COMPILERS = {"memset", "memcpy", "memmove", "sincos", "sincosf", "_GLOBAL_OFFSET_TABLE_"}  # of gcc's own
CTYPES = {"f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64, "bool": ctypes.c_uint8}
# Allocating while the kernel runs ends the program.
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "{name}.h"

static volatile int running = 0;
{interposed}
int main(void)
{{
    int status = 0;
{body}
    return 0;
}}
"""
INTERPOSED = """
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size) { if (running) abort(); return __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { if (running) abort(); return __real_calloc(count, size); }
void *__wrap_realloc(void *old, size_t size) { if (running) abort(); return __real_realloc(old, size); }
"""


class Exported:
    """The C functions of a source in a folder."""

    def __init__(
        self,
        folder: Path,
        source: str,
        what: str = "value",
        wrt: tuple[str, ...] | None = None,
        sparse: bool = False,
    ) -> None:
        self.folder, self.function = folder, adc.compile(source)
        self.name = self.function.__name__
        self.programs = programs_of(self.function, self.name, what, wrt)
        self.texts = c_texts(self.function, self.name, self.programs, wrt, sparse).texts
        for file, text in self.texts.items():
            (folder / file).write_text(text)

    def compile(self, *options: str, output: str = "library.so", sources: Sequence[str] = ()) -> Path:
        """Compile the file, strictly."""
        place = self.folder / output
        command = ["gcc", *STRICT, *options, "-o", place, self.folder / f"{self.name}.c", *sources, "-lm"]
        subprocess.run(command, check=True, cwd=self.folder)
        return place

    def library(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.compile("-O1", "-fPIC", "-shared")))

    def program(self, what: str = "value") -> ExportedProgram:
        return next(p for p in self.programs.values() if p.what == what)

    def called(self, library: ctypes.CDLL, what: str, *args: Any) -> tuple[int, list[np.ndarray]]:
        """The status and the results of a call."""
        name = self.name if what == "value" else f"{self.name}_{what}"
        sizes, values, results = self.prepared(what, *args)
        func = self.program(what).func
        given: list[Any] = [ctypes.c_int64(sizes[k]) for k in range(len(sizes)) if k not in dict(func.counts)]
        counts = [ctypes.c_int64(int(values[position])) for _, position in func.counts]
        size = getattr(library, f"{name}_work_size")
        size.restype = ctypes.c_size_t
        work = np.full(size(*given, *counts) // 8, np.nan)
        for value, given_input in zip(values, func.inputs, strict=True):
            given.append(_pointer(value) if given_input.rank else CTYPES[given_input.dtype](value.item()))
        status = getattr(library, name)(*given, *map(_pointer, results), _pointer(work))
        return status, results

    def count(self, name: str) -> int:
        """The number of entries of a sparse derivative."""
        found = re.search(rf"{name}_entries = (\d+)", self.texts[f"{self.name}.h"])
        assert found is not None
        return int(found[1])

    def sparse_values(self, library: ctypes.CDLL, name: str, count: int, *args: Any) -> np.ndarray:
        """The entries of a sparse derivative of doubles."""
        size = getattr(library, f"{name}_work_size")
        size.restype = ctypes.c_size_t
        work, values = np.full(size() // 8, np.nan), np.full(count, np.nan)
        arrays = [np.array(a, np.float64, order="C") for a in args]
        given = [_pointer(a) if a.ndim else ctypes.c_double(a.item()) for a in arrays]
        assert getattr(library, name)(*given, _pointer(values), _pointer(work)) == 0
        return values

    def prepared(self, what: str, *args: Any) -> tuple[list[int], list[np.ndarray], list[np.ndarray]]:
        """The lengths, the arguments, and memory for the results."""
        func = self.program(what).func
        values = [np.array(a, NUMPY[i.dtype], order="C") for a, i in zip(args, func.inputs, strict=True)]
        sizes = [0] * len(func.size_names)
        for value, given in zip(values, func.inputs, strict=True):
            for n, length in zip(given.shape, value.shape, strict=True):
                if hasattr(n, "number"):
                    sizes[n.number] = length
        for number, position in func.counts:
            sizes[number] = max(int(values[position]), 0)
        shapes = [lengths(r.shape)(sizes) for r in func.results]
        results = [np.zeros(s, NUMPY[r.dtype]) for s, r in zip(shapes, func.results, strict=True)]
        return sizes, values, results

    def run_alone(
        self, what: str, *args: Any, options: Sequence[str] = (), interposed: bool = False
    ) -> list[float]:
        """The results of a program in C that makes one call with arrays that are exactly large enough."""
        sizes, values, results = self.prepared(what, *args)
        func = self.program(what).func
        name = self.name if what == "value" else f"{self.name}_{what}"
        fixed = [str(n) for k, n in enumerate(sizes) if k not in dict(func.counts)]
        counts = [str(int(values[position])) for _, position in func.counts]
        lines, given = [], [*fixed]
        for k, (value, i) in enumerate(zip(values, func.inputs, strict=True)):
            if i.rank:
                lines.append(f"{_c_type(value)} *in{k} = malloc({value.nbytes});")
                lines += [f"in{k}[{j}] = {_literal(v)};" for j, v in enumerate(value.flat)]
            given.append(f"in{k}" if i.rank else _literal(value[()]))
        for k, result in enumerate(results):
            lines.append(f"{_c_type(result)} *out{k} = malloc({result.nbytes});")
            given.append(f"out{k}")
        lines.append(f"void *work = malloc({name}_work_size({', '.join([*fixed, *counts])}));")
        lines += ["running = 1;", f"status = {name}({', '.join([*given, 'work'])});", "running = 0;"]
        lines.append("if (status) return status;")
        for k, result in enumerate(results):
            lines.append(f'for (int j = 0; j < {result.size}; j++) printf("%.17g ", (double)out{k}[j]);')
        text = MAIN.format(
            name=self.name,
            interposed=INTERPOSED if interposed else "",
            body="\n".join(f"    {line}" for line in lines),
        )
        (self.folder / "main.c").write_text(text)
        wraps = ["-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc"] if interposed else []
        program = self.compile(*options, *wraps, output="main", sources=["main.c"])
        done = subprocess.run(
            [program], capture_output=True, text=True, env={"ASAN_OPTIONS": "detect_leaks=0"}
        )
        assert not done.returncode, done.stderr
        return [float(word) for word in done.stdout.split()]

    def symbols(self) -> dict[str, set[str]]:
        """The symbols of the object code, by the letters of nm."""
        found = self.compile("-O1", "-c", output="object.o")
        done = subprocess.run(["nm", found], capture_output=True, text=True, check=True)
        symbols: dict[str, set[str]] = {}
        for line in done.stdout.splitlines():
            *_, letter, name = line.split()
            symbols.setdefault(letter, set()).add(name)
        return symbols


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data if array.size else None)


def _c_type(array: np.ndarray) -> str:
    return {"float64": "double", "float32": "float", "int64": "int64_t", "bool": "uint8_t"}[str(array.dtype)]


def _literal(value: Any) -> str:
    return float(value).hex() if isinstance(value, np.floating) else str(int(value))
