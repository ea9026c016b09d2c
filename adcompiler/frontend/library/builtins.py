"""The functions and constants that every program can use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from collections.abc import Container as Names
from functools import partial
from itertools import chain
from typing import Any

from adcompiler.errors import DtypeError, ParseError, ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing import ragged
from adcompiler.frontend.indexing.selections import length, product, reduce_family, reduced
from adcompiler.frontend.indexing.struct_rows import axes_of_items, length_of_items
from adcompiler.frontend.library import functionals
from adcompiler.frontend.library.conversions import CONVERSIONS, with_dtype
from adcompiler.frontend.library.decompositions import DECOMPOSITIONS
from adcompiler.frontend.library.distributions import DISTRIBUTIONS
from adcompiler.frontend.library.distributions import METHODS as OF_DISTRIBUTIONS
from adcompiler.frontend.library.groups import GROUPS
from adcompiler.frontend.library.moving import MOVING
from adcompiler.frontend.library.prelude import PRELUDE
from adcompiler.frontend.library.prelude import own as prelude
from adcompiler.frontend.library.rounding import rounded
from adcompiler.frontend.library.running import RUNNING
from adcompiler.frontend.library.sorting import SORTING
from adcompiler.frontend.linalg.einsum import EINSUM
from adcompiler.frontend.linalg.matrices import MATRICES
from adcompiler.frontend.linalg.solving import LINALG
from adcompiler.frontend.values import rearranging, reductions
from adcompiler.frontend.values.builtin_arguments import Builtin, bind_arguments, builtin
from adcompiler.frontend.values.modules import dotted, part_of
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import (
    AnyValue,
    AppendedList,
    AppendProbe,
    Closure,
    FunctionValue,
    GeneratorValue,
    Masked,
    RaggedRows,
    Value,
    as_array,
    describe,
    is_number,
)
from adcompiler.ops.build import cast
from adcompiler.ops.table import ALIASES, TABLE
from adcompiler.pytree.containers import Container

# Prefixes of names from other libraries, and the prefix of these names in this language.
PREFIXES: Mapping[str, str] = (
    dict.fromkeys(("np", "numpy", "math", "scipy.special", "special", "adc", "adcompiler"), "")
    | dict.fromkeys(("nb", "numba"), "")
    | dict.fromkeys(("linalg", "np.linalg", "numpy.linalg", "scipy.linalg"), "")
    | {f"{module}{name}": f"{name}." for name in DISTRIBUTIONS for module in ("", "stats.", "scipy.stats.")}
)
# Libraries whose functions are refused, with a hint to NumPy's name.
FOREIGN = frozenset(("torch", "jax", "jnp", "tensorflow", "cupy"))
CONSTANTS: Mapping[str, float | bool | None] = {
    "pi": math.pi,
    "e": math.e,
    "inf": math.inf,
    "nan": math.nan,
    "True": True,
    "False": False,
    "None": None,
}


def library(node: tree.Attribute, scope: Names[str] = ()) -> str | None:
    """The library whose name precedes an attribute, such as `np` or `scipy.special`, unless a variable has
    that name. The name of a distribution counts only before its methods: `t.pdf`, but not `t.sum`."""
    text = dotted(node.value) or ""
    root = text.partition(".")[0]
    if text in DISTRIBUTIONS and f"{text}.{node.name}" not in BUILTINS:
        return None
    return text if (text in PREFIXES or root in FOREIGN) and root not in scope else None


def _elementwise(op: str, name: str) -> Builtin:
    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        entry = TABLE[op]
        defaults = entry.defaults
        bound = bind_arguments(context, name, entry.params, args, keywords, span, len(defaults))
        first = len(bound) - len(defaults)
        for k, default in enumerate(defaults, first):
            bound[k] = default if bound[k] is None else bound[k]
        return context.elementwise(op, bound, span)

    return call


def _of_floats(name: str, kinds: Names[str]) -> Builtin:
    """A function that converts arguments of these types to double first, as in NumPy."""
    of = _elementwise(ALIASES[name], name)

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        def double(x: Any) -> Any:
            if isinstance(x, Value) and x.dtype in kinds:
                return Value(x.shape, cast(x.element, "f64"), x.weak)
            return float(x) if isinstance(x, int) else x

        return of(context, [double(x) for x in args], {k: double(x) for k, x in keywords.items()}, span)

    return call


def _clip(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    """Clip to two bounds, one of which may be None."""
    ours = {"a_min": "lo", "min": "lo", "a_max": "hi", "max": "hi"}
    keywords = {ours.get(name, name): value for name, value in keywords.items()}
    if len(args) + len(keywords) == 2:  # one bound
        keywords = {"lo": None, "hi": None, **keywords} if len(args) == 1 else keywords
    x, low, high = bind_arguments(context, "clip", ("x", "lo", "hi"), args, keywords, span)
    if low is None or high is None:
        op, bound = ("minimum", high) if low is None else ("maximum", low)
        return context.elementwise(op, (x, bound), span)
    return context.elementwise("clip", (x, low, high), span)


def _where(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    if len(args) == 1 and not keywords:
        cause = "where with only a condition has a length that depends on values"
        remedy = "select with the condition, sum(x[x > 0]), or choose with where(x > 0, a, b)"
        context.fail(ParseError, cause, span, remedy)
    guard, x, y = bind_arguments(context, "where", ("condition", "x", "y"), args, keywords, span)
    return context.where(guard, x, y, span)


def _reduction(name: str, reduction: reductions.Reduction) -> Builtin:
    own = ("ddof",) if name in ("std", "var") else ()  # additional parameters
    params = ("x", "axis", "keepdims", *own)

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        x, axis, keepdims, *options = bind_arguments(
            context, name, params, args, keywords, span, optional=len(params) - 1
        )
        if isinstance(keepdims, Value):
            context.fail(ParseError, "keepdims must be True or False", span, "write keepdims=True")
        if isinstance(x, GeneratorValue):
            if any(option is not None for option in options):
                remedy = f"assign the list to a name: v = [...], then {name}(v, ddof=1)"
                context.fail(ParseError, f"{name} of a generator does not take ddof", span, remedy)
            return reduce_family(context, name, x, span)
        if isinstance(x, Masked):
            return reduced(
                context, name, x, reductions.axes_of(context, axis, span), bool(keepdims), span, *options
            )
        x = rearranging.array(context, name, x, span)
        return reduction(context, x, reductions.axes_of(context, axis, span), bool(keepdims), span, *options)

    return call


def _extremum(op: str) -> Builtin:
    """`max(x, axis=)` reduces an array; `max(a, b, ...)` compares elementwise."""
    reduce = _reduction(f"a{op[:3]}", reductions.REDUCTIONS[f"a{op[:3]}"])

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        if not args and "x" not in keywords:
            cause, name = f"{op[:3]} takes (x, axis=, keepdims=), or (a, b, ...)", op[:3]
            context.fail(ParseError, cause, span, f"write {name}(x) for an array, {name}(a, b) for numbers")
        if len(args) < 2 or keywords:
            return reduce(context, args, keywords, span)
        result = args[0]
        for arg in args[1:]:
            result = context.elementwise(op, (result, arg), span)
        return result

    return call


def _norm(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    """The Euclidean norm, or for vectors that of order 1, inf or -inf, with NumPy's arguments."""
    params = ("x", "ord", "axis", "keepdims")
    x, order, axis, keepdims = bind_arguments(context, "norm", params, args, keywords, span, 3)
    rest = {"axis": axis, "keepdims": keepdims}
    rank = len(axis) if isinstance(axis, tuple) else 1 if axis is not None else getattr(x, "rank", 1)
    matrix = rank > 1
    if order is None or order == ("fro" if matrix else 2):
        return _reduction("norm", reductions.REDUCTIONS["norm"])(context, [x], rest, span)
    if is_number(order) or (matrix and isinstance(order, str)):
        return prelude("_norm")(context, [x, order], {k: v for k, v in rest.items() if v is not None}, span)
    cause = f"{'matrices' if matrix else 'vectors'} have no norm of this order, {describe(order)}"
    remedy = "write the order as a number" if matrix else "write sum(abs(x)**p)**(1 / p)"
    context.fail(ParseError, cause, span, remedy)


def _moving(name: str, params: tuple[str, ...], optional: int, operation: Callable[..., AnyValue]) -> Builtin:
    """A function whose first argument is an array: `operation(context, array, *others, span)`."""

    def call(context: Context, x: AnyValue, *others: Any) -> AnyValue:
        return operation(context, rearranging.array(context, name, x, others[-1]), *others)

    return builtin(name, params, call, optional)


def _reshape(context: Context, x: Value, shape: AnyValue, span: Span) -> AnyValue:
    return rearranging.reshape(context, x, shape if isinstance(shape, tuple) else (shape,), span)


def _transpose(context: Context, x: Value, axes: AnyValue, span: Span) -> AnyValue:
    return rearranging.transpose(context, x, reductions.axes_of(context, axes, span), span)


def _ravel(context: Context, x: Value, span: Span) -> AnyValue:
    return rearranging.reshape(context, x, (-1,), span)


def _copy(context: Context, x: Value, span: Span) -> AnyValue:
    return x  # a value never changes


def _item(context: Context, x: AnyValue, span: Span) -> AnyValue:
    """The single element of an array."""
    if isinstance(x, Value) and x.rank:
        remedy = f"use the index of the element: x[{', '.join('0' * x.rank)}]"
        context.fail(ShapeError, f"item() of {describe(x)}", span, remedy)
    return x


def _spread(name: str) -> Builtin:
    """A method that takes its tuple as one argument or several: `x.reshape(2, 3)`."""

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        x, *rest = args
        return BUILTINS[name](context, [x, tuple(rest)] if len(rest) > 1 else args, keywords, span)

    return call


def _logsumexp(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    """The logarithm of a sum of exponentials, optionally with weights `b`."""
    if keywords.get("b") is not None:
        return prelude("_logsumexp")(context, args, keywords, span)
    keywords = {name: value for name, value in keywords.items() if name != "b"}
    return _reduction("logsumexp", reductions.logsumexp)(context, args, keywords, span)


def _of_selections(name: str) -> Builtin:
    """A function of a vector that is also one of the elements of a selection, `x[mask]`, or of a row."""
    usual, other = prelude(name), prelude(f"_{name}_of_selection")

    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        first = args[0] if args else None
        elements = isinstance(first, Masked) and first.value.rank == first.mask.rank
        return (other if elements else usual)(context, args, keywords, span)

    return call


def _joining(name: str, operation: Callable[..., AnyValue]) -> Builtin:
    def call(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        parts, axis = bind_arguments(context, name, ("arrays", "axis"), args, keywords, span, optional=1)
        if isinstance(parts, RaggedRows) and name == "concatenate" and axis in (None, 0):
            return parts.values
        if not isinstance(parts, tuple) and isinstance(axis, Value):
            context.fail(ParseError, f"{name} takes a tuple of arrays", span, f"write {name}((a, b))")
        if axis is None and (len(args) > 1 or "axis" in keywords):
            context.fail(ParseError, f"{name} without an axis", span, "write hstack((ravel(a), ravel(b)))")
        axes = reductions.axes_of(context, 0 if axis is None else axis, span)
        assert axes is not None
        if isinstance(parts, Value) and parts.rank > (name == "concatenate") and axes == (0,):
            tail = [
                Value((), n, weak=True) for n in parts.shape[2:]
            ]  # the rows of an array, such as a list that a loop appends to
            return parts if name == "stack" else rearranging.reshape(context, parts, (-1, *tail), span)
        if not isinstance(parts, tuple):
            context.fail(ParseError, f"{name} takes a tuple of arrays", span, f"write {name}((a, b))")
        return operation(context, parts, axes[0], span)

    return call


def _filled(name: str, value: int | float) -> Builtin:
    def call(context: Context, shape: AnyValue, span: Span) -> AnyValue:
        return reductions.zeros(context, shape, value, span)

    return builtin(name, ("shape",), call)


def _arange(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    names = ("stop",) if len(args) == 1 and "stop" not in keywords else ("start", "stop", "step")
    given = {**dict(zip(names, args, strict=False)), **keywords}
    known = {"start", "stop", "step"}.issuperset(given) and len(given) == len(args) + len(keywords)
    if not known or len(args) > len(names) or "stop" not in given:
        context.fail(ParseError, "arange takes (stop), (start, stop) or (start, stop, step)", span)
    context.bound(span)
    return reductions.arange(context, given.get("start", 0), given["stop"], given.get("step", 1), span)


def _dot(context: Context, x: AnyValue, y: AnyValue, span: Span) -> AnyValue:
    if any(isinstance(v, Value) and v.rank > 2 for v in (x, y)):
        context.fail(ShapeError, "dot takes vectors and matrices", span, "write @ for stacks of matrices")
    return product(context, x, y, span)


def _len(context: Context, x: AnyValue, span: Span) -> AnyValue:
    if isinstance(x, RaggedRows):
        return Value((), ragged.length(context, x), weak=True)
    if isinstance(x, tuple | Masked):
        return length(context, x, span) if isinstance(x, Masked) else len(x)
    if isinstance(x, AppendedList | AppendProbe):
        return Value((), x.count, weak=True)
    if axes_of_items(x):
        return Value((), length_of_items(context, x), weak=True)
    if isinstance(x, Container) and (x.sequence or x.kind is dict):
        return len(x.parts)
    if not isinstance(x, Value) or not x.rank:
        context.fail(DtypeError, f"len of {describe(x)}", span, "len takes an array of rank 1 or more")
    return Value((), context.sizes.find(x.shape[0]), weak=True)


DIFFERENCES = prelude("_diff")


def _diff(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    """NumPy's differences of an array, or the derivative of a function."""
    first = as_array(args[0]) if args else None
    if isinstance(first, Value) and first.rank and (len(args) == 1 or keywords):
        return DIFFERENCES(context, args, keywords, span)
    return functionals.diff(context, args, keywords, span)


JOINS: Mapping[str, Builtin] = {
    f"{module}.{name}": prelude(ours)
    for module in ("np", "numpy")
    for name, ours in (("r_", "_rows"), ("c_", "_columns"))
}


def joins(node: tree.Subscript, scope: Names[str]) -> Builtin | None:
    """The function that a subscript such as `np.r_[a, b]` calls; None for others."""
    value = part_of(node.value, scope)
    if isinstance(node.value, tree.Name) and isinstance(scope, Mapping):
        value = scope.get(node.value.id)
    if isinstance(value, FunctionValue) and value.call in JOINS.values():
        return value.call
    found = JOINS.get(dotted(node.value) or "")
    return None if found is None or (dotted(node.value) or "").partition(".")[0] in scope else found


FUNCTIONALS: Mapping[str, Builtin] = {
    "diff": _diff,
    "grad": functionals.grad,
    "value_and_grad": functionals.value_and_grad,
    "jvp": functionals.jvp,
}
LIBRARIES = (
    MATRICES, EINSUM, LINALG, RUNNING, MOVING, GROUPS, SORTING, DECOMPOSITIONS, PRELUDE, OF_DISTRIBUTIONS,
)  # fmt: skip
_builtins: dict[str, Builtin] = (
    {name: _elementwise(name, name) for name in TABLE}
    | {alias: _elementwise(name, alias) for alias, name in ALIASES.items()}
    | {name: _reduction(name, reduction) for name, reduction in reductions.REDUCTIONS.items()}
    | {
        "where": _where,
        "fabs": _of_floats("fabs", ("bool", "i64")),
        "float_power": _of_floats("float_power", ("bool", "i64", "f32")),
        "round": builtin("round", ("x", "decimals"), rounded, optional=1),
        "clip": _clip,
        "norm": _norm,
        "logsumexp": _logsumexp,
        "max": _extremum("maximum"),
        "min": _extremum("minimum"),
        "len": builtin("len", ("x",), _len),
        "reshape": _moving("reshape", ("x", "shape"), 0, _reshape),
        "transpose": _moving("transpose", ("x", "axes"), 1, _transpose),
        "ravel": _moving("ravel", ("x",), 0, _ravel),
        "copy": _moving("copy", ("x",), 0, _copy),
        "stack": _joining("stack", rearranging.stack),
        "concatenate": _joining("concatenate", rearranging.join),
        "zeros": with_dtype(_filled("zeros", 0.0)),
        "empty": with_dtype(_filled("empty", 0.0)),
        "ones": with_dtype(_filled("ones", 1.0)),
        "full": with_dtype(builtin("full", ("shape", "value"), reductions.zeros)),
        "arange": with_dtype(_arange),
        "linspace": with_dtype(builtin("linspace", ("start", "stop", "num"), reductions.linspace)),
        "dot": builtin("dot", ("x", "y"), _dot),
        "matmul": builtin("matmul", ("x", "y"), product),
    }
    | dict(CONVERSIONS)
    | dict(FUNCTIONALS)
    | dict(chain(*(table.items() for table in LIBRARIES)))
)
_builtins |= {name: _of_selections(name) for name in ("softmax", "log_softmax")}
_builtins |= {
    name: with_dtype(_builtins[name]) for name in ("zeros_like", "ones_like", "empty_like", "full_like")
}
BUILTINS: Mapping[str, Builtin] = _builtins
STANDARD = frozenset(BUILTINS)  # without the primitives that users add
# Functions that take a dtype, also by position: `zeros(n, np.float32)`.
_TYPED = (
    "astype zeros ones empty full arange linspace array asarray zeros_like ones_like empty_like full_like"
)
TYPED_NAMES = tuple(_TYPED.split())
TYPED = tuple(BUILTINS[name] for name in TYPED_NAMES)
ELEMENTWISE = frozenset(_builtins[name] for name in (*TABLE, *ALIASES))


def name_primitive(name: str, op: str | None) -> None:
    """Bind a name to a user's primitive of the rule table; None removes the name."""
    if op is None:
        del _builtins[name]
    else:
        _builtins[name] = _elementwise(op, name)


def as_value(name: str) -> FunctionValue:
    """A builtin as a value, to pass to a function of functions."""
    return function_value(name, BUILTINS[name])


def function_value(
    name: str, call: Builtin, home: Callable[[], FunctionValue] | None = None
) -> FunctionValue:
    """A function of the library, which is like the builtin `name`, as a value; `home` gives it again."""
    parameters = TABLE[name].params if name in TABLE else ()
    return FunctionValue(name, parameters, call, True, home or partial(as_value, name))


def takes_functions(target: Any) -> bool:
    """Whether a call target accepts functions as arguments."""
    return isinstance(target, Closure | FunctionValue) or target in FUNCTIONALS.values()


# Methods of arrays: each takes the array first, then the builtin's arguments.
METHODS: Mapping[str, Builtin] = (
    {"astype": BUILTINS["astype"]}
    | {
        name: BUILTINS[name]
        for name in ("sum", "prod", "mean", "var", "std", "any", "all", "argmin", "argmax", "dot", "ravel")
    }
    | {name: BUILTINS[name] for name in ("clip", "copy", "round", "repeat", "squeeze", "swapaxes", "take")}
    | {name: _reduction(name, reductions.REDUCTIONS[f"a{name}"]) for name in ("max", "min")}
    | {name: _spread(name) for name in ("reshape", "transpose")}
    | {"item": builtin("item", ("x",), _item)}
    | {"flatten": _moving("flatten", ("x",), 0, _ravel)}
    | dict.fromkeys(("conj", "conjugate"), BUILTINS["real"])
)
# Functions that return views, at least of contiguous arrays.
_VIEWS = (
    "reshape ravel transpose squeeze expand_dims moveaxis swapaxes broadcast_to flip diag diagonal asarray "
    "real atleast_1d atleast_2d"
)
VIEWS = frozenset((*(BUILTINS[name] for name in _VIEWS.split()), METHODS["reshape"], METHODS["transpose"]))
