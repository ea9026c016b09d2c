"""Variables beside PyTorch's tensors: the same values to third order, the same None, the same refusals.

PyTorch's answers stand in tape_torch.json. Where PyTorch is installed they are asked for again;
`python -m tests.unit.test_tape_torch` writes them.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import adcompiler as adc
from tests.unit.tape_cases import CASES

ANSWERS = Path(__file__).parent / "tape_torch.json"


def quiet(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


OURS = SimpleNamespace(
    leaf=lambda v: adc.Variable(v, requires_grad=True),
    const=lambda v: adc.Variable(v),
    whole=lambda v: adc.Variable(np.array(v)),
    grad=adc.tape.grad,
    where=adc.tape.where,
    no_grad=adc.no_grad,
    enable_grad=adc.enable_grad,
    quiet=quiet,
)


def torch():
    import torch

    def grad(outputs, inputs, grad_outputs=None, allow_unused=True, **options):
        found = torch.autograd.grad(outputs, inputs, grad_outputs, allow_unused=allow_unused, **options)
        return found[0] if isinstance(inputs, torch.Tensor) else found

    return SimpleNamespace(
        leaf=lambda v: torch.tensor(v, dtype=torch.float64, requires_grad=True),
        const=lambda v: torch.tensor(v, dtype=torch.float64),
        whole=torch.tensor,
        grad=grad,
        where=torch.where,
        no_grad=torch.no_grad,
        enable_grad=torch.enable_grad,
        quiet=quiet,
    )


def answer(run, library):
    try:
        return plain(run(library))
    except (RuntimeError, ValueError, TypeError, IndexError):
        return "refused"


def plain(found):
    if found is None or isinstance(found, bool | int | float):
        return found
    if isinstance(found, list | tuple):
        return [plain(part) for part in found]
    return found.detach().numpy().tolist()


def same(found, expected):
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same, found, expected))
    if type(expected) is float:
        return type(found) is float and found == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)
    return found == expected


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_pytorch(name):
    expected = json.loads(ANSWERS.read_text())[name]
    found = answer(CASES[name], OURS)
    assert same(found, expected), f"{found}, PyTorch: {expected}"


@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_pytorchs(name):
    pytest.importorskip("torch")
    assert same(answer(CASES[name], torch()), json.loads(ANSWERS.read_text())[name])


def test_the_table_is_long_and_refuses():
    answers = json.loads(ANSWERS.read_text())
    assert len(answers) == len(CASES) >= 100
    assert sum(a == "refused" for a in answers.values()) >= 20


if __name__ == "__main__":
    found = {name: answer(run, torch()) for name, run in CASES.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(a)}" for name, a in found.items()]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
