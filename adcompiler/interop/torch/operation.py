"""The one operation that PyTorch sees: a flat program on tensors, whose derivatives are calls of it again.

There are two classes for it, because PyTorch has two protocols: `Eager` for its autograd engine, which is
faster to enter, and `Staged` for the transforms of torch.func. Backward, jvp and vmap are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from adcompiler.interop.programs import Derivative, Program
from adcompiler.interop.torch.memory import arrays, tensors


@dataclass(frozen=True, slots=True, eq=False)
class At:
    """A program at the lengths of a call; to PyTorch's transforms an object without parts."""

    program: Program
    sizes: tuple[int, ...]


def perform(at: At, values: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a program, those that somebody wants, with whatever history PyTorch gives them."""
    program = at.program
    transformed = torch._C._are_functorch_transforms_active()
    if torch.is_grad_enabled():
        wanted = tuple(
            [
                f and isinstance(v, Tensor) and v.requires_grad
                for f, v in zip(program.floats, values, strict=True)
            ]
        )
        if True in wanted:
            at = At(program.saving(wanted, at.sizes), at.sizes)
            return _applied(Staged if transformed else Eager, at, values)
    if transformed or forward_ad._current_level >= 0:
        return _applied(Staged, at, values)
    return run(at, values)


def _applied(operation: Any, at: At, values: Sequence[Any]) -> tuple[Any, ...]:
    found: tuple[Any, ...] = operation.apply(at, *values)
    return found[: at.program.count]


def run(at: At, values: Sequence[Any]) -> tuple[Tensor, ...]:
    """All results, without history."""
    return tensors(at.program, at.program.run(at.sizes, arrays(values)), values)


class _Operation(torch.autograd.Function):  # type: ignore[misc]  # torch is not looked into
    """What both protocols share."""

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        at: At = ctx.at
        present = tuple([c is not None for c in cotangents])
        asked = tuple(ctx.needs_input_grad[1:])
        if True not in present or True not in asked:
            return (None,) * (1 + len(asked))
        pulled = at.program.pulled(present, asked)
        return None, *_derived(ctx, pulled, [c for c in cotangents if c is not None])

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        program = ctx.at.program
        given = tuple([t is not None and f for t, f in zip(tangents, program.floats, strict=True)])
        pushed = program.pushed(given)
        found = _derived(ctx, pushed, [t for t, here in zip(tangents, given, strict=True) if here])
        return tuple(found)


def _derived(ctx: Any, derivative: Derivative, directions: Sequence[Any]) -> list[Tensor | None]:
    """A derivative of an operation that was performed, None where it is known to be zero."""
    if not any(derivative.known):
        return [None] * len(derivative.known)
    values = _saved(ctx)
    given = [*(values[k] for k in derivative.reads), *directions]
    found = iter(perform(At(derivative.program, ctx.at.sizes), given))
    return [next(found) if known else None for known in derivative.known]


def _save(ctx: Any, at: At, values: Sequence[Any], results: Sequence[Tensor], forward: bool) -> None:
    """Keep what derivatives may read: the values, and the results that are there for it."""
    ctx.at = at
    ctx.set_materialize_grads(False)
    everything = [*values, *results]
    ctx.others = [None if isinstance(v, Tensor) else v for v in everything]
    kept = [v for v in everything if isinstance(v, Tensor)]
    ctx.save_for_backward(*kept)
    if forward:
        ctx.save_for_forward(*kept)
    whole = [r for r, d in zip(results, at.program.differentiable, strict=True) if not d]
    if whole:
        ctx.mark_non_differentiable(*whole)


def _saved(ctx: Any) -> list[Any]:
    """The values and results of an operation that was performed."""
    kept = iter(ctx.saved_tensors)
    return [next(kept) if other is None else other for other in ctx.others]


class Eager(_Operation):
    """The operation for the autograd engine."""

    @staticmethod
    def forward(ctx: Any, at: At, *values: Any) -> tuple[Tensor, ...]:
        found = run(at, values)
        _save(ctx, at, values, found, forward_ad._current_level >= 0)
        return found


class Staged(_Operation):
    """The operation for torch.func: its forward knows no context, and it is mapped over batches."""

    @staticmethod
    def forward(at: At, *values: Any) -> tuple[Tensor, ...]:
        return run(at, values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        at, *values = inputs
        _save(ctx, at, values, output, True)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], at: At, *values: Any) -> tuple[Any, Any]:
        _, *axes = in_dims
        mapped = tuple([axis is not None for axis in axes])
        moved = [v.movedim(axis, 0) if axis else v for v, axis in zip(values, axes, strict=True)]
        found = Staged.apply(At(at.program.batched(mapped), (*at.sizes, info.batch_size)), *moved)
        return found, (0,) * len(found)
