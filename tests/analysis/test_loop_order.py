"""Which axis a loop takes innermost: the one that most accesses have last."""

from __future__ import annotations

import pytest

from adcompiler.analysis.loop_order import loop_order
from adcompiler.ir.textform.reader import parse_func

# The body of an array over (i, j, k < 3), and the order of its loops.
ORDERS = {
    "contiguous along k": ("%x[i, j, k] + %y[i, j]", (0, 1, 2)),
    "most along j": ("%x[i, j, k] + %y[i, j] + %y[i, j + 1] + %y[i, j + 2]", (0, 2, 1)),
    "columns, which go along no axis": ("%x[i, j, k] + %x[i, j, 0] + %x[i, j, 1]", (0, 1, 2)),
    "quotients that do not depend on k": ("%x[i, j, k] + %x[i, j, 0] / %y[i, j] + %y[j, i]", (0, 1, 2)),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_innermost_axis(name: str) -> None:
    body, order = ORDERS[name]
    func = parse_func(
        f"func @f(%x: f64[n, m, 3], %y: f64[n, m]) -> (%s: f64[n, m, 3]) {{\n"
        f"  %s = array (i < n, j < m, k < 3) {{ {body} }}\n}}\n"
    )
    (array,) = func.roots
    assert loop_order(array) == order
