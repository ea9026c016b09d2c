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

from adcompiler.api.function import Function
from adcompiler.cli.arguments import Wrt, wrt_of
from adcompiler.cli.c_source import ABIS, c_texts, casadi_texts
from adcompiler.cli.errors import UsageError
from adcompiler.cli.output import AsJson, Text
from adcompiler.cli.programs import DIRECTIONAL, NAMES_OF_FORMS, WHATS, ExportedProgram, listed, programs_of
from adcompiler.cli.source import Source, function_of
from adcompiler.cli.types import Types, note, typed, untyped
from adcompiler.errors import DtypeError, Error, ShapeError
from adcompiler.ir.textform.dot import dot
from adcompiler.runtime.reports.show import toolkit
from adcompiler.targets.cpu.library import LibraryFunction, compile_ahead, libraries
from adcompiler.targets.cpu.library import source as c_source
from adcompiler.targets.cuda.ahead import build, parsed_arch
from adcompiler.targets.numba.standalone import python_file

EXAMPLES = """\b
Examples:
  adc build model.adc:loss -o lib
  adc build model.adc:loss --emit c --what value,grad,hessian -o src/loss.c
  adc build model.adc:loss --emit c --abi casadi -o src
  adc build model.adc:loss --emit ptx,cubin --arch sm_90 -o kernels
  adc build "sum((a * x - y)**2)" --types "f64, f64[n], f64[n]" --name loss -o lib
  adc build model.adc:loss --what value,grad,hvp --wrt b1,b2 -o lib
"""
# What a file is of, by its suffix; None where it is one of several.
FILES = {
    ".c": "c", ".py": "python", ".tex": "latex", ".h": None, ".dot": None, ".ptx": None, ".cubin": None,
    ".so": None, ".dylib": None, ".dll": None, ".o": None, ".a": None, ".cu": None,
}  # fmt: skip
FORMS = ("library", "c", "python", "latex", "dot", "ptx", "cubin")


def build_source(
    source: Source,
    types: Types = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER",
            help="The folder to write to, or with --emit c, python or latex the file itself.",
        ),
    ] = Path(),
    name: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="The C function's name.")
    ] = None,
    wrt: Wrt = None,
    native: Annotated[
        bool, typer.Option("--native", help="Use all features of this machine's processor.")
    ] = False,
    emit: Annotated[
        str,
        typer.Option(
            metavar="FORMS",
            help="What to write: library, C99 source as c, a file for numba as python, equations as latex, "
            "graphs of programs as dot, or kernels for CUDA as ptx, cubin.",
        ),
    ] = "library",
    arch: Annotated[str, typer.Option(metavar="ARCH", help="The CUDA devices to compile for.")] = "sm_80",
    what: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", show_default=False,
            help=f"The functions to build, of {', '.join((*WHATS, *DIRECTIONAL))}; otherwise value, and "
            "value_and_grad for a scalar result.",
        ),
    ] = None,
    sparse: Annotated[
        bool, typer.Option("--sparse", help="With --emit c: Jacobians and Hessians are sparse.")
    ] = False,
    abi: Annotated[
        str, typer.Option(metavar="ABI", help="With --emit c: the interface of the functions, c or casadi.")
    ] = "c",
    as_json: AsJson = False,
) -> Text:  # fmt: skip
    """Write a C library, or other code.

    The library needs no Python. It contains NAME and, for a scalar result, NAME_value_and_grad, or the
    functions in --what: NAME for the value, NAME_grad, NAME_hvp (the Hessian times a direction) and so on.
    A C compiler (cc) links it. With --emit c it writes C99 source instead, which allocates nothing and
    needs only the C library; with --abi casadi too, source for casadi.external. With --emit ptx,cubin it
    writes CUDA kernels, one file each, and a manifest that says how to launch them.
    """
    forms = listed(emit, "--emit", FORMS, NAMES_OF_FORMS)
    _check_options(forms, sparse, abi, what, wrt)
    f = function_of(source)
    name = name or f.__name__
    output, stem = _place(output, forms, name)
    of_types = typed(f, types)
    note(untyped(of_types), "in C")
    names = wrt_of(f, wrt)
    programs = {} if abi == "casadi" else programs_of(of_types, name, what, names)
    files: list[Path] = []
    declarations: dict[str, str] = {}
    if kernels := [form for form in forms if form in ("ptx", "cubin")]:
        if any(p.compared for p in programs.values()):
            raise ShapeError(f"{name} needs lengths checked at each call", remedy="use --emit library")
        with toolkit(" and ".join(kernels)):
            files += build({n: p.func for n, p in programs.items()}, output, parsed_arch(arch), kernels)
    if "c" in forms:
        made_c = (
            c_texts(of_types, stem, programs, names, sparse)
            if abi == "c"
            else casadi_texts(of_types, name, stem)
        )
        output.mkdir(parents=True, exist_ok=True)
        files += [written(output / file, text) for file, text in made_c.texts.items()]
        declarations |= made_c.declarations
    if texts := _texts(of_types, stem, programs, forms):
        output.mkdir(parents=True, exist_ok=True)
        files += [written(output / file, text) for file, text in texts.items()]
    if "library" in forms:
        made = {n: compile_ahead(p.func, n, native, p.compared) for n, p in programs.items()}
        output.mkdir(parents=True, exist_ok=True)
        header, library = output / f"{name}.h", output / f"lib{name}{_suffix()}"
        _link(library, header, _header(name, made), [*made.values()])
        declarations |= {n: one.declaration for n, one in made.items()}
        files += [header, library]
    whats = {n: p.what for n, p in programs.items()} or dict.fromkeys(declarations, abi)
    functions = [{"name": n, "what": w, "declaration": declarations.get(n)} for n, w in whats.items()]
    return Text("\n".join(map(str, files)), {"files": files, "functions": functions})


def _texts(
    f: Function, stem: str, programs: dict[str, ExportedProgram], forms: Sequence[str]
) -> dict[str, str]:
    """The texts of Python and for readers, by the names of their files."""
    found: dict[str, str] = {}
    if "python" in forms:
        found[f"{stem}.py"] = python_file({n: (p.func, p.compared) for n, p in programs.items()})
    if "latex" in forms:
        try:
            equations = f.latex(gradient=True)
        except (ShapeError, DtypeError):  # no scalar, or nothing to differentiate
            equations = f.latex()
        found[f"{stem}.tex"] = f"\\[\n{equations}\n\\]\n"
    if "dot" in forms:
        found |= {f"{key}.dot": dot(p.func) for key, p in programs.items()}
    return found


def _place(output: Path, forms: Sequence[str], name: str) -> tuple[Path, str]:
    """The folder to write to, and the name of files in it. `-o` may name the file itself, if there is one, or
    a C source, with its header beside it.

    Raises UsageError for the name of another file.
    """
    if output.is_dir() or output.suffix not in FILES:
        return output, name
    form = FILES[output.suffix]
    if form is not None and list(forms) == [form]:
        return output.parent, output.stem
    if form is not None and form not in forms:
        raise UsageError(
            f"-o {output} is a file of --emit {form}, not of --emit {','.join(forms)}",
            remedy=f"add --emit {form}, or give a folder: -o {output.with_suffix('')}",
        )
    raise UsageError(
        f"-o {output} is a file, but --emit {','.join(forms)} writes several",
        remedy=f"give a folder: -o {output.parent / 'lib'} --name {output.stem.removeprefix('lib')}",
    )


def _check_options(forms: Sequence[str], sparse: bool, abi: str, what: str | None, wrt: str | None) -> None:
    """Raise UsageError for options that do not fit each other."""
    if abi not in ABIS:
        raise UsageError(f"unknown --abi {abi}", remedy=f"it takes {' or '.join(ABIS)}")
    if (sparse or abi != "c") and list(forms) != ["c"]:
        option = "--sparse" if sparse else f"--abi {abi}"
        raise UsageError(f"{option} applies only to C source", remedy="add --emit c")
    if abi == "casadi" and (what or wrt or sparse):
        option = "--what" if what else "--wrt" if wrt else "--sparse"
        raise UsageError(
            f"{option} does not apply to --abi casadi, which writes all derivatives that CasADi looks up",
            remedy=f"omit {option}",
        )


def written(file: Path, text: str) -> Path:
    """Write a file."""
    file.write_text(text, encoding="utf-8")
    return file


def _header(name: str, made: dict[str, LibraryFunction]) -> str:
    guard = f"ADC_{name.upper()}_H"
    lines = [
        "/* Generated by adcompiler. Arrays are contiguous, in row-major order; results are written to",
        "   their pointers and may not overlap anything else. Returns 0, or 1 if memory runs out or",
        "   lengths or values are invalid: an index out of range, a negative length. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
    ]
    for one in made.values():
        lines += [f"/* {one.comment} */", f"{one.declaration};"]
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "#endif", ""])


def _link(library: Path, header: Path, text: str, functions: Sequence[LibraryFunction]) -> None:
    """Compile the C around the object code, and link both; nothing is written if that fails."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise Error("there is no C compiler (cc) to link a library with", remedy="install gcc or clang")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / header.name).write_text(text)
        (place / "wrapper.c").write_text(c_source(header.name, functions))
        objects = [place / f"{k}.o" for k in range(len(functions))]
        for file, one in zip(objects, functions, strict=True):
            file.write_bytes(one.code)
        _run([compiler, "-O2", "-fPIC", "-shared", *_strict(), "-o", str(place / "library"),
              str(place / "wrapper.c"), *map(str, objects), *libraries(functions)])  # fmt: skip
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
