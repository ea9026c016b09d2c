"""Optimisers as functions: from parameters and state to new ones, in containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from adcompiler.eager.variable.leaves import Leaf, Tree, tree
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.pytree.trees import beside, built, leaves

State: TypeAlias = dict[str, Any]


class Rule(Protocol):
    """What an optimiser says of a single array, of one axis."""

    defaults: dict[str, Any]

    def begun(self, p: np.ndarray, group: dict[str, Any]) -> State:
        """The state before the first step."""

    def updated(
        self, p: np.ndarray, g: np.ndarray, state: State, group: dict[str, Any]
    ) -> tuple[np.ndarray, State]:
        """Parameter and state after a step; what is given stays as it is."""


def init(rule: Rule, params: Any) -> State:
    """The state before the first step: for each of its parts a container like params."""
    found = tree(params, "params")
    ones = list(leaves(found))
    states = [_begun(rule, one, rule.defaults) for one in ones]
    return _outside(found, ones, states, _parts(rule, rule.defaults))


def update(rule: Rule, grads: Any, params: Any, state: Any, group: dict[str, Any]) -> tuple[Any, State]:
    """Parameters and state after a step with the hyperparameters of `group`."""
    found, parts = tree(params, "params"), _parts(rule, group)
    ones = list(leaves(found))
    states = _inside(found, ones, state, parts)
    values = [one.value for one in ones]
    for k, (one, (path, g)) in enumerate(zip(ones, beside(found, grads, "grads"), strict=True)):
        if g is None:
            continue
        if one.dtype is None:
            raise DtypeError(f"{path} is a gradient, but {one.path} has no floats", remedy="pass None there")
        if states[k].get("step", 0) is None:
            raise ShapeError(f"there is no state for {one.path}", remedy=BEGIN)
        new, states[k] = rule.updated(one.flat(), one.flat_like(g, path), states[k], group)
        values[k] = one.like(new)
    return built(found, iter(values)), _outside(found, ones, states, parts)


BEGIN = "start with state = opt.init(params); then params, state = opt.update(grads, params, state)"


def _parts(rule: Rule, group: Mapping[str, Any]) -> list[str]:
    """The names of the parts of a state."""
    return list(rule.begun(np.empty(0), dict(group)))


def _begun(rule: Rule, one: Leaf, group: dict[str, Any]) -> State:
    """A leaf's state before the first step; all of it is None where there are no floats."""
    state = rule.begun(np.empty(one.size, one.dtype or float), group)
    return state if one.dtype else dict.fromkeys(state)


def _outside(found: Tree, ones: Sequence[Leaf], states: Sequence[State], parts: Iterable[str]) -> State:
    """The states of leaves as a container for each part of the state."""

    def value(one: Leaf, part: Any) -> Any:
        return one.like(part) if isinstance(part, np.ndarray) else part

    return {
        key: built(found, iter([value(one, own[key]) for one, own in zip(ones, states, strict=True)]))
        for key in parts
    }


def _inside(found: Tree, ones: Sequence[Leaf], state: Any, parts: Sequence[str]) -> list[State]:
    """The other way: the state of each leaf."""
    if not isinstance(state, dict) or set(state) != set(parts):
        keys = f"a dict with {', '.join(map(repr, parts)) or 'no keys'}"
        raise ShapeError(f"the state is not {keys}", remedy=BEGIN)
    states: list[State] = [{} for _ in ones]
    for key in parts:
        theirs = beside(found, state[key], f"state[{key!r}]")
        for one, own, (path, value) in zip(ones, states, theirs, strict=True):
            own[key] = value if value is None or key == "step" else one.flat_like(value, path)
    return states
