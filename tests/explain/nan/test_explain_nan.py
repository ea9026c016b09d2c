"""`adc.explain_nan`: for each origin of a NaN the line, element and operands, and a remedy that helps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.cli.app import run as main

ZERO = np.array([2.0, 0.0, 3.0])
ONES = np.ones((3, 4))

# A program of one operation, arguments, and what is said: operation, pass, value and operands.
ORIGINS = {
    "root": ("sqrt(x)", (0.0,), "sqrt", "backward", np.inf, {"x": 0.0}),
    "root of a negative number": ("sqrt(x)", (-1.0,), "sqrt", "forward", np.nan, {"x": -1.0}),
    "root times zero": ("sqrt(x) * y", (0.0, 0.0), "sqrt", "backward", np.inf, {"x": 0.0}),
    "logarithm": ("log(x)", (0.0,), "log", "forward", -np.inf, {"x": 0.0}),
    "log1p": ("log1p(x)", (-1.0,), "log1p", "forward", -np.inf, {"x": -1.0}),
    "quotient": ("x / y", (2.0, 0.0), "divide", "forward", np.inf, {"x": 2.0, "y": 0.0}),
    "0 / 0": ("x / y", (0.0, 0.0), "divide", "forward", np.nan, {"x": 0.0, "y": 0.0}),
    "negative power": ("x ** y", (0.0, -1.0), "power", "forward", np.inf, {"x": 0.0, "y": -1.0}),
    "power of a negative": ("x ** y", (-2.0, 0.5), "power", "forward", np.nan, {"x": -2.0, "y": 0.5}),
    "power below one": ("x ** 0.5", (0.0,), "power", "backward", np.inf, {"x": 0.0}),
    "acos at 1": ("acos(x)", (1.0,), "acos", "backward", -np.inf, {"x": 1.0}),
    "asin beyond 1": ("asin(x)", (1.5,), "asin", "forward", np.nan, {"x": 1.5}),
    "exponential": ("exp(x)", (1000.0,), "exp", "forward", np.inf, {"x": 1000.0}),
    "elements": ("sum(sqrt(x))", (ZERO,), "sqrt", "backward", np.inf, {"x[1]": 0.0}),
    "broadcast": ("sum(log(x)[:, None] * y)", (ZERO, ONES), "log", "forward", -np.inf, {"x[1]": 0.0}),
    "comprehension": ("sum([1 / a for a in x])", (ZERO,), "divide", "forward", np.inf, {"a[1]": 0.0}),
    "power by its exponent": ("x ** y", (-2.0, 3.0), "power", "backward", np.nan, {"x": -2.0, "y": 3.0}),
    "cube root": ("cbrt(x)", (0.0,), "cbrt", "backward", np.inf, {"x": 0.0}),
    "remainder": ("x % y", (1.0, 0.0), "remainder", "forward", np.nan, {"x": 1.0, "y": 0.0}),
    "whole quotient": ("x // y", (1.0, 0.0), "floor_divide", "forward", np.inf, {"x": 1.0, "y": 0.0}),
    "xlogy": ("xlogy(x, y)", (1.0, 0.0), "xlogy", "forward", -np.inf, {"x": 1.0, "y": 0.0}),
    "acosh": ("acosh(x)", (1.0,), "acosh", "backward", np.inf, {"x": 1.0}),
    "acosh below 1": ("acosh(x)", (0.5,), "acosh", "forward", np.nan, {"x": 0.5}),
    "erfinv": ("erfinv(x)", (1.0,), "erfinv", "forward", np.inf, {"x": 1.0}),
    "logit": ("logit(x)", (0.0,), "logit", "forward", -np.inf, {"x": 0.0}),
    "gamma": ("gamma(x)", (0.0,), "gamma", "forward", np.inf, {"x": 0.0}),
    "digamma": ("digamma(x)", (0.0,), "digamma", "forward", -np.inf, {"x": 0.0}),
    "a norm": ("sqrt(x @ x)", (np.zeros(3),), "sqrt", "backward", np.inf, {"x @ x": 0.0}),
    "in brackets": ("x / (y * y)", (1.0, 0.0), "divide", "forward", np.inf, {"x": 1.0, "y * y": 0.0}),
    "float32 acos": ("acos(x)", (np.float32(1),), "acos", "backward", -np.inf, {"x": 1.0}),
    "float32": ("sum(exp(x))", (np.float32([1, 100]),), "exp", "forward", np.inf, {"x[1]": 100.0}),
}  # fmt: skip


@pytest.mark.thinned(4)
@pytest.mark.parametrize("case", ORIGINS)
def test_the_operation_and_its_operands_are_named(case):
    source, args, operation, phase, value, operands = ORIGINS[case]
    found = adc.explain_nan(adc.compile(source), *args)
    assert (found.operation, found.phase) == (operation, phase)
    np.testing.assert_equal(found.value, value)
    assert dict(found.operands) == operands
    assert found.line == 1
    assert found.reproduced


@pytest.mark.thinned(4)
@pytest.mark.parametrize("case", ORIGINS)
def test_the_guard_in_its_place_helps(case):
    source, args, *_ = ORIGINS[case]
    f = adc.compile(source)
    found = adc.explain_nan(f, *args)
    start, end = found.span.column - 1, found.span.end_column - 1
    assert found.guard in found.suggestion
    mended = adc.compile(
        source[:start] + f"({found.guard})" + source[end:], args=[p.name for p in f._parameters]
    )
    assert not adc.explain_nan(mended, *args)


def test_nothing_to_explain_is_false():
    found = adc.explain_nan(adc.compile("sin(x)"), 1.0)
    assert not found
    assert str(found) == "f: all results and gradients are finite"


def test_the_message_says_where_what_and_how_to_mend_it():
    assert str(adc.explain_nan(adc.compile("sum(sqrt(x) * y)"), ZERO, np.zeros(3))).splitlines() == [
        "<expression>:1:5: the derivative of sqrt(x) is inf: the first operation of the backward pass that "
        "is not finite",
        "    sum(sqrt(x) * y)",
        "        ^^^^^^^",
        "  at element [1]",
        "  x[1] = 0",
        "  partial derivative: d sqrt(x) / d x = 0.5 / r, r the result; here 0.5 / 0 is inf",
        "  then 0 * inf is nan",
        "  the cotangent is 0: nothing uses this value (a factor 0, a mask, the branch of a where that is "
        "not taken),",
        "  yet 0 * inf is NaN; so make the argument safe before the operation, not its result",
        "  so dx[1] is nan",
        "  help: sqrt(x + eps) with a small eps, or where(x > 0, sqrt(where(x > 0, x, 1)), 0)",
    ]


def test_an_argument_that_is_nan_is_said_so():
    found = adc.explain_nan(adc.compile("sum(log(x) * y)"), np.ones(3), np.array([1.0, np.nan, 1.0]))
    assert found.phase == "input"
    assert dict(found.operands) == {"y[1]": pytest.approx(np.nan, nan_ok=True)}
    assert "y[1] is nan: the argument y is not finite" in str(found)


def test_infinities_that_meet_are_told_beside_what_made_the_first():
    found = adc.explain_nan(adc.compile("x * log(x)"), 0.0)
    assert found.operation == "log"
    assert "then 0 * (-inf) is nan" in str(found)


def test_an_infinity_that_was_meant_is_not_blamed():
    source = "def f(x):\n    best = inf + x\n    worst = best - best\n    return worst * x\n"
    found = adc.explain_nan(adc.compile(source), 1.0)
    assert (found.operation, found.line) == ("subtract", 3)
    found = adc.explain_nan(adc.compile("x * (inf - inf)"), 1.0)
    assert (found.operation, found.value) == ("constant", pytest.approx(np.nan, nan_ok=True))
    assert "(inf - inf) is nan: the first operation" in str(found)
    found = adc.explain_nan(adc.compile("x * 1e400"), 1.0)
    assert (found.operation, found.column) == ("constant", 5)


def test_an_infinity_that_is_computed_while_compiling_is_blamed():
    source = """def h(z):
    return 1 / z
def f(x):
    for i in range(3):
        x = sin(x) + h(2 * i)
    return x
"""
    found = adc.explain_nan(adc.compile(source), 1.0)
    assert (found.line, found.column, found.iterations) == (2, 12, (0,))
    assert "1 / z is inf: the first operation of the forward pass" in str(found)
    assert "in the call h(2 * i) in line 5" in str(found)


def test_the_norm_replaces_the_root_of_a_sum_of_squares():
    found = adc.explain_nan(adc.compile("sqrt(sum(x**2))"), np.zeros(3))
    assert (found.operation, found.phase) == ("sqrt", "backward")
    assert "norm(...)" in found.suggestion
    assert not adc.explain_nan(adc.compile("norm(x)"), np.zeros(3))


def test_logsumexp_replaces_the_logarithm_of_a_sum_of_exponentials():
    found = adc.explain_nan(adc.compile("log(sum(exp(x)))"), np.array([1000.0, 1.0]))
    assert (found.operation, found.element) == ("exp", (0,))
    assert "logsumexp" in found.suggestion
    assert not adc.explain_nan(adc.compile("logsumexp(x)"), np.array([1000.0, 1.0]))


# -- loops -----------------------------------------------------------------------------------------


def test_the_iteration_of_a_for_loop():
    source = """def f(x):
    s = x
    for i in range(100):
        s = s - 1
        s = sqrt(s) - 0.1 * s
    return sum(s)
"""
    found = adc.explain_nan(adc.compile(source), np.array([50.0, 60.0, 25.0]))
    assert (found.operation, found.line, found.iteration, found.element) == ("sqrt", 5, 2, (0,))
    assert "iteration 2 of the loop in line 3" in str(found)


def test_the_iteration_of_a_while_loop():
    source = """def f(x):
    k = 0
    while k < 20:
        x = sqrt(x) - 1
        k += 1
    return x
"""
    found = adc.explain_nan(adc.compile(source), 3.0)
    assert (found.operation, found.line, found.iteration) == ("sqrt", 4, 2)


def test_the_iteration_of_a_loop_that_only_adds_up():
    source = "def f(x):\n    s = 0.0\n    for i in range(len(x)):\n        s += log(x[i])\n    return s\n"
    found = adc.explain_nan(adc.compile(source), ZERO)
    assert (found.operation, found.line, found.iteration) == ("log", 4, 1)


def test_the_iterations_of_nested_loops():
    source = """def f(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            s = s * 0.5 + 1 / (x[i] - x[j] + i - j - 1) + s**2 * 1e-9
    return s
"""
    found = adc.explain_nan(adc.compile(source), np.ones(3))
    assert (found.operation, found.line, found.iterations) == ("divide", 5, (1, 0))


def test_the_backward_pass_of_a_loop():
    """A square behind a loop: the cotangent is 0, the derivative inside infinite. Behind a where there is
    none."""
    source = """def f(x):
    s = x
    for i in range(len(x)):
        s = sqrt(s)
    return sum(s**2)
"""
    found = adc.explain_nan(adc.compile(source), ZERO)
    assert (found.operation, found.phase, found.line, found.element) == ("sqrt", "backward", 4, (1,))
    assert "the branch of a where that is not taken" in str(found)
    guarded = adc.compile(source.replace("s**2", "where(x > 0, s, 0)"))
    assert adc.explain_nan(guarded, ZERO).operation is None


def test_iterations_are_found_without_holding_all_of_them(monkeypatch):
    """What a loop carried is kept at some iterations only; what lies between is computed again."""
    from adcompiler.interpreter import history

    source = (
        "def f(x):\n    for i in range(1000):\n        x = x - 0.001 - 0.0001 * sqrt(x)\n    return sum(x)\n"
    )
    f, x = adc.compile(source), np.linspace(0.03, 0.5, 50)
    whole = adc.explain_nan(f, x)
    monkeypatch.setattr(history, "MOST_BYTES", 3000)
    assert str(adc.explain_nan(f, x)) == str(whole)
    assert whole.operation == "sqrt"
    assert whole.iteration > 20


def test_an_infinity_that_a_loop_begins_with_is_not_blamed():
    source = """def f(x, c):
    best = inf
    for i in range(len(c)):
        best = minimum(best, (x - c[i])**2)
    return sqrt(best)
"""
    found = adc.explain_nan(adc.compile(source), 2.0, np.array([1.0, 2.0]))
    assert (found.operation, found.line) == ("sqrt", 5)


# -- routines, rules, other entries -------------------------------------------------------------------


SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
LEAST = "the smallest {} of A".format
MATRICES = {
    "cholesky": ("sum(cholesky(A))", (-np.eye(2),), "cholesky", LEAST("eigenvalue"), "not positive definite"),
    "solve": ("sum(solve(A, b))", (SINGULAR, np.ones(2)), "solve", LEAST("singular value"), "singular"),
    "inv": ("sum(inv(A))", (SINGULAR,), "solve", LEAST("singular value"), "singular"),
    "slogdet": ("slogdet(A)[1]", (0 * SINGULAR,), "slogdet", LEAST("singular value"), "singular"),
    "triangle": (
        "sum(solve_triangular(A, b))", (np.array([[1.0, 0], [2, 0]]), np.ones(2)), "triangular_transposed",
        LEAST("entry on the diagonal"), "zero on its diagonal",
    ),
}  # fmt: skip


@pytest.mark.slow_when(lambda case: case in ("inv", "slogdet", "cholesky"))
@pytest.mark.parametrize("case", MATRICES)
def test_a_matrix_that_a_routine_refuses(case):
    source, args, operation, operand, remedy = MATRICES[case]
    found = adc.explain_nan(adc.compile(source), *args)
    assert found.operation == operation
    assert list(found.operands) == [operand]
    assert found.operands[operand] == pytest.approx(-1.0 if case == "cholesky" else 0.0)
    assert remedy in found.suggestion
    before, after = source[: found.span.column - 1], source[found.span.end_column - 1 :]
    assert not adc.explain_nan(adc.compile(before + found.guard + after, args=["A", "b"][: len(args)]), *args)


def test_a_statement_is_mended_by_a_statement():
    source = "def f(x, y):\n    x /= y\n    return x\n"
    found = adc.explain_nan(adc.compile(source), 1.0, 0.0)
    assert found.guard == "x = where(y != 0, x / where(y != 0, y, 1), 0)"
    assert not adc.explain_nan(adc.compile(source.replace("x /= y", found.guard)), 1.0, 0.0)


@pytest.mark.parametrize("text", ["mean(x)", "mean(x[3:])", "std(x[3:])", "mean(x[x > 3])"])
def test_the_mean_of_nothing(text):
    found = adc.explain_nan(adc.compile(text), np.ones(0))
    assert "it needs at least one element" in found.suggestion


def test_a_rule_of_the_users_own():
    @adc.function
    def rule(x, r, d):
        return d / x

    @adc.custom_vjp(rule, check=False)
    def own(x):
        return abs(x)

    @adc.function
    def loss(x):
        return sum(own(x))

    found = adc.explain_nan(loss, 0.0)
    assert (found.operation, found.phase, found.value) == ("divide", "backward", np.inf)
    assert "return d / x" in str(found)


@adc.function
def decorated(x, w):
    t = x * w
    return np.sum(np.log(t))


def test_a_decorated_function_names_the_line_of_its_file():
    found = adc.explain_nan(decorated, ZERO, ZERO)
    lines = Path(__file__).read_text("utf-8").splitlines()
    assert lines[found.line - 1][found.column - 1 :].startswith("np.log(t)")
    assert found.guard == "np.where(t > 0, np.log(np.where(t > 0, t, 1)), 0)"


def test_a_function_called_from_another_one():
    inner = adc.compile("def inner(z):\n    y = z + 1\n    return y / z\n")

    @adc.function
    def outer(x):
        return inner(x) * 2

    found = adc.explain_nan(outer, 0.0)
    assert (found.operation, found.line, found.column) == ("divide", 3, 12)


def test_sympy():
    import sympy

    x, y = sympy.symbols("x y")
    found = adc.explain_nan(adc.compile(sympy.sqrt(x) * y), 0.0, 0.0)
    assert (found.operation, found.phase) == ("sqrt", "backward")
    assert dict(found.operands) == {"x": 0.0}
    assert found.guard == "where(x > 0, sqrt(where(x > 0, x, 1)), 0)"


def test_containers():
    found = adc.explain_nan(adc.compile("sum(log(p['w'])) + p['b']"), {"w": ZERO, "b": 1.0})
    assert found.operation == "log"
    assert found.element == (1,)


# -- derivatives -----------------------------------------------------------------------------------


def test_second_order():
    f = adc.compile("sum(abs(x)**1.5)")
    assert not adc.explain_nan(f, ZERO)
    found = adc.explain_nan(adc.grad(f), ZERO)
    assert (found.operation, found.phase, found.line) == ("power", "backward", 1)
    assert "second derivative" in str(found)
    assert adc.explain_nan(adc.hessian(f), ZERO, wrt=()).operation == "power"


def test_a_derivative_inside_the_language():
    f = adc.compile("diff(sqrt(x), x)")
    found = adc.explain_nan(f, 0.0, wrt=())
    assert (found.operation, found.phase) == ("sqrt", "backward")


def test_wrt_says_what_is_differentiated_by():
    f = adc.compile("sqrt(x) + y**2")
    assert not adc.explain_nan(f, 0.0, 1.0, wrt="y")
    assert not adc.explain_nan(f, 0.0, 1.0, wrt=())
    assert adc.explain_nan(f, 0.0, 1.0, wrt="x").operation == "sqrt"
    with pytest.raises(adc.Error, match="no parameter"):
        adc.explain_nan(f, 0.0, 1.0, wrt="z")


def test_integers_and_empty_arrays():
    assert not adc.explain_nan(adc.compile("sum(x)"), np.ones(0))
    assert adc.explain_nan(adc.compile("max(x)"), np.ones(0)).operation == "max"
    assert not adc.explain_nan(adc.compile("k + 1"), np.arange(3))


# -- kernels and the interpreter -------------------------------------------------------------------


def test_what_only_the_kernel_gives_is_said_so(monkeypatch):
    from adcompiler.explain.nan import explain_nan

    f = adc.compile("sum(sin(x))")
    monkeypatch.setattr(explain_nan, "_by_kernels", lambda *_: [1.0, np.array([1.0, np.nan])])
    found = adc.explain_nan(f, np.ones(2))
    assert found
    assert not found.reproduced
    assert "dx[1] is nan in the compiled kernel" in str(found)
    assert "cannot be reproduced" in str(found)


def test_what_only_the_interpreter_gives_is_said_so(monkeypatch):
    from adcompiler.explain.nan import explain_nan

    monkeypatch.setattr(explain_nan, "_by_kernels", lambda *_: [1.0, np.ones(2)])
    found = adc.explain_nan(adc.compile("sum(log(x))"), np.zeros(2))
    assert not found.reproduced
    assert "the compiled kernel returns finite numbers here" in str(found)


def test_large_domains_are_interpreted_in_blocks(monkeypatch):
    from adcompiler.interpreter import reference

    f = adc.compile("sum(exp(-(x[:, None] - y[None, :])**2) * sqrt(y)) + sum(cumsum(x) / (1 + y))")
    args = np.ones(30), np.r_[np.ones(29), 0.0]
    whole = adc.explain_nan(f, *args)
    monkeypatch.setattr(reference, "BLOCK_POINTS", 100)
    assert str(adc.explain_nan(f, *args)) == str(whole)
    assert whole.element == (29,)


def test_the_command_line(capsys):
    assert main(["explain", "sqrt(x) * y", "--nan", "--arg", "x=[1,0]", "--arg", "y=[1,0]"]) == 0
    out = capsys.readouterr().out
    assert out.rstrip("\n") == str(
        adc.explain_nan(adc.compile("sqrt(x) * y"), np.array([1.0, 0]), np.array([1.0, 0]))
    )
    assert main(["explain", "sqrt(x) * y", "--nan", "--arg", "x=0", "--arg", "y=0", "--wrt", "y"]) == 0
    assert "finite" in capsys.readouterr().out
    assert main(["explain", "sqrt(x) * y", "--nan", "--arg", "x=0"]) == 2
