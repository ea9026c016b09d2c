"""Types and values are those of NumPy 2, for every type of argument; or the program is refused.

There are no int8 and float16, which NumPy makes of truth values: they are int64 and float64. The other
differences are listed in DIFFERENT and told in docs/language.md.
"""

import itertools
import re
import warnings

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.ops.table import ALIASES, TABLE

BACKENDS = ["numpy", "cpu"]
ROWS = {
    "bool": np.array([[True, False, True], [False, False, True]]),
    "i64": np.array([[3, 0, -2], [1, 1, 5]]),
    "f32": np.array([[1.5, -0.5, 2.0], [0.0, 1.0, 2.0]], "f4"),
    "f64": np.array([[0.5, -1.5, 2.5], [1.0, 2.0, 3.0]]),
}
OTHERS = {
    "bool": np.array([[True, True, False], [False, True, True]]),
    "i64": np.array([[2, 1, 3], [0, 4, 2]]),  # no negative powers
    "f32": np.array([[2.5, 1.5, -2.0], [1.0, 0.5, 3.0]], "f4"),
    "f64": np.array([[1.5, 0.5, -2.0], [3.0, 0.25, 2.0]]),
}
WEAK = (2, 1.5, True)
WIDER = {"int8": "int64", "float16": "float64"}
DIFFERENT = {
    "fmod": "always a float",
    "+x": "of truth values an integer, as in Python",
    "abs(True)": "an integer, as in Python",
}

UNARY = [
    "-x", "+x", "~x", "not x", "x @ x.T", "x[0] @ x[1]", "abs(x)", "round(x)", "x.round()", "copy(x)",
    "sum(x)", "prod(x)", "mean(x)", "var(x)", "std(x)", "max(x)", "min(x)", "amax(x)", "amin(x)", "any(x)",
    "all(x)", "argmin(x)", "argmax(x)", "cumsum(x)", "cumprod(x)", "norm(x)", "ravel(x)", "transpose(x)",
    "trace(x)", "diag(x)", "diagonal(x)", "tril(x)", "triu(x)", "sum(x, axis=0)", "mean(x, axis=1)",
    "max(x, axis=0)", "prod(x, axis=1)", "any(x, axis=0)", "argmax(x, axis=1)", "cummax(x, axis=1)",
    "cummin(x, axis=0)", "clip(x, 0, 1)", "where(x > 0, x, 1.5)", "where(x > 0, 1, x)", "where(x > 0, x, x)",
    'einsum("ij->j", x)', 'einsum("ij,ij->", x, x)', "x.sum()", "x.max(axis=1)", "sum(x[:, :0])",
    "x[:, :0] @ x[:, :0].T", "stack((x, x))",
]  # fmt: skip
OPERATORS = [
    "+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=",
]  # fmt: skip
BINARY = [
    *(f"x {op} y" for op in OPERATORS),
    "x @ y.T", "dot(x, y.T)", "matmul(x[0], y[0])", "inner(x, y)", "vdot(x, y)", "outer(x[0], y[1])",
    "kron(x, y)", "tensordot(x, y)", "where(x > 0, x, y)", "concatenate((x, y))", "stack((x, y))",
    'einsum("ij,ij->i", x, y)', "max(x, y)", "min(x, y)",
]  # fmt: skip


def ours(name, arity):
    """The names that NumPy has for the primitives of some arguments: all of them, for types may differ."""
    for op, entry in TABLE.items():
        if entry.orders is None and len(entry.params) == arity and op != "strict":
            for known in (op, *(alias for alias, other in ALIASES.items() if other == op)):
                if isinstance(getattr(np, known, None), np.ufunc):
                    yield f"{known}({name})"


class Names(dict):
    """What the names of an expression mean in NumPy."""

    def __missing__(self, name):
        return getattr(np, name)


MEANING = {
    "norm": np.linalg.norm,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "where": lambda guard, x, y: np.where(guard, x, y),
}


def meaning(text, **args):
    """An expression as NumPy has it."""
    known = {**MEANING, **args, **({"max": np.maximum, "min": np.minimum} if ", y)" in text else {})}
    text = text.replace("not x", "logical_not(x)")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(eval(text, {"__import__": __import__}, Names(known)))


def judge(texts, args, backends=BACKENDS):
    """All that NumPy computes in one program of each backend; all that it refuses must be refused."""
    expected = {}
    for text in texts:
        if any(text.startswith(d) for d in DIFFERENT):
            continue
        try:
            expected[text] = meaning(text, **args)
        except (TypeError, ValueError) as error:
            with pytest.raises(adc.Error):
                print(text, error, adc.compile(text, args=list(args), backend="numpy")(*args.values()))
    source = f"def f({', '.join(args)}):\n    return {', '.join(expected)}"
    for backend in backends:
        for text, found in zip(expected, adc.compile(source, backend=backend)(*args.values()), strict=True):
            same(
                found,
                expected[text],
                f"{text} of {[np.asarray(a).dtype for a in args.values()]} on {backend}",
            )


def same(found, wanted, where):
    """The type of NumPy, and its values."""
    name = wanted.dtype.name
    assert np.asarray(found).dtype.name == WIDER.get(name, name), where
    relative, absolute = {"float16": (2e-3, 1e-3), "float32": (1e-5, 1e-6)}.get(name, (1e-12, 1e-13))
    np.testing.assert_allclose(
        np.asarray(found, float), np.asarray(wanted, float), relative, absolute, err_msg=where
    )


@pytest.mark.thinned(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ROWS)
def test_of_one_argument(kind, backend):
    refused = {"reciprocal(x)"} if kind in ("bool", "i64") else set()
    judge([t for t in [*UNARY, *ours("x", 1)] if t not in refused], {"x": ROWS[kind]}, [backend])
    for text in refused:
        with pytest.raises(adc.DtypeError, match="rounds down"):
            adc.compile(text, backend="numpy")(ROWS[kind])


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("left", "right"), list(itertools.product(ROWS, OTHERS)))
def test_of_two_arguments(left, right):
    judge([*BINARY, *ours("x, y", 2)], {"x": ROWS[left], "y": OTHERS[right]}, ["numpy"])


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("left", "right"), [("bool", "bool"), ("bool", "i64"), ("i64", "f32"), ("f32", "f64")]
)
def test_of_two_arguments_in_kernels(left, right):
    judge(BINARY, {"x": ROWS[left], "y": OTHERS[right]}, ["cpu"])


@pytest.mark.thinned(4)
@pytest.mark.parametrize("weak", WEAK)
@pytest.mark.parametrize("kind", ROWS)
def test_numbers_are_weak(kind, weak):
    operators = [f"x {op} y" for op in OPERATORS]
    texts = [*operators, *ours("x, y", 2)]
    judge([re.sub(r"\by\b", repr(weak), t) for t in texts], {"x": ROWS[kind]}, ["numpy"])
    judge([f"({weak!r}) {op} x" for op in OPERATORS], {"x": OTHERS[kind]}, ["numpy"])


@pytest.mark.parametrize("kind", ROWS)
def test_python_floats_as_arguments_are_weak(kind):
    judge([f"x {op} y" for op in OPERATORS], {"x": ROWS[kind], "y": 1.5}, ["numpy"])


def test_no_number_is_rounded_down_unseen():
    with pytest.raises(adc.DtypeError, match="rounds down"):
        adc.compile("reciprocal(3)")()
    assert adc.compile("reciprocal(3.0)")() == 1 / 3
    assert adc.compile("reciprocal(x)")(3) == 1 / 3  # an int counts as a float
