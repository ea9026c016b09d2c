"""`adc.nlp`: the interface of solvers, exact structures, and published optima."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from fit.hock_schittkowski import PROBLEMS
from scipy.sparse import coo_array

import adcompiler as adc

CONSTRAINED = [number for number, problem in PROBLEMS.items() if problem.is_constrained]
RANDOM = np.random.default_rng(0)

EFFORT = "def effort(x, u, h): return h * sum(u**2) + (x[-1, 0] - 1)**2"
RATES = "def rates(x, u): return stack((x[1], sin(x[0]) * x[1] + u**3))\n"
DEFECTS = {
    "comprehension": "def defects(x, u, h):\n"
    "    return [x[k + 1] - x[k] - h * rates(x[k], u[k]) for k in range(len(x) - 1)]",
    "stored rows": "def defects(x, u, h):\n"
    "    d = np.zeros((len(x) - 1, 2))\n"
    "    for k in range(len(x) - 1):\n"
    "        d[k] = x[k + 1] - x[k] - h * rates(x[k], u[k])\n"
    "    return d",
    "stored numbers": "def defects(x, u, h):\n"
    "    d = np.zeros((len(x) - 1, 2))\n"
    "    for k in range(len(x) - 1):\n"
    "        d[k, 0] = x[k + 1, 0] - x[k, 0] - h * x[k, 1]\n"
    "        d[k, 1] = x[k + 1, 1] - x[k, 1] - h * (sin(x[k, 0]) * x[k, 1] + u[k]**3)\n"
    "    return d",
    "arrays": "def defects(x, u, h):\n"
    "    p, v = x[:, 0], x[:, 1]\n"
    "    a = sin(p) * v + u**3\n"
    "    return stack((p[1:] - p[:-1] - h * v[:-1], v[1:] - v[:-1] - h * a[:-1]), axis=1)",
}


def control(text: str, n: int, backend: str = "numpy"):
    """An optimal-control problem with n points."""
    start = {"x": RANDOM.normal(size=(n, 2)), "u": RANDOM.normal(size=n)}
    defects = adc.compile(RATES + text, name="defects", backend=backend)
    return adc.nlp(adc.compile(EFFORT, backend=backend), defects, ("x", "u"), x0=start, data={"h": 0.1})


def point(problem):
    """A point and multipliers."""
    return RANDOM.uniform(0.5, 1.5, problem.n), RANDOM.normal(size=problem.m)


def kernels(problem) -> int:
    """The number of programs that compute the Hessian of the Lagrangian."""
    (made,) = problem._derived.hessian._made.values()
    return sum(key[0] == "entries" for key in made.program.base._made)


def matrices(problem, x, weights, factor=2.0):
    """The Jacobian of the constraints and the Hessian of the Lagrangian, dense."""
    jacobian = coo_array((problem.jacobian(x), problem.jacobianstructure()), shape=(problem.m, problem.n))
    rows, columns = problem.hessianstructure()
    assert (rows >= columns).all()
    lower = coo_array((problem.hessian(x, weights, factor), (rows, columns)), shape=(problem.n,) * 2)
    lower = lower.toarray()
    return jacobian.toarray(), lower + np.tril(lower, -1).T


def slopes(function, x, h=1e-6):
    return np.stack([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(x.size)], -1)


def check(problem):
    """Derivatives are those of finite differences, and no place occurs twice."""
    x, weights = point(problem)
    jacobian, hessian = matrices(problem, x, weights)
    np.testing.assert_allclose(slopes(problem.objective, x), problem.gradient(x), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(slopes(problem.constraints, x), jacobian, rtol=1e-6, atol=1e-6)

    def slope(x):
        return 2.0 * problem.gradient(x) + matrices(problem, x, weights)[0].T @ weights

    np.testing.assert_allclose(slopes(slope, x), hessian, rtol=1e-6, atol=1e-6)
    for rows, columns in (problem.jacobianstructure(), problem.hessianstructure()):
        assert len(np.unique(rows * problem.n + columns)) == len(rows)


# -- derivatives -------------------------------------------------------------------------------------


@pytest.mark.thinned(6)
@pytest.mark.parametrize("style", DEFECTS)
def test_structures_are_exact_and_kernels_fit_all_lengths(style):
    """A loop that stores is what a comprehension is."""
    problem = control(DEFECTS[style], 5)
    check(problem)
    for n in (3, 50):
        problem.update({"x": RANDOM.normal(size=(n, 2)), "u": RANDOM.normal(size=n)})
        assert (problem.n, problem.m) == (3 * n, 2 * (n - 1))
        assert len(problem.hessianstructure()[0]) == 2 * (n - 1) + 1 + n
        jacobian = matrices(problem, *point(problem))[0]
        assert len(problem.jacobianstructure()[0]) == 7 * (n - 1) == np.count_nonzero(jacobian)
    problem.update({"x": RANDOM.normal(size=(4, 2)), "u": RANDOM.normal(size=4)}, {"h": 0.3})
    check(problem)
    assert kernels(problem) == 1


def test_compiled_kernels():
    check(control(DEFECTS["arrays"], 6, "cpu"))


OTHERS = {
    "gathers": "def g(x, idx): return [x[i]**2 * sin(x[i + 1]) for i in idx]",
    "scatters": "def g(x, idx):\n"
    "    d = np.zeros(len(x))\n"
    "    for i in idx:\n"
    "        d[i] += x[i]**2 * x[i + 1]\n"
    "    return exp(d)",
    "products": "def g(x, idx): return outer(x, x[:3]) @ cos(x[:3]), sum(x**3)",
    "branches": "def g(x, idx): return where(x > 1, x**3, x * x[0]), maximum(x[1:]**2, x[:-1]**3)",
    "extrema": "def g(x, idx): return max(x**2) * x, (prod(x), (x[0]**3, x[1:]**2))",
    "recurrences": "def g(x, idx):\n"
    "    s = 0.0\n"
    "    for i in range(len(x)):\n"
    "        s = tanh(s + x[i])\n"
    "    return s, x[:2]**2",
    "routines": "def g(x, idx): return solve(outer(x[:2], x[2:4]) + diag(x[:2]), x[:2]**2)",
    "linear": "def g(x, idx): return x[1:] - 2 * x[:-1]",
}


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", OTHERS)
def test_every_program_has_derivatives(name):
    f = adc.compile("def f(x): return sum(x[1:]**2 * x[:-1]) + exp(x[0])", backend="numpy")
    g = adc.compile(OTHERS[name], backend="numpy")
    check(adc.nlp(f, g, x0=np.ones(6), data={"idx": np.array([0, 3, 3, 2, 4])}))


def test_functions_share_parameters_by_name():
    f = adc.compile("def f(a, s): return sum(a['p']**4) + s * a['q']**2", backend="numpy")
    g = adc.compile("def g(b, a, t=2.0): return b**t * a['q']", backend="numpy")
    h = adc.compile("def h(a): return sum(a['p']), a['p']**3", backend="numpy")
    start = ({"p": np.ones(3), "q": 2.0}, np.ones((2, 2), np.float32))
    problem = adc.nlp(f, [g, h], ("a", "b"), x0=start, data={"s": 3})
    assert (problem.n, problem.m, problem.shapes) == (8, 8, [(2, 2), (), (3,)])
    check(problem)
    assert problem.constraints(np.ones(8)) == pytest.approx([1, 1, 1, 1, 3, 1, 1, 1])
    result = problem.solve(method="slsqp", cl=[1, 0.5, None], cu=[None, 0.5, np.ones(3)])
    assert sum(result.params[0]["p"]) == pytest.approx(0.5)
    assert result.params[1].dtype == np.float32
    assert [type(one) for one in result.params[0].values()] == [np.ndarray, float]


def test_a_first_point_tells_the_shape_of_one_vector():
    problem = adc.nlp(adc.compile("sum(x**4)", backend="numpy"))
    assert problem.hessian(np.ones(2), []) == pytest.approx([12, 12])
    assert problem.jacobian(np.ones(2)).shape == problem.constraints(np.ones(2)).shape == (0,)


def test_results_are_not_overwritten():
    problem = control(DEFECTS["arrays"], 4000, "numpy")
    x, weights = point(problem)
    first = problem.hessian(x, weights)
    kept = first.copy()
    problem.hessian(2 * x, weights)
    np.testing.assert_array_equal(first, kept)


# -- solvers -----------------------------------------------------------------------------------------


@pytest.mark.thinned(4)
@pytest.mark.parametrize("number", CONSTRAINED)
def test_published_optima(number):
    program, limits = PROBLEMS[number].program()
    result = program.solve(method="slsqp", options={"maxiter": 500, "ftol": 1e-9}, **limits)
    assert result.fun == pytest.approx(PROBLEMS[number].least, rel=1e-6, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("number", CONSTRAINED)
def test_published_optima_by_trust_constr(number):
    program, limits = PROBLEMS[number].program()
    result = program.solve(method="trust-constr", options={"maxiter": 3000}, **limits)
    assert result.fun == pytest.approx(PROBLEMS[number].least, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("number", CONSTRAINED)
def test_published_optima_by_ipopt(number):
    pytest.importorskip("cyipopt")
    program, limits = PROBLEMS[number].program()
    result = program.solve(method="ipopt", **limits)
    assert result.success
    assert result.fun == pytest.approx(PROBLEMS[number].least, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("method", ["slsqp", "trust-constr", "ipopt"])
def test_multipliers_and_callbacks(method):
    """Problem 71: the gradient of the Lagrangian is zero."""
    if method == "ipopt":
        pytest.importorskip("cyipopt")
    program, limits = PROBLEMS[71].program()
    seen = []
    result = program.solve(method=method, callback=lambda x: seen.append(x.copy()), progress=True, **limits)
    jacobian = matrices(program, result.x, result.multipliers)[0]
    slope = program.gradient(result.x) + jacobian.T @ result.multipliers + result.bound_multipliers
    assert slope == pytest.approx(np.zeros(4), abs=1e-4)
    assert result.multipliers == pytest.approx([-0.5523, 0.1615], abs=1e-3)
    assert result.constraints == pytest.approx([0, 0], abs=1e-4)
    assert seen[-1] == pytest.approx(result.x, abs=1e-3)


def test_data_change_between_solves():
    f = adc.compile("def f(x, a): return sum((x - a)**2)", backend="numpy")
    g = adc.compile("def g(x, b): return b * x", backend="numpy")
    problem = adc.nlp(f, g, data={"b": 1.0})
    for a, n in ((1.0, 2), (3.0, 5)):
        result = problem.solve(np.zeros(n), "slsqp", cl=0, cu=2, data={"a": a})
        assert result.params == pytest.approx(np.full(n, min(a, 2)))
        problem.hessian(result.x, result.multipliers)
    assert kernels(problem) == 1


F = adc.compile("def f(x, a): return sum((x - a)**2)", backend="numpy")
G = adc.compile("def g(x): return x**2, sum(x)", backend="numpy")
DENSE = adc.compile("log(sum(x))", backend="numpy")
X = np.ones(2)


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        (lambda: adc.nlp(len), "nlp takes a compiled function"),
        (lambda: adc.nlp(adc.grad(F)), "made by a transform"),
        (lambda: adc.nlp(F, G, "z"), "no function of the problem has a parameter 'z'"),
        (lambda: adc.nlp(F, G, ()), "wrt is empty"),
        (lambda: adc.nlp(F, G).objective(X), "no value for a"),
        (lambda: adc.nlp(F, data={"b": 1}).objective(X), "no data parameter 'b'"),
        (lambda: adc.nlp(F, data={"a": 1}).solve(), "shapes of the variables are not known"),
        (lambda: adc.nlp(F, data={"a": 1}, x0=X).objective(np.ones(3)), r"x has shape \(3,\), but 2 numbers"),
        (lambda: adc.nlp(F, data={"a": 1}, x0=X).objective("two"), "x is not an array of numbers"),
        (lambda: adc.nlp(F, G, data={"a": 1}).solve(X), "the constraints have no limits"),
        (lambda: adc.nlp(F, G, data={"a": 1}).solve(X, cl=np.ones(5)), r"cl has shape \(5,\)"),
        (lambda: adc.nlp(F, G, data={"a": 1}).solve(X, cl=[np.ones(3), 1]), r"cl\[0\] has shape \(3,\)"),
        (lambda: adc.nlp(F, G, data={"a": 1}).solve(X, cl=2, cu=1), r"number 0 are \(2.0, 1.0\)"),
        (lambda: adc.nlp(F, data={"a": 1}).solve(X, lb=2, ub=1), r"number 0 are \(2.0, 1.0\)"),
        (lambda: adc.nlp(F, data={"a": 1}).solve(X, "bfgs"), "nlp has no method 'bfgs'"),
        (lambda: adc.nlp(F, G, data={"a": 1}).hessian(X, [1.0]), r"lagrange has shape \(1,\)"),
        (lambda: adc.nlp(F, G, data={"a": inf}).solve(X, cl=0), "f is not finite at the start"),
        (
            lambda: adc.nlp(F, adc.compile("def g(x): return x > 1"), data={"a": 1}).solve(X),
            "g is not a float",
        ),
        (lambda: adc.nlp(G).objective(X), "g returns 3 numbers"),
        (lambda: adc.nlp(DENSE, x0=np.ones(10**5)).hessianstructure(), "is not sparse"),
    ],
)
def test_refusals(call, cause):
    with pytest.raises(adc.Error, match=cause):
        call()


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ({"u": -1}, {"x": [2.0, 1.0]}),
        ((None, -1), ([2.0, 1.0], None)),
        ({"u": -1, "x": -np.inf}, {"x": [[2.0, 1.0]] * 4, "u": None}),
        ({"u": [-1, None, -1, -1]}, {"x": np.array([2.0, 1.0])}),
        ([*[None] * 8, -1, -1, -1, -1], [2, 1, 2, 1, 2, 1, 2, 1, None, None, None, None]),
    ],
)
def test_bounds_are_broadcast(lower, upper):
    """A number stands for all of an array and a row for all rows; names that a dict lacks have no bound."""
    objective = adc.compile("def f(x, u): return sum((x - 3)**2) + sum((u - 3)**2)", backend="numpy")
    halves = adc.compile("def g(x, u): return x[:, 0] - 4 * u", backend="numpy")
    problem = adc.nlp(objective, halves, wrt=("x", "u"))
    x, u = problem.solve((np.ones((4, 2)), np.ones(4)), "slsqp", cl=0, cu=0, lb=lower, ub=upper).params
    assert x == pytest.approx(np.tile([2.0, 1.0], (4, 1)), abs=1e-6)
    assert u == pytest.approx(np.full(4, 0.5), abs=1e-6)


def test_bounds_that_do_not_fit():
    objective = adc.compile("def f(x): return sum(x**2)", backend="numpy")
    problem = adc.nlp(objective, x0=np.ones((4, 2)))
    with pytest.raises(adc.Error, match=r"ub has shape \(3,\), but x0 has \(4, 2\)"):
        problem.solve(ub=[1, 2, 3])
    with pytest.raises(adc.Error, match="has no option 'max_iter'\n  help: did you mean maxiter"):
        problem.solve(method="slsqp", options={"max_iter": 3})
