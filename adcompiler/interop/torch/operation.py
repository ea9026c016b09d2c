"""The one operation that PyTorch sees: a flat program on tensors, whose derivatives are calls of it again.

There are two classes, because PyTorch has two protocols: `Eager` for its autograd engine, with less overhead,
and `Staged` for the transforms of torch.func. Backward, jvp and vmap are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from adcompiler.ad.programs.split import Pattern
from adcompiler.errors import LimitError
from adcompiler.interop.torch import opaque
from adcompiler.interop.torch.memory import arrays, tensors
from adcompiler.lazy import Memo
from adcompiler.runtime.programs.program import Derivative, Program


class At:
    """A program at the lengths of a call; PyTorch's transforms see an object without parts. With `opaque`
    tensors, whose memory has no numbers, it runs as an operator of PyTorch."""

    __slots__ = ("_derived", "_saving", "count", "opaque", "program", "sizes")

    def __init__(self, program: Program, sizes: tuple[int, ...], opaque: bool = False) -> None:
        self.program, self.sizes, self.count, self.opaque = program, sizes, program.count, opaque
        self._saving: Memo[Pattern, At] = Memo()
        self._derived: Memo[Any, tuple[Derivative, At]] = Memo()

    def saving(self, wanted: Pattern) -> At:
        """The program that also returns what the pullback to the inputs `wanted` needs."""

        def make() -> At:
            known = all(type(n) is int for n in self.sizes)
            program = self.program.saving(wanted, self.sizes if known else None)
            return At(program, self.sizes, self.opaque)

        return self._saving.made(wanted, make)

    def derived(self, how: Callable[..., Derivative], *patterns: Pattern) -> tuple[Derivative, At]:
        """A pullback or pushforward of the program, and its own `At`."""

        def make() -> tuple[Derivative, At]:
            made = how(self.program, *patterns)
            return made, At(made.program, self.sizes, self.opaque)

        return self._derived.made((how, patterns), make)


def perform(at: At, values: Sequence[Any], held: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The results of a program that the caller wants, with their autograd history. PyTorch also records a
    dependence on `held`, which is not read."""
    if torch._C._get_tracing_state():
        refuse_trace()
    transformed = torch._C._are_functorch_transforms_active()
    if torch.is_grad_enabled():
        wanted = tuple([v.requires_grad if isinstance(v, Tensor) else False for v in values])
        if True in wanted:
            return _applied(Staged.apply if transformed else eagerly, at.saving(wanted), values)
    if transformed or forward_ad._current_level >= 0:
        return _applied(Staged.apply, at, values)
    return run(at, values, held)


def everything(at: At, values: Sequence[Any]) -> tuple[Tensor, ...]:
    """All results of a program, including saved ones, with their autograd history."""
    transformed = torch._C._are_functorch_transforms_active()
    followed = torch.is_grad_enabled() and any(isinstance(v, Tensor) and v.requires_grad for v in values)
    if not (transformed or followed or forward_ad._current_level >= 0):
        return run(at, values)
    operation = Staged.apply if transformed or not followed else eagerly
    found: tuple[Tensor, ...] = operation(at, *values)
    return found


def _applied(operation: Callable[..., Any], at: At, values: Sequence[Any]) -> tuple[Any, ...]:
    found: tuple[Any, ...] = operation(at, *values)
    return found[: at.count]


def eagerly(at: At, *values: Any) -> tuple[Tensor, ...]:
    """`Eager.apply` for a caller that knows that no transform of torch.func is active."""
    found: tuple[Tensor, ...] = _apply(at, *[_unwrapped(v) if isinstance(v, Tensor) else v for v in values])
    return found


def run(at: At, values: Sequence[Any], held: Sequence[Any] = ()) -> tuple[Tensor, ...]:
    """All results, without history."""
    if at.opaque or torch._C._len_torch_dispatch_stack():  # a tool records operators
        return opaque.call(at.program, at.sizes, values, held)
    program = at.program
    try:
        given = arrays(values)
    except RuntimeError as error:
        raise explained(error) from error
    return tensors(program, program.at(at.sizes, given), values)


def refuse_trace() -> None:
    """Refuse torch.jit.trace, which would record results as constants."""
    raise LimitError(
        "compiled functions are not traced by torch.jit",
        remedy="use torch.export.export(adc.torch.Module(f), args)",
    )


def explained(error: RuntimeError) -> Exception:
    """The error of ours for a PyTorch error about a tensor's memory."""
    if "Batching rule" not in str(error):
        return error
    return LimitError(
        "compiled functions do not run under PyTorch's old vmap, used by is_grads_batched and vectorize",
        remedy="use torch.func instead: torch.func.vmap, jacrev, jacfwd, hessian",
    )


class _Operation(torch.autograd.Function):  # type: ignore[misc]  # torch is not looked into
    """The common part of both protocols."""

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        at: At = ctx.at
        present = tuple([c is not None for c in cotangents])
        asked = tuple(ctx.needs_input_grad[1:])
        if True not in present or True not in asked:
            return (None,) * (1 + len(asked))
        pulled = at.derived(Program.pulled, present, asked)
        return None, *derived(pulled, _saved(ctx), [c for c in cotangents if c is not None])

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        at: At = ctx.at
        given = tuple([t is not None and f for t, f in zip(tangents, at.program.floats, strict=True)])
        pushed = at.derived(Program.pushed, given)
        values = _saved(ctx)
        found = derived(pushed, values, [t for t, here in zip(tangents, given, strict=True) if here])
        for k, result in enumerate(values[len(given) :]):
            if found[k] is None and at.program.differentiable[k]:
                found[k] = torch.zeros_like(result)  # PyTorch does not take None for zero here
        return tuple(found)


def derived(
    made: tuple[Derivative, At], values: Sequence[Any], directions: Sequence[Any]
) -> list[Tensor | None]:
    """A derivative of a performed operation, None where it is known to be zero."""
    derivative, at = made
    if True not in derivative.known:
        return [None] * len(derivative.known)
    return derivative.spread(perform(at, [*[values[k] for k in derivative.reads], *directions], values))


def _save(ctx: Any, at: At, values: Sequence[Any], results: Sequence[Tensor], forward: bool) -> None:
    """Save what derivatives may read: the values, and all results."""
    ctx.at = at
    ctx.set_materialize_grads(False)
    ctx.others = None
    kept = [*values, *results]
    if not all([isinstance(v, Tensor) for v in values]):  # noqa: C419  (a generator takes longer)
        ctx.others = [None if isinstance(v, Tensor) else v for v in kept]
        kept = [v for v in kept if isinstance(v, Tensor)]
    ctx.save_for_backward(*kept)
    if forward:
        ctx.save_for_forward(*kept)
    if at.program.whole:
        ctx.mark_non_differentiable(*[results[k] for k in at.program.whole])


def _saved(ctx: Any) -> list[Any]:
    """The saved values and results of a performed operation."""
    if ctx.others is None:
        return list(ctx.saved_tensors)
    kept = iter(ctx.saved_tensors)
    return [next(kept) if other is None else other for other in ctx.others]


class Eager(_Operation):
    """The operation for the autograd engine."""

    @staticmethod
    def forward(ctx: Any, at: At, *values: Any) -> tuple[Tensor, ...]:
        found = run(at, values)
        _save(ctx, at, values, found, forward_ad._current_level >= 0)
        return found


_apply = super(torch.autograd.Function, Eager).apply  # what torch.autograd.Function.apply calls
_unwrapped = torch._C._functorch.unwrap_if_dead  # of wrappers left by a transform of torch.func


class Staged(_Operation):
    """The operation for torch.func: its forward has no context, and it is mapped over batches."""

    @staticmethod
    def forward(at: At, *values: Any) -> tuple[Tensor, ...]:
        return run(at, values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep what derivatives need: PyTorch calls this."""
        at, *values = inputs
        _save(ctx, at, values, output, True)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], at: At, *values: Any) -> tuple[Any, Any]:
        """The batch of the program: PyTorch calls this."""
        _, *axes = in_dims
        mapped = tuple([axis is not None for axis in axes])
        moved = [v.movedim(axis, 0) if axis else v for v, axis in zip(values, axes, strict=True)]
        batched = At(at.program.batched(mapped), (*at.sizes, info.batch_size), at.opaque)
        found = Staged.apply(batched, *moved)
        return found, (0,) * len(found)
