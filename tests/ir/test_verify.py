"""The invariants of the representation: each is broken once here, and the verifier names it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from adcompiler.ir.bodies import Replace
from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Call,
    Contraction,
    Func,
    Index,
    Input,
    Map,
    Put,
    Read,
    Reduce,
    Select,
    Size,
    const,
    select,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.textform import verify as module
from adcompiler.ir.textform.reader import parse_func
from adcompiler.ir.textform.verify import VerifyError, verify
from adcompiler.ops.table import TABLE

M = const(3, "i64")
N, i, j = Size(0), Index(0), Index(1)
X, Y = Input(0, "f64", (N,)), Input(1, "i64", (N,))
XI, YI = Read(X, (i,)), Read(Y, (i,))
ONE, TRUE = const(1.0, "f64"), const(True, "bool")


def program(result, **changes):
    """A sound program of x: f64[n] and y: i64[n], save for what is changed."""
    return Func("f", (X, Y), ("x", "y"), (result,), ("r",), ("n",)).with_(**changes)


def over_n(body):
    return program(Map((N,), body))


CARRIED = Slot(1, "f64", (N,))
ITERATION = Map((N,), Read(CARRIED, (i,)))
YES = Map((), TRUE)


def looped(**changes):
    """A sound program that carries x along n iterations, save for what is changed in its loop."""
    fields = {"length": N, "inits": (X,), "scanned": (), "consts": (), "results": (ITERATION,), "outs": ()}
    fields |= {"test": None, "backward": False} | changes
    return program(Item(Loop(*fields.values()), 0))


GOOD = Map((N,), XI)
BROKEN = {
    "each input has a name of its own": [
        program(GOOD, input_names=("x", "x")),
        program(GOOD, input_names=("x",)),
    ],
    "each result has a name of its own": [
        program(GOOD, results=(GOOD, GOOD), result_names=("r", "r")),
        program(GOOD, result_names=()),
    ],
    "no two sizes share a name": [program(GOOD, size_names=("n", "n"))],
    "every size has a name, if any has": [over_n(Size(1))],
    "the inputs stand in the order of their positions, from 0": [
        program(GOOD, inputs=(Y, X)),
        program(GOOD, inputs=(X, X)),
        program(GOOD, inputs=(X, GOOD)),
    ],
    "every input that is read is listed": [over_n(Read(Input(2, "f64", (N,)), (i,)))],
    "the lengths of an input read only inputs before it": [
        program(
            GOOD,
            inputs=(X, y := Input(1, "f64", (Read(Input(2, "i64", ()), ()),)), Input(2, "i64", ())),
            input_names=("x", "y", "z"),
            results=(y,),
        )
    ],
    "lengths are int64, without axes, and read only arrays of rank 0": [
        program(Map((ONE,), ONE)),
        program(Map((i,), ONE)),
        program(Map((Read(Y, (const(0, "i64"),)),), ONE)),
        program(Accumulate((), (ONE,), (), ONE)),
    ],
    "constant lengths are not negative": [program(Map((const(-1, "i64"),), ONE))],
    "the axes of its elements lie inside the domain": [
        over_n(Read(X, (j,))),
        program(Accumulate((N,), (N,), (j,), ONE)),
    ],
    "a rule reads its inputs alone, and gives a cotangent for each argument": [
        program(Ruled(GOOD, (X,), (X,))),
        program(Ruled(GOOD, (X,), ())),
    ],
    "a call takes matrices of its own float type": [
        program(Call("lu", (), "f64", (N, N))),
        program(Call("lu", (X,), "f64", (N, N))),
        program(Call("lu", (Map((N, N), XI),), "f32", (N, N))),
    ],
    "the leading axes of a call are those of its operands": [
        program(Call("lu", (Map((M, N, N), XI),), "f64", (N, N))),
        program(Call("f", (Map((N, N, N), XI), Map((M, N, N), XI)), "f64", (N, N, N))),
    ],
    "a reduce has a known operation": [program(Reduce("median", (), (N,), XI))],
    "a reduce has a reduced axis": [program(Reduce("sum", (N,), (), XI))],
    "sums and products are of numbers": [program(Reduce("sum", (), (N,), TRUE))],
    "the factors of a contraction are floats of one type": [
        program(Contraction((N,), (M,), XI, Apply("f32", (XI,), "f32"))),
        program(Contraction((N,), (M,), i, i)),
    ],
    "an accumulate adds numbers": [program(Accumulate((N,), (N,), (i,), TRUE))],
    "a put stores values of its array's type at one int64 index for each axis": [
        program(Put(X, "set", (), (M, M), TRUE, ONE)),
        program(Put(X, "set", (N,), (i,), ONE, XI)),
        program(Put(X, "set", (N,), (i,), TRUE, YI)),
        program(Put(X, "less", (N,), (i,), TRUE, XI)),
    ],
    "a put sets no element twice": [
        program(Put(X, "set", (N,), (M,), TRUE, XI)),
        program(Put(X, "set", (N,), (YI,), TRUE, XI)),
        program(Put(X, "set", (N, N), (Apply("add", (i, j), "i64"),), TRUE, XI)),
    ],
    "a put adds numbers": [program(Put(Map((N,), TRUE), "add", (N,), (i,), TRUE, TRUE))],
    "an accumulate has one int64 index for each axis of its shape": [
        program(Accumulate((N,), (N,), (), XI)),
        program(Accumulate((N,), (N,), (XI,), XI)),
    ],
    "a read has one int64 index for each axis of its array": [
        over_n(Read(X, ())),
        over_n(Read(X, (XI,))),
    ],
    "a select has a guard and two branches": [over_n(Select((TRUE, XI, XI, XI)))],
    "the guard of a select is bool": [over_n(select(YI, XI, XI))],
    "the branches of a select have one type": [over_n(select(TRUE, XI, YI))],
    "the operands of an application have one type": [
        over_n(Apply("add", (XI, YI), "f64")),
        over_n(Apply("pi", (), "f64")),
    ],
    "a conversion has one operand and the type it bears the name of": [
        over_n(Apply("f32", (XI, XI), "f32")),
        over_n(Apply("f32", (XI,), "f64")),
    ],
    "comparisons and logic give bool": [over_n(Apply("less", (XI, XI), "f64"))],
    "every operation is in the rule table": [over_n(Apply("frobnicate", (XI,), "f64"))],
    "an operation has one operand for each parameter": [over_n(Apply("exp", (XI, XI), "f64"))],
    "an operation takes and gives the types of its kind": [
        over_n(Apply("exp", (YI,), "i64")),
        over_n(Apply("exp", (XI,), "f32")),
        over_n(Apply("add", (TRUE, TRUE), "bool")),
        over_n(Apply("add", (XI, XI), "i64")),
        over_n(Apply("logical_and", (XI, XI), "bool")),
        over_n(Apply("bitwise_and", (XI, XI), "f64")),
    ],
    "a loop has a length or a test, and not both": [looped(length=None), looped(test=YES)],
    "the length of a loop is int64, without axes, and reads only arrays of rank 0": [
        looped(length=ONE),
        looped(length=i),
        looped(length=Read(Y, (const(0, "i64"),))),
    ],
    "the test of a loop is a bool of rank 0": [looped(length=None, test=ITERATION)],
    "only a loop of a known length runs backward or collects": [looped(length=None, test=YES, backward=True)],
    "a loop carries on what it starts with": [looped(inits=(X, X))],
    "what a loop carries keeps its type and shape": [
        looped(results=(Map((N,), const(0, "i64")),)),
        looped(results=(Map((), ONE),)),
    ],
    "what is scanned has an axis for the iterations": [looped(scanned=(Map((), ONE),))],
    "the body of a loop reads no inputs but its slots": [
        looped(results=(Map((N,), XI),)),
        looped(results=(Map((N,), Read(Slot(2, "f64", (N,)), (i,))),)),
    ],
}


@pytest.mark.parametrize(
    ("sentence", "func"), [(sentence, func) for sentence, funcs in BROKEN.items() for func in funcs]
)
def test_a_broken_invariant_is_named(sentence, func):
    with pytest.raises(VerifyError) as caught:
        verify(func, TABLE)
    assert caught.value.invariant == sentence


def test_every_invariant_is_broken_once_above():
    tables = (
        module.FUNC_INVARIANTS,
        module.ARRAY_INVARIANTS,
        module.ELEMENT_INVARIANTS,
        module.TABLE_INVARIANTS,
        module.LOOP_INVARIANTS,
    )
    assert [sentence for table in tables for sentence, _ in table] == list(BROKEN)


def test_a_sound_program_passes():
    guarded = select(Apply("less", (i, YI), "bool"), Apply("exp", (XI,), "f64"), Apply("f64", (YI,), "f64"))
    scatter = Accumulate((N,), (N,), (YI,), guarded)
    count = Reduce("sum", (), (N,), YI)
    length = Apply("add", (Read(count, ()), const(1, "i64")), "i64")
    arrays = (GOOD, scatter, count, Map((length,), ONE), X)
    func = program(GOOD).with_(results=arrays, result_names=tuple("abcde"))
    verify(func)
    verify(func, TABLE)
    verify(func.with_(size_names=()), TABLE)


def test_the_rule_table_is_optional():
    verify(over_n(Apply("frobnicate", (XI,), "f64")))
    verify(
        over_n(Apply("frobnicate", (XI,), "f64")),
        {"frobnicate": SimpleNamespace(params=("x",), kind="float")},
    )


def test_the_error_says_what_where_and_shows_the_program():
    with pytest.raises(AssertionError) as caught:
        verify(over_n(select(YI, XI, XI)))
    assert str(caught.value).splitlines() == [
        "%r breaks the invariant: the guard of a select is bool",
        "func @f(%x: f64[n], %y: i64[n]) -> (%r: f64[n]) {",
        "  %r = array (i < n) { select(%y[i], %x[i], %x[i]) }",
        "}",
    ]


def test_an_input_that_is_not_listed_is_shown_all_the_same():
    func = program(Map((N,), Read(Input(2, "f64", (N,)), (i,))))
    with pytest.raises(VerifyError, match="%0 = input 2: f64"):
        verify(func)


COUNTS = """func @f<n>(%x: f64[n], %k: i64, %j: i64) -> (%r: f64) {
  %0 = array () { minimum(%k, 5) }
  %1 = array () { minimum(%j, 5) }
  %y = array (i < maximum(%0, 0)) { %x[0] }
  %z = loop (%t < 3) (%y_1 = %y, %a = all %0, %b = all %1) {
    %0 = array (i < maximum(%a, 0)) { %y_1[i] * f64(%b) }
    next %0
  }
  %r = reduce sum (| i < maximum(%0, 0)) { %z[i] }
}
"""


@pytest.mark.parametrize(("old", "new"), [(1, 2), (2, 1)])
def test_numbers_that_lengths_in_a_loop_read_may_become_one(old, new):
    func = parse_func(COUNTS)
    same = Replace({func.inputs[old]: func.inputs[new]}).run(func.results)
    verify(func.with_(results=same), TABLE)
