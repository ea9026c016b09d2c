"""A compiled program as a function for the user's own @njit code.

numba requests an implementation for the types of each call. It is a generated wrapper around the same kernel
that allocates the results and partitions the nests into blocks as `targets/cpu/compiled.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from adcompiler.errors import DtypeError
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.ir.nodes import Array, Func, Shape, Size, const
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.kernels.emit.block_partition import plan_lines
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.emit.kernel import Kernel, with_header
from adcompiler.kernels.emit.names import Names
from adcompiler.kernels.emit.writer import Writer
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.loopir.printer import ATOM
from adcompiler.loopir.printer import lines as lines_of
from adcompiler.pytree.containers import Container
from adcompiler.pytree.kinds import ArgType, Kind, Static
from adcompiler.targets.numba import modules

ONE = const(1, "i64")
Structure = Any
Specialise = Callable[[Sequence[Kind]], tuple[Func, Structure]]


def wrapper_source(kernel: Kernel, after: str = "", compared: Sequence[Constraint] = ()) -> str:
    """The kernel's source and `call(*inputs)`, which returns a tuple of the results.

    `after` is further source of the module, `compared` what has to hold between the lengths of a call.
    """
    func = kernel.func
    writer = Writer(kernel.arrays, kernel.sizes, (), {})
    params = [kernel.arrays[i] for i in func.inputs]
    known: set[int] = set()
    for array, name in zip(func.inputs, params, strict=True):
        for axis, size in enumerate(array.shape):
            if isinstance(size, Size) and size.number not in known:
                known.add(size.number)
                writer.line(f"{kernel.sizes[size.number]} = {name}.shape[{axis}]")
            else:
                writer.line(f"if {name}.shape[{axis}] != {writer.text(size, ATOM)}:")
                writer.line(f'    raise ValueError("axis {axis} of {name} has a length that does not fit")')
    for number, position in func.counts:
        writer.line(f"{kernel.sizes[number]} = max({params[position]}, 0)")
    for one in compared:
        reach, left, right = (writer.text(n or ONE, ATOM) for n in (one.reach, one.left, one.right))
        writer.line(f"if {reach} > 0 and {left} {'<' if one.at_least else '!='} {right}:")
        writer.line("    raise ValueError('lengths do not fit')")
    for k in range(len(kernel.nests)):
        plan_lines(writer, kernel, k)
    for buffer in kernel.buffers:
        first = [] if buffer.nest is None else [f"blocks{buffer.nest}"]
        shape = "".join(f"{n}, " for n in (*first, *_texts(writer, buffer.shape)))
        writer.line(f"{buffer.name} = np.empty(({shape}), np.{NUMPY[buffer.dtype]})")
    args = [*kernel.sizes, *params, *(b.name for b in kernel.buffers)]
    args += [f"{what}{k}" for k in range(len(kernel.nests)) for what in ("blocks", "rows")]
    writer.line(f"scalars = run({', '.join(args)})")
    for check in func.checks:
        writer.line(f"if scalars[{kernel.scalars.index(check.holds)}] == 0:")
        writer.line(f"    raise IndexError({check.cause!r})")
    writer.line(f"return ({''.join(f'{_result(kernel, array)}, ' for array in func.results)})")
    lines = [
        f"@jit\ndef call({', '.join(params)}):",
        *("    " + line for line in lines_of(writer.scopes[0])),
        "",
    ]
    text = "\n\n".join(filter(None, (kernel.text, "\n".join(lines), after)))
    return with_header(kernel.comment, text)


def _texts(writer: Writer, shape: Shape) -> list[str]:
    return [writer.text(n, ATOM) for n in shape]


def _result(kernel: Kernel, array: Array) -> str:
    if array in kernel.scalars:
        return f"scalars[{kernel.scalars.index(array)}]"
    return kernel.arrays[array]


def _nested(structure: Structure, leaves: Iterator[str], made: dict[str, Any]) -> str:
    """The text of results nested as in `structure`; classes of named tuples are added to `made`."""
    if structure is None:
        return next(leaves)
    if isinstance(structure, Static):
        return repr(structure.value)
    named = isinstance(structure, Container) and structure.kind not in (tuple, list)
    parts = structure.parts if isinstance(structure, Container) else structure
    text = "(" + "".join(f"{_nested(part, leaves, made)}, " for part in parts) + ")"
    if named:
        name = f"_kind{len(made)}"
        made[name] = structure.kind
        return name + text
    return text


def _reads(text: str, kind: Kind) -> Iterator[tuple[str, ArgType]]:
    """The text that reads each array of an argument."""
    if isinstance(kind, Container):
        for k, part in enumerate(kind.parts):
            yield from _reads(f"{text}[{k}]", part)
    elif isinstance(kind, ArgType):
        yield text, kind


def jitted(name: str, params: Sequence[str], fallback: Callable[..., Any], specialise: Specialise) -> Any:
    """A Python function of `params` whose calls numba compiles; Python calls run `fallback`.

    `specialise` returns the program for the types (dtype, rank) of a call.
    """
    from numba.extending import overload

    mangled = Names()
    names = [mangled.fresh(p) for p in params]
    listed = ", ".join(names)
    namespace: dict[str, Any] = {"fallback": fallback}
    text = f"def stub({listed}):\n    return fallback({listed})\n"
    text += f"def types({listed}):\n    return implement([{listed}])\n"

    def implement(types: Sequence[Any]) -> Any:
        kinds = [_described(n, t) for n, t in zip(params, types, strict=True)]
        func, structure = specialise(kinds)
        made: dict[str, Any] = {f"_to_{d}": t.type for d, t in NUMPY.items()}
        made["_call"] = modules.load(wrapper_source(emit(scheduled(func)))).call
        reads = [read for n, kind in zip(names, kinds, strict=True) for read in _reads(n, kind)]
        given = zip(reads, func.inputs, strict=True)
        casts = ", ".join(n if kind.ones else f"_to_{i.dtype}({n})" for (n, kind), i in given)
        found = (f"_found[{k}]" for k in range(len(func.results)))
        text = f"def implementation({listed}):\n    _found = _call({casts})\n"
        text += f"    return {_nested(structure, found, made)}\n"
        exec(text, made)  # our own text, mangled names: none begins with _
        return made["implementation"]

    namespace["implement"] = implement
    exec(text, namespace)  # our own text, mangled names
    stub = namespace["stub"]
    stub.__name__ = stub.__qualname__ = name
    overload(stub)(namespace["types"])
    return stub


def _described(name: str, kind: Any) -> Kind:
    """The kind of an argument from its numba type: dtypes and ranks, and the nesting of tuples."""
    from numba import types

    if isinstance(kind, types.BaseTuple):
        container = Container(
            getattr(kind, "instance_class", tuple), (*getattr(kind, "fields", range(len(kind))),), ()
        )
        parts = [_described(name + container.path(k), t) for k, t in zip(container.keys, kind, strict=True)]
        return replace(container, parts=tuple(parts))
    if isinstance(kind, types.NoneType):
        return Static(None)
    rank = int(getattr(kind, "ndim", 0))
    element = types.unliteral(kind.dtype if isinstance(kind, types.Array) else kind)
    known: dict[Any, Dtype] = {types.float64: "f64", types.float32: "f32", types.boolean: "bool"}
    if element in known:
        return ArgType(known[element], (False,) * rank)
    if isinstance(element, types.Integer) and (element is types.int64 or not rank):
        return ArgType("i64", (False,) * rank)
    raise DtypeError(
        f"the argument {name!r} is a {kind}",
        remedy="pass float64, float32, int64 or bool; of containers, tuples and named tuples",
    )
