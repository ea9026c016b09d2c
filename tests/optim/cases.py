"""Cases of optimisers, and PyTorch's answers: `python tests/optim/cases.py` writes them, given torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

ANSWERS = Path(__file__).parent / "optim_torch.json"
STEPS = 5
SHAPES = {"w": (2, 3), "b": (1,), "s": (), "none": (2,), "late": (2,), "empty": (0, 3)}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {}),
    "sgd, lr": ("SGD", {"lr": 0.1}),
    "sgd, weight decay": ("SGD", {"lr": 0.1, "weight_decay": 0.3}),
    "sgd, maximize": ("SGD", {"lr": 0.1, "maximize": True, "weight_decay": 0.3}),
    "sgd, momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "sgd, dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.4}),
    "sgd, dampening without momentum": ("SGD", {"lr": 0.1, "dampening": 0.4}),
    "sgd, nesterov": ("SGD", {"lr": 0.1, "momentum": 0.8, "nesterov": True}),
    "sgd, all": (
        "SGD",
        {"lr": 0.1, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1, "maximize": True},
    ),
    "sgd, nothing": ("SGD", {"lr": 0}),
    "adam": ("Adam", {}),
    "adam, lr": ("Adam", {"lr": 0.1}),
    "adam, betas": ("Adam", {"lr": 0.1, "betas": (0.3, 0.6)}),
    "adam, betas of 0": ("Adam", {"lr": 0.1, "betas": (0.0, 0.0)}),
    "adam, eps": ("Adam", {"lr": 0.1, "eps": 0.5}),
    "adam, weight decay": ("Adam", {"lr": 0.1, "weight_decay": 0.3}),
    "adam, amsgrad": ("Adam", {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.5)}),
    "adam, maximize": ("Adam", {"lr": 0.1, "maximize": True, "weight_decay": 0.3}),
    "adam, decoupled": ("Adam", {"lr": 0.1, "weight_decay": 0.3, "decoupled_weight_decay": True}),
    "adamw": ("AdamW", {}),
    "adamw, lr": ("AdamW", {"lr": 0.1}),
    "adamw, weight decay": ("AdamW", {"lr": 0.1, "weight_decay": 0.5}),
    "adamw, amsgrad": ("AdamW", {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.5)}),
    "adamw, all": ("AdamW", {"lr": 0.1, "amsgrad": True, "maximize": True, "eps": 1e-3, "betas": (0.7, 0.4)}),
}


def begin(dtype: str) -> dict[str, np.ndarray]:
    """The parameters before the first step."""
    return {
        name: np.asarray(np.cos(np.arange(int(np.prod(shape))) + k).reshape(shape), dtype)
        for k, (name, shape) in enumerate(SHAPES.items())
    }


def gradient(params: dict[str, Any], step: int) -> dict[str, Any]:
    """The gradients of one step: `none` has never one, `late` from the third step on."""
    grads = {name: np.sin(3 * p + step) * (1 - 2 * (step == 3)) for name, p in params.items()}
    return {**grads, "none": None, "late": None if step < 2 else grads["late"]}


def by_torch(kind: str, options: dict[str, Any], dtype: str) -> dict[str, Any]:
    """What PyTorch has after STEPS steps: parameters, and the optimiser's state."""
    import torch

    params = {name: torch.nn.Parameter(torch.tensor(p)) for name, p in begin(dtype).items()}
    opt = getattr(torch.optim, kind)(params.values(), **options)
    for step in range(STEPS):
        grads = gradient({name: p.detach().numpy() for name, p in params.items()}, step)
        for name, p in params.items():
            p.grad = None if grads[name] is None else torch.tensor(np.asarray(grads[name], dtype))
        opt.step()
    state = {
        name: {key: value.tolist() for key, value in opt.state[p].items()}
        for name, p in params.items()
        if opt.state[p]
    }
    return {"params": {name: p.tolist() for name, p in params.items()}, "state": state}


if __name__ == "__main__":
    answers = {name: {dtype: by_torch(*case, dtype) for dtype in "df"} for name, case in CASES.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items())
    ANSWERS.write_text(f"{{\n{lines}\n}}\n", "utf-8")
