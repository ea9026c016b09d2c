"""Simple expressions of lengths have the same values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adcompiler.analysis.lengths import simplest
from adcompiler.interpreter.reference import length
from adcompiler.ir.nodes import Size, const, select
from adcompiler.ops.build import apply

N = Size(0)
NUMBERS = st.integers(-5, 9).map(lambda k: const(k, "i64"))
OPERATIONS = st.sampled_from(("add", "subtract", "minimum", "maximum"))
LENGTHS = st.recursive(
    NUMBERS | st.just(N),
    lambda parts: (
        st.builds(lambda op, x, y: apply(op, x, y), OPERATIONS, parts, parts)
        | st.builds(lambda x, y: apply("multiply", x, y), NUMBERS, parts)
        | st.builds(lambda x, y, z: select(apply("less", x, y), y, z), parts, parts, parts)
    ),
    max_leaves=8,
)


@given(LENGTHS)
def test_a_simple_length_has_the_same_value_for_every_size(made):
    found = simplest(made)
    assert all(length(found, (n,)) == length(made, (n,)) for n in range(100))


def test_lengths_of_slices_of_slices():
    zero, one, two = (const(k, "i64") for k in range(3))
    shorter = apply("maximum", apply("subtract", N, one), zero)  # x[1:]
    inner = apply("maximum", apply("subtract", shorter, apply("minimum", one, N)), zero)  # x[1:-1]
    assert simplest(inner) is apply("maximum", apply("subtract", N, two), zero)
    assert simplest(apply("add", shorter, apply("minimum", one, N))) is N


def test_a_length_that_jumps_has_no_simpler_form():
    """select(1 < n, n, 0) is 0, 0, 2, 3."""
    jump = select(apply("less", const(1, "i64"), N), N, const(0, "i64"))
    assert simplest(jump) is jump


def test_parts_of_a_multiple_of_a_length():
    zero, two, three, four = (const(k, "i64") for k in (0, 2, 3, 4))
    whole = apply("multiply", four, N)
    start, stop = (
        apply("minimum", apply("maximum", apply("multiply", k, N), zero), whole) for k in (two, three)
    )
    assert simplest(apply("maximum", apply("subtract", stop, start), zero)) is N  # x[2 * n : 3 * n]
    assert simplest(apply("subtract", whole, stop)) is N
