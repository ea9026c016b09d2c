"""What an optimiser is to update: groups of Variables, checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from adcompiler.eager.graph.graph import is_variable
from adcompiler.eager.variable.leaves import tree
from adcompiler.eager.variable.variable import Variable
from adcompiler.errors import DtypeError, GraphError
from adcompiler.optim.hyperparameters import HyperparameterError

Group: TypeAlias = dict[str, Any]


def groups_of(name: str, params: Any) -> list[Group]:
    """The groups that an optimiser begins with: none for containers of arrays, and for nothing."""
    if is_variable(params):
        raise DtypeError(f"{name} is given a Variable", remedy=f"pass a list: {name}([{params.name}], ...)")
    if isinstance(params, int | float | str):
        raise DtypeError(
            f"{name} is given {params!r} for its parameters", remedy=f"name hyperparameters: {name}(lr=0.1)"
        )
    given = params
    if isinstance(params, Iterable) and not isinstance(params, dict | list | tuple | np.ndarray):
        given = list(params)  # a generator, as that of a model's parameters
    if isinstance(given, list | tuple):
        if any(is_variable(one) for one in given):
            return [{"params": given}]
        if given and all(isinstance(one, dict) and "params" in one for one in given):
            return list(given)
        if not given:
            raise HyperparameterError(f"{name} is given no parameters", remedy=NONE_FOUND)
    try:
        tree(given, "params")
    except DtypeError as error:
        raise DtypeError(f"{name} is given no list of Variables: {error.cause}", remedy=GIVE) from None
    return []


GIVE = (
    "pass a list of Variables, such as adc.parameters(model); for update() a container of arrays, or nothing"
)
NONE_FOUND = "adc.parameters(model) finds every adc.Parameter, but no other Variables"


def variables_of(name: str, given: Any, held: set[int]) -> list[Variable]:
    """The Variables of one group, none of which is among those with the ids `held`."""
    if isinstance(given, set | frozenset):
        raise DtypeError(f"{name} is given a set, which has no order", remedy="pass a list")
    params = [given] if is_variable(given) else list(given)
    for p in params:
        if not is_variable(p):
            raise DtypeError(
                f"{name} is given a {type(p).__name__} among its Variables",
                remedy="pass Variables: adc.parameters(model) finds those of an object",
            )
        if not p.is_leaf:
            raise GraphError(
                f"{p.name} was computed: {name} would change what its graph holds",
                remedy="pass the leaves that it was computed from, or p.detach() with requires_grad = True",
            )
        if id(p) in held:
            raise GraphError(f"{p.name} is given twice to {name}", remedy="pass each Variable once")
        held.add(id(p))
    return params
