"""The weighted sum of a function's results, such as a Lagrangian."""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.api.function import Function
from adcompiler.api.transforms import Derived
from adcompiler.errors import DtypeError
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.frontend.values.sizes import with_inputs
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Element, Input, Map, Read, Reduce, element_of, identity
from adcompiler.ir.types import is_float
from adcompiler.ops.build import apply
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.pytree.kinds import Types
from adcompiler.runtime.arguments.signature import Parameter


class Weighted(Derived):
    """The sum of all entries of all results, each times a weight. Behind the arguments it takes an array of
    weights for each result, of the same shape."""

    def __init__(self, of: Function, weights: Sequence[str], name: str) -> None:
        fresh = distinct(weights, [p.name for p in of.parameters])
        super().__init__(of, None, name, tuple(Parameter(n, False, False) for n in fresh))
        self.__name__ = name

    def trace(self, types: Types) -> Lowered:
        lowered = self.of.trace(types[: len(self.of.parameters)])
        func = lowered.func
        for name, result in zip(func.result_names, func.results, strict=True):
            if not is_float(result.dtype):
                raise DtypeError(f"{name} of {self.__name__} is {result.dtype}", remedy="return floats")
        first = len(func.inputs)
        weights = [Input(first + k, "f64", r.shape) for k, r in enumerate(func.results)]
        terms = [_sum(w, r) for w, r in zip(weights, func.results, strict=True)]
        total: Element = terms[0]
        for term in terms[1:]:
            total = apply("add", total, term)
        names = distinct([*func.input_names, *(p.name for p in self.parameters[-len(weights) :])])
        made = func.with_(
            name=self.__name__,
            inputs=(*func.inputs, *weights),
            input_names=names,
            results=(Map((), total),),
            result_names=distinct(["total"], names),
        )
        constraints = with_inputs(lowered.constraints, func, made)
        return Lowered(run(SIMPLIFY, made), constraints, None)


def _sum(weights: Array, result: Array) -> Element:
    """The sum of an array's entries times weights."""
    product = apply("multiply", element_of(weights), Read(result, identity(result.shape)))
    return product if not result.rank else Read(Reduce("sum", (), result.shape, product), ())
