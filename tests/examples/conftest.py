"""Modules of `examples/`, imported as from the repository's root, also where it is not in Python's path."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

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
