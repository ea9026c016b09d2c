"""Proof of the CUDA backend on a device: every result against the other backends, and times.

    python -m tests.gpu.prove            # all of it, under eight minutes
    python -m tests.gpu.prove --quick    # the same at small sizes; runs in numba's simulator too
    python -m tests.gpu.prove --only 'feature (solve|loop)'    # the cases that a regular expression finds

A failing case does not stop the others, nor does one that kills its process, hangs, or breaks the device's
context (`supervised.py`). Prints a table, and writes cuda.json and cuda.md into $OUT, if that is set,
as results come. The exit status is 1 if anything was wrong.

It needs what adcompiler needs, and numba-cuda with its compiler: that of the extra "cuda", or CUDA's toolkit.
PyTorch, CuPy and JAX are compared with, and their arrays tried, where they are installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import adcompiler as adc
from tests.gpu import libraries, supervised
from tests.gpu.kernel_times import kernel_times
from tests.gpu.peers import peer
from tests.gpu.workloads import FEATURES, WORKLOADS, Workload

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = "lark", "numba", "numba_cuda", "scipy", "sympy"
TOOLKIT = "/usr/local/cuda"  # where numba-cuda looks for its compiler, if it is told
SECONDS = 440.0  # after which no other case begins
LAST = 470.0  # when the one that runs is stopped
LONGEST = 150.0  # of one case
QUICK = "--quick" in sys.argv
SLOWER = 4 if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" else 1
Case = tuple[str, Callable[[], dict[str, Any]]]
CHILD = "--child"  # the process that runs cases: the file of results follows, and when to end


def main() -> int:
    """Run everything; returns the exit status."""
    if CHILD in sys.argv:
        path, until = sys.argv[sys.argv.index(CHILD) + 1 :]
        return supervised.run(selected(cases(Path(path))), Path(path), float(until), device)
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        print(f"missing packages: {', '.join(missing)}")
        return 1
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else JAX takes most of the memory
    if Path(TOOLKIT).is_dir():
        os.environ.setdefault("CUDA_HOME", TOOLKIT)
    begun = time.time()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows")
        path.touch()
        command = supervised.again(CHILD, str(path), str(begun + SLOWER * SECONDS))
        rows = supervised.supervise(
            command, path, begun + SLOWER * LAST, SLOWER * LONGEST, supervised.written
        )
    wrong = [row["case"] for row in rows if "error" in row]
    print(f"\n{len(rows)} cases, {len(wrong)} wrong {wrong}, {time.time() - begun:.0f} s")
    return int(bool(wrong))


def selected(found: Iterator[Case]) -> Iterator[Case]:
    """The cases that `--only` asks for, and what all others need; all of them without it."""
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    return ((name, case) for name, case in found if name in ("device", "copy") or re.search(only, name))


def cases(path: Path) -> Iterator[Case]:
    """All cases by name. What needs results of earlier ones finds them in the file."""
    yield "device", device
    if any(row["case"] == "device" and "error" in row for row in supervised.read(path)):
        return
    for name, source, make in FEATURES:
        yield f"feature {name}", lambda s=source, m=make: feature(s, m)
    for work in WORKLOADS:
        for dtype in work.dtypes:
            yield f"{work.name} {dtype} right", lambda w=work, d=dtype: right(w, d)
    for launch in LAUNCHES:
        yield f"launched as {launch}", lambda way=launch: launched(way)
    yield "same bits", same_bits
    yield "large iterations", large_iterations
    yield "first kernel", first_kernel
    yield "copy", copy_bandwidth
    bandwidth = next((row.get("GB/s") for row in supervised.read(path) if row["case"] == "copy"), None)
    for work in WORKLOADS:
        for dtype in () if QUICK and work.name == "oscillator" else work.dtypes:  # long in the simulator
            yield f"{work.name} {dtype} time", lambda w=work, d=dtype: timed(w, d, bandwidth)
            if work.name == "pairwise":
                yield f"pairwise {dtype} without tiles", lambda w=work, d=dtype: untiled(w, d)
    yield "small calls", small_calls
    for work in WORKLOADS if "torch" in libraries.present() else ():
        yield f"{work.name} kernels", lambda w=work: kernels(w)
    for library in libraries.present():
        yield f"arrays of {library}", lambda name=library: judged(libraries.ALL[name](), 1e-4)
    for work in sorted(WORKLOADS, key=lambda w: w.moved is None):
        for library in libraries.present():
            if library in work.peers:
                yield f"{work.name} by {library}", lambda w=work, name=library: peer(w, name, times)
    yield "versions", libraries.imported


def device() -> dict[str, Any]:
    """What it runs on, and that a first kernel runs there."""
    from numba import cuda

    f = adc.compile("x * x", backend="cuda")
    assert f(3.0) == 9.0
    found = cuda.get_current_device()
    ready = getattr(found, "compute_capability", None)
    return {"name": str(getattr(found, "name", "numba's simulator")), "compute capability": str(ready)}


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


def feature(
    source: str, make: Callable[[np.random.Generator], tuple[Any, ...]], only: tuple[str, ...] = ()
) -> dict[str, Any]:
    """One feature: value, gradients, and a second derivative, against the NumPy backend; or some of these."""
    args = make(np.random.default_rng(1))
    if QUICK:
        args = tuple(cut(a) for a in args)
    single = any(getattr(a, "dtype", None) == np.float32 for a in args)
    calls = {backend: programs(source, backend, args) for backend in ("cuda", "numpy")}
    pairs = {name: (calls["cuda"][name](*args), calls["numpy"][name](*args)) for name in calls["cuda"]}
    pairs = {name: pair for name, pair in pairs.items() if name in only or not only}
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


NEVER, EVER = 0, 10**9
LAUNCHES = {
    "threads": {"busy": NEVER, "enough": NEVER, "tile": EVER},
    "slices": {"busy": EVER, "enough": NEVER, "tile": EVER},
    "teams": {"busy": NEVER, "enough": EVER, "tile": EVER},
    "tiles": {"busy": NEVER, "enough": NEVER, "tile": 1},
    "slices of tiles": {"busy": EVER, "enough": NEVER, "tile": 1},
}


@contextmanager
def machine(**settings: int) -> Iterator[None]:
    """Launches are chosen by other numbers."""
    from adcompiler.targets.cuda import program

    before = program.MACHINE
    program.MACHINE = replace(before, **settings)
    try:
        yield
    finally:
        program.MACHINE = before


def launched(name: str) -> dict[str, Any]:
    """Some features by kernels that their lengths would not choose."""
    found = {}
    for feature_name, source, make in FEATURES:
        if feature_name in ("matrix", "broadcast", "triangle", "rows of points"):
            with machine(**LAUNCHES[name]):
                found[feature_name] = feature(source, make, ("value", "gradient"))
    return {k: max(v.values(), key=float) for k, v in found.items()}


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


ITERATIONS = """
def f(q, p, k, w):
    for t in range(len(w)):
        p = p - w[t] * k * sin(q)
        q = q + w[t] * p
    return sum(q * q + p * p)
"""


def large_iterations() -> dict[str, Any]:
    """A loop whose iterations the host launches: captured or one by one, on the default stream and on another
    one, with the same bits; and how long it takes."""
    from numba import cuda

    from adcompiler.targets.cuda import program
    from adcompiler.targets.cuda.device import arrays

    iterations, n = (6, 7) if QUICK else (400, 2**16)
    args = [np.random.default_rng(k).normal(size=n) for k in range(3)] + [np.full(iterations, 0.01)]
    held, expected = [cuda.to_device(a) for a in args], adc.value_and_grad(adc.compile(ITERATIONS))(*args)
    mine, found, bits = cuda.stream(), {}, set()
    with hosted() as replays:
        for name, fewest in ("captured", program.FEWEST_CAPTURED_ITERATIONS), ("one by one", EVER):
            f = adc.value_and_grad(adc.compile(ITERATIONS, backend="cuda"))
            program.FEWEST_CAPTURED_ITERATIONS = fewest
            for stream in 0, mine:
                arrays.STREAMS["numba"] = lambda s=stream: s
                replays.clear()
                value, gradients = f(*held)
                cuda.synchronize()
                result = value, tuple(g.copy_to_host() for g in gradients)
                judged({name: (result, expected)}, 1e-9)
                bits.add(tuple(np.asarray(x).tobytes() for x in flat(result)))
                assert replays == ([iterations - 1] * 2 if name == "captured" else []), f"{name}: {replays}"
            found[f"{name} ms"] = times(lambda f=f: f(*held))["ms"]
    assert len(bits) == 1
    return {"iterations": 2 * iterations, **found}


@contextmanager
def hosted() -> Iterator[list[int]]:
    """The host launches the iterations of loops; how many of each loop were launched by what has been
    captured."""
    from adcompiler.targets.cuda import executable, program
    from adcompiler.targets.cuda.device import arrays

    before, fewest, replayed = (
        executable.LARGE_ITERATION,
        program.FEWEST_CAPTURED_ITERATIONS,
        program._Call.replayed,
    )
    counts: list[int] = []

    def counted(self: Any, loop: Any, times: int) -> int:
        counts.append(replayed(self, loop, times))
        return counts[-1]

    executable.LARGE_ITERATION, program._Call.replayed = -1, counted  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        executable.LARGE_ITERATION, program.FEWEST_CAPTURED_ITERATIONS = before, fewest
        program._Call.replayed = replayed  # type: ignore[method-assign]
        arrays.STREAMS.pop("numba", None)


# -- fast ------------------------------------------------------------------------------------------


def times(call: Callable[[], Any]) -> dict[str, Any]:
    """The first call of a function, and the median of the calls after it, in milliseconds."""
    from numba import cuda

    seconds, fewest = (0.0, 2) if QUICK else (1.0, 4)
    found: list[float] = []
    while not found or (sum(found) < seconds and len(found) < 100) or len(found) < fewest:
        cuda.synchronize()
        begun = time.perf_counter()
        call()
        cuda.synchronize()
        found.append(time.perf_counter() - begun)
    first, *rest = found
    return {"first ms": round(1e3 * first, 1), "ms": round(1e3 * median(rest), 4)}


def timed(work: Workload, dtype: str, bandwidth: float | None) -> dict[str, Any]:
    """Value and gradient of arguments on the device; the share of the copy bandwidth that it reaches."""
    from numba import cuda

    n = 9 if QUICK else work.large
    held = [cuda.to_device(a) for a in arguments(work, n, dtype)]
    f = adc.value_and_grad(adc.compile(work.text(dtype), backend="cuda"), wrt=work.wrt)
    before = free_memory()
    found = times(lambda: f(*held))
    found["MB more"] = round((before - free_memory()) / 2**20)
    if work.moved is not None:
        rate = work.moved(n) * np.dtype(dtype).itemsize / found["ms"] / 1e6
        found |= {"GB/s": round(rate), "of copy": round(rate / bandwidth, 3) if bandwidth else None}
    return found


def kernels(work: Workload) -> dict[str, Any]:
    """The time of each kernel of value and gradient, in microseconds."""
    from numba import cuda

    held = [cuda.to_device(a) for a in arguments(work, work.large, work.dtypes[0])]
    f = adc.value_and_grad(adc.compile(work.text(work.dtypes[0]), backend="cuda"), wrt=work.wrt)
    return {"dtype": work.dtypes[0], **kernel_times(lambda: f(*held))}


def small_calls() -> dict[str, Any]:
    """The microseconds of a call whose arguments are small and on the device."""
    from numba import cuda

    found = {}
    for work in WORKLOADS[:3]:
        held = [cuda.to_device(a) for a in arguments(work, 2000, "float32")]
        f = adc.value_and_grad(adc.compile(work.text("float32"), backend="cuda"), wrt=work.wrt)
        found[f"{work.name} us"] = round(1e3 * times(lambda f=f, held=held: f(*held))["ms"], 1)
    return found


def untiled(work: Workload, dtype: str) -> dict[str, Any]:
    """The same without tiles in shared memory."""
    with machine(tile=EVER):
        return timed(work, dtype, None)


def free_memory() -> int:
    """Bytes of the device that nothing has; 0 in the simulator."""
    from numba import cuda

    from adcompiler.targets.cuda.device.device import SIMULATED

    return 0 if SIMULATED else int(cuda.current_context().get_memory_info().free)


def copy_bandwidth() -> dict[str, Any]:
    """What a copy of an array on the device moves, reads and writes together."""
    from numba import cuda

    length = 100 if QUICK else 2**27
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
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "ADC_CACHE_DIR": folder}
        for name in ("cold", "warm"):
            done = subprocess.run(
                [sys.executable, "-c", FIRST], env=env, cwd=ROOT, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, done.stderr[-500:]
            found[f"{name} s"] = round(float(done.stdout.split()[-1]), 2)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
