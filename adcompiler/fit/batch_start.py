"""The start of a batch of fits, and results in its form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from adcompiler.api.function import SourceFunction
from adcompiler.eager.variable.leaves import Leaf, Tree, tree
from adcompiler.errors import DtypeError, LimitError, ShapeError, Span
from adcompiler.fit.checks import SolverError, check_finite, check_order
from adcompiler.fit.limits import MOST_BATCH_PARAMETERS
from adcompiler.fit.models import numbers_of, split
from adcompiler.frontend.indexing.annotations import declared
from adcompiler.frontend.values.values import FunctionValue
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.containers import Container
from adcompiler.pytree.trees import beside, built, leaves

CONTAINER = "a parameter in a container is one number for each fit: write f(x, p) with an array for more"


@dataclass(frozen=True)
class Start:
    """The parameters of many fits.

    columns    their starts, a row for each parameter
    call       how the model is called with the numbers p0, p1, ...
    tree       the form of the start; None for an array
    """

    columns: np.ndarray
    call: str
    tree: Tree | None
    dtype: np.dtype

    @staticmethod
    def of(model: SourceFunction, variables: int, start: Any, fits: int) -> Start:
        """Raises ShapeError for a start that does not fit the model or the number of fits."""
        if type(start) in (list, tuple):
            start = _array(start)
        count, spread = split(model, variables, _of_one(start, fits), ("x", "start"))
        names = model._names[count:]
        if start is None:
            start = np.ones(len(names))
        elif spread and isinstance(start, tuple):  # a named one
            start = _array(start)
        if isinstance(start, np.ndarray) and start.ndim:
            columns, form = _columns(start, fits), None
            dtype = start.dtype if start.dtype == np.float32 else np.dtype(float)
        else:
            form, dtype = tree({n: start[n] for n in names} if spread else start, "start"), np.dtype(float)
            rows = [_row(one, fits) for one in leaves(form) if one.dtype is not None]
            if not rows:
                raise SolverError("start has no floats", remedy="there is nothing to fit: pass floats")
            if spread and len(rows) != len(names):
                raise ShapeError("start has containers for single parameters", remedy=CONTAINER)
            columns = np.stack(rows)
        found = Start(columns, _call(model, variables, count, len(columns), spread, form), form, dtype)
        found.check()
        return found

    def check(self) -> None:
        """Raise LimitError for too many parameters, SolverError for starts that are not finite."""
        n = len(self.columns)
        if n > MOST_BATCH_PARAMETERS:
            raise LimitError(
                f"fit.batch: a fit has {n} parameters",
                remedy=f"it takes {MOST_BATCH_PARAMETERS} at most; call adc.curve_fit for each fit",
            )
        check_finite("start", self.columns.T)

    @property
    def form(self) -> Any:
        """What the program depends on: the classes and names of containers, and what varies in them."""
        return None if self.tree is None else _form(self.tree)

    @property
    def pack(self) -> FunctionValue | None:
        """In the language, the container of numbers that the model takes."""
        if "pack(" not in self.call or self.tree is None:
            return None
        names = tuple(f"p{k}" for k in range(len(self.columns)))
        return FunctionValue("pack", names, partial(_packed, self.tree))

    def like(self, columns: np.ndarray) -> Any:
        """A number for each parameter of each fit, in the form of the start."""
        if self.tree is None:
            return np.ascontiguousarray(columns.T, self.dtype)
        rows = iter(columns)
        values = (
            one.value if one.dtype is None else next(rows).astype(one.dtype) for one in leaves(self.tree)
        )
        return built(self.tree, values)

    def limits(self, bounds: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """The lower and the upper limit of each parameter; None if there are none."""
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise ShapeError("bounds is not a pair", remedy="pass (lower, upper); None means no bound")
        low, high = (
            self._limits(side, f"bounds[{k}]", missing)
            for k, (side, missing) in enumerate(zip(bounds, (-np.inf, np.inf), strict=True))
        )
        if np.isinf(low).all() and np.isinf(high).all():
            return None
        check_order(low, high, "bounds of parameter {}", "make lower <= upper; None means no bound")
        outside = (self.columns < low[:, None]) | (self.columns > high[:, None])
        for k, fit in np.argwhere(outside):
            raise SolverError(
                f"the start of parameter {k} of fit {fit}, {self.columns[k, fit]}, is outside its bounds "
                f"({low[k]}, {high[k]})",
                remedy="choose a start between the bounds",
            )
        return low, high

    def _limits(self, side: Any, path: str, missing: float) -> np.ndarray:
        n = len(self.columns)
        if side is None or isinstance(side, int | float | np.number):
            return np.full(n, missing if side is None else float(side))
        if self.tree is None or isinstance(side, np.ndarray):
            given = np.array([missing if one is None else one for one in side], float)
        else:
            pairs = zip(leaves(self.tree), beside(self.tree, side, path, partial=True), strict=True)
            each = [limit for one, (_, limit) in pairs if one.dtype is not None]
            given = np.array([missing if one is None else one for one in each], float)
        if given.shape != (n,):
            raise ShapeError(
                f"{path} has shape {given.shape}, but a fit has {n} parameters",
                remedy="pass a limit for each parameter, which is the same for all fits",
            )
        return given


def _call(model: SourceFunction, variables: int, count: int, n: int, spread: bool, form: Tree | None) -> str:
    """The text that calls the model with x0, x1, ... and p0, p1, ..., in the precision it declares."""
    inputs, numbers = ([f"{letter}{k}" for k in range(size)] for letter, size in (("x", variables), ("p", n)))
    if count != variables:
        inputs = [f"({', '.join(inputs)})"]
    if not spread and not isinstance(form, Leaf):
        together = ", ".join(numbers)
        numbers = [f"np.array([{together}])" if form is None else f"pack({together})"]
    parameters = zip(model._closure.definition.parameters, [*inputs, *numbers], strict=True)
    singles = (
        f"np.float32({text})" if (kind := declared(p)) is not None and kind.dtype == "f32" else text
        for p, text in parameters
    )
    return f"model({', '.join(singles)})"


def _array(values: Sequence[Any]) -> np.ndarray:
    """A sequence of numbers, or of rows of them."""
    try:
        return numbers_of("start", values)
    except DtypeError:
        raise ShapeError(
            "start contains something other than numbers",
            remedy="pass a number for each parameter, rows of them for each fit, or a dict by name",
        ) from None


def _of_one(start: Any, fits: int) -> Any:
    """The start of one fit, as `split` takes it."""
    if isinstance(start, np.ndarray) and start.ndim:
        if start.ndim > 2:
            raise ShapeError(
                f"start has shape {start.shape}", remedy="pass (parameters,) or (fits, parameters)"
            )
        return np.zeros(start.shape[-1])
    return start


def _columns(start: np.ndarray, fits: int) -> np.ndarray:
    """A row for each parameter."""
    if start.ndim == 2 and len(start) != fits:
        raise ShapeError(
            f"start has shape {start.shape}, but there are {fits} fits",
            remedy="pass (fits, parameters), or (parameters,) for the same start everywhere",
        )
    shape = (start.shape[-1], fits)
    columns = np.broadcast_to(start[:, None] if start.ndim == 1 else start.T, shape)
    return np.ascontiguousarray(columns, float)


def _row(leaf: Leaf, fits: int) -> np.ndarray:
    """The start of one parameter for each fit."""
    if leaf.shape not in ((), (fits,)):
        raise ShapeError(f"{leaf.path} has shape {leaf.shape}, but there are {fits} fits", remedy=CONTAINER)
    return np.broadcast_to(leaf.flat().reshape(leaf.shape), (fits,)).astype(float)


def _form(form: Tree) -> Any:
    if isinstance(form, Leaf):
        return "number" if form.dtype is not None else repr(form.value)
    return form.kind, form.keys, tuple(map(_form, form.parts))


def _packed(form: Tree, context: Any, args: list[Any], keywords: dict[str, Any], span: Span) -> Any:
    """A container of the language with the form of the start."""
    return _filled(form, iter(args))


def _filled(form: Tree, numbers: Iterator[Any]) -> Any:
    if isinstance(form, Leaf):
        return form.value if form.dtype is None else next(numbers)
    parts = tuple(_filled(part, numbers) for part in form.parts)
    return parts if form.kind in (tuple, list) else Container(form.kind, form.keys, parts)
