"""adc.fuse: the same values, gradients, None and effects as the function itself, in compiled aggregates."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import DtypeError, GraphError, OutOfRangeError, ShapeError, Variable, fuse, tape

interpreted = fuse(backend="numpy")  # compiles no kernels: most of these tests are not about those
CALLS = 3  # the first learns what is done, the second compiles it, the third is as all others


def variable(value, name=None):
    return Variable(np.array(value, float), requires_grad=True, name=name)


def entries(*outputs):
    """The operations behind some results, by their lines without names."""
    found, work = [], [v.entry for v in outputs]
    while work:
        entry = work.pop()
        if entry is not None and entry not in found:
            found.append(entry)
            work += [e.entry for e in entry.edges]
    return [e.right().partition("(")[0] for e in found]


def called(function, *args):
    """The result of a fused function's last of some calls."""
    for _ in range(CALLS - 1):
        function(*args)
    return function(*args)


def agree(function, *values, compiled=True, backend="numpy"):
    """A function and its fused form agree in values and in derivatives to second order."""
    fused = fuse(backend=backend)(function)
    for call in range(CALLS):
        given = [Variable(v, requires_grad=True) for v in values]
        outcomes = [derivatives(f, given) for f in (function, fused)]
        for plain, other in zip(*outcomes, strict=True):
            assert (plain is None) == (other is None), call
            if plain is not None:
                assert plain.dtype == other.dtype
                tolerance = 1e-10 if plain.dtype == np.float64 else 2e-4
                np.testing.assert_allclose(other, plain, rtol=tolerance, atol=tolerance)
    if compiled:
        assert "fused" in entries(fused(*given))


def derivatives(function, given):
    """A value, its gradients, and those of a function of the gradients."""
    y = function(*given)
    first = tape.grad((y * y).sum(), given, create_graph=True)
    known = [g for g in first if g is not None]
    second = tape.grad(sum((g * g).sum() for g in known), given) if known else []
    return [None if v is None else v.value for v in (y, *first, *second)]


X = np.array([[0.65, 1.35, 1.05], [0.8, 0.55, 1.2]])
V = np.array([0.7, 1.4, 0.9])

FUNCTIONS = {
    "chain": lambda x, v: (x * v + 1.0).exp() - v.tanh(),
    "shared": lambda x, v: (x.sin() * x.sin() + v) / (1.0 + v * v),
    "powers": lambda x, v: x**2 + v**-1 + x**1.5 - 2.0**v,
    "reduced": lambda x, v: (x.sum(axis=0) * v).mean() + x.mean(axis=1, keepdims=True).sum(),
    "shaped": lambda x, v: (x.reshape(3, 2).T + v.expand(2, 3)) * 2.0,
    "indexed": lambda x, v: x[0] * v[1:].sum() + x[:, -1].sum() * v[::-1] + x[1, ..., None].sum(),
    "gathered": lambda x, v: v[np.array([[0, 2], [-1, 0]])] * x[:, np.array([0, 1])] + 1.0,
    "matrices": lambda x, v: (x @ v).tanh() + np.einsum("ij,j->i", x, v) - x.max(1),
    "joined": lambda x, v: np.stack([v, v * v, np.ones(3)]) * np.concatenate([x, x])[:3],
    "where": lambda x, v: np.where(X > 0.8, x * v, v.log() - x) * 2.0,
    "norms": lambda x, v: np.linalg.norm(x * 2.0) + x.std() * x.prod() + np.logaddexp(x, v),
    "constant": lambda x, v: np.float64(2.0) * x + V * v - X,
    "steps": lambda x, v: np.floor(x) * v + np.maximum(x, v) + abs(x - 1.0),
    "clone": lambda x, v: (x.clone() * v).clone() + 1,
    "orders": lambda x, v: adc.tape.apply("polygamma", 1, x) * v + x.lgamma(),
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives_are_those_of_the_function(name):
    agree(FUNCTIONS[name], X, V)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["shared", "indexed"])
def test_kernels_agree_too(name):
    agree(FUNCTIONS[name], X, V, backend="cpu")


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", ["chain", "reduced", "matrices", "where", "powers"])
def test_float32_stays_float32(name):
    agree(FUNCTIONS[name], X.astype(np.float32), V.astype(np.float32))


def test_mixed_types_meet_as_numpys_do():
    agree(FUNCTIONS["chain"], X.astype(np.float32), V)
    agree(lambda x: x * np.float64(2.0) + 1.0 - x, np.ones(3, np.float32))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 3)])
def test_numbers_and_empty_arrays(shape):
    agree(lambda x: (x * 2.0 + 1.0).exp() * x - x.sum(), np.full(shape, 0.5))


def test_lengths_of_one_broadcast():
    agree(lambda x, v: (x[:1] * v + 1.0).exp() * v, X[0], np.ones(1), compiled=True)
    agree(lambda x, v: (x[:1] * v + 1.0).exp() * v, X[0], V, compiled=False)


def test_python_numbers_are_inputs_of_the_aggregate():
    @fuse
    def scaled(x, a, b):
        return (x * a + b).exp().sum()

    x = variable([0.1, 0.2])
    called(scaled, x, 1.0, 2)
    for a, b in ((0.5, 1), (3, -0.25)):
        y = scaled(x, a, b)
        assert entries(y) == ["fused"]
        np.testing.assert_allclose(y.item(), np.exp(x.value * a + b).sum())
        np.testing.assert_allclose(tape.grad(y, x).value, a * np.exp(x.value * a + b))


def test_python_branches_on_values():
    @interpreted
    def branched(x):
        y = (x * 2.0 - 1.0).tanh()
        if y.sum() > 0:
            return (y * y + 1.0).log()
        return (y.exp() - 3.0) * y

    for value in (1.0, 0.1, 0.2, 1.0, 2.0, 0.3):
        x = variable([value, value / 2])
        y = branched(x)
        h = np.tanh(x.value * 2 - 1)
        np.testing.assert_allclose(y.value, np.log(h * h + 1) if h.sum() > 0 else (np.exp(h) - 3) * h)
        assert tape.check(branched, x.value) < 1e-6


def test_what_asks_for_a_value_gets_it():
    @interpreted
    def asks(x):
        y = (x * x + 1.0).exp().sum()
        known = float(y), y.item(), bool(y), y.value.tolist(), int(y), y > 3.0, repr(y)
        return y, known

    x = variable([0.5, 0.25])
    for _ in range(CALLS):
        y, known = asks(x)
        expected = np.exp(x.value**2 + 1).sum()
        np.testing.assert_allclose(known[:2], expected)
        assert known[2:6] == (True, y.value.tolist(), int(expected), True)
        assert known[6].startswith("Variable(")
        assert "requires_grad=True" in known[6]


def test_a_deferred_result_is_a_variable_whose_shape_is_known():
    @interpreted
    def looked_at(x):
        y = x * 2.0 + x.exp() * x
        assert isinstance(y, Variable)
        return y, (y.shape, y.dtype, y.ndim, y.size, len(y), y.differentiable)

    x = variable(X)
    for _ in range(CALLS):
        y, known = looked_at(x)
        assert known == ((2, 3), np.dtype(float), 2, 6, 2, True)
        assert type(y) is Variable
        assert entries(y) != []
    assert entries(y) == ["fused"]


def test_arguments_and_results_are_the_same_objects():
    x, unused = variable([1.0]), variable([2.0])

    @interpreted
    def passed(x, unused, kept):
        kept.append(x * 2.0 + 1.0)
        y = kept[-1].exp()
        return x, unused, y, y, {"y": y}

    for _ in range(CALLS):
        kept = []
        a, b, y, again, held = passed(x, unused, kept)
        assert a is x
        assert b is unused
        assert y is again
        assert y is held["y"]
        np.testing.assert_allclose(tape.grad(y, kept[0]).value, y.value)


def test_a_stored_intermediate_is_on_the_way_to_the_result():
    @interpreted
    def stored(x):
        h = (x * 2.0 + 1.0).sin()
        return ((h * h).exp() * x).sum(), h

    for _ in range(CALLS):
        x = variable([0.3, 0.6])
        z, h = stored(x)
        np.testing.assert_allclose(h.value, np.sin(x.value * 2 + 1))
        dh, dx = tape.grad(z, [h, x], create_graph=True)
        np.testing.assert_allclose(dh.value, np.exp(h.value**2) * 2 * h.value * x.value)
        through = dh.value * 2 * np.cos(x.value * 2 + 1) + np.exp(h.value**2)
        np.testing.assert_allclose(dx.value, through)
        again = tape.grad(dx.sum(), h)
        assert again is not None
        assert np.all(np.isfinite(again.value))
    assert set(entries(z)) == {"fused"}


def test_hooks_and_retained_gradients_of_intermediates():
    seen = []

    @interpreted
    def hooked(x):
        h = x * 2.0 + 1.0
        h.register_hook(lambda g: seen.append(g.value.copy()) or g * 10.0)
        k = h * h - x
        k.retain_grad()
        return (k.exp()).sum(), k

    for _ in range(CALLS):
        seen.clear()
        x = variable([0.1])
        y, k = hooked(x)
        y.backward()
        h = x.value * 2 + 1
        np.testing.assert_allclose(k.grad.value, np.exp(k.value))
        np.testing.assert_allclose(seen, [np.exp(k.value) * 2 * h])
        np.testing.assert_allclose(x.grad.value, np.exp(k.value) * (40 * h - 1))


def test_results_that_share_nothing_are_freed_apart():
    @interpreted
    def losses(x):
        return (x * x + 1.0).exp().sum(), (x.sin() * x + 2.0).sum()

    for _ in range(CALLS):
        x = variable([0.5])
        first, second = losses(x)
        first.backward()
        second.backward()
        with pytest.raises(GraphError):
            first.backward()


def test_patterns_of_none_and_of_requires_grad():
    @interpreted
    def two(x, y):
        return (x * 2.0 + 1.0).exp(), (y * x - 1.0).sin() * y, np.floor(x) + 0.0 * np.rint(y)

    for _ in range(CALLS):
        x, y = Variable(np.array([0.5])), variable([0.25])
        a, b, c = two(x, y)
        assert [v.requires_grad for v in (a, b, c)] == [False, True, True]
        assert tape.grad(a, y) is None
        assert tape.grad(c, x) is None
        np.testing.assert_allclose(tape.grad(a, x).value, 2 * a.value)
        assert [tape.grad(b, v, retain_graph=True) is None for v in (x, y)] == [False, False]


def test_no_grad_inside_and_outside():
    @interpreted
    def partly(x):
        with adc.no_grad():
            scale = (x * x + 1.0).sum() * 2.0
        return (x / scale + 1.0).exp().sum(), scale

    for _ in range(CALLS):
        x = variable([1.0, 2.0])
        y, scale = partly(x)
        assert scale.entry is None
        assert not scale.requires_grad
        assert scale.item() == 14.0
        np.testing.assert_allclose(tape.grad(y, x).value, np.exp(x.value / 14 + 1) / 14)
        with adc.no_grad():
            y, _ = partly(x)
        assert y.entry is None
        assert not y.requires_grad


def test_the_order_of_effects_is_kept():
    @interpreted
    def effects(x, w, log):
        a = (x * w + 1.0).exp()
        with adc.no_grad():
            w *= 2.0  # what was computed before has read the old value
        log.append(w.value.copy())
        b = a * w + 1.0
        w.value = w.value + 1.0
        log.append(float(b.sum()))
        b += a
        b[0] = 0.5
        log.append(b.value.copy())
        return b * w + a

    def run(function):
        x, w, log = variable([0.1, 0.2]), variable([0.5, 0.25]), []
        y = function(x, w, log)
        return [*log, y.value, w.value, w._version, y._version]

    expected = run(effects.__wrapped__)
    for _ in range(CALLS):
        for found, wanted in zip(run(effects), expected, strict=True):
            np.testing.assert_allclose(found, wanted)


def test_arrays_may_change_after_they_were_read():
    @interpreted
    def changed(x, a):
        y = x * a + 1.0
        a[:] = 7.0
        return (y * a).exp() + y

    for _ in range(CALLS):
        x = variable([0.1, 0.2])
        y = changed(x, a := np.array([1.0, 2.0]))
        a[:] = 100.0
        np.testing.assert_allclose(y.value, np.exp((x.value * [1, 2] + 1) * 7) + x.value * [1, 2] + 1)
        np.testing.assert_allclose(tape.grad(y, x).value, [1, 2] * (7 * (y.value - x.value * [1, 2] - 1) + 1))


def test_an_exception_leaves_what_ran_before():
    @interpreted
    def breaks(x, kept, index):
        kept.append((x * 2.0 + 1.0).exp() * x)
        kept.append(x[index] * 2.0)
        kept.append(kept[0] @ np.ones(7))

    for call in range(2 * CALLS):
        x, kept = variable([0.1, 0.2]), []
        with pytest.raises(OutOfRangeError if call % 2 else ShapeError):
            breaks(x, kept, 5 if call % 2 else 1)
        assert len(kept) == (1 if call % 2 else 2)
        np.testing.assert_allclose(kept[0].value, np.exp(x.value * 2 + 1) * x.value)
        assert tape.grad(kept[0].sum(), x) is not None
    assert (x * 2.0).entry.right() != "fused(...)"  # nothing is deferred outside


def test_views_of_deferred_results_are_views():
    @interpreted
    def viewed(x):
        y = x * 2.0 + 1.0
        row, flat, copy = y[0], y.reshape(-1), y.T.reshape(-1)
        row += 1.0
        flat[3] = 0.0
        copy += 100.0
        return (y * y).sum(), row, y

    for _ in range(CALLS):
        x = variable(X)
        z, row, y = viewed(x)
        expected = X * 2 + 1 + [[1], [0]]
        expected[1, 0] = 0
        np.testing.assert_allclose(y.value, expected)
        np.testing.assert_allclose(row.value, expected[0])
        np.testing.assert_allclose(tape.grad(z, x).value, 4 * expected)


def test_rows_are_iterated():
    @interpreted
    def rows(x):
        return sum((row * 2.0 + 1.0).exp().sum() for row in x)

    agree(rows.__wrapped__, X)


def test_fused_functions_in_fused_functions_are_one_aggregate():
    inner = interpreted(lambda x: (x * 2.0).exp())
    outer = interpreted(lambda x: (inner(x) + inner(x * x)).sum())
    x = variable([0.1, 0.2])
    y = called(outer, x)
    assert entries(y) == ["fused"]
    np.testing.assert_allclose(y.item(), np.sum(np.exp(2 * x.value) + np.exp(2 * x.value**2)))


def test_parameters_methods_and_a_training_step():
    class Model:
        def __init__(self):
            self.w, self.b = adc.Parameter(np.full((3, 2), 0.1)), adc.Parameter(np.zeros(2))

        def loss(self, x, y):
            return ((x @ self.w + self.b).tanh() - y).square().mean()

        @fuse
        def step(self, x, y, optimizer):
            optimizer.zero_grad()
            loss = self.loss(x, y)
            loss.backward()
            optimizer.step()
            return loss.item()

    def trained(step):
        model = Model()
        optimizer = adc.optim.SGD(adc.parameters(model), lr=0.5, momentum=0.9)
        return [step(model, X, np.ones((2, 2)), optimizer) for _ in range(6)]

    np.testing.assert_allclose(trained(Model.step), trained(Model.step.__wrapped__))


def test_compiled_functions_and_recorded_operations_inside():
    energy = adc.compile("sum(x * exp(-y))")

    @interpreted
    def mixed(x):
        y = (x * 2.0 + 1.0).sin()
        square = Variable(y.value**2)
        tape.record([y], [square], lambda g: [g[0] * 2.0 * y])
        return energy(square * 2.0 + 1.0, y * x) * 2.0

    agree(mixed.__wrapped__, np.array([0.3, 0.5]))


def test_shapes_and_dtypes_are_guards():
    fused = interpreted(lambda x, v: (x * v + 1.0).exp().sum())
    for _ in range(CALLS):
        for x in (X, X[0], X.astype(np.float32), np.array(0.5)):
            v = Variable(x)
            assert fused(v, 2.0).dtype == x.dtype
            np.testing.assert_allclose(fused(v, 2.0).value, np.exp(x * 2 + 1).sum(), rtol=1e-6)


def test_gradients_that_the_function_itself_would_refuse_are_right():
    fused = interpreted(lambda x: (x * x).exp() * x)
    x = variable([0.5])
    for _ in range(CALLS):
        x.value = np.array([0.5])
        y = fused(x)
        before = x.value
        x.value = np.array([9.0])
        if "fused" in entries(y):
            expected = np.exp(before**2) * (1 + 2 * before**2)
            np.testing.assert_allclose(tape.grad(y, x).value, expected)
        else:
            with pytest.raises(GraphError):
                tape.grad(y, x)


def test_another_thread_computes_its_own():
    fused = interpreted(lambda x: (x * 2.0 + 1.0).exp().sum())
    x = variable([0.1, 0.2])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: fused(x + float(k % 3)).item(), range(60)))
    np.testing.assert_allclose(found, [np.exp((x.value + k % 3) * 2 + 1).sum() for k in range(60)])


def test_a_pending_variable_is_refused_to_other_threads():
    @interpreted
    def leaks(x, pool):
        y = (x * 2.0 + 1.0).exp()
        return y, pool.submit(lambda: y.value).exception()

    x = variable([0.1, 0.2])
    with ThreadPoolExecutor(1) as pool:
        assert leaks(x, pool)[1] is None  # the first call computes at once
        y, error = leaks(x, pool)
    assert isinstance(error, GraphError)
    assert "read its .value there" in str(error)
    np.testing.assert_allclose(y.value, np.exp(x.value * 2 + 1))


def test_graphs_are_dropped_with_their_results():
    fused = interpreted(lambda x: (x * 2.0 + 1.0).exp().sum())
    x = variable([0.1, 0.2])
    y = called(fused, x)
    entry = weakref.ref(y.entry)
    gc.disable()
    try:
        del y
        assert entry() is None
    finally:
        gc.enable()


def test_traced_operations_are_not_deferred(capsys):
    fused = interpreted(lambda x: (x * 2.0 + 1.0).exp())
    x = Variable(1.0, name="x")
    called(fused, x)
    with tape.trace():
        fused(x)
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_anomalies_are_found_in_operations_that_are_not_deferred():
    fused = interpreted(lambda x: ((x * 2.0).sqrt() + 1.0).log())
    called(fused, variable([0.5]))
    with tape.anomaly(), pytest.raises(adc.Error, match="sqrt"):
        fused(variable([-0.5]))
    y = called(interpreted(lambda x: ((x * x).sqrt() + 1.0).log()), x := variable([0.0]))
    with tape.anomaly(), pytest.raises(adc.Error):
        y.sum().backward()
    assert x.grad is None


def test_names_that_are_given_stay():
    fused = interpreted(lambda x: (x * 2.0 + 1.0).exp().sum(name="loss"))
    x = variable([1.0])
    assert [fused(x).name for _ in range(CALLS)] == ["loss"] * CALLS


def test_what_never_comes_again_is_not_compiled_and_forgotten():
    from adcompiler.eager.aggregates import pending

    graph = pending.Graph(pending.Trie("numpy"))
    limit, pending.MOST_SITES = pending.MOST_SITES, 50
    try:
        fused = interpreted(lambda x, n: x.reshape(-1, n).sum(0) * 2.0 + 1.0)
        trie = next(c.cell_contents for c in fused.__closure__ if isinstance(c.cell_contents, pending.Trie))
        for n in range(1, 40):
            x = Variable(np.ones(n * 2))
            assert fused(x, n).shape == (n,)
            assert trie.count <= 60
    finally:
        pending.MOST_SITES = limit
    assert graph.refs == []


@pytest.mark.slow
def test_long_chains_are_cut():
    def long(x):
        for k in range(450):
            x = x * 0.99 + 0.01 * k
        return x

    fused = fuse(backend="numpy")(long)
    x = variable([1.0, 2.0])
    for _ in range(CALLS):
        np.testing.assert_allclose(fused(x).value, long(x).value)
        np.testing.assert_allclose(tape.grad(fused(x), x).value, tape.grad(long(x), x).value)


def generator(x):
    yield x


async def coroutine(x):
    return x


@pytest.mark.parametrize("wrong", [generator, coroutine, 3.0, Variable])
def test_what_cannot_be_fused_is_refused(wrong):
    with pytest.raises(DtypeError) as error:
        fuse(wrong)
    assert error.value.remedy
