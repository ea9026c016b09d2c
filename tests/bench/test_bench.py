"""The suite itself: all ways to compute a workload agree, and the runner's logic holds. Nothing is timed."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bench import against, busy, compare, front, machine, paired, plot, report, runner, worker
from bench.isolate import HERE, reason, spawn
from bench.live import Live, LostError
from bench.runner import Settings
from bench.workload import PEERS, Target, Workload
from bench.workloads import every

os.environ["BENCH_PLAIN"] = "1"  # kernels by hand are imported later

ALL = every()
BY_HAND = [name for name, w in ALL.items() if "numba" in w.peers]
JUDGED = [name for name, w in ALL.items() if w.judge]
LIGHT = ("torch", "jax", "autograd", "casadi")  # torch.compile takes seconds a workload

pytestmark = pytest.mark.filterwarnings("ignore")  # of the peers: not ours to mend


def result(workload: Workload, who: str):
    return workload.build(who)(workload.arguments("tiny"), "cpu")()


def copied(found) -> list[np.ndarray]:
    return [np.array(a) for a in compare.leaves(found)]


# -- agreement -----------------------------------------------------------------------------------------


@pytest.mark.thinned(30)
@pytest.mark.parametrize("name", BY_HAND)
def test_the_kernel_by_hand_agrees(name):
    workload = ALL[name]
    assert (
        compare.differences(result(workload, "numba"), copied(result(workload, "ours")), workload.tolerance)
        == ""
    )


@pytest.mark.thinned(8)
@pytest.mark.parametrize("name", JUDGED)
def test_complex_steps_agree(name):
    workload = ALL[name]
    true = workload.judge(workload.arguments("tiny"), "cpu")()
    assert compare.differences(result(workload, "ours"), copied(true), workload.tolerance) == ""


@pytest.mark.thinned(8)
@pytest.mark.parametrize("name", ["kmeans", "gmm", "lstm", "ode", "ba", "pinn", "particles", "product-sum"])
def test_calls_do_not_depend_on_the_ones_before(name):
    """Kernels by hand write into the same buffers: a second call gives the same."""
    workload = ALL[name]
    run = workload.peers["numba"](workload.arguments("tiny"), "cpu")
    first = copied(run())
    assert compare.differences(run(), first, 0.0) == ""


@pytest.mark.slow
@pytest.mark.parametrize("who", LIGHT)
@pytest.mark.parametrize("name", ALL)
def test_peers_agree(name, who):
    workload = ALL[name]
    if runner.applies(workload, who, "cpu"):
        pytest.skip(runner.applies(workload, who, "cpu"))
    assert (
        compare.differences(result(workload, who), copied(result(workload, "ours")), workload.tolerance) == ""
    )


@pytest.mark.parametrize("name", ["rosenbrock", "hessian", "pairwise-double"])
@pytest.mark.parametrize("who", ["autograd", "casadi"])
def test_light_peers_agree(name, who):
    test_peers_agree(name, who)


@pytest.mark.parametrize("name", ALL)
def test_a_workload_is_complete(name):
    workload = ALL[name]
    assert workload.name == name
    assert set(workload.sizes) == {"full", "quick", "tiny"}
    assert workload.about.endswith(".")
    assert set(workload.peers) | set(workload.absent) == set(PEERS)
    assert not set(workload.peers) & set(workload.absent)
    assert (name in BY_HAND) != (name in JUDGED)
    assert (Target(0.9, "numba") in workload.all_targets()) == (name in BY_HAND)


# -- comparison ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ((1.0, [np.ones(3)]), (1.0, (np.ones(3),)), ""),
        (np.ones((3, 1)), np.ones(3), ""),
        (1.0 + 1e-12, 1.0, ""),
        (1.0 + 1e-6, 1.0, "differs"),
        (np.nan, 1.0, "inf"),
        (1.0, np.inf, "inf"),
        (np.ones(4), np.ones(3), "differs"),
        ((1.0, 2.0), 1.0, "2 results instead of 1"),
    ],
)
def test_differences(one, other, word):
    found = compare.differences(one, other, 1e-9)
    assert word in found
    assert bool(found) == bool(word)


# -- the runner ----------------------------------------------------------------------------------------


def simple(**changes) -> Workload:
    known = dict(ALL["rosenbrock"].__dict__) | changes
    return Workload(**known)


def constant(value: float):
    return lambda args, device: lambda: value


def test_who_disagrees_is_not_timed():
    def broken(error):
        def build(args, device):
            raise error

        return build

    peers = {"a": constant(1.0), "b": constant(2.0), "c": broken(MemoryError()), "d": broken(KeyError("x"))}
    workload = simple(ours=constant(1.0), peers=peers)
    runs, entries = worker.checked(workload, (), ["ours", "a", "b", "c", "d"], "cpu")
    assert list(runs) == ["ours", "a"]
    assert entries["b"]["skipped"].startswith("disagrees")
    assert entries["c"]["skipped"] == "needs more memory than there is"
    assert entries["d"]["skipped"] == "failed: KeyError: 'x'"


def test_a_slow_peer_is_not_timed(monkeypatch):
    monkeypatch.setattr(worker, "SLOWEST", -1.0)
    workload = simple(ours=constant(1.0), peers={"a": constant(1.0)})
    assert worker.checked(workload, (), ["a"], "cpu")[1]["a"]["skipped"] == "too slow: 0 s a call"
    assert report.short("too slow: 0 s a call") == "too slow"


def test_everyone_is_called_in_iteration(monkeypatch):
    monkeypatch.setattr(worker, "ITERATION", 0.0)
    monkeypatch.setattr(worker, "SHORTEST", 0.0)
    called = []
    runs = {who: (lambda who=who: called.append(who)) for who in "ab"}
    monkeypatch.setattr(worker, "ITERATION", 1e-9)
    samples = worker.in_iteration(runs, 2)
    assert called[0] == "a"
    assert "".join(called).replace("aa", "a").replace("bb", "b").startswith("ab")
    assert all(len(s) >= 2 for s in samples.values())


def test_a_iteration_groups_short_calls():
    count = []
    samples = worker.in_iteration({"a": lambda: count.append(0)}, 1)["a"]
    assert len(count) > 10 * len(samples)


def test_summary():
    assert worker.summary([3.0]) == {"median": 3.0, "low": 3.0, "high": 3.0, "samples": 1}
    found = worker.summary([1.0, 2.0, 3.0, 100.0])
    assert found["median"] == 2.5
    assert found["low"] < 2.5 < found["high"]


ENTRIES = {
    "ours": {"median": 1.0},
    "numba": {"median": 0.8},
    "torch": {"median": 7.0},
    "jax": {"median": 5.0},
    "autograd": {"skipped": "too slow: 23 s a call"},
}


def test_targets():
    workload = simple(targets=(Target(6.0), Target(4.0, "jax"), Target(2.0, "autograd")))
    found = runner.targets(workload, ENTRIES)
    assert [(t["against"], t["ratio"], t["met"]) for t in found] == [
        ("jax", 5.0, False),
        ("jax", 5.0, True),
        ("autograd", None, None),
        ("numba", 0.8, False),
    ]


def test_nothing_measured_meets_nothing():
    found = runner.targets(simple(), {"ours": {"skipped": "failed"}, "jax": {"median": 1.0}})
    assert {t["met"] for t in found} == {None}


def test_why_a_peer_is_left_out(monkeypatch):
    workload = simple(peers={"numba": constant(1.0), "torch": constant(1.0)}, absent={"jax": "no reason"})
    assert runner.applies(workload, "jax", "cpu") == "no reason"
    assert runner.applies(workload, "casadi", "cpu") == "not written"
    assert runner.applies(workload, "numba", "cpu") == ""
    assert runner.applies(workload, "numba", "cuda") == "no such device"
    monkeypatch.setattr(runner, "find_spec", lambda name: None)
    assert runner.applies(workload, "torch", "cpu") == "not installed"


@pytest.mark.parametrize(
    ("code", "text", "word"),
    [
        (-9, "", "memory"),
        (1, "Traceback\nMemoryError: Unable to allocate", "memory"),
        (-6, "terminate called after throwing an instance of 'std::bad_alloc'", "memory"),
        (1, "Traceback\nValueError: bad", "failed: ValueError: bad"),
        (3, "", "code 3"),
    ],
)
def test_reasons(code, text, word):
    assert word in reason(code, text)


def test_a_process_measures_and_answers():
    found = spawn(Settings("tiny", 1).task("first", ALL["rosenbrock"], "numba"), 120.0)
    assert found["first"] > 0


def test_a_process_that_takes_too_long_is_ended():
    start = time.perf_counter()
    found = spawn(Settings("tiny", 1).task("first", ALL["rosenbrock"], "numba"), 0.05)
    assert "until the second call" in found["skipped"]
    assert time.perf_counter() - start < 20


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_memory_of_a_call():
    """The Hessian's matrix of 100 × 100 is small, the kernel's outputs of a million are not."""
    workload = ALL["product-sum"]
    task = Settings("quick", 1).task("memory", workload, "numba")
    found = spawn(task, 120.0)
    assert found["memory"] >= 2 * 500_000 * 8 * 0.9


# -- pairs ---------------------------------------------------------------------------------------------

TINY = Settings("tiny", 2, probe=False)


def test_pairs_alternate_who_goes_first():
    asked = []
    pairs = paired.alternate(lambda: asked.append("a") or 1.0, lambda: asked.append("b") or 3.0, 3)
    assert "".join(asked) == "abbaab"
    assert pairs == [(1.0, 3.0)] * 3


def test_a_ratio_and_its_interval():
    """Three logarithms with mean 0 and deviation 1: Student's 0.975 quantile of two degrees is 4.3027."""
    found = paired.compared([(1.0, np.exp(k)) for k in (-1, 0, 1)])
    assert found["ratio"] == pytest.approx(1)
    assert np.log([found["low"], found["high"]]) == pytest.approx(
        [-4.3027 / 3**0.5, 4.3027 / 3**0.5], rel=1e-4
    )
    assert paired.compared([(2.0, 1.0)]) | {"low": 0.0, "high": np.inf} == paired.compared([(2.0, 1.0)])


def test_a_worker_that_stays_alive():
    task = TINY.task("serve", ALL["rosenbrock"], "ours")
    with Live(task, 120.0, PYTHONPATH=HERE) as worker:
        assert compare.differences(worker.ready(), copied(result(ALL["rosenbrock"], "ours")), 1e-12) == ""
        assert all(worker.ask(1e-9)["mean"] > 0 for _ in range(2))


def test_a_worker_that_ends_says_why():
    task = TINY.task("serve", ALL["rosenbrock"], "nobody")
    with Live(task, 120.0) as worker, pytest.raises(LostError, match="failed: KeyError: 'nobody'"):
        worker.ready()


@pytest.mark.slow
def test_a_checkout_beside_itself():
    found = against.against(ALL["rosenbrock"], Path(HERE), TINY)
    assert found["times"]["low"] <= found["times"]["ratio"] <= found["times"]["high"]
    text = against.table({"workloads": {"rosenbrock": found, "ode": {"skipped": "failed: why"}}})
    assert "| rosenbrock " in text
    assert "failed: why" in text


def test_the_other_checkout_is_the_one_that_runs(tmp_path):
    (tmp_path / "adcompiler").mkdir()
    (tmp_path / "adcompiler/__init__.py").write_text("raise ImportError('the other one')")
    found = against.against(ALL["rosenbrock"], tmp_path, TINY)
    assert found["skipped"] == "failed: ImportError: the other one"


def state(pid: int) -> str:
    """R where a process runs or could, T where it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_spinning_processes_are_stopped_between():
    with busy.spinners(1) as others:
        (process,) = others.processes
        seen = []
        for on in (False, True, False):
            others.spin(on)
            seen.append(state(process.pid))
    assert seen == ["T", "R", "T"]
    assert process.returncode is not None


@pytest.mark.slow
def test_busy_beside_alone():
    with busy.spinners(2) as others:
        found = busy.busy(ALL["arma"], ("casadi",), TINY, others)
    assert found["entries"]["casadi"] == {"skipped": "not written"}
    assert found["entries"]["ours"]["ratio"] > 0
    assert "| arma " in busy.table({"workloads": {"arma": found}})


# -- the report ----------------------------------------------------------------------------------------

RESULTS = {
    "machine": {"processor": "p", "vectors": "avx2", "cores": 2, "threads": 2, "system": "s", "versions": {}},
    "size": "full",
    "backend": "cpu",
    "workloads": {
        "w": {
            "about": "A workload.",
            "entries": {
                "ours": {
                    "median": 1e-3, "low": 0.9e-3, "high": 1.1e-3, "first": 0.5, "import": 0.1, "warm": 0.2,
                    "memory": 12_000_000,
                },
                "jax": {"median": 5e-3, "low": 5e-3, "high": 5e-3},
                "torch": {"skipped": "needs more memory than there is"},
                "autograd": {"skipped": "too slow: 23 s a call"},
            },
            "targets": [
                {"against": "jax", "target": 4.0, "ratio": 5.0, "met": True},
                {"against": "numba", "target": 0.9, "ratio": None, "met": None},
            ],
        }
    },
}  # fmt: skip


def test_tables():
    text = report.tables(RESULTS)
    assert "1.00 ms ±10%" in text
    assert "| JAX " in text
    assert "yes" in text
    assert "not measured" in text
    assert "- torch: needs more memory than there is (w)" in text
    assert "0.50 + 0.10" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "—"), (2.5, "2.50 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.50 µs"), (3e-8, "30.0 ns")],
)
def test_times_in_words(value, text):
    assert report.seconds(value) == text


@pytest.mark.slow
def test_the_page_is_written(tmp_path):
    report.publish(RESULTS, tmp_path)
    assert "A workload." in (tmp_path / "benchmarks.md").read_text("utf-8")
    assert json.loads((tmp_path / "benchmarks.json").read_text("utf-8"))["size"] == "full"
    assert "<svg" in (tmp_path / "benchmarks.svg").read_text("utf-8")


def test_the_charts_show_the_figures_of_the_page(tmp_path):
    docs = Path(__file__).parents[2] / "docs"
    results = json.loads((docs / "benchmarks.json").read_text("utf-8"))
    front.draw(results, tmp_path)
    assert (docs / "benchmarks.svg").read_text("utf-8") == plot.chart(results)
    for theme in ("light", "dark"):
        drawn = ElementTree.parse(tmp_path / f"benchmarks-{theme}.svg").getroot()
        words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert {*front.WORKLOADS, *front.PEERS.values()} <= {*words}
        assert (tmp_path / f"benchmarks-{theme}.svg").read_text() == (
            docs / f"benchmarks-{theme}.svg"
        ).read_text()


def test_the_page_says_when_its_figures_were_taken():
    assert "**Measured on an unknown date. Later changes" in report.page(RESULTS)
    old = report.page(RESULTS | {"taken": {"date": "2026-11-22", "commit": "2981ee1"}})
    assert "**Measured on 2026-11-22 at commit 2981ee1. Later changes" in old
    now = machine.taken()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", now["date"])
    assert re.fullmatch(r"([0-9a-f]{7,}\+?)?", now["commit"])  # none in what is no checkout


def test_the_command_line():
    from typer.testing import CliRunner

    from bench.cli import app

    shown = CliRunner().invoke(app, ["--list"])
    assert shown.exit_code == 0
    assert "gmm" in shown.output
    assert CliRunner().invoke(app, ["--only", "nonsense"]).exit_code == 2
    assert CliRunner().invoke(app, ["--backend", "tpu"]).exit_code == 2
    assert CliRunner().invoke(app, ["--against", "/"]).exit_code == 2
    assert CliRunner().invoke(app, ["--busy", "--write"]).exit_code == 2
