"""A program, its calls, and the programs derived from it; the face of a function."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.api.function import Function
from adcompiler.pytree.kinds import ArgType
from adcompiler.runtime.programs.program import Program

VECTOR = ArgType("f64", (False,))
X, Y = np.array([1.0, 2.0]), np.array([3.0, 5.0])


def program(text: str) -> Program:
    f = adc.compile(text, args="x, y", backend="numpy")
    return f._program((VECTOR, VECTOR))


def test_a_call_is_a_program_on_arguments_whose_lengths_fit():
    bound = program("x * y, (sum(x), y)").bind([X, Y], plain=True)
    assert bound.sizes == [2]
    product, (total, _) = bound.result()
    np.testing.assert_array_equal(product, X * Y)
    assert total == 3.0
    assert bound.shape(0) == (2,)
    assert len(bound.run()) == 3  # without the nesting
    with pytest.raises(adc.ShapeError, match="x: \\(2,\\), y: \\(3,\\)"):
        program("x * y").bind([X, np.ones(3)])


def test_results_are_written_into_buffers():
    buffer = np.empty(2)
    (found,) = program("x * y").bind([X, Y]).run([buffer])
    np.testing.assert_array_equal(buffer, X * Y)
    assert found is buffer


def test_a_pullback_is_a_program_of_what_it_reads_and_of_cotangents():
    pulled = program("x * x * y").pulled((True,), (True, False))
    found = pulled.program.bind([*([X, Y][k] for k in pulled.reads), np.ones(2)]).run()
    dx, dy = pulled.spread(found)
    np.testing.assert_array_equal(dx, 2 * X * Y)
    assert dy is None  # not asked for


def test_a_pushforward_is_a_program_of_all_inputs_and_of_tangents():
    pushed = program("x * x * y").pushed((True, False))
    (tangent,) = pushed.program.bind([X, Y, np.ones(2)]).run()
    np.testing.assert_array_equal(tangent, 2 * X * Y)


def test_a_batch_is_a_program_with_one_axis_more():
    batched = program("sum(x * y)").batched((True, False))
    (found,) = batched.bind([np.array([X, 10 * X]), Y]).run()
    np.testing.assert_array_equal(found, [X @ Y, 10 * X @ Y])


def test_a_part_is_a_program_of_the_inputs_that_its_results_read():
    part = program("sin(x), cos(y)").restricted((False, True))
    assert part.program.func.input_names == ("y",)
    assert part.reads == (1,)


def test_a_scalar_is_computed_with_its_gradient_where_a_pullback_will_be_wanted():
    value, *gradients = program("sum(x * y)").saving((True, True), None).bind([X, Y]).run()
    assert value == X @ Y
    np.testing.assert_array_equal(gradients, [Y, X])


def test_derived_programs_are_made_once():
    f = program("x * y")
    assert f.pulled((True,), (True, True)) is f.pulled((True,), (True, True))
    assert f.pushed((True, True)) is f.pushed((True, True))
    assert f.batched((True, True)) is f.batched((True, True))
    twice = f.pulled((True,), (True, True)).program.pushed((True, True, False))
    assert twice is f.pulled((True,), (True, True)).program.pushed((True, True, False))


def test_a_function_has_one_program_for_all_lengths():
    f = adc.compile("x * y", backend="numpy")
    assert f._bind((X, Y)).program is f._bind((np.ones(7), np.ones(7))).program
    assert f._bind((X, 2.0)).program is not f._bind((X, Y)).program


def test_the_face_of_a_function_is_small():
    names = [n for n in vars(Function) if not n.startswith("_")]
    assert len(names) <= 15, names
