"""`adc build`: a C library of a function and its gradient."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from adcompiler.cli.arguments import names_of
from adcompiler.cli.errors import UsageError
from adcompiler.cli.source import Source, function_of
from adcompiler.codegen.ahead import SHIMS, Compiled, comment, compile_ahead
from adcompiler.codegen.cuda.ahead import build, parsed_arch
from adcompiler.errors import DtypeError, Error, ShapeError
from adcompiler.ir.nodes import Func
from adcompiler.runtime.capture import compile
from adcompiler.runtime.function import Function, SourceFunction
from adcompiler.runtime.options import Options
from adcompiler.runtime.transforms import value_and_grad
from adcompiler.syntax.values import Closure

EXAMPLES = """\b
Examples:
  adc build model.adc:loss -o lib
  adc build model.adc:loss --emit ptx,cubin --arch sm_90 -o kernels
  adc build "sum((a * x - y)**2)" --types "f64, f64[n], f64[n]" --name loss -o lib
"""
FORMS = ("c", "ptx", "cubin")


def build_source(
    source: Source,
    types: Annotated[
        str | None,
        typer.Option(
            metavar="TYPES", show_default=False,
            help='The types of the parameters, as in "f64[n], f64"; otherwise as annotated, or doubles.',
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where to write the library.")
    ] = Path(),
    name: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="The C function's name.")
    ] = None,
    wrt: Annotated[
        str | None,
        typer.Option(metavar="NAMES", show_default=False, help="Parameters of the gradient, as in b1,b2."),
    ] = None,
    native: Annotated[
        bool, typer.Option("--native", help="Use all that this machine's processor has.")
    ] = False,
    emit: Annotated[
        str, typer.Option(metavar="FORMS", help="What to write: c, or kernels for CUDA as ptx, cubin.")
    ] = "c",
    arch: Annotated[str, typer.Option(metavar="ARCH", help="The CUDA devices to compile for.")] = "sm_80",
) -> None:  # fmt: skip
    """Compile SOURCE to a shared library and a C header, which need no Python.

    The library holds NAME and, for a scalar result, NAME_value_and_grad. A C compiler (cc) links it.
    With --emit ptx,cubin it is compiled to kernels for CUDA, a file each; a manifest says how to launch them.
    """
    forms = [form.strip() for form in emit.split(",")]
    if unknown := [form for form in forms if form not in FORMS]:
        raise UsageError(f"--emit does not know {', '.join(unknown)}", remedy=f"it takes {', '.join(FORMS)}")
    f = function_of(source)
    name = name or f.__name__
    typed = f if types is None else _typed(f, types)
    functions = {name: typed._of_c()}
    try:
        joint = value_and_grad(typed, names_of(f, wrt, "--wrt") if wrt else None)
        functions[f"{name}_value_and_grad"] = joint._of_c()
    except (ShapeError, DtypeError):  # no scalar, or nothing to differentiate
        if wrt:
            raise
    if kernels := [form for form in forms if form != "c"]:
        for path in build(functions, output, parsed_arch(arch), kernels):
            print(path)
    if "c" not in forms:
        return
    made = {n: compile_ahead(func, n, native) for n, func in functions.items()}
    output.mkdir(parents=True, exist_ok=True)
    header, library = output / f"{name}.h", output / f"lib{name}{_suffix()}"
    _link(library, header, _header(name, functions, made), made)
    for path in (header, library):
        print(path)


def _typed(f: Function, types: str) -> Function:
    """`f` with annotated parameters, as a definition that calls it."""
    texts = _split(types)
    names = [p.name for p in f.parameters]
    if len(texts) != len(names) or f.closure is None:
        cause = f"--types names {len(texts)} types for the parameters {', '.join(names)}"
        raise UsageError(cause, remedy='one for each, as in "f64[n], f64"')
    params = ", ".join(f"{n}: {t}" for n, t in zip(names, texts, strict=True))
    stub = compile(f"def {f.__name__}({params}):\n    return {f.__name__}({', '.join(names)})").closure
    assert stub is not None
    closure = Closure(stub.definition, {**f.closure.scope, f.__name__: f.closure}, stub.source)
    return SourceFunction(closure, (), Options(backend=f.backend))


def _split(types: str) -> list[str]:
    """The types between commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in types:
        depth += (c == "[") - (c == "]")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def _header(name: str, functions: dict[str, Func], made: dict[str, Compiled]) -> str:
    guard = f"ADC_{name.upper()}_H"
    lines = [
        "/* Generated by adcompiler. Arrays are contiguous, in row-major order; results are written to",
        "   their pointers and may not overlap anything else. Returns 0, or 1 where memory is short or",
        "   values are refused: an index out of range, a negative length. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
    ]
    for key, func in functions.items():
        lines += [f"/* {comment(func)} */", f"{made[key].declaration};"]
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "#endif", ""])


def _link(library: Path, header: Path, text: str, made: dict[str, Compiled]) -> None:
    """Compile the C around the object code, and link both; nothing is written if that fails."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Error("there is no C compiler (cc) to link a library with", remedy="install gcc or clang")
    missing = frozenset().union(*(m.missing for m in made.values()))
    if unknown := sorted(missing - SHIMS.keys()):
        raise Error(
            f"the program uses {', '.join(unknown)}, which is not in C's library", remedy="use jitted"
        )
    shims = [f"double {m}(double x) {{ return {SHIMS[m]}(x); }}" for m in sorted(missing)]
    c = ["#include <math.h>", "#include <stdlib.h>", f'#include "{header.name}"', *shims,
         'void __attribute__((visibility("hidden"))) NRT_MemInfo_call_dtor(void *info)',
         "{ (void)info; } /* never called: no array here owns memory */",
         *(m.definition for m in made.values())]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / header.name).write_text(text)
        (place / "wrapper.c").write_text("\n".join(c))
        objects = []
        for key, one in made.items():
            objects.append(place / f"{key}.o")
            objects[-1].write_bytes(one.code)
        _run([compiler, "-O2", "-fPIC", "-shared", *_strict(), "-o", str(place / "library"),
              str(place / "wrapper.c"), *map(str, objects), "-lm"])  # fmt: skip
        shutil.copy(place / "library", library)
        shutil.copy(place / header.name, header)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-5:]
        raise Error("the C compiler failed: " + "; ".join(last), remedy="please report the formula")


def _strict() -> list[str]:
    """Every name must be there when the library is linked."""
    return [] if sys.platform == "darwin" else ["-Wl,-z,defs"]


def _suffix() -> str:
    return {"Darwin": ".dylib", "Windows": ".dll"}.get(platform.system(), ".so")
