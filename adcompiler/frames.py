"""Public functions raise errors without the frames of this package: users see their own line and the message.

With ADC_TRACEBACK=full in the environment errors keep all frames.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

from adcompiler.errors import Error

F = TypeVar("F", bound=Callable[..., Any])
OUTSIDE = "a graph of torch.compile calls f.torch() or adc.grad(f).torch(), made outside of what is compiled"
OURS = ("adcompiler", "contextlib", "functools", "lark")  # packages whose frames tell a user nothing


def public(function: F) -> F:
    """A function that users call."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        __tracebackhide__ = True  # of pytest
        try:
            return function(*args, **keywords)
        except Error as error:
            raise shown(error) from error.__cause__  # ADC_TRACEBACK=full shows all frames

    call._torchdynamo_disable = True  # type: ignore[attr-defined]  # torch.compile calls it, as it stands
    call._torchdynamo_disable_msg = OUTSIDE  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def shown(error: BaseException) -> BaseException:
    """What a public function raises for an error: without our frames, unless all are asked for."""
    return error if os.environ.get("ADC_TRACEBACK") else trimmed(error)


def trimmed(error: BaseException) -> BaseException:
    """An error, and what caused it, without our frames."""
    cause: BaseException | None = error
    while cause is not None:
        cause.__traceback__ = _others(cause.__traceback__)
        cause = cause.__cause__
    return error


def _others(traceback: TracebackType | None) -> TracebackType | None:
    """The frames that are not ours, such as those of a user's function that we called."""
    kept: list[TracebackType] = []
    while traceback is not None:
        package = str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in OURS:
            kept.append(traceback)
        traceback = traceback.tb_next
    found: TracebackType | None = None
    for t in reversed(kept):
        found = TracebackType(found, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return found
