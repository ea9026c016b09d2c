"""A name in a Python function is the object that it is bound to, whatever it is called.

Every function of NumPy, SciPy, `math`, `operator` and Python that the language knows is bound to the name of
another function, and the compiled function is compared with Python's result. So the table of objects is
right, and no name is read by its spelling.
"""

from __future__ import annotations

import functools
import linecache
import math
import operator
import pickle
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.special
import scipy.stats
from numba import njit, prange
from scipy import linalg

import adcompiler as adc
from adcompiler.frontend.library.objects import functions_of
from adcompiler.ops.table import ALIASES, TABLE

X, Y = np.array([0.3, 0.7, 0.9, 0.2]), np.array([0.5, 0.2, 0.6, 0.8])
K, J = np.array([5, 2, 7, 1]), np.array([1, 3, 2, 1])
A = np.array([[2.0, 0.5, 0.1], [0.5, 3.0, 0.4], [0.1, 0.4, 1.0]])
B = np.array([[1.0, 2.0, 4.0], [0.5, -1.0, 3.0]])
ARGS: dict[str, Any] = {"x": X, "y": Y, "k": K, "j": J, "a": A, "b": B, "s": 0.4, "t": 0.7, "n": 2}
CALLS: dict[str, str] = {
    "arccosh acosh": "F(x + 1.5)",
    "bitwise_and bitwise_or bitwise_xor left_shift right_shift": "F(k, j)",
    "bitwise_left_shift bitwise_right_shift": "F(k, j)",
    "invert bitwise_not bitwise_invert": "F(k)",
    "jn jv iv ive polygamma": "F(2, x)",
    "gammainc gammaincc": "F(x + 1, y)",
    "gammaincinv gammainccinv": "F(x + 1, y)",
    "betainc betaincc betaincinv betainccinv": "F(x + 1, y + 1, x)",
    "where": "F(x > 0.4, x, y)",
    "clip": "F(x, 0.3, 0.5)",
    "max min": "F(b, 0)",
    "amax amin sum prod mean var std any all argmax argmin median nansum nanprod nanmean nanvar nanmax "
    "nanmin ptp count_nonzero average": "F(b, axis=0)",
    "percentile quantile": "F(x, 0.3)",
    "cumsum cumprod sort argsort ediff1d fliplr flipud rot90 ravel transpose copy tril triu cov corrcoef "
    "real imag conj conjugate atleast_1d atleast_2d atleast_3d flip zeros_like ones_like nan_to_num hstack "
    "vstack column_stack array asarray float64 gradient squeeze": "F(b)",
    "empty_like": "F(b) * 0",
    "full_like": "F(b, 2.0)",
    "zeros ones identity": "F(3)",
    "empty": "F(3) * 0",
    "full": "F(3, 2.0)",
    "eye": "F(3, 4, 1)",
    "tri": "F(3, 4, 1)",
    "arange": "F(5)",
    "linspace": "F(0.0, 1.0, 5)",
    "logspace geomspace": "F(1.0, 2.0, 5)",
    "diff": "F(x)",
    "diag diagonal trace": "F(a)",
    "dot inner vdot outer convolve correlate kron append matmul": "F(x, y)",
    "tensordot": "F(a, a, axes=1)",
    "cross": "F(a[0], a[1])",
    "einsum": "F('ij,jk->ik', a, a)",
    "reshape": "F(b, (3, 2))",
    "broadcast_to": "F(x, (2, 4))",
    "repeat tile roll": "F(x, 2)",
    "expand_dims": "F(b, 0)",
    "moveaxis swapaxes": "F(b, 0, 1)",
    "stack concatenate dstack": "F((x, y))",
    "split array_split hsplit": "F(x, 2)",
    "vsplit": "F(b, 2)",
    "dsplit": "F(x.reshape(1, 1, 4), 2)",
    "pad": "F(x, 1)",
    "take": "F(x, j)",
    "take_along_axis": "F(x, j, 0)",
    "searchsorted": "F(x[:3], y)",
    "digitize": "F(y, x[:3])",
    "interp": "F(y, x[:3], y[:3])",
    "bincount": "F(k, minlength=8)",
    "insert": "F(x, 1, 2.0)",
    "delete": "F(x, 1)",
    "select": "F([x > 0.5, x > 0.25], [x, y])",
    "polyval": "F(x, s)",
    "vander": "F(x)",
    "astype": "F(k, np.float64)",
    "int64 int32 int_ intp int": "F(n)",
    "bool": "F(n)",
    "float32": "F(x)",
    "isclose allclose": "F(x, x + 1e-9)",
    "trapezoid cumulative_trapezoid": "F(y, x)",
    "softmax log_softmax logsumexp": "F(b, axis=0)",
    "solve": "F(a, a[0])",
    "solve_triangular": "F(a, a[0], 1, True)",
    "cholesky det inv expm slogdet eigvalsh cond pinv norm": "F(a)",
    "eigh": "F(a)[0]",
    "lstsq": "F(a, a[0])[0]",
    "qr": "abs(F(a)[1])",
    "svd": "F(a, full_matrices=0 > 1)[1]",
    "matrix_power": "F(a, 3)",
    "multi_dot": "F((a, a, a))",
}
SCALAR = {
    "acosh": "F(s + 1)",
    "prod": "F(x)",
    "lshift rshift": "F(k, j)",
    "matmul": "F(x, y)",
    "all any": "F(x > 0.4)",
    "max min": "F(s, t)",
    "sum len": "F(x)",
    "float round": "F(s)",
    "int bool": "F(n)",
    "type": "F(s)(n)",
}
MODULES = ("numpy", "numpy.linalg", "math", "operator", "builtins", "scipy.special", "scipy.linalg",
           "scipy.integrate")  # fmt: skip
KNOWN = [
    (module, name, found.name)
    for module in MODULES
    for name, found in functions_of(module)
    if name not in ("r_", "c_")
]


def call_of(module: str, name: str, ours: str) -> str:
    """A call of a function F, as an expression of the parameters."""
    scalar = module in ("math", "operator", "builtins")
    for names, text in (SCALAR if scalar else CALLS).items():
        if name in names.split():
            return text
    count = len(TABLE[ALIASES.get(ours, ours)].params)
    return f"F({', '.join('st'[:count] if scalar else 'xy'[:count])})"


def made(text: str, name: str, **around: Any) -> Callable[..., Any]:
    """A Python function from a text, whose source Python finds."""
    file = f"<names {len(linecache.cache)}>.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), around)
    found: Callable[..., Any] = around[name]
    return found


def compare(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            compare(one, other)
    else:
        np.testing.assert_allclose(
            found,
            np.asarray(expected, float),
            rtol=1e-6 if np.asarray(expected).dtype == np.float32 else 1e-10,
            atol=1e-12,
        )


@pytest.mark.parametrize(("module", "name", "ours"), KNOWN)
def test_every_function_has_its_meaning_under_any_name(module: str, name: str, ours: str) -> None:
    """Bound to another name, and behind a module of another name; in functions of numba too."""
    alias = "log" if name != "log" else "tanh"
    call = call_of(module, name, ours)
    call = call.replace("F(a)", "F(a, mode='economic')") if (module, name) == ("scipy.linalg", "qr") else call
    used = [p for p in ARGS if re.search(rf"\b{p}\b", call)]
    header = f"import numpy as np, {module} as lib\nfrom {module} import {name} as {alias}\n"
    text = f"{header}def f({', '.join(used)}):\n    return {{}}\n"
    python = made(text.format(call.replace("F(", f"{alias}(")), "f")
    args = [ARGS[p] for p in used]
    expected = python(*args)
    compare(adc.compile(python, backend="numpy")(*args), expected)
    compare(adc.compile(njit(python), backend="numpy")(*args), expected)
    behind = made(text.format(call.replace("F(", f"lib.{name}(")), "f")
    compare(adc.compile(behind, backend="numpy")(*args), expected)


def distinct(**around: Any) -> types.ModuleType:
    """A module of the user's own."""
    found = types.ModuleType("library")
    vars(found).update(around)
    return found


def twice(x: float) -> float:
    return 2 * x


class Scaled:
    def __call__(self, x: float) -> float:
        return 3 * x


# Objects that the language does not know, under names that it does: what the message calls them.
REFUSED = {
    "relu(x)": ({"relu": Scaled()}, "Scaled"),
    "exp(x)": ({"exp": np.vectorize(math.exp)}, "numpy.vectorize"),
    "norm(x)": ({"norm": functools.partial(np.linalg.norm, ord=1)}, "functools.partial"),
    "log(x)": ({"log": np.frexp}, "numpy.frexp"),
    "np.log(x)": ({"np": distinct(log=np.frexp)}, "numpy.frexp"),
    "linalg.norm(x)": ({"linalg": distinct(norm=Scaled())}, "Scaled"),
    "special.erf(x)": ({"special": distinct()}, "not in library"),
    "math.exp(x)": ({"math": distinct(exp=operator.index)}, "_operator.index"),
    "scipy.special.erf(x)": ({"scipy": distinct(special=distinct(erf=np.frexp))}, "numpy.frexp"),
    "log(x) ": ({"log": math}, "the module math"),
    "gamma(x)": ({"gamma": scipy.stats.gamma}, "scipy.stats.gamma, a distribution"),
    "norm.pdf(x)": ({"norm": scipy.stats.norm(1, 2)}, "rv_continuous_frozen"),
    "remainder(x, 3.0)": ({"remainder": math.remainder}, "math.remainder"),
    "isclose(x, 3.0)": ({"isclose": math.isclose}, "math.isclose"),
    "jvp(1, x)": ({"jvp": scipy.special.jvp}, "scipy.special"),
    "linalg.qr(x)": ({"linalg": scipy.linalg}, "a square Q"),
    "xp.frexp(x)": ({"xp": np}, "numpy.frexp"),
    "xp.erf(x)": ({"xp": np}, "not in numpy"),
    "xp(x)": ({"xp": np}, "the module numpy"),
}


@pytest.mark.parametrize("call", REFUSED)
@pytest.mark.parametrize("decorator", [adc.function, lambda f: adc.compile(njit(f))])
def test_unknown_objects_are_refused_by_their_names(call: str, decorator: Callable[..., Any]) -> None:
    around, named = REFUSED[call]
    with pytest.raises(adc.Error) as found:
        decorator(made(f"def f(x):\n    return {call}\n", "f", **around))(np.ones((3, 2)))
    assert named in str(found.value)
    assert found.value.remedy
    assert found.value.line == 2


SAME = {
    "sqrt(x)": {"sqrt": np.cbrt},
    "sum(x)": {"sum": np.prod},
    "max(x, 0.4)": {"max": np.minimum},
    "max(x, 0)": {"max": np.max},
    "diff(x)": {"diff": np.diff},
    "linalg.solve(x @ x.T, x[:, 0])": {"linalg": distinct(solve=np.linalg.lstsq)},
    "math.exp(x)": {"math": distinct(exp=np.log)},
    "la.cholesky(x @ x.T + la.norm(x))": {"la": np.linalg},
    "linalg.cholesky(x @ x.T + 2)": {"linalg": scipy.linalg},
    "sc.gamma(x) + gamfcn(x) + softmax(x, axis=None) + logsumexp(x)": {
        "sc": scipy.special, "gamfcn": scipy.special.gamma, "softmax": scipy.special.softmax,
        "logsumexp": scipy.special.logsumexp,
    },
    "xp.r_[x[0], x[1]] + xp.pi + xp.linalg.norm(x)": {"xp": np},
    "xp.zeros(2, xp.float32) + real(x)[0, 0]": {"xp": np, "real": np.float32},
    "normal.logpdf(x) + density(x, 2.0)": {"normal": scipy.stats.norm, "density": scipy.stats.chi2.pdf},
    "ll.special.erf(x)": {"ll": scipy},
    "add(x, x)": {"add": operator.mul},
    "[log(v) for v in x[:, 0]]": {"log": np.log2},
}  # fmt: skip


@pytest.mark.parametrize("text", SAME)
def test_known_objects_under_other_names(text: str) -> None:
    python = made(f"def f(x):\n    return {text}\n", "f", **SAME[text])
    x = np.array([[0.3, 0.7, 1.2], [0.5, 0.9, 0.4]])
    if "lstsq" in repr(SAME[text]) or "solve" in text:
        x = x[:, :2]
        found, expected = adc.function(python)(x)[0], python(x)[0]
    else:
        found, expected = adc.function(python)(x), python(x)
    compare(found, expected)


def test_derivatives_of_renamed_functions() -> None:
    log, tanh = np.log2, scipy.special.expit

    def f(x):
        return log(x) * tanh(x)

    g = adc.function(f)
    h = 1e-6
    expected = (f(0.7 + h) - f(0.7 - h)) / (2 * h)
    assert adc.grad(g)(0.7) == pytest.approx(expected, rel=1e-8)
    assert adc.jvp(g, (0.7,), (1.0,))[1] == pytest.approx(expected, rel=1e-8)
    slope = (adc.grad(g)(0.7 + h) - adc.grad(g)(0.7 - h)) / (2 * h)
    assert adc.grad(adc.grad(g))(0.7) == pytest.approx(slope, rel=1e-7)


def test_names_that_the_function_binds_are_its_own() -> None:
    """Parameters, assignments, loop variables and nested definitions hide what is around."""
    log = np.log2
    xp = np

    def f(x):
        def g(log):
            return log * 2

        def h(xp):
            return xp.sum()

        total = 0.0
        for tanh in x:
            total = total + tanh
        return g(x[0]) + log(x[1]) + h(x) + xp.log(x[2]) + total

    x = np.array([0.3, 0.7, 1.2])
    assert adc.function(f)(x) == pytest.approx(f(x))


def test_names_bound_to_nothing_keep_their_meaning() -> None:
    f = adc.function(made("def f(x):\n    return log(x) + np.sin(x) + special.erf(x) + sigmoid(x)\n", "f"))
    assert f(0.5) == pytest.approx(math.log(0.5) + math.sin(0.5) + math.erf(0.5) + 1 / (1 + math.exp(-0.5)))


def test_functions_with_captured_objects_are_pickled() -> None:
    log, add, np2, largest, loop = np.log2, operator.add, np, np.max, prange

    def f(x):
        @njit
        def g(y):
            return add(y, y)

        total = 0.0
        for i in loop(3):
            total += x[i]
        table = np2.r_[x, log(x)]
        return g(largest(table, 0)) + linalg.cholesky(np.eye(2) * 4.0)[0, 1] + total

    x = np.array([0.3, 0.7, 1.2])
    compiled = adc.function(f)
    again = pickle.loads(pickle.dumps(compiled))
    assert again(x) == compiled(x) == pytest.approx(2 * max(1.2, math.log2(1.2)) + 2.2)
    np.testing.assert_array_equal(adc.grad(again)(x), adc.grad(compiled)(x))
