"""`Function`: calls, what is differentiated, structure and dtypes, buffers, decorated functions, names."""

from __future__ import annotations

import inspect
import keyword
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.testing import assert_array_equal

import adcompiler as adc
from adcompiler.frontend.grammar.scan import RESERVED

BACKENDS = ["numpy", "cpu"]
PAIR = np.array([2.0, 3.0])


def interpreted(source: str, **options: Any) -> adc.Function:
    return adc.compile(source, backend="numpy", **options)


product = interpreted("def product(x, y):\n    return x * y")


def same_kind(actual: Any, expected: Any) -> None:
    """Equal, and of the same type and dtype all the way down."""
    assert type(actual) is type(expected)
    if isinstance(expected, tuple):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            same_kind(one, other)
    else:
        assert np.asarray(actual).dtype == np.asarray(expected).dtype
        assert_array_equal(actual, expected)


# ---- Arguments ----


def test_arguments_come_by_position_or_by_name() -> None:
    assert product(2, 3) == product(2, y=3) == product(y=3, x=2) == 6


@pytest.mark.parametrize(
    ("args", "keywords", "message"),
    [
        ((2,), {}, "product() is missing y"),
        ((), {}, "product() is missing x, y"),
        ((2, 3, 4), {}, "product() got 3 arguments"),
        ((2, 3), {"x": 4}, "product() got 'x' twice"),
        ((2,), {"z": 3}, "product() got an unexpected argument 'z'"),
    ],
)
def test_arguments_that_do_not_match(args: tuple[Any, ...], keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(adc.Error) as caught:
        product(*args, **keywords)
    assert isinstance(caught.value, TypeError)
    assert caught.value.cause == message
    assert caught.value.remedy == "it takes (x, y)"


def test_parameters_are_seen_from_python() -> None:
    f = interpreted('def area(w, h):\n    "The area."\n    return w * h')
    assert list(inspect.signature(f).parameters) == ["w", "h"]
    assert (f.__name__, f.__doc__) == ("area", "The area.")


@pytest.mark.parametrize("name", [word for word in keyword.kwlist if word not in RESERVED])
def test_keywords_of_python_as_parameters(name: str) -> None:
    """Python's signatures cannot have them: they get another name, and are passed by position."""
    f = interpreted(f"def f(x, {name}, {name}_, y=1.0):\n    return x * {name} + {name}_ * y")
    assert str(inspect.signature(f)) == f"(x, {name}__, /, {name}_, y=1.0)"
    assert f(2.0, 3.0, 1.0) == f(**{"x": 2.0, name: 3.0, f"{name}_": 1.0}) == 7.0
    assert adc.grad(f, name)(2.0, 3.0, 1.0) == 2.0
    inspect.signature(f).bind(2.0, 3.0, **{f"{name}_": 1.0})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((2, 3), 6.0),  # Python ints are floats
        ((2.0, 3.0), 6.0),
        ((True, 3), 3.0),
        ((np.float64(2), 3.0), np.float64(6)),
        ((np.float32(2), 3.0), np.float32(6)),  # a Python number yields
        ((np.float32(2), np.float64(3)), np.float64(6)),
        ((np.int64(2), np.int64(3)), np.int64(6)),
        ((np.int64(2), 3.0), np.float64(6)),
        ((np.array(2.0), 3.0), np.float64(6)),
        ((PAIR, 3), 3 * PAIR),
        ((PAIR.astype(np.float32), 3), 3 * PAIR.astype(np.float32)),
        ((PAIR.astype(np.int32), PAIR.astype(np.uint8)), np.array([4, 9])),
        (([1, 2], [3, 4]), np.array([3.0, 8.0])),  # lists are arrays, and whole numbers in them floats
        ((np.array([], np.float32), 2), np.array([], np.float32)),
        ((np.arange(6.0)[::-2], 1), np.array([5.0, 3.0, 1.0])),
        ((np.arange(6.0).reshape(2, 3).T, 1), np.arange(6.0).reshape(2, 3).T),
        ((np.arange(3, dtype=">f8"), 1), np.arange(3.0)),
    ],
)
def test_types_of_results(args: tuple[Any, Any], expected: Any, backend: str) -> None:
    f = product if backend == "numpy" else COMPILED
    same_kind(f(*args), expected)


COMPILED = adc.compile("def product(x, y):\n    return x * y")


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (1j, "complex128"),
        (np.array([1j]), "complex128"),
        (np.ones(2, np.float16), "float16"),
        (np.ones(2, np.longdouble), str(np.dtype(np.longdouble))),
        (np.array([1], object), "object"),
        ("1", "is a str"),
        (None, "is a NoneType"),
        ([[1], [2, 3]], "is not an array"),
        (np.array([2**64 - 1], np.uint64), "beyond int64"),
        (2**53 + 1, "beyond 2**53"),
        (10**400, "does not fit float64"),
    ],
)
def test_values_that_are_no_real_numbers(value: Any, what: str) -> None:
    with pytest.raises(adc.DtypeError, match="the argument 'x'") as caught:
        product(value, 1.0)
    assert what in caught.value.cause
    assert caught.value.remedy


def test_results_nest_as_returned() -> None:
    f = interpreted("def f(x):\n    return x, (2 * x, (3 * x,)), ()")
    assert f(1) == (1.0, (2.0, (3.0,)), ())


def test_results_share_no_memory() -> None:
    x = PAIR.copy()
    for backend in BACKENDS:
        results = adc.compile("def f(x):\n    t = 2 * x\n    return x, t, t", backend=backend)(x)
        memory = [x, *results]
        assert not any(np.shares_memory(a, b) for k, a in enumerate(memory) for b in memory[:k])


# ---- What is differentiated ----


@pytest.mark.parametrize(
    ("wrt", "expected"),
    [
        (None, (3.0, 2.0)),
        ("x", 3.0),
        ("y", 2.0),
        (0, 3.0),
        (-1, 2.0),
        (("y",), (2.0,)),
        ((0,), (3.0,)),
        (("y", "x"), (2.0, 3.0)),
        ([1, "x"], (2.0, 3.0)),
        ((), ()),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_forms_of_wrt(wrt: Any, expected: Any, backend: str) -> None:
    f = product if backend == "numpy" else COMPILED
    same_kind(adc.grad(f, wrt)(2, 3), expected)
    same_kind(adc.value_and_grad(f, wrt=wrt)(2, y=3), (6.0, expected))
    value, pullback = adc.vjp(f, 2, 3, wrt=wrt)
    same_kind(value, 6.0)
    same_kind(pullback(1.0), expected if isinstance(expected, tuple) else (expected,))


def test_one_input_is_bare() -> None:
    square = interpreted("x * x")
    same_kind(adc.grad(square)(3), 6.0)
    same_kind(adc.grad(square, ("x",))(3), (6.0,))


@pytest.mark.parametrize("wrt", ["z", 2, -3, True, 1.0, ("x", "z"), ("x", 0)])
def test_wrt_that_names_no_parameter(wrt: Any) -> None:
    with pytest.raises(adc.Error) as caught:
        adc.grad(product, wrt)(2.0, 3.0)
    assert isinstance(caught.value, ValueError)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("value", "what"),
    [(np.array([1, 2]), "i64"), (np.int64(3), "i64"), (np.array([True, False]), "bool"), (True, "bool")],
)
def test_integers_and_bools_have_no_derivative(value: Any, what: str) -> None:
    f = interpreted("sum(x * y)")
    with pytest.raises(adc.DtypeError, match=f"x is {what}: there is no derivative"):
        adc.grad(f, "x")(value, PAIR)
    assert_array_equal(adc.grad(f)(value, PAIR), value * np.ones(2))  # bare: y alone is left


def test_a_python_int_is_a_float_unless_annotated() -> None:
    f = interpreted("def f(x, k: i64):\n    return x**k")
    assert adc.grad(f)(3, 2) == 6.0
    with pytest.raises(adc.DtypeError, match="k is i64"):
        adc.grad(f, "k")(3, 2)


def test_gradients_have_their_inputs_dtype_and_shape() -> None:
    f = interpreted("sum(x * y) * z")
    args = (PAIR.astype(np.float32).reshape(2, 1), np.ones((1, 2)), np.float32(2))
    for gradient, arg in zip(adc.grad(f)(*args), args, strict=True):
        assert (np.shape(gradient), gradient.dtype) == (np.shape(arg), arg.dtype)


def test_an_unused_input() -> None:
    """Zeros from grad, None from a pullback."""
    f = interpreted("def f(x, unused):\n    return sum(x)")
    unused = np.ones((2, 3), np.float32)
    same_kind(adc.grad(f)(PAIR, unused), (np.ones(2), np.zeros((2, 3), np.float32)))
    _, pullback = adc.vjp(f, PAIR, unused)
    gradient, none = pullback(1.0)
    assert_array_equal(gradient, np.ones(2))
    assert none is None
    assert pullback(None) == (None, None)


@pytest.mark.parametrize(
    ("source", "args", "kind", "message"),
    [
        ("x * y", (PAIR, 1.0), adc.ShapeError, "returns an array of shape"),
        ("x * y", (np.ones(1), 1.0), adc.ShapeError, "returns an array of shape"),
        ("x, y", (1.0, 2.0), adc.ShapeError, "has 2 results"),
        ("x > y", (1.0, 2.0), adc.DtypeError, "returns bool"),
        ("floor(x) * y", (np.int64(1), np.int64(2)), adc.DtypeError, "x is an integer"),
    ],
)
def test_the_gradient_of_what_is_no_real_scalar(
    source: str, args: tuple[Any, ...], kind: type[adc.Error], message: str
) -> None:
    for transform in (adc.grad, adc.value_and_grad):
        with pytest.raises(kind, match=message) as caught:
            transform(interpreted(source))(*args)
        remedy = caught.value.remedy or ""
        assert kind is adc.DtypeError or ("sum(" in remedy and "vjp" in remedy)


def test_cotangents_must_fit() -> None:
    _, pullback = adc.vjp(product, PAIR, 2.0)
    with pytest.raises(
        adc.ShapeError, match=r"the cotangent of r has shape \(3,\), but the result has \(2,\)"
    ):
        pullback(np.ones(3))
    with pytest.raises(adc.DtypeError, match="complex128"):
        pullback(1j * PAIR)


def test_pullback_without_float_results() -> None:
    value, pullback = adc.vjp(interpreted("x > 1"), 2.0)
    assert value is True
    assert pullback(None) == (None,)


def test_inputs_changed_after_forward() -> None:
    """The gradient is that of the call, or there is an error; never that of other values."""
    x = np.array([3.0])
    _, pullback = adc.vjp(interpreted("x * x"), x)
    x[0] = 100
    try:
        (gradient,) = pullback(np.ones(1))
    except adc.GraphError:
        return
    assert_array_equal(gradient, [6.0])


# ---- Buffers ----


@pytest.mark.parametrize("backend", BACKENDS)
class TestInto:
    def product(self, backend: str) -> adc.Function:
        return product if backend == "numpy" else COMPILED

    def test_returns_the_buffer(self, backend: str) -> None:
        buffer = np.empty(2)
        assert self.product(backend).into(buffer, PAIR, 2.0) is buffer
        assert_array_equal(buffer, 2 * PAIR)

    @pytest.mark.parametrize(
        "view",
        [np.s_[1:5], np.s_[::2], np.s_[::-1]],
        ids=["part", "strided", "reversed"],
    )
    def test_writes_through_views(self, view: Any, backend: str) -> None:
        base = np.zeros(6)
        buffer = base[view]
        self.product(backend).into(buffer, np.arange(len(buffer)), 2.0)
        assert_array_equal(base[view], 2.0 * np.arange(len(buffer)))

    def test_may_overlap_arguments(self, backend: str) -> None:
        x = np.arange(5.0)
        self.product(backend).into(x[1:], x[:-1], 2.0)
        assert_array_equal(x, [0, 0, 2, 4, 6])
        self.product(backend).into(x[::-1], x, 1.0)
        assert_array_equal(x, [6, 4, 2, 0, 0])

    def test_takes_rank_zero_and_nested_buffers(self, backend: str) -> None:
        f = adc.compile("def f(x):\n    return sum(x), (2 * x, x > 2)", backend=backend)
        buffers = (np.empty(()), (np.empty(2), np.empty(2, bool)))
        assert f.into(buffers, PAIR) is buffers
        same_kind(buffers, (np.array(5.0), (2 * PAIR, np.array([False, True]))))

    @pytest.mark.parametrize(
        "places",
        [(np.s_[0:2], np.s_[0:2]), (np.s_[0:2], np.s_[1:3]), (np.s_[0:2], np.s_[1::-1]),
         (np.s_[0:3:2], np.s_[1:3]), (np.s_[3:1:-1], np.s_[2:4])],
    )  # fmt: skip
    def test_buffers_share_no_memory(self, places: Any, backend: str) -> None:
        f = adc.compile("def f(x):\n    return 2 * x, 3 * x", backend=backend)
        base = np.zeros(6)
        with pytest.raises(adc.ShapeError, match="the buffers for r0 and r1 share memory") as caught:
            f.into(tuple(base[p] for p in places), PAIR)
        assert "each" in str(caught.value.remedy)
        assert_array_equal(base, 0)

    def test_buffers_may_interleave(self, backend: str) -> None:
        f = adc.compile("def f(x):\n    return 2 * x, 3 * x", backend=backend)
        base = np.zeros((2, 2))
        f.into((base[:, 0], base[:, 1]), PAIR)
        assert_array_equal(base, np.array([2 * PAIR, 3 * PAIR]).T)
        f.into((base[:, 1], base[:, 0]), base[:, 0])  # and be an argument
        assert_array_equal(base, np.array([6 * PAIR, 4 * PAIR]).T)

    @pytest.mark.parametrize("strides", [(0, 8), (0, 0), (8, 8), (-8, 8), (4, 16)])
    def test_elements_of_a_buffer_share_no_memory(self, strides: tuple[int, int], backend: str) -> None:
        buffer = as_strided(np.zeros(20)[8:], (2, 2), strides)
        f = adc.compile("x + 1", backend=backend)
        with pytest.raises(adc.ShapeError, match="share memory"):
            f.into(buffer, np.arange(4.0).reshape(2, 2))

    def test_buffers_that_are_not_aligned(self, backend: str) -> None:
        buffer = np.zeros(17, np.uint8)[1:].view(float)
        assert not buffer.flags.aligned
        assert_array_equal(self.product(backend).into(buffer, PAIR, 2.0), 2 * PAIR)

    def test_nothing_may_be_written_anywhere(self, backend: str) -> None:
        f = adc.compile("def f(x):\n    return 2 * x, 3 * x", backend=backend)
        empty = np.zeros(0)
        f.into((empty, empty[:]), empty)

    def test_results_that_are_arguments_or_stand_twice(self, backend: str) -> None:
        f = adc.compile("def f(x):\n    return x, 2 * x, x, 2 * x, 2 * x", backend=backend)
        x = np.arange(4.0)
        for found in (f.into(tuple(np.empty(4) for _ in range(5)), x), f(x)):
            for part in found:
                part += 1  # of this one only
            for part, factor in zip(found, (1, 2, 1, 2, 2), strict=True):
                assert_array_equal(part, factor * np.arange(4.0) + 1)
        assert_array_equal(x, np.arange(4.0))

    def test_of_a_gradient(self, backend: str) -> None:
        buffers = np.empty(()), np.empty(())
        adc.grad(self.product(backend)).into(buffers, 2.0, 3.0)
        assert buffers == (3.0, 2.0)

    @pytest.mark.parametrize(
        ("buffer", "kind", "message"),
        [
            (np.empty(3), adc.ShapeError, r"has shape \(3,\)"),
            (np.empty((2, 1)), adc.ShapeError, r"has shape \(2, 1\)"),
            (np.empty(2, np.float32), adc.DtypeError, "has dtype float32"),
            (np.empty(2, ">f8"), adc.DtypeError, "has dtype >f8"),
            (np.broadcast_to(0.0, 2), adc.DtypeError, "must be a writable NumPy array"),
            (np.ma.array([0.0, 0.0], mask=[True, False]), adc.DtypeError, "is masked"),
            ([0.0, 0.0], adc.DtypeError, "must be a writable NumPy array"),
            (None, adc.DtypeError, "must be a writable NumPy array"),
        ],
    )
    def test_buffers_that_do_not_fit(
        self, buffer: Any, kind: type[adc.Error], message: str, backend: str
    ) -> None:
        with pytest.raises(kind, match=message) as caught:
            self.product(backend).into(buffer, PAIR, 2.0)
        assert caught.value.remedy


# ---- Sources ----


def test_name_chooses_a_def() -> None:
    source = "def one(x):\n    return x\n\ndef two(x):\n    return 2 * one(x)"
    assert interpreted(source)(3) == 6  # the last one
    assert interpreted(source, name="one")(3) == 3
    assert interpreted("x + 1", name="successor").__name__ == "successor"


def test_several_definitions_are_the_last_one_that_no_other_one_calls():
    helper, main = "def h(x):\n    return x * 2\n", "def f(x):\n    return h(x) + 1\n"
    for source in (helper + main, main + helper):
        assert interpreted(source)(3) == 7
        assert interpreted(source, name="h")(3) == 6
    assert interpreted("def f(x):\n    h = x + 1\n    return h\n" + helper)(3) == 6  # a name of its own
    with pytest.raises(adc.ParseError, match="which definition is meant") as caught:
        interpreted("def f(x):\n    return h(x)\ndef h(x):\n    return f(x) if x > 0 else x\n")
    assert 'compile(..., name="h")' in caught.value.remedy


@pytest.mark.parametrize(
    "source", ["def one(x):\n    return x", "def one(x):\n    return x\ndef two(x):\n    return x"]
)
def test_name_that_is_not_there(source: str) -> None:
    with pytest.raises(adc.ParseError, match="no definition 'three'"):
        interpreted(source, name="three")


@pytest.mark.parametrize(
    ("args", "call", "expected"),
    [
        (None, (5, 3), 2),  # in order of first appearance
        ("y x", (5, 3), -2),
        ("y, x", (5, 3), -2),
        (["y", "x"], (5, 3), -2),
        (("z", "x", "y"), (0, 5, 3), 2),
    ],
)
def test_args_names_the_parameters_of_an_expression(args: Any, call: tuple[int, ...], expected: int) -> None:
    assert interpreted("x - y", args=args)(*call) == expected


@pytest.mark.parametrize(
    "text",
    [
        "x.astype(float)",
        "x.astype(np.float32)",
        "zeros(3, float) + x",
        "np.full(3, x[0], float)",
        "array([x, x], dtype=float)",
        "zeros_like(x, float) + x",
        "arange(3, dtype=float) * x",
        "x * linspace(0, 1, 3).astype(float32)",
    ],
)
def test_types_in_an_expression_are_no_variables(text: str) -> None:
    assert [*interpreted(text)._names] == ["x"]
    interpreted(text, args="x")(np.ones(3))


def test_args_may_be_names_of_constants() -> None:
    assert interpreted("pi * e")() == np.pi * np.e
    assert interpreted("pi * e", args="e")(2) == 2 * np.pi


@pytest.mark.parametrize("args", [["1x"], [1], "x x"])
def test_args_that_are_no_names(args: Any) -> None:
    with pytest.raises(adc.ParseError):
        interpreted("x", args=args)


def test_args_of_a_def_may_only_repeat_it() -> None:
    with pytest.raises(adc.ParseError, match="args names y, x, but f takes x, y"):
        interpreted("def f(x, y):\n    return x", args="y x")


def test_static_parameters_have_a_program_for_each_value() -> None:
    f = interpreted("def f(x, n):\n    return x**n if n > 2 else x", static="n")
    assert (f(2, 3), f(2, n=2), adc.grad(f)(2, 3)) == (8, 2, 12)
    with pytest.raises(adc.DtypeError, match="n is static"):
        adc.grad(f, "n")(2, 3)
    with pytest.raises(adc.DtypeError, match="cannot be hashed"):
        f(2, [3])
    with pytest.raises(adc.DtypeError, match="is a object, which is not supported"):
        f(2, object())
    with pytest.raises(adc.Error, match="static names 'm', which f does not take"):
        interpreted("def f(x):\n    return x", static=("m",))


def test_static_values_that_are_equal_are_told_apart() -> None:
    """A program for 0.0 is none for -0.0, and a length of 2.0 is none, whatever was called before."""
    f = interpreted("def f(x, k):\n    return x / k", static="k")
    assert [f(3.0, k) for k in (0.0, -0.0, 2, np.int64(2), True)] == [np.inf, -np.inf, 1.5, 1.5, 3.0]
    g = interpreted("def g(x, k):\n    return zeros(k) + x", static="k")
    assert [len(g(3.0, k)) for k in (2, np.int32(3))] == [2, 3]
    for wrong in (2.0, True):
        with pytest.raises(adc.Error, match="a length must be"):
            g(3.0, wrong)


@pytest.mark.parametrize("option", [{"backend": "gpu"}, {"broadcasting": "loose"}])
def test_unknown_options(option: dict[str, str]) -> None:
    with pytest.raises(adc.Error, match="unknown") as caught:
        adc.compile("x", **option)
    assert "use" in (caught.value.remedy or "")


def test_load(tmp_path: Path) -> None:
    file = tmp_path / "shapes.adc"
    file.write_text('scale = 2.0\n\ndef area(w, h):\n    "The area."\n    return scale * w * h\n')
    module = adc.load(file, backend="numpy")
    assert module.area(2, 3) == 12
    assert module.scale == 2.0
    assert module.area.__doc__ == "The area."


def test_errors_of_a_file_name_it(tmp_path: Path) -> None:
    file = tmp_path / "shapes.adc"
    file.write_text("def area(w, h):\n    return w * hight\n")
    with pytest.raises(adc.ParseError, match=r"shapes\.adc:2:16: unknown name 'hight'"):
        adc.load(file, backend="numpy").area(2, 3)
    with pytest.raises(FileNotFoundError):
        adc.load(tmp_path / "missing.adc")


# ---- Decorated functions ----

SCALE = 2.5
e = 5.0  # a module's name goes before the language's constant


@adc.function(backend="numpy")
def scaled(x):
    """Scales."""
    return SCALE * x


@adc.function(backend="numpy", static=("n",))
def powered(x: f64[k], n):  # noqa: F821
    return scaled(np.sum(x**n)) + e


def test_a_decorated_function_captures_its_module() -> None:
    assert scaled(2) == 5
    assert powered(PAIR, 2) == 2.5 * 13 + 5
    assert_array_equal(adc.grad(powered)(PAIR, n=2), 5 * PAIR)
    assert (scaled.__name__, scaled.__module__, scaled.__doc__) == ("scaled", __name__, "Scales.")


def test_closures_are_captured_one_by_one() -> None:
    def times(k: float) -> adc.Function:
        @adc.function(backend="numpy")
        def inner(x):
            return k * scaled(x)

        return inner

    double, triple = times(2), times(3)
    assert (double(2), triple(2)) == (10, 15)


def test_numbers_are_captured_when_decorated() -> None:
    k = 2

    @adc.function(backend="numpy")
    def doubled(x):
        return k * x

    k = 3
    assert doubled(1) == 2


@pytest.mark.parametrize("k", [2, 2.0, np.float64(2), np.float32(2), np.int64(2), np.int8(2)], ids=repr)
def test_numpy_numbers_are_captured(k: Any) -> None:
    @adc.function(backend="numpy")
    def doubled(x):
        return k * x

    assert doubled(1) == 2


def test_what_cannot_be_captured_is_named() -> None:
    table = np.ones(3, complex)

    with pytest.raises(adc.ParseError, match="table") as caught:

        @adc.function(backend="numpy")
        def looked_up(x):
            return x * table

    assert caught.value.remedy == "make table a parameter"


def here() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_errors_stand_in_their_own_file() -> None:
    line = here()

    @adc.function(backend="numpy")
    def added(x, y):
        # The place is that of the sum.
        return 2 * (x + y)

    with pytest.raises(adc.ShapeError, match=r"test_function\.py") as caught:
        added(np.ones(2), np.ones(3))
    assert (caught.value.line, caught.value.column) == (line + 5, 20)

    with pytest.raises(adc.ParseError, match=r"'lambda' is not part of the language") as parsed:

        @adc.function
        def made(x):
            return lambda y: x

    assert (parsed.value.line, parsed.value.column) == (line + 15, 20)


def test_a_function_without_source() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(x): return x", namespace)
    with pytest.raises(adc.Error, match="the source of f cannot be read") as caught:
        adc.function(namespace["f"])
    assert "adc.compile" in (caught.value.remedy or "")
    with pytest.raises(adc.Error, match="cannot compile a builtin"):
        adc.function(print)


# ---- Threads ----


def test_many_threads_call_a_function_while_it_compiles() -> None:
    f = adc.compile("sum(x * x) + y")
    gradient = adc.grad(f)
    ready = threading.Barrier(8)
    found: list[Any] = []

    def work() -> None:
        ready.wait()
        found.append((f(PAIR, 1.0), *gradient(PAIR, 1.0)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for value, dx, dy in found:
        assert (value, dy) == (14, 1)
        assert_array_equal(dx, 2 * PAIR)


# ---- Names ----

WORDS = ["lambda", "import", "class", "async", "None_", "yield", "match", "type"]
GENERATED = ["np", "math", "njit", "prange", "range", "uint64", "run", "block", "blocks0", "rows0", "nest0"]
GENERATED += ["start", "stop", "v0", "i0", "n", "part0", "reduce_add", "jit", "min", "max", "abs", "_", "__"]
BUILTINS = ["exp", "sum", "sqrt", "where", "len", "print", "int", "out", "i", "self", "r", "t0", "da", "dr"]
UNICODE = ["θ", "Δx", "naïve", "变量", "x_1", "ªb"]
HOSTILE = WORDS + GENERATED + BUILTINS + UNICODE


@pytest.mark.parametrize("backend", BACKENDS)
def test_any_name_may_be_a_parameter(backend: str) -> None:
    terms = " + ".join(f"{k} * {name} ** 2" for k, name in enumerate(HOSTILE, 1))
    f = adc.compile(f"def f({', '.join(HOSTILE)}):\n    return sum({terms})", backend=backend)
    numbers = range(1, len(HOSTILE) + 1)
    args = [np.full(2, 1.0 * k) if k % 6 == 0 else 1.0 * k for k in numbers]
    value, pullback = adc.vjp(f, *args)
    assert value == f(*args) == sum(2 * k**3 for k in numbers)
    for k, gradient in zip(numbers, pullback(1.0), strict=True):
        assert_array_equal(np.sum(gradient), 4 * k**2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_any_name_may_be_a_variable_a_def_or_a_size(backend: str) -> None:
    names = [name for name in HOSTILE if name not in ("sum", "exp")]
    lines = [f"    {name} = {before} * 2" for before, name in zip(["x", *names], names, strict=False)]
    source = "\n".join(["def f(x):", *lines, f"    return sum({names[-1]})"])
    assert adc.compile(source, backend=backend)(np.ones(2)) == 2.0 ** (len(names) + 1)
    for name in ("lambda", "run", "exp"):
        f = adc.compile(
            f"def {name}(u):\n    return 3 * u\n\ndef g(x):\n    return {name}(x)", backend=backend
        )
        assert_array_equal(f(PAIR), 3 * PAIR)
        f = adc.compile(f"def g(x: f64[{name}]):\n    return x / {name}", backend=backend)
        assert_array_equal(f(PAIR), PAIR / 2)


def test_a_builtin_that_is_a_variable_can_still_be_called() -> None:
    f = interpreted("sum(exp * sum) + exp(exp)")
    assert f(2.0, PAIR) == 10 + np.exp(2.0)


def test_names_that_unicode_calls_the_same_are_one() -> None:
    assert interpreted("ﬁ + fi")(2) == 4  # NFKC, as in Python


def test_no_name_reaches_python() -> None:
    for source in ("__import__('os')", "eval('1')", "open('f')", "x.__class__", "print(x)"):
        with pytest.raises(adc.ParseError):
            interpreted(source)(*[1.0] * source.count("x"))


def test_what_functions_return_says_what_it_is():
    """Objects that a user prints: their functions and parameters, and no address."""
    f = adc.compile("a * sin(b)", args="a, b")
    square = adc.compile("sum(x**2)", args="x")
    shown = {
        f.split(): "<SplitFunction split(f): forward(a, b) -> (results, saved), "
        "propagate(saved, cotangents) -> gradients by a, b>",
        f.split("b"): "gradients by b>",
        f.split((1, 0)): "gradients by b, a>",
        adc.nlp(square, [square], wrt=("x",)): "<NonlinearProgram: minimise f subject to f, over x>",
    }
    for value, text in shown.items():
        assert text in repr(value)
        assert "0x" not in repr(value)
