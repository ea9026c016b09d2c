"""Questions about the iterations of loops whose definitions share variables."""

from __future__ import annotations

from functools import partial

import pytest
from judges import growth

from adcompiler.loopir.dependence import Along, Iteration
from adcompiler.loopir.limits import MOST_WRITTEN_OUT
from adcompiler.loopir.nodes import Access, Assign, Binary, Call, Expr, For, Store, Var, counted, literal
from adcompiler.loopir.walk import walk
from adcompiler.targets.llvm.quotients import quotients

KINDS = [Iteration, partial(Along, own={"i", "v0"})]


def doubled(count: int, first: Expr) -> For:
    """A loop over i with variables of which each is twice the one before, written as a sum."""
    body = [Assign("v0", first)]
    body += [Assign(f"v{k}", Binary("+", Var(f"v{k - 1}"), Var(f"v{k - 1}"))) for k in range(1, count)]
    return counted("i", Var("n"), [*body, Store(Access("y", (Var("i"),)), Var(f"v{count - 1}"))])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [2, 6, 60])
def test_a_shared_variable_is_asked_once(kind, count):
    last = Var(f"v{count - 1}")
    about = kind(doubled(count, Call("np.int64", (Var("i"),))))
    assert about.step(last) == 2 ** (count - 1)
    assert about.about(last).changes
    assert not about.about(last).loads
    assert kind(doubled(count, Var("m"))).step(last) == 0
    assert kind(doubled(count, Access("x", (Var("i"),)))).step(last) is None
    assert kind(doubled(count, Access("x", (Var("i"),)))).about(last).loads


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_out_has_a_limit(kind):
    about = kind(doubled(60, Var("i")))
    for k in range(60):
        written = about.written_out(Var(f"v{k}"))
        nodes = about.about(Var(f"v{k}")).nodes
        assert (written is None) == (nodes > MOST_WRITTEN_OUT)
        assert written is None or len(walk(written)) == nodes


def test_quotients_of_shared_numbers_take_steps_in_proportion_to_the_loop():
    def steps(count: int) -> int:
        loop = doubled(count, Call("np.int64", (Var("i"),)))
        loop.body.append(Store(Access("z", (Var("i"),)), Binary("//", Var(f"v{count - 1}"), Var("m"))))
        return growth.calls(lambda: quotients(loop)).total()

    assert growth.excess([steps(20), steps(40), steps(80)]) < 1.2


def test_quotients_of_small_numbers_are_found():
    loop = doubled(3, Call("np.int64", (Var("i"),)))
    loop.body.append(Store(Access("z", (Var("i"),)), Binary("//", Var("v2"), Var("m"))))
    (one,) = quotients(loop)
    assert (one.step, one.divisor) == (4, Var("m"))
    assert literal(1) not in walk(one.numerator)
