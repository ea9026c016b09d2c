"""`f.show`: a function at each stage of the compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from adcompiler.errors import Error
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing.annotations import declared
from adcompiler.ir.textform import printer
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.loopir.printer import source
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run
from adcompiler.pytree.kinds import Types
from adcompiler.runtime.arguments.ragged_arrays import any_rows
from adcompiler.runtime.arguments.signature import FLOAT
from adcompiler.runtime.programs.traceable import Traceable
from adcompiler.targets.cuda.backend import kernels, ptx


def show(f: Traceable, stage: str, types: Types, wrt: Any) -> str:
    """The text of `f` for arguments of these types at a stage."""
    if stage not in STAGES:
        raise Error(f"unknown stage {stage!r}", remedy=f"use one of {', '.join(STAGES)}, html")
    return STAGES[stage](f, types, wrt)


def default_types(f: Traceable) -> Types:
    """The annotated types of a function's parameters; scalars where there is no annotation."""
    if f._closure is None:
        return tuple(FLOAT for _ in f._parameters)
    for parameter in f._parameters:
        if parameter.static:
            raise Error(
                f"{f.__name__} has the static parameter {parameter.name!r}",
                remedy="call it first, or pass arguments: show(stage, *args)",
            )
    return tuple(declared(p) or any_rows(p) or FLOAT for p in f._closure.definition.parameters)


def _source(f: Traceable, types: Types, wrt: Any) -> str:
    return (
        f._closure.source.text
        if f._closure is not None
        else f"# {f.__name__}: made by the compiler, without source\n"
    )


def _ast(f: Traceable, types: Types, wrt: Any) -> str:
    return tree.dump(f._closure.definition) if f._closure is not None else _source(f, types, wrt)


def _ir(f: Traceable, types: Types, wrt: Any) -> str:
    return printer.show(f._trace(types).func)


def _forward(f: Traceable, types: Types, wrt: Any) -> str:
    return printer.show(f.split(wrt).at(types).parts.forward)


def _propagate(f: Traceable, types: Types, wrt: Any) -> str:
    """The dispatch on None, then the programs it has called so far (the usual one if it has called none)."""
    program = f.split(wrt).at(types)
    if not program.made:
        _ = program.usual
    programs = [printer.show(part.func) for part in program.made.values()]
    return "\n\n".join([program.source.rstrip("\n"), *programs])


def _kernel(f: Traceable, types: Types, wrt: Any) -> str:
    func = run(OPTIMISE, f._trace(types).func)
    return kernels(func) if f._backend.startswith("cuda") else emit(scheduled(run(KERNEL, func))).source


def _loopir(f: Traceable, types: Types, wrt: Any) -> str:
    """The functions of the kernel for any lengths, as transforms leave them to LLVM."""
    kernel = emit(scheduled(run((*OPTIMISE, *KERNEL), f._trace(types).func)))
    return "\n\n".join(map(source, kernel.transformed.values()))


def _llvm(f: Traceable, types: Types, wrt: Any) -> str:
    """The kernel that a call of any lengths runs on this machine's processor, after LLVM's passes."""
    from adcompiler.loopir.nodes import UnsupportedError
    from adcompiler.targets.cpu.compiled import CpuKernel
    from adcompiler.targets.llvm.runtime.entry import translated
    from adcompiler.targets.llvm.runtime.machine_code import optimised

    func = run((*OPTIMISE, *KERNEL), f._trace(types).func)
    kernel = CpuKernel(scheduled(func), f._backend.startswith("cpu-precise"))
    try:
        return str(optimised(translated(kernel.source, contiguous=True).text))
    except UnsupportedError as error:
        raise Error(
            f"{f.__name__} is compiled by numba: {error}",
            remedy='show("kernel") shows what numba compiles',
        ) from error


def _ptx(f: Traceable, types: Types, wrt: Any) -> str:
    with toolkit("PTX"):
        return ptx(run(OPTIMISE, f._trace(types).func))


@contextmanager
def toolkit(what: str) -> Iterator[None]:
    """Where something is compiled for CUDA: Error if the toolkit for that is missing."""
    try:
        yield
    except (ImportError, RuntimeError) as error:
        if isinstance(error, Error):
            raise
        why = str(error).partition("\n")[0]
        raise Error(f"no {what} available here: {why}", remedy='pip install "numba-cuda[cu13]"') from error


STAGES: dict[str, Callable[[Traceable, Types, Any], str]] = {
    "source": _source,
    "ast": _ast,
    "ir": _ir,
    "forward": _forward,
    "propagate": _propagate,
    "kernel": _kernel,
    "loopir": _loopir,
    "llvm": _llvm,
    "ptx": _ptx,
}
