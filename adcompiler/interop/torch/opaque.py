"""Programs as one operator of PyTorch's dispatcher, `adcompiler::run`, for tools that record operators.

torch.compile and torch.export run functions on tensors without values, and record the called operators. They
need not trace a kernel, because the operator gives the shapes of its results. Its attribute is the text of
the program, so an exported function runs in another process that imports this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from adcompiler.errors import LimitError, ShapeError
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.interop.torch.memory import DTYPES, arrays, tensors
from adcompiler.ir.nodes import Apply, Const, Element, Func, Size
from adcompiler.ir.textform.printer import show
from adcompiler.ir.textform.reader import parse_func
from adcompiler.lazy import Memo
from adcompiler.runtime.programs.program import Program

LIBRARY = torch.library.Library("adcompiler", "DEF")
LIBRARY.define("run(str program, str backend, SymInt[] sizes, Tensor[] inputs, Tensor[] held) -> Tensor[]")
OPERATORS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b,
    "maximum": torch.sym_max,
    "minimum": torch.sym_min,
    "negative": lambda a: -a,
}
_programs: Memo[tuple[str, str], Program] = Memo()


def program_of(text: str, backend: str) -> Program:
    """The program with a given text; cached."""
    return _programs.made((text, backend), lambda: Program(parse_func(text), backend))


def call(
    program: Program, sizes: Sequence[Any], values: Sequence[Any], held: Sequence[Any] = ()
) -> tuple[Tensor, ...]:
    """The results by the operator, which tools can record.

    The operator does not read `held`. These are the values of the forward pass of a pullback: PyTorch sees
    that the pullback depends on them, even if it reads only gradients computed there, and does not treat it
    as constant.
    """
    text = show(program.func)
    _programs.made((text, program.backend), lambda: program)
    device = next(v.device for v in values if isinstance(v, Tensor))
    given = [
        v if isinstance(v, Tensor) else torch.as_tensor(v, dtype=DTYPES[i.dtype], device=device)
        for v, i in zip(values, program.func.inputs, strict=True)
    ]
    kept = [v for v in held if isinstance(v, Tensor)]
    return tuple(torch.ops.adcompiler.run(text, program.backend, sizes, given, kept))


def _run(
    program: str, backend: str, sizes: Sequence[int], inputs: Sequence[Tensor], held: Sequence[Tensor]
) -> list[Tensor]:
    found = program_of(program, backend)
    for number, k, axis in found.lengths.sources:
        if inputs[k].shape[axis] != sizes[number]:  # for example if a trace is run again
            raise ShapeError(
                f"{found.func.name} was recorded for other lengths: axis {axis} of "
                f"{found.func.input_names[k]} was {sizes[number]}, but is now {inputs[k].shape[axis]}",
                remedy="record it again, or use torch.export with dynamic_shapes",
            )
    return list(tensors(found, found.at(tuple(sizes), arrays(inputs)), inputs))


def _fake(
    program: str, backend: str, sizes: Sequence[Any], inputs: Sequence[Tensor], held: Sequence[Tensor]
) -> list[Tensor]:
    found = program_of(program, backend)
    return [
        inputs[0].new_empty([_length(n, sizes, found.func) for n in r.shape], dtype=DTYPES[r.dtype])
        for r in found.func.results
    ]


def _length(size: Element, sizes: Sequence[Any], func: Func) -> Any:
    """A length, possibly symbolic."""
    if isinstance(size, Const):
        return int(size.value)
    if isinstance(size, Size):
        return sizes[size.number]
    if isinstance(size, Apply) and size.op in OPERATORS:
        return OPERATORS[size.op](*(_length(a, sizes, func) for a in size.args))
    raise LimitError(
        f"{func.name} computes a length from values, which a graph of operators cannot do",
        remedy="call it outside torch.compile and torch.export",
    )


def lengths(program: Program, values: Sequence[Any]) -> list[Any]:
    """The lengths of the size symbols if they are PyTorch symbols: comparing these adds guards."""
    func, rules = program.func, program.lengths
    found: list[Any] = [None] * len(func.size_names)
    for number, k in func.counts:
        found[number] = torch.sym_max(int(values[k]), 0)
    for number, k, axis in rules.sources:
        n = values[k].shape[axis]
        if found[number] is None:
            found[number] = n
        elif found[number] != n:
            rules.mismatch(values)
    for size, k, axis in rules.fixed:
        if values[k].shape[axis] != _length(size, found, func):
            rules.mismatch(values)
    axes = [n for v in values for n in getattr(v, "shape", ()) if n != 1]
    axes += [found[number] for number, _ in func.counts]
    if not all(_holds(c, axes, func) for c in rules.demands):
        rules.check(rules.demands, values)
    return found


def _holds(constraint: Constraint, axes: Sequence[Any], func: Func) -> bool:
    """Whether lengths satisfy a constraint of a program; they are identified by axis."""
    if constraint.reach is not None and not _length(constraint.reach, axes, func) > 0:
        return True
    left, right = _length(constraint.left, axes, func), _length(constraint.right, axes, func)
    return bool(left >= right if constraint.at_least else left == right)


# -- what PyTorch asks of an operator ----------------------------------------------------------


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Sequence[Tensor]) -> None:
    program, backend, ctx.sizes, given, held = inputs
    ctx.held = len(held)
    ctx.program = program_of(program, backend)
    ctx.count = len(given)
    ctx.save_for_backward(*given, *output)
    whole = [r for r, d in zip(output, ctx.program.differentiable, strict=True) if not d]
    ctx.mark_non_differentiable(*whole)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, cotangents: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """The pullback: the operator again, with another program."""
    values = ctx.saved_tensors
    asked = tuple([v.requires_grad for v in values[: ctx.count]])
    pulled = ctx.program.pulled(tuple([c is not None for c in cotangents]), asked)
    given = [*(values[k] for k in pulled.reads), *(c for c in cotangents if c is not None)]
    gradients = pulled.spread(call(pulled.program, ctx.sizes, given, values) if any(pulled.known) else ())
    return None, None, None, gradients, [None] * ctx.held


def _vmap(
    info: Any,
    in_dims: Any,
    program: str,
    backend: str,
    sizes: Sequence[Any],
    inputs: Sequence[Tensor],
    held: Sequence[Tensor],
) -> tuple[list[Tensor], list[int]]:
    axes = in_dims[3]
    batched = program_of(program, backend).batched(tuple([axis is not None for axis in axes]))
    moved = [v.movedim(axis, 0) if axis else v for v, axis in zip(inputs, axes, strict=True)]
    found = list(call(batched, (*sizes, info.batch_size), moved))
    return found, [0] * len(found)


for key in ("CPU", "CUDA"):
    LIBRARY.impl("run", _run, key)
torch.library.register_fake("adcompiler::run", _fake, lib=LIBRARY)
torch.library.register_autograd("adcompiler::run", _backward, setup_context=_setup, lib=LIBRARY)
torch.library.register_vmap("adcompiler::run", _vmap, lib=LIBRARY)
