"""The loop IR: functions of loops, assignments, and stores to arrays in memory.

Expressions are immutable, and equal if they have the same parts. Statements are compared by identity;
transforms create new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, fields
from functools import cache
from operator import attrgetter
from typing import Any
from typing import Literal as OneOf

from adcompiler.ir.types import Dtype
from adcompiler.lazy_dataclass import dataclass

Kind = OneOf["elements", "program", "blocks", "edges"]
Name = str  # of a variable or an array
# What a field is, by its type: the method of a `Rewriter` that copies it. Other fields are plain data.
ROLES = {
    "Name": "name", "Expr": "expr", "Expr | None": "optional", "Access": "access", "For": "stmt",
    "tuple[Expr, ...]": "all", "tuple[Var | Access, ...]": "all", "list[Stmt]": "body",
}  # fmt: skip


@cache
def roles(kind: Any) -> tuple[tuple[str, str], ...]:
    """The fields of a class of nodes in order, each with its role; empty for plain data."""
    return tuple((f.name, ROLES.get(str(f.type), "")) for f in fields(kind) if f.name != "mark")


class Node:
    """The base class of all nodes. Its parts, and its copies (`rewrite.py`), follow from its fields."""

    __slots__ = ()

    @property
    def parts(self) -> Sequence[Node]:
        """Its child nodes, in the order of its fields."""
        kind: Any = type(self)
        return reader(kind)(self)


@cache
def reader(kind: Any) -> Callable[[Node], Sequence[Node]]:
    """A function that returns the parts of nodes of a class."""
    found = [(name, role) for name, role in roles(kind) if role not in ("", "name")]
    single = [name for name, role in found if role in ("expr", "access", "stmt")]
    if not found:
        return lambda node: ()
    if len(found) == len(single):
        read: Callable[[Node], Any] = attrgetter(*single)
        return read if len(single) > 1 else lambda node: (read(node),)
    if len(found) == 1:
        return attrgetter(found[0][0])

    def parts(node: Node) -> Sequence[Node]:
        made: list[Node] = []
        for name, role in found:
            value = getattr(node, name)
            if role in ("all", "body"):
                made += value
            elif value is not None:
                made.append(value)
        return made

    return parts


@dataclass(frozen=True, slots=True)
class Expr(Node):
    """A value. In a kernel that is listed, expressions and statements have marks, numbers that transforms
    keep."""

    mark: int = field(default=0, kw_only=True, compare=False, repr=False)


@dataclass(eq=False, slots=True)
class Stmt(Node):
    """An effect."""

    mark: int = field(default=0, kw_only=True, repr=False)


# -- expressions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A variable, a parameter, or an array as an argument."""

    name: Name


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """A constant; float64 unless it is cast."""

    value: bool | int | float
    dtype: Dtype


def literal(value: bool | int | float) -> Literal:
    """A constant with its Python type."""
    return Literal(value, "bool" if isinstance(value, bool) else "i64" if isinstance(value, int) else "f64")


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`-x`, `~x` or `not x`."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """An operation of Python's on two numbers: `+ - * / // % ** & | ^ << >>`."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Compare(Expr):
    """`< <= > >= == !=`."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Logical(Expr):
    """`and` or `or` of several conditions."""

    op: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Choice(Expr):
    """`then if test else otherwise`: elements are read on the taken side only."""

    test: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A function, a conversion or an intrinsic, by its name in kernels."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Access(Expr):
    """An element of an array, or a part of it if there are fewer indices than axes."""

    array: Name
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Length(Expr):
    """The length of an axis of an array."""

    array: Name
    axis: int


@dataclass(frozen=True, slots=True)
class Verbatim(Expr):
    """Text for which the IR has no node; only numba understands it."""

    text: str


class UnsupportedError(Exception):
    """Something in the loop IR that a language lacks, or whose types do not fit, named by the message."""


# -- statements ------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Assign(Stmt):
    """Assigns a value to a variable."""

    name: Name
    value: Expr


@dataclass(eq=False, slots=True)
class AssignAll(Stmt):
    """Assigns values to variables or elements, after all values are computed."""

    targets: tuple[Var | Access, ...]
    values: tuple[Expr, ...]


@dataclass(eq=False, slots=True)
class Store(Stmt):
    """Assigns a value to an element."""

    at: Access
    value: Expr


@dataclass(eq=False, slots=True)
class Update(Stmt):
    """Combines an element with a value by an operation (`Binary`)."""

    at: Access
    op: str
    value: Expr


@dataclass(eq=False, slots=True)
class Allocate(Stmt):
    """A new array with undefined elements."""

    name: Name
    dtype: Dtype
    shape: tuple[Expr, ...]


@dataclass(eq=False, slots=True)
class Expand(Allocate):
    """A new array for the values of a variable, whose type it has, in several iterations."""

    like: Name = ""


@dataclass(eq=False, slots=True, weakref_slot=True)
class For(Stmt):
    """`for axis in range(start, stop, step)`: over elements, over the few near both ends of a cut loop,
    over iterations of a loop of the program, or over the blocks of a nest."""

    axis: Name
    start: Expr
    stop: Expr
    body: list[Stmt] = field(default_factory=list)
    step: Expr | None = None
    kind: Kind = "elements"
    note: str = ""  # for readers

    @property
    def bounds(self) -> tuple[Expr, ...]:
        """Start, stop, and the step if there is one."""
        return (self.start, self.stop) if self.step is None else (self.start, self.stop, self.step)


@dataclass(eq=False, slots=True)
class While(Stmt):
    """A loop of the program or of a routine without a trip count."""

    test: Expr
    body: list[Stmt] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class If(Stmt):
    """Statements under a condition."""

    test: Expr
    body: list[Stmt] = field(default_factory=list)
    otherwise: list[Stmt] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Break(Stmt):
    """Leaves the innermost loop."""


@dataclass(eq=False, slots=True)
class Return(Stmt):
    """Returns the results of the function."""

    values: tuple[Expr, ...]


@dataclass(eq=False, slots=True)
class Invoke(Stmt):
    """A call of a function or a routine that writes to arrays."""

    name: str
    args: tuple[Expr, ...]


@dataclass(eq=False, slots=True)
class Comment(Stmt):
    """A comment for readers."""

    text: str


@dataclass(eq=False, slots=True)
class Foreign(Stmt):
    """A statement for which the IR has no node; only numba understands it."""

    text: str


@dataclass(eq=False, slots=True)
class Function(Node):
    """A function; calls determine the types of its parameters.

    Each iteration of a nest has its own `rows`. Transforms set the other fields: the variables whose products
    are `rounded` before they are added (`transforms/pipeline.py`), whether iterations are `lanes`, which are
    `adding` to sums of their own in rows `wide` enough for all lanes, and whether loops are `tiled`.
    """

    name: str
    params: list[str]
    body: list[Stmt]
    rows: frozenset[str] = frozenset()
    rounded: frozenset[str] = frozenset()
    wide: frozenset[str] = frozenset()
    lanes: bool = False
    adding: bool = False
    tiled: bool = False


EDGE = "edge"  # the first part of the names of counters of iterations near the ends of a loop
BLOCK = Var("block")  # the number of the block that a function of a nest computes


def unsigned(made: Expr) -> Expr:
    """An index as an unsigned number."""
    return Call("uint64", (made,))


def signed(made: Expr) -> Expr:
    """The number that `unsigned` converts."""
    assert isinstance(made, Call)
    return made.args[0]


def counted(axis: str, size: Expr, body: Sequence[Stmt] = (), kind: Kind = "elements") -> For:
    """A loop from 0 to a length."""
    return For(axis, unsigned(literal(0)), unsigned(size), [*body], kind=kind)


def all_of(conditions: Sequence[Expr]) -> Expr:
    """The conjunction of several conditions."""
    return conditions[0] if len(conditions) == 1 else Logical("and", tuple(conditions))


def assignment(target: Expr, value: Expr) -> Stmt:
    """An assignment to a variable or an element."""
    if isinstance(target, Var):
        return Assign(target.name, value)
    assert isinstance(target, Access)
    return Store(target, value)
