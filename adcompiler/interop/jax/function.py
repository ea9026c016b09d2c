"""`f.jax()`: a function of JAX arrays that supports JAX's transformations."""

from __future__ import annotations

import inspect
from typing import Any

from adcompiler.api.function import Function
from adcompiler.frames import public
from adcompiler.interop.jax.arguments import described, lengths, operands
from adcompiler.interop.jax.primitive import call
from adcompiler.pytree.structures import unflatten


class JaxFunction:
    """A compiled function of JAX arrays, the result of `f.jax()`."""

    def __init__(self, of: Function) -> None:
        self.of = of
        self.__name__ = self.__qualname__ = of.__name__
        self.__doc__ = of.__doc__

    @property
    def __signature__(self) -> inspect.Signature:
        return self.of.__signature__

    def __repr__(self) -> str:
        return f"{self.of!r}.jax()"

    @public
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The results as JAX arrays, nested like the function's."""
        types, leaves = described(self.of, args, keywords)
        found = self.of._specialise(types)
        sizes = lengths(self.of, found, leaves)
        program = found.for_lengths(found.lengths.all_known(sizes), alone=True)
        return unflatten(found.structure, call(program, sizes, operands(leaves, types)))
