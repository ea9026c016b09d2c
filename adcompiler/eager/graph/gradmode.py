"""`adc.no_grad()` and `adc.enable_grad()`: whether operations of this thread are recorded, as in PyTorch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from adcompiler.eager.graph.graph import state
from adcompiler.eager.graph.user_lines import UserLine, here

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """A context manager, which nests and may be entered again, and a decorator with or without brackets."""

    on: bool

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        mode = super().__new__(cls)
        return mode if function is None else mode(function)

    def __init__(self, function: None = None) -> None:
        self._before: list[tuple[bool, UserLine | None]] = []

    def __enter__(self) -> None:
        self._before.append((state.recording, state.quiet))
        state.recording, state.quiet = self.on, None if self.on else here()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state.recording, state.quiet = self._before.pop()

    def __call__(self, function: F) -> F:
        """The function in this mode, in every call and every thread; a generator in each of its steps."""
        mode = type(self)

        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            with mode():
                return function(*args, **keywords)

        @functools.wraps(function)
        def steps(*args: Any, **keywords: Any) -> Any:
            with mode():
                generator = function(*args, **keywords)
            return _stepped(generator, mode)

        chosen = steps if inspect.isgeneratorfunction(function) else call
        return chosen  # type: ignore[return-value]


def _stepped(generator: Any, mode: type[_Mode]) -> Any:
    """A generator whose steps run in a mode, while its caller's code between them does not."""
    step: Callable[[], Any] = lambda: next(generator)  # noqa: E731
    try:
        while True:
            with mode():
                found = step()
            try:
                sent = yield found
                step = functools.partial(generator.send, sent)
            except GeneratorExit:
                generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)
    except StopIteration as end:
        return end.value


class no_grad(_Mode):  # noqa: N801, as PyTorch calls it
    """Operations of this thread are not recorded: results are constants, and leaves can be changed in place.

    A context manager, `with adc.no_grad():`, and a decorator, `@adc.no_grad()`.
    """

    on = False


class enable_grad(_Mode):  # noqa: N801, as PyTorch calls it
    """Operations are recorded again, inside `adc.no_grad()`. A context manager and a decorator."""

    on = True
