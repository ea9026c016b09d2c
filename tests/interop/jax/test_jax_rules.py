"""`f.jax()`: the rules of the primitive, what passes between JAX and kernels, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

jax = pytest.importorskip("jax", reason="jax is not installed: pip install 'adcompiler[jax]'")
jnp = jax.numpy

BACKENDS = ("cpu", "numpy")  # machine code that XLA calls; a callback


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def loss(backend="cpu"):
    return adc.compile("def f(x, a): return sum(sin(x * a) * x)", backend=backend).jax()


def theirs(x, a):
    return jnp.sum(jnp.sin(x * a) * x)


def equal(found, expected, rtol=1e-12):
    jax.tree.map(lambda f, e: np.testing.assert_allclose(f, e, rtol=rtol, atol=rtol), found, expected)


X, A = np.linspace(0.1, 2.0, 7), 1.3
ROWS = np.stack([X, 2 * X, X + 1])
ORDERS = {
    "value": lambda f: f,
    "gradient": lambda f: jax.grad(f, (0, 1)),
    "value and gradient": lambda f: jax.value_and_grad(f, 1),
    "hessian": lambda f: jax.hessian(f, (0, 1)),
    "reverse over reverse": lambda f: jax.jacrev(jax.jacrev(f, (0, 1)), (0, 1)),
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f, (0, 1)), (0, 1)),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f, 0), 1),
    "third order": lambda f: jax.jacfwd(jax.hessian(f), 1),
    "linearised": lambda f: lambda x, a: jax.linearize(f, x, a)[1](x, a),
    "checkpointed": lambda f: jax.grad(jax.checkpoint(lambda x, a: f(f(x, a) * x, a))),
    "in a loop": lambda f: jax.grad(lambda x, a: jax.lax.scan(lambda c, y: (c * f(y * x, a), c), a, x)[0]),
    "in a branch": lambda f: jax.grad(lambda x, a: jax.lax.cond(a > 1, lambda: f(x, a), lambda: a)),
    "transposed": lambda f: (
        lambda x, a: jax.linear_transpose(lambda t: jax.jvp(lambda x: jax.grad(f)(x, a), (x,), (t,))[1], x)(x)
    ),
}


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_are_jaxs(order, jit):
    transform = ORDERS[order]
    ours = transform(loss())
    equal((jax.jit(ours) if jit else ours)(X, A), transform(theirs)(X, A))


@pytest.mark.parametrize("axes", [(0, None), (1, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("order", ["value", "gradient", "hessian"])
def test_batches_are_jaxs(order, axes):
    x = X if axes[0] is None else ROWS.T if axes[0] else ROWS
    a = A if axes[1] is None else np.array([0.5, 1.0, 2.0])
    transform = ORDERS[order]
    equal(jax.vmap(transform(loss()), axes)(x, a), jax.vmap(transform(theirs), axes)(x, a))
    twice = jax.vmap(jax.vmap(loss(), (0, None)), (None, 0))(ROWS, X)
    equal(twice, jax.vmap(jax.vmap(theirs, (0, None)), (None, 0))(ROWS, X))


@pytest.mark.parametrize("backend", BACKENDS)
def test_kernels_and_callbacks_give_the_same(backend):
    equal(jax.jit(jax.hessian(loss(backend), (0, 1)))(X, A), jax.hessian(theirs, (0, 1))(X, A))


def test_xla_calls_the_machine_code():
    assert "custom_call @adc_" in jax.jit(loss()).lower(X, A).as_text()
    assert "custom_call @adc_" not in jax.jit(loss("numpy")).lower(X, A).as_text()


def test_threads_share_long_loops():
    f = adc.compile("exp(sin(x)) * x", threads=2).jax()
    x = np.linspace(0, 1, 300_000)
    equal(jax.jit(f)(x), np.exp(np.sin(x)) * x)


# -- dtypes --------------------------------------------------------------------------------------------


def test_float32_stays_float32():
    x = X.astype(np.float32)
    for found in (loss()(x, A), *jax.grad(loss(), (0, 1))(x, np.float32(A)), *jax.hessian(loss())(x, A)):
        assert found.dtype == np.float32
    equal(jax.hessian(loss())(x, A), jax.hessian(theirs)(x, A), 1e-5)


@pytest.mark.parametrize("a", [A, np.float64(A), 2])
def test_without_x64_everything_is_float32(a):
    with jax.enable_x64(False):
        found = jax.grad(loss(), (0,))(jnp.asarray(X), a)
        assert found[0].dtype == np.float32
        equal(found, jax.grad(theirs, (0,))(jnp.asarray(X), a), 1e-5)
        equal(loss()(X, a), theirs(X, a), 1e-5)
        both = adc.compile("a * exp(a)").jax()
        assert jax.grad(both)(1.0).dtype == np.float32
        equal(jax.grad(both)(1.0), np.float32(2 * np.e), 1e-6)


def test_an_annotated_float64_needs_x64():
    f = adc.compile("def f(x: f64): return (1e8 + x) - 1e8").jax()
    assert float(f(jnp.float64(0.25))) == 0.25
    with jax.enable_x64(False), pytest.raises(adc.DtypeError, match="jax_enable_x64"):
        f(jnp.float32(0.25))


def test_weak_numbers_take_the_type_of_arrays():
    x = jnp.asarray(X, jnp.float32)
    assert jax.jit(loss())(x, 2.0).dtype == np.float32
    assert jax.jit(loss())(x, 2).dtype == np.float32
    assert jax.grad(loss(), 1)(x, 2.0).dtype == jax.grad(theirs, 1)(x, 2.0).dtype


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_integers_have_no_gradient(dtype):
    f = adc.compile("sum(x[i] ** 2)").jax()
    i = jnp.asarray([1, 1, 4], dtype)
    equal(jax.jit(jax.grad(f))(X, i), jax.grad(lambda x: jnp.sum(x[i] ** 2))(X))
    with pytest.raises(TypeError, match="int"):
        jax.grad(f, 1)(X, i)
    tangents = np.ones(7), np.zeros(3, jax.dtypes.float0)
    equal(jax.jvp(f, (X, i), tangents)[1], np.sum(2 * X[np.asarray(i)]))


def test_integer_results_are_jaxs_integers():
    f = adc.compile("def f(x): return argmax(x), sum(x), x > 1").jax()
    for on, dtype in ((True, np.int64), (False, np.int32)):
        with jax.enable_x64(on):
            k, _, over = jax.jit(f)(X)
            assert k.dtype == dtype
            assert int(k) == 6
            assert over.dtype == bool
            assert over.tolist() == (X > 1).tolist()
    equal(jax.jit(jax.grad(lambda x: f(x)[1] + f(x)[0]))(X), np.ones(7))


# -- what is zero, empty or nested ---------------------------------------------------------------------


def test_what_is_known_to_be_zero_costs_nothing():
    f = adc.compile("def f(x, a, b): return sum(x * a), b * 2").jax()
    text = str(jax.make_jaxpr(jax.grad(lambda a: f(X, a, A)[0]))(A))
    assert text.count("adc[") == 2  # the function, and the gradient that is asked for alone
    equal(jax.grad(lambda b: f(X, A, b)[0])(A), 0.0)
    equal(jax.jvp(lambda b: f(X, A, b), (A,), (1.0,))[1], (0.0, 2.0))


def calls(f, *args):
    """How often XLA calls a kernel of ours."""
    return jax.jit(f).lower(*args).as_text().count("custom_call @adc_")


def test_value_and_gradient_are_one_kernel():
    assert calls(loss(), X, A) == 1
    assert calls(jax.value_and_grad(loss(), (0, 1)), X, A) == 1
    assert calls(jax.grad(lambda x: 3 * loss()(x, A)), X) == 1


def test_results_that_nobody_reads_are_not_computed():
    f = adc.compile("def f(x, y): return sin(x), cos(y), sum(x)").jax()
    assert calls(lambda x, y: f(x, y)[2], X, ROWS) == 1
    equal(jax.jit(lambda x, y: f(x, y)[2])(X, ROWS), X.sum())
    taken = jax.make_jaxpr(jax.jit(lambda x, y: f(x, y)[2]))(X, ROWS).eqns[0].params["jaxpr"].jaxpr
    reduced, used = jax.interpreters.partial_eval.dce_jaxpr(taken, [True])
    assert used == [True, False]
    assert [v.aval.shape for v in reduced.eqns[0].outvars] == [()]


def test_a_derivative_checks_indices_where_the_function_is_dropped():
    f = adc.compile("def f(x, i: i64[n]): return [x[k] * x[0] for k in i]").jax()
    outside = jnp.asarray([1, 9])
    pulled = jax.jit(lambda x, i: jax.vjp(lambda x: f(x, i), x)[1](jnp.ones(2))[0])
    pushed = jax.jit(lambda x, i: jax.jvp(lambda x: f(x, i), (x,), (x,))[1])
    for derivative in (pulled, pushed):
        with pytest.raises(Exception, match="out of range"):
            jax.block_until_ready(derivative(X, outside))


def test_functions_that_are_linear_are_transposed_and_others_refused():
    f = adc.compile("def f(a, t): return exp(a), exp(a) * t, t + t").jax()
    transposed = jax.linear_transpose(lambda t: f(A, t)[1:], X)
    equal(transposed((X, X)), ((np.exp(A) + 2) * X,))
    with pytest.raises(Exception, match="not linear"):
        jax.linear_transpose(adc.compile("tanh(t)").jax(), X)(X)


def test_empty_arrays():
    empty = np.zeros(0)
    equal(jax.jit(jax.value_and_grad(loss()))(empty, A), (0.0, empty))
    equal(jax.vmap(jax.grad(loss()), (0, None))(np.zeros((0, 3)), A), np.zeros((0, 3)))
    equal(jax.hessian(loss())(empty, A), np.zeros((0, 0)))


def test_containers_are_trees():
    f = adc.compile("def f(p, x): return p['w'] * x + p['b'][0], (sum(x), p['b'][1])").jax()
    p = {"w": jnp.asarray(X), "b": [jnp.asarray(1.0), jnp.asarray(X)]}
    equal(f(p, 2.0), (2 * X + 1, (2.0, X)))
    found = jax.jit(jax.grad(lambda p: f(p, 2.0)[0].sum()))(p)
    equal(found, {"w": np.full(7, 2.0), "b": [7.0, np.zeros(7)]})


def test_a_custom_rule_is_kept():
    def rule(x, y, dy):
        return 100 * x * dy

    @adc.custom_vjp(rule, check=False)
    def square(x):
        return x * x

    f = square.jax()
    equal(jax.grad(f)(3.0), 300.0)
    equal(jax.jvp(f, (3.0,), (1.0,))[1], 300.0)
    equal(jax.grad(jax.grad(f))(3.0), 100.0)


# -- what is refused -----------------------------------------------------------------------------------


def test_static_arguments_and_lengths_are_known_while_tracing():
    power = adc.compile("def f(x, n):\n    for k in range(n): x = x * x\n    return x", static=["n"]).jax()
    equal(jax.jit(lambda x: jax.grad(power)(x, 2))(1.5), 4 * 1.5**3)
    with pytest.raises(adc.Error, match="static_argnames"):
        jax.jit(power)(1.5, 2)
    equal(jax.jit(power, static_argnames="n")(1.5, n=2), 1.5**4)
    count = adc.compile("def f(x, n: i64):\n    return [x * k for k in range(n)]").jax()
    equal(jax.jit(lambda x: count(x, 3))(2.0), np.array([0.0, 2.0, 4.0]))
    with pytest.raises(adc.Error, match="static_argnames"):
        jax.jit(count)(2.0, 3)


def test_an_index_out_of_range_is_an_error_of_every_derivative():
    f = adc.compile("def f(x, i: i64): return x[i] ** 2").jax()
    each = jax.vmap(jax.grad(f), (0, None))
    for call, x in ((f, X), (jax.grad(f), X), (jax.jit(jax.grad(f)), X), (jax.jit(each), ROWS)):
        with pytest.raises(Exception, match="out of range"):
            jax.block_until_ready(call(x, jnp.asarray(9)))


def test_shapes_and_dtypes_are_refused_in_the_languages_words():
    with pytest.raises(adc.ShapeError, match="differ"):
        jax.jit(loss())(X, np.ones(5))
    with pytest.raises(adc.DtypeError, match="complex128"):
        jax.jit(loss())(jnp.asarray(X) * 1j, A)
    with pytest.raises(adc.DtypeError, match="bfloat16"):
        loss()(jnp.asarray(X, jnp.bfloat16), A)
    with pytest.raises(adc.Error, match="takes"):
        loss()(X)


def test_compiled_functions_take_tracers():
    f = adc.compile("sum(sin(x * a) * x)")
    equal(jax.jit(jax.hessian(f))(X, A), jax.hessian(theirs)(X, A))
    equal(jax.grad(f, 1)(jnp.asarray(X), A), jax.grad(theirs, 1)(X, A))
    equal(jax.vmap(adc.grad(f, "x"), (0, None))(ROWS, A), jax.vmap(jax.grad(theirs), (0, None))(ROWS, A))


def test_calls_with_arrays_alone_give_arrays_of_jax():
    f = adc.compile("def f(x, a): return x * a, sum(x)")
    found = f(jnp.asarray(X), A)
    assert all(isinstance(r, jax.Array) for r in found)
    equal(found, (X * A, X.sum()))
    value, pullback = adc.vjp(f, jnp.asarray(X), jnp.asarray(A))
    equal(value, (X * A, X.sum()))
    assert all(isinstance(g, jax.Array) for g in pullback((jnp.ones(7), 1.0)))
    equal(pullback((jnp.ones(7), 1.0)), (np.full(7, A + 1), X.sum()))


def test_one_jit_for_several_functions():
    step = jax.jit(lambda f, x: f(x), static_argnums=0)
    mapped = [adc.vmap(adc.grad(adc.compile(t))) for t in ("x**2", "x**3")]
    for f, expected in zip(mapped, (2 * X, 3 * X**2), strict=True):
        for given in (f, f.jax()):
            equal(step(given, X), expected)
            equal(jax.jit(lambda x: given(x))(X), expected)  # noqa: B023


def test_it_is_one_function():
    f = adc.compile("x * x")
    assert f.jax() is f.jax()
    assert repr(f.jax()).endswith(".jax()")


def test_short_lengths_are_constants_of_the_kernel():
    f = adc.compile(
        "def f(x): return sum((x[i, k] - x[j, k])**2"
        "  for i in range(len(x)) for j in range(i) for k in range(3))"
    )
    moved = jnp.asarray(np.random.default_rng(0).normal(size=(6, 3)))
    apart = lambda x: jnp.sum((x[:, None] - x[None]) ** 2) / 2  # noqa: E731
    equal(jax.jit(jax.value_and_grad(f.jax()))(moved), jax.value_and_grad(apart)(moved))
    with pytest.raises(Exception, match="range"):
        jax.jit(jax.grad(f.jax()))(moved[:, :2])
    equal(jax.grad(f.jax())(moved[:1]), np.zeros((1, 3)))
