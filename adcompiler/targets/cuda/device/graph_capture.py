"""CUDA graphs: sequences of launches that are captured once and launched again as one.

While a stream is captured, nothing may wait for it or copy from the host. numba's launch (0.30) of a loaded
kernel does neither: it finds the kernel by the types of its arguments, passes device arrays by addresses,
lengths and strides, and numbers by value, and calls cuLaunchKernelEx. Kernels must therefore have been
launched before, and their arguments must be on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from numba import cuda
from numba.cuda.cudadrv.driver import binding, driver


@contextmanager
def captured(write: Callable[[Any], None]) -> Iterator[Callable[[Any], bool] | None]:
    """What `write` launches on the stream that it is given, as a function that launches it on another one and
    says whether it could; None if the driver, or an error of `write`, did not let us.

    Nothing of it runs while it is captured. So after a refusal the same launches may be made as usual: they
    do the work, or raise what was wrong.
    """
    graph = _graph(write)
    try:
        yield None if graph is None else lambda stream: _launched(graph, stream)
    finally:
        if graph is not None:
            with suppress(Exception):
                driver.cuGraphExecDestroy(graph)  # the driver frees one that still runs when it has run


def _graph(write: Callable[[Any], None]) -> Any:
    """A graph that can be launched, or None."""
    found = None
    try:
        stream = _stream(cuda.get_current_device().id)
        driver.cuStreamBeginCapture(stream.handle, RELAXED)
        try:
            with cuda.defer_cleanup():  # what the collector frees meanwhile is freed after it
                write(stream)
        except BaseException:
            with suppress(Exception):
                found = driver.cuStreamEndCapture(stream.handle)
            raise
        found = driver.cuStreamEndCapture(stream.handle)
        return driver.cuGraphInstantiate(found, 0)
    except Exception:  # the driver's, whose class depends on which package called it
        return None
    finally:
        if found is not None:
            with suppress(Exception):
                driver.cuGraphDestroy(found)


def _launched(graph: Any, stream: Any) -> bool:
    try:
        driver.cuGraphLaunch(graph, stream.handle if stream else 0)
    except Exception:
        return False
    return True


# No call of this thread or another one is refused while a stream captures so.
RELAXED = binding.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


@cache
def _stream(device: int) -> Any:
    """The stream of a device on which launches are captured. It does not block the default stream: while one
    captures that does, nobody may use the default stream, in no thread."""
    flags = binding.CUstream_flags.CU_STREAM_NON_BLOCKING.value
    return cuda.external_stream(int(driver.cuStreamCreate(flags)))
