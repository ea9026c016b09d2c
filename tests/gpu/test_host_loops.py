"""Loops whose iterations the host launches, where there is a device: captured, and one by one."""

from __future__ import annotations

import pytest

from tests.gpu import prove


@pytest.mark.gpu
def test_captured_iterations_have_the_bits_of_single_ones() -> None:
    print(prove.large_iterations())
