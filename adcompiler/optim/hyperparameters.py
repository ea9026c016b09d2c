"""Hyperparameters of optimisers: which values they may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from adcompiler.errors import DtypeError, Error

AT_LEAST_0 = ("lr", "eps", "momentum", "weight_decay")
NUMBERS = (*AT_LEAST_0, "dampening")
REFUSED = ("capturable", "differentiable")


class HyperparameterError(Error, ValueError):
    """A hyperparameter is outside of its range, or unknown."""


def check_names(name: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise HyperparameterError for a name that is not known."""
    for key in given:
        if key not in known:
            raise HyperparameterError(f"{name} has no {key!r}", remedy=f"it takes {', '.join(known)}")


def check(name: str, group: Mapping[str, Any]) -> None:
    """Raise HyperparameterError for a value outside of its range, DtypeError for what is no number."""
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
    "capturable": "leave it out: there is no CUDA graph",
    "differentiable": "leave it out; to differentiate an update, write it with Variables",
}


def _number(name: str, key: str, value: Any) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise DtypeError(f"{name}: {key} is a {type(value).__name__}", remedy=f"pass {key} as a number")


def _check_betas(name: str, betas: Any) -> None:
    if not isinstance(betas, tuple | list) or len(betas) != 2:
        raise HyperparameterError(f"{name}: betas={betas!r} is no pair", remedy="betas=(0.9, 0.999)")
    for k, beta in enumerate(betas):
        _number(name, f"betas[{k}]", beta)
        if not 0 <= beta < 1:
            raise HyperparameterError(
                f"{name}: betas[{k}]={beta} is out of range", remedy=f"0 <= betas[{k}] < 1"
            )
