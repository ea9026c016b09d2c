"""What tests run under: a cache of the session, few threads, repeatable random examples, no GPU needed."""

from __future__ import annotations

import gc
import inspect
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("oracle")

# Set before any test module imports adcompiler or numba. The process that starts the session makes the cache
# and removes it when it ends; workers and the processes that tests start find it in the environment.
if "ADC_TEST_CACHE" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="adc-tests-")
    os.environ["ADC_TEST_CACHE"] = _cache.name
os.environ["ADC_CACHE_DIR"] = os.environ["ADC_TEST_CACHE"]
os.environ.setdefault("ADC_NUM_THREADS", "2")
os.environ["ADC_STRICT"] = "1"  # a module that LLVM refuses is an error, not a kernel of numba's
os.environ.setdefault("NUMBA_NUM_THREADS", "2")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a process that a test starts need not compile the package

# The first example of a test compiles, so neither its time nor a slow start is a fault.
settings.register_profile(
    "adcompiler",
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("adcompiler")


OPTIMISED = "llvm"  # the folder of tests of its code


@pytest.fixture(autouse=True, scope="session")
def verified() -> Iterator[None]:
    """What the NumPy backend runs, the reference of all tests, keeps the invariants."""
    from adcompiler.ir.nodes import Func
    from adcompiler.ir.textform.verify import verify
    from adcompiler.ops.table import TABLE
    from adcompiler.runtime.programs.backends import BACKENDS

    plain = BACKENDS["numpy"]

    def made(func: Func) -> Any:
        verify(func, TABLE)
        return plain(func)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BACKENDS, "numpy", made)
        yield


@pytest.fixture
def shallow_stack() -> Iterator[None]:
    """Little of Python's stack is left, so that programs need not be long to nest deeper than it."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)
    yield
    sys.setrecursionlimit(limit)


@cache
def has_gpu() -> bool:
    if find_spec("numba_cuda") is None:
        return False
    from numba import cuda

    return bool(cuda.is_available())


def pytest_configure() -> None:
    gc.disable()  # until all tests are collected: they stay


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests begin first, so that no process ends with one of them alone."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Garbage collection skips the thousands of tests, as do those who ask the collector for references."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the slow ones of a test's cases, which markers choose by its parameters.

    `slow_when(condition)`: those of which a function of parameters says so. `thinned(k, **where)`:
    of those with the values in `where`, all but each k-th diagonal; so each value of each parameter is met.
    """
    spec = getattr(item, "callspec", None)
    for mark in item.iter_markers("slow_when"):
        (condition,) = mark.args
        if condition(**{name: spec.params[name] for name in inspect.signature(condition).parameters}):
            item.add_marker("slow")
    for mark in item.iter_markers("thinned"):
        if all(spec.params[name] == value for name, value in mark.kwargs.items()):
            axes = [m for m in item.iter_markers("parametrize") if m.args[0] not in mark.kwargs]
            if sum(place(*axis.args[:2], spec.params) for axis in axes) % mark.args[0]:
                item.add_marker("slow")


def place(names: str | Sequence[str], values: Iterable[Any], given: dict[str, Any]) -> int:
    """Where the given parameters stand among the values of a `parametrize`."""
    if isinstance(names, str) and "," not in names:
        return next(k for k, value in enumerate(values) if value is given[names])
    names = [n.strip() for n in names.split(",")] if isinstance(names, str) else names
    rows = enumerate(tuple(getattr(row, "values", row)) for row in values)
    return next(k for k, row in rows if all(v is given[n] for n, v in zip(names, row, strict=True)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    # LLVM takes half of the time of all tests: the quick suite has it optimise in tests of its code alone.
    is_quick = item.config.option.markexpr == "not slow"
    plain = OPTIMISED not in item.path.parts and item.get_closest_marker("optimised") is None
    os.environ["ADC_OPT"] = "0" if is_quick and plain else "3"
    if item.get_closest_marker("gpu") and not has_gpu():
        pytest.skip("no CUDA device, or numba-cuda is not installed")


def pytest_report_header() -> str:
    """Say which adcompiler is under test: the checkout or an installed one."""
    spec = find_spec("adcompiler")
    return f"adcompiler: {spec.origin if spec else 'not found'}"
