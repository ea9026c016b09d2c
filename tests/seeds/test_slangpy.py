"""SlangPy's design notes (seed 003), snippet by snippet, with `f.call`, `f.forward` and `f.backward`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import DiffPair, Variable


@pytest.fixture(scope="module")
def my_func():
    """float myFunc(float a, float x) { return a * x * x; }"""
    return adc.compile("a * x * x", name="myFunc")


X = np.array([1.0, 2.0, 3.0])


# -- differentials -----------------------------------------------------------------------------


def test_what_slang_generates(my_func):
    """The forward derivative takes pairs and gives one; the backward one takes a result's derivative."""
    assert "dresult" not in my_func.show("ir", 3.0, 2.0)
    value, tangent = adc.jvp(my_func, (3.0, 2.0), (1.0, 0.0))
    assert (value, tangent) == (12.0, 4.0)
    assert my_func.show("forward", 3.0, 2.0).startswith("func @myFunc.forward")


def test_the_logical_though_ugly_approach(my_func):
    """call, forward with pairs, backward with pairs: 12, then 4 and 12 both ways."""
    a, x = 3, 2
    assert my_func.call(a, x) == 12.0
    dout_by_da = my_func.forward(DiffPair(a, 1), DiffPair(x, 0))
    dout_by_dx = my_func.forward(DiffPair(a, 0), DiffPair(x, 1))
    assert (dout_by_da.p, dout_by_da.d, dout_by_dx.d) == (12.0, 4.0, 12.0)
    pair_a, pair_x = DiffPair(a), DiffPair(x)
    my_func.backward(pair_a, pair_x, 1.0)
    assert (pair_a.d, pair_x.d) == (4.0, 12.0)


def test_the_notes_own_spelling(my_func):
    """`myFunc.forward.call(...)` and `myFunc.backward.call(...)`."""
    assert my_func.forward.call(DiffPair(3, 1), DiffPair(2, 0)).d == 4.0
    a, x = DiffPair(3), DiffPair(2)
    my_func.backward.call(a, x, 1.0)
    assert (a.d, x.d) == (4.0, 12.0)


def test_the_result_as_the_cotangent(my_func):
    """The notes pass `res` as the result's derivative: gradients are weighted with it."""
    assert my_func.backward(3, 2, my_func.call(3, 2)) == (48.0, 144.0)


def test_lists_of_values(my_func):
    """a = [3], x = [2]: res is [12], the gradients are [4] and [12]."""
    assert my_func.call([3], [2]).tolist() == [12.0]
    da, dx = my_func.backward([3], [2], [1.0])
    assert (da.tolist(), dx.tolist()) == ([4.0], [12.0])


def test_diff_float(my_func):
    """On "If use of scalars was really desired": a minimal type that supports a gradient is DiffPair."""
    a, x = DiffPair(3), DiffPair(2)
    my_func.backward(a, x, 1.0)
    assert (a.d, x.d) == (4.0, 12.0)


def test_needs_grad_is_inferred_from_the_type(my_func):
    """a = DiffFloat(3), x = 2: "only generate gradients for variables that are useful"."""
    a = DiffPair(3)
    assert my_func.backward(a, 2, 1.0) == (4.0, None)
    assert a.d == 4.0


def test_needs_grad_of_a_tensor(my_func):
    """The property that is checked internally is PyTorch's requires_grad, of a Variable."""
    a, x = Variable(3.0, requires_grad=True), Variable(2.0)
    my_func.backward(a, x, 1.0)
    assert a.grad.item() == 4.0
    assert x.grad is None


# -- gradient accumulation ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accumulator", "expected"), [("sum", 14.0), ("push", [1.0, 4.0, 9.0]), ("first", 1.0)]
)
def test_an_ambiguity_and_three_accumulators(my_func, accumulator, expected):
    """a.grad -> ??? is answered by a.accumulator; x.grad is [6, 12, 18] in each case."""
    a, x = DiffPair(3.0), Variable(X, requires_grad=True)
    np.testing.assert_array_equal(my_func.call(3.0, X), [3.0, 12.0, 27.0])
    a.accumulator = accumulator
    my_func.backward(a, x, np.ones(3))
    np.testing.assert_array_equal(a.d, expected)
    np.testing.assert_array_equal(x.grad.value, [6.0, 12.0, 18.0])


def test_an_unknown_accumulator_is_refused():
    with pytest.raises(adc.Error, match=r"unknown accumulator 'mean'(.|\n)*sum(.|\n)*push(.|\n)*first"):
        DiffPair(3.0, accumulator="mean")


def test_accumulation_over_calls(my_func):
    """Gradients add up over calls, as in PyTorch; d = None begins again."""
    a = DiffPair(3.0)
    for _ in range(2):
        my_func.backward(a, X, np.ones(3))
    assert a.d == 28.0
    a.d = None
    my_func.backward(a, X, np.ones(3))
    assert a.d == 14.0


def test_a_list_accumulated_into_a_single_scalar(my_func):
    """On "Even if the input 'x' was a list, we could still ask gradients to be accumulated"."""
    x = DiffPair(X, accumulator="total")
    my_func.backward(3.0, x, np.ones(3))
    assert x.d == 36.0


# -- Benedikt's thoughts: kernels and batching -------------------------------------------------


def test_lists_describe_arrays_not_batches():
    """On "Reserve lists for describing slang types like arrays, vectors": a list is an array argument."""
    length = adc.compile("def length(v: f64[n]): return sqrt(sum(v**2))")
    assert length([3, 4]) == 5.0
    assert length.call([3, 4]) == 5.0
    with pytest.raises(adc.Error, match=r"v(.|\n)*rank"):
        length([[3, 4], [5, 12]])


def test_batches_of_different_rank(my_func):
    """Shapes [2, 3] and [3] make [2, 3]; the shared one gathers over the axis it was broadcast over."""
    a, x = np.arange(6.0).reshape(2, 3), DiffPair(X)
    assert my_func.call(a, X).shape == (2, 3)
    my_func.backward(a, x, np.ones((2, 3)))
    np.testing.assert_allclose(x.d, (2 * a * X).sum(0))


def test_the_rules_of_pytorch(my_func):
    """[256, 1] and [1, 256] make [256, 256]."""
    a, x = np.ones((256, 1)), np.full((1, 256), 2.0)
    assert my_func.call(a, x).shape == (256, 256)
    pair = DiffPair(a)
    my_func.backward(pair, x, np.ones((256, 256)))
    np.testing.assert_array_equal(pair.d, np.full((256, 1), 4.0 * 256))


def test_amazing_bugs_are_refused_where_one_wants(my_func):
    """On "Requiring the batch sizes to either be [] or to be exactly identical"."""
    strict = adc.compile("a * x * x", name="myFunc", broadcasting="strict")
    assert strict(3.0, X).shape == (3,)
    assert strict(X, X).shape == (3,)
    with pytest.raises(adc.ShapeError, match=r"strict(.|\n)*help"):
        strict(np.ones((256, 1)), np.ones((1, 256)))


def test_the_message_of_strict_batches_names_arguments_and_shapes():
    strict = adc.compile("a * x * x", name="myFunc", broadcasting="strict")
    with pytest.raises(adc.ShapeError) as caught:
        strict(np.ones((256, 1)), np.ones((1, 256)))
    text = str(caught.value)
    assert "a" in text and "(256, 1)" in text  # noqa: PT018
    assert "x" in text and "(1, 256)" in text  # noqa: PT018


def test_strict_batches_do_not_bind_the_inside_of_a_function():
    """The batch is what callers pass; a function broadcasts inside as it likes."""
    strict = adc.compile(
        """
    def outer(a: f64[n], b: f64[m]):
        return sum(a[:, None] * b[None, :])
    """,
        broadcasting="strict",
    )
    assert strict(np.ones(2), np.ones(3)) == 6.0


def test_out_and_inout_parameters():
    """On "Are you planning to prohibit those?" Results are written where one says, arguments included."""
    step = adc.compile("""
    def step(p, v, dt):
        return p + dt * v, v - dt * p
    """)
    p, v = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    step.into((p, v), p, v, 0.1)
    np.testing.assert_allclose(p, [1.0, 0.1])
    np.testing.assert_allclose(v, [-0.1, 1.0])


def test_a_result_that_is_given(my_func):
    """SlangPy's `_result=`: the array to write to."""
    out = np.empty(3)
    my_func(3.0, X, _result=out)
    np.testing.assert_array_equal(out, [3.0, 12.0, 27.0])


def test_derivatives_without_any_framework(my_func):
    """On "Writing the differentiation spec separate from torch.autograd is good": forward and propagate."""
    split = my_func.split()
    result, saved = split.forward(3.0, 2.0)
    assert result == 12.0
    assert split.propagate(saved, 1.0) == (4.0, 12.0)


# -- some thoughts about differentiation -------------------------------------------------------


class State(NamedTuple):
    p: object
    v: object


@pytest.fixture(scope="module")
def energy():
    return adc.compile("""
    def energy(state, k):
        return sum(k * state.p**2 + state.v**2)
    """)


def test_a_struct_has_a_derivative_of_its_own_structure(energy):
    """A pair's .p and .d "would hold different tensors": of a struct d is such a struct."""
    state = DiffPair(State(np.array([1.0, 2.0]), np.array([3.0, 4.0])))
    energy.backward(state, 0.5, 1.0)
    assert isinstance(state.d, State)
    np.testing.assert_array_equal(state.d.p, [1.0, 2.0])
    np.testing.assert_array_equal(state.d.v, [6.0, 8.0])


def test_pairs_inside_of_a_struct(energy):
    """Only the pair asks for a gradient: "p and d come separately"."""
    state = State(DiffPair(np.array([1.0, 2.0])), np.array([3.0, 4.0]))
    energy.backward(state, 0.5, 1.0)
    np.testing.assert_array_equal(state.p.d, [1.0, 2.0])


def test_a_structured_array_is_a_struct(energy):
    state = np.array([(1.0, 3.0), (2.0, 4.0)], dtype=[("p", float), ("v", float)])
    assert energy(state, 0.5) == 0.5 * 5.0 + 25.0


def test_higher_derivatives_without_nested_pairs(my_func):
    """On "You even start nesting differential pairs": transforms nest in their place."""
    second = adc.grad(my_func, "x").forward(3.0, DiffPair(2.0, 1.0))
    assert (second.p, second.d) == (12.0, 6.0)


def test_nested_pairs(my_func):
    """A pair of pairs along x: the value, both first derivatives, and the second."""
    x = DiffPair(DiffPair(2.0, 1.0), DiffPair(1.0, 0.0))
    found = my_func.forward(3.0, x)
    assert (found.p.p, found.p.d, found.d.p, found.d.d) == (12.0, 12.0, 12.0, 6.0)


def test_results_are_tracked_where_arguments_are(my_func):
    """z = add(x, y) "with everything a python float would break, invisibly": of Variables it is one."""
    a = Variable(3.0, requires_grad=True)
    z = my_func(a, 2.0)
    assert isinstance(z, Variable)
    (z * z).backward()
    assert a.grad.item() == 2 * 12.0 * 4.0


def test_a_float_in_between_disconnects_the_graph(my_func):
    """On "The graph is disconnected at z in a way that can't be detected": the gradient is None."""
    a = Variable(3.0, requires_grad=True)
    z = my_func(a, 2.0)
    end = my_func(Variable(float(z)), 2.0)
    assert adc.tape.grad(end, a) is None


def test_the_float_is_detected(my_func):
    """It can be detected: the message has the line of float()."""
    a = Variable(3.0, requires_grad=True)
    z = my_func(a, 2.0)
    end = my_func(Variable(float(z)), 2.0)
    text = adc.why_none(end, a)
    assert "float()" in text
    assert "test_slangpy.py" in text


# -- about accumulation ------------------------------------------------------------------------


def test_a_batchs_worth_of_gradients(my_func):
    """On "If you want gradients of a parameter, it has to be batched": expand sums when it goes back."""
    a = Variable(3.0, requires_grad=True)
    batched = a.expand(3)
    batched.retain_grad()
    my_func(batched, X).sum().backward()
    np.testing.assert_array_equal(batched.grad.value, [1.0, 4.0, 9.0])
    assert a.grad.item() == 14.0


def test_a_texture_and_a_batch():
    """4096 * 4096 * 65536 gradients are declined with thanks: a gather's gradient has the texture's size."""
    shade = adc.compile("sum(texture[index] ** 2)")
    texture, index = np.arange(6.0), np.array([0, 5, 5, 2])
    found = adc.grad(shade, "texture")(texture, index)
    expected = np.zeros(6)
    np.add.at(expected, index, 2 * texture[index])
    np.testing.assert_array_equal(found, expected)
    pair = DiffPair(texture)
    for _ in range(2):
        shade.backward(pair, index, 1.0)
    np.testing.assert_array_equal(pair.d, 2 * expected)


def test_differentiating_a_broadcast_becomes_a_sum(my_func):
    """On "y = [1, 2, 3] is broadcast over dimension 0": its gradient is summed over dimension 0."""
    y, x = DiffPair(X), np.arange(6.0).reshape(2, 3)
    my_func.backward(y, x, np.ones((2, 3)))
    np.testing.assert_array_equal(y.d, (x * x).sum(0))
    rows = DiffPair(X, accumulator="push")
    my_func.backward(rows, x, np.ones((2, 3)))
    np.testing.assert_array_equal(rows.d, x * x)


def test_all_of_it_by_finite_differences(my_func):
    """Two orders, scalars and arrays."""
    adc.check_grad(my_func, 3.0, 2.0, order=2)
    adc.check_grad(my_func, 3.0, X, order=2)


def test_float32_pairs_stay_float32(my_func):
    x = DiffPair(X.astype(np.float32))
    my_func.backward(np.float32(3.0), x, np.ones(3, np.float32))
    assert x.d.dtype == np.float32
    np.testing.assert_array_equal(x.d, [6.0, 12.0, 18.0])


def test_an_empty_batch(my_func):
    a = DiffPair(3.0)
    my_func.backward(a, np.ones(0), np.ones(0))
    assert a.d == 0.0
