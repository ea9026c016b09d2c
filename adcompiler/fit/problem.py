"""A compiled function as a function of a solver's vector: its values and exact derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np

from adcompiler.api.function import Function
from adcompiler.api.modes import hessian, hvp, jacobian
from adcompiler.api.sparse import SparseDerivative
from adcompiler.api.transforms import compiled, value_and_grad
from adcompiler.eager.variable.leaves import leaf
from adcompiler.errors import DtypeError, Error, LimitError, ShapeError
from adcompiler.fit.limits import SPARSE_ENTRIES, SPARSE_SHARE
from adcompiler.fit.points import Points
from adcompiler.fit.watch import Watch
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Array
from adcompiler.ir.walk import arrays_of
from adcompiler.lazy import cached_property
from adcompiler.pytree.containers import leaves_in, opened
from adcompiler.runtime.arguments.signature import bind


class Last:
    """A function of a vector, which remembers its value at the last point. Arrays and matrices are copies:
    a caller may scale them in place."""

    def __init__(self, function: Callable[[np.ndarray], Any]) -> None:
        self.function = function
        self.point: np.ndarray | None = None
        self.value: Any = None

    def __call__(self, point: np.ndarray) -> Any:
        if self.point is None or not np.array_equal(self.point, point):
            self.value = self.function(point)
            self.point = np.array(point)
        return self.value.copy() if hasattr(self.value, "copy") else self.value


class Problem:
    """The function, the parameters that vary, and the values of all others."""

    def __init__(
        self, what: str, f: Any, points: Points, wrt: Any, args: Any, watch: Watch | None = None
    ) -> None:
        self.what, self.points, self.watch = what, points, watch or Watch(what, False)
        self.function: Function = compiled(what, f)
        self.name = self.function.__name__
        self.wrt = wrt
        names = self.function._names
        if not names:
            raise ShapeError(f"{self.name} has no parameters", remedy="add a parameter for what varies")
        self.varied = [
            _position(self.name, names, one) for one in (wrt if isinstance(wrt, tuple) else (wrt,))
        ]
        self.by = self._by()
        points.parameter = "" if isinstance(wrt, tuple) else names[self.varied[0]]
        self.all = self._filled(names, args if isinstance(args, tuple) else (args,))
        self.shape: tuple[int, ...] | None = None  # of the last value; of a container None
        self._forget()

    def _by(self) -> Any:
        """The positions by which derivatives are taken: of what varies and is no constant."""
        if not isinstance(self.wrt, tuple):
            return self.varied[0]
        names, constants = self.function._names, self.points.constants
        return tuple(k for k in self.varied if names[k] not in constants)

    def _forget(self) -> None:
        """Remember no value."""
        self.value = Last(self._value)
        self.value_and_slope = Last(self._value_and_slope)
        self.jacobian = Last(self._jacobian_at)
        self.sparse_jacobian = Last(self._sparse_jacobian_at)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: not derivatives and values, which are computed again."""
        left = (
            "watch", "value", "value_and_slope", "jacobian", "sparse_jacobian", "_dense", "_sparse"
        )  # fmt: skip
        return {name: value for name, value in vars(self).items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.watch = Watch(self.what, False)
        self._forget()

    def with_points(self, points: Points, args: Sequence[Any] | None = None) -> Problem:
        """The same problem at other points, or for other values of all arguments; nobody watches it."""
        made = copy(self)
        made.points, made.watch = points, Watch(self.what, False)
        made.all = self.all if args is None else list(args)
        made._forget()
        return made

    @staticmethod
    def of(
        what: str, f: Any, x0: Any, wrt: Any, args: Any, watch: Watch, fixed: Sequence[str] = ()
    ) -> Problem:
        """The problem of a solver that varies the parameters `wrt`, the first one by default, from `x0`."""
        points = Points(x0, "x0", wrt if isinstance(wrt, tuple) else None, fixed)
        return Problem(what, f, points, 0 if wrt is None else wrt, args, watch)

    def _filled(self, names: Sequence[str], args: Sequence[Any]) -> list[Any]:
        """All arguments, with None for those that vary."""
        given = iter(args)
        order = [k for k in range(len(names)) if k not in self.varied]
        found = dict(zip((names[k] for k in order), given, strict=False))
        for k in self.varied:
            found[names[k]] = None
        extra = [None] * (len(args) - len(order))
        if extra:
            raise ShapeError(
                f"{self.what}: args has {len(args)} values, but {self.name} takes {len(order)} in addition "
                f"to {', '.join(names[k] for k in self.varied)}",
                remedy=f"it takes ({', '.join(names)})",
            )
        return list(bind(self.name, self.function._parameters, (), found))

    def arguments(self, point: np.ndarray) -> list[Any]:
        """All arguments of the function at a point."""
        found = list(self.all)
        for k, value in zip(self.varied, self.points.arguments(point), strict=True):
            found[k] = value
        return found

    def begun(self, evaluate: Callable[[np.ndarray], Any]) -> Any:
        """A value at the start. Parameters whose annotations refuse float64 get the dtypes of the start."""
        try:
            return evaluate(self.points.start)
        except DtypeError:
            if self.points.own or not self.points.has_float32:
                raise
        self.points.own = True
        return evaluate(self.points.start)

    # -- values --------------------------------------------------------------------------------

    def _value(self, point: np.ndarray) -> np.ndarray:
        """All floats of the result, as a vector."""
        found = self.function(*self.arguments(point))
        self.shape = np.shape(found) if opened(found, self.name) is None else None
        if type(found) is not np.ndarray:
            found = _joined([_dense(value, self.name) for value in _leaves(found)])
        vector = np.asarray(found, float).reshape(-1)
        self.watch.seen(vector)
        return vector

    def scalar(self, point: np.ndarray) -> float:
        """The value of a scalar function, without its gradient."""
        return float(self.value(point)[0])

    def _value_and_slope(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        value, grads = value_and_grad(self.function, self.by)(*self.arguments(point))
        self.watch.seen(np.asarray([value]))
        return float(value), self._vector(grads)

    def _vector(self, grads: Any) -> np.ndarray:
        """What has the structure of a gradient, as a vector."""
        whole = _joined([_dense(value, "a gradient") for value in _leaves(grads)])
        found: np.ndarray = self._columns(whole)
        return found

    def _columns(self, matrix: Any) -> Any:
        """What has a column for each number of the derivatives, with those that vary."""
        return matrix if self.points.columns is None else matrix[..., self.points.columns]

    # -- derivatives ---------------------------------------------------------------------------

    def product(self, point: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """The Hessian of a scalar function times a vector."""
        directions = self.points.directions(np.asarray(direction, float).reshape(-1))
        v = directions if isinstance(self.by, tuple) else directions[0]
        return self._vector(hvp(self.function, self.by)(self.arguments(point), v))

    def hessian(self, point: np.ndarray) -> np.ndarray:
        """The Hessian of a scalar function."""
        blocks = hessian(self.function, self.by)(*self.arguments(point))
        count = len(self.points.leaves)
        whole = _matrix(list(_leaves(blocks)), count, self.points.sizes)
        found: np.ndarray = self._columns(self._columns(whole).T).T
        return found

    def _jacobian_at(self, point: np.ndarray) -> np.ndarray:
        """The dense Jacobian of all floats of the result."""
        blocks = list(_leaves(self._dense(*self.arguments(point))))
        whole = _matrix(blocks, len(blocks) // len(self.points.leaves), self.points.sizes)
        found: np.ndarray = self._columns(whole)
        return found

    @cached_property
    def _dense(self) -> Function:
        return jacobian(self.function, self.by)

    def curvatures(self) -> Callable[[np.ndarray], np.ndarray]:
        """The Hessians of all floats of the result: an array with three axes."""
        derivative = jacobian(jacobian(self.function, self.by), self.by)
        n, sizes = sum(self.points.sizes), self.points.sizes

        def computed(point: np.ndarray) -> np.ndarray:
            blocks = list(_leaves(derivative(*self.arguments(point))))
            count = len(sizes) ** 2
            each = [blocks[k : k + count] for k in range(0, len(blocks), count)]
            found = np.concatenate([_stacked(part, sizes) for part in each]).reshape(-1, n, n)
            return np.swapaxes(self._columns(np.swapaxes(self._columns(found), 1, 2)), 1, 2)

        return Last(computed)

    @cached_property
    def _sparse(self) -> SparseDerivative:
        return jacobian(self.function, self.by, sparse=True)

    def _sparse_jacobian_at(self, point: np.ndarray) -> Any:
        """The Jacobian as a sparse matrix."""
        from scipy.sparse import block_array, csr_array

        blocks = list(_leaves(self._sparse(*self.arguments(point))))
        count = len(self.points.leaves)
        rows = [blocks[k : k + count] for k in range(0, len(blocks), count)]
        found = csr_array(block_array(rows)).astype(float)
        return found if self.points.columns is None else found[:, self.points.columns]

    def is_sparse(self, entries: int) -> bool:
        """Whether a sparse Jacobian needs much fewer directions than a dense one has columns. Patterns of
        programs with loops take long to find: these are sparse only if a user says so."""
        if entries < SPARSE_ENTRIES or self._has_loops():
            return False
        try:
            directions = self._sparse.colors(*self.arguments(self.points.start))
        except LimitError:
            return False
        return directions * SPARSE_SHARE <= len(self.points.start)

    def _has_loops(self) -> bool:
        return any(isinstance(array, Item) for array in arrays_of(self._results()))

    def _results(self) -> Sequence[Array]:
        """The results of the function's program for arguments like the start."""
        return self.function._trace(self.function._shown(self.arguments(self.points.start))).func.results

    def accepts(self, all_arguments: Sequence[Any]) -> bool:
        """Whether the function takes the dtypes of these values for what does not vary."""
        for own in {self.points.own, self.points.has_float32}:
            points = copy(self.points)
            points.own = own
            try:
                self.with_points(points, all_arguments)._results()
            except DtypeError:
                continue
            return True
        return False

    def refuse_no_scalar(self, error: Error) -> None:
        """Raise what tells a user of `minimize` what to write, if the function has not one scalar result."""
        results = self._results()
        if len(results) != 1 or results[0].rank:
            raise ShapeError(
                error.cause,
                remedy=f"minimize takes a scalar function: return one number; if {self.name} returns "
                "residuals, use adc.least_squares",
            ) from None


def _position(function: str, names: Sequence[str], wrt: Any) -> int:
    if isinstance(wrt, str) and wrt in names:
        return names.index(wrt)
    if isinstance(wrt, int) and not isinstance(wrt, bool) and -len(names) <= wrt < len(names):
        return wrt % len(names)
    raise ShapeError(f"{function} has no parameter {wrt!r}", remedy=f"it takes ({', '.join(names)})")


def _leaves(value: Any) -> Iterator[Any]:
    """The leaves of a result that have floats, in order."""
    return (leaf for leaf in leaves_in(value) if leaf is not None)


def _dense(value: Any, name: str) -> np.ndarray:
    """A leaf of a result as a vector; arrays of other libraries too."""
    if isinstance(value, np.ndarray | np.floating | float) and np.result_type(value).kind == "f":
        return np.reshape(value, -1)
    one = leaf(name, value)
    if one.dtype is None:
        raise DtypeError(f"{name} returns {type(value).__name__}, not floats", remedy="return floats")
    return one.flat()


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts or [np.zeros(0)])
    return whole.astype(float)


def _matrix(blocks: Sequence[Any], rows: int, sizes: Sequence[int]) -> np.ndarray:
    """Blocks in the order of rows as one matrix, whose columns are the entries of a point."""
    if len(blocks) == 1:
        return np.asarray(blocks[0], float).reshape(-1, sizes[0])
    count = len(sizes)
    return np.block(
        [
            [np.asarray(b, float).reshape(-1, n) for b, n in zip(blocks[k : k + count], sizes, strict=True)]
            for k in range(0, rows * count, count)
        ]
    )


def _stacked(blocks: Sequence[Any], sizes: Sequence[int]) -> np.ndarray:
    """The second derivatives of one array of results: its entries, then two axes of the point."""
    count = len(sizes)
    rows = [
        np.concatenate(
            [
                np.asarray(b, float).reshape(-1, n, m)
                for b, m in zip(blocks[k * count : (k + 1) * count], sizes, strict=True)
            ],
            axis=2,
        )
        for k, n in enumerate(sizes)
    ]
    return np.concatenate(rows, axis=1)
