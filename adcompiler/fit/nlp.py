"""`nlp`: a nonlinear program as solvers take it, with sparse exact derivatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from adcompiler.api.flat_results import flat_results, interpreted
from adcompiler.api.sparse_entries import SparseEntries
from adcompiler.api.transforms import grad
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.fit.checks import SolverError, check_order, check_value, limits_of
from adcompiler.fit.lagrangian import Composed, Parts, leaves_of
from adcompiler.fit.nlp_solvers import solved
from adcompiler.fit.points import Points
from adcompiler.fit.watch import Watch
from adcompiler.frames import public
from adcompiler.lazy import Memo, cached_property
from adcompiler.public_types import AnyFunction, Values, Wrt


@public
def nlp(
    objective: AnyFunction,
    constraints: AnyFunction = None,
    wrt: Wrt = None,
    *,
    x0: Values = None,
    data: Mapping[str, Values] | None = None,
) -> NonlinearProgram:
    """A nonlinear program: minimise `objective` such that `constraints` stay within limits.

    objective    a compiled function that returns one scalar
    constraints  a compiled function that returns arrays, or a list of such functions. Functions may have
                 different parameters; those of the same name are the same
    wrt          the parameter that varies, or a tuple of several; by default the first one of each function
    x0           values of what varies, which determine its shapes: an array or a container; for a tuple `wrt`
                 a tuple or a dict with a part for each. It may be passed to `solve` instead
    data         the values of all other parameters, by name

    The result has the methods that `cyipopt.Problem` takes as `problem_obj`, and `solve`. Everything is
    computed in float64.
    """
    return NonlinearProgram(Parts.of(objective, constraints, wrt), x0, data or {})


class NonlinearProgram:
    """Objective, constraints and their derivatives as functions of one vector of everything that varies.

    Vectors and entries are arrays of float64. The places of entries of sparse derivatives depend on the
    lengths and integers of the data, not on floats. All methods raise ShapeError for a vector of another
    length.
    """

    def __init__(self, parts: Parts, x0: Any, data: Mapping[str, Any]) -> None:
        self.parts, self._data = parts, dict(data)
        self._points = None if x0 is None else self._points_of(x0)
        self._composed: Memo[Any, _Derivatives] = Memo()
        self._shapes: list[tuple[int, ...]] | None = None
        self._key: Any = None
        self._values: list[Any] | None = None

    def __repr__(self) -> str:
        parts = self.parts
        subject = (
            f" subject to {', '.join(f.__name__ for f in parts.constraints)}" if parts.constraints else ""
        )
        shown = ", ".join(parts.variables)
        return f"<NonlinearProgram: minimise {parts.objective.__name__}{subject}, over {shown}>"

    @public
    def update(self, x0: Any = None, data: Mapping[str, Any] | None = None) -> None:
        """Other values of some parameters, or another start. Kernels fit other lengths too."""
        changed = {**self._data, **(data or {})}
        self.parts.data(changed)
        self._data = changed
        self._values = None
        self._points = self._points if x0 is None else self._points_of(x0)
        self._shapes = None

    # -- what solvers call ---------------------------------------------------------------------

    @property
    @public
    def x0(self) -> np.ndarray:
        """The start as a vector."""
        return self._start.start.copy()

    @property
    @public
    def n(self) -> int:
        """The number of variables."""
        return len(self._start.start)

    @property
    @public
    def m(self) -> int:
        """The number of constraints."""
        return sum(map(prod, self.shapes))

    @public
    def objective(self, x: Any) -> float:
        """The objective."""
        args = self._arguments(x)
        found = flat_results(self._derived.joined.objective, args)
        if len(found) != 1:
            name = self.parts.objective.__name__
            raise ShapeError(f"{name} returns {len(found)} numbers", remedy="an objective returns one scalar")
        return float(found[0])

    @public
    def gradient(self, x: Any) -> np.ndarray:
        """The gradient of the objective."""
        args = self._arguments(x)
        return flat_results(self._derived.gradient, args)

    @public
    def constraints(self, x: Any) -> np.ndarray:
        """The values of all constraints."""
        if not self.parts.constraints:
            return np.zeros(0)
        args = self._arguments(x)
        return flat_results(self._derived.joined.constraints, args)

    @public
    def jacobianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the entries of the constraints' Jacobian."""
        if not self.parts.constraints:
            return np.zeros(0, int), np.zeros(0, int)
        return self._derived.jacobian.places(self._arguments(self._start.start))

    @public
    def jacobian(self, x: Any) -> np.ndarray:
        """The entries of the constraints' Jacobian, at the places of `jacobianstructure`."""
        if not self.parts.constraints:
            return np.zeros(0)
        args = self._arguments(x)
        return self._derived.jacobian.values(args)

    @public
    def hessianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the lower triangle of the Lagrangian's Hessian."""
        return self._derived.hessian.places(self._lagrangian(self._start.start, np.zeros(self.m), 1.0))

    @public
    def hessian(self, x: Any, lagrange: Any, obj_factor: float = 1.0) -> np.ndarray:
        """The entries of the Hessian of `obj_factor * objective + lagrange @ constraints`, in the lower
        triangle, at the places of `hessianstructure`."""
        args = self._lagrangian(x, lagrange, obj_factor)
        return self._derived.hessian.values(args)

    # -- solvers -------------------------------------------------------------------------------

    @public
    def solve(
        self,
        x0: Any = None,
        method: str | None = None,
        lb: Any = None,
        ub: Any = None,
        cl: Any = None,
        cu: Any = None,
        *,
        data: Mapping[str, Any] | None = None,
        tol: float | None = None,
        options: Mapping[str, Any] | None = None,
        callback: Any = None,
        progress: bool = False,
    ) -> Any:
        """Solve the program from `x0`, by default the one that `nlp` was given.

        method    "ipopt" (needs the extra [ipopt]), or SciPy's "trust-constr" or "slsqp", which is dense.
                  None: "ipopt" if it is installed, else "trust-constr"
        lb, ub    bounds of what varies: numbers, or containers like x0, with None for no bound
        cl, cu    limits of the constraints: a number, a vector, or a list with one of these for each array
                  that the constraints return. Equal limits make an equation
        data      other values of parameters, as in `update`
        options   of the solver
        callback  called with the point after each iteration; not for "slsqp" in old versions of SciPy
        progress  whether to show the number of points and the last value on the terminal

        Returns SciPy's OptimizeResult, with the point as a container like x0 in `.params`, `.multipliers` of
        the constraints and `.bound_multipliers` of the variables: the gradient of the objective, plus the
        multipliers times the Jacobian, plus the bounds' multipliers is zero at a solution.
        """
        self.update(x0, data)
        start = self._start
        with Watch("nlp", progress) as watch:
            self._check_start(start)
            lower = start.flat(-np.inf if lb is None else lb, "lb", -np.inf)
            upper = start.flat(np.inf if ub is None else ub, "ub", np.inf)
            check_order(lower, upper, "bounds number {}", "lb <= ub; None: no limit")
            result = solved(
                self, method, start.start, (lower, upper), self._limits(cl, cu), watch, tol, options, callback
            )
        result["params"] = start.params(result.x)
        return result

    def _check_start(self, start: Points) -> None:
        """Values and slopes at the start are finite."""
        objective = self.parts.objective.__name__
        check_value("nlp", objective, self.objective(start.start))
        check_value("nlp", objective, self.gradient(start.start), "the gradient of ")
        names = ", ".join(f.__name__ for f in self.parts.constraints)
        check_value("nlp", names, self.constraints(start.start))
        check_value("nlp", names, self.jacobian(start.start), "the Jacobian of ")

    def _limits(self, cl: Any, cu: Any) -> tuple[np.ndarray, np.ndarray]:
        """The limits of all constraints, as vectors."""
        if self.m and cl is None and cu is None:
            raise SolverError(
                "the constraints have no limits",
                remedy="pass cl and cu; cl=0, cu=0 for equations, cl=0 for constraints that are at least 0",
            )
        lower, upper = self._limit(cl, "cl", -np.inf), self._limit(cu, "cu", np.inf)
        check_order(lower, upper, "limits of constraint number {}", "cl <= cu; None: no limit")
        return lower, upper

    def _limit(self, given: Any, name: str, missing: float) -> np.ndarray:
        sizes = [prod(shape) for shape in self.shapes]
        if isinstance(given, list | tuple) and len(given) == len(sizes):
            parts = given
        elif np.ndim(given) == 1 and np.size(given) == self.m:
            return np.asarray(given, float)
        elif given is None or np.ndim(given) == 0 or len(sizes) == 1:
            parts = [given] * len(sizes)
        else:
            raise ShapeError(
                f"{name} has shape {np.shape(given)}, but there are {self.m} constraints",
                remedy=f"pass a number, {self.m} numbers, or a list for the {len(sizes)} arrays",
            )
        found = [np.zeros(0)]
        for k, (part, shape) in enumerate(zip(parts, self.shapes, strict=True)):
            found.append(limits_of(f"{name}[{k}]", part, missing, "the constraints have", shape))
        return np.concatenate(found)

    # -- arguments -----------------------------------------------------------------------------

    def _points_of(self, x0: Any) -> Points:
        return Points(x0, "x0", None if self.parts.single else self.parts.variables)

    @property
    def _start(self) -> Points:
        if self._points is None:
            raise SolverError(
                "the shapes of the variables are not known", remedy="pass x0 to adc.nlp, or to solve"
            )
        return self._points

    def _vector(self, x: Any) -> np.ndarray:
        """A point as a vector. A first point is also the start, if one vector varies."""
        vector = _floats("x", x)
        if self._points is None and self.parts.single and vector.ndim == 1:
            self._points = self._points_of(vector)
        if vector.shape != self._start.start.shape:
            raise ShapeError(
                f"x has shape {vector.shape}, but {self._start.start.size} numbers vary",
                remedy="pass a vector of all variables, in the order of x0",
            )
        return vector

    def _arguments(self, x: Any) -> list[Any]:
        """The arguments of the joined functions at a point."""
        vector = self._vector(x)
        return [*self._start.arguments(vector, copied=False), *self._all_data]

    @property
    def _all_data(self) -> list[Any]:
        """The values of all parameters that do not vary, in order."""
        if self._values is None:
            self._values = list(self.parts.data(self._data).values())
        return self._values

    def _lagrangian(self, x: Any, lagrange: Any, factor: float) -> list[Any]:
        """The arguments of the Lagrangian at a point."""
        arguments, weights = self._arguments(x), _floats("lagrange", lagrange)
        if weights.shape != (self.m,):
            raise ShapeError(
                f"lagrange has shape {weights.shape}, but there are {self.m} constraints",
                remedy="pass a multiplier for each",
            )
        parts, start = [], 0
        for shape in self.shapes:
            end = start + prod(shape)
            parts.append(weights[start:end].reshape(shape) if shape else float(weights[start]))
            start = end
        return [*arguments, float(factor), *parts]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the arrays that the constraints return."""
        if self._shapes is None:
            self._look()
        assert self._shapes is not None
        return self._shapes

    @property
    def _derived(self) -> _Derivatives:
        """The joined functions for results that nest as those here do."""
        key = self._look()
        return self._composed.made(key, lambda: _Derivatives(self.parts, key))

    def _look(self) -> Any:
        """Compute the constraints once, to see what they return; return the key of the joined functions."""
        if self._shapes is None:
            varied = dict(zip(self.parts.variables, self._start.arguments(self._start.start), strict=True))
            data = self.parts.data(self._data)
            given = ((f, self.parts.arguments(f, varied, data)) for f in self.parts.constraints)
            results = [(f, interpreted(f, args)) for f, args in given]
            found = [leaves_of(f.__name__, r) for f, r in results]
            self._key = tuple(tuple(path for path, _ in own) for own in found)
            self._shapes = [shape for own in found for _, shape in own]
        return self._key


class _Derivatives:
    """The joined functions and their derivatives."""

    def __init__(self, parts: Parts, paths: Sequence[Sequence[str]]) -> None:
        self.joined, self.variables = Composed(parts, paths), parts.variables

    @cached_property
    def gradient(self) -> Any:
        """The gradient of the objective."""
        return grad(self.joined.objective, self.variables)

    @cached_property
    def jacobian(self) -> SparseEntries:
        """The entries of the Jacobian of all constraints."""
        return SparseEntries(self.joined.constraints, self.variables)

    @cached_property
    def hessian(self) -> SparseEntries:
        """The entries of the Hessian of the Lagrangian."""
        return SparseEntries(self.joined.lagrangian, self.variables, symmetric=True)


def _floats(name: str, given: Any) -> np.ndarray:
    """An array of floats without gaps."""
    try:
        return np.ascontiguousarray(given, float)
    except (TypeError, ValueError) as error:
        raise DtypeError(f"{name} is not an array of numbers: {error}", remedy="pass a vector") from None
