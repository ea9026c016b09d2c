"""NumPy's functions applied to Variables: the same as ours, or an error; never a silent detach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adcompiler.eager.variable import numpy_functions
from adcompiler.eager.variable.elementwise import apply, where
from adcompiler.errors import DtypeError, Error, GraphError
from adcompiler.ops.table import ALIASES, TABLE

PLAIN = "pass .value for a plain array without a graph, or write it in a compiled function"

# Functions that say something about values: no derivative is lost.
ABOUT = frozenset({
    np.shape, np.ndim, np.size, np.allclose, np.isclose, np.array_equal, np.array_equiv, np.array_repr,
    np.array_str, np.array2string, np.may_share_memory, np.shares_memory, np.result_type, np.any, np.all,
    np.argmax, np.argmin, np.argsort, np.count_nonzero, np.nonzero, np.searchsorted, np.zeros_like,
    np.ones_like, np.full_like, np.empty_like, np.isin,
})  # fmt: skip

COMPARES = frozenset({np.allclose, np.isclose, np.array_equal, np.array_equiv})

SAME: Mapping[Callable[..., Any], Callable[..., Any]] = {
    np.sum: lambda x, axis=None, keepdims=False: x.sum(axis, keepdims),
    np.mean: lambda x, axis=None, keepdims=False: x.mean(axis, keepdims),
    np.reshape: lambda x, shape: x.reshape(shape),
    np.broadcast_to: lambda x, shape: x.expand(shape),
    np.copy: lambda x: x.clone(),
    np.where: where,
    np.clip: lambda x, lo, hi: apply("clip", x, lo, hi),
    np.round: lambda x: apply("rint", x),
    **numpy_functions.NUMPY,
}


def ufunc(function: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """NumPy's elementwise functions are the rule table's."""
    name = function.__name__
    if options.get("out") is not None:
        raise GraphError(
            f"np.{name} would write a Variable into a plain array, which has no graph",
            remedy="write x = x + y, not x += y, and omit out=",
        )
    if name == "matmul" and method == "__call__" and not options:
        return numpy_functions.matmul(*inputs)
    if (name, method) in numpy_functions.UFUNCS:
        return _same(numpy_functions.UFUNCS[name, method], f"{name}.{method}", inputs, {"axis": 0, **options})
    if method != "__call__" or ALIASES.get(name, name) not in TABLE or options:
        what = name if method == "__call__" else f"{name}.{method}"
        raise GraphError(f"np.{what} would lose the graph of a Variable", remedy=PLAIN)
    return apply(name, *inputs)


def function(called: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Those of NumPy's other functions that Variables have; questions about values are answered."""
    if called in ABOUT:
        if called in COMPARES and any(a is None for a in args[:2]):
            raise DtypeError(
                f"an operand of np.{called.__name__} is None",
                remedy="a gradient of None is zero or not computed yet: test `is None` first",
            )
        return numpy_functions.answer(called, *args, **options)
    if called in SAME:
        return _same(SAME[called], called.__name__, args, options)
    raise GraphError(f"np.{called.__name__} would lose the graph of a Variable", remedy=PLAIN)


def _same(ours: Callable[..., Any], name: str, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    try:
        return ours(*args, **options)
    except Error:
        raise
    except (TypeError, ValueError) as error:
        raise GraphError(f"np.{name} of a Variable: {error}", remedy=PLAIN) from error
