"""`adc.minimize`: each method gets the derivatives that it uses; published optima are reached."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from fit.hock_schittkowski import PROBLEMS
from numba import njit
from scipy.optimize import NonlinearConstraint

import adcompiler as adc
from adcompiler.fit import problem
from adcompiler.fit.minimize import METHODS
from adcompiler.fit.watch import Watch


@njit
def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total += 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return total


bowl = adc.compile("def bowl(x, d): return sum((x - d)**4 + (x - d)**2)", backend="numpy")


@pytest.mark.thinned(4)
@pytest.mark.parametrize("number", PROBLEMS)
def test_published_optima(number):
    result = PROBLEMS[number].solve("SLSQP")
    assert result.fun == pytest.approx(PROBLEMS[number].least, rel=1e-6, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("number", PROBLEMS)
def test_published_optima_by_an_interior_point_method(number):
    """Second derivatives of objectives and constraints are exact. The method stops at a small barrier."""
    result = PROBLEMS[number].solve("trust-constr")
    assert result.fun == pytest.approx(PROBLEMS[number].least, rel=1e-3, abs=1e-3)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("method", [m for m in METHODS if m != "dogleg"])
def test_every_method(method):
    """`dogleg` needs a Hessian that is positive definite, which this function has not everywhere."""
    result = adc.minimize(rosenbrock, [1.2, 0.9, 1.1], method=method)
    assert result.params == pytest.approx([1, 1, 1], abs=0.15 if method == "COBYLA" else 2e-3)


def test_dogleg():
    assert adc.minimize(bowl, np.zeros(3), (2.0,), "dogleg").params == pytest.approx([2, 2, 2], abs=1e-4)


def test_each_point_is_computed_once(monkeypatch):
    seen = Counter()

    def counted(f, wrt):
        derivative = adc.value_and_grad(f, wrt)
        return lambda *args: seen.update([args[0].tobytes()]) or derivative(*args)

    monkeypatch.setattr(problem, "value_and_grad", counted)
    result = adc.minimize(rosenbrock, [1.2, 0.9, 1.1], method="BFGS")
    assert set(seen.values()) == {1}
    assert len(seen) == result.nfev


def test_containers_nest_like_the_start():
    f = adc.compile("def f(p, s): return sum((p['a'] - s)**2) + p['b']**4 * p['k']", backend="numpy")
    start = {"a": np.ones(3, np.float32), "b": 2.0, "k": 3.0, "name": "n"}
    bounds = ({"a": None, "b": 0.5, "k": 1, "name": None}, None)
    for method in ("L-BFGS-B", "trust-constr"):
        params = adc.minimize(f, start, (2.0,), method, bounds=bounds).params
        assert params["a"] == pytest.approx(np.full(3, 2), abs=1e-3)
        assert params["a"].dtype == np.float32
        # An interior point method stops near the bounds: how near depends on float32 and the processor.
        assert (params["b"], params["k"]) == pytest.approx((0.5, 1), abs=5e-3)
    record = np.zeros((), [("a", "f4"), ("b", "f8", (2,))])[()]
    g = adc.compile("def g(p): return (p.a - 1)**2 + sum((p.b - 3)**2)", backend="numpy")
    for method in ("BFGS", "Newton-CG", "trust-exact"):
        found = adc.minimize(g, record, method=method).params
        assert (found["a"], *found["b"]) == pytest.approx((1, 3, 3))


def test_parameters_by_name():
    f = adc.compile("def f(y, a, x, b): return sum((y - a * x - b)**2)", backend="numpy")
    x = np.arange(4.0)
    assert adc.minimize(f, (0, 0), (2 * x + 1, x), wrt=("a", "b")).params == pytest.approx((2, 1))
    found = adc.minimize(f, {"b": 0.0, "a": 0.0}, (2 * x + 1, x), wrt=("a", "b"))
    assert found.params == pytest.approx({"a": 2, "b": 1})


def test_float32_converges_as_float64():
    """Points are float64, also for a start and data of float32, unless an annotation needs float32."""
    for f in (bowl, adc.compile("def f(x: f32[:], d): return sum((x - d)**2)", backend="numpy")):
        result = adc.minimize(f, np.ones(3, np.float32), (np.float32(2),))
        assert result.success
        assert result.params.dtype == np.float32
        assert result.params == pytest.approx([2, 2, 2], rel=1e-6)


def test_constraints_are_functions_of_the_same_container():
    f = adc.compile("def f(p): return (p[0] - 2)**2 + (p[1] - 1)**2", backend="numpy")
    disc = adc.compile("def disc(p): return p[0]**2 + p[1]**2", backend="numpy")
    for method in ("SLSQP", "trust-constr"):
        limit = NonlinearConstraint(disc, -np.inf, 1)
        found = adc.minimize(f, (0.5, 0.5), method=method, constraints=limit).params
        assert found == pytest.approx((2 / 5**0.5, 1 / 5**0.5), abs=1e-3)
    with pytest.raises(adc.DtypeError, match="not compiled"):
        adc.minimize(f, (0.5, 0.5), constraints={"type": "ineq", "fun": lambda p: 1 - p[0]})


def test_progress(monkeypatch):
    class Terminal:
        text = ""

        def isatty(self):
            return True

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("adcompiler.fit.watch.PROGRESS_SECONDS", 0.0)
    monkeypatch.delenv("ADC_PROGRESS", raising=False)
    adc.minimize(bowl, np.zeros(2), (1.0,), progress=True)
    assert "adc: minimize, 2 points, " in terminal.text
    assert terminal.text.endswith("\r\x1b[K")
    assert Watch("minimize", False).stream is None


@pytest.mark.parametrize(
    ("f", "x0", "keywords", "cause"),
    [
        (bowl, [1.0, np.nan], {}, r"x0\[1\] is nan"),
        (bowl, "start", {}, "x0 has no floats"),
        (bowl, [1j], {}, "complex"),
        (bowl, [1.0], {"method": "BFG"}, "minimize has no method 'BFG'"),
        (bowl, [1.0], {"method": "bfgs", "bounds": [(0, 1)]}, "the method 'BFGS' takes no bounds"),
        (bowl, [1.0], {"method": "TNC", "constraints": {"type": "eq", "fun": bowl}}, "takes no constraints"),
        (bowl, [1.0, 2.0], {"bounds": [(0, 1)]}, "1 bounds for 2 numbers"),
        (bowl, [1.0, 2.0], {"bounds": [(0, 1), (3, 2)]}, r"bounds of number 1 are \(3.0, 2.0\)"),
        (bowl, [1.0], {"args": (1.0, 2.0)}, "args has 2 values, but bowl takes 1 in addition to x"),
        (bowl, [1.0], {"args": ()}, r"bowl\(\) is missing d"),
        (bowl, [1.0], {"wrt": "z"}, "no parameter 'z'"),
        (adc.compile("def f(x, d): return x - d"), [1.0, 2.0], {}, "use adc.least_squares"),
        (adc.compile("def f(x, d): return x, d"), 1.0, {"method": "Powell"}, "use adc.least_squares"),
        (adc.compile("def f(x, d): return log(x - d)"), 1.0, {}, "f is not finite at the start"),
        (adc.compile("def f(x, d): return sqrt(x)"), 0.0, {}, "the gradient of f is not finite"),
        (bowl, [1.0], {"constraints": {"type": "le", "fun": bowl}}, "a constraint has the type 'le'"),
        (len, 1.0, {}, "minimize takes a compiled function"),
    ],
)
def test_refusals(f, x0, keywords, cause):
    with pytest.raises(adc.Error, match=cause):
        adc.minimize(f, x0, **{"args": (2.0,), **keywords})
