"""The parameter groups of an optimiser, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from adcompiler.eager.graph.graph import is_variable
from adcompiler.eager.variable.leaves import tree
from adcompiler.eager.variable.variable import Variable
from adcompiler.errors import DtypeError, Error, GraphError

Group: TypeAlias = dict[str, Any]
AT_LEAST_0 = ("lr", "eps", "momentum", "weight_decay")
NUMBERS = (*AT_LEAST_0, "dampening")
REFUSED = ("capturable", "differentiable")


class HyperparameterError(Error, ValueError):
    """A hyperparameter is outside its range, or unknown."""


def check_names(name: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise HyperparameterError for a name that is not known."""
    for key in given:
        if key not in known:
            raise HyperparameterError(f"{name} has no {key!r}", remedy=f"it takes {', '.join(known)}")


def check(name: str, group: Mapping[str, Any]) -> None:
    """Raise HyperparameterError for a value outside its range, DtypeError if it is not a number."""
    for key, value in group.items():
        if key in NUMBERS:
            _number(name, key, value)
        if key in AT_LEAST_0 and not value >= 0:
            raise HyperparameterError(f"{name}: {key}={value} is out of range", remedy=f"{key} >= 0")
        if key in REFUSED and value:
            raise HyperparameterError(f"{name}: {key}=True is not supported", remedy=UNSUPPORTED[key])
    if "betas" in group:
        _check_betas(name, group["betas"])
    if group.get("nesterov") and (group["momentum"] <= 0 or group["dampening"] != 0):
        raise HyperparameterError(
            f"{name}: nesterov with momentum={group['momentum']}, dampening={group['dampening']}",
            remedy="nesterov needs momentum > 0 and dampening = 0",
        )


UNSUPPORTED = {
    "capturable": "omit it: there is no CUDA graph",
    "differentiable": "omit it; to differentiate an update, write it with Variables",
}


def _number(name: str, key: str, value: Any) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise DtypeError(f"{name}: {key} is a {type(value).__name__}", remedy=f"pass {key} as a number")


def _check_betas(name: str, betas: Any) -> None:
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise HyperparameterError(f"{name}: betas={betas!r} is not a pair", remedy="betas=(0.9, 0.999)")
    for k, beta in enumerate(betas):
        _number(name, f"betas[{k}]", beta)
        if not 0 <= beta < 1:
            raise HyperparameterError(
                f"{name}: betas[{k}]={beta} is out of range", remedy=f"0 <= betas[{k}] < 1"
            )


def groups_of(name: str, params: Any) -> list[Group]:
    """The groups that an optimiser begins with: none for containers of arrays, and for nothing."""
    if is_variable(params):
        raise DtypeError(f"{name} got a Variable", remedy=f"pass a list: {name}([{params.name}], ...)")
    if isinstance(params, int | float | str):
        raise DtypeError(f"{name} got {params!r} as its parameters", remedy=f"use keywords: {name}(lr=0.1)")
    given = params
    if isinstance(params, Iterable) and not isinstance(params, dict | list | tuple | np.ndarray):
        given = list(params)  # a generator, as that of a model's parameters
    if isinstance(given, list | tuple):
        if any(is_variable(one) for one in given):
            return [{"params": given}]
        if given and all(isinstance(one, dict) and "params" in one for one in given):
            return list(given)
        if not given:
            raise HyperparameterError(f"{name} got no parameters", remedy=NONE_FOUND)
    try:
        tree(given, "params")
    except DtypeError as error:
        raise DtypeError(f"{name} needs a list of Variables: {error.cause}", remedy=GIVE) from None
    return []


GIVE = (
    "pass a list of Variables, such as adc.parameters(model); for update() a container of arrays, or nothing"
)
NONE_FOUND = "adc.parameters(model) finds each adc.Parameter, but no other Variables"


def variables_of(name: str, given: Any, held: set[int]) -> list[Variable]:
    """The Variables of one group, none of which is among those with the ids `held`."""
    if isinstance(given, set | frozenset):
        raise DtypeError(f"{name} got a set, which has no order", remedy="pass a list")
    params = [given] if is_variable(given) else list(given)
    for p in params:
        if not is_variable(p):
            raise DtypeError(
                f"{name} got a {type(p).__name__} among its Variables",
                remedy="pass Variables: adc.parameters(model) finds those of an object",
            )
        if not p.is_leaf:
            raise GraphError(
                f"{p.name} was computed: {name} would change values in its graph",
                remedy="pass the leaves that it was computed from, or p.detach() with requires_grad = True",
            )
        if id(p) in held:
            raise GraphError(f"{p.name} is given twice to {name}", remedy="pass each Variable once")
        held.add(id(p))
    return params
