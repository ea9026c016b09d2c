"""The schedule: what runs in one nest, what needs no storage, and what is computed where."""

from __future__ import annotations

import numpy as np
import pytest
from programs.ir_evaluated import backends, kernel, orders, program
from programs.ir_texts import LAYERNORM, PAIRWISE, SOFTMAX, UNROLLED

from adcompiler.ir.nodes import Apply, Const, Map, Reduce
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.kernels.schedule.schedule import schedule
from adcompiler.kernels.schedule.schedule_tree import Loop, Task


def nests_of(func):
    return schedule(kernel(func))


def derivative(text, order=1):
    *_, (_, joint) = orders(program(text), order)
    return joint


def nests(made):
    return [item for item in made.body if isinstance(item, Loop)]


def pairs(made):
    """Temporaries and partial sums, one element for each point of two long axes."""
    results = {b.name for b in made.plan.buffers if b.name in {made.arrays[r] for r in made.func.results}}
    return [
        b
        for b in made.plan.buffers
        if b.name not in results and sum(not isinstance(n, Const) for n in b.shape) > 1
    ]


ELEMENTWISE = """
    func @elementwise(%a: f64[n], %b: f64[n]) -> (%s: f64) {
      %t = array (i < n) { %a[i] + %b[i] }
      %s = reduce sum (| i < n) { %t[i] * %b[i] }
    }"""
ANY_DIMENSION = """
    func @pairwise(%x: f64[n, p], %m: f64[n]) -> (%e: f64) {
      %d = reduce sum (i < n, j < n | k < p) {
        d = %x[i, k] - %x[j, k]
        d * d
      }
      %e = reduce sum (| i < n, j < n) { %m[i] * %m[j] / sqrt(%d[i, j] + 0.01) }
    }"""
ROWS_AND_COLUMNS = """
    func @plane(%x: f64[n, m]) -> (%c: f64[m], %r: f64[n], %s: f64) {
      %c = reduce sum (j < m | i < n) { %x[i, j] * 2.0 }
      %r = reduce sum (i < n | j < m) { %x[i, j] * 2.0 }
      %s = reduce sum (| i < n, j < m) { %x[i, j] * 2.0 }
    }"""
COSTLY = """
    func @costly(%x: f64[n], %w: f64[m]) -> (%r: f64[n]) {
      %r = reduce sum (i < n | j < m) { %x[i] * exp(%w[j]) + %w[j] }
    }"""
OUTER = """
    func @outer(%x: f64[n], %w: f64[m]) -> (%r: f64[n]) {
      %r = reduce sum (i < n | j < m) { maximum(exp(%x[i]), %w[j]) }
    }"""


def test_value_and_gradient_run_in_one_loop():
    func = kernel(derivative(ELEMENTWISE))
    made = schedule(func)
    assert len(nests(made)) == 1
    (loop,) = nests(made)
    assert all(isinstance(item, Task) for item in loop.body)
    assert [t.array in func.results for t in made.tasks if t.stored and t.array.rank] == [True, True]


@pytest.mark.parametrize(
    "text", [PAIRWISE, UNROLLED, ANY_DIMENSION], ids=["sums", "unrolled", "any dimension"]
)
def test_pairs_are_never_stored(text):
    made = emit(scheduled(kernel(derivative(text))))
    allowed = (
        {("n", "p")} if text is ANY_DIMENSION else set()
    )  # a row for each point, not a point for each pair
    found = {tuple(made.func.size_names[n.number] for n in b.shape) for b in pairs(made)}
    assert found <= allowed


@pytest.mark.parametrize("text", [PAIRWISE, UNROLLED], ids=["sums", "unrolled"])
def test_pairs_are_never_stored_at_second_order(text):
    assert pairs(emit(scheduled(kernel(derivative(text, 2))))) == []


def test_a_symmetric_gradient_is_one_sum_for_each_coordinate():
    """f(i, j) and f(j, i) are one term, so the kernel has the sums of one written by hand."""
    made = nests_of(derivative(PAIRWISE))
    *_, pairwise = nests(made)
    sums = [t for t in pairwise.tasks if isinstance(t.array, Reduce)]
    assert len(sums) == 5  # the energy, three coordinates, the masses
    assert all(t.in_register for t in sums)
    roots = {e for t in sums for e in elements_of(t.elements) if isinstance(e, Apply) and e.op == "rsqrt"}
    assert len(roots) == 1


def test_rows_columns_and_the_whole_are_summed_in_one_pass():
    func = kernel(program(ROWS_AND_COLUMNS))
    assert len(nests(schedule(func))) == 1
    (buffer,) = pairs(emit(scheduled(func))) or [None]
    assert buffer is None


@pytest.mark.parametrize("text", [SOFTMAX, LAYERNORM], ids=["softmax", "layernorm"])
def test_chains_of_row_reductions_share_the_outer_loop(text):
    func = kernel(program(text))
    rows = [nest for nest in nests(schedule(func)) if any(isinstance(item, Loop) for item in nest.body)]
    assert len(rows) == 1
    assert pairs(emit(scheduled(func))) == []


def test_a_costly_part_over_an_inner_axis_is_an_array_of_its_own():
    arrays = arrays_of(kernel(program(COSTLY)).results)
    own = [a for a in arrays if isinstance(a, Map)]
    assert [a.body.op for a in own] == ["exp"]
    (total,) = (a for a in arrays if isinstance(a, Reduce))
    assert not any(isinstance(e, Apply) and e.op == "exp" for e in elements_of(total.elements))


def test_a_costly_part_over_the_outer_axis_has_a_loop_of_its_own():
    """Beside a loop inside it would not be vectorised."""
    (own,) = [a for a in arrays_of(kernel(program(OUTER)).results) if isinstance(a, Map)]
    assert "exp" in [getattr(e, "op", "") for e in elements_of(own.elements)]
    exponentials, sums = nests(schedule(kernel(program(OUTER))))
    assert [t.array for t in exponentials.tasks] == [own]
    assert not any(isinstance(item, Loop) for item in exponentials.body)
    assert any(isinstance(item, Loop) for item in sums.body)


def test_reads_that_are_surely_inside_are_not_checked():
    text = """
        func @steps<n>(%x: f64[n]) -> (%s: f64) {
          %s = reduce sum (| i < n - 1) { (%x[i + 1] - %x[i]) * (%x[i + 1] - %x[i]) }
        }"""
    source = emit(scheduled(kernel(program(text)))).source
    assert " if " not in source
    source = emit(scheduled(kernel(program(text.replace("n - 1", "n"))))).source
    assert source.count(" if ") == 1


def test_small_powers_are_products():
    func = kernel(program("func @f(%x: f64[n]) -> (%r: f64[n]) { %r = array (i < n) { %x[i] ** 6.0 } }"))
    ops = [e.op for a in arrays_of(func.results) for e in elements_of(a.elements) if isinstance(e, Apply)]
    assert ops == ["multiply"] * 3
    func = kernel(program("func @f(%x: f64[n]) -> (%r: f64[n]) { %r = array (i < n) { %x[i] ** 0.5 } }"))
    (power,) = (e for a in arrays_of(func.results) for e in elements_of(a.elements) if isinstance(e, Apply))
    assert power.op == "sqrt", "as NumPy has it, also at -0.0 and -inf"


def test_expressions_have_no_needless_parentheses():
    source = emit(scheduled(kernel(program(ELEMENTWISE)))).source
    assert "reduce_add(s, (a[i0] + v0) * v0)" in source
    text = """
        func @f(%x: f64[n], %y: f64) -> (%r: f64[n]) {
          %r = array (i < n) { -(%x[i] - (%y - 2.0)) / (3.0 * %y) }
        }"""
    source = emit(scheduled(kernel(program(text)))).source
    assert "r[i0] = -(x[i0] - v0) / v1" in source


TRIANGLE = """
    func @triangle(%x: f64[n]) -> (%r: f64) {
      %r = reduce sum (| i < n, j < n) { select(j < i, %x[i] * %x[j], 0.0) }
    }"""


def test_conditions_on_an_axis_are_bounds_of_its_loop():
    source = emit(scheduled(kernel(program(TRIANGLE)))).source
    assert "range(uint64(0), uint64(min(np.int64(i0), n)))" in source
    assert "select" not in source


SCATTERS = {  # a condition becomes a bound of a scatter's loop, and of a sum's beside it
    "accumulate [n] (i < n, j < n) { [%at[j]] += select(j < i, -(%x[i] * %x[j]), 0.0) }":
        ["range(uint64(np.int64(i0) + 1), uint64(n))"],
    "accumulate [n] (i < n, j < n) { [%at[i] + j] += select(j < %at[i] and i < 5, %x[i] * %x[j], 0.0) }":
        ["range(uint64(0), uint64(min(max(v0, 0), n) if np.int64(i0) < 5 else 0))"],
    """accumulate [n] (i < n, j < n) { [%at[j + i]] += select(j < i and i < 5, %x[i] * %x[j], 0.0) }
       %s = reduce sum (i < n | j < n) { select(j < i, %x[i] + %x[j], 0.0) }""":
        ["range(uint64(0), uint64(min(np.int64(i0), n)))", "select(v2, v3 * v4, 0.0)"],
}  # fmt: skip


@pytest.mark.parametrize("text", SCATTERS)
def test_conditions_of_a_scatter_are_bounds_of_its_loop(text):
    results = "%r: f64[n], %s: f64[n]" if "%s" in text else "%r: f64[n]"
    func = program(f"func @f(%x: f64[n], %at: i64[n]) -> ({results}) {{ %r = {text} }}")
    source = emit(scheduled(kernel(func))).source
    assert all(part in source for part in SCATTERS[text]), source
    assert source.count("select(") == ("%s" in text)
    backends(func, (np.linspace(0.3, 1.1, 7), np.array([3, 0, 6, 9, 1, 3, 5])))


def scattered(body: str, x: str = "%x[i, j]") -> str:
    text = f"""
        func @f<n, m, k>(%x: f64[n, m], %at: i64[n, m]) -> (%r: f64[n]) {{
          %r = accumulate [n] (i < n, j < {"m" if "j]" in x else "k"}) {{ [{body}] += exp({x}) }}
        }}"""
    return emit(scheduled(kernel(program(text)))).source


def test_functions_in_a_loop_that_scatters_have_a_loop_of_their_own():
    assert "t[block, i1] = math.exp(x[i0, i1])" in scattered("%at[i, j]")


def test_no_row_is_longer_than_the_arrays():
    """A loop over a number of iterations that no array has may run any number of times."""
    source = scattered("remainder(i * i + j, n)", "%x[i, 0] + f64(j)")
    assert "+= math.exp(" in source
    assert "[block" not in source
