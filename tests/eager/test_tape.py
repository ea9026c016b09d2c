"""Variables and the tape: recording, gradients of any order, PyTorch's semantics of leaves, mistakes."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import DtypeError, Error, GraphError, OutOfRangeError, ShapeError, Variable, tape
from adcompiler.ops.table import TABLE

DIFFERENTIABLE = [name for name, entry in TABLE.items() if entry.differentiable]


@pytest.fixture(autouse=True)
def _fresh_tape():
    tape.reset()


def leaf(value, name=None):
    return Variable(value, requires_grad=True, name=name)


def samples(entry, count=5):
    rng = np.random.default_rng(len(entry.name))
    intervals = [[domain[k] for k in rng.integers(len(domain), size=count)] for domain in entry.domain]
    return [np.array([rng.uniform(*interval) for interval in row]) for row in intervals]


def zero_if_none(gradient, like):
    return np.zeros(like.shape) if gradient is None else gradient.value


def differences(f, x, step=1e-6):
    """The gradient of the scalar f at x, by central differences."""
    gradient = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[k], behind[k] = x[k] + step, x[k] - step
        gradient[k] = (f(ahead) - f(behind)) / (2 * step)
    return gradient


# -- elementwise operations --------------------------------------------------------------------


# Orders of which there are second derivatives by all parameters; in those by a and b a digit is each.
ORDERS = {"betainc_derivative": 1, "betainc_density": 1}
# The second argument of quantiles is by definition the complement of the first.
COMPLEMENTS = {"gamma_log_quantile": "p", "beta_log_odds": "p"}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_primitives_to_second_order(name):
    """First order against the compiler; second order against differences of the compiler's first."""
    entry = TABLE[name]
    fixed = {} if entry.orders is None else {entry.params[0]: ORDERS.get(name, 2)}
    for param, ((low, high), *_) in zip(entry.params, entry.domain, strict=True):
        if low == high:  # an integer, by which nothing is differentiated
            fixed.setdefault(param, low)
    sampled = dict(zip(entry.params, samples(entry), strict=True))
    params = [p for p in entry.params if p not in fixed and p != COMPLEMENTS.get(name)]
    values = [sampled[p] for p in params]
    rng = np.random.default_rng(1)
    weight, directions = rng.normal(size=5), [rng.normal(size=5) for _ in values]
    arguments = ["1 - q" if p == COMPLEMENTS.get(name) else f"{fixed.get(p, p)}" for p in entry.params]
    source = f"sum({name}({', '.join(arguments)}) * weight)"
    compiled = adc.compile(source, args=[*params, "weight"], backend="numpy")
    gradient = adc.grad(compiled, wrt=tuple(params))

    xs = [Variable(v) for v in values]
    known = {**fixed, **dict(zip(params, xs, strict=True))}
    operands = [1 - known["q"] if p == COMPLEMENTS.get(name) else known[p] for p in entry.params]
    first = tape.grad(tape.apply(name, *operands), xs, weight, create_graph=True)
    for mine, theirs in zip(first, gradient(*values, weight), strict=True):
        np.testing.assert_allclose(zero_if_none(mine, theirs), theirs, rtol=1e-11, atol=1e-13)

    along = [(g * d).sum() for g, d in zip(first, directions, strict=True) if g is not None]
    if not along:
        return
    second = tape.grad(along, xs)
    for k, value in enumerate(values):

        def slope(x, k=k):
            found = gradient(*values[:k], x, *values[k + 1 :], weight)
            return sum(float(g @ d) for g, d in zip(found, directions, strict=True))

        expected = differences(slope, value)
        np.testing.assert_allclose(zero_if_none(second[k], value), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "shapes", [((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((1,), (2, 2, 3)), ((0, 3), (3,))]
)
def test_broadcasting_is_summed_over_exactly_the_broadcast_axes(shapes):
    rng = np.random.default_rng(0)
    x, y = (Variable(rng.normal(size=s)) for s in shapes)
    dx, dy = tape.grad((x * y).sum(), [x, y])
    grid = np.broadcast_shapes(*shapes)
    np.testing.assert_allclose(dx.value, np.zeros(x.shape) + folded(np.broadcast_to(y.value, grid), x.shape))
    np.testing.assert_allclose(dy.value, np.zeros(y.shape) + folded(np.broadcast_to(x.value, grid), y.shape))


def folded(array, shape):
    """`array` summed to `shape`."""
    array = array.sum(axis=tuple(range(array.ndim - len(shape))))
    return array.sum(axis=tuple(k for k, n in enumerate(shape) if n == 1), keepdims=True)


@pytest.mark.parametrize(
    ("name", "args"), [("gammainc_density", (1, 2.5)), ("betainc_density", (11, 2.5, 3.5))]
)
def test_conditional_expressions_of_a_partial_derivative(name, args):
    """They ask for the order. At the ends of the domain the branch of where not taken is NaN."""
    ends = np.array([0.0, 0.3, 1.0, 0.7])
    x = Variable(ends)
    found = tape.grad(tape.apply(name, *args, x).sum(), x).value
    compiled = adc.compile(f"sum({name}({', '.join(map(str, args))}, x))", backend="numpy")
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, adc.grad(compiled)(ends), rtol=1e-12, atol=1e-14)


def test_branches_of_a_partial_derivative_do_not_leak():
    """At x = y = 0 the branch not taken is infinite; 0 * inf must not reach any derivative."""
    x, y = Variable([0.0, 1.0, 0.0, 2.0]), Variable([0.0, 2.0, 2.0, 0.0])
    dx = tape.grad((x**y).sum(), x, create_graph=True)
    np.testing.assert_array_equal(dx.value, [0, 2, 0, 0])
    np.testing.assert_array_equal(tape.grad(dx.sum(), x).value, [0, 2, 2, 0])
    p, q = Variable([0.0, 3.0]), Variable([0.0, 4.0])
    dp = tape.grad(tape.apply("hypot", p, q).sum(), p, create_graph=True)
    np.testing.assert_allclose(tape.grad(dp.sum(), p).value, [0, 16 / 125])


def test_where_sends_the_cotangent_to_the_side_taken():
    x, y = Variable([1.0, 2.0, 3.0]), Variable(5.0)
    chosen = np.where(x > 1.5, x * x, y)
    np.testing.assert_array_equal(chosen.value, [5, 4, 9])
    dx, dy = tape.grad(chosen, [x, y])
    np.testing.assert_array_equal(dx.value, [0, 4, 6])
    assert dy.item() == 1


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda x: 2.0 - x, [1.0, -2.0]),
        (lambda x: 1 / x, [1.0, 0.25]),
        (lambda x: 2**x, [2.0, 16.0]),
        (lambda x: (-abs(x) - 0.5) // 1, [-2.0, -5.0]),
        (lambda x: +x % 3, [1.0, 1.0]),
        (lambda x: np.array([1.0, 2.0]) * x, [1.0, 8.0]),
        (lambda x: np.float64(3) - x, [2.0, -1.0]),
        (lambda x: np.sqrt(x), [1.0, 2.0]),
        (lambda x: np.arctan2(x, 1.0), np.arctan2([1.0, 4.0], 1)),
        (lambda x: x.tanh(), np.tanh([1.0, 4.0])),
        (lambda x: x.maximum(2), [2.0, 4.0]),
        (lambda x: np.clip(x, 0, 3), [1.0, 3.0]),
        (lambda x: x[1], 4.0),
        (lambda x: x[[1, 1, 0]], [4.0, 4.0, 1.0]),
        (lambda x: x[x > 2], [4.0]),
        (lambda x: x.mean(), 2.5),
        (lambda x: np.sum(x), 5.0),
        (lambda x: x.reshape(2, 1).T, [[1.0, 4.0]]),
        (lambda x: x.reshape(2, 1).mT, [[1.0, 4.0]]),
        (lambda x: x.reshape(1, 2, 1).mT, [[[1.0, 4.0]]]),
        (lambda x: x.expand(3, 2).sum(axis=0, keepdims=True), [[3.0, 12.0]]),
        (lambda x: x.clone(), [1.0, 4.0]),
        (lambda x: x.astype(np.float32), [1.0, 4.0]),
    ],
)
def test_operators_and_numpy_functions_record(operation, expected):
    x = np.array([1.0, 4.0])
    variable = Variable(x)
    result = operation(variable)
    assert isinstance(result, Variable)
    np.testing.assert_allclose(result.value, expected, rtol=1e-6)
    weight = np.cos(np.arange(result.size)).reshape(result.shape)
    gradient = tape.grad(result, variable, weight)
    numeric = differences(lambda v: float((operation(Variable(v)).value * weight).sum()), x)
    if result.dtype == np.float64:
        np.testing.assert_allclose(zero_if_none(gradient, x), numeric, rtol=1e-6, atol=1e-8)
    else:
        assert gradient.dtype == np.float64


def test_comparisons_and_conversions_are_plain():
    x = Variable([1.0, 2.0])
    for plain in (x > 1, x == x, x <= [1, 1], np.asarray(x), x.numpy(), tape.apply("isnan", x)):
        assert type(plain) is np.ndarray
    assert float(Variable(2)) == 2.0
    assert Variable(2).item() == 2.0
    assert int(Variable(2.5)) == 2
    assert Variable(0.5)
    assert len(x) == 2
    assert np.allclose(x, [1, 2])
    assert len({x, Variable(1.0), x}) == 2
    x.numpy()[0] = 9
    assert x.value[0] == 1


def test_float32_stays_float32():
    x = Variable(np.float32([0.5, 2.0]))
    for y in (x * x * 2.0, x**3, x.sigmoid(), 1 / x, x.gelu_tanh()):
        gradient = tape.grad(y.sum(), x, create_graph=True)
        assert y.dtype == gradient.dtype == tape.grad((gradient * gradient).sum(), x).dtype == np.float32
    assert tape.grad((x * Variable([1.0, 2.0])).sum(), x).dtype == np.float32


def test_integers_carry_no_derivative():
    k = Variable(np.array([1, 2]))
    assert (k + 1).dtype == np.int64
    assert (k / 2).entry is not None
    with pytest.raises(DtypeError, match="int64"):
        tape.grad((k / 2).sum(), k)
    with pytest.raises(DtypeError, match="int64"):
        tape.grad(k.sum(), Variable(1.0))
    x = Variable([1.0, 2.0])
    np.testing.assert_array_equal(tape.grad((x * k).sum(), x).value, [1, 2])


# -- grad --------------------------------------------------------------------------------------


def test_grad_is_structured_like_inputs():
    a, b, c = Variable(2.0), Variable(3.0), Variable(4.0)
    y = a * b
    assert tape.grad(y, a).item() == 3
    assert [g and g.item() for g in tape.grad(y, (a, b, c))] == [3, 2, None]
    assert tape.grad(y, c) is None
    assert [g.item() for g in tape.grad([y, y * a], [a], [1.0, None])] == [3 + 2 * 2 * 3]
    assert tape.grad(y, y).item() == 1
    np.testing.assert_array_equal(tape.grad(Variable([1.0, 2.0]) * a, a).value, 3)  # ones for an array


def test_recording_can_be_turned_off():
    x = leaf(2.0)
    with tape.recording(False):
        y = x * x
    assert (y.requires_grad, y.entry) == (False, None)


# -- PyTorch's semantics: what tape_cases does not compare with it ------------------------------------


def test_a_freed_graph_is_told_also_when_only_part_of_a_result():
    """The logbook's second epoch: a value from before the update is still part of the computation."""
    w = leaf(2.0, "w")
    stale = w * w
    stale.backward()
    with pytest.raises(GraphError, match="freed by an earlier backward"):
        (w * stale).backward()
    (w * stale.detach()).backward()
    assert w.grad.item() == 4 + 4
    end = leaf(1.0) * stale
    assert tape.grad(end, stale) is not None  # the freed graph lies beyond


def test_backward_of_an_array_needs_a_cotangent():
    a = leaf([1.0, 2.0])
    with pytest.raises(ShapeError, match=r"sum\(\)(.|\n)*vjp"):
        (a * a).backward()
    (a * a).backward([1.0, 10.0])
    np.testing.assert_array_equal(a.grad.value, [2, 40])
    with pytest.raises(ShapeError, match="shape"):
        (a * a).backward([1.0])
    with pytest.raises(GraphError, match="requires_grad=True"):
        Variable(1.0).backward()


def test_clone_keeps_the_graph_and_detach_begins_another():
    """The logbook's question: why is the gradient of the copy None?"""
    v = leaf([1.0])
    (v.clone() + copy.copy(v) + v.copy()).backward()
    assert v.grad.item() == 3
    assert not v.detach().requires_grad
    with pytest.raises(GraphError, match="clone"):
        Variable(v)
    twin = copy.deepcopy(v)
    assert twin.requires_grad
    assert twin.serial != v.serial
    assert pickle.loads(pickle.dumps(v)).value == v.value
    with pytest.raises(GraphError, match="graph"):
        copy.deepcopy(v * 2)


# -- mutation ----------------------------------------------------------------------------------


def test_the_array_given_may_change_afterwards():
    x, c = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    a = leaf(x)
    y = (a * a * c).sum()
    x += 1
    c += 1
    y.backward()
    np.testing.assert_array_equal(a.grad.value, [6, 16])


def test_values_are_read_only():
    a = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        a.value[0] = 5
    with pytest.raises(GraphError, match="in-place"):
        a[0] = 5
    plain = np.ones(2)
    with pytest.raises(GraphError, match="x = x \\+ y"):
        plain += a


def test_an_update_between_forward_and_backward_is_an_error():
    w = leaf([1.0, 2.0], "w")
    loss = (w * w).sum()
    w.value = w.value - 0.5
    with pytest.raises(GraphError, match="w was given another value after `v0 = w \\* w`"):
        loss.backward()
    loss = (w * w).sum()
    loss.backward()
    w.value = w.value - 0.1 * w.grad.value
    np.testing.assert_allclose(w.value, [0.4, 1.2])
    assert w.is_leaf
    with pytest.raises(ShapeError, match="same shape"):
        w.value = 1.0
    with pytest.raises(GraphError, match="leaf"):
        (w * w).value = w.value


def test_augmented_assignment_of_a_parameter_is_an_error():
    w = leaf(1.0)
    with pytest.raises(GraphError, match=r"w?\.value = "):
        w -= 0.5
    state = w * 2
    state += 1  # of a computed value it is the usual new value
    state.backward()
    assert w.grad.item() == 2


# -- operations of one's own -------------------------------------------------------------------


def cube(x, pull):
    y = Variable(x.value**3)
    tape.record([x], [y], pull)
    return y


def test_record_an_operation():
    x = Variable([1.0, 2.0])
    y = cube(x, lambda g: [g[0] * 3 * x * x])
    first = tape.grad(y.sum(), x, create_graph=True)
    np.testing.assert_array_equal(first.value, [3, 12])
    np.testing.assert_array_equal(tape.grad(first.sum(), x).value, [6, 12])


@pytest.mark.parametrize(
    ("pull", "error", "match"),
    [
        (lambda x: lambda g: [g[0] * x.value], GraphError, "plain array(.|\n)*record it as an output"),
        (lambda x: lambda g: [g[0].value], DtypeError, "cannot be differentiated again"),
        (lambda x: lambda g: [g[0].sum()], ShapeError, "its input's shape"),
        (lambda x: lambda g: g[0], GraphError, "returned a Variable for 1 inputs"),
        (lambda x: lambda g: [None, None], GraphError, "2 values for 1 inputs"),
    ],
)
def test_a_wrong_propagate_is_told(pull, error, match):
    x = Variable([1.0, 2.0])
    y = cube(x, pull(x))
    with pytest.raises(error, match=match):
        tape.grad(y.sum(), x)


def test_record_wants_fresh_outputs():
    x = Variable(1.0)
    y = x * x
    for outputs in ([y], [x]):
        with pytest.raises(GraphError, match="already"):
            tape.record([x], outputs, lambda g: g)
    late = Variable(2.0)
    _ = late * late
    with pytest.raises(GraphError, match="before they are used"):
        tape.record([x], [late], lambda g: g)
    with pytest.raises(DtypeError, match="list"):
        tape.record(x, [Variable(1.0)], lambda g: g)


# -- calls of compiled functions ---------------------------------------------------------------

FUNCTIONS = {
    "simple": ("def f(a, b):\n    t = a + b\n    return t * b", [(4,), (4,)]),
    "scalar": ("def f(a, b):\n    return exp(a) * b + a ** 2", [(), ()]),
    "broadcast": ("def f(a, b):\n    return tanh(a * b) * b", [(3, 1), (4,)]),
    "reduce": ("def f(a, b):\n    return sum(exp(-((a - b) ** 2)))", [(3, 1), (4,)]),
    "branch": ("def f(a, b):\n    return where(a > 0, sqrt(abs(a)) * b, b * b * a)", [(5,), (5,)]),
    "several": ("def f(a, b):\n    t = sin(a) * b\n    return t, (t * t, a)", [(3,), (3,)]),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_a_call_is_one_entry_right_to_third_order(name, backend):
    """Against the compiler's own gradients of scalars, differentiated by differences where it cannot."""
    if backend == "cpu" and name != "simple":
        pytest.skip("the same programs, compiled: one is enough")
    source, shapes = FUNCTIONS[name]
    f = adc.compile(source, backend=backend)
    rng = np.random.default_rng(3)
    values = [np.array(rng.normal(size=s)) for s in shapes]
    weights: dict[tuple, np.ndarray] = {}

    def scalar(v, key):
        w = weights.setdefault((key, v.shape), rng.normal(size=v.shape))
        return (v * w).sum()

    def order(n, a, b):
        """A scalar made of derivatives of order n."""
        if n == 0:
            return sum(scalar(r, k) for k, r in enumerate(leaves(f(a, b))))
        found = tape.grad(order(n - 1, a, b), [a, b], create_graph=True)
        return sum(scalar(g * g, 10 * n + k) for k, g in enumerate(found) if g is not None)

    for n in range(3 if backend == "numpy" else 2):
        given = [Variable(v) for v in values]
        for k, found in enumerate(tape.grad(order(n, *given), given)):

            def moved(v, k=k, n=n):
                return order(n, *(Variable(v if p == k else w) for p, w in enumerate(values))).item()

            expected = differences(moved, values[k])
            noise = 1e-6 + 1e-9 * abs(expected).max()
            np.testing.assert_allclose(found.value, expected, rtol=2e-5, atol=noise)


def leaves(result):
    return [leaf for part in result for leaf in leaves(part)] if isinstance(result, tuple) else [result]


def simple(**options):
    return adc.compile("def simple(a, b):\n    t = a + b\n    return t * b", backend="numpy", **options)


def test_a_call_names_its_temporary(capsys):
    a, b = Variable(np.ones(4), name="a"), Variable(np.ones(4), name="b")
    with tape.trace():
        loss = simple()(a, b).sum(name="L0")
        tape.grad(loss, [a, b], create_graph=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["v0, t = simple(a, b)", "L0 = v0.sum()"]
    assert "v3, v4 = simple.propagate[1-|11](b, t, v2)" in lines


def test_only_gradients_that_lead_somewhere_are_asked_for():
    f = simple()
    a, b = Variable(np.ones(4)), Variable(np.ones(4))
    tape.grad(f(a, b).sum(), b)
    tape.grad(f(a, np.ones(4)).sum(), a)
    types, *_ = f._describe([np.ones(4)] * 2, {})
    both, one = f.split().at(types), f.split().at(types, (0,))
    assert set(both.made) == {((True, False), (False, True))}
    assert [asked for _, asked in one.made] == [(True,)]


def test_calls_take_constants_integers_and_names():
    f = adc.compile("def f(x, k, scale):\n    return sum(x ** 2 * k) * scale", backend="numpy")
    x, k = leaf([1.0, 2.0, 3.0]), np.array([1, 0, 2])
    f(x, k=k, scale=2.0).backward()
    np.testing.assert_array_equal(x.grad.value, [4, 0, 24])
    assert tape.grad(f(x, Variable(k), 1.0), x).value[2] == 12
    assert f(x.value, Variable(k), 1.0).item() == 19  # integers alone: a constant
    result = f(x, k, 1.0)
    k += 1  # the call saw the array as it was
    np.testing.assert_array_equal(tape.grad(result, x).value, [2, 0, 12])
    with pytest.raises(ShapeError, match="differ"):
        simple()(Variable([1.0, 2.0]), Variable([1.0, 2.0, 3.0]))
    assert isinstance(adc.grad(adc.compile("x ** 2", backend="numpy"))(Variable(3.0)), Variable)


def test_a_call_sees_an_update_as_well():
    w = leaf([1.0, 2.0])
    loss = simple()(w, w).sum()
    w.value = [3.0, 4.0]
    with pytest.raises(GraphError, match="another value"):
        loss.backward()


def test_a_graph_through_a_call_can_be_freed():
    w = leaf([1.0, 2.0])
    loss = simple()(w, w).sum()
    loss.backward()
    np.testing.assert_array_equal(w.grad.value, [4, 8])
    with pytest.raises(GraphError, match="freed"):
        loss.backward()


# -- lifetimes, traces, imports ----------------------------------------------------------------


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: (x.tanh() * x).sum(),
        lambda x: simple()(x, x),
        lambda x: tape.grad(simple()(x, x).sum(), x, create_graph=True),
        lambda x: tape.grad(x.exp().sum(), x, create_graph=True),
    ],
)
def test_a_graph_dies_with_its_variables(compute):
    gc.disable()
    try:
        x = Variable([1.0, 2.0])
        result = compute(x)
        entry = weakref.ref(result.entry)
        assert entry() is not None
        del result
        assert entry() is None
    finally:
        gc.enable()


def test_an_output_that_nobody_holds_is_made_anew():
    x = Variable(0.5)
    y = x.tanh() * 1.0 + 0.0  # the result of tanh itself is dropped; its derivative reads it
    first = tape.grad(y, x, create_graph=True)
    assert tape.grad(first, x).item() == pytest.approx(-2 * np.tanh(0.5) * (1 - np.tanh(0.5) ** 2))


@pytest.mark.slow
def test_long_chains():
    x = leaf(1.0)
    y = x
    for _ in range(10_000):
        y = y + 1.0
    y.backward(retain_graph=True)
    assert x.grad.item() == 1
    del y


def test_reset_drops_everything():
    x = leaf(2.0)
    y = x * x
    assert y.name == "v1"
    tape.reset()
    z = y * 3.0
    assert z.name == "v0"
    assert tape.grad(z, [y, x])[1] is None
    with pytest.raises(GraphError, match=r"reset\(\)"):
        tape.grad(y, x)


def test_show_prints_what_is_held(capsys):
    a, b = Variable(1.0, name="a"), Variable(2.0, name="b")
    held = a * b + 2.0
    held = held.reshape(1)
    tape.show()
    assert capsys.readouterr().out == "v0 = a * b\nv1 = v0 + 2.0\nv2 = v1.reshape(1)\n"
    tape.verbose()
    a * b
    tape.verbose(False)
    a * b
    assert capsys.readouterr().out == "v3 = a * b\n"
    assert repr(leaf([1.0], "w")) == "Variable([1.], name='w', requires_grad=True)"


@pytest.mark.parametrize(
    ("mistake", "error", "match"),
    [
        (lambda x: x + None, DtypeError, "means zero"),
        (lambda x: x + "a", DtypeError, "not a real number"),
        (lambda x: x * 1j, DtypeError, "complex"),
        (lambda x: x * [1.0, 2.0, 3.0], ShapeError, r"\(2,\) and \(3,\)"),
        (lambda x: np.ldexp(x, 1), GraphError, "would lose the graph"),
        (lambda x: np.sum(x, dtype=int), GraphError, "np.sum"),
        (lambda x: float(x), ShapeError, "not a number"),
        (lambda x: 1 if x else 0, ShapeError, "not a number"),
        (lambda x: x[7], OutOfRangeError, "index 7"),
        (lambda x: x.sum(axis=1), OutOfRangeError, "no axis 1"),
        (lambda x: x.expand(3), ShapeError, "does not expand"),
        (lambda x: x.reshape(3), ShapeError, "2 elements"),
        (lambda x: x.tahn(), AttributeError, "tahn"),
        (lambda x: tape.apply("tahn", x), Error, "did you mean tan"),
        (lambda x: x.exp(2), Error, "takes \\(x\\)"),
        (lambda x: tape.grad(3.0, x), DtypeError, "outputs is a float"),
        (lambda x: tape.grad(None, x), DtypeError, "is zero"),
        (lambda x: tape.grad(x, [x.value]), DtypeError, "not part of a graph"),
        (lambda x: tape.grad([x, x], x, [None]), ShapeError, "1 grad_outputs"),
        (lambda x: Variable("a"), DtypeError, "str"),
        (lambda x: Variable([1.0, [2.0]]), DtypeError, "inhomogeneous"),
        (lambda x: Variable(2j), DtypeError, "complex"),
        (lambda x: Variable(np.array([1]), requires_grad=True), DtypeError, "pass floats"),
        (lambda x: setattr(x, "grad", 1.0), DtypeError, "assign None"),
        (lambda x: x.retain_grad(), GraphError, "requires_grad=True"),
    ],
)
def test_mistakes_are_told(mistake, error, match):
    with pytest.raises(error, match=match) as told:
        mistake(Variable([1.0, 2.0]))
    assert isinstance(told.value, AttributeError) or told.value.remedy


def test_importing_is_light():
    code = (
        "import sys, adcompiler as adc; adc.Variable(1.0) * 2; adc.tape;"
        "print({m.split('.')[0] for m in sys.modules} & {'numba', 'lark', 'sympy', 'scipy'} or 'light')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "light"
