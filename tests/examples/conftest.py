"""Modules of `examples/`, imported as from the repository's root, also where it is not in Python's path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = str(Path(__file__).parents[2])


@pytest.fixture(scope="session")
def imported() -> Callable[[str], ModuleType]:
    """Imports a module by its name; `examples` may already be the folder of these tests."""

    def module(name: str) -> ModuleType:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(ROOT)
            for known in [m for m in sys.modules if m == "examples" or m.startswith("examples.")]:
                patch.delitem(sys.modules, known)
            return import_module(name)

    return module


@pytest.fixture
def without_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs with a progress bar run without it, and without tqdm."""

    def steps(given: Iterable[Any], **_: Any) -> Iterable[Any]:
        return given

    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(tqdm=steps))
