"""adcompiler: numba with gradients.

A small formula or function goes in; fused forward and backward kernels of any order come out.
"""

from adcompiler.errors import (
    DtypeError,
    Error,
    GraphError,
    LimitError,
    OutOfRangeError,
    ParseError,
    ShapeError,
)
from adcompiler.runtime.capture import compile, function, load
from adcompiler.runtime.function import Function
from adcompiler.runtime.modes import hessian, hvp, jacobian, jvp
from adcompiler.runtime.transforms import grad, value_and_grad, vjp

__version__ = "0.1.0"

__all__ = [
    "DtypeError",
    "Error",
    "Function",
    "GraphError",
    "LimitError",
    "OutOfRangeError",
    "ParseError",
    "ShapeError",
    "compile",
    "function",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "load",
    "value_and_grad",
    "vjp",
]
