"""The text form: every program prints, and reads back as the very same nodes."""

from __future__ import annotations

import time
from random import Random
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adcompiler.errors import LimitError, ParseError
from adcompiler.ir.nodes import (
    REDUCERS,
    Accumulate,
    Apply,
    Const,
    Func,
    Index,
    Input,
    Map,
    Read,
    Reduce,
    Size,
    const,
    select,
)
from adcompiler.ir.notation import BOOLEAN, apply_dtype
from adcompiler.ir.read import parse_func
from adcompiler.ir.text import arrays_in, show
from adcompiler.ir.types import DTYPES
from adcompiler.ir.verify import verify
from adcompiler.ir.walk import postorder
from adcompiler.ops.build import apply, cast, result_dtype
from adcompiler.ops.table import TABLE

I, J, K = Index(0), Index(1), Index(2)
N, M = Size(0), Size(1)
THREE = const(3, "i64")


def f64(value):
    return const(value, "f64")


def program(*results, names=None, **more):
    """A program of named results; its inputs are those that they read, `x0`, `x1`, ..."""
    arrays = [a for a in postorder(results, arrays_in) if isinstance(a, Input)]
    inputs = tuple(sorted(arrays, key=lambda a: a.position))
    names = names or tuple(f"r{k}" for k in range(len(results)))
    return Func("f", inputs, tuple(f"x{a.position}" for a in inputs), results, names, **more)


def round_trip(func):
    """Print, read back, compare; returns the text."""
    text = show(func)
    back = parse_func(text)
    assert back.results == func.results  # nodes are equal only if they are the same object
    assert back.inputs == func.inputs
    assert (back.name, back.input_names, back.result_names) == (
        func.name,
        func.input_names,
        func.result_names,
    )
    assert back.size_names[: len(func.size_names)] == func.size_names
    assert show(back) == text
    return text


def body(element):
    """How the body of a program of one array prints, on lines of its own."""
    text = round_trip(program(Map((N, N), element), size_names=("n",)))
    return dedent(text.partition("{")[2].partition("{")[2].removesuffix("\n}").rstrip(" }\n")).strip()


def test_the_program_of_the_notebook():
    a, b = Input(0, "f64", (N,)), Input(1, "f64", (N,))
    t = Map((N,), apply("add", Read(a, (I,)), Read(b, (I,))))
    r = Map((N,), apply("multiply", Read(t, (I,)), Read(b, (I,))))
    func = Func("simple.forward", (a, b), ("a", "b"), (r, t), ("r", "t"), ("n",))
    assert round_trip(func) == dedent("""\
        func @simple.forward(%a: f64[n], %b: f64[n]) -> (%r: f64[n], %t: f64[n]) {
          %t = array (i < n) { %a[i] + %b[i] }
          %r = array (i < n) { %t[i] * %b[i] }
        }""")


def test_what_is_used_twice_has_a_line_and_a_name():
    x = Input(0, "f64", (N, THREE))
    d = apply("subtract", Read(x, (I, K)), Read(x, (J, K)))
    s = Reduce("sum", (N,), (N, THREE), apply("multiply", d, d))
    func = program(s, names=("s",), size_names=("n",))
    assert round_trip(func.with_(names={d: "d"})) == dedent("""\
        func @f(%x0: f64[n, 3]) -> (%s: f64[n]) {
          %s = reduce sum (i < n | j < n, k < 3) {
            d = %x0[i, k] - %x0[j, k]
            d * d
          }
        }""")
    assert "u0 = %x0[i, k] - %x0[j, k]\n    u0 * u0" in round_trip(func)


def test_names_of_variables_are_read_back():
    x = Input(0, "f64", (N,))
    t = Map((N,), apply("exp", Read(x, (I,))))
    square = apply("square", Read(t, (I,)))
    r = Map((N,), apply("add", square, square))
    back = parse_func(show(program(r, names=("r",), size_names=("n",)).with_(names={t: "t", square: "q"})))
    assert back.names == {x: "x0", t: "t", r: "r", square: "q"}


def test_gather_and_accumulate_are_duals():
    idx, w, x = Input(0, "i64", (M,)), Input(1, "f64", (M,)), Input(2, "f64", (N,))
    gather = Map((M,), Read(x, (Read(idx, (I,)),)))
    scatter = Accumulate((N,), (M,), (Read(idx, (I,)),), apply("multiply", Read(w, (I,)), f64(2.0)))
    func = Func("f", (idx, w, x), ("idx", "w", "x"), (gather, scatter), ("y", "g"), ("n", "m"))
    assert round_trip(func) == dedent("""\
        func @f<n, m>(%idx: i64[m], %w: f64[m], %x: f64[n]) -> (%y: f64[m], %g: f64[n]) {
          %y = array (i < m) { %x[%idx[i]] }
          %g = accumulate [n] (i < m) { [%idx[i]] += %w[i] * 2.0 }
        }""")


def test_a_triangle_is_a_select():
    x = Read(Input(0, "f64", (N, N)), (I, J))
    assert body(select(apply("less", J, I), x, f64(0))) == "select(j < i, %x0[i, j], 0.0)"


def test_arrays_of_rank_0_have_no_brackets():
    x = Input(0, "f32", ())
    text = round_trip(program(Map((), select(apply("greater", Read(x, ()), const(0, "f32")), Read(x, ()),
                                             const(0.1, "f32")))))  # fmt: skip
    assert text == dedent("""\
        func @f(%x0: f32) -> (%r0: f32) {
          %r0 = array () { select(%x0 > 0.0f, %x0, 0.1f) }
        }""")


def test_a_reduce_over_everything_and_a_loop_without_axes():
    x = Input(0, "f64", (N,))
    text = round_trip(program(Reduce("max", (), (N,), Read(x, (I,))), Accumulate((), (), (), Read(x, (N,)))))
    assert "%r0 = reduce max (| i < n) { %x0[i] }" in text
    assert "%r1 = accumulate [] () { [] += %x0[n] }" in text


def test_bool_and_axes_of_size_1():
    x = Input(0, "bool", (const(1, "i64"), N))
    text = round_trip(program(Map((N,), apply("logical_not", Read(x, (const(0, "i64"), I))))))
    assert "(%x0: bool[1, n]) -> (%r0: bool[n])" in text
    assert "{ not %x0[0, i] }" in text


A, B, C = (Read(Input(k, "f64", (N,)), (I,)) for k in range(3))
P, Q = apply("less", A, B), apply("less", B, C)
TWO = f64(2)
INFIX = {
    "%x0[i] + %x1[i] * %x2[i]": apply("add", A, apply("multiply", B, C)),
    "(%x0[i] + %x1[i]) * %x2[i]": apply("multiply", apply("add", A, B), C),
    "%x0[i] - %x1[i] - %x2[i]": apply("subtract", apply("subtract", A, B), C),
    "%x0[i] - (%x1[i] - %x2[i])": apply("subtract", A, apply("subtract", B, C)),
    "%x0[i] / (%x1[i] / %x2[i])": apply("divide", A, apply("divide", B, C)),
    "%x0[i] ** %x1[i] ** %x2[i]": apply("power", A, apply("power", B, C)),
    "(%x0[i] ** %x1[i]) ** %x2[i]": apply("power", apply("power", A, B), C),
    "-%x0[i] ** %x1[i]": apply("negative", apply("power", A, B)),
    "(-%x0[i]) ** -%x1[i]": apply("power", apply("negative", A), apply("negative", B)),
    "-(%x0[i] * %x1[i])": apply("negative", apply("multiply", A, B)),
    "-%x0[i] * %x1[i]": apply("multiply", apply("negative", A), B),
    "--%x0[i]": apply("negative", apply("negative", A)),
    "%x0[i] - -%x1[i]": apply("subtract", A, apply("negative", B)),
    "%x0[i] - -2.0": apply("subtract", A, f64(-2)),
    "-(2.0) + %x0[i]": apply("add", apply("negative", TWO), A),
    "--2.0 + %x0[i]": apply("add", apply("negative", f64(-2)), A),
    "-(2.0 ** %x0[i])": apply("negative", apply("power", TWO, A)),
    "(-2.0) ** %x0[i]": apply("power", f64(-2), A),
    "%x0[i] < %x1[i] and not %x1[i] < %x2[i]": apply("logical_and", P, apply("logical_not", Q)),
    "(%x0[i] < %x1[i] or %x1[i] < %x2[i]) and true": apply(
        "logical_and", apply("logical_or", P, Q), const(True, "bool")
    ),
    "(%x0[i] < %x1[i]) == (%x1[i] < %x2[i])": apply("equal", P, Q),
    "f32(%x0[i]) + 1.0f": apply("add", cast(A, "f32"), const(1, "f32")),
    "i64(%x0[i]) + 1": apply("add", cast(A, "i64"), const(1, "i64")),
    "bool(%x0[i])": cast(A, "bool"),
    "clip(%x0[i], %x1[i], 2.0)": apply("clip", A, B, TWO),
    "%x0[(i + 1) * 2 - n]": Read(
        A.array, (apply("subtract", apply("multiply", apply("add", I, const(1, "i64")), const(2, "i64")), N),)
    ),
}


@pytest.mark.parametrize("text", INFIX)
def test_operators_take_as_few_parentheses_as_in_python(text):
    inputs = ", ".join(f"%x{k}: f64[n]" for k in range(3))
    result = Map((N,), INFIX[text])
    func = parse_func(
        f"func @f({inputs}) -> (%r: {result.dtype}[n]) {{\n  %r = array (i < n) {{ {text} }}\n}}"
    )
    assert func.results == (result,)
    assert f"{{ {text} }}" in round_trip(func)


def test_a_sign_belongs_to_the_number_that_it_touches():
    def read(text):
        return parse_func(f"func @f(%x: f64) -> (%r: f64) {{ %r = array () {{ {text} }} }}").results[0].body

    x = Read(Input(0, "f64", ()), ())
    assert read("-2.0") is f64(-2)
    assert read("-(2.0)") is read("- 2.0") is apply("negative", TWO)
    assert read("%x-2.0") is read("%x - 2.0") is apply("subtract", x, TWO)
    assert read("-inf") is f64("-inf")


CONSTANTS = {
    "2.0": f64(2),
    "-0.0": f64(-0.0),
    "1e-05": f64(1e-5),
    "0.1": f64(0.1),
    "1e+300": f64(1e300),
    "inf": f64("inf"),
    "-inf": f64("-inf"),
    "nan": f64("nan"),
    "nan:0xfff8000000000000": Const("f64", bytes(6) + b"\xf8\xff"),
    "nan:0x7ff0000000000001": Const("f64", b"\1" + bytes(5) + b"\xf0\x7f"),
    "0.1f": const(0.1, "f32"),
    "-0.0f": const(-0.0, "f32"),
    "1e-45f": const(1e-45, "f32"),
    "inff": const(float("inf"), "f32"),
    "nanf": const(float("nan"), "f32"),
    "nanf:0xff800001": Const("f32", b"\1\0\x80\xff"),
    "2": const(2, "i64"),
    "-9223372036854775808": const(-(2**63), "i64"),
    "true": const(True, "bool"),
    "false": const(False, "bool"),
}


@pytest.mark.parametrize("text", CONSTANTS)
def test_constants_keep_type_and_bits(text):
    assert f"array () {{ {text} }}" in round_trip(program(Map((), CONSTANTS[text])))


@given(st.binary(min_size=8, max_size=8), st.sampled_from(["i64", "f32", "f64"]))
def test_any_bits_are_read_back(bits, dtype):
    round_trip(program(Map((), Const(dtype, bits[:4] if dtype == "f32" else bits))))


def test_the_text_knows_the_type_of_every_primitive():
    for op, entry in TABLE.items():
        dtype = {"logical": "bool", "integer": "i64"}.get(entry.kind, "f64")
        operand, result = result_dtype(op, (dtype,) * len(entry.params))
        assert apply_dtype(op, (Read(Input(0, operand, ()), ()),)) == result, op
    assert {op for op, entry in TABLE.items() if entry.kind in ("bool", "logical")} == BOOLEAN


def test_a_type_that_does_not_follow_is_said():
    odd = Apply("add", (A, B), "f32")
    assert body(odd) == "add.f32(%x0[i], %x1[i])"


def test_deep_elements_go_on_several_lines():
    x = Read(Input(0, "f64", (N, N)), (I, J))
    deep = x
    for op in ("exp", "sin", "cos", "tan", "sinh", "cosh"):
        deep = apply(op, deep)
    assert body(deep) == "u0 = tan(cos(sin(exp(%x0[i, j]))))\ncosh(sinh(u0))"


def test_a_plain_read_has_no_line_but_a_gather_has():
    x, idx = Input(0, "f64", (N,)), Input(1, "i64", (N,))
    plain, gather = Read(x, (I,)), Read(x, (Read(idx, (I,)),))
    func = program(Map((N,), apply("multiply", plain, plain)), Map((N,), apply("multiply", gather, gather)))
    text = round_trip(func)
    assert "{ %x0[i] * %x0[i] }" in text
    assert "u0 = %x0[%x1[i]]\n    u0 * u0" in text


def test_results_may_be_inputs_or_share_a_node_or_an_inputs_name():
    x = Input(0, "f64", (N,))
    r = Map((N,), apply("exp", Read(x, (I,))))
    func = Func("f", (x,), ("x",), (r, r, x), ("x", "b", "c"), ("n",))
    assert round_trip(func) == dedent("""\
        func @f(%x: f64[n]) -> (x = %x_1: f64[n], b = %x_1: f64[n], c = %x: f64[n]) {
          %x_1 = array (i < n) { exp(%x[i]) }
        }""")


def test_sizes_win_over_axes_and_variables():
    x = Input(0, "f64", (N, M))
    double = apply("add", Read(x, (I, J)), Read(x, (I, J)))
    func = program(Map((N, M), apply("multiply", double, double)), size_names=("i", "j"))
    assert round_trip(func.with_(names={double: "i1"})) == dedent("""\
        func @f(%x0: f64[i, j]) -> (%r0: f64[i, j]) {
          %r0 = array (i0 < i, i1 < j) {
            i1_1 = %x0[i0, i1] + %x0[i0, i1]
            i1_1 * i1_1
          }
        }""")


def test_sizes_are_listed_where_the_inputs_do_not_tell_their_numbers():
    x, y = Input(0, "f64", (M,)), Input(1, "f64", (N,))
    result = Map((Size(2),), apply("add", Read(x, (I,)), Read(y, (I,))))
    assert round_trip(program(result)).startswith("func @f<n, m, k>(%x0: f64[m], %x1: f64[n]) -> ")
    assert round_trip(program(result, size_names=("a", "b", "c"))).startswith("func @f<a, b, c>(")
    assert "(i < a, j < b)" in round_trip(program(Map((N, M), TWO), size_names=("a", "b")))


def test_a_length_may_be_computed():
    count = Input(0, "i64", ())
    twice = Map((), apply("multiply", Read(count, ()), const(2, "i64")))
    length = apply("add", Read(twice, ()), const(1, "i64"))
    assert round_trip(program(Map((length, N), f64(0)))) == dedent("""\
        func @f<n>(%x0: i64) -> (%r0: f64[?, ?]) {
          %0 = array () { %x0 * 2 }
          %r0 = array (i < %0 + 1, j < n) { 0.0 }
        }""")


@pytest.mark.parametrize("name", ["select", "not", "inf", "a b", "é", "0", "", "x.y", 'say "x"', "i", "\\"])
def test_any_name_is_read_back(name):
    x = Input(0, "f64", (N,))
    square = apply("square", Read(x, (I,)))
    result = Map((N,), apply("add", square, square))
    func = Func(name, (x,), (name,), (result, result), (name, f"{name}2"), (name,), {square: name})
    round_trip(func)


def test_the_mask_belongs_to_the_name_of_the_program():
    text = "func @simple.propagate[1-|11]<m>(%b: f64[3]) -> (r = %b: f64[3]) {\n}"
    assert parse_func(text).name == "simple.propagate[1-|11]"
    assert show(parse_func(text)) == text


def test_comments_and_blank_lines_are_skipped():
    func = parse_func(
        """
        # the only program here
        func @f(%x: f64[n],
                %y: f64[n]) -> (%r: f64[n]) {

          %r = array (i < n) {
            d = %x[i] -
                %y[i]  # a line does not end inside of brackets, but it does here
            d * d
          }
        }
    """.replace("-\n                ", "- ")
    )
    assert show(func).count("\n") == 5


ERRORS = {
    "func @f() -> (%r: f64) {\n}": (1, 15, "%r is not defined here"),
    "func @f(%x: f65) -> () {\n}": (1, 13, "'f65' is not a type"),
    "func @f(%x: f64, %x: f64) -> () {\n}": (1, 18, "%x is defined twice"),
    "func @f(%x: f64[n]) -> (%x: f64[3]) {\n}": (1, 29, "not the type of the array"),
    "func @f() -> () {\n  %r = array () { i }\n}": (2, 19, "'i' is not defined here"),
    "func @f() -> () {\n  %r = array () { 1 < 2 < 3 }\n}": (2, 25, "do not chain"),
    "func @f() -> () {\n  %r = array () { 1 + not true }\n}": (2, 23, "'not' needs parentheses"),
    "func @f() -> () {\n  %r = array () { select(true, 1) }\n}": (2, 19, "a guard and two branches"),
    "func @f() -> () {\n  %r = array () { exp() }\n}": (2, 19, "does not say its type"),
    "func @f() -> () {\n  %r = scan () { 1 }\n}": (2, 8, "expected array, reduce or accumulate"),
    "func @f() -> () {\n  %r = array () { 1 $ }\n}": (2, 21, "expected '}'"),
    "func @f() -> () {\n  %r = array () { 1": (2, 20, "expected '}'"),
    "func @f() ->": (1, 13, "expected '{'"),
    "func @f(": (1, 9, "expected a token of kind array"),
    "func @f() -> () {\n} }": (2, 3, "expected a token of kind end"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_point_at_the_text(text):
    line, column, message = ERRORS[text]
    with pytest.raises(ParseError) as caught:
        parse_func(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_text_that_nests_too_deep_is_refused():
    nested = "(" * 1000 + "1" + ")" * 1000
    with pytest.raises(LimitError, match="nests deeper"):
        parse_func(f"func @f() -> (%r: i64) {{ %r = array () {{ {nested} }} }}")


def test_the_text_of_a_long_sum_is_short_and_fast():
    x = Input(0, "f64", (N, N))
    total = Read(x, (I, J))
    for k in range(5000):
        total = apply("add", apply("multiply", Read(x, (I, const(k, "i64"))), f64(k + 0.5)), total)
    start = time.perf_counter()
    text = round_trip(program(Map((N, N), total), size_names=("n",)))
    assert time.perf_counter() - start < 4  # printed twice, read once
    assert len(text) < 5000 * 50


def test_the_text_of_shared_elements_is_as_long_as_the_program():
    idx = Input(0, "i64", (N,))
    arithmetic = gather = Read(idx, (I,))
    for _ in range(200):
        arithmetic = apply("add", arithmetic, arithmetic)
        gather = Read(idx, (apply("add", gather, gather),))
    text = round_trip(program(Map((N,), arithmetic), Map((N,), gather), size_names=("n",)))
    assert len(text) < 200 * 80


def test_a_chain_of_arrays_does_not_recurse():
    array = Input(0, "f64", (N,))
    for _ in range(3000):
        array = Map((N,), apply("exp", Read(array, (I,))))
    round_trip(program(array, size_names=("n",)))


NAMES = ["d", "t", "x0", "n", "i", "select", "a b", "r0", "u", "k_1"]
OPS = {entry.kind: [op for op, e in TABLE.items() if e.kind == entry.kind] for entry in TABLE.values()}


class Builder:
    """A random program that keeps the invariants."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.pick = self.random.choice
        self.arrays = []
        self.names = {}

    def lengths(self, least, most):
        counts = [Read(a, ()) for a in self.arrays if a.dtype == "i64" and not a.rank]
        known = [N, M, Size(2), THREE, const(1, "i64"), apply("add", N, M), *counts]
        return tuple(self.pick(known) for _ in range(self.random.randint(least, most)))

    def leaf(self, axes):
        bits = self.random.randbytes(8)
        constants = [
            Const("f64", bits),
            Const("f32", bits[:4]),
            Const("i64", bits),
            const(bits[0] % 2, "bool"),
        ]
        return self.pick([self.pick(constants), f64(bits[0] - 128), N, M, *map(Index, range(axes))])

    def of_dtype(self, pool, dtypes):
        """One of the pool, the later the likelier, or a constant."""
        found = [e for e in pool if e.dtype in dtypes]
        return self.pick(found[-3:]) if found else const(1, dtypes[0])

    def grow(self, pool, axes):
        """One more element, made of those in the pool."""
        kind = self.pick(["leaf", "read", "read", "select", "cast", *OPS])
        if kind == "leaf" or (kind == "read" and not self.arrays):
            return self.leaf(axes)
        if kind == "read":
            array = self.pick(self.arrays)
            return Read(array, tuple(self.of_dtype(pool, ["i64"]) for _ in array.shape))
        if kind == "select":
            then = self.pick(pool)
            return select(self.of_dtype(pool, ["bool"]), then, self.of_dtype(pool, [then.dtype]))
        if kind == "cast":
            return Apply(dtype := self.pick(DTYPES), (self.pick(pool),), dtype)
        op = self.pick(OPS[kind])
        takes = {"logical": "bool", "integer": "i64"}.get(kind) or self.pick(["f64", "f32", "i64"])
        operand, result = result_dtype(op, (takes,))
        return Apply(op, tuple(self.of_dtype(pool, [operand]) for _ in TABLE[op].params), result)

    def elements(self, axes):
        pool = [self.leaf(axes) for _ in range(3)]
        for _ in range(self.random.randint(0, 40)):
            pool.append(self.grow(pool, axes))
            if self.random.random() < 0.5:
                self.names[pool[-1]] = self.pick(NAMES)
        return pool

    def array(self):
        shape, domain = self.lengths(0, 3), self.lengths(1, 3)
        numbers = ["f64", "f32", "i64"]
        kind = self.pick(["array", "reduce", "accumulate"])
        if kind == "array":
            return Map(shape, self.elements(len(shape))[-1])
        if kind == "reduce":
            pool = self.elements(len(shape) + len(domain))
            return Reduce(self.pick(REDUCERS), shape, domain, self.of_dtype(pool, numbers))
        pool = self.elements(len(domain))
        indices = tuple(self.of_dtype(pool, ["i64"]) for _ in shape)
        return Accumulate(shape, domain, indices, self.of_dtype(pool, numbers))

    def program(self):
        for position in range(self.random.randint(0, 4)):
            self.arrays.append(Input(position, self.pick(DTYPES), self.lengths(0, 2)))
        inputs = tuple(self.arrays)
        for _ in range(self.random.randint(1, 5)):
            self.arrays.append(self.array())
            if self.random.random() < 0.5:
                self.names[self.arrays[-1]] = self.pick(NAMES)
        results = (self.arrays[-1], *self.random.choices(self.arrays, k=self.random.randint(0, 2)))
        input_names = tuple(f"x{k}" for k in range(len(inputs)))
        result_names = tuple(f"r{k}" for k in range(len(results)))
        sizes = self.pick([("n", "m", "k"), ("i", "j", "u0"), ("select", "a b", "d")])
        return Func("f", inputs, input_names, results, result_names, sizes, self.names)


@given(st.integers(0, 2**32))
def test_random_programs_are_read_back(seed):
    func = Builder(seed).program()
    verify(func, TABLE)
    verify(parse_func(round_trip(func)), TABLE)
