"""Proof of the CUDA backend on a device: every result against the other backends, and times.

    python -m tests.gpu.prove            # all of it, under eight minutes
    python -m tests.gpu.prove --quick    # small sizes only; runs in numba's simulator too

A failing case does not stop the others. Prints a table, and writes cuda.json and cuda.md into $OUT, if
that is set. The exit status is 1 if anything was wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import adcompiler as adc
from tests.gpu.peers import peer
from tests.gpu.workloads import FEATURES, WORKLOADS, Workload

SECONDS = 440.0  # after which no other case begins
QUICK = "--quick" in sys.argv
START = time.perf_counter()


def main() -> int:
    """Run everything; returns the exit status."""
    from numba import cuda

    rows: list[dict[str, Any]] = []
    device = str(getattr(cuda.get_current_device(), "name", "numba's simulator"))
    record(rows, "device", lambda: {"device": device})
    for name, source, make in FEATURES:
        record(rows, f"feature {name}", lambda s=source, m=make: feature(s, m))
    for work in WORKLOADS:
        for dtype in work.dtypes:
            record(rows, f"{work.name} {dtype} right", lambda w=work, d=dtype: right(w, d))
    record(rows, "same bits", same_bits)
    if not QUICK:
        record(rows, "first kernel", first_kernel)
        bandwidth = record(rows, "copy", copy_bandwidth).get("GB/s", float("nan"))
        for work in WORKLOADS:
            for dtype in work.dtypes:
                record(rows, f"{work.name} {dtype} time", lambda w=work, d=dtype: timed(w, d, bandwidth))
        for work in WORKLOADS:
            for library in ("torch", "jax", "cupy"):
                if library in work.peers and find_spec(library) is not None:
                    record(
                        rows, f"{work.name} by {library}", lambda w=work, name=library: peer(w, name, times)
                    )
    write(rows)
    return int(any("error" in row for row in rows))


def record(rows: list[dict[str, Any]], name: str, case: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run one case, print its row, and remember it; what it raises is its result."""
    if time.perf_counter() - START > SECONDS:
        rows.append({"case": name, "skipped": "out of time"})
        return rows[-1]
    begun = time.perf_counter()
    try:
        found = case()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        lines = traceback.format_exception(error)
        found = {"error": f"{type(error).__name__}: {error}"[:600], "trace": "".join(lines)[-3000:]}
    row = {"case": name, **found, "seconds": round(time.perf_counter() - begun, 2)}
    rows.append(row)
    shown = {k: v for k, v in row.items() if k not in ("case", "trace")}
    print(f"{name:<28}", ", ".join(f"{k} {v}" for k, v in shown.items()), flush=True)
    return row


# -- right -----------------------------------------------------------------------------------------


def flat(value: Any) -> Iterator[Any]:
    """The leaves of nested results; None for what has no gradient."""
    if isinstance(value, tuple | list):
        for part in value:
            yield from flat(part)
    else:
        yield value


def distance(found: Any, expected: Any) -> float:
    """The largest error, relative to the largest element; inf where shapes, Nones or NaNs differ."""
    worst = 0.0
    for x, y in zip(flat(found), flat(expected), strict=True):
        if (x is None) != (y is None):
            return float("inf")
        if x is None:
            continue
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape or x.dtype != y.dtype or not np.array_equal(np.isnan(x), np.isnan(y)):
            return float("inf")
        scale = max(float(np.max(np.abs(np.nan_to_num(y)), initial=0.0)), 1e-30)
        with np.errstate(invalid="ignore"):
            error = np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64))
        worst = max(worst, float(np.max(np.nan_to_num(error), initial=0.0)) / scale)
    return worst


def judged(pairs: dict[str, tuple[Any, Any]], tolerance: float) -> dict[str, Any]:
    """The errors of some results; AssertionError if one is too large."""
    errors = {name: distance(*pair) for name, pair in pairs.items()}
    assert all(e <= tolerance for e in errors.values()), f"errors {errors} beyond {tolerance}"
    return {name: f"{e:.1e}" for name, e in errors.items()}


def feature(source: str, make: Callable[[np.random.Generator], tuple[Any, ...]]) -> dict[str, Any]:
    """One feature: value, gradients, and a second derivative, against the NumPy backend."""
    args = make(np.random.default_rng(1))
    if QUICK:
        args = tuple(cut(a) for a in args)
    single = any(getattr(a, "dtype", None) == np.float32 for a in args)
    calls = {backend: programs(source, backend, args) for backend in ("cuda", "numpy")}
    pairs = {name: (calls["cuda"][name](*args), calls["numpy"][name](*args)) for name in calls["cuda"]}
    return judged(pairs, 2e-4 if single else 1e-8)


def cut(value: Any) -> Any:
    """A small part of an argument, for the simulator; square matrices stay square."""
    return value[tuple(slice(0, 7) for _ in value.shape)] % 7 if hasattr(value, "shape") else value


def programs(source: str, backend: str, args: tuple[Any, ...]) -> dict[str, Any]:
    """A function, the gradient of its sum, and that of the gradient's square."""
    f = adc.compile(source, backend=backend)
    total = f if np.ndim(f(*args)) == 0 else None
    if total is None:
        return {"value": f, "split": lambda *a: pulled(f, *a)}
    return {"value": f, "gradient": adc.grad(f), "split": lambda *a: pulled(f, *a), "second": second(f)}


def pulled(f: Any, *args: Any) -> Any:
    """The gradients by explicit forward and propagate, for cotangents of ones."""
    parts = f.split()
    results, saved = parts.forward(*args)
    return parts.propagate(saved, np.ones_like(results))


def second(f: Any) -> Any:
    """The gradient once more, along itself: by forward mode over reverse mode."""
    gradient = adc.grad(f)

    def call(*args: Any) -> Any:
        tangents = tuple(np.ones_like(a) if np.asarray(a).dtype.kind == "f" else None for a in args)
        return adc.jvp(gradient, args, tangents)

    return call


def arguments(work: Workload, n: int, dtype: str) -> tuple[Any, ...]:
    """The arguments of a workload."""
    return tuple(work.make(np.random.default_rng(0), n, dtype).values())


def right(work: Workload, dtype: str) -> dict[str, Any]:
    """A workload at a small size against the CPU backend."""
    args = arguments(work, 9 if QUICK else work.small, dtype)
    functions = [adc.compile(work.text(dtype), backend=b) for b in ("cuda", "cpu")]
    found, expected = (adc.value_and_grad(f, wrt=work.wrt)(*args) for f in functions)
    return judged({"value and gradient": (found, expected)}, work.tolerance if dtype == "float64" else 1e-3)


def same_bits() -> dict[str, Any]:
    """Sums and scatters have the same bits in every run."""
    for work in WORKLOADS:
        args = arguments(work, 9 if QUICK else work.small, "float64")
        f = adc.value_and_grad(adc.compile(work.source, backend="cuda"), wrt=work.wrt)
        first = [np.asarray(x).tobytes() for x in flat(f(*args))]
        for _ in range(1 if QUICK else 5):
            assert [np.asarray(x).tobytes() for x in flat(f(*args))] == first, work.name
    return {"programs": len(WORKLOADS)}


# -- fast ------------------------------------------------------------------------------------------


def times(call: Callable[[], Any], seconds: float = 1.0) -> dict[str, Any]:
    """The first call of a function, and the median of the calls after it, in milliseconds."""
    from numba import cuda

    found: list[float] = []
    while not found or (sum(found) < seconds and len(found) < 100) or len(found) < 4:
        cuda.synchronize()
        begun = time.perf_counter()
        call()
        cuda.synchronize()
        found.append(time.perf_counter() - begun)
    first, *rest = found
    return {"first ms": round(1e3 * first, 1), "ms": round(1e3 * median(rest), 4)}


def timed(work: Workload, dtype: str, bandwidth: float) -> dict[str, Any]:
    """Value and gradient of arguments on the device; the share of the copy bandwidth that it reaches."""
    from numba import cuda

    args = arguments(work, work.large, dtype)
    held = [cuda.to_device(a) for a in args]
    f = adc.value_and_grad(adc.compile(work.text(dtype), backend="cuda"), wrt=work.wrt)
    before = cuda.current_context().get_memory_info().free
    found = times(lambda: f(*held))
    found["MB more"] = round((before - cuda.current_context().get_memory_info().free) / 2**20)
    if work.moved is not None:
        rate = work.moved(work.large) * np.dtype(dtype).itemsize / found["ms"] / 1e6
        found |= {"GB/s": round(rate), "of copy": round(rate / bandwidth, 3)}
    return found


def copy_bandwidth() -> dict[str, Any]:
    """What a copy of an array on the device moves, reads and writes together."""
    from numba import cuda

    length = 2**27
    source, target = cuda.device_array(length, np.float64), cuda.device_array(length, np.float64)
    found = times(lambda: target.copy_to_device(source))
    return {**found, "GB/s": round(2 * 8 * length / found["ms"] / 1e6)}


FIRST = """
import time
begun = time.perf_counter()
import numpy as np, adcompiler as adc
x = np.ones(1000)
imported = time.perf_counter()
adc.value_and_grad(adc.compile("sum((a + b) * b)", backend="cuda"))(x, x)
print(imported - begun, time.perf_counter() - imported)
"""


def first_kernel() -> dict[str, Any]:
    """The first value and gradient in a fresh process, with an empty cache and with what that left."""
    import tempfile

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "ADC_CACHE_DIR": folder}
        for name in ("cold", "warm"):
            done = subprocess.run(
                [sys.executable, "-c", FIRST], env=env, capture_output=True, text=True, check=True
            )
            found[f"{name} s"] = round(float(done.stdout.split()[-1]), 2)
    return found


# -- written ---------------------------------------------------------------------------------------


def write(rows: list[dict[str, Any]]) -> None:
    """The summary as JSON and as a table, if $OUT is a folder."""
    wrong = [row["case"] for row in rows if "error" in row]
    print(f"\n{len(rows)} cases, {len(wrong)} wrong {wrong}, {time.perf_counter() - START:.0f} s")
    folder = os.environ.get("OUT")
    if not folder:
        return
    Path(folder, "cuda.json").write_text(json.dumps(rows, indent=1), "utf-8")
    lines = ["| case | result |", "| --- | --- |"]
    for row in rows:
        cells = (f"{k} {v}" for k, v in row.items() if k not in ("case", "trace"))
        lines.append(f"| {row['case']} | {', '.join(cells)} |".replace("\n", " "))
    Path(folder, "cuda.md").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
