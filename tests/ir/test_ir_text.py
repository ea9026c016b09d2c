"""The text form: every program prints, and reads back as the very same nodes."""

from __future__ import annotations

import time
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs.ir import random_func

from adcompiler.ir.nodes import (
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
from adcompiler.ir.textform.notation import BOOLEAN, apply_dtype
from adcompiler.ir.textform.printer import show
from adcompiler.ir.textform.reader import parse_func
from adcompiler.ir.textform.verify import verify
from adcompiler.ir.walk import arrays_read, postorder
from adcompiler.ops.build import apply, cast, result_dtype
from adcompiler.ops.table import TABLE

i, j, k = Index(0), Index(1), Index(2)
N, M = Size(0), Size(1)
THREE = const(3, "i64")


def f64(value):
    return const(float(value), "f64")


def program(*results, names=None, **more):
    """A program of named results; its inputs are those that they read, `x0`, `x1`, ..."""
    arrays = [a for a in postorder(results, arrays_read) if isinstance(a, Input)]
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
    t = Map((N,), apply("add", Read(a, (i,)), Read(b, (i,))))
    r = Map((N,), apply("multiply", Read(t, (i,)), Read(b, (i,))))
    func = Func("simple.forward", (a, b), ("a", "b"), (r, t), ("r", "t"), ("n",))
    assert round_trip(func) == dedent("""\
        func @simple.forward(%a: f64[n], %b: f64[n]) -> (%r: f64[n], %t: f64[n]) {
          %t = array (i < n) { %a[i] + %b[i] }
          %r = array (i < n) { %t[i] * %b[i] }
        }""")


def test_what_is_used_twice_has_a_line_and_a_name():
    x = Input(0, "f64", (N, THREE))
    d = apply("subtract", Read(x, (i, k)), Read(x, (j, k)))
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
    assert "u7 = %x0[i, k] - %x0[j, k]\n    u7 * u7" in show(func.with_(names={d: "u7"}))


def test_names_of_variables_are_read_back():
    x = Input(0, "f64", (N,))
    t = Map((N,), apply("exp", Read(x, (i,))))
    square = apply("square", Read(t, (i,)))
    r = Map((N,), apply("add", square, square))
    back = parse_func(show(program(r, names=("r",), size_names=("n",)).with_(names={t: "t", square: "q"})))
    assert back.names == {x: "x0", t: "t", r: "r", square: "q"}


def test_gather_and_accumulate_are_duals():
    idx, w, x = Input(0, "i64", (M,)), Input(1, "f64", (M,)), Input(2, "f64", (N,))
    gather = Map((M,), Read(x, (Read(idx, (i,)),)))
    scatter = Accumulate((N,), (M,), (Read(idx, (i,)),), apply("multiply", Read(w, (i,)), f64(2.0)))
    func = Func("f", (idx, w, x), ("idx", "w", "x"), (gather, scatter), ("y", "g"), ("n", "m"))
    assert round_trip(func) == dedent("""\
        func @f<n, m>(%idx: i64[m], %w: f64[m], %x: f64[n]) -> (%y: f64[m], %g: f64[n]) {
          %y = array (i < m) { %x[%idx[i]] }
          %g = accumulate [n] (i < m) { [%idx[i]] += %w[i] * 2.0 }
        }""")


def test_a_triangle_is_a_select():
    x = Read(Input(0, "f64", (N, N)), (i, j))
    assert body(select(apply("less", j, i), x, f64(0))) == "select(j < i, %x0[i, j], 0.0)"


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
    text = round_trip(program(Reduce("max", (), (N,), Read(x, (i,))), Accumulate((), (), (), Read(x, (N,)))))
    assert "%r0 = reduce max (| i < n) { %x0[i] }" in text
    assert "%r1 = accumulate [] () { [] += %x0[n] }" in text


def test_bool_and_axes_of_size_1():
    x = Input(0, "bool", (const(1, "i64"), N))
    text = round_trip(program(Map((N,), apply("logical_not", Read(x, (const(0, "i64"), i))))))
    assert "(%x0: bool[1, n]) -> (%r0: bool[n])" in text
    assert "{ not %x0[0, i] }" in text


A, B, C = (Read(Input(k, "f64", (N,)), (i,)) for k in range(3))
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
        A.array, (apply("subtract", apply("multiply", apply("add", i, const(1, "i64")), const(2, "i64")), N),)
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
    x = Read(Input(0, "f64", (N, N)), (i, j))
    deep = x
    for op in ("exp", "sin", "cos", "tan", "sinh", "cosh"):
        deep = apply(op, deep)
    assert body(deep) == "u0 = tan(cos(sin(exp(%x0[i, j]))))\ncosh(sinh(u0))"


def test_a_plain_read_has_no_line_but_a_gather_has():
    x, idx = Input(0, "f64", (N,)), Input(1, "i64", (N,))
    plain, gather = Read(x, (i,)), Read(x, (Read(idx, (i,)),))
    func = program(Map((N,), apply("multiply", plain, plain)), Map((N,), apply("multiply", gather, gather)))
    text = round_trip(func)
    assert "{ %x0[i] * %x0[i] }" in text
    assert "u0 = %x0[%x1[i]]\n    u0 * u0" in text


def test_results_may_be_inputs_or_share_a_node_or_an_inputs_name():
    x = Input(0, "f64", (N,))
    r = Map((N,), apply("exp", Read(x, (i,))))
    func = Func("f", (x,), ("x",), (r, r, x), ("x", "b", "c"), ("n",))
    assert round_trip(func) == dedent("""\
        func @f(%x: f64[n]) -> (x = %x_1: f64[n], b = %x_1: f64[n], c = %x: f64[n]) {
          %x_1 = array (i < n) { exp(%x[i]) }
        }""")


def test_sizes_win_over_axes_and_variables():
    x = Input(0, "f64", (N, M))
    double = apply("add", Read(x, (i, j)), Read(x, (i, j)))
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
    result = Map((Size(2),), apply("add", Read(x, (i,)), Read(y, (i,))))
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
    square = apply("square", Read(x, (i,)))
    result = Map((N,), apply("add", square, square))
    func = Func(name, (x,), (name,), (result, result), (name, f"{name}2"), (name,), {square: name})
    round_trip(func)


def test_the_mask_belongs_to_the_name_of_the_program():
    text = "func @simple.propagate[1-|11]<m>(%b: f64[3]) -> (r = %b: f64[3]) {\n}"
    assert parse_func(text).name == "simple.propagate[1-|11]"
    assert show(parse_func(text)) == text


def test_the_text_of_a_long_sum_is_short_and_fast():
    x = Input(0, "f64", (N, N))
    total = Read(x, (i, j))
    for k in range(1500):
        total = apply("add", apply("multiply", Read(x, (i, const(k, "i64"))), f64(k + 0.5)), total)
    start = time.perf_counter()
    text = round_trip(program(Map((N, N), total), size_names=("n",)))
    assert time.perf_counter() - start < 10  # a fraction of a second where nothing else runs
    assert len(text) < 1500 * 50


def test_the_text_of_shared_elements_is_as_long_as_the_program():
    idx = Input(0, "i64", (N,))
    arithmetic = gather = Read(idx, (i,))
    for _ in range(200):
        arithmetic = apply("add", arithmetic, arithmetic)
        gather = Read(idx, (apply("add", gather, gather),))
    text = round_trip(program(Map((N,), arithmetic), Map((N,), gather), size_names=("n",)))
    assert len(text) < 200 * 80


def test_a_chain_of_arrays_does_not_recurse():
    array = Input(0, "f64", (N,))
    for _ in range(1500):
        array = Map((N,), apply("exp", Read(array, (i,))))
    round_trip(program(array, size_names=("n",)))


@given(st.integers(0, 2**32))
def test_random_programs_are_read_back(seed):
    func = random_func(seed)
    verify(func, TABLE)
    verify(parse_func(round_trip(func)), TABLE)
