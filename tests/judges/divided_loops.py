"""For tests of threads in the iterations of loops: nests as short as those of test programs are cut and
shared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from adcompiler.kernels.emit import block_partition as cuts
from adcompiler.targets.cpu import compiled as cpu


@contextmanager
def divided_iterations(block: int = 2) -> Iterator[None]:
    """Blocks of some points each, and threads for any of them, in programs that are compiled meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "BLOCK_POINTS", block)
        patch.setattr(cuts, "SCAN_POINTS", block)
        patch.setattr(cuts, "PARALLEL_POINTS", 1)
        patch.setattr(cpu, "PARALLEL_POINTS", 1)
        yield
