"""`Parameter`, a trainable Variable, and the search for those in an object."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from adcompiler.eager.graph.graph import is_variable
from adcompiler.eager.graph.provenance import begin
from adcompiler.eager.variable.variable import Variable
from adcompiler.errors import GraphError
from adcompiler.frames import public
from adcompiler.public_types import Values


class Parameter(Variable):
    """A trainable Variable: it requires a gradient by default, and `parameters` finds it.

    Raises GraphError for a Variable that requires a gradient, because the Parameter would be a new leaf.
    """

    @public
    def __init__(self, value: Values, requires_grad: bool = True, name: str | None = None) -> None:
        if is_variable(value):
            if value.requires_grad:
                raise _another(value)
            super().__init__(value.data, requires_grad, name)
            begin(self, "Variable()", [value])
        else:
            super().__init__(value, requires_grad, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), super().__reduce__()[1]


def _another(v: Variable) -> GraphError:
    """The error of a Parameter around a Variable that has, or is part of, a graph."""
    here = "use the same object in both places"
    if not v.is_leaf:
        here = f"keep it: gradients flow through it, and {v.name}.retain_grad() stores its own in .grad"
    return GraphError(
        f"{v.name} requires a gradient, but a Parameter is a new leaf: no gradient would flow back "
        f"from it to {v.name}",
        remedy=f"{here}; for another Parameter start from the value: adc.Parameter({v.name}.value)",
    )


@public
def parameters(*objects: Values) -> list[Parameter]:
    """The Parameters in objects, each once, in the order in which they are found.

    The search covers attributes (also slots), lists, tuples, sets and the values of dicts, at any depth;
    objects may refer to each other in cycles. Properties are not evaluated, and classes, modules, functions
    and compiled functions are not searched. Other Variables are not Parameters.
    """
    found: list[Parameter] = []
    seen: dict[int, Any] = {}  # the objects themselves, so that no other one gets their id
    work = list(reversed(objects))
    while work:
        one = work.pop()
        if type(one) in PLAIN or id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, Parameter):
            found.append(one)
        else:
            work += reversed(list(_parts(one)))
    return found


PLAIN = frozenset((int, float, complex, bool, str, bytes, bytearray, type(None), range, slice))
CLOSED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, CodeType, Variable)


def _parts(one: Any) -> Iterable[Any]:
    """What an object holds."""
    if isinstance(one, CLOSED) or str(type(one).__module__).partition(".")[0] == "adcompiler":
        return ()
    if isinstance(one, np.ndarray):
        return one.ravel().tolist() if one.dtype == object else ()
    held: list[Any] = []
    if isinstance(one, dict | MappingProxyType):
        held += one.values()
    elif isinstance(one, list | tuple | set | frozenset | deque):
        held += one
    return [*held, *_attributes(one)]


def _attributes(one: Any) -> Iterator[Any]:
    """The values of an object's own attributes; nothing of the object's is computed."""
    with suppress(AttributeError):
        yield from list(object.__getattribute__(one, "__dict__").values())
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            mangled = f"_{kind.__name__.lstrip('_')}{slot}" if slot[:2] == "__" != slot[-2:] else slot
            member = kind.__dict__.get(mangled)
            with suppress(AttributeError):
                if isinstance(member, MemberDescriptorType):
                    yield member.__get__(one, kind)
