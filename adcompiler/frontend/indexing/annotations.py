"""Parameter annotations: `f64`, `f64[n, 3]`, `static`. They check arguments and name sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adcompiler.errors import DtypeError, ParseError, ShapeError
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing import ragged
from adcompiler.frontend.indexing.dimensions import Axis, Dimensions
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import Closure, RaggedRows, Value, describe
from adcompiler.ir.nodes import Element
from adcompiler.ir.types import DTYPES, NUMPY, Dtype, is_float
from adcompiler.ops.build import cast
from adcompiler.pytree.containers import Container
from adcompiler.pytree.kinds import ArgType

STATIC = "static"
PYTHON: Mapping[str, Dtype] = {"int": "i64", "float": "f64"}  # `float` has any width
OF_NUMPY: Mapping[str, Dtype] = {"float64": "f64", "float32": "f32", "int64": "i64", "bool_": "bool"}
# Types without information: the call determines the argument's type.
ARRAYS = ("ndarray", "NDArray", "ArrayLike", "Array", "Tensor")
ANYTHING = ("Any", "object", "Optional", "Union", "Sequence", "Iterable", "list")


def is_static(parameter: tree.Parameter) -> bool:
    """Whether a parameter is annotated as known at compile time."""
    return isinstance(parameter.annotation, tree.Name) and parameter.annotation.id == STATIC


def declared(parameter: tree.Parameter) -> ArgType | None:
    """The type that an annotation names, without axes of length 1 unless it says 1; None if it names none."""
    annotation = parameter.annotation
    base, axes = (
        (annotation.value, annotation.indices) if isinstance(annotation, tree.Subscript) else (annotation, ())
    )
    dtype = _dtype(base)
    if dtype is None:
        return None
    if _is_any_float(base):
        return ArgType("f64", weak=True)
    return ArgType(dtype, tuple(isinstance(a, tree.Number) and a.value == 1 for a in axes))


def _dtype(base: tree.Expression | None) -> Dtype | None:
    """The type that an annotation names: `f64`, `float`, `np.float64`."""
    match base:
        case tree.Name(id=name) if name in DTYPES:
            return DTYPES[DTYPES.index(name)]
        case tree.Name(id=name):
            return PYTHON.get(name)
        case tree.Attribute(value=tree.Name(id="np" | "numpy"), name=name):
            return OF_NUMPY.get(name)
    return None


def _is_any_float(base: tree.Expression | None) -> bool:
    return isinstance(base, tree.Name) and base.id == "float"


def says_nothing(annotation: tree.Expression | None, names: Sequence[str] = (*ARRAYS, *ANYTHING)) -> bool:
    """Whether an annotation leaves the argument's type open: one of `names`, or a union of Python types."""
    match annotation:
        case tree.Binary(op="|", left=left, right=right):
            return all(says_nothing(side, names) or _is_word(side) for side in (left, right))
        case tree.Subscript(value=base):
            return says_nothing(base, names)
        case tree.Name(id=name) | tree.Attribute(name=name):
            return name in names
    return False


def _is_word(annotation: tree.Expression) -> bool:
    return isinstance(annotation, tree.Name) and annotation.id in (*PYTHON, *DTYPES, "None", "tuple")


def annotate(
    context: Context, closure: Closure, args: dict[str, Any], named: dict[str, Element]
) -> dict[str, Value]:
    """Check `args` (in place: scalars are converted) and return the sizes that annotations name.

    The sizes are added to `named`; every call of a definition has its own names. A constant of the text is
    not such a name, but its value as a length.
    """
    definition = closure.definition
    own = {p.name for p in definition.parameters}
    dimensions = Dimensions(context, named, closure.scope, own)
    for parameter in definition.parameters:
        value = args[parameter.name]
        if isinstance(value, RaggedRows):
            ragged.check(context, parameter, value, dimensions)
        if isinstance(value, tuple | Container) and not is_static(parameter):
            _check_class(context, parameter, value)
        if parameter.annotation is not None and isinstance(value, Value):
            args[parameter.name] = _check(context, parameter, value, dimensions)
    dimensions.settle()
    return {name: Value((), size, weak=True) for name, size in named.items()}


def _check_class(context: Context, parameter: tree.Parameter, value: tuple[Any, ...] | Container) -> None:
    """A container's annotation must be the name of its class."""
    annotation = parameter.annotation
    base = annotation.value if isinstance(annotation, tree.Subscript) else annotation
    if base is None or says_nothing(annotation, ANYTHING):
        return
    given = base.id if isinstance(base, tree.Name) else getattr(base, "name", "")
    names = (value.kind.__name__,) if isinstance(value, Container) else ("tuple", "list")
    if given not in names:
        context.fail(
            DtypeError,
            f"{parameter.name} is {describe(value)}, but its annotation is {given or 'something else'}",
            base.span,
            f"write {' or '.join(names)}",
        )


def _check(context: Context, parameter: tree.Parameter, value: Value, dimensions: Dimensions) -> Value:
    if is_static(parameter):
        cause = f"{parameter.name} is static, but not known at compile time here"
        context.fail(DtypeError, cause, parameter.span, "pass a number")
    annotation = parameter.annotation
    if says_nothing(annotation):
        return value
    axes: tuple[tree.Expression, ...] = ()
    base = annotation
    if isinstance(annotation, tree.Subscript):
        base, axes = annotation.value, annotation.indices
    assert annotation is not None
    wanted = _dtype(base)
    if base is None or wanted is None or (axes and not (isinstance(base, tree.Name) and base.id in DTYPES)):
        context.fail(
            ParseError,
            f"the annotation of {parameter.name!r} is not a type",
            annotation.span,
            f"write {', '.join(DTYPES)}, with sizes as in f64[n, 3], int, float, np.ndarray, or static",
        )
    if len(axes) != value.rank:
        context.fail(
            ShapeError,
            f"{parameter.name} has rank {value.rank}, but its annotation has rank {len(axes)}",
            annotation.span,
            f"pass an array of rank {len(axes)}" if axes else "pass a scalar, or annotate a vector as f64[n]",
        )
    for k, axis in enumerate(axes):
        dimensions.take(Axis(f"axis {k} of {parameter.name}", value.shape[k], axis))
    if _is_any_float(base) and is_float(value.dtype):
        return value
    if value.dtype != wanted:
        if not value.weak or not _holds(wanted, value.dtype):
            context.fail(
                DtypeError,
                f"{parameter.name} is {value.dtype}, but its annotation is {getattr(base, 'id', wanted)}",
                annotation.span,
                f"convert it: {parameter.name}.astype('{NUMPY[wanted]}')",
            )
        return Value(value.shape, cast(value.element, wanted), _is_any_float(base))
    return Value(value.shape, value.element, _is_any_float(base))


def _holds(declared: Dtype, given: Dtype) -> bool:
    """Whether a Python number of type `given` is acceptable: no float for an integer."""
    return is_float(declared) or not is_float(given)
