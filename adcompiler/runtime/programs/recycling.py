"""The amount of result memory that is kept for reuse."""

from __future__ import annotations

from adcompiler.errors import Error
from adcompiler.frames import public
from adcompiler.runtime.programs.options import in_bytes
from adcompiler.targets.buffers import POOL


@public
def recycle(limit: int | str) -> None:
    """Keep up to `limit` bytes of large results that are no longer referenced, for reuse by later ones.

    Fresh memory costs more than the arithmetic of many kernels. An array is used again only when nothing
    refers to it, to a view of it or to its memory. 256 MiB unless specified otherwise; 0, or the environment
    variable ADC_RECYCLE=0, keeps nothing. `limit` is in bytes or a text such as "1GB". Raises Error for an
    invalid limit. Where references are not counted (PyPy, free-threaded Python), any limit but 0 is invalid.
    """
    amount = in_bytes(limit)
    if amount and not POOL.possible:
        raise Error(
            "memory is reused only if Python counts references under its global lock",
            remedy="use CPython with its lock, or pass buffers: f.into(buffers, ...)",
        )
    POOL.resize(amount)
