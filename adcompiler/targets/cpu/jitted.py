"""A compiled program as a function for the user's own @njit code.

numba requests an implementation for the types of each call. It is a generated wrapper around the machine code
that Python calls for any lengths, on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from types import ModuleType
from typing import Any

from adcompiler.errors import DtypeError
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.ir.nodes import Func
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.kernels.emit.kernel import with_header
from adcompiler.kernels.emit.names import Names
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.pytree.containers import Container
from adcompiler.pytree.kinds import ArgType, Kind, Static
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.cpu.numba_call import MachineCall
from adcompiler.targets.numba import modules
from adcompiler.targets.numba.wrapper import wrapper

Structure = Any
Specialise = Callable[[Sequence[Kind], list[Constraint]], tuple[Func, Structure]]


def module_of(func: Func, backend: str, compared: Sequence[Constraint] = (), after: str = "") -> ModuleType:
    """A module with the program as a function for numba: `call(*inputs)` returns a tuple of the results.

    It has the machine code of Python's calls. Where that comes from numba, so does this. `after` is further
    source of the module.
    """
    kernel = CpuKernel(scheduled(func), backend.startswith("cpu-precise"), by_numba=backend == "numba")
    is_native = kernel.native is not None
    run = MachineCall(kernel) if is_native else None
    source = kernel.kernel.source if run is None else run.text or repr(kernel.source)
    text = wrapper(kernel.kernel, kernel.plan, kernel.partitions, compared, contiguous=is_native)
    comment = f"# {sha256(source.encode()).hexdigest()}\n"
    called = modules.load(source).run if run is None else run.intrinsic()
    return modules.load(with_header(comment, "\n\n".join(filter(None, (text, after)))), run=called)


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


def jitted(
    name: str, params: Sequence[str], fallback: Callable[..., Any], specialise: Specialise, backend: str
) -> Any:
    """A Python function of `params` whose calls numba compiles; Python calls run `fallback`.

    `specialise` returns the program for the types (dtype, rank) of a call, and what it compares of lengths.
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
        compared: list[Constraint] = []
        func, structure = specialise(kinds, compared)
        made: dict[str, Any] = {f"_to_{d}": t.type for d, t in NUMPY.items()}
        made["_call"] = module_of(func, backend, compared).call
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
