"""adcompiler: numba with gradients.

A small formula or function goes in; fused forward and backward kernels of any order come out.
Names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adcompiler.errors import (
    DtypeError,
    Error,
    FileError,
    GradientError,
    GraphError,
    LimitError,
    MissingError,
    OutOfRangeError,
    ParseError,
    ShapeError,
)

if TYPE_CHECKING:
    import adcompiler.interop.dask as dask  # noqa: F401
    import adcompiler.interop.torch as torch  # noqa: F401
    import adcompiler.runtime.optim as optim
    import adcompiler.runtime.tape as tape
    from adcompiler.codegen.threads import get_num_threads, set_num_threads
    from adcompiler.runtime.capture import compile, function, load
    from adcompiler.runtime.check import check_grad, check_report
    from adcompiler.runtime.custom import custom_vjp
    from adcompiler.runtime.explain_nan import explain_nan
    from adcompiler.runtime.function import Function
    from adcompiler.runtime.fusion.fuse import fuse
    from adcompiler.runtime.gradmode import enable_grad, no_grad
    from adcompiler.runtime.memory import recycle
    from adcompiler.runtime.modes import hessian, hvp, jacobian, jvp
    from adcompiler.runtime.pairs import DiffPair
    from adcompiler.runtime.parameters import Parameter, parameters
    from adcompiler.runtime.primitive import primitive
    from adcompiler.runtime.ravel import ravel
    from adcompiler.runtime.taylor import taylor
    from adcompiler.runtime.transforms import grad, value_and_grad, vjp
    from adcompiler.runtime.variable import Variable
    from adcompiler.runtime.vmap import vmap
    from adcompiler.runtime.why import why_none

__version__ = "0.1.0"

_MODULES = ("dask", "optim", "tape", "torch")  # public names that are modules
_NEEDS = {"torch": "torch"}  # those that load with a library only
_HOMES = {
    "adcompiler.codegen.threads": ("get_num_threads", "set_num_threads"),
    "adcompiler.interop": ("dask", "torch"),
    "adcompiler.runtime": ("optim", "tape"),
    "adcompiler.runtime.capture": ("compile", "function", "load"),
    "adcompiler.runtime.check": ("check_grad", "check_report"),
    "adcompiler.runtime.custom": ("custom_vjp",),
    "adcompiler.runtime.explain_nan": ("explain_nan",),
    "adcompiler.runtime.function": ("Function",),
    "adcompiler.runtime.fusion.fuse": ("fuse",),
    "adcompiler.runtime.gradmode": ("enable_grad", "no_grad"),
    "adcompiler.runtime.memory": ("recycle",),
    "adcompiler.runtime.modes": ("hessian", "hvp", "jacobian", "jvp"),
    "adcompiler.runtime.pairs": ("DiffPair",),
    "adcompiler.runtime.parameters": ("Parameter", "parameters"),
    "adcompiler.runtime.primitive": ("primitive",),
    "adcompiler.runtime.ravel": ("ravel",),
    "adcompiler.runtime.taylor": ("taylor",),
    "adcompiler.runtime.transforms": ("grad", "value_and_grad", "vjp"),
    "adcompiler.runtime.variable": ("Variable",),
    "adcompiler.runtime.vmap": ("vmap",),
    "adcompiler.runtime.why": ("why_none",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

# What `from adcompiler import *` gives: not the modules of extras, which may be missing.
__all__ = [
    "DiffPair",
    "DtypeError",
    "Error",
    "FileError",
    "Function",
    "GradientError",
    "GraphError",
    "LimitError",
    "OutOfRangeError",
    "Parameter",
    "ParseError",
    "ShapeError",
    "Variable",
    "check_grad",
    "check_report",
    "compile",
    "custom_vjp",
    "enable_grad",
    "explain_nan",
    "function",
    "fuse",
    "get_num_threads",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "load",
    "no_grad",
    "optim",
    "parameters",
    "primitive",
    "ravel",
    "recycle",
    "set_num_threads",
    "tape",
    "taylor",
    "value_and_grad",
    "vjp",
    "vmap",
    "why_none",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME_OF[name]
    if name in _MODULES:
        try:
            value: Any = import_module(f"{home}.{name}")
        except Error as error:  # hasattr says no, and who asks for the name reads what to install
            raise MissingError(error.cause, remedy=error.remedy) from None
    else:
        value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext adcompiler`: the magics `%%adc` and `%adc`."""
    import_module("adcompiler.interop.notebook").load(ipython)


def __dir__() -> list[str]:
    from importlib.util import find_spec

    missing = {name for name, library in _NEEDS.items() if find_spec(library) is None}
    return sorted({*globals(), *_HOME_OF} - missing)
