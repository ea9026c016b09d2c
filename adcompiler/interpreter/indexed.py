"""A program of arrays as SymPy expressions of elements at indices; reductions are sums and products.

Indices count from 0. Shared parts are written out wherever they are read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any

from adcompiler.errors import DtypeError
from adcompiler.interpreter.to_sympy import of_element
from adcompiler.ir.nodes import Array, Element, Func, Index, Input, Map, Read, Reduce, Size
from adcompiler.ir.walk import arrays_of, elements_of

LETTERS = "ijklmn" + ascii_lowercase
Written = tuple[tuple[Any, ...], Any]  # the indices of an element of a result, and the element


def to_indexed(func: Func) -> list[Written]:
    """For each result the symbols that index it, and its element there.

    Raises DtypeError for loops, scatters, routines on matrices, maxima, and what SymPy has no form of.
    """
    return [_Writer(func).result(r) for r in func.results]


def length(func: Func) -> float:
    """How many operations the results have, written out; infinite where they cannot be."""
    of: dict[Any, float] = {}
    for array in arrays_of(func.results):
        if not isinstance(array, Input | Map | Reduce):
            return float("inf")
        for element in elements_of(array.elements):
            own = of[element.array] if isinstance(element, Read) else 1.0
            of[element] = own + sum(of[a] for a in element.args)
        of[array] = 1.0 if isinstance(array, Input) else of[array.body]
    return sum(of[r] for r in func.results)


def symbol(name: str) -> str:
    """The name of an input as SymPy writes it: `p['w']` is p_w."""
    return re.sub(r"\W+", "_", name).strip("_")


class _Writer:
    """The symbols of one program."""

    def __init__(self, func: Func) -> None:
        import sympy

        self.sympy, self.sizes = sympy, func.size_names
        self.names = {i: symbol(n) for i, n in zip(func.inputs, func.input_names, strict=True)}
        taken = {*self.names.values(), *self.sizes}
        self.used: list[str] = []  # by the indices of the result, and of the sums around
        self.letters = [c for c in dict.fromkeys(LETTERS) if c not in taken]

    def result(self, array: Array) -> Written:
        """An element of a result, at its own indices."""
        indices = self._fresh(array.rank)
        return indices, self._read(array, indices)

    def _fresh(self, count: int) -> tuple[Any, ...]:
        """Symbols of indices, used from here on."""
        free = [c for c in self.letters if c not in self.used][:count]
        if len(free) < count:
            raise DtypeError("there are more indices than letters", remedy="write a shorter formula")
        self.used += free
        return tuple(self.sympy.Symbol(c, integer=True) for c in free)

    def _read(self, array: Array, at: tuple[Any, ...]) -> Any:
        """An array's element at indices."""
        if isinstance(array, Input):
            name = self.names[array]
            if not array.rank:
                return self.sympy.Symbol(name, real=True)
            return self.sympy.IndexedBase(name, real=True)[at]
        if isinstance(array, Map):
            return self._element(array.body, at)
        if isinstance(array, Reduce) and array.op in ("sum", "prod", "logsumexp"):
            return self._reduced(array, at)
        raise DtypeError(
            "only maps, sums and products can be written with indices", remedy="see f.show() for others"
        )

    def _reduced(self, array: Reduce, at: tuple[Any, ...]) -> Any:
        inner = self._fresh(len(array.reduced))
        ranges = [(k, 0, self._element(n, ()) - 1) for k, n in zip(inner, array.reduced, strict=True)]
        body = self._element(array.body, (*at, *inner))
        del self.used[len(self.used) - len(inner) :]
        if not ranges:
            return body
        if array.op == "prod":
            return self.sympy.Product(body, *ranges)
        if array.op == "sum":
            return self.sympy.Sum(body, *ranges)
        return self.sympy.log(self.sympy.Sum(self.sympy.exp(body), *ranges))

    def _element(self, element: Element, at: Sequence[Any]) -> Any:
        if isinstance(element, Index):
            return at[element.axis]
        if isinstance(element, Size):
            return self.sympy.Symbol(self.sizes[element.number], integer=True, nonnegative=True)
        args = [self._element(a, at) for a in element.args]
        if isinstance(element, Read):
            return self._read(element.array, tuple(args))
        return of_element(element, args)
