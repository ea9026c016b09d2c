"""How long each kernel of a call runs on the device, by PyTorch's profiler."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

CALLS = 5


def kernel_times(call: Callable[[], Any]) -> dict[str, float]:
    """The microseconds of each kernel and copy of one call, the longest first; equal names are added."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    times: dict[str, float] = {}
    for event in found.key_averages():
        if event.self_device_time_total:
            name = plain(event.key)
            times[name] = times.get(name, 0.0) + event.self_device_time_total / CALLS
    return {k: round(v, 1) for k, v in sorted(times.items(), key=lambda item: -item[1])}


def plain(name: str) -> str:
    """A kernel's name without numba's mangling."""
    found = re.search(r"_adcompiler_kernel_[0-9a-f]{32}\d*(\w+?)(B\d|_\d|E)", name)
    return found[1] if found else name[:60]
