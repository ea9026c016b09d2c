"""`adc.dask` on a cluster: the same bits on any number of workers, kernels once a worker, studies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adcompiler as adc

dask = pytest.importorskip("dask", reason="needs dask[array,distributed]")
da = pytest.importorskip("dask.array", reason="needs dask[array,distributed]")
distributed = pytest.importorskip("distributed", reason="needs dask[array,distributed]")

SOURCE = "def f(x, m, s):\n    return log(mean((x - m)**2 * exp(-s * x))) + max(x * s)"


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    """A client of so many processes of one thread, on the loopback."""
    with (
        dask.config.set({"distributed.worker.memory.terminate": False}),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster(2) as found:
        yield found


def bits(value: Any) -> list[bytes]:
    return [np.asarray(v).tobytes() for v in value]


def lazily(rows: int = 1000, chunk: int = 64) -> tuple[Any, ...]:
    """The value and the gradient by the parameters, of random numbers that workers make."""
    x = da.random.default_rng(3).random(rows, chunks=chunk)
    value, gradients = adc.dask.value_and_grad(adc.compile(SOURCE), ("m", "s"))(x, 0.4, 1.5)
    return value, *gradients


def test_a_cluster_gives_the_bits_of_one_process(client):
    assert bits(dask.compute(*lazily())) == bits(dask.compute(*lazily(), scheduler="sync"))


def test_kernels_are_compiled_once_a_worker(client):
    from adcompiler.interop.dask.worker import programs_here

    before = client.run(programs_here)
    for _ in range(3):  # of the same content: functions that are compiled here anew
        x = da.random.default_rng(3).random(1000, chunks=20)
        f = adc.compile("def f(x, a):\n    return sum(cos(a * x)**2)")
        dask.compute(*adc.dask.value_and_grad(f, "a")(x, 0.7))
    after = client.run(programs_here)
    assert {after[worker] - before[worker] for worker in after} == {1}


def test_errors_of_workers_are_ours(client):
    f = adc.compile("def f(x, w, k: i64[n]):\n    return sum(x * w[k])")
    lazy = adc.dask.value_and_grad(f)(da.ones(10, chunks=5), np.ones(3), np.arange(10) % 4)
    with pytest.raises(adc.OutOfRangeError, match="index is out of range"):
        lazy[0].compute()


@pytest.mark.slow
def test_one_and_four_workers_give_the_same_bits():
    found = []
    for workers in (1, 4):
        with cluster(workers):
            found.append(bits(dask.compute(*lazily(100_000, 1000))))
    assert found[0] == found[1]


def slowed(folder: Path, x: Any) -> Any:
    """An array whose blocks take a moment, and leave a file each when they are made."""

    def block(values: np.ndarray, block_info: Any = None) -> np.ndarray:
        time.sleep(0.02)
        Path(folder, f"{block_info[0]['chunk-location'][0]}-{time.monotonic_ns()}").touch()
        return values

    return x.map_blocks(block, dtype=x.dtype, meta=np.zeros(0))


@pytest.mark.slow
@pytest.mark.parametrize("time_of_death", range(20))
def test_a_worker_that_is_killed_changes_nothing(tmp_path, time_of_death):
    """One of two is killed when so many more blocks have been made; its nanny starts another one."""
    x = da.random.default_rng(time_of_death).random(4000, chunks=100)
    f = adc.value_and_grad(adc.compile(SOURCE), ("m", "s"))
    expected = dask.compute(f(x, 0.4, 1.5), scheduler="sync")[0]
    with cluster(2) as client:
        victim = next(iter(client.run(os.getpid).values()))
        value, slopes = f(slowed(tmp_path, x), 0.4, 1.5)
        futures = client.compute([value, *slopes])  # which makes each of 40 blocks three times
        while len(list(tmp_path.iterdir())) < 3 + 5 * time_of_death:
            assert not all(future.done() for future in futures)
            time.sleep(0.005)
        os.kill(victim, signal.SIGKILL)
        assert not all(future.done() for future in futures)
        found = [future.result(timeout=60) for future in futures]
    assert bits(found) == bits((expected[0], *expected[1]))


@pytest.mark.slow
def test_a_billion_elements_in_bounded_memory():
    """8 GB of numbers, read twice, on two workers: all processes together stay under 4 GB."""
    psutil = pytest.importorskip("psutil")
    most, over = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not over.wait(0.1):
            found = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    found += process.memory_info().rss
                except psutil.Error:
                    continue  # it has ended meanwhile
            most = max(most, found)

    with cluster(2):
        watcher = threading.Thread(target=watch)
        watcher.start()
        f = adc.compile("def f(x, m):\n    return log(mean((x - m)**2))")
        x = da.random.default_rng(0).random(1_000_000_000, chunks=10_000_000)
        value, slope = dask.compute(*adc.dask.value_and_grad(f, "m")(x, 0.25))
        over.set()
        watcher.join()
    variance = 1 / 12 + 0.25**2
    assert abs(value - np.log(variance)) < 1e-3
    assert abs(slope + 2 * 0.25 / variance) < 1e-3
    assert most < 4 * 10**9


# -- parameter studies -----------------------------------------------------------------------


def test_a_study_of_a_compiled_function_with_gradients(client):
    f = adc.compile("def f(k, p):\n    return sum((exp(-k * p['t']) - p['y'])**2)")
    p = {"t": np.linspace(0, 1, 5), "y": np.linspace(1, 0.2, 5)}
    rates = np.linspace(0.1, 3, 250)
    values, slopes = adc.dask.map(adc.value_and_grad(f, "k"), rates, p, in_axes=(0, None), progress=False)
    expected = [adc.value_and_grad(f, "k")(k, p) for k in rates]
    np.testing.assert_allclose(values, [v for v, _ in expected], rtol=1e-13)
    np.testing.assert_allclose(slopes, [s for _, s in expected], rtol=1e-12, atol=1e-13)


def test_a_study_of_fits(client):
    """Any function of Python: here Newton's method on each case."""
    f = adc.compile("def f(k, t, y):\n    return sum((exp(-k * t) - y)**2)")
    slope, curvature = adc.grad(f, "k"), adc.grad(adc.grad(f, "k"), "k")
    t = np.linspace(0, 1, 6)

    def fit(y: np.ndarray, start: float) -> float:
        k = start
        for _ in range(30):
            k = k - slope(k, t, y) / abs(curvature(k, t, y))
        return k

    rates = np.linspace(0.5, 2, 30)
    found = adc.dask.map(fit, np.exp(-rates[:, None] * t), 0.8, in_axes=(0, None), batch=7, progress=False)
    np.testing.assert_allclose(found, rates, rtol=1e-9)


def test_studies_of_containers_and_the_progress_bar(client, capsys):
    f = adc.compile("def f(p, a):\n    return sum(p['w'] * a) + p['b']")
    p = {"w": np.arange(12.0).reshape(6, 2), "b": np.arange(6.0)}
    gradients = adc.dask.map(adc.grad(f, "p"), p, 3.0, in_axes=(0, None), batch=4, progress=True)
    assert "Completed" in capsys.readouterr().out
    assert gradients["w"].tolist() == [[3.0, 3.0]] * 6
    assert gradients["b"].tolist() == [1.0] * 6


def root(a: float) -> dict[str, float]:
    if a < 0:
        raise ValueError("no real root")
    return {"root": a**0.5}


def test_an_error_says_of_which_case_it_is(client):
    with pytest.raises(ValueError, match="no real root") as caught:
        adc.dask.map(root, np.array([1.0, 4.0, -2.5, 9.0]), batch=3, progress=False)
    assert caught.value.__notes__ == ["adc.dask.map: this is case 2, of -2.5"]


def test_other_cases_are_not_lost(client):
    values = np.array([1.0, 4.0, -2.5, 9.0])
    found, failed = adc.dask.map(root, values, batch=3, progress=False, errors="return")
    assert found == [{"root": 1.0}, {"root": 2.0}, None, {"root": 3.0}]
    assert [(k, str(error)) for k, error in failed.items()] == [(2, "no real root")]


def test_a_failing_case_of_a_compiled_function_has_no_number(client):
    f = adc.compile("def f(x, k: i64[n]):\n    return sum(x[k]), x * 2, len(k)")
    places = np.array([[0, 1], [1, 2], [2, 3], [0, 0]])
    options = {"in_axes": (None, 0), "batch": 3, "progress": False}
    (sums, doubled, count), failed = adc.dask.map(f, np.arange(3.0), places, errors="return", **options)
    np.testing.assert_array_equal(sums, [1.0, 3.0, np.nan, 0.0])
    np.testing.assert_array_equal(doubled[:, 1], [2.0, 2.0, np.nan, 2.0])
    assert count.tolist() == [2, 2, 0, 2]
    assert list(failed) == [2]
    with pytest.raises(adc.OutOfRangeError) as caught:
        adc.dask.map(f, np.arange(3.0), places, **options)
    assert "case 2, of [2, 3]" in caught.value.__notes__[0]


def test_closures_and_random_numbers(client):
    """A lambda travels by its content, and equal parameters are runs of their own."""
    scale = 1e6
    found = adc.dask.map(
        lambda a: a + scale * np.random.default_rng().random(), np.zeros(6), batch=2, progress=False
    )
    assert len(set(found)) == 6


def test_errors_that_cannot_be_sent_are_told_in_words(client):
    class Odd(Exception):  # noqa: N818
        def __init__(self, why: str, lock: Any) -> None:
            super().__init__(why)
            self.lock = lock

    def odd(a: float) -> None:
        raise Odd(f"odd {a}", threading.Lock())

    _, failed = adc.dask.map(odd, np.ones(2), progress=False, errors="return")
    assert [str(error) for error in failed.values()] == ["Odd: odd 1.0"] * 2


def test_cancelled_batches_are_failed_cases(client, monkeypatch):
    started = type(client).map

    def cancelling(self: Any, *args: Any, **options: Any) -> Any:
        futures = started(self, *args, **options)
        self.cancel(futures[1:])
        return futures

    monkeypatch.setattr(type(client), "map", cancelling)
    found, failed = adc.dask.map(root, np.ones(4), batch=2, progress=False, errors="return")
    assert found[2:] == [None, None]
    assert {str(failed[k]).split("\n")[0] for k in (2, 3)} == {"the cases 2 to 3 were cancelled"}


def test_what_cannot_be_sent_or_compiled_is_refused_at_once(client):
    lock = threading.Lock()
    with pytest.raises(adc.Error, match="cannot be sent to workers"):
        adc.dask.map(lambda a: lock and a, np.ones(3))
    with pytest.raises(adc.Error, match="sum takes an array"):
        adc.dask.map(adc.compile("def f(x):\n    return sum(x)"), {"a": np.ones(3)})
    with pytest.raises(adc.Error, match="errors='ignore'"):
        adc.dask.map(root, np.ones(3), errors="ignore")
    with pytest.raises(adc.ShapeError, match="batch=0"):
        adc.dask.map(root, np.ones(3), batch=0)


@pytest.mark.parametrize(
    ("args", "axes", "why"),
    [
        ((np.ones(3), np.ones(4)), 0, r"\[3, 4\] cases"),
        ((np.ones(0), np.ones(0)), 0, r"\[0\] cases"),
        ((np.ones(3), 1.0), 0, "one entry per case"),
        ((np.ones(3), 1.0), (None, None), "0 for at least one"),
        ((np.ones(3), 1.0), (1, None), "0 or None for each"),
    ],
)
def test_a_study_says_what_its_arguments_lack(client, args, axes, why):
    with pytest.raises(adc.ShapeError, match=why):
        adc.dask.map(adc.compile("def f(x, a):\n    return x * a"), *args, in_axes=axes)
