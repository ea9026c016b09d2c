"""Which operands of the test oracle belong to JAX, and the choice of an operation by them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def is_jax(value: Any) -> bool:
    """Whether JAX is to compute with it: all its arrays and tracers have an `aval`, and nothing else here."""
    return hasattr(value, "aval")


@functools.cache
def jax_column() -> dict[str, Callable[..., Any]]:
    """The operations on JAX's values; imported when there is one, so that no other test waits for JAX."""
    from oracle.jax import COLUMN

    return COLUMN


def shared(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """`plain`, or the operation of JAX of this name if an operand, or an item of a list of them, is JAX's."""

    def apply(*operands: Any, **options: Any) -> Any:
        parts = (p for o in operands for p in (o if isinstance(o, list | tuple) else (o,)))
        chosen = jax_column()[name] if any(map(is_jax, parts)) else plain
        return chosen(*operands, **options)

    return apply
