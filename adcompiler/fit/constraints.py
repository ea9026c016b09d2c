"""Constraints of `minimize`: compiled functions in them get their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from adcompiler.api.function import Function
from adcompiler.api.numba_functions import of_numba
from adcompiler.errors import DtypeError
from adcompiler.fit.checks import SolverError
from adcompiler.fit.points import Points
from adcompiler.fit.problem import Problem
from adcompiler.lazy_dataclass import dataclass


def constrained(constraints: Any, points: Points, wrt: Any, products: bool) -> Any:
    """Constraints as SciPy takes them: dicts, NonlinearConstraint, and others, which stay as they are."""
    several = isinstance(constraints, list | tuple)
    found = [_constraint(one, points, wrt, products) for one in (constraints if several else [constraints])]
    return found if several else found[0]


def _constraint(constraint: Any, points: Points, wrt: Any, products: bool) -> Any:
    """One constraint; `products` if the method uses second derivatives of constraints."""
    import scipy.optimize

    kind: Any = scipy.optimize.NonlinearConstraint
    if isinstance(constraint, dict):
        if constraint.get("type") not in ("eq", "ineq"):
            raise SolverError(
                f"a constraint has the type {constraint.get('type')!r}",
                remedy='"eq" for fun(x) = 0, "ineq" for fun(x) >= 0',
            )
        if "fun" not in constraint or not _is_compiled(constraint["fun"]):
            return _plain(constraint, points)
        made = _Constraint.of(constraint["fun"], points, wrt, constraint.get("args", ()))
        rest = {k: v for k, v in constraint.items() if k not in ("fun", "jac", "args")}
        if not products:
            return rest | {"fun": made.value, "jac": made.jacobian}
        upper = 0.0 if constraint.get("type") == "eq" else np.inf
        return kind(made.value, 0.0, upper, jac=made.jacobian, hess=made.hessian)
    if isinstance(constraint, kind) and _is_compiled(constraint.fun):
        made = _Constraint.of(constraint.fun, points, wrt, ())
        second = {"hess": made.hessian} if products else {}
        return kind(
            made.value,
            constraint.lb,
            constraint.ub,
            jac=made.jacobian,
            keep_feasible=constraint.keep_feasible,
            **second,
        )
    return _plain(constraint, points)


def _plain(constraint: Any, points: Points) -> Any:
    """A constraint that SciPy computes: a matrix, or a function of Python, which is called with vectors."""
    import scipy.optimize

    is_whole = len(points.free) == len(points.whole)
    kind: Any = scipy.optimize.LinearConstraint
    if isinstance(constraint, kind):
        if is_whole:
            return constraint
        matrix = constraint.A.toarray() if hasattr(constraint.A, "toarray") else np.atleast_2d(constraint.A)
        held = matrix @ np.where(np.isin(np.arange(len(points.whole)), points.free), 0.0, points.whole)
        limits = (constraint.lb - held, constraint.ub - held)
        return kind(matrix[:, points.free], *limits, keep_feasible=constraint.keep_feasible)
    fun = constraint.get("fun") if isinstance(constraint, dict) else getattr(constraint, "fun", None)
    named = points.names is not None or any(one.shape == () for one in points.leaves)
    if fun is not None and (named or not is_whole):
        raise DtypeError(
            "a constraint function is not compiled, so it would get a vector, not a container like x0",
            remedy="compile it: @adc.function before its def",
        )
    return constraint


def _is_compiled(fun: Any) -> bool:
    return isinstance(fun, Function) or of_numba(fun) is not None


@dataclass(frozen=True)
class _Constraint:
    """A function of constraints, and its derivatives."""

    value: Any
    jacobian: Any
    curvatures: Any

    @staticmethod
    def of(fun: Any, points: Points, wrt: Any, args: Any) -> _Constraint:
        problem = Problem("minimize", fun, points, wrt, args)
        problem.begun(problem.value)
        return _Constraint(problem.value, problem.jacobian, problem.curvatures())

    def hessian(self, point: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The weighted sum of the Hessians of all constraints."""
        found: np.ndarray = np.tensordot(np.asarray(weights, float), self.curvatures(point), 1)
        return found
