"""Loops and branches: what is carried, what an iteration may do, and what is refused. The oracle judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judges.compared import has_oracles_value
from programs import Program
from programs.written_loops import PROGRAMS, X

import adcompiler as adc


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    has_oracles_value(PROGRAMS[name], "numpy")


def run(body: str, *args: Any, parameters: str = "x: f64[n]") -> Any:
    """The value of a def with this body, which is that of the oracle."""
    source = f"def f({parameters}):\n    " + body.strip("\n").replace("\n", "\n    ")
    has_oracles_value(Program(source, args), "numpy")
    return adc.compile(source, backend="numpy")(*args)


# ---- What ends a while loop ----

ENDED = {  # by a check that fails: where it stands, the text, and the condition of the loop
    "in the condition": ("i = 0\nwhile x[i] < v:\n    i = i + 1\nreturn i + x[0]", "%1 and %2 != 0"),
    "in the body": ("t = 0.0\nwhile t < v:\n    t = t + x[k]\nreturn t", "%3 and %c != 0"),
    "before the loop": ("t = 0.0\ny = x[k]\nwhile t < v:\n    t = t + y\nreturn t", "%1 and %c != 0"),
    "nowhere": ("t = 0.0\nwhile t < v:\n    t = t + x[0]\nreturn t", "%r < %v"),
}


@pytest.mark.parametrize("place", ENDED)
def test_a_failed_check_ends_the_loop(place: str) -> None:
    """A check raises when the program has run, and a loop that goes on after it might not end."""
    body, condition = ENDED[place]
    source = "def f(x: f64[n], v: f64, k: i64):\n    " + body.replace("\n", "\n    ")
    lines = adc.compile(source, backend="numpy").show("ir").splitlines()
    ends = next(line.split()[-1] for line in lines if line.strip().startswith("while "))
    assert f"    {ends} = array () {{ {condition} }}" in lines


# ---- What is carried ----


def test_what_the_body_assigns_and_has_a_value_before_is_carried() -> None:
    """Also integers and truth values; a Python int becomes a float where an iteration makes it one."""
    assert run("s = 0\nfor i in range(n):\n    s += i\nreturn s", X) == 10
    assert run("s = 0\nfor i in range(n):\n    s = s / 2 + i\nreturn s", X) == 6.125
    assert not run("found = False\nfor v in x:\n    found = found or v > 9\nreturn found", X)


def test_a_scalar_may_grow_if_it_is_used_element_by_element() -> None:
    np.testing.assert_allclose(
        run("s = 0\nfor i in range(n):\n    s = s * x[i] + x\nreturn s", X).shape, (5,)
    )


def test_a_loop_variable_keeps_its_last_value_if_it_had_one_before() -> None:
    assert run("i = -1\ns = 0.0\nfor i in range(n):\n    s = s + x[i]\nreturn s * i, i", X)[1] == 4
    assert run("i = -1\nfor i in range(n):\n    pass\nreturn i + 0 * sum(x)", np.zeros(0)) == -1


def test_float32_stays_float32() -> None:
    found = run("s = 0.0\nfor v in x:\n    s = s * 0.5 + v\nreturn s", X.astype(np.float32), parameters="x")
    assert found.dtype == np.float32


def test_a_few_iterations_and_tuples_are_written_out() -> None:
    """So their items may differ in kind, and an iteration may return."""
    assert (
        run(
            "for k in range(3):\n    x = x * x\n    if k == 1:\n        return x\nreturn x",
            2.0,
            parameters="x",
        )
        == 16
    )
    assert run("s = 0\nfor k in (1, 2, 3):\n    s = s + x**k\nreturn s", 2.0, parameters="x") == 14


@pytest.mark.parametrize("point", [(1.0, 2.0, 3.0), (-1.0, 2.0, 3.0), (-1.0, -2.0, 3.0), (-1.0, -2.0, -3.0)])
def test_an_iteration_that_is_written_out_may_return_under_a_condition(point) -> None:
    """What follows it, later iterations and what stands behind the loop, belongs to the other branch."""
    f = adc.compile("""
def f(x, y, z):
    for a in (x, y, z):
        if a > 0:
            return a**3
    return x * y
""")
    first = next((k for k, a in enumerate(point) if a > 0), None)
    x, y, _ = point
    assert f(*point) == (x * y if first is None else point[first] ** 3)
    slopes = [y, x, 0.0] if first is None else [3 * point[first] ** 2 * (k == first) for k in range(3)]
    np.testing.assert_allclose(adc.grad(f)(*point), slopes)
    adc.check_grad(f, *point, order=2)


@pytest.mark.slow
def test_branches_that_return_may_not_double_for_ever() -> None:
    f = adc.compile("""
def f(t):
    for a in t:
        if a > 0:
            if a < 1:
                return a
    return 0.0
""")
    with pytest.raises(adc.LimitError, match="branches with a return"):
        f((-1.0,) * 40)


def test_what_was_given_stays_as_it_is() -> None:
    given = X.copy()
    run("y = x.copy()\nfor i in range(n):\n    y[i] = 0.0\n    x[0] = 7.0\nreturn x[0] + y[1]", given)
    np.testing.assert_array_equal(given, X)


# ---- Where a branch is not taken ----


@pytest.mark.parametrize("x", [2.0, -2.0])
def test_a_loop_in_a_branch_does_not_run_where_the_branch_is_not_taken(x: float) -> None:
    """Newton's method would not end for a negative number."""
    source = """
def root(x):
    y = x
    if x > 0:
        while abs(y * y - x) > 1e-12:
            y = 0.5 * (y + x / y)
    return y
"""
    f = adc.compile(source, backend="numpy")
    np.testing.assert_allclose(f(x), np.sqrt(x) if x > 0 else x)
    np.testing.assert_allclose(adc.grad(f)(x), 0.5 / np.sqrt(x) if x > 0 else 1)
    np.testing.assert_allclose(adc.hessian(f)(x), -0.25 * x**-1.5 if x > 0 else 0, atol=1e-9)


@pytest.mark.parametrize(
    "choice",
    [
        "def f(x):\n    return where(x > 0, roots(x), x * x)",
        "def f(x):\n    if x > 0:\n        return roots(x)\n    return x * x",
        "def f(x):\n    return sum(roots(x) if x > 0 else x * x for i in range(1))",
    ],
)
def test_an_infinite_derivative_of_a_branch_not_taken_does_no_harm(choice: str) -> None:
    roots = "def roots(a):\n    y = a\n    for k in range(7):\n        y = sqrt(y)\n    return y\n"
    f = adc.compile(roots + choice, backend="numpy")
    for x in (0.0, -1.5):
        assert adc.grad(f)(x) == 2 * x
        assert adc.hessian(f)(x) == 2
        assert adc.jvp(f, (x,), (1.0,))[1] == 2 * x
        _, saved = f.split().forward(x)
        assert f.split().propagate(saved, 1.0) == (2 * x,)


# ---- Many cases, which need different numbers of iterations ----


def test_cases_end_each_in_its_own_iteration() -> None:
    f = adc.compile(PROGRAMS["while"].source, backend="numpy")
    points = np.array([0.3, 60.0, 5.0, -1.0])
    for one in (f, adc.grad(f), adc.grad(adc.grad(f))):
        np.testing.assert_allclose(adc.vmap(one)(points), [one(float(p)) for p in points])
    assert adc.vmap(adc.grad(f))(np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("name", ["triangle", "branches", "returns", "scatter", "while of arrays"])
def test_gradients_of_many_cases(name: str) -> None:
    source, args = PROGRAMS[name].source, PROGRAMS[name].args
    total = source.replace("def f(", "def inner(") + (
        "\ndef f(x, at):\n    return sum(inner(x, at) ** 2)" if len(args) > 1
        else "\ndef f(x):\n    return sum(inner(x) ** 2)"
    )  # fmt: skip
    gradient = adc.grad(adc.compile(total, backend="numpy"), "x")
    x = np.stack([args[0], 1.1 * args[0], 0.4 * args[0]])
    many = adc.vmap(gradient, (0, *(None for _ in args[1:])))
    np.testing.assert_allclose(many(x, *args[1:]), [gradient(row, *args[1:]) for row in x])


# ---- Mistakes: » stands before the place that the error names ----

MISTAKES: list[tuple[str, Any, type[adc.Error], str, str]] = [
    ("»for i in range(n):\n    return None\nreturn 0", X,
     adc.DtypeError, "cannot return a value that is not a number", "return them after it"),
    ("for i in range(n):\n    t = x[i]\nreturn »t", X,
     adc.ParseError, "'t' is assigned only inside a loop", "give it a value before the loop"),
    ("if x[0] > 0:\n    y = x\nreturn »y", X,
     adc.ParseError, "'y' is assigned in only one branch", "before the if or in both branches"),
    ("»if x[0] > 0:\n    y = x\nelse:\n    y = x[0]\nreturn y", X,
     adc.ShapeError, "y has rank 1 in one branch and 0 in the other", "same shape"),
    ("»if x[0] > 0:\n    return x", X,
     adc.ParseError, "a branch ends without a return", "end each branch with a return"),
    ("if »x > 0:\n    x = -x\nreturn x", X,
     adc.ShapeError, "a condition must be a scalar, not an array of rank 1", "any(...) or all(...)"),
    ("while »x > 0:\n    x = x - 1\nreturn x", X,
     adc.ShapeError, "a condition must be a scalar, not an array of rank 1", "any(...) or all(...)"),
    ("s = x\n»for i in range(n):\n    s = sum(s)\nreturn s", X,
     adc.ShapeError, "s has rank 1 before the loop and 0 after an iteration", "keep its shape"),
    ("s = 1.0\n»for i in range(n):\n    s = sum(s) + x\nreturn s", X,
     adc.ShapeError, "s is a scalar before the loop and an array of rank 1 after", "s = zeros(...)"),
    ("s = x, x\n»for i in range(n):\n    s = x\nreturn s", X,
     adc.DtypeError, "s is a tuple of 2 before the loop and an array of rank 1 after an iteration",
     "one kind"),
    ("for i in range(9):\n    x = x + i\n»break\nreturn x", X,
     adc.ParseError, "'break' is outside a loop", "move it into a for"),
    ("»for i in range(9):\n    if x[0] > i:\n        return x[0]\nreturn x", X,
     adc.ShapeError, "the result has rank 0 in one branch and 1 in the other", "the same shape everywhere"),
    ("for i in range(9):\n    if x[0] > i:\n        y = 1\n        continue\n    x = x + »y\nreturn x", X,
     adc.ParseError, "unknown name 'y'", ""),
    ("»break = 1\nreturn x", X, adc.ParseError, "'break' is a statement and cannot be", "another name"),
    ("for i in range(9):\n    »x + 1\nreturn x", X,
     adc.ParseError, "an expression on its own does nothing", "assign it"),
    ("for i in »range(x[0]):\n    x = 2 * x\nreturn x", X,
     adc.DtypeError, "range of a scalar of f64", "i64"),
    ("for »i, v in x:\n    x = x + v\nreturn x", X, adc.ParseError, "cannot unpack a scalar", "one name"),
    ("for i in range(n):\n    x = x + »x[i + 1]\nreturn x", X,
     adc.OutOfRangeError, "index: the axis has length 5 (axis 0 of x), but at least 6 is needed", "(5,)"),
    ("y = 2 * x[0]\n»y[0] = 1.0\nreturn y", X, adc.DtypeError, "assign to elements of a scalar", "array"),
    ("»x[0] = x, x\nreturn x", X, adc.DtypeError, "cannot store a tuple of 2", "numbers or arrays"),
    ("»x[0, 0] = 1.0\nreturn x", X, adc.OutOfRangeError, "2 indices for an array of rank 1", "at most 1"),
    ("»x[0.5] = 1.0\nreturn x", X, adc.DtypeError, "the index of a store must be an integer", "x[i] = v"),
    ("»x[7] = 1.0\nreturn x", X, adc.OutOfRangeError, "index 7: the axis has length 5", "(5,)"),
    ("k = arange(n)\n»k[0] = 0.5\nreturn k * x", X, adc.DtypeError, "a float in an array of i64", "floats"),
    ("»x[1:3] = x\nreturn x", X, adc.ShapeError, "the value stored: axis -1", "1"),
    ("k = 0\nwhile k < 9:\n    x = x + »x[k]\n    k += 1\nreturn x", X,
     adc.OutOfRangeError, "an index is out of range", "count from 0"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "x", "kind", "cause", "remedy"), MISTAKES)
def test_mistakes(marked: str, x: Any, kind: type[adc.Error], cause: str, remedy: str) -> None:
    before = "def f(x: f64[n]):\n    " + marked[: marked.index("»")].replace("\n", "\n    ")
    source = "def f(x: f64[n]):\n    " + marked.replace("»", "").replace("\n", "\n    ")
    with pytest.raises(adc.Error) as caught:
        adc.compile(source, backend="numpy")(x)
    error = caught.value
    assert type(error) is kind
    assert cause in error.cause
    assert remedy in (error.remedy or "")
    assert (error.line, error.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert "^" in str(error)


ARM = """
def arm(angles, lengths):
    p = [[1.0, 0.0], [0.0, 1.0]]
    for j in range(7):
        c, s = cos(angles[j]), sin(angles[j])
        p = [[lengths[j] * c, 0.0], [s, c]] @ p
    return p[0, 0] + p[1, 0]

def reach(angles, poses):
    return sum(arm(angles, poses[i])**2 for i in range(len(poses)))
"""


@pytest.mark.slow_when(
    lambda transform, wrt, dtype: transform is adc.hessian or dtype is np.float32 or wrt == "angles"
)
@pytest.mark.parametrize("transform", [adc.grad, adc.hessian])
@pytest.mark.parametrize("wrt", ["angles", "poses"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_loop_with_matrices_for_each_case(dtype, wrt, transform):
    """What an iteration reads twice under two conditions that turn out to be one keeps its places."""
    random = np.random.default_rng(2)
    angles, poses = random.uniform(0.1, 1, 7).astype(dtype), random.uniform(0.8, 1.2, (4, 7)).astype(dtype)
    compiled, plain = (transform(adc.compile(ARM, backend=b), wrt) for b in ("cpu", "numpy"))
    near = {"rtol": 1e-10, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(compiled(angles, poses), plain(angles, poses), **near)
    if dtype == np.float64 and transform is adc.grad and wrt == "angles":
        adc.check_grad(adc.compile(ARM, backend="numpy"), angles, poses)


LONGEST = """
def f(x, k):
    s, most = 0.5, max(k)
    for i in range(len(k)):
        for j in range(most):
            if j < k[i]:
                s = sin(s) + x[j]
    return s
"""


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_the_length_of_a_loop_is_no_number_of_its_body(backend):
    """What the loop around has as its number 4, the longest, the body has as another: an element of k."""
    x, k, expected = np.array([1.0, 2.0, 3.0]), np.array([2, 0, 3]), 0.5
    for count in k:
        for j in range(count):
            expected = np.sin(expected) + x[j]
    f = adc.compile(LONGEST, backend=backend)
    assert f(x, k) == pytest.approx(expected)
    adc.check_grad(f, x, k, order=2)


def test_windows_that_are_summed_element_by_element_are_sums():
    """A convolution in four loops, whose window has a length of its own, is one sum after its loops."""
    body = """
z = zeros((o, n - m + 1))
for a in range(o):
    for i in range(n - m + 1):
        acc = bias[a]
        for b in range(c):
            for u in range(m):
                acc += x[b, i + u] * k[a, b, u]
        z[a, i] = max(acc, 0.0)
return sum(z**2)"""
    parameters = "x: f64[c, n], k: f64[o, c, m], bias: f64[o]"
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape) for shape in ((2, 7), (3, 2, 5), (3,))]
    run(body, *args, parameters=parameters)
    f = adc.compile(f"def f({parameters}):\n    " + body.strip("\n").replace("\n", "\n    "), backend="numpy")
    assert "loop" not in f.show("ir", *args)
    assert "loop" not in adc.value_and_grad(f, ("x", "k")).show("ir", *args)
