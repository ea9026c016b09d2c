"""`explain(cost=True)` and `adc explain --cost`: what kernels move and compute, and how long they take."""

from __future__ import annotations

import re

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.cli import main
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.emit.traffic import Counted
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.ops.table import TABLE
from adcompiler.runtime.reports import ceilings, cost
from adcompiler.runtime.reports.clock import seconds, ticks_a_second
from adcompiler.targets.cpu.timed import Timed

PAIRS = "def f(x: f64[n]):\n    return sum(sqrt((x[i] - x[j])**2 + 1) for i in range(n) for j in range({}))"


def counted(f, *args):
    """The timed kernel of `f` for these arguments, their lengths, and what each of its items does."""
    types, values, *_ = f._describe(args)
    program = f._specialise(types, values)
    sizes = program.sizes(values)
    made = Timed(program.executable.at(sizes).made)
    counts = Counted(made.func, made.kernel.arrays, sizes, program.lengths.values(values))
    return made, sizes, [counts.item(item) for item in made.items], counts


def work(source, *args):
    """What the only nest of a program does."""
    [found] = counted(adc.compile(source), *args)[2]
    return found


def operations(found):
    return {op: n for (op, _), n in found.operations.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rates")


@pytest.fixture
def quick(monkeypatch, folder):
    """Measurements that are short, and kept for these tests only."""
    monkeypatch.setenv("ADC_CACHE_DIR", str(folder))
    monkeypatch.setattr(ceilings, "FOOTPRINTS", (2**16, 2**20))
    monkeypatch.setattr(ceilings, "CEILING_SECONDS", 0.0)
    monkeypatch.setattr(cost, "KERNEL_SECONDS", 0.0)
    ceilings.ceilings.cache_clear()
    ceilings.seconds_of.cache_clear()
    yield
    ceilings.ceilings.cache_clear()
    ceilings.seconds_of.cache_clear()


# -- counts --------------------------------------------------------------------------------------


def test_an_elementwise_formula_reads_and_writes_each_array_once():
    x = np.ones(1000)
    found = work("(a + b) * b", x, x)
    assert (found.reads, found.writes) == ({"a": 8000, "b": 8000}, {"r": 8000})
    assert found.operations == {("add", "f64"): 1000, ("multiply", "f64"): 1000}
    assert (found.loops, found.made, found.exact) == (["n = 1,000"], {"r": None}, True)
    single = work("(a + b) * b", x.astype(np.float32), x.astype(np.float32))
    assert (single.bytes, set(single.operations)) == (12000, {("add", "f32"), ("multiply", "f32")})


def test_a_sum_moves_what_it_reads_only():
    found = work("sum(x * y)", np.ones(500), np.ones(500))
    assert (found.bytes, found.writes) == (8000, {})
    assert operations(found) == {"multiply": 500, "add": 500}


@pytest.mark.parametrize(
    ("inner", "iterations"), [("n", 300 * 300), ("i", 300 * 299 // 2), ("i + 1", 300 * 301 // 2)]
)
def test_pairs_are_counted_within_their_bounds(inner, iterations):
    found = work(PAIRS.format(inner), np.ones(300))
    assert operations(found) == {
        "subtract": iterations,
        "multiply": iterations,
        "add": 2 * iterations,
        "sqrt": iterations,
    }
    assert (found.reads, found.exact) == ({"x": 2400}, True)


def test_bounds_of_long_loops_are_added_up_over_points_that_stand_for_all():
    n = 1_000_000
    made = counted(adc.compile(PAIRS.format("i")), np.ones(3))[0]
    found = Counted(made.func, made.kernel.arrays, [n], {}).item(made.items[0])
    assert abs(operations(found)["sqrt"] / (n * (n - 1) / 2) - 1) < 1e-4


def test_what_depends_on_the_outer_loop_only_is_computed_there():
    source = """
def f(x: f64[n], y: f64[m]):
    return [sum((x[i] + y[j])**2 + sin(x[i]) * y[j] for j in range(m)) for i in range(n)]
"""
    works = counted(adc.compile(source), np.ones(20), np.ones(30))[2]
    assert sum(operations(w).get("sin", 0) for w in works) == 20
    assert sum(operations(w).get("add", 0) for w in works) >= 2 * 20 * 30


def test_what_stays_in_registers_does_not_move():
    source = (
        "def f(x: f64[n, m]):\n    return [x[i, 0] * sum(exp(x[i, k]) for k in range(m)) for i in range(n)]"
    )
    found = work(source, np.ones((40, 5)))
    assert (list(found.registers), list(found.writes), found.writes["r"]) == (["t"], ["r"], 320)
    assert found.reads == {"x": 40 * 5 * 8}


def test_of_integers_only_sums_and_extrema_are_operations():
    found = work("def f(k: i64[n]):\n    return min(k), max(k[i] * i for i in range(n))", np.arange(100))
    steps = {("minimum", "i64"): 100, ("maximum", "i64"): 100}
    assert (found.operations, found.reads) == (steps, {"k": 800})


def test_a_gather_reads_no_more_than_it_asks_for():
    x, few = np.ones(1000), np.arange(10)
    assert work("def f(x, at):\n    return [x[at[i]] * 2 for i in range(len(at))]", x, few).reads == {
        "at": 80, "x": 80,
    }  # fmt: skip


def test_loops_of_the_program_are_counted_iteration_by_iteration():
    source = (
        "def f(x: f64[n]):\n    s = 0.0\n    for i in range(n):\n        s = sin(s) + x[i] * 2\n    return s"
    )
    found = work(source, np.ones(50))
    assert found.in_order
    assert operations(found)["sin"] == 50
    assert found.reads["x"] == 400
    open_end = work("def f(x):\n    while x < 100:\n        x = x * 1.5\n    return x", 1.0)
    assert (operations(open_end), open_end.exact) == ({"multiply": 1}, False)


def test_what_several_numbers_of_a_iteration_share_is_computed_once():
    source = "def f(x: f64[n], w: f64[n]):\n    h = 0.0\n    for i in range(n):\n"
    f = adc.grad(adc.compile(source + "        h = tanh(h * w[i] + x[i])\n    return h"))
    forward, slopes, back = counted(f, np.ones(7), np.ones(7))[2]
    assert [operations(part).get("exp", 0) for part in (forward, slopes, back)] == [7, 7, 0]
    assert operations(back) == {"multiply": 4 * 7, "add": 7, "square": 7, "divide": 7}
    made, _, _, counts = counted(adc.value_and_grad(adc.compile("x * sin(y)")), 1.0, 2.0)
    assert operations(counts.numbers(made.rest)) == {"sin": 1, "cos": 1, "multiply": 2}


def test_products_of_matrices_are_counted_as_fused_loops_and_as_calls():
    small, large = np.ones((8, 8)), np.ones((128, 128))
    for a in (small, large):
        found = counted(adc.compile("a @ b"), a, a)[2]
        n = len(a) ** 3
        assert [operations(w) for w in found] == [{"multiply": n, "add": n}], found


def test_a_length_that_the_program_computes_is_not_exact():
    source = "def f(x: f64[n], k: i64[m]):\n    return sum(x[i] for i in range(sum(k)))"
    assert not counted(adc.compile(source), np.ones(9), np.array([2, 3]))[2][-1].exact


def test_costly_operations_that_several_loops_repeat_are_found():
    f = adc.compile("def f(x: f64[n]):\n    e = exp(x)\n    return sum((e - sum(e))**2)")
    made, _, _, counts = counted(f, np.ones(10))
    assert counts.repeated(made.items) == ["exp (2 times)"]
    made, _, _, counts = counted(adc.compile("exp(x) + 1"), np.ones(10))
    assert counts.repeated(made.items) == []


def test_weights_follow_the_table_of_costs():
    assert [cost.weight(op) for op in ("add", "fma", "exp", "divide")] == [1, 2, cost.WEIGHT, cost.WEIGHT]
    assert all(cost.weight(op) for op in TABLE)


# -- measurements --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "sum(sin(x) * y)",
        "def f(x, y):\n    s = 0.0\n    for a in x:\n        s = sin(s) + a\n    return s + sum(y)",
    ],
)
def test_the_clock_changes_nothing_in_the_nests(source):
    x = np.linspace(0.1, 1, 3000)
    made, sizes, works, _ = counted(adc.compile(source), x, x)
    plain = emit(scheduled(made.func))
    assert made.kernel.text.split("def run(")[0] == plain.text.split("def run(")[0]
    times = seconds(made, sizes, [x, x], 0.01)
    if times is None:
        pytest.skip("no clock on this processor")
    assert len(times) == len(works)
    assert all(0 < t < 1 for t in times)
    _, found = made.launch(sizes, [x, x])
    assert found[: len(plain.plan.returned)] == [adc.compile(source)(x, x)]


CALLS, CALL, RATE = 50, 0.001, 3e9  # calls of a millisecond each, of a clock of 3 GHz


def stamped(pauses: dict[tuple[int, str], float]) -> tuple[list[float], list[int], list[int]]:
    """Times and ticks of calls that are interrupted for so many seconds: "before" the first tick of a call,
    "inside" it, or "after" its last tick."""
    now, times, first, last = 1.0, [1.0], [], []
    for k in range(CALLS):
        now += 1e-6 + pauses.get((k, "before"), 0.0)
        first.append(round(now * RATE))
        now += CALL + pauses.get((k, "inside"), 0.0)
        last.append(round(now * RATE))
        now += 1e-6 + pauses.get((k, "after"), 0.0)
        times.append(now)
    return times, first, last


@pytest.mark.parametrize("where", ["before", "inside", "after"])
@pytest.mark.parametrize("call", [0, 1, CALLS // 2, CALLS - 2, CALLS - 1])
def test_an_interruption_makes_no_clock_faster(call, where):
    """A stop of two seconds in fifty milliseconds, as of a machine that others use, once made operations of
    float32 forty times too many a second, and the figure was kept."""
    for stops in ({}, {(call, where): 2.0}, {(k, where): 0.1 for k in range(0, CALLS, 11)}):
        found = ticks_a_second(*stamped(stops))
        assert 0.98 * RATE < found < 1.0001 * RATE


class Interrupted:
    """A timed kernel of two items, whose clock went wrong once and whose second item does not run."""

    items, has_clock = ("nest", "branch"), True

    def __init__(self) -> None:
        self.calls = 0

    def launch(self, sizes, args):
        self.calls += 1
        start = self.calls * 1000
        stop = start - 50 if self.calls == 3 else start + 100  # on two processors
        return None, [start, stop, 0, 0]


def test_ticks_that_run_backwards_are_no_time():
    found = seconds(Interrupted(), [], [], 0.0)
    assert found[0] > 0
    assert found[1] == 0


def test_a_nest_on_a_branch_that_is_not_taken_does_not_run(quick):
    f = adc.compile("def f(x: f64[n], c):\n    s = 0.0\n    if c > 0:\n        s = sum(exp(x))\n    return s")
    x = np.ones(100)
    assert "measured  not run on this machine" in f.explain((), x, -1.0, cost=True)
    assert "not run on this machine" not in f.explain((), x, 1.0, cost=True)


def test_ceilings_are_kept_and_only_become_better(quick, monkeypatch, tmp_path):
    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path))
    first = ceilings.ceilings(1)
    ceilings.ceilings.cache_clear()
    monkeypatch.setattr(ceilings, "_measured", lambda threads: pytest.fail("it was measured again"))
    assert ceilings.ceilings(1) == first
    better = {"65536": 1e15, "1048576": 1.0, "f32": 1.0, "f64": 2e15, "scalar": 1.0}
    monkeypatch.setattr(ceilings, "_measured", lambda threads: better)
    ceilings.measure_again([1], [])
    after = ceilings.ceilings(1)
    assert (after.bandwidth[2**16], after.rate["f64"]) == (1e15, 2e15)
    assert (after.bandwidth[2**20], after.rate["f32"]) == (first.bandwidth[2**20], first.rate["f32"])


def test_bandwidth_is_that_of_the_footprint():
    found = ceilings.Ceilings("", 1, {2**10: 100.0, 2**20: 10.0}, {})
    assert found.moving(2**9) == 2**9 / 100
    assert found.moving(2**30) == 2**30 / 10
    assert 2**15 / 100 < found.moving(2**15) < 2**15 / 10


@pytest.mark.parametrize("op", ["exp", "divide", "power", "polygamma", "atan2"])
def test_costly_operations_are_timed(quick, op):
    assert 1e-11 < ceilings.seconds_of(op, "f64") < 1e-3


# -- reports -------------------------------------------------------------------------------------

MODEL = "def loss(x: f64[n], y: f64[n], a):\n    return sum((y - exp(-a * x))**2)\n"
REPORT = """\
loss: cost for n = 100
  PROCESSOR
value: TIME per call, 1 thread
  nest 0: n = 100: computes r
    moves     1.6 kB: reads x, y
    computes  500 operations, 100 exp (as 10 each): RATE per byte
    roofline  TIME: moving takes TIME, computing TIME
    measured  TIME, the roofline is SHARE of it
value and grad: TIME per call, 1 thread
  saves nothing: one fused program
"""


def neutral(text):
    """A report without what a machine and a moment decide."""
    text = re.sub(r"\n  [^\n]*measured maximum:(\n    [^\n]*)+", "\n  PROCESSOR", text)
    text = re.sub(r"[\d.]+ (s|ms|us|ns)\b", "TIME", text)
    text = re.sub(r"above the roofline: .*", "the roofline is SHARE of it", text)
    return re.sub(r"\d+%", "SHARE", re.sub(r"[\d.]+ per byte", "RATE per byte", text))


def test_adc_explain_cost_reports_each_kernel(quick, capsys, tmp_path):
    file = tmp_path / "model.adc"
    file.write_text(MODEL)
    assert main(["explain", str(file), "--cost", "--size", "n=100"]) == 0
    text = neutral(capsys.readouterr().out)
    lines = REPORT.splitlines()
    # Reasons for time that is lost depend on the time that was measured.
    found = [line for line in text.splitlines() if not line.startswith("    because")][: len(lines)]
    assert found[:5] == lines[:5]
    assert re.fullmatch(r"    computes  \d+ operations, 100 exp \(as 10 each\): RATE per byte", found[5])
    assert found[6] == lines[6]
    assert found[7] in (lines[7], lines[7].split(",")[0])
    assert found[8:] == lines[8:]
    kernels = [line.split(":")[0] for line in text.splitlines()[2:] if not line.startswith(" ")]
    assert kernels == ["value", "value and grad", "forward", "propagate"]
    assert "saves x: input, f64[n], 8 * n bytes (800 B here)" in text
    assert "makes again" in text


@pytest.mark.slow
def test_names_are_those_of_the_source(quick):
    loop = "    for i in range(2):\n        h = tanh(h @ p['w'])\n"
    source = f"def f(p, lambda_, größe, len_):\n    h = p['w'] * 2\n{loop}"
    f = adc.compile(source + "    return sum(h) * lambda_ + sum(größe) + len_[0] * len_[1]")
    p, x = {"w": np.ones((4, 4))}, np.ones(3)
    text = f.explain(None, p, 2.0, x, [1.0, 2.0], cost=True)
    assert "reads p['w']" in text
    assert "größe" in text
    assert "dlambda_" in text
    assert not re.search(r"\w*u5b|u27|\wu[0-9a-f]{2}", text)


def test_arrays_of_one_name_are_told_apart(quick):
    source = "def f(x: f64[n]):\n    y = exp(x - sum(x))\n    y = y / sum(y)\n    return sum(y**2)"
    text = adc.compile(source).explain(None, np.ones(9), cost=True)
    computed = re.findall(r"computes ([\w, ]+)$", text, re.MULTILINE)
    assert all(len(set(names.split(", "))) == len(names.split(", ")) for names in computed)


def test_sizes_are_short(quick):
    f = adc.compile("def f(x: f64[n], k: i64):\n    return sum(exp(x[k:k + 5] * x[1])**2)")
    f.split().forward(np.ones(20_000), 2)
    lines = [line.strip() for line in f.explain().splitlines()]
    assert "x: input, f64[n], 8 * n bytes (160 kB in the first call)" in lines
    assert "t0: temporary, f64[len(t0)], 8 * len(t0) bytes (40 B in the first call)" in lines


@pytest.mark.parametrize(
    ("measured", "says"), [(2.0, "is 50% of it"), (0.95, "is 100% of it"), (0.5, "busy")]
)
def test_no_nest_is_said_to_be_faster_than_the_machine(measured, says):
    assert says in cost._reached(1.0, measured)


def test_explain_cost_is_the_same_in_python(quick):
    f = adc.compile(MODEL)
    x = np.ones(10)
    assert f.explain(None, x, x, 1.0, cost=True).startswith("loss: cost for n = 10\n")
    gradient = adc.grad(f).explain("a", x, x, 1.0, cost=True)
    assert gradient.splitlines()[0] == "grad(loss): cost for n = 10"
    assert "nest" not in adc.compile("x * sin(y)").explain(None, 1.0, 2.0, cost=True)


def test_without_a_clock_a_kernel_is_timed_as_a_whole(quick, monkeypatch):
    monkeypatch.setattr(Timed, "has_clock", False)
    x = np.ones(10)
    one = adc.compile("x * 2").explain((), x, cost=True)
    assert "measured" in one
    two = adc.compile("def f(x: f64[n]):\n    e = exp(x)\n    return e / sum(e)").explain((), x, cost=True)
    assert "measured  " not in two
    assert "nests are timed one by one only on x86" in two


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--cost"], "the length n of x is missing"),
        (["--cost", "--size", "n=3", "--size", "k=2"], "--size k: no axis has this name"),
        (["--cost", "--size", "n=-3"], "--size n=-3 is not a length"),
        (["--cost", "--size", "0"], "--size 0 is not a length"),
        (["--size", "3"], "add --cost"),
    ],
)
def test_lengths_that_are_missing_or_wrong_are_errors(words, says, capsys, tmp_path):
    file = tmp_path / "model.adc"
    file.write_text(MODEL)
    assert main(["explain", str(file), *words]) == 2
    assert says in capsys.readouterr().err


def test_costs_need_arguments_and_the_cpu():
    with pytest.raises(adc.Error, match="depends on its arguments"):
        adc.compile(MODEL).explain(cost=True)
    with pytest.raises(adc.Error, match="costs are computed only for CPU kernels"):
        adc.compile("x * 2", backend="numpy").explain(None, 1.0, cost=True)


def test_adc_bench_takes_a_length_for_each_axis(capsys, tmp_path):
    file = tmp_path / "model.adc"
    file.write_text("def f(x: f64[n, d]):\n    return sum(x) / len(x) / len(x[0])\n")
    assert main(["bench", str(file), "--size", "5", "--size", "d=3", "--seconds", "0"]) == 0
    assert "propagate" in capsys.readouterr().out
