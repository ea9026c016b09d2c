"""CUDA graphs: sequences of launches that are captured once and launched again as one.

While a stream is captured, nothing may wait for it or copy from the host. numba's launch (0.30) of a loaded
kernel does neither: it finds the kernel by the types of its arguments, passes device arrays by addresses,
lengths and strides, and numbers by value, and calls cuLaunchKernelEx. So kernels must have been launched
before, and their arguments must be on the device.
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
    """Capture what `write` launches on the given stream, as a function that launches it on another stream and
    returns whether that succeeded; None if the driver, or an error of `write`, prevented the capture.

    Nothing runs during the capture. So after a failure the same launches may be made as usual: they either
    succeed or raise the error.
    """
    graph = _graph(write)
    try:
        yield None if graph is None else lambda stream: _launched(graph, stream)
    finally:
        if graph is not None:
            with suppress(Exception):
                driver.cuGraphExecDestroy(graph)  # the driver frees a running graph when it finishes


def _graph(write: Callable[[Any], None]) -> Any:
    """A graph that can be launched, or None."""
    found = None
    try:
        stream = _stream(cuda.get_current_device().id)
        driver.cuStreamBeginCapture(stream.handle, RELAXED)
        try:
            with cuda.defer_cleanup():  # delay frees by the garbage collector
                write(stream)
        except BaseException:
            with suppress(Exception):
                found = driver.cuStreamEndCapture(stream.handle)
            raise
        found = driver.cuStreamEndCapture(stream.handle)
        return driver.cuGraphInstantiate(found, 0)
    except Exception:  # a driver error, whose class depends on the calling package
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


# In this mode no call of any thread fails during a capture.
RELAXED = binding.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


@cache
def _stream(device: int) -> Any:
    """The stream of a device for captures. It does not block the default stream: otherwise no thread could
    use the default stream during a capture."""
    flags = binding.CUstream_flags.CU_STREAM_NON_BLOCKING.value
    return cuda.external_stream(int(driver.cuStreamCreate(flags)))
