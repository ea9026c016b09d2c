"""The third judge: the operations of the oracle on JAX's arrays, and derivatives of a source by JAX.

Nothing is jitted: Python runs the program, JAX traces each operation with a value that is known, and so
branches and `while` choose by `bool(...)`, ranges by integers, and a comprehension is a stack of what its
iterations gave. Stores are functional. Only floats of the arguments are JAX's; integers stay NumPy's.

JAX differentiates both branches of a `where` and multiplies with zero: a root of a negative number in the
branch that is not chosen makes NaN of the derivative. Operations with a domain therefore keep such operands
away themselves, as JAX's documentation advises.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from oracle import prepared
from oracle.builtins import ALIASES, BINARY, BITS, LINALG, REDUCTIONS, SHAPING, TRUTHS, UNARY
from oracle.translate import translate

# Most of the time goes to compiling operations that run once, so nothing is optimised. Read when XLA starts.
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
os.environ.setdefault("XLA_FLAGS", f"{QUICK} --xla_cpu_parallel_codegen_split_count=1")

Operation = Callable[..., Any]
Pair = tuple[Any, Any]


@contextmanager
def plainly() -> Iterator[None]:
    """Doubles, and no jit, also not that of `jax.numpy` itself: fewer and smaller things are compiled."""
    with jax.enable_x64(True), jax.disable_jit(), np.errstate(all="ignore"):
        yield


# ---- Operations ----


def guarded(function: Operation, inside: Operation, harmless: float) -> Operation:
    """A function of one operand that has a derivative inside of its domain only; its value is the same."""

    def apply(x: Any) -> Any:
        good = inside(x)
        return jnp.where(good, function(jnp.where(good, x, harmless)), function(jax.lax.stop_gradient(x)))

    return apply


def divide(a: Any, b: Any) -> Any:
    """The quotient; where the divisor is 0 the value alone."""
    good = jnp.not_equal(b, 0)
    return jnp.where(good, a / jnp.where(good, b, 1.0), jax.lax.stop_gradient(jnp.divide(a, b)))


def where(test: Any, then: Any, otherwise: Any) -> Any:
    """A test that is known chooses; what is not chosen gives its shape and dtype only."""
    if np.ndim(test):
        return jnp.where(test, then, otherwise)
    shape = np.broadcast_shapes(np.shape(then), np.shape(otherwise))
    chosen = jnp.asarray(then if test else otherwise, jnp.result_type(then, otherwise))
    return jnp.broadcast_to(chosen, shape)


def along(function: Operation, point: Sequence[Any], way: Sequence[Any], order: int) -> Any:
    """The derivative of `order` of t ↦ function(point + t way) at 0, by forward mode in forward mode."""

    def line(t: Any) -> Any:
        return function(*(p if w is None else p + t * w for p, w in zip(point, way, strict=True)))

    def lifted(of: Operation) -> Operation:
        return lambda t: jax.jvp(of, (t,), (1.0,))[1]

    for _ in range(order):
        line = lifted(line)
    return line(0.0)


POSITIVE: dict[str, Operation] = {
    name: guarded(getattr(jnp, name), lambda x: jnp.greater(x, 0), 1.0)
    for name in ("sqrt", "log", "log2", "log10")
}
BOUNDED: dict[str, Operation] = {
    name: guarded(getattr(jnp, name), lambda x: jnp.less(jnp.abs(x), 1), 0.5)
    for name in ("asin", "acos", "atanh")
}
RENAMED: dict[str, Operation] = {
    **{name: getattr(special, name) for name in ("erf", "erfc", "gamma", "logsumexp")},
    "lgamma": special.gammaln,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "relu": lambda x: jnp.maximum(x, 0.0),
    "round": jnp.rint,
    "log1p": guarded(jnp.log1p, lambda x: jnp.greater(x, -1), 0.0),
    "acosh": guarded(jnp.acosh, lambda x: jnp.greater(x, 1), 2.0),
    "reciprocal": lambda x: divide(1.0, x),
    "divide": divide,
    "pow": jnp.power,
    "where": where,
    "store": lambda x, index, value: jnp.asarray(x, jnp.result_type(x, value)).at[index].set(value),
    "stack": lambda items, axis=0: jnp.stack([jnp.asarray(item) for item in items], axis),
    "along": along,
    "solve_triangular": jax.scipy.linalg.solve_triangular,
    "norm": jnp.linalg.norm,
    "cummax": lambda x, axis=0: jax.lax.cummax(jnp.asarray(x), axis),
    "cummin": lambda x, axis=0: jax.lax.cummin(jnp.asarray(x), axis),
    "transpose": jnp.transpose,
    "reshape": jnp.reshape,
    **{name: getattr(jnp.linalg, name) for name in LINALG.split()},
    **POSITIVE,
    **BOUNDED,
}
NAMES = (*UNARY, *BINARY, *TRUTHS, *BITS, *REDUCTIONS, *SHAPING.split())
COLUMN = {name: getattr(jnp, name) for name in NAMES if name not in RENAMED} | RENAMED
COLUMN |= {alias: COLUMN[name] for alias, name in ALIASES.items()}


# ---- Derivatives ----


class Traced:
    """A program as a function of its float arguments, on JAX's arrays; its result is as Python's."""

    def __init__(self, source: str, args: Sequence[Any], **options: Any) -> None:
        settings = {"name": None, "order": None, "static": ()} | options
        self.program = translate(source, settings["name"], settings["order"], settings["static"])
        self.given = prepared(self.program, args, {})
        self.floats = [k for k, a in enumerate(self.given) if np.asarray(a).dtype.kind == "f"]
        self.point = tuple(jnp.asarray(self.given[k]) for k in self.floats)

    def __call__(self, *floats: Any) -> Any:
        args = list(self.given)
        for k, value in zip(self.floats, floats, strict=True):
            args[k] = value
        return self.program.function(*args)


def value(source: str, args: Sequence[Any], **options: Any) -> Any:
    """What the program gives, on JAX's arrays."""
    with plainly():
        program = Traced(source, args, **options)
        return program(*program.point)


def orders(
    source: str, args: Sequence[Any], ways: Sequence[Sequence[Any]], wrt: Sequence[int], **options: Any
) -> list[list[Any]]:
    """The value, the gradient, its derivative along the first way, and that along the second, ...

    Of a program with one scalar result; each a list of NumPy's arrays, but for the value one for each
    argument in `wrt`, which a way has too. Reverse mode stands innermost, forward mode around it.
    """
    with plainly():
        program = Traced(source, args, **options)
        levels = by_reverse(program, [program.floats.index(k) for k in wrt])
        for way in ways:
            levels = pushed(levels, tuple(map(jnp.asarray, way)))
        reached = levels(*(program.point[program.floats.index(k)] for k in wrt))
        return [[np.asarray(reached[0][0])], *(list(map(np.asarray, gradient)) for _, gradient in reached)]


def by_reverse(program: Traced, chosen: Sequence[int]) -> Operation:
    """A list of one pair, the value and the gradient, as a function of the chosen arguments."""
    inner = jax.value_and_grad(lambda *floats: jnp.asarray(program(*floats), float), tuple(chosen))

    def apply(*moved: Any) -> list[Pair]:
        full = list(program.point)
        for c, m in zip(chosen, moved, strict=True):
            full[c] = m
        return [inner(*full)]

    return apply


def pushed(levels: Operation, way: tuple[Any, ...]) -> Operation:
    """The same pairs of value and gradient, and the derivative of the last one along `way`."""

    def apply(*moved: Any) -> list[Pair]:
        known, tangents = jax.jvp(levels, moved, way)
        return [*known, tangents[-1]]

    return apply
