"""What the turns of a loop in the text of a kernel do, and what each of them has for itself."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Sequence

from adcompiler.codegen.trees import walk

ORDERLESS = {"add", "mult", "max", "min"}  # operations whose order matters to rounding only


def stores_of(body: Sequence[ast.stmt]) -> Counter[str]:
    """How often each variable is assigned."""
    names = (n for s in body for n in walk(s) if isinstance(n, ast.Name))
    return Counter(n.id for n in names if isinstance(n.ctx, ast.Store))


def turn_of(loop: ast.For) -> str:
    """The variable of a loop."""
    assert isinstance(loop.target, ast.Name)
    return loop.target.id


def is_of_program(name: str) -> bool:
    """Whether a variable is the turn of a loop of the program."""
    return name.startswith("turn")


def inner_turns(loop: ast.For) -> set[str]:
    """The variables of the loops inside a loop."""
    return {turn_of(n) for s in loop.body for n in walk(s) if isinstance(n, ast.For)}


def mentions(node: ast.AST, names: Collection[str]) -> bool:
    """Whether a variable with one of the names occurs."""
    return any(isinstance(n, ast.Name) and n.id in names for n in walk(node))


def own_of(loop: ast.For, also: Collection[str] = ()) -> set[str]:
    """The variables that depend on the turn of a loop, or on what else each turn has for itself."""
    own = {turn_of(loop), *also}
    assigned = []
    for n in (n for s in loop.body for n in walk(s) if isinstance(n, ast.Assign | ast.For)):
        target, value = (n.target, n.iter) if isinstance(n, ast.For) else (n.targets[0], n.value)
        if isinstance(target, ast.Name):
            assigned.append((target.id, {v.id for v in walk(value) if isinstance(v, ast.Name)}))
    before = 0
    while before < len(own):
        before = len(own)
        for name, read in assigned:
            if not own.isdisjoint(read):
                own.add(name)
    return own


# -- whether it may be done ------------------------------------------------------------------------


def are_independent(loop: ast.For, stored: Counter[str], rows: Collection[str] = ()) -> bool:
    """Whether the turns of a loop are independent of each other but for sums, if each has `rows` for itself.

    `stored` is how often the function assigns each variable.
    """
    nodes = [n for s in loop.body for n in walk(s)]
    statements = [n for n in nodes if isinstance(n, ast.stmt)]
    if not all(is_plain(s) for s in statements):
        return False
    inside = stores_of(loop.body)
    outer = {name for name, count in inside.items() if stored[name] > count} - inner_turns(loop)
    written = {array_of(n) for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)}
    free = {*only_added(statements), *rows}
    return outer <= free and all(is_apart(nodes, name, turn_of(loop)) for name in written - free)


def is_plain(statement: ast.stmt) -> bool:
    """Whether it is one of the statements whose effect is known here."""
    match statement:
        case ast.Assign(targets=[ast.Name() | ast.Subscript(value=ast.Name())]):
            return True
        case ast.AugAssign(target=ast.Subscript(value=ast.Name())):
            return True
        case ast.For(target=ast.Name(), iter=ast.Call(func=ast.Name(id="range"), args=[_, _])):
            return True
        case ast.If(orelse=[]):
            return True
    return isinstance(statement, ast.Pass)


def array_of(node: ast.AST) -> str:
    """The name of the array of which a subscript is an element."""
    match node:
        case ast.Subscript(value=ast.Name(id=name)):
            return name
    return ""


def text_of(node: ast.AST) -> str:
    """What tells a part of a kernel from others, stored or read; `ast.unparse` knows Python's nodes alone."""
    return ast.dump(node).replace("Store()", "Load()")


def updated(statement: ast.stmt) -> str:
    """The variable, or the array, that a statement adds to, or takes an extremum with; else nothing."""
    match statement:
        case ast.AugAssign(target=target):
            return array_of(target)
        case ast.Assign(
            targets=[target],
            value=ast.BinOp(left=old, op=ast.Add() | ast.Mult()) | ast.Call(func=ast.Name(), args=[old, _]),
        ) if text_of(target) == text_of(old):
            return target.id if isinstance(target, ast.Name) else array_of(target)
    return ""


def operation_of(statement: ast.stmt) -> str:
    """How a statement that updates something does so."""
    match statement:
        case ast.Assign(value=ast.Call(func=ast.Name(id=name))):
            return name.removeprefix("reduce_")
        case ast.AugAssign(op=op) | ast.Assign(value=ast.BinOp(op=op)):
            return type(op).__name__.lower()
    return ""


def only_added(statements: Sequence[ast.stmt]) -> set[str]:
    """The variables and arrays with which nothing is done but to add to them, or all the time to multiply, or
    to take the same extremum: in any order."""
    uses: Counter[str] = Counter()
    updates: Counter[str] = Counter()
    how: dict[str, set[str]] = {}
    for s in statements:
        part = s.test if isinstance(s, ast.If) else s.iter if isinstance(s, ast.For) else s
        uses.update(n.id for n in walk(part) if isinstance(n, ast.Name))
        if name := updated(s):
            updates[name] += 1 if isinstance(s, ast.AugAssign) else 2
            how.setdefault(name, set()).add(operation_of(s))
    same = {name for name, found in how.items() if len(found) == 1 and found <= ORDERLESS}
    return {name for name in same if uses[name] == updates[name]}


def is_apart(nodes: Sequence[ast.AST], name: str, turn: str) -> bool:
    """Whether each turn has a part of an array for itself: the turn's number is an index of every access, and
    always the same one."""
    places = [n.slice for n in nodes if isinstance(n, ast.Subscript) and array_of(n) == name]
    if len(places) < sum(isinstance(n, ast.Name) and n.id == name for n in nodes):
        return False
    spots = [
        {k for k, i in enumerate(p.elts if isinstance(p, ast.Tuple) else [p])
         if isinstance(i, ast.Name) and i.id == turn}
        for p in places
    ]  # fmt: skip
    return bool(set.intersection(*spots))
