"""What is asked of CUDA's driver to capture launches, in which order, and what is left where it refuses.

The driver is an imitation: no device is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("numba_cuda") is None or os.environ.get("NUMBA_ENABLE_CUDASIM") == "1",
    reason="numba-cuda is not installed, or its simulator is chosen",
)
MAKING = ["cuStreamCreate", "cuStreamBeginCapture", "write", "cuStreamEndCapture", "cuGraphInstantiate"]


class Driver:
    """Notes its calls; those of `refused` fail, from the one on of which it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.args: list[tuple[Any, ...]] = []
        self.refused: dict[str, int] = {}
        self.capturing = False
        self.held: set[str] = set()  # what has been made, and not been destroyed

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.calls.append(name)
            self.args.append(args)
            if name == "cuStreamEndCapture":
                assert self.capturing
                self.capturing = False
            if self.calls.count(name) > self.refused.get(name, 10**9):
                raise RuntimeError(f"{name} is refused")
            if name == "cuStreamBeginCapture":
                assert not self.capturing
                self.capturing = True
            made = {"cuStreamEndCapture": "graph", "cuGraphInstantiate": "executable"}.get(name)
            gone = {"cuGraphDestroy": "graph", "cuGraphExecDestroy": "executable"}.get(name)
            if made:
                self.held.add(made)
            if gone:
                assert args == (gone,)
                self.held.remove(gone)
            return made or 77

        return call


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    from adcompiler.targets.cuda.device import graph_capture as capture

    found = Driver()

    @contextmanager
    def defer_cleanup() -> Any:
        found.calls.append("defer")
        yield
        found.calls.append("free")

    device = SimpleNamespace(
        get_current_device=lambda: SimpleNamespace(id=0),
        external_stream=lambda address: SimpleNamespace(handle=address),
        defer_cleanup=defer_cleanup,
    )
    monkeypatch.setattr(capture, "driver", found)
    monkeypatch.setattr(capture, "cuda", device)
    capture._stream.cache_clear()
    yield found
    capture._stream.cache_clear()


def launched(driver: Driver, times: int, error: type[BaseException] | None = None) -> list[bool] | None:
    """What launches say; None if there is nothing to launch."""
    from adcompiler.targets.cuda.device.graph_capture import captured

    def write(stream: Any) -> None:
        assert driver.capturing
        assert stream.handle == 77
        driver.calls.append("write")
        if error is not None:
            raise error("wrong")

    with captured(write) as sequence:
        found = None if sequence is None else [sequence(0) for _ in range(times)]
    assert not driver.capturing
    assert not driver.held
    return found


def test_a_sequence_is_captured_once_and_launched_often(driver: Driver) -> None:
    from adcompiler.targets.cuda.device.graph_capture import RELAXED, binding

    assert launched(driver, 3) == [True] * 3
    assert driver.calls == [
        "cuStreamCreate", "cuStreamBeginCapture", "defer", "write", "free", "cuStreamEndCapture",
        "cuGraphInstantiate", "cuGraphDestroy", *["cuGraphLaunch"] * 3, "cuGraphExecDestroy",
    ]  # fmt: skip
    assert driver.args[0] == (binding.CUstream_flags.CU_STREAM_NON_BLOCKING.value,)
    assert driver.args[1] == (77, RELAXED)
    assert ("executable", 0) in driver.args
    assert launched(driver, 1) == [True]
    assert driver.calls.count("cuStreamCreate") == 1


def test_a_graph_is_launched_on_the_stream_that_is_given(driver: Driver) -> None:
    from adcompiler.targets.cuda.device.graph_capture import captured

    with captured(lambda stream: None) as sequence:
        assert sequence is not None
        assert sequence(SimpleNamespace(handle=5))
    assert ("executable", 5) in driver.args


@pytest.mark.parametrize("name", [n for n in MAKING if n != "write"])
def test_what_the_driver_refuses_is_not_launched(name: str, driver: Driver) -> None:
    driver.refused[name] = 0
    assert launched(driver, 3) is None
    assert "cuGraphLaunch" not in driver.calls
    del driver.refused[name]
    assert launched(driver, 1) == [True]  # the next time it may


def test_an_error_of_a_launch_ends_the_capture(driver: Driver) -> None:
    """The same launches are made as usual afterwards, and say what was wrong."""
    assert launched(driver, 3, RuntimeError) is None
    assert driver.calls[-4:] == ["defer", "write", "cuStreamEndCapture", "cuGraphDestroy"]
    driver.refused["cuStreamEndCapture"] = 1  # such a capture may be broken
    assert launched(driver, 3, RuntimeError) is None
    with pytest.raises(KeyboardInterrupt):
        launched(driver, 3, KeyboardInterrupt)
    assert not driver.capturing


def test_launches_that_fail_say_so(driver: Driver) -> None:
    driver.refused["cuGraphLaunch"] = 2
    assert launched(driver, 4) == [True, True, False, False]
    assert driver.calls[-1] == "cuGraphExecDestroy"


@pytest.mark.parametrize("name", ["cuGraphDestroy", "cuGraphExecDestroy"])
def test_what_cannot_be_destroyed_does_no_harm(name: str, driver: Driver) -> None:
    from adcompiler.targets.cuda.device.graph_capture import captured

    driver.refused[name] = 0
    with captured(lambda stream: None) as sequence:
        assert sequence is not None
        assert sequence(0)


def test_the_driver_has_these_functions() -> None:
    from adcompiler.targets.cuda.device.graph_capture import binding

    for name in (*MAKING, "cuGraphLaunch", "cuGraphDestroy", "cuGraphExecDestroy"):
        assert name == "write" or callable(getattr(binding, name))
