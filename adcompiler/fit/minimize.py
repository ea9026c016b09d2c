"""`minimize`: SciPy's, with the derivatives that each method uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adcompiler.errors import DtypeError, ShapeError
from adcompiler.fit.checks import SolverError, check_limits, check_method, check_order, check_value
from adcompiler.fit.constraints import constrained
from adcompiler.fit.points import Points, named
from adcompiler.fit.problem import Problem
from adcompiler.fit.watch import Watch
from adcompiler.frames import public
from adcompiler.public_types import AnyFunction, Foreign, Values, Wrt

# What a method is given: values only, gradients, and products with the Hessian or the Hessian itself.
METHODS: Mapping[str, str] = {
    "Nelder-Mead": "values",
    "Powell": "values",
    "COBYLA": "values",
    "COBYQA": "values",
    "CG": "gradient",
    "BFGS": "gradient",
    "L-BFGS-B": "gradient",
    "TNC": "gradient",
    "SLSQP": "gradient",
    "Newton-CG": "products",
    "trust-ncg": "products",
    "trust-krylov": "products",
    "trust-constr": "products",
    "dogleg": "hessian",
    "trust-exact": "hessian",
}
WITH_CONSTRAINTS = ("SLSQP", "trust-constr", "COBYLA", "COBYQA")
WITH_BOUNDS = ("L-BFGS-B", "TNC", "Nelder-Mead", "Powell", *WITH_CONSTRAINTS)


@public
def minimize(
    f: AnyFunction,
    x0: Values,
    args: Values = (),
    method: str | None = None,
    *,
    bounds: Foreign = None,
    constraints: AnyFunction = (),
    tol: float | None = None,
    callback: AnyFunction = None,
    options: Mapping[str, Foreign] | None = None,
    wrt: Wrt = None,
    fixed: Foreign = None,
    progress: bool = False,
) -> Foreign:
    """`scipy.optimize.minimize` of a compiled scalar function, with exact derivatives.

    x0           an array, a number, or a container of these: the start of the first parameter
    args         the values of the other parameters
    method       as in SciPy. Newton-CG, trust-ncg, trust-krylov and trust-constr get products with the
                 Hessian; dogleg and trust-exact get the Hessian; most others get the gradient
    bounds       as in SciPy, or a pair of containers like `x0`, with None for no bound; dicts may name some
                 parts only
    constraints  as in SciPy; functions in them are compiled ones of the same first parameter
    wrt          the parameter that varies instead of the first; for a tuple of names, x0 has a part for each
    fixed        names of parts of `x0`, or of parameters, that stay at their start: "c" or ("c", "d"). They
                 are in `.params`, and not in `.x` and `.jac`
    progress     whether to show the number of points and the last value on the terminal

    Returns SciPy's result, with the point as a container like `x0` in `.params`. Value and gradient are
    computed together, once for each point. Raises ShapeError if `f` does not return one scalar, and
    SolverError, a ValueError, for an unknown method, for bounds or constraints that a method does not take,
    and for starts that are not finite.
    """
    import scipy.optimize

    solve: Any = scipy.optimize.minimize
    with Watch("minimize", progress) as watch:
        problem = Problem.of("minimize", f, x0, wrt, args, watch, named(fixed))
        points = problem.points
        limits = bounds_of(points, bounds)
        name = _method(method, limits is not None, bool(constraints))
        check_limits("minimize", name, options or {})
        given = _derivatives(problem, METHODS[name])
        limited = constrained(constraints, points, problem.wrt, products=METHODS[name] == "products")
        result = solve(
            given.pop("fun"),
            points.start,
            method=name,
            bounds=limits,
            constraints=limited,
            tol=tol,
            callback=callback,
            options=None if options is None else dict(options),
            **given,
        )
    result["params"] = points.params(result.x)
    return result


def _method(method: str | None, bounds: bool, constraints: bool) -> str:
    """The method: as SciPy chooses it, if none is given."""
    if method is None:
        return "SLSQP" if constraints else "L-BFGS-B" if bounds else "BFGS"
    name = check_method("minimize", method, METHODS)
    asked = (("bounds", bounds, WITH_BOUNDS), ("constraints", constraints, WITH_CONSTRAINTS))
    for what, given, able in asked:
        if given and name not in able:
            raise SolverError(
                f"the method {name!r} takes no {what}", remedy=f"use one of {', '.join(map(repr, able))}"
            )
    return name


def _derivatives(problem: Problem, level: str) -> dict[str, Any]:
    """The functions that SciPy is given; the first values are computed here, so that errors are ours."""
    both = problem.value_and_slope
    try:
        if level == "values":
            value = problem.begun(problem.value)
            if len(value) != 1:
                raise ShapeError(f"{problem.name} returns {len(value)} numbers, not a scalar")
        else:
            value, slope = problem.begun(both)
            check_value("minimize", problem.name, value)
            check_value("minimize", problem.name, slope, "the gradient of ")
    except (ShapeError, DtypeError) as error:
        problem.refuse_no_scalar(error)
        raise
    check_value("minimize", problem.name, value)
    if level == "values":
        return {"fun": problem.scalar}
    given: dict[str, Any] = {"fun": lambda x: both(x)[0], "jac": lambda x: both(x)[1].copy()}
    if level == "products":
        given["hessp"] = problem.product
    elif level == "hessian":
        given["hess"] = problem.hessian
    return given


def bounds_of(points: Points, bounds: Any) -> Any:
    """Bounds of what varies, as SciPy's: from its own forms, or a pair of containers like the start."""
    from scipy.optimize import Bounds

    if bounds is None or (isinstance(bounds, Bounds) and len(points.free) == len(points.whole)):
        return bounds
    pair = bounds if isinstance(bounds, Bounds) else _pair(points, bounds)
    lower, upper = (np.broadcast_to(side, points.whole.shape)[points.free] for side in (pair.lb, pair.ub))
    return Bounds(lower, upper)


def _pair(points: Points, bounds: Any) -> Any:
    """Bounds of everything in the start as SciPy's."""
    n = len(points.whole)
    if isinstance(bounds, np.ndarray):
        bounds = bounds.tolist()
    if not isinstance(bounds, Sequence):
        raise DtypeError(
            f"bounds is a {type(bounds).__name__}", remedy="pass n pairs, Bounds(lower, upper) or None"
        )
    if len(bounds) == n and all(map(_is_pair, bounds)):
        lower = [-np.inf if low is None else low for low, _ in bounds]
        upper = [np.inf if high is None else high for _, high in bounds]
    elif len(bounds) == 2:
        return checked_bounds(points, bounds)
    else:
        raise ShapeError(
            f"there are {len(bounds)} bounds for {n} numbers",
            remedy="pass a pair (lower, upper) for each, or a pair of containers like the start",
        )
    return checked_bounds(points, (np.array(lower, float), np.array(upper, float)))


def checked_bounds(points: Points, bounds: Sequence[Any]) -> Any:
    """A pair of limits as SciPy's Bounds."""
    from scipy.optimize import Bounds

    lower = points.flat(bounds[0], "bounds[0]", -np.inf)
    upper = points.flat(bounds[1], "bounds[1]", np.inf)
    check_order(lower, upper, "bounds of number {}", "make lower <= upper; None means no bound")
    return Bounds(lower, upper)


def _is_pair(pair: Any) -> bool:
    return (
        isinstance(pair, tuple | list)
        and len(pair) == 2
        and all(side is None or isinstance(side, int | float | np.number) for side in pair)
    )
