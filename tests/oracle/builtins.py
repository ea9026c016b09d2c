"""The operations of the test oracle: each on NumPy's values, and on reals of a hundred digits.

The functions look at their operands: NumPy values are computed by NumPy, reals by mpmath, and JAX's by
`oracle_jax`. So one translated program gives its value and, by differences with a minute step or by JAX,
its derivatives.

Python numbers are weak, as in NumPy 2: among float32 they become float32, among themselves they stay
Python numbers.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np

from oracle.dispatch import is_jax, jax_column, shared

Value = Any  # a Python number, a NumPy scalar or array, a real of mpmath, an object array of those, a tuple

mp = mpmath.MPContext()  # our own, so that no test changes the precision under our feet
mp.dps = 100

WEAK = (bool, int, float, np.bool_)
EXACT = [False]  # whether the program that runs now is run on exact reals


# ---- Elementwise operations: a NumPy column and an exact column ----


def is_weak(value: Value) -> bool:
    return type(value) in WEAK


def is_exact(value: Value) -> bool:
    return isinstance(value, mp.mpf) or (isinstance(value, np.ndarray) and value.dtype == object)


def strong(value: Value) -> Value:
    """A Python number as NumPy's, for NumPy's meaning: 1/0 is inf, integers wrap."""
    fits = not isinstance(value, int) or -(2**63) <= value < 2**63
    return np.asarray(value if fits else float(value))[()]


def copied(value: Value) -> Value:
    """A value with arrays of its own."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(map(copied, value))
    return value.copy() if isinstance(value, np.ndarray) else copy.deepcopy(value)


def real(function: Callable[..., Value]) -> Callable[..., Value]:
    """An mpmath function as one on reals: nan where it is complex or undefined."""

    def apply(*operands: Value) -> Value:
        try:
            value = function(*map(mp.convert, operands))
        except (ZeroDivisionError, ValueError):
            return mp.nan
        return mp.nan if isinstance(value, mp.mpc) else value

    return apply


def elementwise(
    fast: Callable[..., Value], exact: Callable[..., Value], count: int, truth: bool = False
) -> Callable[..., Value]:
    """The operation of `count` operands that chooses its column by what they are."""
    ufunc = np.frompyfunc(real(exact), count, 1)

    def apply(*operands: Value) -> Value:
        if any(map(is_exact, operands)):
            value = ufunc(*operands)
            return np.asarray(value, dtype=bool)[()] if truth else value
        if all(map(is_weak, operands)):
            return fast(*map(strong, operands)).item()
        return fast(*operands)

    return apply


def libm(function: Callable[[float], float]) -> Callable[[Value], Value]:
    """A function of the C library on arrays; nan at its poles."""

    def guarded(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return math.nan

    ufunc = np.frompyfunc(guarded, 1, 1)
    return lambda x: np.asarray(ufunc(x), dtype=np.result_type(x, 0.0))[()]


def power(a: Value, b: Value) -> Value:
    try:
        return np.power(a, b)
    except ValueError:  # an integer to a negative integer power
        return np.float_power(a, b)


def exact_quotient(a: Value, b: Value) -> Value:
    return a / b if b else mp.sign(a) * mp.inf


def exact_power(a: Value, b: Value) -> Value:
    return a**b if a or b >= 0 else mp.inf


def exact_maximum(a: Value, b: Value) -> Value:
    return a if a >= b or mp.isnan(a) else b


UNARY: dict[str, tuple[Callable[..., Value], Callable[..., Value]]] = {
    "positive": (np.positive, lambda x: x),
    "negative": (np.negative, operator.neg),
    "abs": (np.abs, abs),
    "sign": (np.sign, mp.sign),
    "exp": (np.exp, mp.exp),
    "exp2": (np.exp2, lambda x: mp.mpf(2) ** x),
    "expm1": (np.expm1, mp.expm1),
    "log": (np.log, mp.log),
    "log2": (np.log2, lambda x: mp.log(x, 2)),
    "log10": (np.log10, mp.log10),
    "log1p": (np.log1p, mp.log1p),
    "sqrt": (np.sqrt, mp.sqrt),
    "cbrt": (np.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "square": (np.square, lambda x: x * x),
    "reciprocal": (lambda x: 1 / x, lambda x: exact_quotient(mp.one, x)),
    "sin": (np.sin, mp.sin),
    "cos": (np.cos, mp.cos),
    "tan": (np.tan, mp.tan),
    "asin": (np.arcsin, mp.asin),
    "acos": (np.arccos, mp.acos),
    "atan": (np.arctan, mp.atan),
    "sinh": (np.sinh, mp.sinh),
    "cosh": (np.cosh, mp.cosh),
    "tanh": (np.tanh, mp.tanh),
    "asinh": (np.arcsinh, mp.asinh),
    "acosh": (np.arccosh, mp.acosh),
    "atanh": (np.arctanh, mp.atanh),
    "erf": (libm(math.erf), mp.erf),
    "erfc": (libm(math.erfc), mp.erfc),
    "gamma": (libm(math.gamma), mp.gamma),
    "lgamma": (libm(math.lgamma), lambda x: mp.log(abs(mp.gamma(x)))),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda x: 1 / (1 + mp.exp(-x))),
    "softplus": (lambda x: np.logaddexp(x, 0), lambda x: mp.log(1 + mp.exp(x))),
    "relu": (lambda x: np.maximum(x, 0), lambda x: exact_maximum(x, mp.zero)),
    "floor": (np.floor, mp.floor),
    "ceil": (np.ceil, mp.ceil),
    "trunc": (np.trunc, lambda x: mp.sign(x) * mp.floor(abs(x))),
    "round": (np.round, mp.nint),
}


BINARY: dict[str, tuple[Callable[..., Value], Callable[..., Value]]] = {
    "add": (np.add, operator.add),
    "subtract": (np.subtract, operator.sub),
    "multiply": (np.multiply, operator.mul),
    "divide": (np.true_divide, exact_quotient),
    "floor_divide": (np.floor_divide, lambda a, b: mp.floor(exact_quotient(a, b))),
    "remainder": (np.remainder, operator.mod),
    "pow": (power, exact_power),
    "minimum": (np.minimum, lambda a, b: -exact_maximum(-a, -b)),
    "maximum": (np.maximum, exact_maximum),
    "atan2": (np.arctan2, mp.atan2),
    "hypot": (np.hypot, mp.hypot),
    "logaddexp": (np.logaddexp, lambda a, b: mp.log(mp.exp(a) + mp.exp(b))),
    "copysign": (np.copysign, lambda a, b: abs(a) if b >= 0 else -abs(a)),
}
TRUTHS: dict[str, tuple[Callable[..., Value], Callable[..., Value], int]] = {
    "less": (np.less, operator.lt, 2),
    "less_equal": (np.less_equal, operator.le, 2),
    "greater": (np.greater, operator.gt, 2),
    "greater_equal": (np.greater_equal, operator.ge, 2),
    "equal": (np.equal, operator.eq, 2),
    "not_equal": (np.not_equal, operator.ne, 2),
    "logical_and": (np.logical_and, lambda a, b: bool(a) and bool(b), 2),
    "logical_or": (np.logical_or, lambda a, b: bool(a) or bool(b), 2),
    "logical_not": (np.logical_not, operator.not_, 1),
    "isnan": (np.isnan, mp.isnan, 1),
    "isinf": (np.isinf, mp.isinf, 1),
    "isfinite": (np.isfinite, lambda x: not (mp.isnan(x) or mp.isinf(x)), 1),
}
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert")  # integers only

BUILTINS: dict[str, Callable[..., Value]] = {
    **{name: elementwise(fast, exact, 1) for name, (fast, exact) in UNARY.items()},
    **{name: elementwise(fast, exact, 2) for name, (fast, exact) in BINARY.items()},
    **{name: elementwise(fast, exact, count, truth=True) for name, (fast, exact, count) in TRUTHS.items()},
    **{name: getattr(np, name) for name in BITS},
}
BUILTINS = {name: shared(name, function) for name, function in BUILTINS.items()}
ALIASES = {
    "absolute": "abs",
    "fabs": "abs",
    "power": "pow",
    "arctan2": "atan2",
    "rint": "round",
    **{f"arc{name[1:]}": name for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
}
BUILTINS |= {alias: BUILTINS[name] for alias, name in ALIASES.items()}


# ---- Arrays: comprehensions, reductions, indices ----


@dataclass(frozen=True)
class Stream:
    """The values of a comprehension; `probe` gives the shape of one where there is none."""

    values: list[Value]
    probe: Callable[[], Value]

    def samples(self) -> list[Value]:
        return self.values or [self.probe()]


def array(stream: Stream) -> Value:
    """The values stacked along a new first axis."""
    samples = stream.samples()
    if any(map(is_jax, samples)):
        return jax_column()["stack"](samples)[: len(stream.values)]
    if any(map(is_exact, samples)):
        dtype = np.dtype(object)
    else:
        kinds = {str(getattr(value, "dtype", type(value))): value for value in samples}
        dtype = np.result_type(*(value if is_weak(value) else value.dtype for value in kinds.values()))
    stacked = np.stack([np.asarray(value, dtype=dtype) for value in samples])
    return stacked[: len(stream.values)]


def listed(*items: Value) -> Value:
    """The list `[a, b]`: an array, or as it is for `concatenate` of different lengths."""
    same = len({np.shape(item) for item in items}) == 1
    return array(Stream(list(items), float)) if same else list(items)


def append(x: Value, value: Value) -> Value:
    """The list `x` with one element more; a tuple is a row."""
    return listed(*x, listed(*value) if isinstance(value, tuple) else value)


def read(x: Value, index: Value) -> Value:
    """`x[index]`; one element of an array of exact reals is a real, with `...` too."""
    found = x[index]
    return found[()] if isinstance(found, np.ndarray) and not found.ndim else found


def peek(x: Value, index: Value) -> Value:
    """`x[index]` in a probe, where every loop variable is 0 and `x` may be empty."""
    if isinstance(x, list):  # of rows of different lengths
        return x[index] if index < len(x) else np.zeros(1)
    shape = tuple(max(size, 1) for size in np.shape(x))
    dtype = x.dtype if is_jax(x) else np.asarray(x).dtype
    try:
        return np.zeros(shape, dtype)[index]
    except IndexError:
        return np.zeros((), dtype)[()]


@functools.partial(shared, "store")
def store(x: Value, index: Value, value: Value) -> Value:
    """`x` after `x[index] = value`: the same array, unless that cannot hold exact reals."""
    if not isinstance(x, np.ndarray) or (is_exact(value) and x.dtype != object):
        x = np.array(x, dtype=object if is_exact(value) else None)
    x[index] = value
    return x


def into(x: Value, value: Value) -> Value:
    """`x` after `x += ...`, which is `value`: an array keeps its place in memory, a number has none."""
    same = isinstance(x, np.ndarray) and np.shape(value) == x.shape and np.asarray(value).dtype == x.dtype
    if not same or not x.ndim:
        return value
    x[...] = value
    return x


def walk(get: Callable[[], Value]) -> Iterator[Value]:
    """The elements of what a loop runs over, as they are when it comes to them. JAX's arrays never change: of
    these `get` gives the one that is there then."""
    first = get()
    if not is_jax(first):
        yield from first
    else:
        for k in range(len(first)):
            yield get()[k]


@functools.partial(shared, "where")
def where(test: Value, then: Value, otherwise: Value) -> Value:
    value: Value = np.asarray(np.where(test, then, otherwise))[()]
    return value.item() if is_weak(then) and is_weak(otherwise) and not np.ndim(test) else value


def ternary(test: Value, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value:
    """`then if test else otherwise`; what a scalar test does not choose still gives its shape and dtype."""
    if np.ndim(test):
        return where(test, then(), otherwise())
    chosen, other = (then, otherwise) if test else (otherwise, then)
    value = chosen()
    try:
        return value if isinstance(value, tuple) else where(True, value, other())
    except (IndexError, ValueError):  # the guard kept an index in its range, or an extremum from nothing
        return value


def connective(name: str, stops: bool) -> Callable[..., Value]:
    """`and`, `or`: elementwise; on scalars Python's, which stop early, for guards such as
    `i > 0 and x[i - 1] > 0`, and give an operand, in the type of both."""

    def apply(*operands: Callable[[], Value]) -> Value:
        value = operands[0]()
        for operand in operands[1:]:
            if np.ndim(value):
                value = BUILTINS[name](value, operand())
            else:
                value = ternary(bool(value) == stops, functools.partial(copied, value), operand)
        return value

    return apply


def compare(names: Sequence[str], *operands: Value) -> Value:
    tests = [BUILTINS[name](a, b) for name, a, b in zip(names, operands, operands[1:], strict=False)]
    return functools.reduce(BUILTINS["logical_and"], tests)


def reduction(name: str, fast: Callable[..., Value]) -> Callable[..., Value]:
    """A reduction of an array over all axes or some, or of a comprehension."""

    def apply(x: Value, axis: Value = None, keepdims: bool = False, **options: Value) -> Value:
        weak = is_weak(x)
        if isinstance(x, Stream):
            weak, x, axis = all(map(is_weak, x.samples())), array(x), 0
        if is_jax(x):
            return jax_column()[name](x, axis=axis, keepdims=keepdims, **options)
        value = fast(np.asarray(x), axis=axis, keepdims=keepdims, **options)
        return value.item() if weak else value

    return apply


def mean(x: Value, axis: Value, keepdims: bool) -> Value:
    total = np.sum(x, axis=axis, keepdims=keepdims)
    return BUILTINS["divide"](total, x.size // max(np.size(total), 1))


def variance(x: Value, axis: Value, keepdims: bool, ddof: Value = 0) -> Value:
    squares = np.square(x - mean(x, axis, True))
    total = np.sum(squares, axis=axis, keepdims=keepdims)
    return BUILTINS["divide"](total, max(x.size // max(np.size(total), 1) - ddof, 0))


def logsumexp(x: Value, axis: Value, keepdims: bool) -> Value:
    top = np.max(x, axis=axis, keepdims=True)
    top = where(BUILTINS["isfinite"](top), top, 0.0)
    total = np.sum(BUILTINS["exp"](x - top), axis=axis, keepdims=True)
    value = BUILTINS["log"](total) + top
    return value if keepdims else np.squeeze(value, axis=axis)[()]


REDUCTIONS: dict[str, Callable[..., Value]] = {
    "sum": np.sum,
    "prod": np.prod,
    "min": np.min,
    "max": np.max,
    "any": np.any,
    "all": np.all,
    "argmin": np.argmin,
    "argmax": np.argmax,
    "mean": mean,
    "var": variance,
    "std": lambda x, axis, keepdims, ddof=0: BUILTINS["sqrt"](variance(x, axis, keepdims, ddof)),
    "logsumexp": logsumexp,
    "norm": lambda x, axis, keepdims: BUILTINS["sqrt"](np.sum(x * x, axis=axis, keepdims=keepdims)),
}
BUILTINS |= {name: reduction(name, fast) for name, fast in REDUCTIONS.items()}


def float_of(x: Value) -> Value:
    return x if is_exact(x) else float(x)


def as_array(x: Value, dtype: Value = None) -> Value:
    """`array(x)`; Python's types are named by the functions that convert to them."""
    kind = {BUILTINS["int"]: np.int64, BUILTINS["bool"]: np.bool_}.get(dtype)
    x = array(x) if isinstance(x, Stream) else np.array(x)
    return x if kind is None else x.astype(kind)


def filled(value: float) -> Callable[..., Value]:
    """`zeros` and `ones`: of exact reals where a program runs on those, so that these can be stored."""

    def apply(shape: Value, dtype: Value = None) -> Value:
        plain = as_array(np.full(shape, value), dtype)
        return (
            np.frompyfunc(mp.mpf, 1, 1)(plain) if EXACT[-1] and plain.dtype == float and plain.ndim else plain
        )

    return apply


def extreme(name: str, pair: str) -> Callable[..., Value]:
    """`max(x)`, `max(x, axis=0)` reduce; `max(a, b)` is Python's: the larger one, elementwise."""
    reduce = BUILTINS[name]

    def apply(x: Value, *rest: Value, **options: Value) -> Value:
        return functools.reduce(BUILTINS[pair], rest, x) if rest else reduce(x, **options)

    return apply


def solve_triangular(a: Value, b: Value, lower: bool = False) -> Value:
    return np.linalg.solve(np.tril(a) if lower else np.triu(a), b)


def log_softmax(x: Value, axis: Value = None) -> Value:
    return x - BUILTINS["logsumexp"](x, axis, True)


SHAPING = (
    "arange argsort average broadcast_to column_stack concatenate convolve copy cross cumprod cumsum diag "
    "diagonal diff dot einsum expand_dims eye flip full full_like hstack identity inner interp kron linspace "
    "matmul median moveaxis ones ones_like outer pad percentile quantile ravel repeat roll searchsorted sort "
    "squeeze stack swapaxes take take_along_axis tensordot tile trace trapezoid tril triu vdot vstack zeros "
    "zeros_like"
)
LINALG = "cholesky det eigvalsh inv pinv slogdet solve"

BUILTINS |= {name: shared(name, getattr(np, name)) for name in SHAPING.split()}
BUILTINS |= {name: shared(name, getattr(np.linalg, name)) for name in LINALG.split()}
BUILTINS["log_softmax"] = log_softmax


def by_groups(groups: Value, values: Value, count: Value) -> Value:
    """Sums of the rows of each group; none has a number that is not below the count."""
    return array(Stream([np.sum(values[groups == k], axis=0) for k in range(count)], lambda: values[0]))


def running_logsumexp(x: Value, axis: int = -1) -> Value:
    top = np.max(x, axis=axis, keepdims=True)
    return BUILTINS["log"](np.cumsum(BUILTINS["exp"](x - top), axis=axis)) + top


def running(extreme: np.ufunc) -> Callable[..., Value]:
    """The running extremum along an axis, or of all elements."""
    return lambda x, axis=None: extreme.accumulate(np.ravel(x) if axis is None else x, axis or 0)


def bincount(groups: Value, weights: Value = None, minlength: Value = 0) -> Value:
    return by_groups(groups, np.ones(groups.shape, np.int64) if weights is None else weights, minlength)


def special(name: str) -> Callable[..., Value]:
    from scipy import special as functions

    return getattr(functions, name)  # type: ignore[no-any-return]


def scipy_linalg() -> Any:
    import scipy.linalg

    return scipy.linalg


INCOMPLETE: dict[str, tuple[Callable[..., Value], int]] = {
    "gammainc": (lambda a, x: mp.gammainc(a, 0, x, regularized=True), 2),
    "gammaincc": (lambda a, x: mp.gammainc(a, x, regularized=True), 2),
    "betainc": (lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True), 3),
    "betaincc": (lambda a, b, x: mp.betainc(a, b, x, 1, regularized=True), 3),
}
BUILTINS |= {
    name: shared(name, elementwise(special(name), exact, count))
    for name, (exact, count) in INCOMPLETE.items()
}


def eigh(a: Value) -> Value:
    """Eigenvectors have the sign that makes the first of their largest entries positive."""
    values, vectors = np.linalg.eigh(a)
    largest = np.take_along_axis(vectors, np.argmax(np.abs(vectors), axis=-2)[..., None, :], axis=-2)
    return values, vectors * np.sign(largest)


def lstsq(a: Value, b: Value) -> Value:
    found = np.linalg.lstsq(a, b)[0]
    return found, np.sum(np.square(a @ found - b), axis=0)


BUILTINS |= {"eigh": eigh, "lstsq": lstsq, "svd": np.linalg.svd, "qr": np.linalg.qr, "cov": np.cov}
BUILTINS["expm"] = scipy_linalg().expm
BUILTINS["logcumsumexp"] = running_logsumexp
BUILTINS["cummax"] = shared("cummax", running(np.maximum))
BUILTINS["cummin"] = shared("cummin", running(np.minimum))
BUILTINS["flatten"] = lambda x: copied(BUILTINS["ravel"](x))
BUILTINS["copy"] = lambda x: copied(x)
BUILTINS |= {"zeros": filled(0.0), "ones": filled(1.0)}
BUILTINS["bincount"] = bincount
BUILTINS["segment_sum"] = lambda values, groups, count: by_groups(groups, values, count)
BUILTINS["softmax"] = lambda x, axis=None: BUILTINS["exp"](log_softmax(x, axis))
BUILTINS["solve_triangular"] = shared("solve_triangular", solve_triangular)
BUILTINS |= {
    "min": extreme("min", "minimum"),
    "max": extreme("max", "maximum"),
    "amin": BUILTINS["min"],
    "amax": BUILTINS["max"],
    "where": where,
    "clip": lambda x, low, high: BUILTINS["minimum"](BUILTINS["maximum"](x, low), high),
    "range": range,
    "reshape": lambda x, *sizes: shared("reshape", np.reshape)(x, sizes if len(sizes) > 1 else sizes[0]),
    "transpose": lambda x, *axes: shared("transpose", np.transpose)(
        x, axes if len(axes) > 1 else None if not axes else axes[0]
    ),
    "len": len,
    "int": int,
    "float": float_of,
    "bool": bool,
    "array": as_array,
    "asarray": lambda x, dtype=None: x if type(x) is np.ndarray and dtype is None else as_array(x, dtype),
    "enumerate": enumerate,
    "zip": zip,
}
INTERNAL: dict[str, Callable[..., Value]] = {
    "stream": Stream,
    "listed": listed,
    "append": append,
    "read": read,
    "peek": peek,
    "store": store,
    "into": into,
    "walk": walk,
    "slice": slice,
    "solved": lambda f, length: next(k for k in range(9 * length + 9) if f(k) == length),
    "size": lambda x, axis: np.shape(x)[axis],
    "differences": BUILTINS["diff"],  # `diff` is that of functions
    "attribute": lambda x, name: getattr(x if is_jax(x) else np.asarray(x), name),
    "ternary": ternary,
    "and": connective("logical_and", stops=False),
    "or": connective("logical_or", stops=True),
    "compare": compare,
}
