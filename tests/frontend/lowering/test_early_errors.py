"""What no argument mends is refused by `adc.compile`, and at decoration, in the words of the first call."""

import inspect

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.api import compile as capture
from adcompiler.frontend.library.builtins import BUILTINS, FUNCTIONALS, METHODS
from tests.frontend.lowering.test_language_errors import MISTAKES

EARLY = [
    "sin()", "sin(x, x)", "sin(y=x)", "sin(x, x=x)", "x.__class__", "x.T.__dict__", "'a' * x", "x + 'a'",
    "x @ sin()", "sum(x, axs=0)", "x.sum(axs=0)", "x.reshape()", "foo(x)", "np.foo(x)", "np.nothing",
    "x.foo()", "exp(x).foo", "where(x, 1)", "max()", "pi(x)", "sqrt(sin())", "[foo(v) for v in (x, x)]",
    "sum(foo(v) for v in [x])", "sum(v for v in foo(x))", "sum(v for v in [x] if foo(v))", "[x][foo(x)]",
    "foo(x)[0]", "1 if x > 0 else foo(x)", "x > 0 and foo(x)", "x < 'a'", "-None", "zeros()", "arange()",
    "polygamma(x)", "(x, x) - 2", "logsumexp(x, 0, 1, 2)",
    "polygamma(1.5, x)", "polygamma(-1, x)", "x & 1.5", "~1.5", "x @ 2", "3 @ x", "sum(x, 1.5)",
    "sum(x, axis='a')", "x.mean(axis=True)", "max(x, axis=0.5)", "cumsum(x, axis=1.5)",
    "[x for i in range(2.5)]",
    "[x for i in range(1, 2, 0)]", "sum(x for i in range(1, 2, 3, 4))", "grad()", "jvp()",
    "sin('a')", "hypot(x, 'a')", "'a'", "(x, 'a')", "(x, ('a', 1))", "x @ 'a'", "einsum(x)",
    "def f(x):\n    y = 'a'\n    return y", "def f(x):\n    if x > 0:\n        return 'a'\n    return 'a'",
    "1[0]", "inf[0]", "'a'[0]", "(x, x)['a']", "(x, x)[0.5:1]", "sum('a')", "len('a')", "zeros('a')",
    "norm('a', ord=2)", "mean('a', axis=0)",
    "def f(x):\n    for i in range(0, 5, 1.0):\n        x = x + i\n    return x",
    "def f(x):\n    return y",
    "def f(x):\n    y = z + 1\n    return x",
    "def f(x):\n    a, b = 3\n    return x",
    "def f(x):\n    a, b = (x, x, x)\n    return x",
    "def f(x):\n    for i in range(3):\n        x = x * undefined\n    return x",
    "def f(x):\n    while x < 3:\n        x = foo(x)\n    return x",
    "def f(x):\n    if x > 0:\n        return foo(x)\n    return x",
    "def f(x):\n    x += foo(x)\n    return x",
    "def f(x):\n    y = [x]\n    y[foo(x)] = 1\n    return y",
    "def f(x):\n    x + 1\n    return x",
    "def f(x):\n    for i in range(9):\n        if foo(x):\n            break\n    return x",
    "def f(x):\n    y = x",
    "def g(x):\n    y = x\n\ndef f(x):\n    return g(x)",
    "def g(a, b):\n    return a\n\ndef f(x):\n    return g(x)",
    "def g(a, b):\n    return a\n\ndef f(x):\n    return g(x, c=1)",
    "def g(a):\n    return foo(a)\n\ndef f(x):\n    return g(x)",
    "def f(x):\n    def g(a):\n        return foo(a)\n    return g(x)",
    "def g(a):\n    return foo(a)\n\ndef f(x):\n    return grad(g)(x)",
    "def h(g, a):\n    return g(a)\n\ndef k(a):\n    return foo(a)\n\ndef f(x):\n    return h(k, x)",
]  # fmt: skip

# Attributes of what is a number or an array, whatever the arguments are; its words ask for more.
ATTRIBUTES = [
    "sin(x).T.foo", "sum(i.foo for i in range(3))", "sum(v.foo for v in exp(x))", "exp(x)[0].foo",
    "sin(x).size.foo",
    "def f(x: f64):\n    return x.foo",
    "def f(x: f64[n]):\n    return x[0] * n.foo",
    "def f(x: f64[n]):\n    return sum(v.foo for v in x)",
    "def f(x):\n    for i in range(3):\n        x = x * i.foo\n    return x",
]  # fmt: skip

# What no array can be indexed by; its words tell of arrays.
INDICES = [
    ("x[1.5]", "an index must be an integer, not the number 1.5"),
    ("x[None, 'a']", "an index must be an integer, not a string"),
    ("x[1:2:0]", "the step of a slice must be a nonzero constant"),
    ("x[1.5:]", "the bounds of a slice must be integers or sizes"),
    ("def f(x: f64[n, m]):\n    return x[0, ::0.5]", "the bounds of a slice must be integers or sizes"),
]

# What some arguments, or none of the calls, would make a mistake.
LATE = [
    "x.w", "x['w']", "x[0][1]", "x @ x", "x.shape[1]", "sum(x, axis=1)", "zeros(x)", "len(x)", "'a' == x",
    "1 if x == 'relu' else 2", "x[1:2]", "x[y]", "x[y:z]", "x & y", "polygamma(x, y)", "sum(x, axis=y)",
    "[x for i in range(y, z, 2)]", "sum(x for i in range(len(y)))", "x @ y", "grad(x)(y)", "diff(x**2, x)",
    "def f(g, x):\n    return g(x)",
    "def f(x):\n    for i in range(3):\n        x = x.next\n    return x",
    "def f(x):\n    i = 1\n    for i in range(3):\n        i = x\n    return i.w",
    "def f(p):\n    a, b = p\n    return a.w + b['v']",
    "def f(x):\n    if x.ndim > 1:\n        y = x[0]\n    else:\n        y = x\n    return y",
    "def f(x, n):\n    return x if n == 0 else f(x, n - 1)",
    "def f(x):\n    for i in range(2):\n        last = x * i\n    return last",
    "def f(spec, x):\n    return einsum(spec, x)",
    "def f(x: f64[n, m]):\n    return x[0, 0] * n + m",
    "def name():\n    return 'a'\n\ndef f(x):\n    return x if name() == 'a' else 0", "('a', x)[1]",
    "einsum(y, x)",
    "def f(x):\n    if x.ndim > 1:\n        return x\n    return 'a'",
    "def unused(x):\n    return foo(x)\n\ndef f(x):\n    return x",
    "def f(x):\n    sum = x\n    return sum * max(x, 1)",
    "def f(x):\n    t = ()\n    for v in (x, x):\n        t = t + (v,)\n    return t",
]  # fmt: skip


def refused(text, monkeypatch, args=None, early=False):
    """The message of `adc.compile` alone, or of the first call; by default with numbers."""
    with monkeypatch.context() as patched:
        if not early:
            patched.setattr(capture, "check", lambda closure: None)
        try:
            f = adc.compile(text, backend="numpy")
            if not early:
                f(*([1.0] * len(f._parameters) if args is None else args))
        except adc.Error as error:
            return type(error), str(error)
    return None


@pytest.mark.parametrize("text", ATTRIBUTES)
def test_attributes_that_no_type_has_are_refused_by_compile(text):
    with pytest.raises(adc.ParseError, match="has no attribute 'foo'"):
        adc.compile(text)


@pytest.mark.parametrize(("text", "message"), INDICES)
def test_what_is_no_index_of_any_array_is_refused_by_compile(text, message, monkeypatch):
    found = refused(text, monkeypatch, early=True)
    assert found is not None
    assert message in found[1]
    assert found == refused(text, monkeypatch, [np.ones((3, 3))])


@pytest.mark.parametrize("text", EARLY)
def test_compile_refuses_in_the_words_of_the_first_call(text, monkeypatch):
    found = refused(text, monkeypatch, early=True)
    assert found is not None
    assert found == refused(text, monkeypatch)


@pytest.mark.parametrize("text", LATE)
def test_what_depends_on_arguments_is_left_to_the_call(text):
    adc.compile(text)


@pytest.mark.parametrize(("text", "args"), [(m[0].replace("»", ""), m[1]) for m in MISTAKES])
def test_mistakes_have_one_message(text, args, monkeypatch):
    found = refused(text, monkeypatch, early=True)
    assert found is None or found == refused(text, monkeypatch, args)


@pytest.mark.parametrize(
    "name",
    sorted(
        {n for n in BUILTINS if n.partition(".")[0] in (n, "norm", "binom")}
        - set(FUNCTIONALS)
        - {"max", "min", "arange", "einsum"}
    ),
)
def test_every_builtin_says_what_it_takes(name, monkeypatch):
    for text in (f"{name}()", f"{name}({', '.join('x' * 12)})", f"{name}(x, nonsense=1)"):
        found = refused(text, monkeypatch, early=True)
        assert found is not None, text
        assert found == refused(text, monkeypatch), text
        assert "takes (" in found[1]


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_says_what_it_takes(name, monkeypatch):
    text = f"x.{name}(nonsense=1)"
    found = refused(text, monkeypatch, early=True)
    assert found is not None
    assert found == refused(text, monkeypatch, [np.ones(3)])


def test_decoration_refuses_with_the_line_of_the_file():
    with pytest.raises(adc.ParseError, match="unknown function 'sine'") as caught:

        @adc.function
        def f(x):
            return sine(x)  # noqa: F821

    lines, _ = inspect.getsourcelines(test_decoration_refuses_with_the_line_of_the_file)
    first = test_decoration_refuses_with_the_line_of_the_file.__code__.co_firstlineno
    assert caught.value.line == first + next(k for k, text in enumerate(lines) if "return sine" in text)
    assert "did you mean" in caught.value.remedy


def test_files_and_primitives_are_checked(tmp_path):
    (tmp_path / "a.adc").write_text("def g(x):\n    return sin(x, x)\n")
    with pytest.raises(adc.ParseError, match=r"sin takes \(x\)"):
        adc.load(tmp_path / "a.adc")
