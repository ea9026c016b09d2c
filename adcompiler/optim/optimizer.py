"""Common parts of optimisers: groups and state as in PyTorch, and the functional form on containers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import setting
from adcompiler.eager.variable.variable import Variable
from adcompiler.errors import DtypeError, GraphError, ShapeError
from adcompiler.frames import public
from adcompiler.optim import functional
from adcompiler.optim.functional import State
from adcompiler.optim.groups import Group, check, check_names, groups_of, variables_of


class Optimizer:
    """The base class of optimisers, with PyTorch's parameters and results.

    params  Variables (as adc.parameters(model) returns them), or a list of groups: dicts with "params" and
            their own hyperparameters. With nothing, or a container of arrays, only `init` and `update` work

    step() gives each Variable another value, and a backward pass through a graph that read the old one raises
    GraphError. Change a hyperparameter by `opt.param_groups[0]["lr"] = ...`.
    """

    def __init__(self, params: Any, defaults: Group) -> None:
        check(type(self).__name__, defaults)
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: defaultdict[Variable, State] = defaultdict(dict)
        for group in groups_of(type(self).__name__, params):
            self.add_param_group(group)

    # -- what a subclass says, of arrays of one axis -------------------------------------------

    def begun(self, p: np.ndarray, group: Group) -> State:
        """The state before the first step."""
        raise NotImplementedError

    def updated(self, p: np.ndarray, g: np.ndarray, state: State, group: Group) -> tuple[np.ndarray, State]:
        """Parameter and state after a step; what is given stays as it is."""
        raise NotImplementedError

    # -- on Variables --------------------------------------------------------------------------

    @public
    def add_param_group(self, param_group: Group) -> None:
        """Update other Variables too: a dict with "params" and their own hyperparameters."""
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise DtypeError(
                "a group is a dict with 'params'", remedy='add_param_group({"params": [w], ...})'
            )
        held = {id(p) for p in self._params()}
        params = variables_of(type(self).__name__, param_group["params"], held)
        group = {**self.defaults, **param_group, "params": params}
        check(type(self).__name__, group)
        self.param_groups.append(group)

    @public
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every Variable that has a gradient; returns what `closure`, called first, returns."""
        if not self.param_groups:
            raise GraphError(
                f"{type(self).__name__} was given no Variables to update",
                remedy=f"{type(self).__name__}(adc.parameters(model), ...); arrays are updated by update()",
            )
        with setting(recording=True):
            loss = None if closure is None else closure()
        for group in self.param_groups:
            check(type(self).__name__, group)
            for p in group["params"]:
                if not p.is_leaf:
                    raise GraphError(
                        f"{p.name} was computed: an update would contradict its graph", remedy=LEAVES
                    )
                if p._grad is not None:
                    self._step(p, p._grad, group)
        return loss

    def _step(self, p: Variable, g: Variable, group: Group) -> None:
        flat = p.data.reshape(-1)
        state = _reshaped(self.state[p], (-1,)) or self.begun(flat, group)
        new, state = self.updated(flat, g.data.astype(p.dtype, copy=False).reshape(-1), state, group)
        self.state[p] = _reshaped(state, p.shape)
        p.hold(new.reshape(p.shape))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset all gradients to None, or to zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none or p._grad is None:
                    p.grad = None
                    continue
                if p._grad.entry is not None:
                    p._grad.detach_()
                with setting(recording=False):
                    p._grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        """Groups and state in PyTorch's format, with numbers in place of Variables.

        Later steps do not change the arrays.
        """
        number = {p: k for k, p in enumerate(self._params())}
        groups = [{**g, "params": [number[p] for p in g["params"]]} for g in self.param_groups]
        state = {number[p]: dict(s) for p, s in self.state.items() if s}
        return {"state": state, "param_groups": groups}

    @public
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from the `state_dict()` of another optimiser, also of PyTorch's.

        Raises ShapeError if its groups or the shapes of its state do not fit.
        """
        if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= state_dict.keys():
            raise DtypeError(
                "this is not a state_dict", remedy="pass the result of an optimiser's state_dict()"
            )
        saved, groups = state_dict["state"], state_dict["param_groups"]
        sizes = [[len(g["params"]) for g in gs] for gs in (groups, self.param_groups)]
        if sizes[0] != sizes[1]:
            raise ShapeError(
                f"the state has groups of {sizes[0]} parameters, but the optimiser has {sizes[1]}",
                remedy="create the optimiser with the same groups",
            )
        numbers = [number for group in groups for number in group["params"]]
        merged = [
            {**own, **g, "params": own["params"]} for own, g in zip(self.param_groups, groups, strict=True)
        ]
        for group in merged:
            check(type(self).__name__, group)
        pairs = zip(numbers, self._params(), strict=True)
        state = {p: _loaded(p, saved[number]) for number, p in pairs if number in saved}
        self.param_groups = merged
        self.state = defaultdict(dict, state)

    def _params(self) -> list[Variable]:
        return [p for group in self.param_groups for p in group["params"]]

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for k, group in enumerate(self.param_groups or [self.defaults]):
            lines.append(f"Parameter Group {k}" if self.param_groups else "defaults")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # -- on containers of arrays ---------------------------------------------------------------

    @public
    def init(self, params: Any) -> State:
        """The state before the first step: for each of its parts, such as "exp_avg", a container like params.

        params  an array or a number, or dicts, lists, tuples, named tuples and dataclasses of them, nested
        """
        return functional.init(self, params)

    @public
    def update(self, grads: Any, params: Any, state: State, **hyperparameters: Any) -> tuple[Any, State]:
        """Parameters and state after one step, as new containers: `params, state = opt.update(...)`.

        grads            a container like `params`, as `adc.grad` gives; where it is None, also for all of a
                         container, parameters and their state stay as they are
        params           arrays and numbers, in containers as `init` takes them
        state            what `init` or the last `update` returned
        hyperparameters  others than the optimiser's for this step: lr=0.01

        Nothing is changed in place. Raises ShapeError if gradients or state do not nest like params or have
        other shapes, DtypeError for a value that is not an array of floats.
        """
        check_names(type(self).__name__, hyperparameters, self.defaults)
        group = {**self.defaults, **hyperparameters}
        check(type(self).__name__, group)
        return functional.update(self, grads, params, state, group)


LEAVES = "optimise the leaves that it was computed from, or detach() it"


def _reshaped(state: State, shape: tuple[int, ...]) -> State:
    return {key: v.reshape(shape) if isinstance(v, np.ndarray) else v for key, v in state.items()}


def _loaded(p: Variable, state: State) -> State:
    """The state of a Variable, copied; that of PyTorch's tensors becomes arrays."""
    made: State = {}
    for key, value in state.items():
        if value is None or key == "step":
            made[key] = None if value is None else int(value)
            continue
        made[key] = np.asarray(value).astype(p.dtype)
        if made[key].shape != p.shape:
            raise ShapeError(
                f"the state {key!r} of {p.name} has shape {made[key].shape}", remedy=f"it must have {p.shape}"
            )
    return made
