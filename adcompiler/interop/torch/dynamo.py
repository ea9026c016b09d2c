"""The view that torch.compile has of a compiled function: one call, and a guard that identifies the function.

Dynamo guards a Python function only by its code, which all of ours share. So it sees an object that it
compares by identity, and a function of this module that is called with the object. It traces no other code of
this package.
"""

from __future__ import annotations

from typing import Any

import torch

from adcompiler.frames import public


class Guarded:
    """A callable with its own graph in torch.compile: no other object runs that graph."""

    call: Any  # the implementation of a call

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The results for tensors, nested like the function's."""
        if torch.compiler.is_compiling():
            return _traced(self, *args, **keywords)
        return self.call(*args, **keywords)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


@torch._dynamo.nonstrict_trace
def _traced(function: Guarded, *args: Any, **keywords: Any) -> Any:
    return function.call(*args, **keywords)


# Dynamo does not trace public functions, nor what they call. They share one code object.
if (strategy := getattr(torch._dynamo.eval_frame, "set_code_exec_strategy", None)) is not None:
    skip = torch._dynamo.types.FrameAction.SKIP
    strategy(public(abs).__code__, torch._dynamo.types.FrameExecStrategy(skip, skip))
