"""Mutation testing: each fault of the table can be seeded, and the quick tests catch it."""

from __future__ import annotations

import pytest

from tests.mutations import FAULTS, ROOT, Fault, caught


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.module)
def test_a_fault_can_be_seeded(fault: Fault) -> None:
    text = (ROOT / fault.path).read_text(encoding="utf-8")
    compile(fault.seeded(text), fault.path, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.module)
def test_the_tests_catch_a_fault(fault: Fault) -> None:
    assert caught(fault)
