"""Check derivatives against finite differences of the function itself, and against complex steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from adcompiler.api.finite_differences import (
    Place,
    Value,
    closer,
    closer_along,
    entry,
    slope_along,
    slopes,
    worst,
)
from adcompiler.api.function import Function
from adcompiler.api.limits import (
    FEWEST_STEPPED_ENTRIES,
    MANY_ENTRIES,
    MOST_STEPPED_ENTRIES,
    MOST_STEPPED_POINTS,
    NOISE_FACTOR,
    RANDOM_DIRECTIONS,
)
from adcompiler.api.modes import hvp
from adcompiler.api.transforms import compiled, grad
from adcompiler.api.weighted import Weighted
from adcompiler.errors import Error, GradientError, ShapeError
from adcompiler.frames import public
from adcompiler.interpreter.complex_step import ComplexStep, NotAnalytic
from adcompiler.ir.batch import over
from adcompiler.ir.nodes import Func, Input, Size
from adcompiler.ir.types import NUMPY
from adcompiler.ir.walk import arrays_of
from adcompiler.lazy import Memo
from adcompiler.lazy_dataclass import dataclass
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.progress import showing
from adcompiler.public_types import Values, Wrt
from adcompiler.pytree.structures import flatten, places_of, unflatten
from adcompiler.runtime.programs.program import Program

Tolerance = Mapping[np.dtype[Any], float]

F64, F32 = NUMPY["f64"], NUMPY["f32"]
RTOL: Tolerance = {F64: 1e-6, F32: 2e-2}  # finite differences
COMPLEX_RTOL: Tolerance = {F64: 1e-12, F32: 1e-4}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One derivative against one reference, at its worst entry (`x[0, 1]`); errors are relative."""

    what: str
    reference: str
    entry: str
    value: float
    expected: float
    error: float

    def __str__(self) -> str:
        at = f", worst at {self.entry}" if self.error else ""
        return f"{self.what}, {self.reference}: relative error {self.error:.1e}{at}"


@dataclass(frozen=True, slots=True)
class Report:
    """The comparisons of derivatives. Its text has a line for each, with the worst entry.

    name         the function
    order        up to which order derivatives were compared
    comparisons  a comparison for each argument and order
    notes        why some comparisons were not made
    """

    name: str
    order: int
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]

    @property
    def worst(self) -> float:
        """The largest relative error."""
        return max((c.error for c in self.comparisons), default=0.0)

    def __str__(self) -> str:
        orders = "first" if self.order == 1 else "first and second"
        first = f"{self.name}: {orders} derivatives agree"
        return "\n".join((first, *(f"  {line}" for line in (*self.comparisons, *self.notes))))


@public
def check_grad(
    f: Function, *args: Values, order: int = 2, wrt: Wrt = None, rtol: float | None = None, seed: int = 0
) -> float:
    """Compare the derivatives of `f` at `args` with finite differences and complex steps, to `order` 1 or 2.

    Results other than one scalar are summed with random weights first, so `f` may return arrays. First order:
    every entry of the gradient; second: the Hessian times a random direction. Of an argument with more than a
    thousand entries, some entries and random directions through all of them are compared. Differences are
    central with two Richardson extrapolations, and with smaller steps where they disagree; if they remain
    inconclusive, a complex step decides. If the program is analytic, complex steps of the function (of its
    gradient for the second order) are compared too, which are exact up to rounding. A terminal shows the
    progress of a long check. Returns the worst relative error. Raises GradientError with the worst entry and
    both numbers if it exceeds `rtol` (finite differences 1e-6, 2e-2 in float32; complex steps 1e-12, 1e-4 in
    float32, plus the effect of rounding the arguments).
    """
    return check_report(f, *args, order=order, wrt=wrt, rtol=rtol, seed=seed).worst


@public
def check_report(
    f: Function, *args: Values, order: int = 2, wrt: Wrt = None, rtol: float | None = None, seed: int = 0
) -> Report:
    """The comparisons of `check_grad`, with the worst entry of each; raises like it."""
    if isinstance(order, bool) or order not in (1, 2):
        raise Error(f"check_grad of order {order!r}", remedy="use 1 or 2")
    f = compiled("check_grad", f)
    f = f._by_floats(f._canonical(wrt))
    check = _Check(f, args, wrt, rtol, np.random.default_rng(seed))
    with showing(f"checking {f.__name__}"):
        check.gradient()
        if order > 1:
            check.second()
    return Report(f.__name__, order, tuple(check.comparisons), tuple(dict.fromkeys(check.notes)))


class Steps:
    """Complex steps of a function at a point, and one rounding beside it; its results are summed with
    `weights`. All steps of an argument are one pass over the program, where that can be mapped."""

    def __init__(self, f: Program, point: Sequence[Any], weights: Sequence[np.ndarray] | None) -> None:
        self.f, self.points, self.weights = f, (point, _rounded(point)), weights
        self.sizes = f.sizes(point)
        self._made: Memo[tuple[int, bool], ComplexStep] = Memo(2 * len(self.f.func.inputs))

    def slopes(self, k: int, places: Sequence[Place], near: bool = False) -> np.ndarray:
        """The derivatives by the entries of input `k` at `places`; raises NotAnalytic."""
        func = self.f.func
        make = lambda: ComplexStep(func, self.sizes, self.points[near], k, _mapped(func, k))  # noqa: E731
        return self._made.made((k, near), make).slopes(places, self.weights)


def _mapped(func: Func, k: int) -> Func | None:
    """A program over one axis more, of input `k`; None where lengths would differ from case to case, or where
    a loop that does not depend on the input would still read it."""
    axes = [0 if j == k else None for j in range(len(func.inputs))]
    with suppress(ShapeError):
        made = run(SIMPLIFY, over(func, axes, Size(len(func.size_names)), func.name))
        if {a for a in arrays_of(made.roots) if isinstance(a, Input)} <= set(made.inputs):
            return made
    return None


class _Check:
    """One check: the function or the weighted sum of its results, its point, and what was compared so far."""

    def __init__(
        self, f: Function, args: Sequence[Any], wrt: Any, rtol: float | None, random: np.random.Generator
    ) -> None:
        self.f, self.rtol, self.random = f, rtol, random
        args = f._in_order(args)
        bound = f._bind(args)
        results = [r for r in bound.run() if np.asarray(r).dtype.kind == "f"]
        if not results:
            raise GradientError(f"{f.__name__} returns no floats", remedy="return a float")
        self.scalar, self.args = f, args
        if len(bound.program.func.results) > 1 or np.ndim(results[0]):
            weights = [_weights(random, np.asarray(r), len(results)) for r in results]
            names, name = [f"weight{k}" for k in range(len(weights))], f"weighted({f.__name__})"
            self.scalar = f._derived(("weighted", len(weights)), lambda: Weighted(f, names, name))
            self.args = (*args, *weights)
        self.positions, self.wanted = f._wanted(wrt, bound.types)
        self.places = tuple(places_of(bound.types[k]) for k in self.positions)
        self.names = bound.program.func.input_names
        weighted = self.scalar._bind(self.args)
        self.value, self.point = weighted.program, weighted.values
        gradient = grad(self.scalar, wrt if self.scalar is f else self.positions)
        self.slope = gradient._specialise(weighted.types)
        self.comparisons: list[Comparison] = []
        self.notes: list[str] = []
        self.exact = [np.asarray(g) for g in self.slope.bind(self.point).run()]

    def gradient(self) -> None:
        """First derivatives."""
        steps = Steps(self.value, self.point, None)
        self.finite("gradient", self.exact, lambda p: np.float64(self.value.bind(p).run()[0]), steps)
        self.complex("gradient", self.exact, steps)

    def second(self) -> None:
        """The Hessian times a random direction."""
        directions = [self.random.uniform(-1, 1, g.shape).astype(g.dtype) for g in self.exact]
        product = hvp(self.scalar, self.positions)(self.args, unflatten(self.places, directions))
        exact = [np.asarray(h) for h in flatten(self.places, product)]

        def along(p: Sequence[Any]) -> np.float64:
            found = self.slope.bind(p).run()
            return np.float64(sum(np.vdot(d, g) for d, g in zip(directions, found, strict=True)))

        steps = Steps(self.slope, self.point, directions)
        self.finite("second derivative", exact, along, steps)
        self.complex("second derivative", exact, steps)

    def finite(self, what: str, exact: Sequence[np.ndarray], value: Value, steps: Steps) -> None:
        """Compare with finite differences of `value`; where they are uncertain, complex steps have a say."""
        parts = []
        for k, g in zip(self.wanted, exact, strict=True):
            places = None
            if g.size > MANY_ENTRIES:
                places = self.sampled(g) if g.dtype == F64 else []  # float32 has no digits for one of many
                self.along(what, value, k, g)
                if not places:
                    continue
            expected = slopes(value, self.point, k, places)
            self.look_closer(k, g, expected, value, steps)
            error = _errors(g, expected)
            if places is not None:
                asked = np.zeros(g.shape, bool)
                for place in places:
                    asked[place] = True
                error = np.where(asked, error, 0.0)
            parts.append((k, g, expected, error))
        self.compare(what, "finite differences", parts, RTOL)

    def look_closer(
        self, k: int, exact: np.ndarray, expected: np.ndarray, value: Value, steps: Steps
    ) -> None:
        """Better estimates where differences say that a derivative is wrong: by smaller steps, for what
        changes fast, and where these are uncertain by a complex step, if there is one."""
        allowed, seen = self.allowed(RTOL, exact), np.zeros(exact.shape, bool)
        while (off := ~seen & ~(_errors(exact, expected) <= allowed) & ~np.isnan(expected)).any():
            for place in map(tuple, np.argwhere(off)):  # errors are relative to the largest estimate
                expected[place], uncertain = closer(value, self.point, k, place)
                error = abs(float(exact[place]) - expected[place])
                if uncertain >= error > allowed * _scale(expected):
                    with suppress(NotAnalytic):
                        (found,) = steps.slopes(k, [place])
                        expected[place] = found if np.isfinite(found) else expected[place]
            seen |= off

    def along(self, what: str, value: Value, k: int, exact: np.ndarray) -> None:
        """Compare with finite differences along random directions, which move all entries of an argument by
        as much of themselves: one wrong entry shows in each."""
        name, start = self.names[k], np.asarray(self.point[k])
        size = np.where(start == 0, 1, abs(start)).astype(start.dtype)
        scale = max(1.0, float(np.linalg.norm((exact * size).ravel().astype(np.float64))))
        allowed = self.allowed(RTOL, exact)
        found = []
        for _ in range(RANDOM_DIRECTIONS):
            direction = size * self.random.choice([-1, 1], size.shape).astype(size.dtype)
            expected = slope_along(value, self.point, k, direction)
            slope = float(np.vdot(exact.astype(np.float64), direction.astype(np.float64)))
            if not abs(slope - expected) <= allowed * scale:
                expected, _ = closer_along(value, self.point, k, direction)
            error = abs(slope - expected) / scale
            along = f"{name} along a direction"
            found.append(Comparison(what, "finite differences", along, slope, expected, error))
            if not error <= allowed:
                self.fail(found[-1])
        self.comparisons.append(max(found, key=lambda c: c.error))
        self.notes.append(
            f"finite differences along {RANDOM_DIRECTIONS} directions through all {exact.size} entries "
            f"of {name}"
        )

    def sampled(self, exact: np.ndarray) -> list[tuple[int, ...]]:
        """The places of some entries of an argument, at random."""
        chosen = self.random.choice(exact.size, _samples(exact), replace=False)
        return [tuple(int(i) for i in np.unravel_index(p, exact.shape)) for p in chosen]

    def complex(self, what: str, exact: Sequence[np.ndarray], steps: Steps) -> None:
        """Compare with complex steps."""
        parts = []
        for k, g in zip(self.wanted, exact, strict=True):
            try:
                expected, error = self._stepped(steps, k, g)
                if g.size > MOST_STEPPED_ENTRIES:
                    name = self.names[k]
                    self.notes.append(f"complex steps at {_samples(g)} of the {g.size} entries of {name}")
            except NotAnalytic as reached:
                self.notes.append(f"no complex step for {self.names[k]}: {reached} has no complex form")
                continue
            parts.append((k, g, expected, error))
        self.compare(what, "complex step", parts, COMPLEX_RTOL)

    def _stepped(self, steps: Steps, k: int, exact: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives by complex steps, NaN where none was taken, and the errors beyond rounding."""
        places = self.sampled(exact) if exact.size > MOST_STEPPED_ENTRIES else list(np.ndindex(exact.shape))
        expected = np.full(exact.shape, np.nan)
        _put(expected, places, steps.slopes(k, places))
        usable = np.isfinite(expected) & np.isfinite(exact)
        error = np.where(usable, _errors(exact, expected), 0.0)
        if off := [tuple(int(i) for i in p) for p in np.argwhere(error > _allowed(COMPLEX_RTOL, exact))]:
            near = np.full(exact.shape, np.nan)
            _put(near, off, steps.slopes(k, off, near=True))
            moved = NOISE_FACTOR * abs(near - expected) / _scale(expected)
            error = np.where(np.isnan(near), error, np.maximum(0.0, error - moved))
        return expected, error

    def compare(
        self,
        what: str,
        reference: str,
        parts: Sequence[tuple[int, np.ndarray, np.ndarray, np.ndarray]],
        tolerance: Tolerance,
    ) -> None:
        """Keep the worst entry of all; raise if one is too far off."""
        largest: Comparison | None = None
        for k, g, expected, error in parts:
            if not error.size:
                continue
            place = worst(error)
            numbers = (float(a[place]) for a in (g, expected, error))
            found = Comparison(what, reference, entry(self.names[k], place), *numbers)
            if not found.error <= self.allowed(tolerance, g):
                self.fail(found)
            if largest is None or found.error > largest.error:
                largest = found
        if largest is not None:
            self.comparisons.append(largest)

    def allowed(self, tolerance: Tolerance, exact: np.ndarray) -> float:
        """The relative error that is not a mistake."""
        return self.rtol if self.rtol is not None else _allowed(tolerance, exact)

    def fail(self, found: Comparison) -> None:
        """A derivative is wrong, or the point lies on a kink."""
        by = "finite differences give" if found.reference == "finite differences" else "a complex step gives"
        raise GradientError(
            f"the {found.what} of {self.f.__name__} with respect to {found.entry} is {found.value:.12g}, "
            f"{by} {found.expected:.12g} (relative error {found.error:.1e})",
            remedy="if the point is at a kink, move it; otherwise please report the formula",
        )


def _put(array: np.ndarray, places: Sequence[Place], values: np.ndarray) -> None:
    for place, value in zip(places, values, strict=True):
        array[place] = value


def _samples(exact: np.ndarray) -> int:
    """How many entries of an argument are sampled."""
    return min(MOST_STEPPED_ENTRIES, max(FEWEST_STEPPED_ENTRIES, MOST_STEPPED_POINTS // exact.size))


def _scale(expected: np.ndarray) -> float:
    """What errors are relative to: the largest derivative, or 1."""
    return max(1.0, float(np.max(np.abs(expected), initial=0.0, where=~np.isnan(expected))))


def _errors(exact: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(exact.astype(np.float64) - expected) / _scale(expected))


def _allowed(tolerance: Tolerance, exact: np.ndarray) -> float:
    return tolerance.get(exact.dtype, tolerance[F64])


def _rounded(values: Sequence[Any]) -> list[Any]:
    """The arguments one rounding further from zero."""
    return [v * (1 + 2 * np.finfo(d).eps) if (d := np.asarray(v).dtype).kind == "f" else v for v in values]


def _weights(random: np.random.Generator, result: np.ndarray, count: int) -> np.ndarray:
    """Random weights; one for a single scalar, so that a message shows the user's own derivative."""
    if count == 1 and not result.shape:
        return np.ones_like(result)
    return random.uniform(0.5, 1.5, result.shape).astype(result.dtype)
