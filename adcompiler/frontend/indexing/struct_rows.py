"""Arrays of structs during lowering, as structs of arrays whose leading axes are the items.

They represent lists of equal containers (`containers.Rows`) and structured arrays (`records.Records`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from adcompiler.errors import ParseError
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import AnyValue, Value
from adcompiler.ir.nodes import Element
from adcompiler.pytree.containers import Container, Rows
from adcompiler.pytree.records import Records

SAME = "the items must come from the same list"


def entries(value: AnyValue, f: Callable[[Value], AnyValue]) -> AnyValue:
    """A container with each of its arrays replaced."""
    if isinstance(value, tuple):
        return tuple(entries(part, f) for part in value)
    if isinstance(value, Container):
        return value.map(lambda part: entries(part, f))
    return f(value) if isinstance(value, Value) else value


def _arrays(value: AnyValue) -> Iterator[Value]:
    """The arrays of a container, in order."""
    if isinstance(value, Value):
        yield value
    for part in value.parts if isinstance(value, Container) else value if isinstance(value, tuple) else ():
        yield from _arrays(part)


def axes_of_items(value: AnyValue) -> int:
    """The number of item axes: 1 for a list, the rank of a structured array, else 0."""
    if isinstance(value, Rows):
        return 1
    return rank_of_structs(value) if isinstance(value, Container) and issubclass(value.kind, Records) else 0


def length_of_items(context: Context, value: Container) -> Element:
    """The number of items."""
    return context.sizes.find(next(_arrays(value)).shape[0])


def field(context: Context, value: Container, node: tree.Attribute) -> AnyValue:
    """A field of a struct; ParseError if it does not exist, or if the value is a list."""
    if isinstance(value, Rows):
        remedy = f"write p[i].{node.name}, or [p.{node.name} for p in {getattr(node.value, 'id', 'ps')}]"
        context.fail(ParseError, f"a list has no field {node.name!r}, but its items have", node.span, remedy)
    if node.name not in value.keys:
        remedy = f"its fields are {', '.join(map(str, value.keys))}"
        context.fail(ParseError, f"{value.what} has no field {node.name!r}", node.span, remedy)
    return value.parts[value.keys.index(node.name)]


def rank_of_structs(value: Container) -> int:
    """The rank of a structured array: that of a field minus the field's own axes."""
    key, part = value.keys[0], value.parts[0]
    own = len(value.kind.dtype[key].shape)  # type: ignore[attr-defined]
    return (rank_of_structs(part) if isinstance(part, Container) else part.rank) - own


def equally_long(context: Context, value: Container, name: str) -> Container:
    """An array of structs, with all arrays merged to equal lengths along the item axes."""
    first, *others = _arrays(value)
    what = f"the {'items' if isinstance(value, Rows) else 'fields'} of {name}"
    for axis in range(axes_of_items(value)):
        for other in others:
            context.sizes.merge(first.shape[axis], other.shape[axis], what, None, SAME)
    return value
