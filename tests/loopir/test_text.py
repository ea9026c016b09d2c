"""The loop IR as text: what is printed is read as the same functions, and kernels keep its invariants."""

from __future__ import annotations

import re

import pytest
from corpus.programs import golden

import adcompiler as adc
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.loopir.nodes import (
    Access,
    Binary,
    Break,
    Call,
    Choice,
    Compare,
    For,
    If,
    Length,
    Literal,
    Logical,
    Unary,
    Var,
    While,
    literal,
)
from adcompiler.loopir.parse import functions
from adcompiler.loopir.printer import lines, source, text
from adcompiler.loopir.types import ArrayType, types_of_kernel
from adcompiler.loopir.verify import VerifyError, verify, verify_types
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run
from adcompiler.targets.cpu.compiled import CpuKernel

GOLDEN = list(golden())[::3]
EVERYTHING = """def f(n, x, y):
    s = 0.0
    t = np.empty((n, 3), np.float64)
    for i in range(uint64(0), uint64(n)):
        a, b = x[i], y[i, 0]
        t[i, 1] = a if i < uint64(n) else 0.0
        y[i, 0] += -a * (b - 1.5) / math.sqrt(2.0)
        if a > 0 and not b <= a or i == 0:
            s = reduce_add(s, a ** 2 % 3 // b)
        else:
            s = max(s, -math.inf)
    for k in range(n, 0, -1):
        s = (a & 1 | k) << 2
    while True:
        s = s + y.shape[1]
        break
    library_dot(x, y, t)
    np.dot(x.T, y, t)
    return (s, t)
"""


def test_what_is_printed_is_what_was_read():
    (function,) = functions(EVERYTHING)
    assert source(function) == EVERYTHING
    verify(function)


@pytest.mark.parametrize("program", GOLDEN, ids=lambda program: program.name)
def test_kernels_of_golden_programs(program):
    """Comments apart, and parentheses that no operator needs, the text of a kernel comes back."""
    kernel = adc.compile(program.text, static=program.static).show("kernel", *program.args)
    found = functions(kernel)
    for function in found:
        verify(function)
    again = [f for function in found for f in functions(source(function))]
    assert [source(f) for f in again] == [source(f) for f in found]
    names = re.findall(r"^def (\w+)", kernel, flags=re.MULTILINE)
    assert [f.name for f in found] == names


@pytest.mark.parametrize("program", GOLDEN, ids=lambda program: program.name)
def test_types_of_kernels_of_golden_programs(program):
    f = adc.compile(program.text, static=program.static)
    func = run((*OPTIMISE, *KERNEL), f._trace(f._describe(program.args, {})[0]).func)
    kernel = CpuKernel(scheduled(func))
    params = [ArrayType(p.dtype, p.rank) if p.rank else p.dtype for p in kernel.source.params]
    verify_types(kernel.kernel.functions, params)
    verify_types(kernel.source.functions, params)


TYPED = """def run(n, x, y):
    s = 0
    for i in range(n):
        s = s + x[i]
        y[i] = s > 0.5
    return (s, x[0] < n)
"""


def test_a_variable_has_the_widest_type_of_its_values():
    (function,) = functions(TYPED)
    found = types_of_kernel(function, ("i64", ArrayType("f32", 1), ArrayType("bool", 1)))
    assert found.variables == {
        "n": "i64", "x": ArrayType("f32", 1), "y": ArrayType("bool", 1), "s": "f64", "i": "i64",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("x[i]", "x[s]", "s, where an integer is expected"),
        ("x[i]", "x[i, 0]", "2 indices of x, which has 1"),
        ("x[i]", "n[i]", "n, where an array is expected"),
        ("s + x[i]", "s + x", "the array x, where a number is expected"),
        ("x[i]", "uint64(i)", "+ of an index and a number"),
        ("range(n)", "range(x[0])", "x[0], where an integer is expected"),
    ],
)
def test_types_fit(old, new, fault):
    (function,) = functions(TYPED.replace(old, new))
    with pytest.raises(VerifyError, match=re.escape(f"'{fault}' breaks the invariant: types fit")):
        verify_types([function], ("i64", ArrayType("f32", 1), ArrayType("bool", 1)))


@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        (Binary("*", Binary("+", Var("a"), Var("b")), Var("c")), "(a + b) * c"),
        (Binary("-", Var("a"), Binary("-", Var("b"), Var("c"))), "a - (b - c)"),
        (Binary("**", Unary("-", Var("a")), literal(2)), "(-a) ** 2"),
        (Unary("-", Binary("**", Var("a"), literal(2))), "-a ** 2"),
        (Unary("not", Compare("<", Var("a"), Var("b"))), "not a < b"),
        (Compare("==", Compare("<", Var("a"), Var("b")), Var("c")), "(a < b) == c"),
        (Logical("and", (Logical("or", (Var("a"), Var("b"))), Var("c"))), "(a or b) and c"),
        (Call("exp", (Choice(Var("a"), Var("b"), Var("c")),)), "exp(b if a else c)"),
        (Choice(Choice(*map(Var, "abc")), Choice(*map(Var, "def")), Var("g")),
         "(e if d else f) if (b if a else c) else g"),
        (Access("x", (Binary("+", Var("i"), literal(1)), Length("x", 0))), "x[i + 1, x.shape[0]]"),
        (literal(-1.5), "-1.5"),
        (literal(float("inf")), "math.inf"),
        (literal(-(2**63)), "-(2**63)"),
        (literal(2**63 - 1), "2**63 - 1"),
        (literal(True), "True"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_parentheses_stand_where_python_needs_them(expression, printed):
    assert text(expression) == printed
    (function,) = functions(f"def f():\n    v = {printed}\n")
    assert list(lines(function.body)) == [f"v = {printed}"]


def test_constants_are_equal_if_their_types_are():
    assert Literal(1, "i64") == literal(1)
    assert len({literal(1), literal(1.0), literal(True)}) == 3


def test_loops_are_of_a_kind():
    (function,) = functions(
        "def run(n):\n"
        "    for block in range(n):\n        nest0(block)\n"
        "    for iteration1 in range(n):\n        for i in range(n):\n            x[i] = 0.0\n"
    )
    blocks, program = function.body
    assert isinstance(blocks, For)
    assert isinstance(program, For)
    (elements,) = program.body
    assert isinstance(elements, For)
    assert [loop.kind for loop in (blocks, program, elements)] == ["blocks", "program", "elements"]


BROKEN = {
    "a name is set before it is read": "def f(x):\n    x[0] = v\n    v = 1.0\n",
    "a result is returned at the end": "def f(x):\n    return (x,)\n    x[0] = 1.0\n",
    "statements are those of the IR": "def f(x):\n    del x\n",
    "expressions are those of the IR": "def f(x):\n    v = [x]\n",
    "a body does not set the variable of its loop": "def f(n):\n    for i in range(n):\n        i = 0\n",
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_a_broken_invariant_is_told(sentence):
    (function,) = functions(BROKEN[sentence])
    with pytest.raises(VerifyError) as found:
        verify(function)
    assert found.value.invariant == sentence


def test_what_no_text_says_is_told_too():
    (function,) = functions("def f(x):\n    x[0] = 1.0\n")
    for body in ([Break()], [If(Var("x"), [Break()])]):
        with pytest.raises(VerifyError, match="break stands in a loop"):
            verify(type(function)("f", ["x"], body))
    verify(type(function)("f", ["x"], [While(Var("x"), [Break()])]))
    with pytest.raises(VerifyError, match="different names"):
        verify(type(function)("f", ["x", "x"], []))
    with pytest.raises(VerifyError, match="conditions are several"):
        verify(type(function)("f", ["x"], [If(Logical("and", (Var("x"),)), [])]))


def test_transforms_are_shown():
    f = adc.compile("def f(x: f64[n, m], w: f64[m, k]):\n    return sum(tanh(x @ w) ** 2)")
    shown = f.show("loopir")
    assert "# lanes" in shown
    assert "# at once" in shown
    assert "for i1 in what is left:" in shown
