"""Adam, and AdamW, which keeps weight decay out of the moments."""

from __future__ import annotations

from typing import Any

import numpy as np

from adcompiler.frames import public
from adcompiler.optim.functional import State
from adcompiler.optim.groups import Group
from adcompiler.optim.optimizer import Optimizer
from adcompiler.optim.update_kernels import run, sign_and_decay, zeros


class Adam(Optimizer):
    """Adam, with the results of PyTorch's `torch.optim.Adam`.

    With g the gradient (-g to maximize) plus weight_decay * p, in step t the moments m and v and the
    parameter p become

        m = beta1 * m + (1 - beta1) * g                 state "exp_avg"
        v = beta2 * v + (1 - beta2) * g**2              state "exp_avg_sq"
        p = p - lr * (m / (1 - beta1**t)) / (sqrt(v / (1 - beta2**t)) + eps)

    amsgrad divides by the greatest v so far (state "max_exp_avg_sq"). decoupled_weight_decay subtracts
    lr * weight_decay * p from the parameter instead of adding to the gradient.

    `Optimizer` describes params. foreach and fused choose among PyTorch's kernels; here they change
    nothing. Raises Error for hyperparameters out of their range: lr, eps and weight_decay >= 0, and
    0 <= beta < 1.
    """

    @public
    def __init__(
        self,
        params: Any = None,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def begun(self, p: np.ndarray, group: Group) -> State:
        moments = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")[: 3 if group["amsgrad"] else 2]
        return {"step": 0, **{key: np.zeros_like(p) for key in moments}}

    def updated(self, p: np.ndarray, g: np.ndarray, state: State, group: Group) -> tuple[np.ndarray, State]:
        numbers = _numbers(state["step"] + 1, group)
        decays, decoupled = group["weight_decay"] != 0, group["decoupled_weight_decay"]
        lines = sign_and_decay(group["maximize"], decays and not decoupled)
        lines += ["p = p * shrink"] * (decays and decoupled)
        lines += ["m = m + c1 * (g - m)", "v = beta2 * v + c2 * g * g"]
        arrays = {"p": p, "g": g, "m": state["exp_avg"], "v": state["exp_avg_sq"]}
        results = ["p - size * m / (sqrt(v) / root + eps)", "m", "v"]
        if group["amsgrad"]:
            arrays["w"] = zeros(p, state.get("max_exp_avg_sq"))
            lines.append("w = maximum(w, v)")
            results = ["p - size * m / (sqrt(w) / root + eps)", "m", "v", "w"]
        new, *moments = run("adam", tuple(arrays), lines, results, **arrays, **numbers)
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
        return new, {**state, "step": state["step"] + 1, **dict(zip(names, moments, strict=False))}


def _numbers(step: int, group: Group) -> dict[str, float]:
    """The numbers of one step; what is near 1 is taken from 1 in double precision."""
    beta1, beta2 = map(float, group["betas"])
    return {
        "size": group["lr"] / (1 - beta1**step),
        "root": (1 - beta2**step) ** 0.5,
        "c1": 1 - beta1,
        "c2": 1 - beta2,
        "beta2": beta2,
        "eps": group["eps"],
        "decay": group["weight_decay"],
        "shrink": 1 - group["lr"] * group["weight_decay"],
    }


class AdamW(Adam):
    """Adam with decoupled weight decay, with the results of PyTorch's `torch.optim.AdamW`.

    In each step p is multiplied by 1 - lr * weight_decay, and then updated as by `Adam` without weight decay.
    Raises as Adam does.
    """

    @public
    def __init__(
        self,
        params: Any = None,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
