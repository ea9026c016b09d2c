"""Stores in rows that loops run over: in NumPy they change the array, here a name has a value of its own."""

from __future__ import annotations

from collections.abc import Iterator

from adcompiler.errors import ParseError
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.indexing.iterables import Iterable
from adcompiler.frontend.values.open_axes import ZERO
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import AnyValue, Selected, Value
from adcompiler.ir.walk import postorder


def refuse_stores(context: Context, loop: tree.For, items: Iterable | tuple[AnyValue, ...]) -> None:
    """Refuse `for row in m: row /= 2`, where a row is an array that the body gives no other value."""
    found = items if isinstance(items, tuple) else (items.at(ZERO),)
    rows = {name for item in found for name in _arrays(loop.target, item)}
    nodes = postorder(list[tree.Tree](loop.body), _statements) if rows else ()
    own = {t.id for n in nodes if isinstance(n, tree.Assign) for t in n.targets if isinstance(t, tree.Name)}
    for node in nodes:
        for target in _stores(node):
            if target.id in rows - own:
                name, of = target.id, loop.iterable.id if isinstance(loop.iterable, tree.Name) else "m"
                cause = (
                    f"{name} is read from what the loop runs over, which a store in {name} does not change"
                )
                remedy = f"write for i in range(len({of})): {of}[i] = ..., or give what changes a new name"
                context.fail(ParseError, cause, node.span, remedy)


def _arrays(target: tree.Expression, item: AnyValue) -> Iterator[str]:
    """The names that an item of a loop gives arrays."""
    if isinstance(target, tree.Name) and (
        isinstance(item, Selected) or (isinstance(item, Value) and item.rank)
    ):
        yield target.id
    if isinstance(target, tree.Sequence) and isinstance(item, tuple):
        for one, part in zip(target.items, item, strict=False):
            yield from _arrays(one, part)


def _statements(node: tree.Tree) -> list[tree.Tree]:
    """The statements inside one; those of a def are its own."""
    found = [] if isinstance(node, tree.Def) else tree.children(node)
    return [n for n in found if isinstance(n, tree.Statement)]


def _stores(node: tree.Tree) -> Iterator[tree.Name]:
    """The names whose arrays a statement changes in NumPy."""
    targets = [node.target] if isinstance(node, tree.Augmented) else []
    if isinstance(node, tree.Assign):
        targets = [t for t in node.targets if isinstance(t, tree.Subscript)]
    for target in targets:
        while isinstance(target, tree.Subscript):
            target = target.value
        if isinstance(target, tree.Name):
            yield target
