"""The syntax tree that the grammar builds and lowering reads. Every node has its span."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

from adcompiler.errors import Source, Span
from adcompiler.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A node, compared by identity, so that no comparison walks a deep tree."""

    span: Span


class Expression(Tree):
    __slots__ = ()


class Statement(Tree):
    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Number(Expression):
    value: int | float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Text(Expression):
    """A string literal: only a docstring, or an argument of operations that take one (einsum)."""

    value: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Name(Expression):
    """A variable or constant, including `True`, `False` and `None`."""

    id: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unary(Expression):
    """`op` is one of + - ~ not."""

    op: str
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Binary(Expression):
    """`op` is one of + - * / // % ** @ & | ^ << >>."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compare(Expression):
    """A chain: operands[0] ops[0] operands[1] ops[1] ...; ops are < <= > >= == !=, or a single `in` or `not
    in`."""

    ops: tuple[str, ...]
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Boolean(Expression):
    """`op` is `and` or `or`; two or more operands."""

    op: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ternary(Expression):
    """`then if test else otherwise`."""

    test: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expression):
    function: Expression
    arguments: tuple[Expression, ...]
    keywords: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Starred(Expression):
    """`*value` among the arguments of a call."""

    value: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attribute(Expression):
    value: Expression
    name: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Slice(Expression):
    """`start:stop:step` inside a subscript; omitted parts are None."""

    start: Expression | None
    stop: Expression | None
    step: Expression | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ellipsis(Expression):
    """`...` inside a subscript: a `:` for each remaining axis."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Subscript(Expression):
    value: Expression
    indices: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sequence(Expression):
    """A tuple `(a, b)` or a list `[a, b]`."""

    kind: str
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Clause(Tree):
    """`for targets in iterable if conditions` of a comprehension."""

    targets: tuple[str, ...]
    iterable: Expression
    conditions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comprehension(Expression):
    """`kind` is `list` for `[e for ...]`, `generator` for the bare argument of a reducer."""

    kind: str
    element: Expression
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assign(Statement):
    """`t1 = t2 = value`: each target is a Name, a Subscript or a Sequence of targets."""

    targets: tuple[Expression, ...]
    value: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stored(Assign):
    """A call of a function that stores in its arguments, as an assignment to these."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Augmented(Statement):
    """`target op= value`."""

    target: Expression
    op: str
    value: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Return(Statement):
    value: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Leave(Statement):
    """`word` is `break` or `continue`."""

    word: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Raise(Statement):
    """`raise kind(message)`: calls that reach it are refused."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class If(Statement):
    """`elif` is an If as the only statement of `otherwise`."""

    test: Expression
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class For(Statement):
    """`bound` are the names that have a value wherever a `break` leaves it (`definite_assignment.py`)."""

    target: Expression
    iterable: Expression
    body: tuple[Statement, ...]
    bound: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class While(Statement):
    test: Expression
    body: tuple[Statement, ...]
    bound: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bare(Statement):
    """An expression as a statement (the language has no `pass`)."""

    value: Expression


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Parameter(Tree):
    """`name: annotation = default`; the annotation is an expression (`f64[n, d]`, `static`) or None."""

    name: str
    annotation: Expression | None
    default: Expression | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Def(Statement):
    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    docstring: str | None
    decorators: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Module(Tree):
    """A whole source: either a single expression, or constants (Assign) and defs in order."""

    source: Source
    expression: Expression | None
    statements: tuple[Statement, ...]


def children(node: Tree) -> list[Tree]:
    """The direct children of `node`, in order."""
    found: list[Tree] = []
    for name in _parts(type(node)):  # type: ignore[arg-type]
        value = getattr(node, name)
        for part in value if isinstance(value, tuple) else (value,):
            part = part[1] if isinstance(part, tuple) else part
            if isinstance(part, Tree):
                found.append(part)
    return found


@cache
def _parts(kind: type[Tree]) -> tuple[str, ...]:
    """The fields of a kind of node that may hold nodes."""
    return tuple(field.name for field in fields(kind) if field.name not in ("span", "source"))


def dump(root: Tree) -> str:
    """The tree as indented text, one node per line with its own fields."""
    lines: list[str] = []
    stack: list[tuple[Tree, int]] = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        plain = [getattr(node, f.name) for f in fields(node) if f.name not in ("span", "source")]
        own = [repr(v) for v in plain if isinstance(v, str | int | float)]
        lines.append("  " * depth + " ".join([type(node).__name__, *own]))
        stack.extend((child, depth + 1) for child in reversed(children(node)))
    return "\n".join(lines)
