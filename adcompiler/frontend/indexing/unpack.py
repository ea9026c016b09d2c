"""What several names are bound to: the parts of a tuple, a container or an array."""

from __future__ import annotations

from adcompiler.errors import ParseError, Span
from adcompiler.frontend.indexing.iterables import rows
from adcompiler.frontend.values.open_axes import ONE
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.frontend.values.values import AnyValue, Value, describe
from adcompiler.ir.nodes import const, is_const
from adcompiler.pytree.containers import Container

FIT = "write as many names as there are elements"


def unpacked(context: Context, value: AnyValue, count: int, span: Span) -> tuple[AnyValue, ...]:
    """`count` parts of a value. The length of an array is known, or demanded of the call."""
    if isinstance(value, Container) and value.sequence:
        value = value.parts
    if isinstance(value, Value) and value.rank:
        value = _rows(context, value, count, span)
    if not isinstance(value, tuple):
        context.fail(ParseError, f"cannot unpack {describe(value)}", span, "assign it to one name")
    if len(value) != count:
        cause = f"{len(value)} values for {count} names"
        context.fail(ParseError, cause, span, f"write {len(value)} names")
    return value


def _rows(context: Context, value: Value, count: int, span: Span) -> tuple[AnyValue, ...]:
    """The elements of an array, or its rows."""
    sizes, length = context.sizes, context.sizes.find(value.shape[0])
    what = f"unpacking into {count} names"
    if is_const(length):
        count = int(length.value)
    elif count == 1:
        sizes.require(Constraint(length, ONE, what, span, FIT, merged=False))
    else:
        sizes.merge(const(count, "i64"), length, what, span, FIT)
    return tuple(context.aliases.rows([rows(context, value).at(const(k, "i64")) for k in range(count)]))
