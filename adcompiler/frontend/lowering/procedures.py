"""Functions that return nothing and store in their arguments, as numba's often do: here they return what they
store, and a call of one as a statement, `f(x, out)`, becomes `out = f(x, out)`. One that returns a result too
has another form, which returns both: `y = f(x, out)` becomes `y, out = f(x, out)` with that.

The names that share elements with `out` are stale after it, as after any store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from adcompiler.errors import ParseError, Source
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import assigned
from adcompiler.frontend.grammar.recovery import UNKNOWN
from adcompiler.frontend.values.modules import part_of
from adcompiler.frontend.values.values import REFUSED, Closure
from adcompiler.ir.walk import postorder

Statements = tuple[tree.Statement, ...]


def with_procedures(closure: Closure, returns_stores: bool) -> Closure:
    """A definition in which calls of procedures are assignments. With `returns_stores` it returns what it
    stores in its parameters, if it returns nothing else."""
    scope = dict(closure.scope)
    change = partial(_called, closure.source, scope)
    definition = replace(closure.definition, body=_each(closure.definition.body, change))
    closure = _with_filling(replace(closure, definition=definition, scope=scope))
    return _returning(closure) if returns_stores else closure


def _with_filling(closure: Closure) -> Closure:
    """A definition with its form that returns what it stores behind its results."""
    definition = closure.definition
    nodes = postorder(list[tree.Tree](definition.body), tree.children)
    results = [n.value for n in nodes if isinstance(n, tree.Return)]
    stores = _stored(definition, nodes)
    if not stores or not results or any(map(_is_none, results)):
        return closure

    def returned(statement: tree.Statement) -> Statements:
        if not isinstance(statement, tree.Return):
            return (statement,)
        names = [tree.Name(statement.span, name) for name in stores]
        value = tree.Sequence(statement.span, "tuple", (statement.value, *names))
        return (replace(statement, value=value),)

    body = _each(definition.body, returned)
    filling = replace(closure, definition=replace(definition, body=body), stores=stores)
    return replace(closure, filling=filling)


def _returning(closure: Closure) -> Closure:
    definition = closure.definition
    nodes = postorder(list[tree.Tree](definition.body), tree.children)
    nothing = all(_is_none(n.value) for n in nodes if isinstance(n, tree.Return))
    stores = _stored(definition, nodes)
    if not (nothing and stores):
        return closure
    span = definition.span
    names = [tree.Name(span, name) for name in stores]
    value = names[0] if len(names) == 1 else tree.Sequence(span, "tuple", tuple(names))

    def returned(statement: tree.Statement) -> Statements:
        return (replace(statement, value=value) if isinstance(statement, tree.Return) else statement,)

    body = (*_each(definition.body, returned), tree.Return(span, value))
    return replace(closure, definition=replace(definition, body=body), stores=stores)


def _stored(definition: tree.Def, nodes: Sequence[tree.Tree]) -> tuple[str, ...]:
    """The parameters in whose elements the body stores; none if one of them gets another array."""
    stores: set[str] = set()
    bound: set[str] = set()
    for node in nodes:
        match node:
            case tree.Stored():
                stores |= set(assigned((node,)))
            case tree.Assign() | tree.Augmented():
                own = set(assigned((node,), stores=False))
                stores |= set(assigned((node,))) - own
                bound |= own if isinstance(node, tree.Assign) else set()
            case tree.For(target=target):
                bound |= {
                    n.id
                    for n in postorder(list[tree.Tree]((target,)), tree.children)
                    if isinstance(n, tree.Name)
                }
    found = tuple(p.name for p in definition.parameters if p.name in stores)
    return () if bound & set(found) else found


def _is_none(value: tree.Expression) -> bool:
    return isinstance(value, tree.Name) and value.id == "None"


def _called(source: Source, scope: dict[str, Any], statement: tree.Statement) -> Statements:
    """A statement that calls a procedure, as an assignment to the arguments in which that stores."""
    call = getattr(statement, "value", None)
    if not isinstance(call, tree.Call):
        return (statement,)
    named = call.function
    callee = scope.get(named.id) if isinstance(named, tree.Name) else part_of(named, scope)
    if callee is REFUSED and isinstance(statement, tree.Bare):
        names = tuple(a for a in call.arguments if isinstance(a, tree.Name))
        return (tree.Assign(statement.span, names, tree.Name(call.span, UNKNOWN)),) if names else ()
    if not isinstance(callee, Closure):
        return (statement,)
    if callee.filling is not None:
        return _filled(source, scope, statement, call, callee.filling)
    if not (callee.stores and isinstance(statement, tree.Bare)):
        return (statement,)
    targets = _arguments(source, callee, call)
    target = targets[0] if len(targets) == 1 else tree.Sequence(call.span, "tuple", targets)
    return (tree.Stored(statement.span, (target,), call),)


def _filled(
    source: Source, scope: dict[str, Any], statement: tree.Statement, call: tree.Call, callee: Closure
) -> Statements:
    """A statement whose value is a call of a function that stores and returns a result."""
    if not all(isinstance(a, tree.Name) for a in _places(callee, call)):
        return (statement,)  # an array that only this call knows, or what the store itself refuses
    function, result = f"{callee.name}: all", f"{callee.name}: result"
    scope[function] = callee
    whole = replace(call, function=tree.Name(call.function.span, function))
    target = tree.Sequence(
        call.span, "tuple", (tree.Name(call.span, result), *_arguments(source, callee, call))
    )
    stored = tree.Stored(statement.span, (target,), whole)
    if isinstance(statement, tree.Bare):
        return (stored,)
    return stored, replace(statement, value=tree.Name(call.span, result))  # type: ignore[call-arg]


def _places(callee: Closure, call: tree.Call) -> tuple[tree.Expression, ...]:
    """The arguments of a call in which the function stores; the call itself for one that is left out."""
    names = [p.name for p in callee.definition.parameters]
    given = dict(zip(names, call.arguments, strict=False)) | dict(call.keywords)
    return tuple(given.get(name, call) for name in callee.stores)


def _arguments(source: Source, callee: Closure, call: tree.Call) -> tuple[tree.Expression, ...]:
    targets = _places(callee, call)
    for target in targets:
        if not isinstance(target, tree.Name):
            cause = f"{callee.name} stores in this argument, which is not a name"
            remedy = "write row = x[i].copy(), call the function with row, and store it: x[i] = row"
            raise ParseError(cause, remedy=remedy, source=source, span=target.span)
    return targets


def _each(statements: Statements, change: Callable[[tree.Statement], Statements]) -> Statements:
    """Statements, and those in their blocks, each changed."""
    found: list[tree.Statement] = []
    for statement in statements:
        match statement:
            case tree.If(body=body, otherwise=otherwise):
                body, otherwise = _each(body, change), _each(otherwise, change)
                found.append(replace(statement, body=body, otherwise=otherwise))
            case tree.For(body=body) | tree.While(body=body):
                found.append(replace(statement, body=_each(body, change)))
            case _:
                found += change(statement)
    return tuple(found)
