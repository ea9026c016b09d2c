"""The functions of a nonlinear program, joined: all constraints as one function, and the Lagrangian."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adcompiler.api.compile import composed
from adcompiler.api.function import Function, SourceFunction
from adcompiler.api.transforms import compiled
from adcompiler.api.weighted import Weighted
from adcompiler.eager.variable.leaves import tree
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.fit.checks import SolverError
from adcompiler.ir.naming import distinct
from adcompiler.lazy import cached_property
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.trees import leaves
from adcompiler.runtime.arguments.signature import REQUIRED, Parameter


@dataclass(frozen=True)
class Parts:
    """The functions of a nonlinear program, and what their parameters are called in all of them.

    variables  the names of the parameters that vary
    bare       whether these are one parameter, the first of each function
    single     whether x0 is the value of one parameter, not a part for each
    """

    objective: Function
    constraints: tuple[Function, ...]
    variables: tuple[str, ...]
    bare: bool
    single: bool

    @staticmethod
    def of(objective: Any, constraints: Any, wrt: Any) -> Parts:
        """Raises DtypeError for functions that are not compiled, and ShapeError for names no function has."""
        given = () if constraints is None else constraints
        several = given if isinstance(given, list | tuple) else (given,)
        functions = [_with_source(f) for f in (objective, *several)]
        names = [f._names for f in functions]
        for f, own in zip(functions, names, strict=True):
            if not own:
                raise ShapeError(f"{f.__name__} has no parameters", remedy="add a parameter for what varies")
        if wrt is None:
            return Parts(functions[0], tuple(functions[1:]), (names[0][0],), True, True)
        chosen = tuple(wrt) if isinstance(wrt, tuple | list) else (wrt,)
        known = list(dict.fromkeys(n for own in names for n in own))
        for one in chosen:
            if one not in known:
                raise ShapeError(
                    f"no function of the problem has a parameter {one!r}",
                    remedy=f"wrt has names of parameters: {', '.join(known)}",
                )
        if not chosen:
            raise ShapeError("wrt is empty: nothing can vary", remedy="name parameters, or omit wrt")
        return Parts(functions[0], tuple(functions[1:]), chosen, False, not isinstance(wrt, tuple | list))

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters that do not vary, by name."""
        found: dict[str, Parameter] = {}
        for f in (self.objective, *self.constraints):
            for p in f._parameters[1 if self.bare else 0 :]:
                if p.name not in self.variables and (
                    p.name not in found or found[p.name].default is REQUIRED
                ):
                    found[p.name] = p
        return found

    def data(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all parameters that do not vary."""
        for name in given:
            if name not in self.parameters:
                raise ShapeError(
                    f"the problem has no data parameter {name!r}",
                    remedy=f"data has values for: {', '.join(self.parameters) or 'nothing'}",
                )
        missing = [n for n, p in self.parameters.items() if n not in given and p.default is REQUIRED]
        if missing:
            raise ShapeError(
                f"the problem has no value for {', '.join(missing)}",
                remedy=f"pass data={{{missing[0]!r}: ...}}, or add it to wrt",
            )
        return {n: given.get(n, p.default) for n, p in self.parameters.items()}

    def arguments(self, f: Function, varied: Mapping[str, Any], data: Mapping[str, Any]) -> list[Any]:
        """The arguments of one of the functions."""
        values = {**varied, **data}
        return [values[n] for n in self.names(f)]

    def names(self, f: Function) -> list[str]:
        """What the parameters of a function are called here."""
        names = f._names
        return [self.variables[0], *names[1:]] if self.bare else names


class Composed:
    """The functions joined, for constraints whose results have leaves at the `paths`."""

    def __init__(self, parts: Parts, paths: Sequence[Sequence[str]]) -> None:
        self.parts, self.paths = parts, paths
        self.names = [*parts.variables, *parts.parameters]
        count = 1 + len(parts.constraints)
        self.calls = distinct([f"function{k}" for k in range(count)], self.names)
        self.locals = distinct([f"result{k}" for k in range(count)], (*self.names, *self.calls))

    @cached_property
    def objective(self) -> SourceFunction:
        """The objective, a function of all parameters."""
        return self._function("objective", self.names, "", self._call(0))

    @cached_property
    def constraints(self) -> SourceFunction:
        """All constraints: a tuple with an array or a number for each leaf of their results."""
        return self._function("constraints", self.names, self._results(), f"{', '.join(self._leaves())},")

    @cached_property
    def lagrangian(self) -> Weighted:
        """The Lagrangian; behind all parameters it takes the factor of the objective and the multipliers of
        each leaf of the constraints."""
        results = f"{', '.join([self._call(0), *self._leaves()])},"
        joint = self._function("lagrangian", self.names, self._results(), results)
        weights = ["obj_factor", *(f"lagrange{k}" for k in range(sum(map(len, self.paths))))]
        return Weighted(joint, weights, "lagrangian", "f64")

    def _function(self, name: str, names: Sequence[str], before: str, result: str) -> SourceFunction:
        own = distinct([name], (*names, *self.calls, *self.locals))[0]
        text = f"def {own}({', '.join(names)}):\n{before}    return {result}\n"
        functions = (self.parts.objective, *self.parts.constraints)
        around = dict(zip(self.calls, functions, strict=True))
        static = [n for n, p in self.parts.parameters.items() if p.static]
        return composed(text, own, around, [n for n in static if n in names], self.parts.objective)

    def _results(self) -> str:
        return "".join(f"    {self.locals[k]} = {self._call(k)}\n" for k in range(1, len(self.calls)))

    def _call(self, k: int) -> str:
        f = (self.parts.objective, *self.parts.constraints)[k]
        return f"{self.calls[k]}({', '.join(self.parts.names(f))})"

    def _leaves(self) -> Iterator[str]:
        for local, paths in zip(self.locals[1:], self.paths, strict=True):
            yield from (local + path for path in paths)


def leaves_of(name: str, result: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Where the floats of a function's result are, and their shapes: `""` for an array, `"['a'][0]"` in a
    container."""
    found = list(leaves(tree(result, "")))
    for one in found:
        if one.dtype is None:
            raise DtypeError(
                f"{name}{one.path} is not a float, but constraints are", remedy="return floats, as 1.0 * k"
            )
    return [(one.path, one.shape) for one in found]


def _with_source(f: Any) -> Function:
    """A compiled function that other functions can call."""
    found = compiled("nlp", f)
    if found._closure is None or not isinstance(found, SourceFunction):
        raise SolverError(
            f"{found.__name__} is made by a transform",
            remedy="pass a decorated function that calls it",
        )
    return found
