"""Which axis a loop takes innermost: the one that most accesses have last."""

from __future__ import annotations

import pytest

from adcompiler.analysis.loop_order import is_written_out, loop_order
from adcompiler.ir.nodes import Element, Index, is_const
from adcompiler.ir.textform.reader import parse_func
from adcompiler.ir.walk import rewrite, with_elements

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


def test_parts_that_change_with_the_iterations_of_a_loop_around() -> None:
    """What the loops over i and j compute from a row of an iteration is not repeated along k."""
    func = parse_func(
        "func @f(%x: f64[n, m, 3], %z: f64[t, n, m]) -> (%s: f64[n, m, 3]) {\n"
        "  %s = array (i < n, j < m, k < 3) {\n"
        "    exp(%z[7, i, j]) * %x[i, j, 0] * %x[i, j, 1] + %z[7, i, j + 1]\n"
        "  }\n"
        "}\n"
    )
    (array,) = func.roots
    inside = with_elements(array, lambda elements: rewrite(elements, _iteration))
    assert loop_order(inside) == (0, 1, 2)


@pytest.mark.parametrize(
    ("place", "order"),
    [("%to[i, j], k", (0, 1, 2)), ("k, %to[i, j]", (0, 2, 1)), ("j, k", (0, 2, 1))],
)
def test_a_scatter_adds_whole_rows_at_computed_places(place: str, order: tuple[int, ...]) -> None:
    """Most arrays that it reads have the axis j last."""
    func = parse_func(
        "func @f(%x: f64[n, m], %y: f64[n, m], %z: f64[n, m], "
        "%to: i64[n, m], %u: f64[p, q]) -> (%s: f64[p, q]) {\n"
        "  %s = accumulate [p, q] (i < n, j < m, k < q) {\n"
        f"    [{place}] += %x[i, j] * %y[i, j] * %z[i, j] * %u[0, k]\n  }}\n}}\n"
    )
    (array,) = func.roots
    assert loop_order(array) == order


def _iteration(element: Element) -> Element:
    """The number of an iteration in place of 7."""
    return Index(-1) if is_const(element, 7) else element


@pytest.mark.parametrize(
    ("length", "body", "written"),
    [
        ("7", "%x[i]", True),
        ("8", "%x[i]", False),
        ("11", "select(j == 3, %x[i], 0.0)", True),  # a row of a Jacobian
        ("17", "select(j == 3, %x[i], 0.0)", False),
        ("m", "select(j == 3, %x[i], 0.0)", False),
        ("11", "select(i == 3, f64(j), 0.0)", False),
    ],
)
def test_which_loops_are_written_out(length: str, body: str, written: bool) -> None:
    func = parse_func(
        f"func @f(%x: f64[n], %y: f64[m]) -> (%z: f64[n, {length}]) {{\n"
        f"  %z = array (i < n, j < {length}) {{ {body} }}\n}}\n"
    )
    (array,) = func.roots
    assert is_written_out(array, 1) == written
