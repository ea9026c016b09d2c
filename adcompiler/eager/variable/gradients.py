"""`adc.tape.grad`: gradients of Variables with respect to Variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from adcompiler import provided
from adcompiler.eager.graph.cotangents import seed, separate
from adcompiler.eager.graph.graph import Walked, reachable, setting, state, walk
from adcompiler.eager.graph.holders import refuse_none, retaining
from adcompiler.eager.variable.variable import Variable
from adcompiler.errors import DtypeError, GraphError, ShapeError
from adcompiler.frames import public


@overload
def grad(
    outputs: Variable | Sequence[Variable],
    inputs: Variable,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = True,
    materialize_grads: bool = False,
) -> Variable | None: ...
@overload
def grad(
    outputs: Variable | Sequence[Variable],
    inputs: Sequence[Variable],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = True,
    materialize_grads: bool = False,
) -> list[Variable | None]: ...
@public
def grad(
    outputs: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = True,
    materialize_grads: bool = False,
) -> Variable | list[Variable | None] | None:
    """The gradients of `outputs` (of their sum, weighted by `grad_outputs`) with respect to `inputs`.

    outputs       a Variable or several
    inputs        any Variables, leaves or computed, whether they require a gradient or not; for a single
                  one the result is a single gradient, for a list or tuple a list
    grad_outputs  a cotangent for each output, of its shape; by default ones
    retain_graph  keep the graph for another pass; otherwise entries that require a gradient are freed after
                  the pass, as in PyTorch (create_graph keeps them); others are always kept
    create_graph  make the gradients differentiable
    allow_unused  whether a gradient may be None; otherwise GraphError names the input
    materialize_grads  return zeros instead of None

    A gradient has its input's shape and dtype. It is None, which means zero, if no path leads from
    the input to an output. Raises GraphError if the graph was freed, or if values that it needs were
    changed.
    """
    if materialize_grads and not allow_unused:
        raise GraphError(
            "grad() cannot both refuse unused inputs and return zeros for them",
            remedy="omit allow_unused=False or materialize_grads=True",
        )
    targets = [inputs] if isinstance(inputs, Variable) else variables_of("inputs", inputs)
    refuse_none(targets, "grad")
    for v in targets:
        if not v.differentiable:
            raise DtypeError(f"{v.name} holds {v.dtype}: there is no derivative", remedy="pass floats")
    ends, weights = _ends(outputs, grad_outputs)
    walked = _walked(ends, weights, targets, create_graph)
    for serial, v in retaining(walked.run, walked.cotangents).items():
        v._accumulate(walked.cotangents[serial], create_graph, ends)
    if not (create_graph if retain_graph is None else retain_graph):
        for entry in walked.run:
            if any(o.requires_grad for o in entry.outputs):
                entry.free("freed")
    found = [walked.cotangents.get(v.serial) for v in targets]
    if not allow_unused:
        _refuse_unused(ends, targets, found)
    with setting(recording=create_graph, tracing=False):
        found = [g if g is None else separate(g, create_graph, ends) for g in found]
    if materialize_grads:
        found = [_zeros(v, create_graph) if g is None else g for v, g in zip(targets, found, strict=True)]
    return found[0] if isinstance(inputs, Variable) else found


def _zeros(v: Variable, requires_grad: bool) -> Variable:
    made = Variable.made(np.zeros(v.shape, v.dtype))
    made.requires_grad = requires_grad
    return made


def _refuse_unused(
    ends: Sequence[Variable], targets: Sequence[Variable], found: Sequence[Variable | None]
) -> None:
    for v, g in zip(targets, found, strict=True):
        if g is None:
            title = f"{_names(ends)} does not depend on {v.name}: its gradient is None"
            raise GraphError(
                provided.unused(title, ends[0], v),
                remedy="use allow_unused=True for None, or materialize_grads=True for zeros",
            )


def _names(variables: Sequence[Variable]) -> str:
    return ", ".join(v.name for v in variables)


def _ends(outputs: Any, grad_outputs: Any) -> tuple[list[Variable], list[Any]]:
    """The outputs, and a cotangent or None for each."""
    single = isinstance(outputs, Variable)
    ends = [outputs] if single else variables_of("outputs", outputs)
    weights = [grad_outputs] if single else list(grad_outputs or [None] * len(ends))
    if len(weights) != len(ends):
        raise ShapeError(
            f"{len(weights)} grad_outputs for {len(ends)} outputs", remedy="pass one for each, or None"
        )
    return ends, weights


def _walked(
    ends: Sequence[Variable], weights: Sequence[Any], targets: Sequence[Variable], create_graph: bool
) -> Walked:
    """A walk back from some Variables, traced."""
    label, entries = _names(ends), reachable(ends)
    if state.tracing:
        print(f"d{label} {RULE}")
    walked = walk(entries, _seeds(ends, weights), {v.serial: v for v in targets}, create_graph)
    if state.tracing:
        names = {o.serial: o.name for e in entries for o in e.outputs}
        names |= {v.serial: v.name for v in (*ends, *targets)}
        for serial, g in walked.cotangents.items():
            print(f"d{label}_d{names[serial]} = {g.name}")
        print(RULE)
    return walked


RULE = "-" * 24


def _seeds(ends: Sequence[Variable], weights: Sequence[Any]) -> dict[int, Variable]:
    seeds: dict[int, Variable] = {}
    for v, weight in zip(ends, weights, strict=True):
        if not v.differentiable:
            raise DtypeError(f"{v.name} holds {v.dtype}: it has no gradient", remedy="compute it in floats")
        if v.entry is not None and v.entry.state == "reset":
            raise GraphError(f"the graph behind {v.name} was dropped by reset()", remedy="compute it again")
        g = seed(v, weight)
        seeds[v.serial] = seeds[v.serial] + g if v.serial in seeds else g
    return seeds


def variables_of(what: str, given: Any) -> list[Variable]:
    """A list of Variables that an argument called `what` is; DtypeError if it is anything else."""
    if not isinstance(given, list | tuple):
        why = ""
        if given is None:
            why = "; a gradient of None is zero, and so is its derivative"
        elif isinstance(given, np.ndarray | np.generic | int | float):
            why = ": comparisons, float(), .item() and .value are plain numbers, not part of a graph"
        raise DtypeError(
            f"{what} is a {type(given).__name__}", remedy=f"pass a Variable, or a list of them{why}"
        )
    for v in given:
        if not isinstance(v, Variable):
            raise DtypeError(
                f"{what} holds a {type(v).__name__}, which is not part of a graph",
                remedy="pass adc.Variables, or results computed from them",
            )
    return list(given)
