"""Turns of a nest as lanes of vectors, where what one turn does is loops in loops.

    for i:                                      for i by eights, all at once:
        for j:                                      for j:
            s = 0                                       s = (0, ..., 0)
            for k:                                      for k:
                s += w[j, k] * x[i, k]                      s += w[j, k] * (x[i, k], ..., x[i + 7, k])
            y[i, j] = tanh(s)                           (y[i, j], ..., y[i + 7, j]) = tanh(s)

LLVM vectorises innermost loops only. Here that would be k, a dot product: its lanes are added up for each
number, and loops over few features or units are hardly longer than a vector. Points are many, and each does
the same. This is *outer-loop vectorisation* (D. Nuzman and A. Zaks, PACT 2008).

Rows, the arrays that each turn has for itself (`codegen/rows.py`), have the lanes side by side. So have
copies of what each turn reads and writes elsewhere in inner loops, as x[i, :] above: they are filled before a
vector of turns, and written back after it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from functools import lru_cache
from math import prod
from typing import NamedTuple, TypeVar

from adcompiler.codegen.llvm.across import (
    COPY,
    LANE,
    TOTALS,
    Alone,
    Kept,
    Lane,
    Lanes,
    Total,
    added_up,
    filled,
    laned,
)
from adcompiler.codegen.llvm.contraction import rounded
from adcompiler.codegen.llvm.inorder import several
from adcompiler.codegen.llvm.jam import chosen as jam
from adcompiler.codegen.llvm.short import short
from adcompiler.codegen.llvm.tiled import Tiled, tiled
from adcompiler.codegen.llvm.turns import (
    are_independent,
    array_of,
    inner_turns,
    mentions,
    own_of,
    stores_of,
    turn_of,
    updated,
)
from adcompiler.codegen.trees import parsed, walk

T = TypeVar("T", int, int | None)

LEAST, MOST = 4, 16  # lanes of a vector: rows have place for so many
RECORD = 4  # elements of one array that LLVM reads in vectors, though they are not beside each other
DEEP = 2  # loops around what makes it worth while
AXES = 2  # indices of a row of one axis: the block, and that axis


def vectorised(function: ast.FunctionDef, rows: Collection[str]) -> ast.FunctionDef:
    """The function with its turns as lanes where that pays, or with several turns of its loops at once; each
    turn may have `rows` for itself."""
    own = {name for s in function.body if (name := _made(s))}
    own |= {p.arg for p in function.args.args if p.arg in rows}
    stored = stores_of(function.body)
    nests = {k: _Nest(s, stored, own) for k, s in enumerate(function.body) if isinstance(s, ast.For)}
    chosen = [k for k, nest in nests.items() if nest.has_lanes]
    if not chosen:
        return tiled(several(function))
    for k in chosen:
        function.body[k] = nests[k].across()
    return function


class Definition(NamedTuple):
    """A function as it is compiled, and its variables whose products are rounded (`contraction.py`)."""

    tree: ast.FunctionDef
    rounded: frozenset[str]


class Found(NamedTuple):
    """The functions of a text whose turns are lanes, those of them in which lanes have sums of their own,
    those whose loops are tiled, and the rows that have lanes side by side."""

    functions: frozenset[str]
    adding: frozenset[str]
    tiled: frozenset[str]
    rows: frozenset[str]


@lru_cache(maxsize=16)
def functions_of(text: str, rows: frozenset[str]) -> Sequence[Definition]:
    """The functions of a text; each turn of a nest has `rows` for itself."""
    given = (n for n in parsed(text).body if isinstance(n, ast.FunctionDef))
    return [Definition(rounded=rounded(n), tree=vectorised(n, rows)) for n in given]


def found(text: str, rows: frozenset[str]) -> Found:
    """Where the turns of the nests of a text are lanes, or tiled."""
    functions = [d.tree for d in functions_of(text, rows)]
    loops = [(f.name, s) for f in functions for s in f.body if isinstance(s, Lanes)]
    lanes = (n for _, loop in loops for s in loop.together for n in walk(s) if isinstance(n, Lane))
    adding = frozenset(name for name, loop in loops if loop.sums)
    tiles = frozenset(f.name for f in functions for s in f.body if isinstance(s, Tiled))
    wide = rows & {array_of(n) for n in lanes if n.row}
    return Found(frozenset(name for name, _ in loops), adding, tiles, wide)


def widened(lengths: tuple[T, ...]) -> tuple[T, ...]:
    """The lengths of a row, known or not, with place for all lanes."""
    *others, last = lengths
    return (*others, last and last * MOST)


def _made(statement: ast.stmt) -> str:
    """The name of a small array that a function makes for itself."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr="empty"))):
            return name
    return ""


class _Nest:
    """A loop whose turns might be lanes: `own` is what each turn has for itself, variables and `rows`, and
    `totals` are the variables of the function that it adds to, each with how."""

    def __init__(self, loop: ast.For, stored: Counter[str], rows: Collection[str]) -> None:
        self.loop, self.stored, self.turn = loop, stored, turn_of(loop)
        self.rows = {array_of(n) for n in walk(loop)} & set(rows)
        inside = stores_of(loop.body)
        outer = {name for name, count in inside.items() if stored[name] > count} - inner_turns(loop)
        self.own = own_of(loop, {*self.rows, *outer})
        adds = ((updated(s), _operation(s)) for s, _ in self.statements())
        self.totals = {name: how for name, how in adds if name in outer}
        self.places = [(p, depth) for s, depth in self.statements() for p in _places(s)]
        self.sums = dict(self.sums_of_lanes())
        self.copies = {
            array_of(p): self.other(p) for p, depth in self.places if depth >= DEEP and self.is_far(p)
        }

    def statements(self) -> Iterator[tuple[ast.stmt, int]]:
        """All statements of a turn, and how many loops of it are around each; not those in loops that each
        lane does alone."""
        return _statements(self.loop.body, 0, self.is_alone)

    def is_alone(self, statement: ast.stmt) -> bool:
        """Whether a statement is a loop that turns do not have in common."""
        return isinstance(statement, ast.For) and mentions(statement.iter, self.own)

    @property
    def has_lanes(self) -> bool:
        """Whether the turns may be lanes, and that pays."""
        if not self.pays or not TOTALS.keys() >= set(self.totals.values()):
            return False
        fit = all(self.fits(s, depth) for s, depth in self.statements())
        copied = fit and all(map(self.may_copy, self.copies))
        return copied and are_independent(self.loop, self.stored, self.rows)

    @property
    def pays(self) -> bool:
        """Whether a turn has loops in loops, or none, but many elements of one array that stand beside each
        other: to LLVM such records are too wide for vectors."""
        deepest = max(depth for _, depth in self.statements())
        if deepest:
            return deepest >= DEEP
        records: Counter[str] = Counter()
        short_loops = _short_loops(self.loop)
        for place in {ast.unparse(p): p for p, _ in self.places if self.is_far(p)}.values():
            names = {n.id for n in walk(place.slice) if isinstance(n, ast.Name)}
            records[array_of(place)] += prod(short_loops[n] for n in names & short_loops.keys())
        return max(records.values(), default=0) > RECORD

    def may_copy(self, name: str) -> bool:
        """Whether copies of rows do for all that turns do with their parts of an array; not if they ask if
        they have one."""
        own = [p for p, _ in self.places if array_of(p) == name and self.is_own(p)]
        asks = (n for n in walk(self.loop) if isinstance(n, ast.IfExp) and mentions(n.test, self.own))
        if any(array_of(n) == name for choice in asks for n in walk(choice)):
            return False
        return self.copies[name] >= 0 and all(self.other(p) == self.copies[name] for p in own)

    def fits(self, statement: ast.stmt, depth: int) -> bool:
        """Whether a statement is the same for all turns but for the numbers, and in inner loops reads and
        writes no elements that are far from each other."""
        match statement:
            case ast.For():
                return not self.is_alone(statement) or self.may_stand_alone(statement)
            case ast.If(test=head):
                return not mentions(head, self.own)
        places = list(_places(statement))
        if depth >= DEEP and any(len(_indices(p)) > AXES for p in places if array_of(p) in self.rows):
            return False
        for p in places:
            if isinstance(p.ctx, ast.Store) and not self.is_own(p):
                return array_of(p) in self.sums or (depth < DEEP and _operation(statement) in TOTALS)
        return not isinstance(statement, ast.AugAssign)

    def may_stand_alone(self, loop: ast.For) -> bool:
        """Whether each lane may do a loop for itself: it assigns no variable of the turn, and the arrays that
        turns have copies of are as they were."""
        inside = [n for s in loop.body for n in walk(s)]
        if any(count < self.stored[name] for name, count in stores_of(loop.body).items()):
            return False
        changed = {array_of(n) for n in walk(self.loop) if _is_stored(n)} & self.copies.keys()
        return not any(array_of(n) in changed for n in inside)

    def sums_of_lanes(self) -> Iterator[tuple[str, tuple[str, int]]]:
        """The partial sums of a block of which each lane has its own until the block ends, with their
        operation and rank. In loops in loops it would cost far more than the addition to add up all lanes."""
        added: dict[str, set[tuple[str, int]]] = {}
        deep = {array_of(p) for p, depth in self.places if depth >= DEEP}
        for s, _ in self.statements():
            for p in _places(s):
                first, *others = _indices(p)
                if isinstance(p.ctx, ast.Store) and isinstance(first, ast.Name) and first.id == "block":
                    how = _operation(s) if others and not self.is_own(p) else ""
                    added.setdefault(array_of(p), set()).add((how, len(others)))
        for name, found in added.items():
            if name in deep and len(found) == 1 and (one := found.pop())[0] in TOTALS:
                yield name, one

    def is_own(self, place: ast.Subscript) -> bool:
        """Whether each turn has an element of its own there."""
        return array_of(place) in self.rows or mentions(place.slice, self.own)

    def is_far(self, place: ast.Subscript) -> bool:
        """Whether the elements of turns are no neighbours in memory."""
        row = array_of(place) in self.rows
        return self.is_own(place) and not (row or self.is_beside(place))

    def other(self, place: ast.Subscript) -> int:
        """The axis of a matrix beside that of the turn, if its index is the same for all turns; else -1."""
        indices = _indices(place)
        turns = [k for k, i in enumerate(indices) if isinstance(i, ast.Name) and i.id == self.turn]
        alone = sum(mentions(i, self.own) for i in indices) == 1
        return 1 - turns[0] if turns and alone and len(indices) == AXES else -1

    def is_beside(self, place: ast.Subscript) -> bool:
        """Whether the turn is the last index, and the others are the same for all turns."""
        *others, last = _indices(place)
        is_turn = isinstance(last, ast.Name) and last.id == self.turn
        return is_turn and not any(mentions(i, self.own) for i in others)

    def across(self) -> Lanes:
        """The loop with its turns as lanes."""
        rename = _Across(self)
        together = [rename.visit(deepcopy(s)) for s in self.loop.body]
        counts = stores_of(together) + Counter(name + LANE for name in self.totals)
        stored = {array_of(p) for p, _ in self.places if isinstance(p.ctx, ast.Store)}
        fill = [self.copied(name, back=False) for name in self.copies]
        back = [self.copied(name, back=True) for name in self.copies if name in stored]
        new = Lanes(self.loop.target, self.loop.iter, [jam(s, self.stored) for s in self.loop.body], [])
        new.together = [*fill, *(jam(s, counts) for s in together), *back]
        new.totals, new.copies, new.sums = self.totals, self.copies, list(self.sums)
        new.before = [filled(name, *found) for name, found in self.sums.items()]
        new.after = [added_up(name, *found) for name, found in self.sums.items()]
        return new

    def copied(self, name: str, back: bool) -> ast.For:
        """A loop that fills the copy of a row, or writes it back."""
        turn, at = ast.Name(self.turn + LANE, ast.Load()), ast.Name(COPY, ast.Load())
        indices: list[ast.expr] = [turn, at] if self.copies[name] else [at, turn]
        store, load = ast.Store(), ast.Load()
        far = laned(name, ast.Tuple(indices, ast.Load()), store if back else load, row=False)
        near = laned(name, at, load if back else store, row=True)
        target, value = (far, near) if back else (near, far)
        text = f"for {COPY} in range(uint64(0), uint64({name}.shape[{self.copies[name]}])): pass"
        (loop,) = parsed(text).body
        assert isinstance(loop, ast.For)
        loop.body = [ast.Assign([target], value)]
        return loop


def _statements(
    body: Sequence[ast.stmt], depth: int, but: Callable[[ast.stmt], bool]
) -> Iterator[tuple[ast.stmt, int]]:
    """Statements, and how many loops are around each, but for those that are written out; those in some loops
    are left out."""
    for s in body:
        yield s, depth
        if isinstance(s, ast.For | ast.If) and not but(s):
            inner = isinstance(s, ast.For) and short(s) is None
            yield from _statements(s.body, depth + inner, but)


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)


def _written_out(loop: ast.For) -> Counter[str]:
    """How many turns each of the short loops in a loop has."""
    loops = (n for s in loop.body for n in walk(s) if isinstance(n, ast.For))
    return Counter({turn_of(n): len(turns) for n in loops if (turns := short(n)) is not None})


def _short_loops(loop: ast.For) -> dict[str, int]:
    """The variables of the loops in a loop that are written out, each with its number of turns."""
    inner = (n for s in loop.body for n in walk(s) if isinstance(n, ast.For))
    return {turn_of(n): len(turns) for n in inner if (turns := short(n)) is not None}


def _places(statement: ast.stmt) -> Iterator[ast.Subscript]:
    """The elements of arrays that a statement reads or writes itself."""
    if not isinstance(statement, ast.For | ast.If):
        yield from (n for n in walk(statement) if isinstance(n, ast.Subscript) and array_of(n))


def _indices(place: ast.expr) -> list[ast.expr]:
    assert isinstance(place, ast.Subscript)
    return place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]


def _operation(statement: ast.stmt) -> str:
    """By what function a statement adds."""
    match statement:
        case ast.Assign(value=ast.Call(func=ast.Name(id=name), args=[_, _])) if updated(statement):
            return name
    return ""


class _Across(ast.NodeTransformer):
    """Statements for all lanes: variables of a turn are vectors."""

    def __init__(self, nest: _Nest) -> None:
        self.nest = nest
        self.names = nest.own - nest.rows

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        target = node.targets[0]
        whole = isinstance(target, ast.Subscript) and not self.nest.is_own(target)
        if isinstance(target, ast.Subscript) and whole and array_of(target) in self.nest.sums:
            return self.kept(node)
        self.generic_visit(node)
        return Total(node.targets, node.value) if whole else node

    def kept(self, node: ast.Assign) -> ast.Assign:
        """What a turn adds to a sum, as what lanes add to theirs."""
        assert isinstance(node.value, ast.Call)
        name, (_, *indices) = array_of(node.targets[0]), _indices(node.targets[0])
        index = ast.Tuple(indices, ast.Load())
        target, old = (laned(name, index, ctx, row=True) for ctx in (ast.Store(), ast.Load()))
        return Kept([target], ast.Call(node.value.func, [old, self.visit(node.value.args[1])], []))

    def visit_For(self, node: ast.For) -> ast.AST:
        if not self.nest.is_alone(node):
            return self.generic_visit(node)
        new = Alone()
        new.loop = _OfOne(self.nest.rows).visit(deepcopy(node))
        read = {n.id for n in walk(new.loop) if isinstance(n, ast.Name)}
        new.names = sorted((read & self.names) - stores_of([new.loop]).keys())
        new.head = self.visit(node.iter)
        return new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self.names:
            node.id += LANE
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        name = array_of(node)
        if not name or not self.nest.is_own(node):
            return node
        if name in self.nest.copies:
            return laned(name, self.visit(_indices(node)[self.nest.copies[name]]), node.ctx, row=True)
        beside = self.nest.is_beside(node)
        return laned(name, self.visit(node.slice), node.ctx, row=name in self.nest.rows, beside=beside)


class _OfOne(ast.NodeTransformer):
    """Statements for one lane: it finds its elements of rows between those of the others."""

    def __init__(self, rows: Collection[str]) -> None:
        self.rows = rows

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        self.generic_visit(node)
        if array_of(node) not in self.rows:
            return node
        new = laned(array_of(node), node.slice, node.ctx, row=True)
        new.alone = True
        return new
