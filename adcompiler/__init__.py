"""adcompiler: numba with gradients.

A small formula or function goes in; fused forward and backward kernels of any order come out.
Names are loaded on first use, so importing the package is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adcompiler import provided
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
    import adcompiler.fit as fit
    import adcompiler.interop.dask as dask  # noqa: F401
    import adcompiler.interop.torch as torch  # noqa: F401
    import adcompiler.optim as optim
    import adcompiler.tape as tape
    from adcompiler.api.check_grad import check_grad, check_report
    from adcompiler.api.compile import compile, function, load
    from adcompiler.api.custom_vjp import custom_vjp
    from adcompiler.api.function import Function
    from adcompiler.api.modes import hessian, hvp, jacobian, jvp
    from adcompiler.api.pairs.pairs import DiffPair
    from adcompiler.api.ravel import ravel
    from adcompiler.api.taylor import taylor
    from adcompiler.api.transforms import grad, value_and_grad, vjp
    from adcompiler.api.user_primitive import primitive
    from adcompiler.api.vmap import vmap
    from adcompiler.eager.aggregates.fuse import fuse
    from adcompiler.eager.graph.gradmode import enable_grad, no_grad
    from adcompiler.eager.variable.parameters import Parameter, parameters
    from adcompiler.eager.variable.variable import Variable
    from adcompiler.explain.nan.explain_nan import explain_nan
    from adcompiler.explain.why.why import why_none
    from adcompiler.fit.curve_fit import curve_fit
    from adcompiler.fit.least_squares import least_squares
    from adcompiler.fit.minimize import minimize
    from adcompiler.fit.nlp import nlp
    from adcompiler.fit.roots import root
    from adcompiler.runtime.programs.recycling import recycle
    from adcompiler.targets.threads import get_num_threads, set_num_threads

__version__ = "0.1.0"

_MODULES = ("dask", "fit", "optim", "tape", "torch")  # public names that are modules
_NEEDS = {"torch": "torch"}  # those that load with a library only
_HOMES = {
    "adcompiler.targets.threads": ("get_num_threads", "set_num_threads"),
    "adcompiler.interop": ("dask", "torch"),
    "adcompiler": ("fit", "optim", "tape"),
    "adcompiler.api.compile": ("compile", "function", "load"),
    "adcompiler.api.check_grad": ("check_grad", "check_report"),
    "adcompiler.api.custom_vjp": ("custom_vjp",),
    "adcompiler.explain.nan.explain_nan": ("explain_nan",),
    "adcompiler.api.function": ("Function",),
    "adcompiler.eager.aggregates.fuse": ("fuse",),
    "adcompiler.eager.graph.gradmode": ("enable_grad", "no_grad"),
    "adcompiler.runtime.programs.recycling": ("recycle",),
    "adcompiler.api.modes": ("hessian", "hvp", "jacobian", "jvp"),
    "adcompiler.api.pairs.pairs": ("DiffPair",),
    "adcompiler.eager.variable.parameters": ("Parameter", "parameters"),
    "adcompiler.api.user_primitive": ("primitive",),
    "adcompiler.api.ravel": ("ravel",),
    "adcompiler.api.taylor": ("taylor",),
    "adcompiler.api.transforms": ("grad", "value_and_grad", "vjp"),
    "adcompiler.eager.variable.variable": ("Variable",),
    "adcompiler.api.vmap": ("vmap",),
    "adcompiler.explain.why.why": ("why_none",),
    "adcompiler.fit.curve_fit": ("curve_fit",),
    "adcompiler.fit.least_squares": ("least_squares",),
    "adcompiler.fit.minimize": ("minimize",),
    "adcompiler.fit.nlp": ("nlp",),
    "adcompiler.fit.roots": ("root",),
}
provided.compile.home = "adcompiler.api.compile"
provided.call_with_variables.home = "adcompiler.eager.aggregates.aggregate"
provided.ended.home = provided.unfilled.home = provided.unused.home = "adcompiler.explain.why.why"

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
    "curve_fit",
    "custom_vjp",
    "enable_grad",
    "explain_nan",
    "fit",
    "function",
    "fuse",
    "get_num_threads",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "least_squares",
    "load",
    "minimize",
    "nlp",
    "no_grad",
    "optim",
    "parameters",
    "primitive",
    "ravel",
    "recycle",
    "root",
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
