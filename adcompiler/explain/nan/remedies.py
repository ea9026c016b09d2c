"""What to write instead of a non-finite operation: guards, by operation and cause.

A guard is an expression in the language that can replace the operation, or None if the remedy is to change
something else. The argument is made safe inside the branch too: a guard around only the operation leaves
0 * inf in the derivative of arrays that were computed before it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from adcompiler.eager.variable.elementwise import INFIX


def formula(op: str, args: Sequence[str]) -> str:
    """An operation as a formula."""
    if op in INFIX and len(args) == 2:
        return f" {INFIX[op]} ".join(f"({a})" if a.startswith("-") else a for a in args)
    return f"-{args[0]}" if op == "negative" else f"{op}({', '.join(args)})"


class Remedy(NamedTuple):
    """`text` says what to do; `guard` can stand in the operation's place, if one expression can."""

    text: str
    guard: str | None = None

    def assigned(self, target: str | None) -> Remedy:
        """The same for a statement, `x /= y`, that assigns to `target`, if there is one."""
        if target is None or self.guard is None:
            return self
        guard = f"{target} = {self.guard}"
        return Remedy(self.text.replace(self.guard, guard), guard)


class Matrix(NamedTuple):
    """What tells why a routine refuses a matrix, the `least` of something, and the largest entry."""

    what: str
    least: float
    size: float


def measured(op: str, matrix: np.ndarray) -> Matrix:
    """How a routine finds a matrix."""
    size = float(np.abs(matrix).max())
    if op == "cholesky":
        return Matrix("the smallest eigenvalue", float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]), size)
    if op.startswith("triangular"):
        return Matrix("the smallest entry on the diagonal", float(np.abs(np.diagonal(matrix)).min()), size)
    return Matrix("the smallest singular value", float(np.linalg.svd(matrix, compute_uv=False)[-1]), size)


class Failure(NamedTuple):
    """An operation that is not finite: its operands as texts and as values, whether its derivative is meant,
    by which `argument`, its own text, and what that calls (`np.sqrt`). `float32` says that its numbers are of
    that type. `matrix` is how a routine finds the matrix that it is given."""

    op: str
    texts: Sequence[str]
    values: Sequence[float]
    value: float
    backward: bool
    source: str = ""
    called: str = ""
    argument: int | None = None
    float32: bool = False
    matrix: Matrix | None = None

    @property
    def prefix(self) -> str:
        """That of NumPy's functions, where the user calls one."""
        first = self.called.partition(".")[0]
        return f"{first}." if first in ("np", "numpy") else ""

    @property
    def eps(self) -> str:
        """A small number beside 1."""
        return "1e-6" if self.float32 else "1e-12"

    def call(self, name: str, *args: str) -> str:
        """A call as the user would write it; NumPy has not all functions."""
        prefix = self.prefix if hasattr(np, name) else ""
        return f"{prefix}{name}({', '.join(args)})"

    def where(self, condition: str, then: str, otherwise: str = "0") -> str:
        """The text of a `where` that avoids the failure."""
        return self.call("where", condition, then, otherwise)

    def guarded(self, condition: str, x: str, safe: str = "1") -> str:
        """The operation where a condition on its argument holds; its argument is `safe` elsewhere."""
        return self.where(condition, self.call(self.op, self.where(condition, x, safe)))


def remedy(failure: Failure) -> Remedy:
    """What to write instead."""
    if failure.op == "constant" and failure.called:
        return Remedy(f"pass arguments for which {failure.called} is defined")
    if failure.op == "constant":
        return Remedy("write a finite number: constants are computed at compile time")
    found = _RULES.get(failure.op)
    if found is not None and failure.texts:
        made = found(failure)
        if made is not None:
            return made
    if math.isinf(failure.value) and not failure.backward and failure.op in _GROWING:
        return _overflow(failure)
    return Remedy(
        "compute it only where it is finite, with a safe argument elsewhere: where(ok, f(where(ok, x, 1)), 0)"
    )


def unwrapped(text: str) -> str:
    """A text without brackets around all of it."""
    while text.startswith("(") and _is_one_group(text):
        text = text[1:-1].strip()
    return text


def bare(text: str) -> str:
    """A text as an operand: in brackets unless it is a name, a number, a call or an element."""
    depth = 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if not depth and not (c in ".)]_" or c.isalnum()):
            return f"({text})"
    return text


def _is_one_group(text: str) -> bool:
    """Whether the bracket with which a text begins ends where the text ends."""
    depth = 0
    for k, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if not depth:
            return k == len(text) - 1
    return False


def _root(f: Failure) -> Remedy:
    x = f.texts[0]
    if f.values and f.values[0] < 0:
        guard = f.call(f.op, f.call("maximum", x, "0") + (f" + {f.eps}" if f.backward else ""))
        return Remedy(f"the argument is negative; if that is due to rounding, write {guard}", guard)
    guard = f.guarded(f"{bare(x)} > 0", x)
    norm = ""
    if _is_norm(x) and f.op == "sqrt":
        norm = "norm(...), whose derivative at 0 is 0, instead of the root of a sum of squares; or "
    return Remedy(f"{norm}{f.call(f.op, x + ' + eps')} with a small eps, or {guard}", guard)


def _cube_root(f: Failure) -> Remedy:
    x = f.texts[0]
    guard = f.guarded(f"{bare(x)} != 0", x)
    return Remedy(f"its derivative at 0 is infinite: {guard}", guard)


def _is_norm(text: str) -> bool:
    """Whether a text is a sum of squares, by what it looks like."""
    squeezed = text.replace(" ", "")
    product = re.search(r"([\w.]+)[*@]\1(?![\w.(\[])", squeezed)
    if product is not None and "@" in product[0]:
        return True
    squares = "**2" in squeezed or "square(" in squeezed or product is not None
    return ("sum(" in squeezed and squares) or "dot(" in squeezed


def _logarithm(f: Failure) -> Remedy:
    x = f.texts[0]
    if "sum(" in x and "exp(" in x:
        return Remedy("logsumexp(...) instead of log(sum(exp(...))): it subtracts the largest first")
    edge = "-1" if f.op == "log1p" else "0"
    guard = f.guarded(f"{bare(x)} > {edge}", x)
    if re.match(r"([\w.]*\.)?det\(", x) and f.values and f.values[0] == 0:
        return Remedy(
            "slogdet(A)[1] instead of log(det(A)), which may underflow; for a singular matrix it is infinite "
            "too: slogdet(A + eps * eye(len(A)))[1]",
            guard,
        )
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
    divisor = bare(y)
    guard = f.where(
        f"{divisor} != 0",
        formula("divide" if f.op == "reciprocal" else f.op, (bare(x), f.where(f"{divisor} != 0", y, "1"))),
    )
    also = " (x * log(x) is xlogy(x, x))" if "log(" in x + y else ""
    return Remedy(f"{guard}, or add a small eps to the divisor{also}", guard)


def _power(f: Failure) -> Remedy | None:
    if len(f.texts) < 2:
        return None
    x, y = f.texts[:2]
    base, exponent = f.values[:2] if len(f.values) > 1 else (0.0, 1.0)  # at 0, unless it is known better
    operand, power = bare(x), bare(y)
    if base < 0 and f.backward and f.argument == 1:
        guard = f"{f.call('abs', x) if not f.prefix else f'abs({x})'} ** {power}"
        return Remedy(
            f"the derivative in the exponent is r * log({x}), NaN where {x} is negative: leave {y} out of "
            f"wrt, write it as a number, or take {guard}",
            guard,
        )
    if base < 0 and exponent != math.floor(exponent):
        guard = f"{f.call('abs', x) if not f.prefix else f'abs({x})'} ** {power}"
        return Remedy(
            f"a non-integer power of a negative number is NaN: {guard}, or keep the base positive",
            guard,
        )
    if base == 0:
        safe = f.where(f"{operand} > 0", x, "1")
        guard = f.where(f"{operand} > 0", f"{safe} ** {power}")
        return Remedy(f"({x} + eps) ** {power} with a small eps, or {guard}", guard)
    return _overflow(f)


def _inside(f: Failure) -> Remedy | None:
    """A function of an interval that is infinite, or vertical, at its ends."""
    low, high = _INTERVALS[f.op]
    x, name = f.texts[0], _numpys(f)
    outside = bool(f.values) and not low <= f.values[0] <= high
    at_ends = f.backward or math.isinf(f.value)
    if high == math.inf:
        guard = f.call(name, f.call("maximum", x, f"{low} + {f.eps}" if at_ends else str(low)))
        return Remedy(f"{f.op} is defined from {low} up, and vertical there: {guard}", guard)
    ends = (f"{low} + {f.eps}" if low else f.eps, f"{high} - {f.eps}") if at_ends else (str(low), str(high))
    guard = f.call(name, f.call("clip", x, *ends))
    why = (
        f"the argument is outside {low} ... {high}" if outside else f"{f.op} is vertical at {low} and {high}"
    )
    angle = "; for the angle between vectors use atan2 of their cross and dot products"
    return Remedy(f"{why}: {guard}{angle if f.op in ('acos', 'asin') else ''}", guard)


def _numpys(f: Failure) -> str:
    """The name of a function as NumPy has it, where that is meant."""
    return "arc" + f.op[1:] if f.prefix and f.op[0] == "a" else f.op


def _pole(f: Failure) -> Remedy:
    """A function with poles at 0, -1, -2 ..., or a product of such."""
    x = f.texts[0]
    if f.values and f.values[0] > 0:
        return _overflow(f)
    guard = f.guarded(f"{bare(x)} > 0", x)
    return Remedy(f"{f.op} is infinite at 0, -1, -2 and so on: {guard}", guard)


def _times_logarithm(f: Failure) -> Remedy | None:
    """xlogy and xlog1py."""
    if len(f.texts) < 2:
        return None
    x, y = f.texts[:2]
    condition = f"{bare(y)} > {'-1' if f.op == 'xlog1py' else '0'}"
    guard = f.where(condition, f.call(f.op, x, f.where(condition, y, "1")))
    return Remedy(f"it is 0 where {x} is 0, and infinite elsewhere if its logarithm is: {guard}", guard)


def _mean(f: Failure) -> Remedy:
    return Remedy("it needs at least one element: pass one, or omit it if there are none")


def _exponential(f: Failure) -> Remedy:
    x = f.texts[0]
    return Remedy(
        f"it overflows: subtract the largest first, exp({bare(x)} - max({x})), as logsumexp does "
        "(log(sum(exp(x))) is logsumexp(x), a softmax is exp(x - logsumexp(x)), 1 / (1 + exp(-x)) is "
        "sigmoid(x)); or bound the argument: "
        f"{f.call('exp', f.call('minimum', x, '80' if f.float32 else '700'))}",
        f.call(f.op, f.call("minimum", x, "80" if f.float32 else "700")),
    )


def _singular(f: Failure) -> Remedy:
    return _shifted(f, "the matrix is singular, or nearly so", "or correct its rank")


def _indefinite(f: Failure) -> Remedy:
    return _shifted(f, "the matrix is not positive definite", "with A symmetric")


def _triangle(f: Failure) -> Remedy:
    return _shifted(f, "the triangle has a zero on its diagonal", "or correct its rows")


def _shifted(f: Failure, why: str, also: str) -> Remedy:
    """A matrix with a small multiple of the identity added."""
    a = f.texts[0]

    def text(eps: str) -> str:
        head, bracket, rest = f.source.partition("(")
        return head + bracket + rest.replace(a, f"{a} + {eps} * {f.prefix}eye(len({a}))", 1)

    if f.matrix is None or a not in f.source:
        return Remedy(f"{why}: add eps * eye(len(A)) to it, {also}")
    eps = max(-2 * f.matrix.least, (1e-4 if f.float32 else 1e-9) * (f.matrix.size or 1))
    which = f"an eps above {-f.matrix.least:.2g}" if f.matrix.least < 0 else "a small eps"
    return Remedy(f"{why}: {text('eps')} with {which}, {also}", text(f"{eps:.0e}"))


def _extremum(f: Failure) -> Remedy:
    return Remedy(f"the {f.op} of no elements is infinite: add a first element")


def _overflow(f: Failure) -> Remedy:
    kind = "float32: compute in float64, or scale" if f.float32 else "float64: scale"
    return Remedy(f"the number is too large for {kind} the arguments, or compute with logarithms")


def _dependent(f: Failure) -> Remedy:
    """A pseudoinverse that leaves singular values out."""
    return Remedy(
        "its rank may change, so there is no derivative: remove the column (or row) that depends "
        "on others, or add a small eps: solve(A.T @ A + eps * eye(A.shape[1]), A.T @ b)"
    )


_GROWING = frozenset((
    "add", "subtract", "multiply", "square", "power", "exp", "exp2", "expm1", "sinh", "cosh", "gamma", "sum",
    "prod", "fma", "f32", "logsumexp", "divide",
))  # fmt: skip
_INTERVALS = {
    "acos": (-1, 1), "asin": (-1, 1), "atanh": (-1, 1), "erfinv": (-1, 1), "logit": (0, 1), "ndtri": (0, 1),
    "erfcinv": (0, 2), "acosh": (1, math.inf),
}  # fmt: skip
_RULES: dict[str, Callable[[Failure], Remedy | None]] = {
    "sqrt": _root, "rsqrt": _root, "cbrt": _cube_root,
    "log": _logarithm, "log2": _logarithm, "log10": _logarithm, "log1p": _logarithm,
    "xlogy": _times_logarithm, "xlog1py": _times_logarithm,
    "divide": _quotient, "reciprocal": _quotient, "floor_divide": _quotient, "remainder": _quotient,
    "fmod": _quotient, "mean": _mean,
    "power": _power,
    **dict.fromkeys(_INTERVALS, _inside),
    **dict.fromkeys(("gamma", "lgamma", "digamma", "trigamma"), _pole),
    "exp": _exponential, "exp2": _exponential, "expm1": _exponential, "sinh": _exponential,
    "cosh": _exponential,
    "max": _extremum, "min": _extremum,
    **dict.fromkeys(("solve", "solve_transposed", "slogdet", "inv", "lu"), _singular),
    "triangular": _triangle, "triangular_transposed": _triangle,
    "cholesky": _indefinite, "pinv": _dependent,
}  # fmt: skip
