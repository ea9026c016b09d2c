"""Modules of the surrounding Python program, and names with dots."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from adcompiler.frontend.grammar import tree
from adcompiler.frontend.limits import MOST_PARTS
from adcompiler.frontend.values.values import AnyValue
from adcompiler.lazy_dataclass import dataclass

NO_PART = object()


@dataclass(frozen=True, slots=True, eq=False)
class ModuleValue:
    """A module of the surrounding program, or one of SciPy's distributions: what a program reads of it, by
    the names after the first dot."""

    name: str
    what: str
    parts: Mapping[str, AnyValue]

    @property
    def remedy(self) -> str:
        """What to write instead of the name alone."""
        return f"name a part of it: {self.name}.{next(iter(self.parts), 'f')}"


def dotted(node: tree.Expression) -> str | None:
    """The text of a name with dots; None for any other expression, also for longer chains."""
    parts = list[str]()
    while isinstance(node, tree.Attribute) and len(parts) < MOST_PARTS:
        parts.append(node.name)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, tree.Name) else None


def part_of(node: tree.Expression, scope: Container[str]) -> AnyValue:
    """What a dotted name is in a captured module; NO_PART for other expressions."""
    if not isinstance(node, tree.Attribute) or not isinstance(scope, Mapping):
        return NO_PART
    root, _, rest = (dotted(node) or "").partition(".")
    module: Any = scope.get(root)
    return module.parts.get(rest, NO_PART) if isinstance(module, ModuleValue) else NO_PART
