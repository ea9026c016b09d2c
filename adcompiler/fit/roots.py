"""`root`: SciPy's, with the exact Jacobian where the method uses one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adcompiler.errors import ShapeError
from adcompiler.fit.checks import check_limits, check_method, check_value
from adcompiler.fit.problem import Problem
from adcompiler.fit.watch import Watch
from adcompiler.frames import public
from adcompiler.public_types import AnyFunction, Foreign, Values, Wrt

WITH_JACOBIAN = ("hybr", "lm")
WITHOUT = (
    "broyden1",
    "broyden2",
    "anderson",
    "linearmixing",
    "diagbroyden",
    "excitingmixing",
    "krylov",
    "df-sane",
)


@public
def root(
    f: AnyFunction,
    x0: Values,
    args: Values = (),
    method: str = "hybr",
    *,
    tol: float | None = None,
    callback: AnyFunction = None,
    options: Mapping[str, Foreign] | None = None,
    wrt: Wrt = None,
    progress: bool = False,
) -> Foreign:
    """`scipy.optimize.root` of a compiled function, with the exact Jacobian for "hybr" and "lm".

    `f` returns an array, a number or a container with as many floats as `x0` has; "lm" takes more. Other
    parameters are as in `adc.minimize`. Returns SciPy's result, with the point as a container like `x0` in
    `.params`. Raises ShapeError for another number of equations, and SolverError for an unknown method.
    """
    import scipy.optimize

    solve: Any = scipy.optimize.root
    name = check_method("root", method, (*WITH_JACOBIAN, *WITHOUT))
    check_limits("root", name, options or {})
    with Watch("root", progress) as watch:
        problem = Problem.of("root", f, x0, wrt, args, watch)
        points = problem.points
        values = problem.begun(problem.value)
        check_value("root", problem.name, values)
        n = len(points.start)
        if len(values) < n or (len(values) > n and name != "lm"):
            raise ShapeError(
                f"{problem.name} has {len(values)} equations for {n} unknowns",
                remedy='root needs one for each unknown; method="lm" and adc.least_squares take more',
            )
        given: dict[str, Any] = {"jac": problem.jacobian} if name in WITH_JACOBIAN else {"callback": callback}
        result = solve(
            problem.value,
            points.start,
            method=name,
            tol=tol,
            options=None if options is None else dict(options),
            **given,
        )
    result["params"] = points.params(result.x)
    return result
