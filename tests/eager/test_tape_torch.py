"""Variables beside PyTorch's tensors: the same values to third order, the same None, the same refusals.

PyTorch's answers stand in tape_torch.json. Where PyTorch is installed they are asked for again;
`python -m tests.eager.test_tape_torch` writes them.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.eager.tape_cases import CASES
from tests.eager.tape_libraries import OURS, torch

ANSWERS = Path(__file__).parent / "tape_torch.json"
HAS_TORCH = find_spec("torch") is not None


@cache
def answers() -> dict[str, Any]:
    """What PyTorch answered, by case."""
    return json.loads(ANSWERS.read_text())


def answer(run, library):
    try:
        return plain(run(library))
    except (RuntimeError, ValueError, TypeError, IndexError):
        return "refused"


def plain(found):
    if found is None or isinstance(found, bool | int | float | str):
        return found
    if isinstance(found, list | tuple):
        return [plain(part) for part in found]
    return found.tolist() if isinstance(found, np.ndarray) else found.detach().numpy().tolist()


def same(found, expected):
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same, found, expected))
    if type(expected) is float:
        return type(found) is float and found == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)
    return found == expected


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", CASES)
def test_the_same_as_pytorch(name):
    expected = answers()[name]
    found = answer(CASES[name], OURS)
    assert same(found, expected), f"{found}, PyTorch: {expected}"


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of what it is going to change
@pytest.mark.parametrize("name", CASES if HAS_TORCH else [])
def test_the_answers_are_pytorchs(name):
    assert same(answer(CASES[name], torch()), answers()[name])


def test_the_table_is_long_and_refuses():
    assert len(answers()) == len(CASES) >= 100
    assert sum(a == "refused" for a in answers().values()) >= 20


if __name__ == "__main__":
    found = {name: answer(run, torch()) for name, run in CASES.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(a)}" for name, a in found.items()]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
