"""Forward mode, Hessian-vector products, dense Jacobians and Hessians, and the check of derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import hessian, jacobian

import adcompiler as adc
from adcompiler.api.modes import Tangent
from adcompiler.ir.nodes import Apply
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.passes.pipeline import OPTIMISE, run

RANDOM = np.random.default_rng(1)
X, Y, A = RANDOM.uniform(0.5, 1.5, 4), RANDOM.uniform(0.5, 1.5, 4), RANDOM.uniform(0.5, 1.5, (3, 4))

SCALARS = {
    "x**2 * y + sin(x * y)": (1.2, 0.7),
    "sum(exp(x * y)) + sum(x**3)": (X, Y),
    "sum(tanh(a @ x)**2)": (A, X),
    "sum((x[1:] - x[:-1]**2)**2)": (X,),
    "logsumexp(x * b)": (X, 0.5),
}
ARRAYS = {
    "x * sum(y)": (X, Y),
    "a @ x": (A, X),
    "exp(x) / y": (X, 2.0),
    "x[::-1]": (X,),
}
TWO = """
def two(x, s):
    return x * s, sum(x) + s**2
"""


def close(got, want) -> None:
    """Nested tuples of numbers agree."""
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            close(g, w)
    else:
        assert np.shape(got) == np.shape(want)
        np.testing.assert_allclose(np.asarray(got, float), np.asarray(want, float), rtol=1e-9, atol=1e-10)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("source", SCALARS)
def test_the_hessian_is_the_oracles(source, backend):
    f, args = adc.compile(source, backend=backend), SCALARS[source]
    found = adc.hessian(f)(*args)
    close(found, hessian(source, args))


@pytest.mark.parametrize("source", [*SCALARS, *ARRAYS, TWO])
def test_the_jacobian_is_the_oracles(source):
    args = {**SCALARS, **ARRAYS, TWO: (X, 0.5)}[source]
    close(adc.jacobian(adc.compile(source, backend="numpy"))(*args), jacobian(source, args))


@pytest.mark.parametrize("source", SCALARS)
def test_a_hessian_vector_product_is_the_hessian_times_the_vector(source):
    f, args = adc.compile(source, backend="numpy"), SCALARS[source]
    names = tuple(p.name for p in f._parameters)
    v = tuple(RANDOM.normal(size=np.shape(a)) for a in args)
    blocks = adc.hessian(f, names)(*args)
    want = [
        sum(np.tensordot(block, d, np.ndim(d)) for block, d in zip(row, v, strict=True)) for row in blocks
    ]
    close(adc.hvp(f, names)(args, v), tuple(want))


def test_forward_mode_is_reverse_mode_transposed():
    f = adc.compile("tanh(a @ x) * s", backend="numpy")
    args, tangents = (A, X, 1.5), (np.ones((3, 4)), None, 2.0)
    value, tangent = adc.jvp(f, args, tangents)
    _, pullback = adc.vjp(f, *args)
    w = RANDOM.normal(size=3)
    back = pullback(w)
    np.testing.assert_allclose(value, np.tanh(A @ X) * 1.5)
    np.testing.assert_allclose(w @ tangent, np.sum(back[0]) + 2.0 * back[2])


def test_structures_are_those_of_the_contract():
    f = adc.compile("x * y", backend="numpy")
    assert adc.hessian(f, "x")(1.0, 2.0) == 0.0
    assert adc.hessian(f, ("x",))(1.0, 2.0) == ((0.0,),)
    assert adc.jacobian(f)(3.0, 2.0) == (2.0, 3.0)
    assert adc.jacobian(adc.compile(TWO, backend="numpy"), "s")(X, 0.5)[1] == 1.0
    assert adc.hvp(f)((1.0, 2.0), (1.0, 0.0)) == (0.0, 1.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_derivatives_by_nothing_are_as_empty_as_a_gradient(sparse):
    f, g = (adc.compile(text, args="x, y", backend="numpy") for text in ("x * y", "sum(x * y)"))
    assert adc.grad(g, ())(X, X) == ()
    assert adc.jacobian(f, (), sparse=sparse)(X, X) == ()
    assert adc.hessian(g, (), sparse=sparse)(X, X) == ()
    two = adc.compile("def two(x, y):\n    return x * y, sum(x)", backend="numpy")
    assert adc.jacobian(two, (), sparse=sparse)(X, X) == ((), ())
    whole = adc.compile("def whole(k):\n    return 2.0 * k", backend="numpy")
    assert adc.jacobian(whole, (), sparse=sparse)(np.arange(3)) == ()
    none = adc.compile("def none(x):\n    return ()", backend="numpy")
    assert adc.jacobian(none, sparse=sparse)(X) == ()


def test_float32_stays_float32():
    f = adc.compile("sum(exp(x))", backend="numpy")
    x = X.astype(np.float32)
    assert adc.hessian(f)(x).dtype == np.float32
    assert adc.jvp(f, (x,), (x,))[1].dtype == np.float32


def test_a_diagonal_hessian_makes_no_sum_over_directions():
    f = adc.compile("sum(exp(x) * x)", backend="numpy")
    adc.hessian(f)(X)
    from adcompiler.ir.nodes import Reduce
    from adcompiler.ir.walk import arrays_of
    from adcompiler.passes.pipeline import OPTIMISE, run

    h = adc.hessian(f)
    func = run(OPTIMISE, h._trace(h._describe((X,), {})[0]).func)
    assert not any(isinstance(a, Reduce) for a in arrays_of(func.results))


def test_tangents_must_fit():
    f = adc.compile("sum(x * s)", backend="numpy")
    with pytest.raises(adc.ShapeError, match="the tangent of x"):
        adc.jvp(f, (X, 1.0), (np.ones(3), None))
    with pytest.raises(adc.ShapeError, match="a tangent for each argument"):
        adc.jvp(f, (X, 1.0), (X,))
    with pytest.raises(adc.DtypeError, match="i64"):
        adc.jvp(f, (np.arange(3), 1.0), (np.ones(3), None))


@pytest.mark.parametrize("source", [*SCALARS, *ARRAYS])
def test_check_grad_agrees(source):
    assert adc.check_grad(adc.compile(source, backend="numpy"), *{**SCALARS, **ARRAYS}[source]) < 1e-8


def test_check_grad_shows_the_worst_entry():
    f = adc.compile("sum(floor(x) * x)", backend="numpy")
    with pytest.raises(adc.GradientError, match=r"with respect to x\[1\] is 1, finite differences give"):
        adc.check_grad(f, np.array([0.5, 1.0, 2.5]), order=1)


def test_check_grad_near_zero():
    """A step relative to 1e-17 is lost in rounding."""
    assert adc.check_grad(adc.compile("sin(x) + y", backend="numpy"), 1e-17, 1.0) < 1e-8
    assert adc.check_grad(adc.compile("log(x)", backend="numpy"), 1e-9, order=1) < 1e-6


def test_the_lengths_of_the_first_call_choose_the_mode():
    f = adc.compile("def f(x: f64[n], A: f64[m, n]):\n    return tanh(A @ x)", backend="numpy")
    for m, n, mode in ((2, 5, "reverse"), (5, 2, "forward")):
        A, x = np.cos(np.arange(m * n)).reshape(m, n), np.sin(np.arange(n))
        jacobian = adc.jacobian(f, "x")
        np.testing.assert_allclose(jacobian(x, A), (1 - np.tanh(A @ x) ** 2)[:, None] * A, rtol=1e-13)
        assert f"{mode} mode" in jacobian.explain().split("made by")[1]


BRANCHES = [
    ("where(x > 0, sqrt(x), 0)", (-1.0,)),
    ("where(x > 0, sqrt(x), 0)", (0.0,)),
    ("where(x != 0, sin(x) / x, 1)", (0.0,)),
    ("where(x > 0, sqrt(x * y), 0)", (0.0, 3.0)),
    ("where(x > 0, sqrt(log(x * y) + 1 / x), y * y)", (0.0, 3.0)),
    ("(x if x < 0 else sqrt(x)) + (1 / y if y != 0 else y)", (-1.0, 0.0)),
    ("where(x == 0, 0, exp(-1 / x**2))", (0.0,)),
    ("where(x > 0, x**y, 0)", (-1.0, 0.5)),
]


@pytest.mark.parametrize(("source", "point"), BRANCHES)
def test_a_branch_not_taken_contributes_nothing_at_second_order(source, point):
    """Also through explicit programs: the saved temporary of a branch has a cotangent of its own."""
    f = adc.compile(source, backend="numpy")
    leaves = [adc.Variable(p) for p in point]
    hessian = adc.hessian(f, tuple(range(len(point))))(*point)
    for row, slope in zip(hessian, adc.tape.grad(f(*leaves), leaves, create_graph=True), strict=True):
        second = adc.tape.grad(slope, leaves)
        assert np.isfinite(row).all()
        assert [0.0 if s is None else s.item() for s in second] == pytest.approx(list(row))


ZEROS = [
    ("sqrt(relu(x))", (-1.0,)),
    ("relu(sqrt(x))", (0.0,)),
    ("maximum(sqrt(x), 0.1)", (0.0,)),
    ("sqrt(maximum(x, 0))", (-1.0,)),
    ("minimum(1 / x, 2)", (0.0,)),
    ("clip(log(x), 0, 1)", (0.0,)),
]


@pytest.mark.parametrize(("source", "point"), ZEROS)
def test_a_derivative_that_is_zero_stays_zero_beside_infinities(source, point):
    f = adc.compile(source, backend="numpy")
    assert adc.grad(f)(*point) == 0.0
    assert adc.jvp(f, point, (1.0,))[1] == 0.0
    assert adc.vjp(f, *point)[1](1.0) in ((0.0,), (None,))
    assert adc.hessian(f)(*point) == 0.0


def test_explain_says_which_mode_makes_a_jacobian_or_a_hessian():
    few, many = adc.compile("exp(s * y)", args="s, y"), adc.compile("sum(x**3 * s)")
    y = np.arange(3.0)
    forward = adc.jacobian(few, "s").explain(None, 2.0, y)
    assert "forward mode: one direction per entry of s, at once" in forward
    reverse = adc.jacobian(many, ("x", "s")).explain(None, y, 2.0)
    assert "reverse mode: one cotangent per entry of r, at once" in reverse
    both = adc.hessian(many).explain(None, y, 2.0)
    assert "forward over reverse mode: one direction per entry of x[n], s, at once" in both
    assert "made by" not in many.explain(None, y, 2.0)


def test_a_hessian_vector_product_costs_a_few_gradients():
    """Forward over reverse: the operations of the product are those of the gradient and its tangent."""
    f = adc.compile("sum(tanh(x * w)**2)", backend="numpy")
    gradient = adc.grad(f)
    types = f._describe((X, Y), {})[0]
    product = Tangent(gradient, (0, 1))
    assert operations(product._trace((*types, *types)).func) < 5 * operations(gradient._trace(types).func)


def operations(func):
    func = run(OPTIMISE, func)
    elements = elements_of(e for a in arrays_of(func.results) for e in a.elements)
    return sum(isinstance(e, Apply) for e in elements)


@pytest.mark.parametrize("wrong", [3, "x * x", len, None])
def test_transforms_take_compiled_functions(wrong):
    for transform in (adc.grad, adc.value_and_grad, adc.jacobian, adc.hessian, adc.hvp, adc.vmap):
        with pytest.raises(adc.DtypeError, match="takes a compiled function"):
            transform(wrong)
    for use in (
        lambda: adc.vjp(wrong, 1.0),
        lambda: adc.jvp(wrong, (1.0,), (1.0,)),
        lambda: adc.taylor(wrong, (1.0,), (1.0,), 2),
        lambda: adc.check_grad(wrong, 1.0),
    ):
        with pytest.raises(adc.DtypeError, match="takes a compiled function"):
            use()


def test_options_of_wrong_types():
    for order in ("a", 0, 3):
        with pytest.raises(adc.Error, match=f"check_grad of order {order!r}"):
            adc.check_grad(adc.compile("x"), 1.0, order=order)
    with pytest.raises(adc.Error, match="unknown backend"):
        adc.compile("x", backend=[])


@pytest.mark.parametrize("transform", [adc.grad, adc.value_and_grad, adc.hessian])
def test_a_transform_is_made_once(transform):
    f = adc.compile("def f(x, y): return sum(x * x * y)")
    assert transform(f) is transform(f)
    assert transform(f, "x") is transform(f, "x")
    assert transform(f, 0) is not transform(f, (0,))
    assert transform(f) is not transform(adc.compile("def f(x, y): return sum(x * x * y)"))
    x, y = np.arange(3.0), np.ones(3)
    for bare, several in zip([transform(f, 0)(x, y)], [transform(f, (0,))(x, y)], strict=True):
        assert type(bare) is not type(several) or transform is adc.value_and_grad
    with pytest.raises(adc.Error, match="True"):
        adc.grad(f, True)(x, y)


def test_other_transforms_are_made_once_too():
    f = adc.compile("x * x")
    assert adc.vmap(f) is adc.vmap(f)
    assert adc.vmap(f, 0) is not adc.vmap(f, 1)
    assert adc.hessian(f, sparse=True) is adc.hessian(f, sparse=True)
    assert adc.hessian(f, sparse=True) is not adc.hessian(f)
    assert adc.grad(adc.grad(f)) is adc.grad(adc.grad(f))


@pytest.mark.parametrize("name", ["max", "min"])
def test_forward_mode_shares_the_tangent_of_an_extremum_among_equal_elements(name: str) -> None:
    f = adc.compile(f"{name}(x)", backend="numpy")
    assert adc.jvp(f, (np.array([2.0, 2.0]),), (np.array([1.0, 0.0]),))[1] == 0.5
