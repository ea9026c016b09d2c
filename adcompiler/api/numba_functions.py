"""Functions of numba: the Python function behind `@njit`, `@vectorize` and `@guvectorize`.

numba is not imported: a function of numba is recognised by the class it has. What is read of it, numba itself
pickles: the Python function, its signatures and its layout. The rest is the way of every decorated function.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np

from adcompiler import provided
from adcompiler.errors import ParseError, Source
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import returns
from adcompiler.frontend.values.values import Closure
from adcompiler.ir.walk import postorder
from adcompiler.lazy import WeakMemo
from adcompiler.lazy_dataclass import dataclass

KINDS: Mapping[tuple[str, str], str] = {
    ("numba.core.dispatcher", "Dispatcher"): "jit",
    ("numba.core.ccallback", "CFunc"): "jit",
    ("numba.np.ufunc.dufunc", "DUFunc"): "vectorize",
    ("numba.np.ufunc.gufunc", "GUFunc"): "guvectorize",
}
WITHOUT_SOURCE = {
    "StencilFunc": "write the stencil as a loop, or with slices: x[2:] - 2 * x[1:-1] + x[:-2]",
    "CUDADispatcher": 'write an @njit function: adc.compile(f, backend="cuda") runs it on a GPU',
}
LAYOUT = re.compile(r"\(([^()]*)\)")


@dataclass(frozen=True)
class NumbaFunction:
    """What a decorator of numba made: of `python`, by `kind` ("jit", "vectorize", "guvectorize").

    types   the types of the arguments, as numba prints them, if the decorator was given one signature
    layout  the layout of a generalised ufunc, such as "(n),(n)->()"
    counts  whether numba compiles it for the types of each call, so that Python ints are integers
    """

    python: FunctionType
    kind: str
    types: tuple[Any, ...] = ()
    layout: str = ""
    counts: bool = False


def of_numba(value: Any) -> NumbaFunction | None:
    """A function of numba, as it was before its decorator; None for any other value."""
    names = ((c.__module__, c.__name__) for c in type(value).__mro__)
    kind = next((KINDS[name] for name in names if name in KINDS), None)
    python = getattr(value, "__wrapped__", None)
    if kind is None or not isinstance(python, FunctionType):
        return None
    layout = value.signature if kind == "guvectorize" else ""
    fixed = not getattr(value, "_can_compile", False) if kind == "jit" else getattr(value, "_frozen", True)
    return NumbaFunction(python, kind, _types(value) if kind == "jit" else (), layout, not fixed)


def _types(value: Any) -> tuple[Any, ...]:
    """The types of the arguments, if the decorator was given one signature: then numba compiles no other."""
    if getattr(value, "_can_compile", True):
        return ()
    signatures = value.nopython_signatures
    return tuple(signatures[0].args) if len(signatures) == 1 else ()


def is_prange(value: Any) -> bool:
    """Whether a value is numba's `prange`."""
    return getattr(value, "__name__", "") == "prange" and _library(value) == "numba"


def _library(value: Any) -> str:
    return (getattr(value, "__module__", None) or "").partition(".")[0]


def why_refused(value: Any) -> str | None:
    """What to write instead of a function of numba that has no source; None for any other value."""
    if _library(type(value)) in ("numba", "numba_cuda"):
        return WITHOUT_SOURCE.get(type(value).__name__)
    if isinstance(value, np.ufunc) and not hasattr(np, value.__name__):
        return 'numba keeps no source for target="parallel": decorate the function without it'
    return None


_MADE: WeakMemo[Any, Any] = WeakMemo()


def compiled_once(value: Any) -> Any:
    """The compiled function of a function of numba, which keeps its kernels as long as that exists."""
    return _MADE.made(value, lambda: provided.compile(value))


# -- definitions -------------------------------------------------------------------------------


def fitted(found: NumbaFunction, closure: Closure) -> Closure:
    """The definition of a function of numba, for the arguments that numba's function takes. As numba does, it
    reads no annotations."""
    parameters = tuple(replace(p, annotation=None) for p in closure.definition.parameters)
    definition = replace(closure.definition, parameters=parameters)
    filling = None if closure.filling is None else fitted(found, closure.filling)
    closure = replace(closure, definition=definition, counts=found.counts, filling=filling)
    match found.kind:
        case "vectorize":
            return replace(closure, core=(0,) * len(closure.definition.parameters))
        case "guvectorize":
            return _generalised(closure, found.layout)
    return replace(closure, definition=_annotated(closure.definition, found.types))


def _annotated(definition: tree.Def, types: Sequence[Any]) -> tree.Def:
    """A definition whose numbers have the types of the decorator's signature: integers, and float32."""
    if len(types) != len(definition.parameters):
        return definition
    pairs = zip(definition.parameters, types, strict=True)
    return replace(definition, parameters=tuple(_with_type(p, str(t)) for p, t in pairs))


def _with_type(parameter: tree.Parameter, named: str) -> tree.Parameter:
    name = "f32" if named == "float32" else "int" if re.fullmatch(r"u?int\d+", named) else None
    return replace(parameter, annotation=tree.Name(parameter.span, name)) if name else parameter


def _generalised(closure: Closure, layout: str) -> Closure:
    """The definition of a generalised ufunc: of its inputs, and it returns what it stores in its outputs."""
    left, _, right = layout.partition("->")
    cores = [[d.strip() for d in c.split(",") if d.strip()] for c in LAYOUT.findall(left)]
    made = [[d.strip() for d in c.split(",") if d.strip()] for c in LAYOUT.findall(right)]
    definition, source = closure.definition, closure.source
    count = len(cores)
    inputs, outputs = definition.parameters[:count], definition.parameters[count:]
    if returns(definition.body) or not made:
        cause = f"{definition.name} has no output that it stores in" if not made else "a return in a gufunc"
        _refuse(source, definition, cause, "store in an output, and let the body end without a return")
    first = [_Core(p, dims, definition) for p, dims in zip(inputs, cores, strict=True)]
    lengths = {d: one.length(k) for one in reversed(first) for k, d in enumerate(one.dimensions)}
    start: list[tree.Statement] = [one.boxed() for one in first if one.is_indexed and not one.dimensions]
    for output, dims in zip(outputs, made, strict=True):
        for d in dims:
            if not d.isdigit() and d not in lengths:
                cause = f"the length {d} of the output {output.name} is in none of the inputs"
                _refuse(
                    source,
                    output,
                    cause,
                    "write an @njit function that takes the length, and returns the array",
                )
        start.append(_allocated(output, [lengths.get(d) or _number(output, int(d)) for d in dims]))
    results = [_stored(output, dims) for output, dims in zip(outputs, made, strict=True)]
    span = definition.span
    value = results[0] if len(results) == 1 else tree.Sequence(span, "tuple", tuple(results))
    body = (*start, *definition.body, tree.Return(span, value))
    return replace(
        closure,
        definition=replace(definition, parameters=inputs, body=body),
        core=tuple(map(len, cores)),
        results=len(results),
    )


def _refuse(source: Source, node: tree.Tree, cause: str, remedy: str) -> None:
    raise ParseError(cause, remedy=remedy, source=source, span=node.span)


@dataclass(frozen=True)
class _Core:
    """An input of a generalised ufunc, and the names of its own axes."""

    parameter: tree.Parameter
    dimensions: Sequence[str]
    definition: tree.Def

    @property
    def name(self) -> tree.Name:
        return tree.Name(self.parameter.span, self.parameter.name)

    def length(self, axis: int) -> tree.Expression:
        span = self.parameter.span
        shape = tree.Attribute(span, self.name, "shape")
        return tree.Subscript(span, shape, (tree.Number(span, axis),))

    @property
    def is_indexed(self) -> bool:
        """Whether the body reads it as `x[0]`: numba passes a number as an array if its type is one."""
        nodes = postorder(list[tree.Tree](self.definition.body), tree.children)
        return any(
            isinstance(n, tree.Subscript) and getattr(n.value, "id", "") == self.parameter.name for n in nodes
        )

    def boxed(self) -> tree.Statement:
        """The number as an array of one element."""
        span = self.parameter.span
        return tree.Assign(span, (self.name,), tree.Sequence(span, "list", (self.name,)))


def _number(node: tree.Tree, value: int) -> tree.Expression:
    return tree.Number(node.span, value)


def _allocated(output: tree.Parameter, lengths: Sequence[tree.Expression]) -> tree.Statement:
    """`r = zeros((n, m))`; one element for an output without axes."""
    span = output.span
    shape = tree.Sequence(span, "tuple", tuple(lengths) or (_number(output, 1),))
    zeros = tree.Call(span, tree.Attribute(span, tree.Name(span, "np"), "zeros"), (shape,), ())
    return tree.Assign(span, (tree.Name(span, output.name),), zeros)


def _stored(output: tree.Parameter, dims: Sequence[str]) -> tree.Expression:
    """What an output holds at the end."""
    name = tree.Name(output.span, output.name)
    return name if dims else tree.Subscript(output.span, name, (_number(output, 0),))
