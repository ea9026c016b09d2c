"""Functions that lower folders call and higher ones provide.

The graph of Variables is below the public functions and explanations, but its messages explain their causes,
and operations on Variables are compiled. `adcompiler/__init__.py` says where these functions are; they are
imported when they are first called.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Provided:
    """A function that is imported from its `home` on the first call."""

    def __init__(self, name: str) -> None:
        self.name, self.home = name, ""

    def __call__(self, *args: Any, **options: Any) -> Any:
        function = vars(self).get("function")
        if function is None:
            function = self.function = getattr(import_module(self.home), self.name)
        return function(*args, **options)


call_with_variables = Provided("call_with_variables")  # of a compiled function with Variables
compile = Provided("compile")
ended = Provided("ended")  # why no gradient flows from a Variable
unfilled = Provided("unfilled")  # why `.grad` is empty
unused = Provided("unused")  # why an output does not depend on an input
