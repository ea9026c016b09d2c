"""NumPy's functions of Variables: each is a call of a compiled function, one entry of the graph.

Functions that only move elements (flip, roll, tile, ...) become gathers; NumPy itself computes the indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any
from weakref import WeakSet

import numpy as np

from adcompiler import provided
from adcompiler.eager.graph.graph import Variable, is_variable, state
from adcompiler.eager.graph.provenance import take_array
from adcompiler.eager.graph.views import view
from adcompiler.eager.variable import linear
from adcompiler.errors import Error, OutOfRangeError, ShapeError
from adcompiler.frames import public
from adcompiler.frontend.library.prelude import PRELUDE, Composite
from adcompiler.lazy import Memo

Operation = Callable[..., Any]
Axis = int | Sequence[int] | None


_own: WeakSet[Any] = WeakSet()


_compiled: Memo[tuple[str, str, int], Any] = Memo()


def _compile(name: str, body: str, count: int) -> Any:
    made = provided.compile(body, name=name, args=[f"x{k}" for k in range(count)])
    _own.add(made)
    return made


def is_own(function: Any) -> bool:
    """Whether a compiled function is one of NumPy's, made here, and not the user's."""
    return function in _own


def call(name: str, body: str, *args: Any) -> Any:
    """The language's expression `body` of x0, x1, ...: compiled once, and called with these."""
    if state.fusing is not None and (later := state.fusing.call(name, body, args)) is not None:
        return later
    key = name, body, len(args)
    function = _compiled.get(key) or _compiled.made(key, lambda: _compile(*key))
    return function(*args)


def matmul(x: Any, y: Any) -> Any:
    """`x @ y`."""
    return call("matmul", "x0 @ x1", x, y)


# -- reductions and running totals -------------------------------------------------------------


def _reduction(name: str) -> Operation:
    def reduce(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return call(name, f"{name}(x0, {_axis(x, axis)}keepdims={bool(keepdims)})", x)

    reduce.__name__ = name
    return reduce


def _axis(x: Any, axis: Any) -> str:
    """`axis=`, as the source of a call says it; nothing for all axes."""
    if axis is None:
        return ""
    axes = tuple(one_axis(x, k) for k in axis) if isinstance(axis, tuple | list) else one_axis(x, axis)
    return f"axis={axes}, "


def one_axis(x: Any, axis: Any, more: int = 0) -> int:
    """An axis counted from 0; OutOfRangeError if an array with `more` axes has no such one."""
    rank = np.ndim(x) + more
    if not isinstance(axis, int | np.integer) or not -rank <= axis < rank:
        raise OutOfRangeError(f"there is no axis {axis!r}: the rank is {rank}", remedy="count axes from 0")
    return int(axis) % rank


def _spread(name: str) -> Operation:
    """var and std: `ddof` is subtracted from the count, as NumPy has it."""
    plain, power = _reduction(name), 0.5 if name == "std" else 1.0

    def reduce(x: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Any:
        found = plain(x, axis, keepdims)
        if not ddof:
            return found
        count = x.size // max(found.size, 1)
        rest = count - ddof
        return found * (count / rest if rest > 0 else np.nan) ** power

    return reduce


def _running(name: str) -> Operation:
    def run(x: Any, axis: Any = None) -> Any:
        if axis is None and np.ndim(x) != 1:
            return run(x.reshape(-1), 0)
        return call(name, f"{name}(x0, axis={one_axis(x, 0 if axis is None else axis)})", x)

    return run


# -- several arrays ----------------------------------------------------------------------------


def _joining(name: str, more: int) -> Operation:
    def join(arrays: Sequence[Any], axis: int = 0) -> Any:
        parts = tuple(arrays)
        if not parts:
            raise ShapeError(f"{name} of no arrays", remedy="pass at least one")
        names = ", ".join(f"x{k}" for k in range(len(parts)))
        return call(name, f"{name}(({names},), axis={one_axis(parts[0], axis, more)})", *parts)

    return join


stack, concatenate = _joining("stack", 1), _joining("concatenate", 0)


def vstack(arrays: Sequence[Any]) -> Any:
    """Arrays under each other; vectors are rows."""
    return concatenate([_shaped(a, (1, -1)) if np.ndim(a) < 2 else a for a in arrays], 0)


def hstack(arrays: Sequence[Any]) -> Any:
    """Arrays beside each other."""
    parts = [_shaped(a, (1,)) if np.ndim(a) == 0 else a for a in arrays]
    return concatenate(parts, min(np.ndim(parts[0]) - 1, 1))


def column_stack(arrays: Sequence[Any]) -> Any:
    """Arrays beside each other; vectors are columns."""
    return concatenate([_shaped(a, (-1, 1)) if np.ndim(a) < 2 else a for a in arrays], 1)


def _shaped(a: Any, shape: tuple[int, ...]) -> Any:
    return a.reshape(shape) if is_variable(a) else np.reshape(a, shape)


# -- functions of the language by their names --------------------------------------------------


# Arguments of the prelude that are operands, even if they are Python numbers.
OPERANDS = ("array", "floats", "elements", "number", "double", "vector", "matrix", "square")


def by_name(name: str, function: Composite | None = None) -> Operation:
    """A function of the language: arrays are operands of a compiled call, other arguments are constants."""

    def operation(*args: Any, **options: Any) -> Any:
        operands: list[Any] = []
        kinds = {} if function is None else {p.name: p.kind for p in function.signature.parameters}
        given = [*zip((*kinds, *repeat("", len(args))), args, strict=False)]
        texts = [_written(value, operands, kinds.get(key)) for key, value in given]
        texts += [f"{key}={_written(value, operands, kinds.get(key))}" for key, value in options.items()]
        return call(name.rpartition(".")[2], f"{name}({', '.join(texts)})", *operands)

    return operation


def _written(value: Any, operands: list[Any], kind: str | None) -> str:
    """An argument in a call: an operand by its name, or a constant."""
    if isinstance(value, list | tuple) and any(map(_is_array, value)):
        return f"({', '.join(_written(part, operands, kind) for part in value)},)"
    if _is_array(value) or (isinstance(value, float | np.floating) and kind in OPERANDS):
        operands.append(value)
        return f"x{len(operands) - 1}"
    return repr(value.item() if isinstance(value, np.generic) else value)


def _is_array(value: Any) -> bool:
    return is_variable(value) or isinstance(value, np.ndarray)


# -- moves -------------------------------------------------------------------------------------


def moved(function: Operation, x: Variable, *args: Any, **options: Any) -> Any:
    """What a NumPy function that only moves elements makes of `x`: a view where PyTorch has one."""

    def see(x: Variable) -> Any:
        return _moved(function, x, args, options)

    found = see(x)
    if function not in SHOWN:
        return found
    if isinstance(found, list):
        return [view(x, part, partial(_part, see, k)) for k, part in enumerate(found)]
    return view(x, found, see)


def _part(see: Operation, k: int, x: Variable) -> Variable:
    part: Variable = see(x)[k]
    return part


def _nth(shown: Operation, k: int) -> Any:
    return shown()[k]


def _moved(function: Operation, x: Variable, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The function itself is asked where each element comes from."""
    places = np.arange(x.size).reshape(x.shape)
    try:
        found = function(places, *args, **options)
    except (IndexError, ValueError) as error:
        cause = f"{function.__name__} of {x.name} with shape {x.shape}: {error}"
        raise OutOfRangeError(cause, remedy="axes and positions are counted from 0") from error
    flat, moves = linear.reshape(x, (-1,)), function not in GATHERS

    def shown() -> Any:
        return function(x.data, *args, **options)

    if isinstance(found, list):
        several = (partial(_nth, shown, k) for k in range(len(found)))
        return [linear.index(flat, *one) for one in zip(found, repeat(moves), several, strict=False)]
    return linear.index(flat, found, moves, shown if function in SHOWN else None)


def _ravel(x: Variable, order: str = "C") -> Variable:
    """One axis, of elements one behind the other: a copy where they are not."""
    if order != "C":
        moves: Variable = moved(np.ravel, x, order)
        return moves
    plain = state.fusing is not None or x.data.flags.c_contiguous
    found: Variable = (x if plain else x.clone()).reshape(-1)
    return found


GATHERS = (np.take, np.take_along_axis)  # by arrays of the user's, which a backward pass gives back


def sort(x: Any, axis: int | None = -1) -> Any:
    """The elements in ascending order along an axis; a gradient goes where the element came from."""
    if axis is None:
        return sort(x.reshape(-1), 0)
    order = np.argsort(x.data, axis=axis, kind="stable")
    return moved(np.take_along_axis, x, order, axis)


MOVES: tuple[Operation, ...] = (
    np.flip, np.fliplr, np.flipud, np.roll, np.rot90, np.tile, np.repeat, np.take, np.swapaxes, np.moveaxis,
    np.squeeze, np.expand_dims, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.split, np.array_split,
    np.hsplit, np.vsplit, np.delete, np.transpose, np.take_along_axis,
)  # fmt: skip

SHOWN = frozenset(
    {
        np.transpose,
        np.swapaxes,
        np.moveaxis,
        np.squeeze,
        np.expand_dims,
        np.atleast_1d,
        np.atleast_2d,
        np.atleast_3d,
        np.split,
        np.array_split,
        np.hsplit,
        np.vsplit,
    }
)  # fmt: skip  the results of which are views

# -- statistics --------------------------------------------------------------------------------


def average(
    x: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """The mean weighted by `weights`, of x's shape or of that of the axes; with `returned` also their sum.

    Raises ShapeError if shapes do not fit, and Error if weights sum to zero.
    """
    x = x if is_variable(x) else np.asarray(x)
    if weights is None:
        found = x.mean(axis, keepdims=keepdims)
        total: Any = np.full(found.shape, x.size / max(found.size, 1))
    else:
        weights = _weights(x, weights if is_variable(weights) else np.asarray(weights), axis)
        total = weights.sum(axis, keepdims=keepdims)
        if np.any(_values(total) == 0):
            raise Error(
                "the weights sum to zero: there is no average", remedy="write (x * weights).sum(axis)"
            )
        found = (x * weights).sum(axis, keepdims=keepdims) / total
    if not returned:
        return found
    return found, np.broadcast_to(total, found.shape) if found.shape != total.shape else total


def _weights(x: Any, weights: Any, axis: Axis) -> Any:
    """Weights along some axes in the rank of `x`."""
    if weights.shape == x.shape:
        return weights
    axes = () if axis is None else tuple(k % x.ndim for k in np.atleast_1d(axis).tolist())
    if not axes or weights.shape != tuple(x.shape[k] for k in axes):
        raise ShapeError(
            f"weights of shape {weights.shape} do not fit {x.shape}",
            remedy="pass weights of x's shape, or axis= and one weight per position along it",
        )
    order = np.argsort(axes)
    if list(order) != list(range(len(axes))):
        weights = weights.transpose(*order.tolist())
    return weights.reshape(tuple(n if k in axes else 1 for k, n in enumerate(x.shape)))


def _values(x: Any) -> Any:
    return x.data if is_variable(x) else x


# -- names -------------------------------------------------------------------------------------


def _prelude() -> Iterator[tuple[Operation, Operation]]:
    """NumPy's functions of the prelude."""
    for name, function in PRELUDE.items():
        for prefix, module in (("np", np), ("np.linalg", np.linalg)):
            if (theirs := getattr(module, name, None)) is not None:
                yield theirs, by_name(f"{prefix}.{name}", function)


def einsum(subscripts: str, *operands: Any, optimize: Any = None) -> Any:
    """NumPy's einsum; contracted from left to right."""
    return by_name("np.einsum")(subscripts, *operands)


norm = by_name("np.linalg.norm")

REDUCTIONS: Mapping[str, Operation] = (
    {name: _reduction(name) for name in ("max", "min", "prod", "logsumexp")}
    | {name: _spread(name) for name in ("var", "std")}
    | {name: _running(name) for name in ("cumsum", "cumprod", "cummax", "cummin")}
)


def answer(function: Operation, *args: Any, **options: Any) -> Any:
    """A question about values: the answer carries no derivative."""
    plain = [a.readable() if is_variable(a) else a for a in args]
    found = function(*plain, **{k: v.readable() if is_variable(v) else v for k, v in options.items()})
    if function in CHOICES:
        for part in found if isinstance(found, tuple) else (found,):
            for v in filter(is_variable, args):
                take_array("choice", part, v)
    return found


# What is computed with their answers was chosen by values, and messages say so.
CHOICES = frozenset((np.argmax, np.argmin, np.argsort, np.any, np.all, np.nonzero, np.searchsorted))


# Methods of a Variable beside those that do not compile.
_METHODS: Mapping[str, Operation] = (
    dict(REDUCTIONS)
    | {"norm": norm, "sort": sort, "matmul": matmul}
    | {name: by_name(f"np.{name}") for name in ("trace", "diagonal", "dot", "inner", "outer")}
    | {"flatten": lambda x: x.reshape(-1), "ravel": _ravel}
    | {f.__name__: partial(moved, f) for f in (np.squeeze, np.swapaxes, np.repeat, np.take)}
    | {f.__name__: partial(answer, f) for f in (np.argmax, np.argmin, np.argsort, np.any, np.all)}
)
METHODS: Mapping[str, Operation] = {name: public(f) for name, f in _METHODS.items()}
_MATRICES = ["solve", "inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "svd", "qr", "pinv"]
NUMPY: Mapping[Operation, Operation] = (
    dict(_prelude())
    | {f: partial(moved, f) for f in MOVES}
    | {np.ravel: _ravel}
    | {np.max: REDUCTIONS["max"], np.min: REDUCTIONS["min"], np.prod: REDUCTIONS["prod"]}
    | {np.amax: REDUCTIONS["max"], np.amin: REDUCTIONS["min"]}
    | {np.var: REDUCTIONS["var"], np.std: REDUCTIONS["std"]}
    | {np.cumsum: REDUCTIONS["cumsum"], np.cumprod: REDUCTIONS["cumprod"]}
    | {np.stack: stack, np.concatenate: concatenate, np.vstack: vstack, np.hstack: hstack}
    | {np.column_stack: column_stack, np.einsum: einsum, np.sort: sort, np.diff: by_name("np.diff")}
    | {f: by_name(f"np.{f.__name__}") for f in (np.dot, np.kron, np.tensordot, np.diag, np.diagonal, np.tril)}
    | {np.triu: by_name("np.triu"), np.pad: by_name("np.pad"), np.linalg.norm: norm, np.average: average}
    | {getattr(np.linalg, name): by_name(f"np.linalg.{name}") for name in _MATRICES}
)
# What reduces and accumulates elementwise functions along an axis, the first unless it is named.
UFUNCS: Mapping[tuple[str, str], Operation] = (
    {
        (name, "reduce"): REDUCTIONS[found]
        for name, found in (("maximum", "max"), ("minimum", "min"), ("multiply", "prod"))
    }
    | {("add", "reduce"): lambda x, axis, keepdims=False: x.sum(axis, keepdims)}
    | {
        (name, "accumulate"): REDUCTIONS[found]
        for name, found in (
            ("add", "cumsum"),
            ("multiply", "cumprod"),
            ("maximum", "cummax"),
            ("minimum", "cummin"),
        )
    }
)
