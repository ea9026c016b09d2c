"""The programs of a batch of fits: a step of Levenberg and Marquardt, and the covariance of a fit.

Both are written in the language, for one fit with a given number of parameters, and `vmap` makes them
programs of many. The compiler differentiates the model in them. Fits are lanes of vectors, and what belongs
to one fit stays in registers: its sums over points, the solution of its normal equations, and its choice of
the next point.

A step solves (A + damping D) h = -g for the square A of the Jacobian, its diagonal D and half the gradient g.
Steps do not depend on the scale of parameters. An entry of D that falls does so slowly. A step takes the
point p + h if that reduces the cost, and damping follows from the ratio of the actual and the predicted
reduction (H. B. Nielsen, IMM-REP-1999-05). Where the cost is too close to its minimum for its digits to
show a reduction, the prediction decides. `cost` is here the sum of squares, not half of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adcompiler.api.function import Function, SourceFunction
from adcompiler.api.vmap import vmap
from adcompiler.frontend.grammar.parse import parse
from adcompiler.frontend.lowering.program import closure_of
from adcompiler.frontend.values.values import FunctionValue
from adcompiler.lazy_dataclass import dataclass
from adcompiler.runtime.programs.options import Options

FIRST_DAMPING, LEAST_DAMPING = 0.1, 1e-13
DECAY = 0.1  # of a scale in a step, at most
TINY = 1e-12  # of the cost: smaller reductions are not judged by the cost
NOISE = 1e-14  # of the cost: its rounding
RANK = 8  # a column is in the span of others if this many roundings of a sum remain


@dataclass(frozen=True)
class Model:
    """A model as a definition `value` of independent variables and the numbers that are fitted.

    closure  the model
    call     how `value` calls it, such as `model(x0, p0, p1)`
    pack     makes the container that it takes, if any
    """

    closure: Any
    call: str
    variables: int
    parameters: int
    options: Options
    pack: FunctionValue | None = None

    @property
    def inputs(self) -> list[str]:
        """The names of independent variables."""
        return [f"x{k}" for k in range(self.variables)]

    @property
    def value(self) -> str:
        """The definition's text."""
        names = [*self.inputs, *_named("p", self.parameters)]
        return f"def value({', '.join(names)}):\n    return {self.call}\n"

    def compiled(self, text: str, name: str, options: Options | None = None) -> SourceFunction:
        """A definition that may call `value`."""
        scope = {"model": self.closure, **({} if self.pack is None else {"pack": self.pack})}
        closure = closure_of(parse(f"{self.value}\n\n{text}"), name, None, scope)
        return SourceFunction(closure, (), options or self.options)


@dataclass(frozen=True)
class Data:
    """Which data there are, and which of them differ from fit to fit."""

    inputs: tuple[bool, ...]
    weights: bool | None  # None: there are none
    missing: bool  # whether observations may be NaN

    @property
    def axes(self) -> tuple[int | None, ...]:
        """The axis of the fits in each array of data."""
        found = [*self.inputs, True, *(() if self.weights is None else (self.weights,))]
        return tuple(0 if one else None for one in found)

    def names(self, model: Model) -> list[str]:
        """The names of the data in the text of a step."""
        return [*model.inputs, "y", *(() if self.weights is None else ("weight",))]


def step_of(model: Model, data: Data, bounded: bool) -> Function:
    """The function of a step of many fits: of data, the state, bounds and tolerances."""
    n = model.parameters
    one = model.compiled("\n    ".join(_step(model, data, bounded)), "step")
    limits = (None,) * (2 * n if bounded else 0)
    return vmap(one, (*data.axes, *(0,) * len(_state(n)), *limits, None, None, None))


def covariance_of(model: Model, data: Data) -> Function:
    """The function of data and parameters that computes the inverse squares of Jacobians, in the order of
    `pairs`, and last the number of parameters that the points do not determine."""
    one = model.compiled("\n    ".join(_covariance(model, data)), "covariance")
    return vmap(one, (*data.axes, *(0,) * model.parameters))


@dataclass(frozen=True)
class Step:
    """A step of many fits; each is a column of the arrays of a state. The first step computes the values at
    the start."""

    function: Function
    n: int

    @property
    def cost(self) -> int:
        """The position of the sums of squares in a state; parameters come first."""
        return len(_state(self.n)) - 4

    def begun(self, start: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The state of fits before their first step; `start` has an array for each parameter."""
        n, count = self.n, len(start[0])
        zeros, ones = np.zeros(count), np.ones(count)
        state = [*start, *[zeros] * (n + len(pairs(n))), *[ones] * n]
        return [*state, np.full(count, np.inf), np.full(count, FIRST_DAMPING), 2 * ones, ones]

    def __call__(
        self, data: Sequence[np.ndarray], state: Sequence[np.ndarray], settings: Sequence[float]
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """The state after a step, and for each fit 0, or the number of the test that ended it; `settings` are
        bounds and tolerances."""
        *after, status = self.function(*data, *state, *settings)
        return after, status


def pairs(n: int) -> list[tuple[int, int]]:
    """The places of a symmetric matrix, each once."""
    return [(i, j) for i in range(n) for j in range(i + 1)]


# -- texts -------------------------------------------------------------------------------------------


def _named(letter: str, n: int) -> list[str]:
    return [f"{letter}{i}" for i in range(n)]


def _square(letter: str, n: int) -> list[str]:
    return [f"{letter}{i}_{j}" for i, j in pairs(n)]


def _state(n: int) -> list[str]:
    """The names of what a step carries for a fit."""
    numbers = [*_named("p", n), *_named("g", n), *_square("a", n), *_named("d", n)]
    return [*numbers, "cost", "damping", "growth", "begins"]


def _sum(terms: Iterator[str] | Sequence[str]) -> str:
    return " + ".join(terms) or "0.0"


def _step(model: Model, data: Data, bounded: bool) -> Iterator[str]:
    n = model.parameters
    limits = [*_named("low", n), *_named("high", n)] if bounded else []
    names = [*data.names(model), *_state(n), *limits, "ftol", "xtol", "gtol"]
    yield f"def step({', '.join(names)}):"
    if bounded:
        yield from _free(n)
    yield from _solution(n, bounded)
    yield from _point(n, bounded)
    yield from _residuals(model, data, _named("t", n))
    yield "cost_ = sum(r * r)"
    for i in range(n):
        yield f"g{i}_ = sum(j{i} * r)"
    for i, j in pairs(n):
        yield f"a{i}_{j}_ = sum(j{i} * j{j})"
    yield from _choice(n)
    yield from _status(n, bounded)
    yield f"return {', '.join([*(f'{name}_' for name in _state(n)[:-1]), '0.0', 'status'])}"


def _free(n: int) -> Iterator[str]:
    """Parameters at a bound, which the gradient would push out, do not take part in a step."""
    for i in range(n):
        yield f"free{i} = ((p{i} > low{i}) | (g{i} < 0)) & ((p{i} < high{i}) | (g{i} > 0))"
        yield f"b{i} = where(free{i}, g{i}, 0.0)"
    for i, j in pairs(n):
        yield f"m{i}_{j} = where(free{i} & free{j}, a{i}_{j}, 0.0)"


def _solution(n: int, bounded: bool) -> Iterator[str]:
    """The solution h, by an L D L' decomposition."""
    a, g = ("m", "b") if bounded else ("a", "g")
    for j in range(n):
        known = "".join(f" - l{j}_{k} * l{j}_{k} * v{k}" for k in range(j))
        yield f"v{j} = {a}{j}_{j} + damping * d{j}{known}"
        yield f"u{j} = 1 / v{j}"
        for i in range(j + 1, n):
            known = "".join(f" - l{i}_{k} * l{j}_{k} * v{k}" for k in range(j))
            yield f"l{i}_{j} = ({a}{i}_{j}{known}) * u{j}"
    for i in range(n):
        yield f"z{i} = -{g}{i}" + "".join(f" - l{i}_{k} * z{k}" for k in range(i))
    for i in reversed(range(n)):
        yield f"h{i} = z{i} * u{i}" + "".join(f" - l{k}_{i} * h{k}" for k in range(i + 1, n))


def _point(n: int, bounded: bool) -> Iterator[str]:
    """The point to be tried, and the reduction of the cost predicted for it."""
    if not bounded:
        for i in range(n):
            yield f"t{i} = p{i} + h{i}"
        yield f"predicted = {_sum(f'h{i} * (damping * d{i} * h{i} - g{i})' for i in range(n))}"
        return
    for i in range(n):
        yield f"t{i} = min(max(p{i} + h{i}, low{i}), high{i})"
        yield f"c{i} = t{i} - p{i}"
    for i in range(n):
        row = _sum(f"m{max(i, j)}_{min(i, j)} * c{j}" for j in range(n))
        yield f"q{i} = c{i} * (2 * b{i} + {row})"
        yield f"h{i} = c{i}"
    yield f"predicted = -({_sum(_named('q', n))})"


def _residuals(model: Model, data: Data, at: Sequence[str]) -> Iterator[str]:
    """Weighted residuals r and columns j of their Jacobian; missing points are zeros."""
    point = ", ".join([*model.inputs, *at])
    for i in range(model.parameters):
        ways = [*["None"] * model.variables, *("1.0" if k == i else "None" for k in range(model.parameters))]
        yield f"f{i}, j{i} = jvp(value, ({point}), ({', '.join(ways)}))"
    yield "r = f0 - y"
    for name in ("r", *_named("j", model.parameters)):
        weighted = name if data.weights is None else f"{name} * weight"
        if data.missing:
            yield f"{name} = where(y == y, {weighted}, 0.0)"
        elif weighted != name:
            yield f"{name} = {weighted}"


def _choice(n: int) -> Iterator[str]:
    """The next point, and what belongs to it."""
    yield f"finite = abs({_sum(['cost_', *(f'a{i}_{i}_' for i in range(n))])}) < inf"
    yield "actual = cost - cost_"
    yield "first = begins > 0"
    yield f"tiny = (predicted <= {TINY} * cost) & (actual >= -{NOISE} * cost)"
    yield "accepted = finite & (first | ((actual > 0) & (predicted > 0)) | tiny)"
    yield "error = 2 * actual / predicted - 1"
    yield "factor = where(first | tiny, 1.0, max(0.1, 1 - error * error * error))"
    yield f"damping_ = where(accepted, max(damping * factor, {LEAST_DAMPING}), damping * growth)"
    yield "growth_ = where(accepted, 2.0, 2 * growth)"
    for i in range(n):
        yield f"largest{i} = max(where(first, 0.0, {DECAY} * d{i}), a{i}_{i}_)"
        yield f"d{i}_ = where(accepted & (largest{i} > 0), largest{i}, d{i})"
        yield f"p{i}_ = where(accepted, t{i}, p{i})"
    for name in (*_named("g", n), *_square("a", n), "cost"):
        yield f"{name}_ = where(accepted, {name}_, {name})"


def _status(n: int, bounded: bool) -> Iterator[str]:
    """The test that ends a fit, by SciPy's number: 1 for gtol, 2 for ftol, 3 for xtol, 4 for both."""
    free = [""] * n
    if bounded:
        for i in range(n):
            yield f"held{i} = ((p{i}_ <= low{i}) & (g{i}_ >= 0)) | ((p{i}_ >= high{i}) & (g{i}_ <= 0))"
        free = [f" | held{i}" for i in range(n)]
    tests = (f"((g{i}_ * g{i}_ <= gtol * gtol * a{i}_{i}_ * cost_){free[i]})" for i in range(n))
    yield f"level = accepted & {' & '.join(tests)}"
    yield "later = finite & (begins == 0)"
    yield f"small = abs(actual) <= max(ftol, {NOISE}) * cost"
    yield "reduced = later & (predicted <= ftol * cost) & small"
    step, size = (_sum(f"d{i}_ * {x}{i} * {x}{i}" for i in range(n)) for x in ("h", "t"))
    yield f"moved = later & ({step} <= xtol * xtol * ({size}))"
    yield "ended = where(moved, where(reduced, 4.0, 3.0), where(reduced, 2.0, 0.0))"
    yield "status = where(first & (finite == False), -1.0, where(level, 1.0, ended))"


def _covariance(model: Model, data: Data) -> Iterator[str]:
    """The inverse of the Jacobian's square, by orthogonal columns (modified Gram and Schmidt): that keeps
    digits which the square loses."""
    n = model.parameters
    yield f"def covariance({', '.join([*data.names(model), *_named('p', n)])}):"
    yield from _residuals(model, data, _named("p", n))
    yield f"rounding = {RANK * np.finfo(float).eps} * len(y)"
    for i in range(n):
        yield f"whole{i} = sum(j{i} * j{i})"
    for i in range(n):
        for k in range(i):
            yield f"l{i}_{k} = sum(j{k} * j{i}) / n{k}"
            yield f"j{i} = j{i} - l{i}_{k} * j{k}"
        yield f"n{i} = sum(j{i} * j{i})"
        yield f"lost{i} = where(n{i} > rounding * rounding * whole{i}, 0.0, 1.0)"
    for i in range(n):  # the inverse of the unit upper triangle, U[k, i] = l{i}_{k}
        for k in reversed(range(i)):
            inner = "".join(f" - l{j}_{k} * w{j}_{i}" for j in range(k + 1, i))
            yield f"w{k}_{i} = -l{i}_{k}{inner}"
    for i, j in pairs(n):
        row = [f"w{i}_{k}" if k > i else "1.0" for k in range(i, n)]
        other = [f"w{j}_{k}" if k > j else "1.0" for k in range(i, n)]
        terms = (f"{a} * {b} / n{k}" for k, (a, b) in enumerate(zip(row, other, strict=True), i))
        yield f"c{i}_{j} = {_sum(terms)}"
    yield f"return {', '.join([*_square('c', n), _sum(f'lost{i}' for i in range(n))])}"
