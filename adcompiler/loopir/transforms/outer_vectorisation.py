"""Outer-loop vectorisation: iterations of a nest become lanes of vectors if they contain nested loops.

    for i:                                      for i by eights, all at once:
        for j:                                      for j:
            s = 0                                       s = (0, ..., 0)
            for k:                                      for k:
                s += w[j, k] * x[i, k]                      s += w[j, k] * (x[i, k], ..., x[i + 7, k])
            y[i, j] = tanh(s)                           (y[i, j], ..., y[i + 7, j]) = tanh(s)

LLVM vectorises only innermost loops. Here that would be k, a dot product: each one needs a horizontal sum,
and loops over a few features or units are hardly longer than a vector. There are many points, and each does
the same. This is *outer-loop vectorisation* (D. Nuzman and A. Zaks, PACT 2008).

In rows, the private arrays of iterations (`kernels/schedule/materialise.py`), lanes are adjacent. The same
holds for copies of arrays that inner loops access with a stride, such as x[i, :] above: they are filled
before a vector of iterations, and written back after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod

from adcompiler.loopir.dependence import Along, are_independent, inner_axes, loop_variant, total, updated
from adcompiler.loopir.intrinsics import INTEGER_EXTREMA, REDUCTIONS
from adcompiler.loopir.limits import (
    LEAST_DEPTH,
    MOST_LANE_TRIPS,
    MOST_WINDOW_STATEMENTS,
    MOST_WINDOW_TRIPS,
    RECORD_ELEMENTS,
    VECTORS_OF_SUMS,
)
from adcompiler.loopir.nodes import (
    BLOCK,
    Access,
    Allocate,
    Assign,
    Binary,
    Call,
    Choice,
    Expr,
    For,
    Function,
    If,
    Length,
    Stmt,
    Store,
    Update,
    Var,
    counted,
)
from adcompiler.loopir.rewrite import Renamed, Restructurer, Rewriter
from adcompiler.loopir.short_loops import has_loops, short
from adcompiler.loopir.transformed_loops import (
    COPY,
    LANE,
    Lane,
    LaneByLane,
    LaneRange,
    Lanes,
    LaneTotal,
    LaneUpdate,
    added_up,
    filled,
)
from adcompiler.loopir.transforms.distribution import calls
from adcompiler.loopir.transforms.unroll_and_jam import depends
from adcompiler.loopir.walk import accesses, assigned, mentions, names, reads, statements, variables, walk

ROW_INDICES = 2  # indices of a row of one axis: the block, and that axis


def vectorised(function: Function) -> Function:
    """The function of a nest with its iterations as lanes where that pays: whether they are is the same for
    all its blocks, so it needs to know which one it is."""
    if BLOCK.name not in function.params:
        return function
    own = {s.name for s in function.body if isinstance(s, Allocate)} | function.rows
    stored = assigned(*function.body)
    nests = {s: _Nest(s, stored, own) for s in function.body if isinstance(s, For)}
    made: dict[Stmt, Lanes] = {s: nest.across() for s, nest in nests.items() if nest.has_lanes}
    if not made:
        return _with_windows(function)
    used = {at.array for loop in made.values() for at, _ in accesses(*loop.together) if _is_row(at)}
    return replace(
        function,
        body=[made.get(s, s) for s in function.body],
        lanes=True,
        adding=any(loop.sums for loop in made.values()),
        wide=frozenset(own & used),
    )


def _with_windows(function: Function) -> Function:
    """The function with its loops over windows as lanes."""
    body = _Windows(function).body(function.body)
    return replace(function, body=body, lanes=any(isinstance(s, Lanes) for s in body))


def _is_row(at: Access) -> bool:
    return isinstance(at, Lane) and at.row


class _Nest:
    """A loop to vectorise: `own` are the variables and `rows` private to an iteration, and `totals` the
    reduction variables of the function, each with its operation."""

    def __init__(self, loop: For, stored: Counter[str], rows: Collection[str]) -> None:
        self.loop, self.stored, self.axis = loop, stored, loop.axis
        self.rows = {at.array for at, _ in accesses(loop)} & set(rows)
        inside = assigned(*loop.body)
        outer = {name for name, count in inside.items() if stored[name] > count} - inner_axes(loop)
        self.own = self.variant({*self.rows, *outer})
        self.along = Along(loop, self.own)
        adds = ((updated(s), _operation(s)) for s, _ in self.statements())
        self.totals = {name: how for name, how in adds if name in outer}
        self.places = [(at, stored, depth) for s, depth in self.statements() for at, stored in _places(s)]
        self.sums = dict(self.sums_of_lanes())
        self.copies = {
            at.array: self.other(at)
            for at, _, depth in self.places
            if depth >= LEAST_DEPTH and self.is_far(at)
        }

    def variant(self, also: Collection[str]) -> set[str]:
        """The variables that differ between iterations, as those `also` do."""
        return loop_variant(self.loop, also)

    def statements(self) -> Iterator[tuple[Stmt, int]]:
        """All statements of an iteration, and the loop depth of each; not those in loops that each lane runs
        separately."""
        return _statements(self.loop.body, 0, self.is_alone)

    def is_alone(self, statement: Stmt) -> bool:
        """Whether a statement is a loop whose bounds differ between iterations."""
        return isinstance(statement, For) and depends(statement, self.own)

    def is_between(self, statement: Stmt) -> bool:
        """Whether a statement is a loop that lanes run together, each between bounds of its own."""
        return False

    @property
    def has_lanes(self) -> bool:
        """Whether vectorisation is legal and pays."""
        if not self.pays or not {*REDUCTIONS, *INTEGER_EXTREMA} >= set(self.totals.values()):
            return False
        fit = all(self.fits(s, depth) for s, depth in self.statements())
        copied = fit and all(map(self.may_copy, self.copies))
        return copied and are_independent(self.loop, self.stored, self.rows)

    @property
    def pays(self) -> bool:
        """Whether an iteration has nested loops, or no loops but an array of records, too wide for LLVM to
        vectorise. Elements at computed places it gathers as fast, record or not."""
        if self.deepest:
            return self.deepest >= LEAST_DEPTH or self.has_functions
        records: Counter[str] = Counter()
        lengths = _short_loops(self.loop)
        far = dict.fromkeys(at for at, _, _ in self.places if self.is_far(at))
        if any(self.along.about(i).loads for at in far for i in at.indices):
            return False
        for at in far:
            records[at.array] += prod(lengths[n] for n in variables(*at.indices) & lengths.keys())
        return max(records.values(), default=0) > RECORD_ELEMENTS

    @property
    def deepest(self) -> int:
        """The depth of the loops in an iteration."""
        return max((depth for _, depth in self.statements()), default=0)

    @property
    def inner(self) -> list[For]:
        """The loops in an iteration."""
        return [s for s, _ in self.statements() if isinstance(s, For) and short(s) is None]

    @property
    def has_functions(self) -> bool:
        """Whether loops in an iteration sum functions for it: if they are short, a vector of one iteration is
        not full, and what comes next waits for each."""
        inside = {self.axis, *assigned(*self.loop.body)}
        known = not any(mentions(inside, *s.bounds) for s in self.inner)
        stores = (at for at, stored, depth in self.places if stored and depth)
        own = all(self.is_own(at) for at in stores)
        sums = (s for s in self.inner if {*map(total, statements(s.body))} - {"", *self.totals})
        return known and own and any(map(calls, sums))

    def may_copy(self, name: str) -> bool:
        """Whether copies of rows can replace an array for all accesses of iterations; not if a condition that
        differs between iterations guards an access."""
        own = [at for at, _, _ in self.places if at.array == name and self.is_own(at)]
        asks = (n for n in walk(self.loop) if isinstance(n, Choice) and mentions(self.own, n.test))
        if any(isinstance(n, Access) and n.array == name for choice in asks for n in walk(choice)):
            return False
        return self.copies[name] >= 0 and all(self.other(at) == self.copies[name] for at in own)

    def fits(self, statement: Stmt, depth: int) -> bool:
        """Whether a statement can run on vectors: uniform control flow, stores to the same element of the
        rows of all lanes, no rows of several axes in inner loops, and stores to shared elements only as
        reductions."""
        match statement:
            case For():
                return not self.is_alone(statement) or self.may_stand_alone(statement)
            case If(test=head):
                return not mentions(self.own, head)
        places = list(_places(statement))
        if depth >= LEAST_DEPTH and any(
            len(at.indices) > ROW_INDICES for at, _ in places if at.array in self.rows
        ):
            return False
        if any(stored and self.is_apart(at) for at, stored in places):
            return False  # each lane would set another element of its row
        for at, stored in places:
            if stored and not self.is_own(at):
                return at.array in self.sums or (depth < LEAST_DEPTH and _operation(statement) in REDUCTIONS)
        return not isinstance(statement, Update)

    def may_stand_alone(self, loop: For) -> bool:
        """Whether each lane may run a loop separately: it sets no variable that is set outside it too, and
        uses no array whose copies are modified."""
        if any(count < self.stored[name] for name, count in assigned(*loop.body).items()):
            return False
        changed = {at.array for at, stored in accesses(self.loop) if stored} & self.copies.keys()
        return not any(at.array in changed for at, _ in accesses(*loop.body))

    def sums_of_lanes(self) -> Iterator[tuple[str, tuple[str, int]]]:
        """The partial sums of a block that each lane has separately until the block ends, with operation and
        rank. In nested loops a horizontal sum per addition would cost far more than the addition."""
        added: dict[str, set[tuple[str, int]]] = {}
        deep = {at.array for at, _, depth in self.places if depth >= LEAST_DEPTH}
        for s, _ in self.statements():
            for at, stored in _places(s):
                first, *others = at.indices
                if stored and first == BLOCK:
                    how = _operation(s) if others and not self.is_own(at) else ""
                    added.setdefault(at.array, set()).add((how, len(others)))
        for name, found in added.items():
            if name in deep and len(found) == 1 and (one := found.pop())[0] in REDUCTIONS:
                yield name, one

    def is_own(self, at: Access) -> bool:
        """Whether iterations access different elements."""
        return at.array in self.rows or mentions(self.own, *at.indices)

    def is_apart(self, at: Access) -> bool:
        """Whether iterations access different elements of their rows."""
        return at.array in self.rows and mentions(self.own, at.indices[-1])

    def is_far(self, at: Access) -> bool:
        """Whether the elements of consecutive iterations are not adjacent in memory."""
        return self.is_own(at) and not (at.array in self.rows or self.is_beside(at))

    def other(self, at: Access) -> int:
        """The other axis of a matrix that the iteration indexes, if its index is uniform over iterations;
        else -1."""
        own = [k for k, i in enumerate(at.indices) if i == Var(self.axis)]
        alone = sum(mentions(self.own, i) for i in at.indices) == 1
        return 1 - own[0] if own and alone and len(at.indices) == ROW_INDICES else -1

    def is_beside(self, at: Access) -> bool:
        """Whether the last index grows by one from iteration to iteration, and the others are uniform."""
        return self.beside(at) is not None

    def beside(self, at: Access) -> Expr | None:
        """The last index in terms of the iteration, if it grows by one from iteration to iteration and the
        others are uniform."""
        *others, last = at.indices
        follows = self.along.step(last) == 1 and not mentions(self.own, *others)
        return self.along.written_out(last) if follows else None

    def across(self, vectors: int = 1, of_block: bool = True) -> Lanes:
        """The loop with its iterations as lanes."""
        loop = self.loop
        together = _VectorStatements(self).body(loop.body)
        stored = {at.array for at, stored, _ in self.places if stored}
        fill = [self.copied(name, back=False) for name in self.copies]
        back = [self.copied(name, back=True) for name in self.copies if name in stored]
        return Lanes(
            loop.axis,
            loop.start,
            loop.stop,
            loop.body,
            kind=loop.kind,
            mark=loop.mark,
            together=[*fill, *together, *back],
            before=[filled(name, *found) for name, found in self.sums.items()],
            after=[added_up(name, *found) for name, found in self.sums.items()],
            totals=self.totals,
            copies=self.copies,
            sums=list(self.sums),
            few=self.few,
            most=self.most,
            vectors=vectors,
            of_block=of_block,
        )

    most = MOST_LANE_TRIPS  # how long they may be

    @property
    def few(self) -> list[Expr]:
        """The lengths that must be short."""
        return [s.stop for s in self.inner] if 0 < self.deepest < LEAST_DEPTH else []

    def copied(self, name: str, back: bool) -> For:
        """A loop that fills the copy of a row, or writes it back."""
        axis, at = Var(self.axis + LANE), Var(COPY)
        far = Lane(name, (axis, at) if self.copies[name] else (at, axis))
        near = Lane(name, (at,), row=True)
        store = Store(far, near) if back else Store(near, far)
        return counted(COPY, Length(name, self.copies[name]), [store])


class _Window(_Nest):
    """A loop whose iterations sum over windows that move along a row, as in a convolution: the elements of a
    vector of iterations are adjacent, so each iteration of the inner loops adds a vector to as many sums.
    LLVM would add up a vector for each short sum."""

    @property
    def pays(self) -> bool:
        """Whether all elements in inner loops are adjacent or the same, and the loops sum them."""
        if not 0 < len(statements(self.loop.body)) <= MOST_WINDOW_STATEMENTS or not self.inner:
            return False
        inside = {self.axis, *assigned(*self.loop.body)}
        known = all(self.is_between(s) or not mentions(inside, *s.bounds) for s in self.innermost)
        deep = [(at, stored) for at, stored, depth in self.places if depth]
        read = [at for at, stored in deep if self.is_own(at) and not stored]
        sums = {*map(total, statements(self.inner))} - {"", *self.totals}
        return bool(
            known
            and read
            and sums
            and all(map(self.is_beside, read))
            and not any(stored for _, stored in deep)
        )

    def variant(self, also: Collection[str]) -> set[str]:
        return loop_variant(self.loop, also, counters=False)

    def is_alone(self, statement: Stmt) -> bool:
        return False

    def is_between(self, statement: Stmt) -> bool:
        return isinstance(statement, For) and depends(statement, self.own)

    @property
    def innermost(self) -> list[For]:
        """The loops in an iteration that have none inside."""
        return [s for s in self.inner if not has_loops(s.body)]

    most = MOST_WINDOW_TRIPS

    @property
    def few(self) -> list[Expr]:
        inside = {self.axis, *assigned(*self.loop.body)}
        ends = (e for s in self.innermost for e in _ends(s.stop))
        return [e for e in ends if not mentions(inside, e)]


def _ends(stop: Expr) -> Sequence[Expr]:
    """Where a loop stops at the latest."""
    match stop:
        case Call(name="uint64" | "np.int64", args=(inner,)):
            return _ends(inner)
        case Call(name="min", args=args):
            return [e for a in args for e in _ends(a)]
    return (stop,)


class _Windows(Restructurer):
    """Loops over windows inside a nest become lanes, and the few iterations beside them add in the same
    order."""

    def __init__(self, function: Function) -> None:
        self.stored = assigned(*function.body)
        self.private = _private(function)
        self.vectors = 1 if any(map(calls, function.body)) else VECTORS_OF_SUMS
        self.outer = {*function.body}

    def body(self, found: Iterable[Stmt]) -> list[Stmt]:
        made = super().body(found)
        across = {s.axis for s in made if isinstance(s, Lanes)}
        return [_InOrder().stmt(s) if _sets(s, across) else s for s in made]

    def stmt(self, s: Stmt) -> Stmt:
        return self.lanes(s) or super().stmt(s)

    def lanes(self, s: Stmt) -> Lanes | None:
        """The loop as lanes; None for any other statement."""
        if type(s) is not For or s.kind != "elements" or s.step is not None or short(s) is not None:
            return None
        inside = assigned(*s.body)
        stored = Counter({n: inside[n] if n in self.private else k for n, k in self.stored.items()})
        window = _Window(s, stored, ())
        if not window.has_lanes:
            return None
        return window.across(self.vectors, of_block=s in self.outer)


def _sets(statement: Stmt, names: Collection[str]) -> bool:
    """Whether a statement is a loop over the few iterations near the ends of another loop, of which `names`
    has the variable."""
    edges = isinstance(statement, For) and statement.kind == "edges"
    return edges and not assigned(statement).keys().isdisjoint(names)


def _private(function: Function) -> set[str]:
    """The variables that every loop which uses them sets first: those of copies of a loop."""
    uses = names(*function.body)
    inside: Counter[str] = Counter()

    def visit(body: Sequence[Stmt], known: Collection[str]) -> None:
        for s in body:
            if isinstance(s, For):
                begun = {*_begun(s.body)} - {*known}
                inside.update({n: k for n, k in names(s).items() if n in begun})
                visit(s.body, {*known, *begun})
            elif isinstance(s, If):
                visit(s.body, known)

    visit(function.body, ())
    return {n for n, k in inside.items() if k == uses[n]}


def _begun(body: Sequence[Stmt]) -> Iterator[str]:
    """The variables that statements set before they read them."""
    used: set[str] = set()
    for s in body:
        if isinstance(s, Assign) and s.name not in used | reads(s).keys():
            yield s.name
        used |= names(s).keys()


class _InOrder(Rewriter):
    """Sums whose additions stay in order."""

    def expr(self, e: Expr) -> Expr:
        match super().expr(e):
            case Call(name="reduce_add", args=(before, term), mark=mark):
                return Binary("+", before, term, mark=mark)
            case other:
                return other


def _statements(body: Sequence[Stmt], depth: int, but: Callable[[Stmt], bool]) -> Iterator[tuple[Stmt, int]]:
    """Statements, and the number of loops around each, without unrolled ones; it does not enter loops and
    branches for which `but` holds."""
    for s in body:
        yield s, depth
        if isinstance(s, For | If) and not but(s):
            inner = isinstance(s, For) and short(s) is None
            yield from _statements(s.body, depth + inner, but)


def _short_loops(loop: For) -> dict[str, int]:
    """The variables of the unrolled loops in a loop, each with its trip count."""
    inner = (s for s in statements(loop.body) if isinstance(s, For))
    return {s.axis: len(found) for s in inner if (found := short(s)) is not None}


def _places(statement: Stmt) -> Iterator[tuple[Access, bool]]:
    """The array elements that a statement itself reads or writes."""
    if not isinstance(statement, For | If):
        yield from accesses(statement)


def _operation(statement: Stmt) -> str:
    """The function with which a statement reduces."""
    match getattr(statement, "value", None):
        case Call(name=name, args=(_, _)) if updated(statement) and not isinstance(statement, Update):
            return name
    return ""


class _VectorStatements(Rewriter):
    """Statements for all lanes: variables of an iteration become vectors."""

    def __init__(self, nest: _Nest) -> None:
        self.nest = nest
        self.names = nest.own - nest.rows

    def name(self, name: str) -> str:
        return name + LANE if name in self.names else name

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, Store) and not self.nest.is_own(s.at):
            return self.added(s)
        if isinstance(s, For) and self.nest.is_alone(s):
            return self.alone(s)
        made = super().stmt(s)
        if type(made) is For and self.nest.is_between(s):
            return LaneRange(made.axis, made.start, made.stop, made.body, kind=made.kind, mark=made.mark)
        return made

    def added(self, s: Store) -> Stmt:
        """An update of a shared element: of the sum of each lane if there is one, else of the element by all
        lanes."""
        if s.at.array not in self.nest.sums:
            return LaneTotal(self.access(s.at), self.expr(s.value), mark=s.mark)
        assert isinstance(s.value, Call)
        _, value = s.value.args
        own = Lane(s.at.array, s.at.indices[1:], row=True)
        return LaneUpdate(own, Call(s.value.name, (own, self.expr(value))), mark=s.mark)

    def alone(self, s: For) -> LaneByLane:
        """A loop that each lane runs separately."""
        loop = _SingleLane(self.nest.rows).stmt(s)
        assert isinstance(loop, For)
        used = sorted((reads(loop).keys() & self.names) - assigned(loop).keys())
        return LaneByLane(self.expr(s.start), self.expr(s.stop), loop, used, mark=s.mark)

    def access(self, at: Access) -> Access:
        name = at.array
        if not self.nest.is_own(at):
            return at
        if name in self.nest.copies:
            return Lane(name, (self.expr(at.indices[self.nest.copies[name]]),), row=True, mark=at.mark)
        row, last = name in self.nest.rows, self.nest.beside(at)
        apart, indices = self.nest.is_apart(at), self.all(at.indices)
        if last is not None:  # that of the first lane
            axis = Renamed({self.nest.axis: self.nest.axis + LANE})
            indices = (*indices[:-1], axis.expr(last))
        return Lane(name, indices, row=row, beside=last is not None, apart=apart, mark=at.mark)


class _SingleLane(Rewriter):
    """Statements for one lane: its elements of rows are interleaved with those of the others."""

    def __init__(self, rows: Collection[str]) -> None:
        self.rows = rows

    def access(self, at: Access) -> Access:
        at = super().access(at)
        alone = Lane(at.array, at.indices, row=True, alone=True, mark=at.mark)
        return alone if at.array in self.rows else at
