"""What a kernel for the lengths of a call knows of them."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.runtime.programs.program import Program


@pytest.mark.parametrize(
    ("body", "lengths", "short"),
    [
        ("softmax(x, axis=2)", (9, 9, 3), [3]),  # the points of an image count, not its longest side
        ("softmax(x, axis=2)", (5, 5, 3), []),
        ("x", (9, 9, 3), []),  # a sum may be part of a product
        ("x", (2, 70, 3), [3]),  # written out, everything would be there for each case of a batch
        ("x @ x[:, 0, :, None]", (2, 70, 3), [3]),
        ("sum(x, axis=0)**2", (2, 70, 3), [2, 3]),
    ],
)
def test_short_axes_are_known_beside_many_points(
    body: str, lengths: tuple[int, ...], short: list[int]
) -> None:
    f = adc.compile(f"def f(x: f64[h, w, c]):\n    return sum({body})")
    x = np.ones(lengths)
    lengths_of = Program.of(f._trace(f._describe((x,), {})[0]), "cpu").lengths
    assert [n for _, n in lengths_of.known(lengths_of.sizes((x,))).constant] == short
