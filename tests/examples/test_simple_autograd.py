"""The notebook's cells, with the numbers that it prints, and the exercises at its end."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import GraphError, Variable, tape

PATH = Path(__file__).parents[2] / "examples" / "simple_autograd.py"
spec = spec_from_file_location("simple_autograd", PATH)
book = module_from_spec(spec)
spec.loader.exec_module(book)

HAND_MADE = ["simple", "simple_recompute", "simple_variable_almost", "simple_variable", "simple_variable_top"]


def printed(*rows):
    """Numbers of the notebook: inputs and results have four digits."""
    return [None if row is None else pytest.approx(row, abs=2e-3) for row in rows]


def values(found):
    return [None if g is None else g.value.tolist() for g in found]


def compiled():
    return book.generated(backend="numpy")


# -- the cells ---------------------------------------------------------------------------------


def test_the_first_gradients():
    da, db = [0.3774, 0.6308, 0.5239, 0.1387], [0.7719, 1.4249, 1.6311, 0.6567]
    assert values(book.first_gradients()) == printed(da, db)


def test_zero_gradient_is_none():
    assert values(book.zero_gradients(book.FIRST)) == printed([0.9209, 0.8121, 1.8843, 0.7893], None)


SECOND_ORDER = {
    book.FIRST: printed([1.2611, 2.1304, 5.8394, 3.3869], [2.6923, 4.9201, 13.6563, 8.0727]),
    book.SECOND: printed([1.5438, 2.8499, 3.2622, 1.3134], [3.8424, 6.9614, 7.5721, 2.9042]),
}


@pytest.mark.parametrize("name", [*HAND_MADE, "compiled"])
@pytest.mark.parametrize("draw", [book.FIRST, book.SECOND])
def test_gradients_of_gradients(name, draw):
    operator = compiled() if name == "compiled" else getattr(book, name)
    assert values(book.run_gradients(operator, draw=draw)) == SECOND_ORDER[draw]


def test_the_plain_array_is_a_clear_error():
    with pytest.raises(GraphError, match=r"plain array(.|\n)*record it as an output"):
        book.run_gradients(book.simple_type_error)


def test_the_wrong_aggregate_is_right_once_and_wrong_twice():
    first = book.run_gradients(book.simple_variable_wrong, second_loss=False)
    da, db = [0.0850, 0.3296, 0.9888, 0.6494], [0.6306, 1.0652, 2.9197, 1.6935]
    assert values(first) == printed(da, db)
    second = book.run_gradients(book.simple_variable_wrong)
    assert values(second) == printed(None, [1.4312, 2.7896, 7.8169, 4.6857])


def test_the_trace_is_the_notebooks(capsys):
    with tape.trace():
        book.first_gradients()
    assert capsys.readouterr().out.splitlines()[2:] == [
        "v0 = a + b", "v1 = v0 * b", f"dv1 {'-' * 24}", "v3 = v2 * b", "v4 = v2 * v0", "v5 = v4 + v3",
        "dv1_dv1 = v2", "dv1_dv0 = v3", "dv1_db = v5", "dv1_da = v3", "-" * 24,
    ]  # fmt: skip
    with tape.trace():
        book.run_gradients(book.simple, second_loss=False)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "v0 = a + b", "v1 = v0 * b", "L0 = v1.sum()", f"dL0 {'-' * 24}", "v3 = v2.expand(4)", "v4 = v3 * b",
        "v5 = v3 * v0", "v6 = v5 + v4", "dL0_dL0 = v2", "dL0_dv1 = v3", "dL0_dv0 = v4", "dL0_db = v6",
        "dL0_da = v4", "-" * 24,
    ]  # fmt: skip


# -- the generated aggregate -------------------------------------------------------------------


def test_zeros_in_place_of_none_are_wasteful():
    """The notebook's claim, counted: an addition of zeros for each pass, and more in the second one."""
    count = {
        name: book.operations(lambda f=f: book.run_gradients(f))
        for name, f in [(n, getattr(book, n)) for n in HAND_MADE] + [("compiled", compiled())]
    }
    assert count["simple_variable_almost"] == count["simple_variable"] + 5
    assert count["simple_variable_top"] == count["simple_variable"]
    assert count["compiled"] < count["simple_variable_top"]  # one entry for each pass of the aggregate


def test_one_program_for_each_pattern_seen():
    f = compiled()
    book.run_gradients(f)
    shown = f.show("propagate")
    branches = shown[: shown.index("func @")]
    assert branches.index("if dr is not None and dt is not None") < branches.index("return")
    assert [line.split("(")[0] for line in shown.splitlines() if line.startswith("func")] == [
        "func @simple.propagate[1-|11]",
        "func @simple.propagate[-1|11]",
    ]
    book.run_both(f)
    assert "func @simple.propagate[11|11]" in f.show("propagate")


def test_two_more_characters_make_both_cotangents_flow():
    seen = []

    def watched(a, b):
        t = Variable(a.value + b.value, name="t")
        r = Variable(t.value * b.value)

        def propagate(dL_doutputs):
            seen.append([g is not None for g in dL_doutputs])
            dL_dr, dL_dt = dL_doutputs
            dL_dt = book.add_optional(dL_dt, None if dL_dr is None else dL_dr * b)
            return [dL_dt, book.add_optional(None if dL_dr is None else dL_dr * t, dL_dt)]

        tape.record([a, b], [r, t], propagate)
        return r

    expected = values(book.run_both(book.simple))
    for operator in (watched, compiled(), book.simple_variable_top):
        for mine, theirs in zip(values(book.run_both(operator)), expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    assert seen == [[True, False], [True, True]]
    source = PATH.read_text("utf-8")
    for change in ("", "*a"):
        assert f'L0 = (my_fn(a, b){change}).sum(name="L0")' in source


# -- the other exercises -----------------------------------------------------------------------


def test_a_new_operator():
    """Its propagate, against the compiler at first and differences at second order."""
    values = np.array([-2.0, -0.3, 0.4, 3.0])
    x = Variable(values)
    first = tape.grad(book.softsign(x), x, create_graph=True)
    softsign = adc.compile("sum(x / (1 + abs(x)))", backend="numpy")
    np.testing.assert_allclose(first.value, adc.grad(softsign)(values), rtol=1e-14)
    step = 1e-6
    numeric = (adc.grad(softsign)(values + step) - adc.grad(softsign)(values - step)) / (2 * step)
    np.testing.assert_allclose(tape.grad(first, x).value, numeric, rtol=1e-7)


def test_another_aggregate():
    bump = adc.compile("exp(-((a - b) ** 2))", name="bump", backend="numpy")
    by_hand, generated = (values(book.run_gradients(f)) for f in (book.gaussian, bump))
    for mine, theirs in zip(by_hand, generated, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10)


def test_weird_gradients_of_higher_order():
    """A mixture of three orders against its own algebra, and forward mode from two reverse passes."""
    a, b = (Variable(v) for v in book.FIRST)
    da, db = book.mixed_orders(a, b)
    x, y = a.value, b.value
    # L0 = sum (x + y) y; L1 = sum y (x + 2y) x; dL1/dy = x**2 + 4xy; L2 = L0 sum (dL1/dy)**2 + sum (x + 2y) x
    L0, d = ((x + y) * y).sum(), x * x + 4 * x * y
    np.testing.assert_allclose(da.value, y * (d * d).sum() + L0 * 2 * d * (2 * x + 4 * y) + 2 * x + 2 * y)
    np.testing.assert_allclose(db.value, (x + 2 * y) * (d * d).sum() + L0 * 2 * d * 4 * x + 2 * x)

    tangent = book.forward_mode(lambda v: v.sin() * v, a, b)
    np.testing.assert_allclose(tangent.value, (np.cos(x) * x + np.sin(x)) * y)


def test_zeros_in_place_of_none():
    a, b = (Variable(v) for v in book.FIRST)
    da, db = book.grad_with_zeros((a * a).sum(), [a, b])
    np.testing.assert_array_equal(db.value, np.zeros(4))
    np.testing.assert_allclose(da.value, 2 * a.value)


def test_the_whole_example_runs(capsys, monkeypatch):
    once = compiled()
    monkeypatch.setattr(book, "generated", lambda: once)
    book.main()
    out = capsys.readouterr().out
    assert "WRONG at second order, da is None\n  da None" in out
    assert 'programs["11|11"](saved, dr, dt)' in out
