"""What a function looks like at each stage of the compiler, and why its gradients are what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Protocol

from adcompiler.ad.vjp import vjp
from adcompiler.codegen.emit import emit
from adcompiler.codegen.schedule import schedule
from adcompiler.errors import Error
from adcompiler.ir import text
from adcompiler.ir.nodes import Func
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run
from adcompiler.runtime.signature import FLOAT, Parameter
from adcompiler.runtime.specialise import Traceable, Types
from adcompiler.runtime.splitting import SplitFunction
from adcompiler.syntax import tree
from adcompiler.syntax.annotations import declared
from adcompiler.syntax.structures import leaves
from adcompiler.syntax.values import ArgType, Closure, Static


class Shown(Traceable, Protocol):
    """What is shown: a function with its parameters and, if it has one, its definition."""

    __name__: str
    parameters: tuple[Parameter, ...]

    @property
    def closure(self) -> Closure | None: ...
    def split(self, wrt: Any = None) -> SplitFunction: ...


def show(f: Shown, stage: str, types: Types, wrt: Any) -> str:
    """The text of `f` for arguments of these types at a stage."""
    if stage not in STAGES:
        raise Error(f"unknown stage {stage!r}", remedy=f"use one of {', '.join(STAGES)}")
    return STAGES[stage](f, types, wrt)


def default_types(f: Shown) -> Types:
    """The annotated types of a function's parameters; scalars where there is no annotation."""
    if f.closure is None:
        return tuple(FLOAT for _ in f.parameters)
    for parameter in f.parameters:
        if parameter.static:
            raise Error(
                f"{f.__name__} has the static parameter {parameter.name!r}",
                remedy="call it first, or pass arguments: show(stage, *args)",
            )
    return tuple(declared(p) or FLOAT for p in f.closure.definition.parameters)


def _source(f: Shown, types: Types, wrt: Any) -> str:
    return (
        f.closure.source.text
        if f.closure is not None
        else f"# {f.__name__}: made by the compiler, without a source\n"
    )


def _ast(f: Shown, types: Types, wrt: Any) -> str:
    return tree.dump(f.closure.definition) if f.closure is not None else _source(f, types, wrt)


def _ir(f: Shown, types: Types, wrt: Any) -> str:
    return text.show(f.trace(types).func)


def _forward(f: Shown, types: Types, wrt: Any) -> str:
    return text.show(f.split(wrt).at(types).parts.forward)


def _propagate(f: Shown, types: Types, wrt: Any) -> str:
    """The dispatch on None, then the programs it has called so far (the usual one if it has called none)."""
    program = f.split(wrt).at(types)
    if not program.made:
        usual = tuple(k < program.parts.count and d for k, d in enumerate(program.parts.differentiable))
        program.propagate(usual, program.all_asked)
    programs = [text.show(part.func) for part, _ in program.made.values()]
    return "\n\n".join([program.source.rstrip("\n"), *programs])


def _kernel(f: Shown, types: Types, wrt: Any) -> str:
    return emit(schedule(run(KERNEL, run(OPTIMISE, f.trace(types).func)))).source


STAGES: dict[str, Callable[[Shown, Types, Any], str]] = {
    "source": _source,
    "ast": _ast,
    "ir": _ir,
    "forward": _forward,
    "propagate": _propagate,
    "kernel": _kernel,
}


def explain(f: Shown, wrt: Any, types: Types) -> str:
    """Which gradients there are, why the others are None, and what forward saves."""
    positions = f.positions(wrt, types)
    func = f.trace(types).func
    wanted = f.inputs_of(positions, types)
    found = vjp(func.results, list(func.results), [func.inputs[k] for k in wanted])
    known = {k: g is not None for k, g in zip(wanted, found, strict=True)}
    lines = [f"{f.__name__}: gradients"]
    numbers = count()
    for parameter, given in zip(f.parameters, types, strict=True):
        for name, kind in leaves(parameter.name, given):
            flows = known.get(next(numbers)) if isinstance(kind, ArgType) else None
            lines.append(f"  {name}: {_why(kind, flows)}")
    program = f.split(wrt).at(types)
    lines.append("saved by forward for propagate")
    lines += [f"  {line}" for line in _saved(program.parts.forward, program.saved_names)] or ["  nothing"]
    return "\n".join(lines)


def _why(kind: ArgType | Static, known: bool | None) -> str:
    if isinstance(kind, Static):
        return "None: static, known while compiling"
    if not is_float(kind.dtype):
        return f"None: {kind.dtype} has no derivative"
    if known is None:
        return "not asked for: wrt leaves it out"
    return (
        "flows" if known else "None: no result depends on it through a differentiable path (grad gives zeros)"
    )


def _saved(forward: Func, names: Sequence[str]) -> list[str]:
    arrays = {
        **dict(zip(forward.input_names, forward.inputs, strict=True)),
        **dict(zip(forward.result_names, forward.results, strict=True)),
    }
    lines = []
    for name in names:
        array = arrays[name]
        factors = [str(NUMPY[array.dtype].itemsize), *text.lengths(forward, array.shape)]
        kind = "input" if array in forward.inputs else "temporary"
        lines.append(f"{name}: {kind}, {' * '.join(factors)} bytes")
    return lines
