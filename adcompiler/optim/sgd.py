"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

from adcompiler.frames import public
from adcompiler.optim.functional import State
from adcompiler.optim.groups import Group
from adcompiler.optim.optimizer import Optimizer
from adcompiler.optim.update_kernels import run, sign_and_decay


class SGD(Optimizer):
    """Stochastic gradient descent, with the results of PyTorch's `torch.optim.SGD`.

    With g the gradient (-g to maximize) plus weight_decay * p, the momentum b and the parameter p become

        b = momentum * b + (1 - dampening) * g          (b = g in the first step)
        p = p - lr * (g + momentum * b  if nesterov else  b)

    `Optimizer` describes params. foreach and fused choose among PyTorch's kernels; here they change
    nothing. Raises Error for hyperparameters out of their range: lr, momentum and weight_decay >= 0.
    """

    @public
    def __init__(
        self,
        params: Any = None,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def begun(self, p: np.ndarray, group: Group) -> State:
        return {"momentum_buffer": None} if group["momentum"] else {}

    def updated(self, p: np.ndarray, g: np.ndarray, state: State, group: Group) -> tuple[np.ndarray, State]:
        momentum, decay, lr = group["momentum"], group["weight_decay"], group["lr"]
        lines = sign_and_decay(group["maximize"], decay != 0)
        if not momentum:
            (new,) = run("sgd", ("p", "g"), lines, ["p - lr * g"], p=p, g=g, lr=lr, decay=decay)
            return new, state
        before = state.get("momentum_buffer")
        lines.append("b = g" if before is None else "b = momentum * b + rest * g")
        lines.append("g = g + momentum * b" if group["nesterov"] else "g = b")
        b, rest = g if before is None else before, 1 - group["dampening"]
        numbers = {"lr": lr, "decay": decay, "momentum": momentum, "rest": rest}
        new, b = run("sgd", ("p", "g", "b"), lines, ["p - lr * g", "b"], p=p, g=g, b=b, **numbers)
        return new, {"momentum_buffer": b}
