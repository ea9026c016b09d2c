"""NumPy's functions of Variables: NumPy's values, and derivatives to second order by finite differences."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import Error, GradientError, GraphError, OutOfRangeError, Variable, tape

VALUES = {
    "x": np.array([[0.65, 1.35, 1.05], [0.8, 0.55, 1.2]]),
    "v": np.array([0.7, 1.4, 0.9]),
    "m": np.random.default_rng(5).uniform(0.1, 0.9, (3, 3)) + 2 * np.eye(3),
}
CONSTANT = np.arange(6.0).reshape(2, 3)

SAME_AS_NUMPY = """
x @ v; v @ v; CONSTANT @ v; x @ m; CONSTANT @ m @ v; np.matmul(x, m); v @ [1.0, 2.0, 3.0]; np.max(x)
x.max(1); x.min(axis=(0, 1)); x.min(axis=-1, keepdims=True); np.amax(x, 0)
np.prod(x, axis=0, keepdims=True); x.prod(); x.std(); np.std(x, axis=0, ddof=1); np.var(x, ddof=1)
x.var(-1); np.linalg.norm(x); np.linalg.norm(v, 1); np.linalg.norm(v, 3); np.linalg.norm(x, axis=1)
np.linalg.norm(v, np.inf); np.cumsum(x); x.cumsum(1); np.cumprod(v); np.cumprod(x, axis=0)
np.add.accumulate(x); np.multiply.accumulate(v); np.maximum.reduce(x); np.minimum.reduce(x, axis=1)
np.multiply.reduce(v); np.add.reduce(x); np.stack([v, v * v, np.ones(3)]); np.stack((v, v), axis=-1)
np.concatenate([x, m]); np.concatenate((x, x), axis=1); np.vstack([v, x]); np.hstack([v, v])
np.hstack([x, x]); np.column_stack([v, m]); np.einsum("ij,j->i", x, v); np.einsum("ij,kj->ik", x, m)
np.tensordot(x, m, 1); np.tensordot(x, m, ((1,), (0,))); np.dot(x, v); x.dot(v); np.inner(v, v)
np.outer(v, v * v); np.kron(v, v); np.vdot(v, v); np.trace(m); m.trace(); np.linalg.inv(m)
np.linalg.det(m); np.linalg.solve(m, v); np.linalg.slogdet(m)[1]
np.linalg.cholesky(m @ m.T + np.eye(3)); np.diag(v); np.diag(m, 1); np.diagonal(m); np.tril(m)
np.triu(m, 1); np.flip(x); np.flip(x, 0); np.roll(x, 1, axis=0); np.tile(v, 2); np.repeat(v, 2)
np.take(v, [0, 0]); np.rot90(x); np.swapaxes(x, 0, 1); x.swapaxes(0, 1); np.moveaxis(x, 0, 1)
np.squeeze(x[:1]); np.expand_dims(v, 0); np.atleast_2d(v); np.split(v, 3)[1]; np.delete(v, 1)
np.sort(v); np.sort(x, axis=0); np.sort(x, axis=None); np.transpose(x); np.transpose(x, (1, 0))
x.transpose(); x.transpose(1, 0); np.ravel(x); x.flatten(); np.copy(x); np.broadcast_to(v, (2, 3))
np.median(x); np.median(x, axis=0); np.median(x, axis=-1, keepdims=True); np.median(m, (0, 1))
np.median(v); np.average(x); np.average(x, axis=1, weights=v); np.average(x, weights=CONSTANT + 1)
np.average(x, 0, v[:2], keepdims=True); np.average(m, weights=m)
np.average(x, 1, v, returned=True)[1]; np.cross(x, v); np.cross(v, v * v + 1); np.cross(m, m.T, axis=0)
np.cross(x, x * x, axisc=0); np.cross(CONSTANT, v); np.linalg.norm(x, "fro"); np.linalg.norm(x, 1)
np.linalg.norm(x, -1); np.linalg.norm(x, np.inf); np.linalg.norm(x, -np.inf, keepdims=True)
np.linalg.norm(m, 1, (1, 0)); np.linalg.norm(x, 3, (1,)); np.linalg.norm(v, -2)
np.round(x); np.clip(x, 0.6, 0.9); np.reshape(x, (3, 2)); np.mean(x, axis=0)
np.where(x > 1, x, 0.5); np.where(v > 1, 2, v); np.linalg.norm(m, 2); np.linalg.norm(m, "nuc")
np.quantile(v, 0.3); np.quantile(x, [0.2, 0.7], axis=1); np.interp(v, [0.0, 1.0, 2.0], v); np.trapezoid(x)
np.trapezoid(v, dx=0.5); np.convolve(v, [1.0, -1.0]); np.cov(x); np.corrcoef(x); np.gradient(v, 0.5)
np.ptp(x, axis=0); np.nan_to_num(v); np.nansum(x, axis=0); np.append(v, 1.0); np.insert(v, 1, 2.0)
np.diff(x); np.diff(v, 2); np.select([v > 1], [v], 0.5); np.dstack([x, x]); np.polyval([1.0, 2.0], v)
np.vander(v); np.linalg.matrix_power(m, 2); np.linalg.multi_dot([x, m, v]); np.linalg.pinv(m)
np.pad(v, 1); np.isclose(v, v) * v; np.linalg.eigvalsh(m + m.T)
"""
EXPRESSIONS = [e.strip() for line in SAME_AS_NUMPY.splitlines() for e in line.split(";") if e.strip()]


def evaluate(expression, values):
    return eval(expression, {"np": np, "CONSTANT": CONSTANT, **values})


@pytest.mark.thinned(4)
@pytest.mark.slow_when(
    lambda expression, order: (
        order != 1 + (EXPRESSIONS.index(expression) % 6 == 0) or EXPRESSIONS.index(expression) % 2
    )
)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values_are_numpys_and_derivatives_agree(expression, order):
    used = [name for name in VALUES if re.search(rf"\b{name}\b", expression)]
    given = {name: Variable(VALUES[name]) for name in used}
    found, expected = evaluate(expression, given), evaluate(expression, VALUES)
    assert isinstance(found, Variable)
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.value, expected, rtol=1e-12)

    def computed(*variables):
        return evaluate(expression, dict(zip(used, variables, strict=True)))

    assert tape.check(computed, *given.values(), order=order) < 1e-6


@pytest.mark.parametrize(
    "expression",
    ["x @ v", "x.max(1)", "np.stack([v, v])", "x.std()", "np.sort(v)", "np.where(x > 1, 0.5, x)"],
)
def test_float32_stays_float32(expression):
    given = {name: Variable(value.astype(np.float32)) for name, value in VALUES.items()}
    found = evaluate(expression, given)
    wanted = given["x" if re.search(r"\bx\b", expression) else "v"]
    slope = tape.grad((found * found).sum(), wanted, create_graph=True)
    assert found.dtype == slope.dtype == tape.grad(slope.sum(), wanted).dtype == np.float32


def test_each_is_one_entry(capsys):
    x, v = Variable(VALUES["x"], name="x"), Variable(VALUES["v"], name="v")
    with tape.trace():
        np.stack([v, x[0]]) @ v
    index, stacked, product = capsys.readouterr().out.splitlines()
    assert stacked.endswith(f" = stack(v, {index.split()[0]})")
    assert product.endswith(f" = matmul({stacked.split()[0]}, v)")


def test_an_empty_array():
    x = Variable(np.zeros((0, 3)), requires_grad=True)
    for expression in ("x.cumsum(0)", "np.concatenate([x, x])", "x.prod(0)", "np.flip(x)", "x @ v"):
        found = evaluate(expression, {"x": x, "v": VALUES["v"]})
        assert found.shape == evaluate(expression, {"x": x.value, "v": VALUES["v"]}).shape
        assert tape.grad(found.sum(), x).shape == (0, 3)


def test_questions_and_constants_are_plain():
    x = Variable(VALUES["x"])
    for plain in (np.argmax(x), np.argsort(x, axis=0), np.zeros_like(x), np.ones_like(x), x.any()):
        assert not isinstance(plain, Variable)
    assert x.argmax(axis=1).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("mistake", "error", "match"),
    [
        (lambda x: np.unwrap(x), GraphError, "would lose the graph"),
        (lambda x: np.max(x, initial=3.0), GraphError, "np.max"),
        (lambda x: np.cumsum(x, dtype=int), GraphError, "np.cumsum"),
        (lambda x: np.max(x, axis=2), OutOfRangeError, "no axis 2"),
        (lambda x: np.stack([]), ValueError, "at least one"),
        (lambda x: np.stack([x, x[0]]), Error, "stack"),
        (lambda x: x @ x, Error, "@"),
        (lambda x: np.einsum("ij", x, x), Error, "einsum"),
        (lambda x: np.einsum('ij", x0) + ("', x), Error, "letters"),
        (lambda x: np.linalg.norm(x, 2), Error, "the norm of its transpose"),
        (lambda x: x.dot(), Error, r"dot takes \(x, y\)"),
        (lambda x: np.linalg.cholesky(x), Error, "square"),
    ],
)
def test_mistakes_are_told(mistake, error, match):
    with pytest.raises(error, match=match):
        mistake(Variable(VALUES["x"]))


# -- tape.check --------------------------------------------------------------------------------


def recorded(reads_output):
    """The notebook's aggregate t * b with t = a + b, whose propagate reads t."""

    def simple(a, b):
        t = Variable(a.value + b.value, name="t")
        r = Variable(t.value * b.value)

        def propagate(cotangents):
            dr, dt = cotangents if reads_output else (*cotangents, None)
            total = dr * b if dr is not None else None
            if dt is not None:
                total = dt if total is None else total + dt
            return [total, total if dr is None else dr * t + total]

        tape.record([a, b], [r, t] if reads_output else [r], propagate)
        return r

    return simple


def test_check_finds_the_route_that_was_not_recorded():
    a, b = Variable([0.5, 1.0], name="a"), Variable([2.0, 3.0], name="b")
    assert tape.check(recorded(True), a, b, order=3) < 1e-6
    wrong = recorded(False)
    assert tape.check(wrong, a, b, order=1) < 1e-6
    with pytest.raises(GradientError, match=r"second derivative with respect to [ab](.|\n)*recorded outputs"):
        tape.check(wrong, a, b)


def test_a_route_that_was_not_recorded_is_warned_of_where_it_is_read():
    """Where the gradient is recorded: else no derivative of higher order is wrong."""
    a, b = Variable([0.5, 1.0], name="a"), Variable([2.0, 3.0], name="b")
    with pytest.warns(UserWarning, match=r"record\(\[a, b\].* reads t, which is not one of its") as told:
        tape.grad(recorded(False)(a, b), [a, b], create_graph=True)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tape.grad(recorded(False)(a, b), [a, b])
        tape.grad(recorded(True)(a, b), [a, b], create_graph=True)


def test_check_tells_the_worst_entry():
    def cube(x):
        y = Variable(x.value**3)
        tape.record([x], [y], lambda g: [g[0] * 3.0 * x])
        return y

    with pytest.raises(GradientError, match=r"the first derivative with respect to w\[1\] is"):
        tape.check(cube, Variable([1.0, 2.0], name="w"))
    assert tape.check(cube, np.array([1.0, 1.0]), order=1) < 1e-6


def test_check_takes_what_it_can_differentiate():
    assert tape.check(lambda x: (x * x, [x.sum()]), 2.0, order=3) < 1e-6
    assert tape.check(lambda x: x * x, np.float32([1.0, 2.0])) < 2e-2
    assert tape.check(lambda x: x * 3.0, np.zeros((0, 2))) == 0.0
    with pytest.raises(adc.DtypeError, match="returned a float"):
        tape.check(lambda x: 1.0, 2.0)
    with pytest.raises(adc.DtypeError, match="int64"):
        tape.check(lambda x: x, np.array([1, 2]))
    with pytest.raises(Error, match="order 0"):
        tape.check(lambda x: x, 1.0, order=0)


# -- the inline cache --------------------------------------------------------------------------


def test_calls_like_one_before_see_their_own_values():
    """Types, lengths and what is a Variable are looked up again where they differ, values always."""
    f = adc.compile("x * x * y + k", args=["x", "y", "k"])
    for iteration in range(3):
        for kind in (np.float64, np.float32):
            for n in (2, 3, 1):
                x, y = np.arange(n, dtype=kind) + iteration, np.full(n, 2.0 + iteration, kind)
                for given in ((Variable(x), Variable(y)), (Variable(x), y), (x, Variable(y))):
                    found = f(*given, 0.5 + iteration)
                    assert (found.dtype, found.shape) == (kind, (n,))
                    np.testing.assert_allclose(found.value, x * x * y + 0.5 + iteration)
                    for g, slope in zip(given, (2 * x * y, x * x), strict=True):
                        if isinstance(g, Variable):
                            np.testing.assert_allclose(tape.grad(found, g).value, slope)
    assert f(2.0, 3.0, 1.0) == 13.0
    with adc.no_grad():
        assert f(Variable([2.0]), Variable([3.0]), 1.0).entry is None


def test_a_repeated_call_takes_numbers_views_and_its_own_result():
    f = adc.compile("x * y")
    a = Variable(2.0, requires_grad=True)
    for _ in range(3):
        a_squared = f(a, a)
        assert a_squared.value.shape == ()
    assert tape.grad(f(a_squared, a), a).item() == 12.0
    m = Variable(np.arange(6.0).reshape(2, 3))
    for _ in range(3):
        product = f(m.T, np.ones((2, 3)).T)
        np.testing.assert_array_equal(product.value, m.value.T)
    np.testing.assert_array_equal(tape.grad(f(product, m.T).sum(), m).value, 2 * m.value)


def test_a_constant_is_read_as_it_was_in_each_call():
    f, c = adc.compile("sin(x) * c", args=["x", "c"]), np.array([1.0, 2.0])
    x = Variable([0.0, 0.0])
    f(x, c)
    result = f(x, c)
    c += 10.0
    assert tape.grad(result, x).value.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("order", [3, "other"])
def test_matrices_have_no_other_norms(order):
    with pytest.raises(adc.ParseError) as error:
        np.linalg.norm(Variable(VALUES["m"]), order)
    assert "fro" in error.value.remedy


@pytest.mark.parametrize("expression", ["np.linalg.norm(v, 'fro')", "np.linalg.norm(t, 1)"])
def test_norms_that_numpy_has_not_either(expression):
    given = {"v": Variable(VALUES["v"]), "t": Variable(np.ones((2, 2, 2)))}
    with pytest.raises(adc.ParseError):
        evaluate(expression, given)
    with pytest.raises(ValueError, match=r"\w"):
        evaluate(expression, {k: v.value for k, v in given.items()})


def test_the_order_0_counts_and_has_no_gradient():
    v = Variable([0.0, 2.0, -1.0])
    count = np.linalg.norm(v, 0)
    assert count.item() == 2
    assert tape.grad(count, v) is None


def test_a_median_of_what_is_not_known():
    assert np.isnan(np.median(Variable([1.0, np.nan, 2.0])).item())
    rows = np.median(Variable([[1.0, np.nan], [2.0, 4.0]]), axis=1)
    np.testing.assert_array_equal(rows.value, [np.nan, 3.0])
    assert np.median(Variable(np.zeros((2, 0, 3))), axis=0).shape == (0, 3)
    assert np.median(Variable(np.ones(2, np.float32))).dtype == np.float32


@pytest.mark.parametrize(
    ("expression", "remedy"),
    [
        ("np.average(x, weights=v)", "axis="),
        ("np.average(v, weights=v * 0)", "sum"),
        ("np.average(x, 0, v)", "one weight per position"),
        ("np.cross(v[:2], v[:2])", r"a[..., 0] * b[..., 1]"),
        ("np.median(v, axis=2)", "axis from -1 to 0"),
    ],
)
def test_what_cannot_be_says_what_to_write(expression, remedy):
    with pytest.raises(Error) as error:
        evaluate(expression, {name: Variable(value) for name, value in VALUES.items()})
    assert remedy in error.value.remedy
