"""Loop versioning: the iterations of a scatter test once whether their computed places are inside the arrays.

    for e:                                            for e:
        v = i[e]                                          v, w = i[e], j[e]
        a = x[v] if v < n else 0                          if v < n & w < n:
        w = j[e]                                              f = x[v] - x[w]
        f = a - (x[w] if w < n else 0)                        t[v] += f; t[w] += -f
        if v < n: t[v] += f                               else:
        if w < n: t[w] += -f                                  ...the statements of the left side

Each access to a computed place has a test, and a point of a mesh or an end of an edge has several. A scatter
is not vectorised, so the tests are branches, which keep LLVM from moving loads and stores across them. In the
usual version they are gone (R. Allen and K. Kennedy, Optimizing Compilers for Modern Architectures, 2001).
Without vectors, the reciprocal of a root that is computed anyway is a division.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import reduce

from adcompiler.loopir.limits import MOST_VERSIONED
from adcompiler.loopir.nodes import (
    Assign,
    Binary,
    Call,
    Choice,
    Compare,
    Expr,
    For,
    Function,
    If,
    Literal,
    Logical,
    Stmt,
    Update,
    Var,
    unsigned,
)
from adcompiler.loopir.rewrite import Restructurer, Rewriter
from adcompiler.loopir.walk import accesses, assigned, read_names, statements, walk


def versioned(function: Function) -> Function:
    """The function with two versions of iterations that scatter."""
    return replace(function, body=_Versioned().body(function.body)) if _scatters(function) else function


def _scatters(root: Function | Stmt) -> bool:
    body = root.body if isinstance(root, Function) else [root]
    return any(isinstance(s, If) and any(isinstance(u, Update) for u in s.body) for s in statements(body))


class _Versioned(Restructurer):
    """Loops with versions of their iterations: the outermost that compute the places of a scatter."""

    def stmt(self, s: Stmt) -> Stmt:
        if type(s) is For and s.kind == "elements" and s.step is None and _scatters(s):
            body = _versions(s.body)
            if body is not None:
                return replace(s, body=body)
        return super().stmt(s)


def _versions(body: list[Stmt]) -> list[Stmt] | None:
    """The statements of an iteration in two versions; None if it has few tests, or is long."""
    first = _Places(body)
    found = [test for test in _tests(body) if _place(test) in first.places]
    if len(found) < 2 or len(walk(*body)) > MOST_VERSIONED:
        return None
    tests: dict[Expr, None] = dict.fromkeys(found)
    before = first.computing({_place(test) for test in found})
    rest = _Roots(body).body(s for s in body if s not in before)
    inside = reduce(lambda x, y: Binary("&", x, y), tests)
    return [*before, If(inside, _Inside(tests).body(rest), rest)]


def _tests(body: Iterable[Stmt]) -> Iterator[Compare]:
    """The tests of accesses, as often as they occur."""
    for s in statements(body):
        for node in walk(s.test) if isinstance(s, If) else ():
            if isinstance(node, Compare):
                yield node
        for choice in walk(*(p for p in s.parts if isinstance(p, Expr))):
            if isinstance(choice, Choice):
                yield from (n for n in walk(choice.test) if isinstance(n, Compare))


def _place(test: Compare) -> str:
    """The variable of a test `uint64(v) < n`; empty for other tests."""
    match test:
        case Compare("<", Call(name="uint64", args=(Var(name=name),))):
            return name
    return ""


class _Places:
    """The variables that an iteration may compute first: they are assigned once, and depend on nothing that
    it stores, or that is computed later."""

    def __init__(self, body: list[Stmt]) -> None:
        changed = assigned(*body)
        stored = {at.array for at, is_set in accesses(*body) if is_set}
        self.made: dict[str, Assign] = {}
        for s in body:
            if isinstance(s, Assign) and changed[s.name] == 1:
                used = read_names(s)
                if all(name not in stored and (name in self.made or not changed[name]) for name in used):
                    self.made[s.name] = s
        self.places = self.made.keys()

    def computing(self, names: Collection[str]) -> list[Assign]:
        """The statements that compute some of them, in order."""
        work, needed = [*names], set[str]()
        while work:
            name = work.pop()
            if name in self.made and name not in needed:
                needed.add(name)
                work += read_names(self.made[name])
        return [s for name, s in self.made.items() if name in needed]


class _Roots(Rewriter):
    """Statements in which a reciprocal root has the root, where that is computed."""

    def __init__(self, body: Iterable[Stmt]) -> None:
        self.roots = {n for n in walk(*body) if isinstance(n, Call) and n.name == "math.sqrt"}

    def expr(self, e: Expr) -> Expr:
        match super().expr(e):
            case Call(name="rsqrt", args=(x,)) as made if (root := Call("math.sqrt", (x,))) in self.roots:
                return replace(made, args=(x, root))
            case made:
                return made


class _Inside(Rewriter):
    """Statements where some tests hold."""

    def __init__(self, tests: Collection[Expr]) -> None:
        self.tests = {*tests}
        self.chosen: dict[str, tuple[str, ...]] = {}  # the places of which a variable is one

    def body(self, found: Iterable[Stmt]) -> list[Stmt]:
        return [made for s in found for made in self.each(s)]

    def each(self, s: Stmt) -> list[Stmt]:
        """What takes the place of a statement."""
        match s:
            case Assign(name=name, value=Call(name="select", args=(_, Var(name=x), Var(name=y)))):
                self.chosen[name] = (x, y)
            case If(test=test, otherwise=[]) if self.holds(test):
                return self.body(s.body)
        return [self.stmt(s)]

    def expr(self, e: Expr) -> Expr:
        match e:
            case Choice(test=test, then=then) | Call(name="select", args=(test, then, _)) if self.holds(test):
                return self.expr(then)
        return super().expr(e)

    def holds(self, test: Expr) -> bool:
        """Whether a condition is known to hold."""
        match test:
            case Logical(op="and", args=parts):
                return all(map(self.holds, parts))
            case Binary("&", Compare("<=", Literal(value=0), place), Compare("<", other, size)) if (
                place == other
            ):
                return self.holds(Compare("<", unsigned(place), unsigned(size)))
            case Compare("<", Call(name="uint64", args=(Var(name=name),)) as place, size) if (
                name in self.chosen
            ):
                return all(
                    self.holds(Compare("<", replace(place, args=(Var(x),)), size)) for x in self.chosen[name]
                )
        return test in self.tests
