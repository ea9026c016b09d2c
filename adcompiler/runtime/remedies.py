"""What to write instead of an operation that is not finite: guards, by operation and by what went wrong.

A guard is an expression of the language that can stand in the operation's place, or None where the remedy is
to change something else. The argument is made safe inside the branch too: a guard around the operation alone
leaves 0 * inf in the derivative of arrays that were computed before it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Remedy(NamedTuple):
    """`text` says what to do; `guard` can stand in the operation's place, if one expression can."""

    text: str
    guard: str | None = None


class Failure(NamedTuple):
    """An operation that is not finite: its operands as texts and as values, the call's prefix as in `np.`,
    and whether its derivative is meant. `float32` says that its numbers are of that type."""

    op: str
    texts: Sequence[str]
    values: Sequence[float]
    value: float
    backward: bool
    prefix: str = ""
    float32: bool = False

    def call(self, name: str, *args: str) -> str:
        return f"{self.prefix}{name}({', '.join(args)})"

    def where(self, condition: str, then: str, otherwise: str = "0") -> str:
        return self.call("where", condition, then, otherwise)


def remedy(failure: Failure) -> Remedy:
    """What to write instead."""
    if failure.op == "constant":
        return Remedy("write a number that is finite: constants are computed while compiling")
    found = _RULES.get(failure.op)
    if found is not None and failure.texts:
        made = found(failure)
        if made is not None:
            return made
    if math.isinf(failure.value) and not failure.backward and failure.op in _GROWING:
        return _overflow(failure)
    return Remedy(
        "compute it only where it is finite, with an argument that is safe elsewhere: "
        "where(ok, f(where(ok, x, 1)), 0)"
    )


def _bare(text: str) -> str:
    """A text as an operand: in brackets unless it is a name, a number, a call or an element."""
    return text if re.fullmatch(r"[\w.]+(\([^()]*\)|\[[^][]*\])?", text) else f"({text})"


def _root(f: Failure) -> Remedy:
    x = f.texts[0]
    if f.values and f.values[0] < 0:
        guard = f.call(f.op, f.call("maximum", x, "0") + (" + 1e-12" if f.backward else ""))
        return Remedy(f"the argument is negative; where rounding made it so write {guard}", guard)
    if _is_norm(x) and f.op == "sqrt":
        return Remedy(
            "norm(...), whose derivative at 0 is 0, in place of the root of a sum of squares; or "
            f"{f.call('sqrt', x + ' + eps')} with a small eps"
        )
    operand = _bare(x)
    safe = f.where(f"{operand} > 0", x, "1")
    guard = f.where(f"{operand} > 0", f.call(f.op, safe))
    return Remedy(f"{f.call(f.op, x + ' + eps')} with a small eps, or {guard}", guard)


def _is_norm(text: str) -> bool:
    squeezed = text.replace(" ", "")
    squares = "sum(" in squeezed and ("**2" in squeezed or "square(" in squeezed)
    return squares or "dot(" in squeezed


def _logarithm(f: Failure) -> Remedy:
    x = f.texts[0]
    if "sum(" in x and "exp(" in x:
        return Remedy("logsumexp(...) in place of log(sum(exp(...))): it subtracts the largest first")
    operand = _bare(x)
    edge = "-1" if f.op == "log1p" else "0"
    safe = f.where(f"{operand} > {edge}", x, "1")
    guard = f.where(f"{operand} > {edge}", f.call(f.op, safe))
    sign = "the argument is negative; " if f.values and f.values[0] < float(edge) else ""
    return Remedy(f"{sign}{f.call(f.op, x + ' + eps')} with a small eps, or {guard}", guard)


def _quotient(f: Failure) -> Remedy | None:
    if f.op == "reciprocal":
        x, y = "1", f.texts[0]
    elif len(f.texts) < 2:
        return None
    else:
        x, y = f.texts[:2]
    if f.values and f.values[-1] != 0:
        return _overflow(f)
    divisor = _bare(y)
    guard = f.where(f"{divisor} != 0", f"{_bare(x)} / {f.where(f'{divisor} != 0', y, '1')}")
    also = " (x * log(x) is xlogy(x, x))" if "log(" in x + y else ""
    return Remedy(f"{guard}, or a small eps beside the divisor{also}", guard)


def _power(f: Failure) -> Remedy | None:
    if len(f.texts) < 2:
        return None
    x, y = f.texts[:2]
    base, exponent = f.values[:2] if len(f.values) > 1 else (0.0, 1.0)  # at 0, unless it is known better
    operand, power = _bare(x), _bare(y)
    if base < 0 and exponent != math.floor(exponent):
        guard = f"{f.call('abs', x) if not f.prefix else f'abs({x})'} ** {power}"
        return Remedy(
            f"a power of a negative number that is no whole one is NaN: {guard}, or keep the base positive",
            guard,
        )
    if base == 0:
        safe = f.where(f"{operand} > 0", x, "1")
        guard = f.where(f"{operand} > 0", f"{safe} ** {power}")
        return Remedy(f"({x} + eps) ** {power} with a small eps, or {guard}", guard)
    return _overflow(f)


def _arc(f: Failure) -> Remedy:
    x = f.texts[0]
    outside = bool(f.values) and abs(f.values[0]) > 1
    low, high = ("-1", "1") if outside and not f.backward else ("-1 + 1e-12", "1 - 1e-12")
    name = "arc" + f.op[1:] if f.prefix.startswith("n") else f.op
    guard = f.call(name, f.call("clip", x, low, high))
    why = "the argument is outside of -1 ... 1" if outside else f"{f.op} is vertical at -1 and 1"
    return Remedy(
        f"{why}: {guard}; for the angle between vectors use atan2 of their cross and dot products", guard
    )


def _exponential(f: Failure) -> Remedy:
    x = f.texts[0]
    return Remedy(
        f"it overflows: subtract the largest first, exp({_bare(x)} - max({x})), as logsumexp does "
        "(log(sum(exp(x))) is logsumexp(x), a softmax is exp(x - logsumexp(x))); or bound the argument: "
        f"{f.call('exp', f.call('minimum', x, '80' if f.float32 else '700'))}",
        f.call(f.op, f.call("minimum", x, "80" if f.float32 else "700")),
    )


def _matrix(what: str, more: str) -> Callable[[Failure], Remedy]:
    def make(f: Failure) -> Remedy:
        return Remedy(f"{what}: {more}")

    return make


def _sum(f: Failure) -> Remedy:
    return _overflow(f)


def _extremum(f: Failure) -> Remedy:
    return Remedy(f"the {f.op} of no elements is infinite: join a first element to what it is taken of")


def _overflow(f: Failure) -> Remedy:
    kind = "float32: compute in float64, or scale" if f.float32 else "float64: scale"
    return Remedy(f"the number is too large for {kind} the arguments, or compute with logarithms")


_GROWING = frozenset((
    "add", "subtract", "multiply", "square", "power", "exp", "exp2", "expm1", "sinh", "cosh", "gamma", "sum",
    "prod", "fma", "f32", "logsumexp", "divide",
))  # fmt: skip
_SINGULAR = _matrix(
    "the matrix is singular, or nearly so", "solve with A + eps * eye(len(A)), or mend its rank"
)
_ZERO = _matrix("the triangle has a zero on its diagonal", "add eps * eye(len(L)) to it")
_RULES: dict[str, Callable[[Failure], Remedy | None]] = {
    "sqrt": _root, "rsqrt": _root, "cbrt": _root,
    "log": _logarithm, "log2": _logarithm, "log10": _logarithm, "log1p": _logarithm,
    "divide": _quotient, "reciprocal": _quotient,
    "power": _power,
    "acos": _arc, "asin": _arc, "atanh": _arc,
    "exp": _exponential, "exp2": _exponential, "expm1": _exponential, "sinh": _exponential,
    "cosh": _exponential,
    "max": _extremum, "min": _extremum,
    "solve": _SINGULAR, "solve_transposed": _SINGULAR, "det": _SINGULAR, "slogdet": _SINGULAR,
    "lu": _SINGULAR,
    "triangular": _ZERO, "triangular_transposed": _ZERO,
    "cholesky": _matrix(
        "the matrix is not positive definite", "cholesky(A + eps * eye(len(A))), with A symmetric"
    ),
}  # fmt: skip
