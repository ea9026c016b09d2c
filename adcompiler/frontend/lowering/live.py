"""Loops over arrays in which their bodies store: as in Python, each iteration gets what is there then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adcompiler.frontend.grammar import tree
from adcompiler.frontend.values.values import AnyValue, Value, as_array
from adcompiler.ir.walk import postorder

WALKED = ("enumerate", "zip")


def is_live(loop: tree.For, scope: Mapping[str, AnyValue]) -> bool:
    """Whether a loop runs over arrays, or slices of them, in which its body stores, and whose names it gives
    to nothing else: so what stands behind `in` means the same elements in every iteration."""
    names = _walked(loop.iterable, scope)
    if not names:
        return False
    stored, bound = set[str](), set(_names(loop.target))
    for node in postorder(list[tree.Tree](loop.body), _statements):
        for target in _targets(node):
            (stored if isinstance(target, tree.Subscript) else bound).update(_names(target))
        if isinstance(node, tree.Augmented):
            stored.update(_names(node.target))
    return bool(stored & names) and not bound & names


def _walked(node: tree.Expression, scope: Mapping[str, AnyValue]) -> set[str]:
    """The arrays that are iterated over; none if something else is."""
    match node:
        case tree.Name(id=name):
            value = as_array(scope.get(name))
            return {name} if isinstance(value, Value) and value.rank else set()
        case tree.Subscript(value=value, indices=indices) if all(map(_is_fixed, indices)):
            return _walked(value, scope)
        case tree.Attribute(value=value, name="T"):
            return _walked(value, scope)
        case tree.Call(function=tree.Name(id=name), arguments=arguments) if name in WALKED:
            return set[str]().union(*(_walked(argument, scope) for argument in arguments))
    return set()


def _is_fixed(index: tree.Expression) -> bool:
    """Whether an index is a slice or a number with the same bounds in every iteration."""
    nodes = postorder(list[tree.Tree]([index]), tree.children)
    return all(isinstance(n, tree.Slice | tree.Number | tree.Unary | tree.Ellipsis) for n in nodes)


def _statements(node: tree.Tree) -> list[tree.Tree]:
    """The statements inside one; those of a def are its own."""
    found = [] if isinstance(node, tree.Def) else tree.children(node)
    return [n for n in found if isinstance(n, tree.Statement)]


def _targets(node: tree.Tree) -> Iterator[tree.Expression]:
    """What a statement assigns to."""
    work = list(node.targets) if isinstance(node, tree.Assign) else []
    work += [node.target] if isinstance(node, tree.For) else []
    while work:
        target = work.pop()
        if isinstance(target, tree.Sequence):
            work += target.items
        else:
            yield target


def _names(target: tree.Expression) -> Iterator[str]:
    """The names that a target binds, or stores in."""
    work = [target]
    while work:
        match work.pop():
            case tree.Name(id=name):
                yield name
            case tree.Subscript(value=value):
                work.append(value)
            case tree.Sequence(items=items):
                work += items
