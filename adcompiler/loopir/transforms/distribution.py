"""Loop distribution: functions between inner loops are computed for a strip of iterations at once.

    for i:                                      for strips of i:
        s = 0                                       for i in the strip:
        for j:                                          s = 0
            s += x[i, j] * b[j]                         for j: s += x[i, j] * b[j]
        v = exp(s)                                      at[i] = s
        for j:                                      for i in the strip: f[i] = exp(at[i])
            g[j] += v * x[i, j]                     for i in the strip:
                                                        for j: g[j] += f[i] * x[i, j]

LLVM vectorises only innermost loops, so a function beside an inner loop is computed number by number. Where
the inner loops add products over a few features, it takes longer than they do. A strip's rows stay in cache
between its loops: it is shorter if rows are longer. This is *loop distribution* with *strip mining*
(K. Kennedy and K. McKinley, Supercomputing 1990).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from adcompiler.loopir.dependence import are_independent, inner_axes, is_disjoint, loop_variant, only_added
from adcompiler.loopir.intrinsics import BY_TEXT
from adcompiler.loopir.limits import LONGEST_STRIP, MOST_EXPANDED, SHORTEST_STRIP, STRIP_POINTS
from adcompiler.loopir.nodes import (
    Access,
    Assign,
    Binary,
    Call,
    Choice,
    Expand,
    Expr,
    For,
    Function,
    Literal,
    Stmt,
    Store,
    Var,
    counted,
    literal,
    signed,
    unsigned,
)
from adcompiler.loopir.rewrite import Renamed, Restructurer
from adcompiler.loopir.short_loops import has_loops, short
from adcompiler.loopir.transformed_loops import Lanes
from adcompiler.loopir.walk import assigned, mentions, names, statements, stores_of, walk


def distributed(function: Function) -> Function:
    """The function with its loops distributed where that pays."""
    if not any(map(calls, function.body)):
        return function
    return replace(function, body=_Distributed(function).body(function.body))


class _Distributed(Restructurer):
    """Loops distributed, inner ones first."""

    def __init__(self, function: Function) -> None:
        self.stored, self.rows = assigned(*function.body), function.rows
        self.indices = _indices(function.body)

    def body(self, found: Iterable[Stmt]) -> list[Stmt]:
        return [made for s in found for made in self.each(s)]

    def each(self, s: Stmt) -> list[Stmt]:
        """What takes the place of a statement."""
        if isinstance(s, Lanes):
            return [s]
        inner = self.stmt(s)
        if type(inner) is For and inner.kind == "elements" and inner.step is None and short(inner) is None:
            return _Loop(inner, self.stored, self.rows, self.indices).strips() or [inner]
        return [inner]


class _Loop:
    """A loop to distribute: `body` are its statements in an order that lets them be parted, and `many` the
    variables that an iteration sets several times.

    `stored` is the number of assignments to each variable in the function, `rows` are the arrays private to
    an iteration of its outermost loop, and `indices` the variables that are unsigned.
    """

    def __init__(
        self, loop: For, stored: Counter[str], rows: Collection[str], indices: Collection[str]
    ) -> None:
        self.loop, self.stored, self.rows, self.indices = loop, stored, rows, indices
        inside = assigned(*loop.body)
        self.outer = {n for n, count in inside.items() if stored[n] > count} - inner_axes(loop)
        alone = {s.name for s in loop.body if isinstance(s, Assign) and inside[s.name] == 1}
        self.many = inside.keys() - alone - self.outer - inner_axes(loop)
        self.body = self.finished(self.begun(list(loop.body)))
        if self.may_pay():
            self.body = gathered(self.body)

    def begun(self, body: list[Stmt]) -> list[Stmt]:
        """The statements with initial values where they are needed."""
        for s in [s for s in body if isinstance(s, Assign) and isinstance(s.value, Literal)]:
            if s.name in self.many:
                at = body.index(s)
                later = (k for k in range(at + 1, len(body)) if s.name in names(body[k]))
                body.insert(next(later, len(body)) - 1, body.pop(at))
        return body

    def finished(self, body: list[Stmt]) -> list[Stmt]:
        """The statements with the last values of variables under other names."""
        for name in sorted(self.many):
            last = max(k for k, s in enumerate(body) if name in assigned(s))
            if any(name in names(s) for s in body[last + 1 :]):
                new = f"{name}.last"
                rest = [Renamed({name: new}).stmt(s) for s in body[last + 1 :]]
                body = [*body[: last + 1], Assign(new, Var(name)), *rest]
        return body

    def strips(self) -> list[Stmt]:
        """The loop over strips, and the length of a strip before it; nothing if the loop is better left
        alone."""
        if not self.may_pay() or not are_independent(self.loop, self.stored, self.rows):
            return []
        groups = list(self.joined(list(self.groups())))
        called = [g for g in groups if any(map(calls, g))]
        if len(groups) == 1 or not called or any(map(has_loops, called)):
            return []  # functions of inner loops take longer than those beside them
        shared = list(self.shared(groups))
        if len(shared) > MOST_EXPANDED or any(a.name in self.indices for a, _ in shared):
            return []
        return list(self.made(groups, shared))

    def may_pay(self) -> bool:
        """Whether functions stand beside inner loops."""
        plain = all(isinstance(s, Assign | Store) or type(s) is For for s in self.body)
        ends = (self.loop.start, self.loop.stop)
        counts = all(isinstance(e, Call) and e.name == "uint64" for e in ends)
        return plain and counts and has_loops(self.body) and any(map(calls, self.body))

    def groups(self) -> Iterator[list[Stmt]]:
        """The smallest groups of adjacent statements that can be parted: what one variable or array connects
        stays together, unless each iteration has a value or an element of its own."""
        free = only_added(statements(self.loop.body))
        written = {at.array for s in statements(self.loop.body) for at in stores_of(s)} - free
        tied = self.many | {a for a in written if not is_disjoint(self.loop.body, a, self.loop.axis)}
        where = [names(s).keys() & tied for s in self.body]
        last = {name: k for k, found in enumerate(where) for name in found}
        group, end = list[Stmt](), 0
        for k, s in enumerate(self.body):
            if group and k > end:
                yield group
                group = []
            group.append(s)
            end = max([k, end, *(last[name] for name in where[k])])
        yield group

    def joined(self, groups: Sequence[list[Stmt]]) -> Iterator[list[Stmt]]:
        """Groups that alternate between functions and inner loops. Other statements join the group after
        them, or that of functions before them if fewer values are then passed on."""
        passed = self.passed(groups)
        made, rest = list[Stmt](), list[list[Stmt]]()
        for k, group in enumerate(groups):
            rest.append(group)
            if not (has_loops(group) or _is_vector(group)):
                continue
            first = k + 1 - len(rest)
            cut = first
            if made and _is_vector(made) == _is_vector(group):
                cut = k + 1
            elif made and _is_vector(made):
                cut = min(range(first, k + 1), key=passed.__getitem__)
            made += chain(*rest[: cut - first])
            if cut <= k:
                if made:
                    yield made
                made = list(chain(*rest[cut - first :]))
            rest = []
        yield [*made, *chain(*rest)]

    def passed(self, groups: Sequence[list[Stmt]]) -> list[int]:
        """The number of values that are computed before each group and read in or after it."""
        found = [0] * len(groups)
        last = {name: k for k, group in enumerate(groups) for name in names(*group)}
        for k, group in enumerate(groups):
            for s in group:
                if isinstance(s, Assign) and s.name not in self.outer | self.many:
                    for later in range(k + 1, last[s.name] + 1):
                        found[later] += 1
        return found

    def shared(self, groups: Sequence[list[Stmt]]) -> Iterator[tuple[Assign, int]]:
        """The values that later groups read, each with the number of the group that computes it."""
        for k, group in enumerate(groups):
            later = names(*(s for g in groups[k + 1 :] for s in g))
            for s in group:
                if isinstance(s, Assign) and s.name not in self.outer | self.many and s.name in later:
                    yield s, k

    def made(self, groups: Sequence[list[Stmt]], shared: Sequence[tuple[Assign, int]]) -> Iterator[Stmt]:
        """The statements of the strips."""
        loop, axis = self.loop, self.loop.axis
        size, first, last = (Var(f"{axis}.{n}") for n in ("size", "first", "last"))
        start, stop = signed(loop.start), signed(loop.stop)
        strip = f"{axis}.strip"
        begin = Binary("+", start, Binary("*", Call("np.int64", (Var(strip),)), size))
        end = Call("min", (Binary("+", first, size), stop))
        place = Binary("-", Call("np.int64", (Var(axis),)), first)
        body: list[Stmt] = [Assign(first.name, begin), Assign(last.name, end)]
        changed = {at.array for s in statements(loop.body) for at in stores_of(s)}
        for k, group in enumerate(groups):
            own = [a for a, at in shared if at == k and not self.is_read(a, changed)]
            used = names(*group)
            given = [a for a, at in shared if at < k and a.name in used]
            inside: list[Stmt] = [Assign(f"{a.name}.{k}", self.value(a, place, changed)) for a in given]
            inside += Renamed({a.name: f"{a.name}.{k}" for a in given}).body(group)
            for a in own:
                inside.append(Expand(_at(a), "f64", (literal(LONGEST_STRIP),), a.name))
                inside.append(Store(Access(_at(a), (place,)), Var(a.name)))
            body.append(replace(loop, start=unsigned(first), stop=unsigned(last), body=inside))
        yield Assign(size.name, self.size())
        rounded = Binary("-", Binary("+", Binary("-", stop, start), size), literal(1))
        count = Call("max", (Binary("//", rounded, size), literal(0)))
        yield replace(counted(strip, count, body), note=loop.note, mark=loop.mark)

    def is_read(self, a: Assign, changed: Collection[str]) -> bool:
        """Whether a value is an element that is read again just as well."""
        value = a.value
        return isinstance(value, Access) and not mentions(
            {*changed, *assigned(*self.body)} - {self.loop.axis}, value
        )

    def value(self, a: Assign, place: Expr, changed: Collection[str]) -> Expr:
        """A value in the loops after the one that computes it."""
        return a.value if self.is_read(a, changed) else Access(_at(a), (place,))

    def size(self) -> Expr:
        """The iterations of a strip, fewer if inner loops are long."""
        own = loop_variant(self.loop)
        known = {*own, *assigned(self.loop)}
        for s in self.body:
            if isinstance(s, For) and short(s) is None and not mentions(known, s.stop):
                length = s.stop.args[0] if isinstance(s.stop, Call) and s.stop.name == "uint64" else s.stop
                few = Binary("//", literal(STRIP_POINTS), Call("max", (length, literal(1))))
                return Call("min", (Binary("+", literal(SHORTEST_STRIP), few), literal(LONGEST_STRIP)))
        return literal(LONGEST_STRIP)


def _indices(body: Sequence[Stmt]) -> set[str]:
    """The variables of unsigned numbers: counters of loops, and what is computed from them."""
    found = statements(body)
    known = {s.axis for s in found if isinstance(s, For)}
    before = 0
    while before < len(known):
        before = len(known)
        known |= {s.name for s in found if isinstance(s, Assign) and _is_index(s.value, known)}
    return known


def _is_index(e: Expr, known: Collection[str]) -> bool:
    match e:
        case Var(name=name):
            return name in known
        case Binary(left=left, right=right) | Choice(then=left, otherwise=right):
            return _is_index(left, known) or _is_index(right, known)
        case Call(name="max" | "min" | "select", args=args):
            return any(_is_index(a, known) for a in args)
    return isinstance(e, Call) and e.name == "uint64"


def calls(statement: Stmt) -> bool:
    """Whether a statement, or one inside it, calls a function that takes as long for a vector as for a
    number. A power is such a function, unless its exponent is a number that products give."""
    return any(map(_is_call, walk(statement)))


def _is_call(node: object) -> bool:
    match node:
        case Call(name=name):
            return name in BY_TEXT and bool(BY_TEXT[name].libmvec)
        case Binary(op="**", right=exponent):
            return not isinstance(exponent, Literal)
    return False


def _is_vector(group: Sequence[Stmt]) -> bool:
    """Whether a group calls functions and has no inner loops."""
    return not has_loops(group) and any(map(calls, group))


def gathered(body: Sequence[Stmt]) -> list[Stmt]:
    """The statements in an order in which those that an inner loop does not change, and that read nothing of
    it, stand before it, beside the functions there: what they read is not passed on to a later part."""
    made: list[Stmt] = []
    reads, writes = list[set[str]](), list[set[str]]()
    for s in body:
        stored = {at.array for each in statements((s,)) for at in stores_of(each)}
        read, written, to = {*names(s)}, {*assigned(s)} | stored, len(made)
        if not (has_loops((s,)) or calls(s)):
            for k in range(len(made) - 1, -1, -1):
                if written & reads[k] or writes[k] & read or _is_vector((made[k],)):
                    break
                if has_loops((made[k],)):
                    to = k
            else:
                to = len(made)  # no functions are there
        made.insert(to, s)
        reads.insert(to, read)
        writes.insert(to, written)
    return made


def _at(a: Assign) -> str:
    """The array of a variable's values in a strip."""
    return f"{a.name}.strip"
