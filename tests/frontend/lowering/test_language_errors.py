"""What lowering says of a program that parses and yet means nothing: class, place, cause and remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adcompiler as adc

ROW = np.ones(3)
MATRIX = np.ones((2, 3))

# The source, with » before the place that the error must name; arguments; the class; a part of the cause; a
# part of the remedy.
MISTAKES: list[tuple[str, tuple[Any, ...], type[adc.Error], str, str]] = [
    # names
    ("x + »sine(x)", (1,), adc.ParseError, "unknown function 'sine'", "did you mean sin"),
    ("»np.sine(x)", (1,), adc.ParseError, "unknown function np.sine", "did you mean sin"),
    ("sum(»range(3)) * x", (1,), adc.ParseError, "unknown function 'range'", "after `in`"),
    ("x + »zip(x, x)", (1,), adc.ParseError, "unknown function 'zip'", "after `in`"),
    ("def f(x):\n    return »torch.sin(x)", (1,), adc.ParseError, "torch.sin is not part", "write sin(...)"),
    ("»np.sin", (), adc.ParseError, "np.sin", "call it: np.sin(...)"),
    ("»np.foo", (), adc.ParseError, "unknown name np.foo", ""),
    ("def f(alpha):\n    return »alhpa", (1,), adc.ParseError, "unknown name 'alhpa'", "did you mean alpha?"),
    ("def f(x):\n    y = x\n    return »z", (1,), adc.ParseError, "unknown name 'z'", ""),
    ("def f(x):\n    return »sin", (1,), adc.ParseError, "unknown name 'sin'", "call it: sin(...)"),
    ("a = »b\n\ndef f(x):\n    return a", (1,), adc.ParseError, "unknown name 'b'", ""),
    ("def f(x):\n    return »x.foo", (ROW,), adc.ParseError, "no attribute 'foo'", "shape"),
    # what is called
    ("»x(2)", (1,), adc.ParseError, "'x'", ""),
    ("def f(x):\n    y = 2\n    return »y(x)", (1,),
     adc.ParseError, "'y' is the number 2, not a function", "y * ("),
    ("def f(x):\n    return 2 * »x(x)", (1,), adc.ParseError, "'x' is a scalar, not a function", "x * ("),
    ("def f(x):\n    t = x, x\n    return »t(1)", (1,),
     adc.ParseError, "'t' is a tuple of 2, not a function", ""),
    ("def f(x):\n    t = None\n    return »t(1)", (1,), adc.ParseError, "'t' is None, not a function", ""),
    ("»pi(x)", (1,), adc.ParseError, "pi is a number", "pi * ("),
    ("»(x + y)(2)", (1, 2), adc.ParseError, "only a function's name can be called", ""),
    ("»x.exp()", (ROW,), adc.ParseError, "arrays have no method .exp()", "write exp(x) instead of x.exp()"),
    ("»x.maximum(2).sum()", (ROW,), adc.ParseError, "no method .maximum()", "write maximum(x)"),
    ("»x.argmaxi()", (ROW,), adc.ParseError, "arrays have no method .argmaxi()", "did you mean .argmax()?"),
    ("»x.astype(y)", (ROW, 1.5), adc.ParseError, "a dtype must be a type", "dtype="),
    ("1 + »x.sum", (ROW,), adc.ParseError, "no attribute 'sum'", "call it: .sum()"),
    ("»x.std(correction=1)", (ROW,), adc.ParseError, "std takes (x, axis=, keepdims=, ddof=)", "no argument"),
    ("»x.std(ddof=x)", (ROW,), adc.ParseError, "ddof must be a number known at compile time", "write ddof=1"),
    ("»std((v for v in x), ddof=1)", (ROW,), adc.ParseError, "does not take ddof", "assign the list"),
    ("»(x, x)[:len(x)]", (ROW,), adc.ParseError, "the bounds of a slice of a tuple", "write t[1:]"),
    ("»x[..., ...]", (ROW,), adc.ParseError, "two '...' in one index", "write :"),
    ("»int(x)", (ROW,), adc.ShapeError, "int of an array of rank 1", "before the call"),
    ("»array(x, dtype='c16')", (ROW,), adc.ParseError, "a dtype must be a type", "write dtype=float"),
    ("»array(x, dtype=int)", (ROW,), adc.DtypeError, "an array of f64 as one of i64", "before the call"),
    ("»(x, (x, x)).sum()", (ROW,), adc.DtypeError, "sum takes an array, not a list of 2", ""),
    ("def f(x):\n    return »x.item()", (ROW,), adc.ShapeError, "item() of an array of rank 1", "x[0]"),
    ("»y = a * x", (), adc.ParseError, "the source defines no function, only a name", "only the expression"),
    ("»f(x) = x**2", (), adc.ParseError, "cannot assign to this call", "write def f(x): return ..."),
    # how it is called
    ("»sin()", (), adc.ParseError, "sin takes (x)", "missing: x"),
    ("»sin(x, y)", (1, 2), adc.ParseError, "sin takes (x)", "2"),
    ("»sin(z=x)", (1,), adc.ParseError, "sin", "z"),
    ("»round(x, y)", (1.0, 2.5), adc.ParseError, "decimals must be an integer known", ""),
    ("1 + »atan2(x)", (1,), adc.ParseError, "atan2 takes (y, x)", "missing: x"),
    ("»where(x > 0, 1)", (1,), adc.ParseError, "where takes (condition, x, y)", "missing: y"),
    ("»clip(x)", (1,), adc.ParseError, "clip takes (x, lo, hi)", "missing: lo, hi"),
    ("»sum(x, axes=0)", (ROW,), adc.ParseError, "sum takes (x, axis=, keepdims=)", "axes"),
    ("»len(x)", (1,), adc.DtypeError, "len of a scalar", "rank 1"),
    ("def g(a, b):\n    return a\n\ndef f(x):\n    return »g(x)", (1,),
     adc.ParseError, "g takes (a, b)", "missing: b"),
    ("def g(a, b):\n    return a\n\ndef f(x):\n    return »g(x, 1, 2)", (1,),
     adc.ParseError, "g takes (a, b)", "remove"),
    ("def g(a, b):\n    return a\n\ndef f(x):\n    return »g(x, a=1)", (1,),
     adc.ParseError, "g takes (a, b)", ""),
    ("def g(a):\n    return a + »b\n\ndef f(x):\n    return g(x)", (1,),
     adc.ParseError, "unknown name 'b'", ""),
    ("def f(x):\n    return »f(x)", (1,), adc.LimitError, "calls nest deeper than", "recursion must end"),
    # axes
    ("»sum(x, axis=2)", (MATRIX,),
     adc.OutOfRangeError, "axis 2 is out of range for an array of rank 2", "from -2 to 1"),
    ("»sum(x, axis=-3)", (MATRIX,), adc.OutOfRangeError, "axis -3 is out of range", "from -2 to 1"),
    ("2 * »sum(x, axis=0)", (1,),
     adc.OutOfRangeError, "axis 0 is out of range for an array of rank 0", "omit axis"),
    ("»sum(x, axis=(0, -2))", (MATRIX,), adc.OutOfRangeError, "an axis is given twice", "once"),
    ("»sum(x, axis=y)", (ROW, 1), adc.ParseError, "axis must be an integer known at compile time", "axis=0"),
    ("»sum(x, axis=0.0)", (ROW,), adc.ParseError, "axis must be an integer", "axis=0"),
    ("»sum(x, axis=True)", (ROW,), adc.ParseError, "axis must be an integer", "axis=0"),
    ("»sum(x, keepdims=y)", (ROW, 1), adc.ParseError, "keepdims must be True or False", "keepdims=True"),
    # unpacking
    ("def f(x):\n    »a, b = x, x, x\n    return a", (1,), adc.ParseError, "3 values for 2 names", "3"),
    ("def f(x):\n    a, »(b, c) = x, x\n    return a", (1,),
     adc.ParseError, "cannot unpack a scalar", "one name"),
    ("def f(x):\n    »a, b = 3\n    return a", (1,),
     adc.ParseError, "cannot unpack the number 3", "one name"),
    # statements
    ("»def f(x):\n    y = x", (1,), adc.ParseError, "f ends without a return", "return at least one value"),
    ("»def g(x):\n    y = x\n\ndef f(x):\n    return g(x)", (1,),
     adc.ParseError, "g ends without a return", "return"),
    ("def f(x):\n    »x + 1\n    return x", (1,),
     adc.ParseError, "an expression on its own does nothing", "assign it"),
    ("def f(x):\n    if »x > 0:\n        return x\n    return -x", (ROW,),
     adc.ShapeError, "a condition must be a scalar", "where("),
    ("»x = 3", (), adc.ParseError, "the source defines no function, only a name", "or def f"),
    # kinds of values
    ("»x + 'a'", (1,), adc.DtypeError, "add takes numbers and arrays, not a string", ""),
    ("»None + x", (1,), adc.DtypeError, "not None", ""),
    ("1 + »(x, x) / 2", (1,), adc.DtypeError, "divide takes numbers and arrays, not a tuple of 2", ""),
    # lists and tuples
    ("1 + »[x, x] * 2.0", (1,), adc.DtypeError, "a list of 2 can be repeated by an integer, not by", ""),
    ("»[0.0] * x", (1,), adc.DtypeError, "repeated by an integer, not by a scalar", "n: i64"),
    ("»(x, x) * x", (1,), adc.DtypeError, "repeated by an integer, not by a scalar", "n: i64"),
    ("def f(x, n: i64):\n    return »(x, x) * n", (1, 2),
     adc.DtypeError, "not known at compile time", "static"),
    ("def f(x):\n    v = [x, x]\n    return »v * 2", (1,), adc.DtypeError, "Python repeats", "2.0 * v"),
    ("def f(x):\n    v = [x, x]\n    »v *= 2\n    return v", (1,),
     adc.DtypeError, "Python repeats", "2.0 * v"),
    ("def f(x, k: i64):\n    v = [x, x]\n    return »k * v", (1, 2),
     adc.DtypeError, "Python repeats", "2.0 * v"),
    ("»[x] + [x]", (1,), adc.DtypeError, "Python joins two lists", "concatenate"),
    ("»[x] + (x,)", (1,), adc.DtypeError, "a tuple and a list", "concatenate"),
    ("»[x] == [x]", (1,), adc.DtypeError, "a comparison of two lists", "all("),
    ("»(x,) * 100000", (1,), adc.LimitError, "100000 items", "zeros"),
    ("»x if x > 0 else (x, x)", (1,), adc.DtypeError, "not a tuple of 2", ""),
    ("»-(x > 0)", (ROW,), adc.DtypeError, "negative of booleans", "not x"),
    ("(x > 0) + »((x > 1) - (x > 2))", (1,), adc.DtypeError, "subtract of booleans", "1 * x"),
    ("»x & y", (1, 2.5), adc.DtypeError, "takes integers, not f64", "and"),
    ("»5 & 0.5", (), adc.DtypeError, "takes integers", ""),
    ("»x << y", (1, 2.5), adc.DtypeError, "takes integers, not f64", ""),
    ("»1 << 10000", (), adc.LimitError, "does not fit", ""),
    ("def f(x):\n    return »None", (1,), adc.DtypeError, "the result is None", "return numbers or arrays"),
    ("def g(x):\n    return x\n\ndef f(x):\n    return »g", (1,),
     adc.DtypeError, "the result is the function 'g'", "return"),
    # annotations
    ("def f(x: »foo):\n    return x", (1,), adc.ParseError, "annotation of 'x' is not a type", "f64[n, 3]"),
    ("def f(x: f64[»n / 2]):\n    return x", (ROW,),
     adc.ParseError, "a size is a name, a number, or a sum or product", "f64[n, 3]"),
    ("def f(x: »i64):\n    return x", (1.5,), adc.DtypeError, "x is f64, but its annotation is i64", ""),
    ("def f(x: »i64[n]):\n    return x", (ROW,), adc.DtypeError, "but its annotation is i64", "astype"),
    ("def f(x: »f32[n]):\n    return x", (ROW,), adc.DtypeError, "but its annotation is f32", "astype"),
    ("def f(x: »f64):\n    return x", (ROW,),
     adc.ShapeError, "x has rank 1, but its annotation has rank 0", "scalar"),
]  # fmt: skip


def place(source: str) -> tuple[str, int, int]:
    """The source without its mark, and the mark's line and column."""
    before = source[: source.index("»")]
    return source.replace("»", ""), before.count("\n") + 1, len(before) - before.rfind("\n")


@pytest.mark.parametrize(("source", "args", "kind", "cause", "remedy"), MISTAKES)
def test_mistakes(source: str, args: tuple[Any, ...], kind: type[adc.Error], cause: str, remedy: str) -> None:
    text, line, column = place(source)
    with pytest.raises(adc.Error) as caught:
        adc.compile(text, backend="numpy")(*args)
    error = caught.value
    assert type(error) is kind
    assert (error.line, error.column) == (line, column)
    assert cause in error.cause
    assert remedy in (error.remedy or "")
    assert f":{line}:{column}: " in str(error)
    assert text.split("\n")[line - 1] in str(error)
    assert "^" in str(error)


@pytest.mark.parametrize("transform", [adc.grad, adc.value_and_grad, adc.jacobian, adc.hessian])
def test_transforms_report_the_same_place(transform: Any) -> None:
    f = transform(adc.compile("def f(x):\n    y = x\n    return y + x[0]", backend="numpy"))
    with pytest.raises(adc.OutOfRangeError, match="rank 0") as caught:
        f(1.0)
    assert (caught.value.line, caught.value.column) == (3, 16)


def test_an_error_leaves_the_function_usable() -> None:
    f = adc.compile("x * y", backend="numpy")
    for _ in range(2):
        with pytest.raises(adc.ShapeError):
            f(np.ones(2), np.ones(3))
        assert f(2, 3) == 6
