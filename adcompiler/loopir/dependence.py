"""Dependence between the iterations of a loop: private data, and whether iterations are independent, or may
run in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from adcompiler.loopir.intrinsics import INTEGER_EXTREMA
from adcompiler.loopir.limits import MOST_WRITTEN_OUT
from adcompiler.loopir.nodes import (
    Access,
    Allocate,
    Assign,
    Binary,
    Call,
    Choice,
    Expr,
    For,
    If,
    Literal,
    Node,
    Stmt,
    Store,
    Update,
    Var,
)
from adcompiler.loopir.rewrite import Rewriter
from adcompiler.loopir.walk import (
    accesses,
    assigned,
    in_order,
    mentions,
    named,
    names,
    read_names,
    reads,
    sets,
    statements,
    stores_of,
    variables,
    walk,
)

ORDERLESS = {"add", "mult", "max", "min"}  # operations whose order affects rounding only
OPERATORS = {"+": "add", "*": "mult"}


def inner_axes(loop: For) -> set[str]:
    """The variables of the loops inside a loop."""
    return {s.axis for s in statements(loop.body) if isinstance(s, For)}


def loop_variant(loop: For, also: Collection[str] = (), counters: bool = True) -> set[str]:
    """The variables that depend on the iteration of a loop, or on the variables `also`; with `counters`,
    those of inner loops whose bounds do."""
    own = {loop.axis, *also}
    assigned: list[tuple[str, set[str]]] = []
    for s in statements(loop.body):
        match s:
            case Assign(name=name, value=value):
                assigned.append((name, variables(value)))
            case Allocate(name=name, shape=shape):
                assigned.append((name, variables(*shape)))
            case For(axis=name) if counters:
                assigned.append((name, variables(*s.bounds)))
    before = 0
    while before < len(own):
        before = len(own)
        for name, read in assigned:
            if not own.isdisjoint(read):
                own.add(name)
    return own


class _Definition(NamedTuple):
    """What is known of an expression of an iteration if the variables in it are written out."""

    nodes: int  # how many nodes it has then
    changes: bool  # whether it mentions what changes from iteration to iteration
    loads: bool  # whether it reads elements of arrays


class Iteration(Rewriter):
    """What changes in an iteration of a loop, and how. It rewrites expressions so that they depend on the
    loop's counter and on variables from outside alone, if variables of the iteration have one value each. A
    variable that is read before it is set has two: that of the iteration before comes first.

    Definitions share variables, so an expression may be far larger written out than the loop is. Questions
    are therefore answered for each variable once, in the order of definitions, and `written_out` has a limit.
    """

    def __init__(self, loop: For) -> None:
        inside = assigned(*loop.body)
        self.axis = loop.axis
        self.defined: dict[str, Expr] = {}
        read: set[str] = set()
        for s in loop.body:
            read.update(reads(s))
            if isinstance(s, Assign) and inside[s.name] == 1 and s.name not in read:
                self.defined[s.name] = s.value
        stored = {at.array for s in statements(loop.body) for at in stores_of(s)}
        self.changing = {loop.axis, *inside, *stored}
        self.steps: dict[str, int | None] = {}

    def expr(self, e: Expr) -> Expr:
        if isinstance(e, Var) and e.name in self.defined:
            return self.expr(self.defined[e.name])
        return super().expr(e)

    def written_out(self, e: Expr) -> Expr | None:
        """An expression of the counter and of variables from outside; None if it is too large."""
        return self.expr(e) if self.about(e).nodes <= MOST_WRITTEN_OUT else None

    @cached_property
    def definitions(self) -> dict[str, _Definition]:
        """What is known of each variable of the iteration: none is read before it is set."""
        found: dict[str, _Definition] = {}
        for name, value in self.defined.items():
            found[name] = self.about(value, found)
        return found

    def about(self, e: Expr, known: Mapping[str, _Definition] | None = None) -> _Definition:
        """What is known of an expression; `known` are the variables set before it, if not all are."""
        known = self.definitions if known is None else known
        nodes, changes, loads = 0, False, False
        for n in walk(e):
            inner = known.get(n.name) if isinstance(n, Var) else None
            nodes += 1 if inner is None else inner.nodes
            changes |= named(n) in self.changing if inner is None else inner.changes
            loads |= isinstance(n, Access) if inner is None else inner.loads
        return _Definition(nodes, changes, loads)

    def step(self, e: Expr) -> int | None:
        """By how much a number grows from iteration to iteration; None if values or remainders decide."""
        match e:
            case Var(name=name) if name == self.axis:
                return 1
            case Var(name=name) if name in self.defined:
                if name not in self.steps:
                    self.steps[name] = self.step(self.defined[name])
                return self.steps[name]
            case Call(name="uint64" | "np.int64", args=(inner,)):
                return self.step(inner)
            case Binary(op="+" | "-" as op, left=left, right=right):
                a, b = self.step(left), self.step(right)
                return None if a is None or b is None else a + b if op == "+" else a - b
            case (
                Binary(op="*", left=Literal(value=int(n)), right=other)
                | Binary(op="*", left=other, right=Literal(value=int(n)))
            ):
                found = self.step(other)
                return None if found is None else n * found
        return None if self.about(e).changes else 0


class Along(Iteration):
    """The same where inner loops count as one iteration each: the variables `own` differ between iterations
    of the loop, and all others do not."""

    def __init__(self, loop: For, own: Collection[str]) -> None:
        self.axis, self.changing = loop.axis, {*own}
        self.defined, self.steps = {}, {}
        inside, read = assigned(*loop.body), set[str]()
        for s in in_order(loop.body):
            read.update(read_names(s))
            if isinstance(s, Assign) and inside[s.name] == 1 and s.name not in read:
                self.defined[s.name] = s.value


def are_independent(loop: For, stored: Counter[str], rows: Collection[str] = ()) -> bool:
    """Whether the iterations of a loop are independent except for reductions; `rows` are arrays private to an
    iteration.

    `stored` is the number of assignments to each variable in the function.
    """
    found = statements(loop.body)
    if not all(is_plain(s) for s in found):
        return False
    inside = assigned(*loop.body)
    outer = {name for name, count in inside.items() if stored[name] > count} - inner_axes(loop)
    written = {at.array for s in found for at in stores_of(s)}
    free = {*only_added(found), *rows}
    return outer <= free and all(is_disjoint(loop.body, name, loop.axis) for name in written - free)


def is_plain(statement: Stmt) -> bool:
    """Whether a statement is of a kind that this analysis knows."""
    match statement:
        case Assign() | Allocate() | Store() | Update() | For(step=None) | If(otherwise=[]):
            return True
    return False


def updated(statement: Stmt) -> str:
    """The variable or array that a statement updates by an operation; else empty."""
    match statement:
        case Update(at=Access(array=name)):
            return name
        case Assign(name=name, value=value):
            return name if _first_of(value) == Var(name) else ""
        case Store(at=at, value=value):
            return at.array if _first_of(value) == at else ""
    return ""


def _first_of(value: Expr) -> Expr | None:
    """The first operand of a sum, a product, or a function of two."""
    match value:
        case Binary(op="+" | "*", left=old):
            return old
        case Call(name=name, args=(old, _)) if "." not in name:
            return old
    return None


def total(node: Node) -> str:
    """The sum or extremum that a statement updates; empty for any other statement."""
    if isinstance(node, Assign) and operation_of(node) in ("add", "max", "min"):
        return updated(node)
    return ""


def operation_of(statement: Stmt) -> str:
    """The operation of an update."""
    match statement:
        case Assign(value=Call(name=name)) | Store(value=Call(name=name)):
            return name.removeprefix("reduce_")
        case Update(op=op) | Assign(value=Binary(op=op)) | Store(value=Binary(op=op)):
            return OPERATORS.get(op, op)
    return ""


def only_added(found: Sequence[Stmt]) -> set[str]:
    """The variables and arrays that are only added to, or only multiplied, or only updated with the same
    extremum: reductions in any order."""
    uses: Counter[str] = Counter()
    updates: Counter[str] = Counter()
    how: dict[str, set[str]] = {}
    for s in found:
        uses.update((*read_names(s), *(() if isinstance(s, For) else sets(s))))
        if name := updated(s):
            updates[name] += 1 if isinstance(s, Update) else 2
            how.setdefault(name, set()).add(operation_of(s))
    same = {name for name, found in how.items() if len(found) == 1 and found <= ORDERLESS}
    return {name for name in same if uses[name] == updates[name]}


def is_disjoint(body: Sequence[Stmt], name: str, axis: str) -> bool:
    """Whether iterations access disjoint parts of an array: one of the indices is the loop's variable in
    every access."""
    places = [at for at, _ in accesses(*body) if at.array == name]
    if len(places) < names(*body)[name]:
        return False
    return bool(set.intersection(*({k for k, i in enumerate(p.indices) if i == Var(axis)} for p in places)))


def may_interleave(loop: For, inner: For, mentioned: Counter[str]) -> bool:
    """Whether an inner loop may run several iterations of a loop for each of its elements, in order: an
    element reads no other one, and iterations communicate through elements only.

    `mentioned` counts the uses of names in the function.
    """
    own, local = names(loop), set(assigned(loop))
    alone = all(own[name] == mentioned[name] for name in local)
    bounded = alone and not local & variables(*inner.bounds) and _by_iteration(loop, inner, local)
    elements = {at.array for at, stored in accesses(*inner.body) if stored}
    others = {at.array for at, stored in accesses(loop) if stored} - elements
    return (
        bounded
        and all(is_disjoint([loop], name, inner.axis) for name in elements)
        and all(own[name] == 1 for name in others)
    )


def _by_iteration(loop: For, inner: For, local: set[str]) -> bool:
    """Whether an iteration reads none of the variables `local` from an earlier one, and only statements of
    the same element read what is set for that element."""
    known = {loop.axis}
    for s in loop.body:
        inside = known | {inner.axis}
        for part in inner.body if s is inner else ():
            if not reads(part).keys() & local <= inside:
                return False
            inside |= set(assigned(part))
        if s is not inner:
            if not reads(s).keys() & local <= known:
                return False
            known |= set(assigned(s))
    return True


def carries_only_totals(body: Sequence[Stmt], changing: Collection[str]) -> bool:
    """Whether the iterations of an innermost loop pass on sums and extrema only, of the variables `changing`,
    which are assigned more than once."""
    begun = {s.name for s in body if isinstance(s, Assign) and not total(s)}  # in each iteration
    read, own = reads(*body), Counter(map(total, walk(*body)))
    return all(read[name] == own[name] for name in (set(changing) - begun) & assigned(*body).keys())


def are_unordered(loop: For, changing: Collection[str]) -> bool:
    """Whether the iterations of a loop store to their own elements, or add in any order. Forced vectorisation
    allows LLVM to reorder everything in the loop."""
    return all(_has_no_order(loop.axis, s, changing) for s in loop.body) and not _chooses_extremum(loop)


def sums_last(body: Sequence[Stmt]) -> Sequence[Stmt]:
    """The assignments of an unordered loop, reductions after all others. Between two choices by the same
    condition, LLVM would move a reduction into both of its branches, and then vectorise nothing."""
    sums = [s for s in body if isinstance(s, Assign) and mentions([s.name], s.value)]
    others = [s for s in body if s not in sums]
    total = {s.name for s in sums if isinstance(s, Assign)}
    alone = all(n == 1 for n in assigned(*body).values()) and all(isinstance(s, Assign) for s in body)
    reads = [s.value for s in others if isinstance(s, Assign)]
    return [*others, *sums] if alone and not mentions(total, *reads) else body


def _chooses_extremum(loop: For) -> bool:
    """Whether a loop reduces chosen values to an extremum. LLVM turns `min(s, v if c else inf)` into a choice
    of minima, which it cannot vectorise; if vectorisation is forced, it warns on stderr."""
    calls = {n.name for n in walk(*loop.body) if isinstance(n, Call)}
    chooses = "select" in calls or any(isinstance(n, Choice) for n in walk(*loop.body))
    return chooses and not calls.isdisjoint(("reduce_max", "reduce_min"))


def _has_no_order(axis: str, statement: Stmt, changing: Collection[str]) -> bool:
    match statement:
        case Store(at=at) | Update(at=at):
            return mentions([axis], *at.indices)
        case Assign(name=name, value=Call(name=function, args=(Var(name=same), _))) if name == same:
            return function.startswith("reduce_") or function in INTEGER_EXTREMA
        case Assign(name=name) | Allocate(name=name):
            return name not in changing
    return False
