"""Arguments of a call with JAX arrays and tracers: types to specialise on, and an operand for each input.

Dtypes follow JAX: with jax_enable_x64 off every float64 is float32 and every int64 int32, also in NumPy
arrays. Python numbers and JAX's weakly typed values take the type of the arrays that they are combined with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.dtypes import canonicalize_dtype

from adcompiler.api.function import Function
from adcompiler.errors import DtypeError, LimitError
from adcompiler.frontend.indexing.annotations import declared
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.ir.walk import is_computed
from adcompiler.pytree.containers import Container, mapped_by_path
from adcompiler.pytree.kinds import ArgType, Types
from adcompiler.pytree.structures import arrays_in
from adcompiler.pytree.trees import map_kinds
from adcompiler.runtime.arguments.signature import FLOAT, Parameter
from adcompiler.runtime.programs.program import Program

KERNEL: Mapping[str, Dtype] = {
    "bool": "bool", "float32": "f32", "float64": "f64",
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), "i64"),
}  # fmt: skip


def canonical(dtype: Dtype) -> np.dtype:
    """JAX's dtype for a dtype of the language."""
    found: np.dtype = np.dtype(canonicalize_dtype(NUMPY[dtype]))
    return found


def described(f: Function, args: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Types, list[Any]]:
    """The types of a call, and the arrays in its arguments: one for each input."""
    bound = f._in_order(args, keywords)
    pairs = zip(f._parameters, bound, strict=True)
    given = [
        _known(f, p, a) if p.static else mapped_by_path(lambda _, v: v, p.name, a, _gathered)
        for p, a in pairs
    ]
    call = f._describe(given, rows=False, stand_in=_array)
    _check_doubles(f, call.types)
    leaves = call.leaves
    weak = partial(_weakened, iter(leaves))
    return tuple(
        map_kinds(weak, k, p.integer) for k, p in zip(call.types, f._parameters, strict=True)
    ), leaves


def _check_doubles(f: Function, types: Types) -> None:
    """Refuse float32 for a parameter annotated as float64, if JAX does not have float64."""
    if f._closure is None or canonical("f64") == NUMPY["f64"]:
        return
    for parameter, kind in zip(f._closure.definition.parameters, types, strict=False):
        wanted = declared(parameter)
        double = wanted is not None and wanted.dtype == "f64" and not wanted.weak
        if double and getattr(kind, "dtype", None) == "f32":
            raise DtypeError(
                f"{f.__name__}: {parameter.name} is annotated f64, but JAX arrays are float32",
                remedy='jax.config.update("jax_enable_x64", True), or another annotation',
            )


def operands(leaves: Sequence[Any], types: Types) -> list[Any]:
    """The arguments as JAX arrays, in JAX's dtypes for those of the kernels."""
    return [_operand(leaf, kind.dtype) for leaf, kind in zip(leaves, arrays_in(types), strict=True)]


def lengths(f: Function, found: Program, leaves: Sequence[Any]) -> tuple[int, ...]:
    """The lengths of the size symbols. Raises ShapeError if lengths do not fit, and Error if one is the value
    of a traced argument."""
    asked = {k for _, k in found.func.counts}
    shown = [
        _value(leaf, f.__name__, found.func.input_names[k]) if k in asked else _array("", leaf)
        for k, leaf in enumerate(leaves)
    ]
    for r in found.func.results:
        if any(map(is_computed, r.shape)):
            raise LimitError(
                f"a result of {f.__name__} has a length computed from values, but lengths of JAX arrays "
                "must be known when it traces",
                remedy="take the length from a shape, or from an integer argument that is a Python int",
            )
    return tuple(found.sizes(shown))


def _operand(leaf: Any, dtype: Dtype) -> Any:
    wanted = canonical(dtype)
    if isinstance(leaf, jax.Array):
        return leaf if leaf.dtype == wanted else leaf.astype(wanted)
    return jnp.asarray(np.asarray(leaf).astype(wanted))


def _known(f: Function, parameter: Parameter, value: Any) -> Any:
    """A static argument: a scalar JAX array as a number; a tracer is refused."""
    if not isinstance(value, jax.Array) or value.ndim:
        return value
    return _value(value, f.__name__, parameter.name)


def _value(leaf: Any, function: str, name: str) -> Any:
    """A number that must be known during tracing."""
    if isinstance(leaf, Tracer):
        raise DtypeError(
            f"{function}: the argument {name!r} must be known when JAX traces: it is static or a length",
            remedy="pass a Python number; under jax.jit use static_argnames, or bind it with a lambda",
        )
    return np.asarray(leaf).item() if np.ndim(leaf) == 0 else np.asarray(leaf)


def _gathered(container: Container, parts: list[Any]) -> Any:
    """A container of these parts; a list of numbers with JAX arrays among them is one array."""
    if container.kind is list and parts and all(map(_is_number, parts)):
        return jnp.stack([jnp.asarray(p) for p in parts])
    return container.build(parts)


def _is_number(value: Any) -> bool:
    return isinstance(value, jax.Array | int | float) and not np.ndim(value)


def _array(name: str, value: Any) -> Any:
    """An array of NumPy's of the same type and shape, without the values of an array of JAX's."""
    if isinstance(value, jax.Array):
        dtype = KERNEL.get(value.dtype.name)
        if dtype is None:
            raise DtypeError(
                f"the argument {name!r} has dtype {value.dtype}, which is not supported",
                remedy="pass bool, integer, float32 or float64 values: x.astype(...)",
            )
        return np.broadcast_to(np.zeros((), NUMPY[dtype]), value.shape)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "f" and value.dtype.itemsize == 8:
        return np.asarray(value).astype(canonical("f64"), copy=False)
    return value


def _weakened(leaves: Iterator[Any], kind: Any, integer: bool) -> Any:
    """The type of the next leaf: that of a Python number if the leaf is weakly typed."""
    if not isinstance(kind, ArgType):
        return kind
    leaf = next(leaves)
    if kind.ones or not getattr(leaf, "weak_type", False):
        return kind
    return FLOAT if kind.dtype == "i64" and not integer else replace(kind, weak=True)
