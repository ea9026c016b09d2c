"""The weighted sum of a function's results, such as a Lagrangian."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from adcompiler.api.function import Function
from adcompiler.api.transforms import Derived
from adcompiler.errors import DtypeError
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.ir.nodes import Array, Element, Input, Map, Read, Reduce, element_of, identity
from adcompiler.ir.types import Dtype, is_float
from adcompiler.ops.build import apply
from adcompiler.pytree.kinds import Types


class Weighted(Derived):
    """The sum of all entries of all float results, each times a weight. Behind the arguments it takes an
    array of weights for each of these results, of the same shape, and of its dtype or the one given.

    Raises DtypeError if there are more results.
    """

    def __init__(self, of: Function, weights: Sequence[str], name: str, dtype: Dtype | None = None) -> None:
        super().__init__(of, None, name, weights)
        self.__name__, self.dtype = name, dtype

    def _trace(self, types: Types) -> Lowered:
        lowered = self._of._trace(self._parted(types)[0])
        func, names = lowered.func, self._more
        found = [r for r in func.results if is_float(r.dtype)]
        for name, result in zip(func.result_names, func.results, strict=True):
            if not is_float(result.dtype) and len(names) > len(found):
                raise DtypeError(f"{name} of {self.__name__} is {result.dtype}", remedy="return floats")
        first = len(func.inputs)
        weights = [Input(first + k, self.dtype or r.dtype, r.shape) for k, r in enumerate(found)]
        terms = [_sum(w, r) for w, r in zip(weights, found, strict=True)]
        total = reduce(partial(apply, "add"), terms)
        made = func.extended(self.__name__, weights, names, [Map((), total)], ["total"])
        return self._lowered(lowered, made, None)


def _sum(weights: Array, result: Array) -> Element:
    """The sum of an array's entries times weights."""
    product = apply("multiply", element_of(weights), Read(result, identity(result.shape)))
    return product if not result.rank else Read(Reduce("sum", (), result.shape, product), ())
