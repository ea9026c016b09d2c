"""Solvers of nonlinear programs: Ipopt, and SciPy's with constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from adcompiler.fit.checks import SolverError, check_limits, check_method
from adcompiler.fit.watch import Watch
from adcompiler.lazy_dataclass import dataclass

METHODS = ("ipopt", "trust-constr", "slsqp")
Limits = tuple[np.ndarray, np.ndarray]


def solved(
    problem: Any,
    method: str | None,
    start: np.ndarray,
    bounds: Limits,
    limits: Limits,
    watch: Watch,
    tol: float | None,
    options: Mapping[str, Any] | None,
    callback: Any,
) -> Any:
    """The result of a solver, with multipliers."""
    if method is None:
        method = "ipopt" if find_spec("cyipopt") else "trust-constr"
    name = check_method("nlp", method, METHODS)
    check_limits("nlp", name, options or {})
    run: Callable[..., Any] = {"ipopt": _ipopt, "trust-constr": _trust_constr, "slsqp": _slsqp}[name]
    return run(_Task(problem, start, bounds, limits, watch), tol, dict(options or {}), callback)


@dataclass(frozen=True)
class _Task:
    """A nonlinear program, its start, and limits of variables and constraints."""

    problem: Any
    start: np.ndarray
    bounds: Limits
    limits: Limits
    watch: Watch

    def value(self, x: np.ndarray) -> float:
        """The objective, which the watch sees."""
        found: float = self.problem.objective(x)
        self.watch.seen(np.asarray([found]))
        return found

    def jacobian(self, x: np.ndarray) -> Any:
        """The Jacobian of the constraints as a sparse matrix."""
        from scipy.sparse import csr_array

        shape = (len(self.limits[0]), len(self.start))
        return csr_array((self.problem.jacobian(x), self.problem.jacobianstructure()), shape=shape)

    def hessian(self, x: np.ndarray, weights: np.ndarray, factor: float) -> Any:
        """The Hessian of the Lagrangian as a sparse matrix."""
        from scipy.sparse import coo_array

        n = len(self.start)
        rows, columns = self.problem.hessianstructure()
        values, above = self.problem.hessian(x, weights, factor), rows != columns
        places = np.concatenate([rows, columns[above]]), np.concatenate([columns, rows[above]])
        return coo_array((np.concatenate([values, values[above]]), places), shape=(n, n)).tocsr()


def _ipopt(task: _Task, tol: float | None, options: dict[str, Any], callback: Any) -> Any:
    from scipy.optimize import OptimizeResult

    try:
        import cyipopt
    except ImportError as error:
        raise SolverError(
            f"the method 'ipopt' needs cyipopt: {error}",
            remedy='pip install "adcompiler[ipopt]" (docs/nlp.md names what it needs), or use '
            'method="trust-constr"',
        ) from None
    seen = _Seen(task, callback)
    (lb, ub), (cl, cu) = task.bounds, task.limits
    solver = cyipopt.Problem(n=len(task.start), m=len(cl), problem_obj=seen, lb=lb, ub=ub, cl=cl, cu=cu)
    given = {"print_level": 0, "sb": "yes", **({} if tol is None else {"tol": tol}), **options}
    for name, value in given.items():
        solver.add_option(name, value)
    x, info = solver.solve(task.start)
    message = info["status_msg"]
    found = {
        "x": x,
        "fun": float(info["obj_val"]),
        "success": info["status"] in (0, 1),
        "status": info["status"],
        "message": message.decode() if isinstance(message, bytes) else str(message),
        "nit": seen.iterations,
        "constraints": info["g"],
        "multipliers": info["mult_g"],
        "bound_multipliers": info["mult_x_U"] - info["mult_x_L"],
    }
    result = OptimizeResult()
    result.update(found)
    return result


class _Seen:
    """What Ipopt calls: the program, and after each iteration the callback."""

    def __init__(self, task: _Task, callback: Any) -> None:
        self.problem, self.callback, self.iterations = task.problem, callback, 0
        self.objective = task.value
        self.point = task.start

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """The gradient; Ipopt computes it at each point that it accepts."""
        self.point = x
        found: np.ndarray = self.problem.gradient(x)
        return found

    def intermediate(self, _: int, iteration: int, *__: Any) -> bool:
        """Called after each iteration; Ipopt goes on if this is true."""
        self.iterations = iteration
        return self.callback is None or not self.callback(np.array(self.point))


def _trust_constr(task: _Task, tol: float | None, options: dict[str, Any], callback: Any) -> Any:
    from scipy.optimize import Bounds, NonlinearConstraint, minimize

    nothing = np.zeros(len(task.limits[0]))
    solve: Any = minimize
    constraint: Any = NonlinearConstraint
    bounded = np.isfinite(task.bounds).any()
    result = solve(
        task.value,
        task.start,
        method="trust-constr",
        jac=task.problem.gradient,
        hess=lambda x: task.hessian(x, nothing, 1.0),
        bounds=Bounds(*task.bounds) if bounded else None,
        constraints=constraint(
            task.problem.constraints,
            *task.limits,
            jac=task.jacobian,
            hess=lambda x, v: task.hessian(x, v, 0.0),
        )
        if len(nothing)
        else (),
        tol=tol,
        options=options,
        callback=None if callback is None else lambda x, _: callback(x),
    )
    given = list(result.v)
    result["multipliers"] = np.asarray(given.pop(0)) if len(nothing) else nothing
    result["bound_multipliers"] = np.asarray(given.pop(0)) if bounded else np.zeros(len(task.start))
    result["constraints"] = task.problem.constraints(result.x)
    return result


def _slsqp(task: _Task, tol: float | None, options: dict[str, Any], callback: Any) -> Any:
    from scipy.optimize import Bounds, minimize

    cl, cu = task.limits
    equal, low, high = cl == cu, np.isfinite(cl) & (cl != cu), np.isfinite(cu) & (cl != cu)
    problem = task.problem
    parts = [
        ("eq", equal, 1.0, cl),
        ("ineq", low, 1.0, cl),
        ("ineq", high, -1.0, cu),
    ]
    constraints = [
        {
            "type": kind,
            "fun": lambda x, k=k, s=s, c=c: s * (problem.constraints(x)[k] - c[k]),
            "jac": lambda x, k=k, s=s: s * task.jacobian(x).toarray()[k],
        }
        for kind, k, s, c in parts
        if k.any()
    ]
    solve: Any = minimize
    result = solve(
        task.value,
        task.start,
        method="SLSQP",
        jac=problem.gradient,
        bounds=Bounds(*task.bounds) if np.isfinite(task.bounds).any() else None,
        constraints=constraints,
        tol=tol,
        options=options,
        callback=callback,
    )
    given = np.asarray(
        getattr(result, "multipliers", np.full(sum(int(k.sum()) for _, k, _, _ in parts), np.nan))
    )
    found, start = np.zeros(len(cl)), 0
    for _, k, sign, _ in parts:
        count = int(k.sum())
        found[k] -= sign * given[start : start + count]
        start += count
    x = result.x
    slope = problem.gradient(x) + task.jacobian(x).T @ found
    near = 1e-8 * (1 + np.abs(x))
    at_bound = (x <= task.bounds[0] + near) | (x >= task.bounds[1] - near)
    result["multipliers"], result["bound_multipliers"] = found, np.where(at_bound, -slope, 0.0)
    result["constraints"] = problem.constraints(x)
    return result
