"""Regions of index spaces hold every point where their condition does."""

from __future__ import annotations

import random

import pytest
from programs.ir_evaluated import program

from adcompiler.analysis.demand import needed
from adcompiler.analysis.regions import at, both, either, where
from adcompiler.ir.nodes import Apply, Const, Element, Index, Reduce, const
from adcompiler.ir.walk import arrays_of, postorder
from adcompiler.ops.build import apply
from adcompiler.passes.order.structural_zeros import Zeros

COMPARED = {
    "less": int.__lt__, "less_equal": int.__le__, "greater": int.__gt__, "greater_equal": int.__ge__,
    "equal": int.__eq__, "not_equal": int.__ne__,
}  # fmt: skip
POINTS = [(i, j, k) for i in range(5) for j in range(5) for k in range(5)]
UPPER = """
    func @f(%l: f64[n, n], %x: f64[m, n]) -> (%r: f64[n]) {
      %a = array (i < n, j < n) { select(j > i, %l[i, j], 0.0) }
      %g = reduce sum (i < n, j < n | k < m) { %x[k, i] * %x[k, j] }
      %y = reduce sum (k < m, i < n | j < n) { %a[i, j] * %x[k, j] }
      %r = reduce sum (i < n | j < n) { select(j > i, %g[i, j], %g[i, i]) }
      %s = reduce sum (i < n | k < m) { %y[k, i] }
      %q = array (i < n) { %r[i] + %s[i] }
    }"""


def value(element: Element, point: tuple[int, ...]) -> int:
    """A condition, or a whole number, at a point."""
    found: dict[Element, int] = {}
    for e in postorder((element,), lambda e: e.args):
        args = [found[a] for a in e.args]
        match e:
            case Index(axis=k):
                found[e] = point[k]
            case Const(value=number):
                found[e] = int(number)
            case Apply(op="add"):
                found[e] = args[0] + args[1]
            case Apply(op="subtract"):
                found[e] = args[0] - args[1]
            case Apply(op="logical_not"):
                found[e] = not args[0]
            case Apply(op="logical_and"):
                found[e] = args[0] and args[1]
            case Apply(op="logical_or"):
                found[e] = args[0] or args[1]
            case Apply(op=op):
                found[e] = COMPARED[op](*args)
    return found[element]


def guard(rng: random.Random, depth: int) -> Element:
    """A condition on three indices."""
    if depth and rng.random() < 0.6:
        op = rng.choice(("logical_and", "logical_or", "logical_not"))
        return apply(op, *(guard(rng, depth - 1) for _ in range(1 if op == "logical_not" else 2)))
    sides = []
    for _ in range(2):
        side: Element = rng.choice((Index(0), Index(1), Index(2), const(2, "i64")))
        if rng.random() < 0.5:
            side = apply(rng.choice(("add", "subtract")), side, const(rng.randint(-2, 2), "i64"))
        sides.append(side)
    return apply(rng.choice(list(COMPARED)), *sides)


def inside(region, point) -> bool:
    if region is None:
        return False
    return all(value(x, point) - value(y, point) <= most for (x, y), most in region.items())


@pytest.mark.thinned(10)
@pytest.mark.parametrize("seed", range(150))
def test_regions_hold_all_points(seed):
    rng = random.Random(seed)
    one, other = guard(rng, 3), guard(rng, 2)
    for point in POINTS:
        for holds in (True, False):
            if bool(value(one, point)) == holds:
                assert inside(where(one, holds), point)
                assert inside(either(where(one, holds), where(other)), point)
                if value(other, point):
                    assert inside(both(where(one, holds), where(other)), point)


def test_no_point_is_no_region():
    i, j = Index(0), Index(1)
    assert where(apply("less", i, i)) is None
    assert where(apply("logical_and", apply("less", i, j), apply("greater", i, j))) is None
    assert where(apply("less_equal", i, i)) == {}


def test_a_region_where_an_array_is_read():
    i, j = Index(0), Index(1)
    below = where(apply("less", j, i))
    assert at(below, (j, i)) == {(i, j): -1}
    assert at(below, (apply("add", i, const(1, "i64")), i)) == {}
    assert at(below, (i, i)) is None


def test_what_is_read_and_what_is_zero():
    func = program(UPPER.replace("%r: f64[n])", "%q: f64[n])"))
    sums = [a for a in arrays_of(func.roots) if isinstance(a, Reduce) and len(a.domain) == 3]
    read = needed(func)
    gram = next(a for a in sums if len(a.shape) == 2 and a.shape[0] is a.shape[1])
    product = next(a for a in sums if a is not gram)
    assert read[gram] == {(Index(0), Index(1)): 0}  # i <= j
    assert read[product] == {}
    support = Zeros().support(product.body)
    assert support.region == {(Index(1), Index(2)): -1}  # i < j
    assert len(support.finite) == 1


def test_bounds_of_sums_over_several_axes():
    """Such a sum is no larger than its largest term times the number of terms; products have two operands."""
    func = program("""
        func @f(%x: f64[n, m, l], %y: f64[n]) -> (%r: f64[n]) {
          %s = reduce sum (i < n | j < m, k < l) { %x[i, j, k] }
          %r = reduce sum (i < n | j < n) { select(j < i, %y[i], 0.0) * %s[j] }
        }""")
    support = Zeros().support(func.results[0].body)
    assert support.region == {(Index(1), Index(0)): -1}  # j < i
    (bound,) = support.finite
    operations = [
        e for e in postorder((bound,), lambda e: e.args) if isinstance(e, Apply) and e.op == "multiply"
    ]
    assert [len(e.args) for e in operations] == [2, 2]
