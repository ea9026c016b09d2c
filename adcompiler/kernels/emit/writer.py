"""Builds the loop IR of one function. Each element is computed in the outermost possible loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from adcompiler.analysis.affine import Linear, linear, linear_constant, shifted
from adcompiler.analysis.intervals import Range, never_negative, up_to
from adcompiler.analysis.predicates import Conditions
from adcompiler.ir.nodes import Apply, Array, Const, Element, Index, Read, Select, Size, const, is_const
from adcompiler.ir.origins import emitted
from adcompiler.ir.types import DTYPES, Dtype, is_float
from adcompiler.ir.walk import elements_of, postorder
from adcompiler.kernels.limits import INLINE_WIDTH
from adcompiler.kernels.schedule.numbers import stood
from adcompiler.kernels.schedule.schedule_tree import UNNUMBERED, Loop
from adcompiler.loopir.nodes import (
    Access,
    Assign,
    Call,
    Choice,
    Compare,
    Expr,
    For,
    Foreign,
    If,
    Stmt,
    Unary,
    Var,
    Verbatim,
    While,
    all_of,
    counted,
    literal,
    unsigned,
)
from adcompiler.loopir.parse import expression
from adcompiler.loopir.printer import ATOM, TERNARY, printed
from adcompiler.loopir.printer import text as text_of
from adcompiler.loopir.rewrite import Filled
from adcompiler.loopir.walk import walk
from adcompiler.ops.costs import costly
from adcompiler.ops.table import TABLE

# -- primitives --------------------------------------------------------------------------------------
# Primitives of the rule table in the loop IR.


EXTREMA = {"maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min"}  # of integers: none is NaN


def filled(op: str, args: Sequence[Expr], dtype: Dtype) -> Expr:
    """A primitive of the rule table, from its kernel template."""
    if op in EXTREMA and dtype == "i64":
        return Call(EXTREMA[op], tuple(args))
    entry = TABLE[op]
    made = template(entry.kernel, entry.params)
    if made is None:
        texts = {p: printed(a).within(ATOM) for p, a in zip(entry.params, args, strict=True)}
        return Verbatim(entry.kernel.format(**texts))
    return Filled(dict(zip(entry.params, args, strict=True))).expr(made)


@cache
def template(kernel: str, params: tuple[str, ...]) -> Expr | None:
    """The expression of a kernel template, with parameters as variables; None if the IR cannot represent
    it."""
    made = expression(kernel.format(**{p: p for p in params}))
    return None if any(isinstance(e, Verbatim) for e in walk(made)) else made


def repeats(op: str, dtype: Dtype) -> bool:
    """Whether a primitive's kernel template names a parameter more than once."""
    entry = TABLE[op]
    if op in EXTREMA and dtype == "i64":
        return False
    return any(entry.kernel.count("{" + p + "}") > 1 for p in entry.params)


Row = tuple[Expr, ...]  # the leading indices of all accesses to an array that is a row of another one
BRANCH_AXIS = -(10**9) - 1  # the axis number of branches, which no element depends on
TYPES: Mapping[Dtype, str] = {"bool": "bool", "i64": "np.int64", "f32": "np.float32", "f64": "np.float64"}


class Writer:
    """Writes one function. It keeps a stack of open scopes (the function, then its open loops), each with its
    statements and named values. `used` collects the names that must become parameters.

    Elements in `uncontracted` are rounded separately (`rounding.py`). For these, `intrinsics` names the
    functions that replace operations on two numbers that LLVM would contract."""

    uncontracted: Collection[Element] = ()
    intrinsics: Mapping[str, str] = {"multiply": "mul_rn", "square": "mul_rn"}

    def __init__(
        self,
        labels: Mapping[Array, str],
        sizes: tuple[str, ...],
        roots: Iterable[Element],
        names: Mapping[Element, str],
    ) -> None:
        self.labels, self.sizes, self.names = labels, sizes, names
        self.scopes: list[list[Any]] = [[]]
        self.heads: list[Stmt] = []
        self.values: list[dict[Element, str]] = [{}]
        self.loops: list[Loop] = []
        self.cut: Collection[int] = ()  # the loops that the function runs from start to stop only
        self.inside: dict[object, bool] = {}  # indices, sizes and loops: whether the index is inside the axis
        self.assured: Collection[tuple[Element, Element]] = ()  # indices inside axes of these lengths here
        self.stands: dict[Array, Array] = {}  # what placeholders of numbers stand for
        self.around: Sequence[Loop] = ()  # the loops in which this function is called
        self.used: dict[str, None] = {}
        self.own: set[str] = set()  # local arrays of the function
        self.noted: set[str] = set()
        self.count = 0
        self.base = 0  # the number of enclosing program loops and branches
        self.needs: dict[Element, Conditions] = {}
        self.uses: Counter[Element] = Counter()
        # Inside a program loop, arrays are defined in the current iteration, and may be rows of other arrays.
        self.floors: dict[Array, int] = {}
        self.prefixes: dict[Array, Row] = {}
        self.dropped: Mapping[Array, frozenset[int]] = {}  # axes that are not stored
        self.grown: set[Array] = set()  # sums added to the old contents
        self.levels: dict[Element, int] = {}
        self.expect(roots)

    def nest_in(self, outer: Writer) -> None:
        """Mark this function as called inside the loops of another one, iteration by iteration."""
        self.around = tuple(outer.loops)
        self.prefixes, self.grown, self.stands = dict(outer.prefixes), outer.grown, outer.stands
        self.used = dict.fromkeys(outer.iterations)

    @property
    def iterations(self) -> list[str]:
        """The iteration variables of the enclosing program loops."""
        return [axis_name(loop.number) for loop in self.loops if UNNUMBERED < loop.number < 0]

    def expect(self, roots: Iterable[Element]) -> None:
        """Count the uses of elements that will be written."""
        roots = tuple(roots)
        self.uses.update(roots)
        for element in elements_of(roots):
            self.uses.update(element.args)

    # -- scopes --------------------------------------------------------------------------------

    def add(self, statement: Stmt, level: int = -1) -> None:
        """Add a statement to the innermost scope, or to the one given."""
        self.scopes[level].append(statement)

    def line(self, text: str) -> None:
        """Add a line that no loop IR node represents."""
        self.add(Foreign(text))

    def open(self, loop: Loop, head: For | While | If) -> None:
        """Enter a loop or a branch."""
        self.loops.append(loop)
        self.heads.append(head)
        self.scopes.append([])
        self.values.append({})

    @contextmanager
    def under(self, conditions: Conditions, arrays: Iterable[Array] = ()) -> Iterator[None]:
        """Write the body under an `if`, with all elements that only these conditions need, or that read the
        `arrays` computed there."""
        if not conditions:
            yield
            return
        tests = [self.written(c) if holds else Unary("not", self.written(c)) for c, holds in conditions]
        self.open(Loop(const(0, "i64"), BRANCH_AXIS, needed=conditions), If(all_of(tests)))
        self.base += 1
        floors = self.floors
        self.floors, self.levels = {**floors, **dict.fromkeys(arrays, len(self.loops))}, {}
        yield
        self.floors, self.levels = floors, {}
        self.base -= 1
        self.close()

    def headed(self, heads: Sequence[For | If], statement: Stmt) -> None:
        """A statement nested in loops and conditions. All heads are built before the first is written,
        because building a head may write statements."""
        for head in reversed(heads):
            statement = replace(head, body=[statement])
        self.add(statement)

    def over(self, axis: str, size: Element, depth: int = 0) -> For:
        """The head of a loop that fills or copies an array along an axis, inside `depth` other loops."""
        return counted(axis, self.written(size))

    def limits(self, loop: Loop) -> tuple[Expr, Expr]:
        """The unsigned bounds of a loop; statements they need are written before it."""
        if loop.number in self.cut:
            return unsigned(Var("start")), unsigned(Var("stop"))
        switches = [self.written(value) for side, value in loop.bounds if side == "if"]
        start, stop = None, self.written(loop.size)
        for side, value in loop.bounds:
            if side == "if":
                continue
            base, more = shifted(value)
            limit = self.written(value)
            if not (isinstance(base, Index) and more >= 0):
                limit = Call("max", (limit, literal(0)))
            if side == "start":
                start = limit if start is None else Call("max", (limit, start))
            else:
                stop = Call("min", (limit, stop))
        if switches:
            stop = Choice(all_of(switches), stop, literal(0))
        return unsigned(literal(0) if start is None else start), unsigned(stop)

    def close(self) -> None:
        """Leave the innermost loop, which becomes a statement of the enclosing scope."""
        self.loops.pop()
        self.values.pop()
        body, head = self.scopes.pop(), self.heads.pop()
        assert isinstance(head, For | While | If)
        self.add(replace(head, body=body))

    def label(self, array: Array) -> str:
        """The name of an array, as a parameter of this function."""
        return self.use(self.labels[array])

    def use(self, name: str) -> str:
        """Note that this function needs `name` as a parameter."""
        if name not in self.own:
            self.used[name] = None
        return name

    def assign(self, value: Expr, level: int = -1, name: str = "") -> str:
        """Assign a value to a new variable, in the innermost scope or the one given."""
        if not name:
            name = f"v{self.count}"
            self.count += 1
        self.add(Assign(name, value), level)
        return name

    def keep(self, element: Element) -> None:
        """Keep the current value of an element to the end of the scope."""
        if self.known(element) is None:
            self.define(element, self.assign(self.written(element)))

    def define(self, element: Element, name: str) -> None:
        """`element` is the variable `name` from here to the end of the innermost scope."""
        self.values[-1][element] = name

    def level(self, element: Element) -> int:
        """The scope in which an element is computed: the innermost loop that it depends on."""
        levels = [
            p + 1
            for p, loop in enumerate(self.loops)
            if loop.number in element.axes or (loop.number == BRANCH_AXIS and self.is_only_in(element, loop))
        ]
        return max(levels, default=0) if not self.floors else max(*levels, self.floor(element), 0)

    def is_only_in(self, element: Element, branch: Loop) -> bool:
        """Whether an element is needed only under the conditions of a branch."""
        needed = self.needs.get(element, branch.needed)
        return all(c in needed for c in branch.needed)

    def floor(self, element: Element) -> int:
        """The scope of the innermost array that an element reads."""
        found = self.levels
        for e in postorder((element,), lambda e: () if e in found else e.args):
            if e not in found:
                own = self.floors.get(e.array, 0) if isinstance(e, Read) else 0
                found[e] = max([own, *(found[a] for a in e.args)])
        return found[element]

    # -- elements ------------------------------------------------------------------------------

    def known(self, element: Element) -> Var | None:
        """The variable that holds `element`, if one does."""
        scope = self.scope(element)
        return None if scope is None else Var(self.values[scope][element])

    def scope(self, element: Element) -> int | None:
        """The scope of the variable that holds `element`, if one does."""
        return next((k for k in reversed(range(len(self.values))) if element in self.values[k]), None)

    def text(self, root: Element, level: int = TERNARY) -> str:
        """The text of `root`, parenthesised for precedence `level`; its dependencies are written first."""
        return printed(self.written(root)).within(level)

    def written(self, root: Element) -> Expr:
        """The expression of `root`. Operations that are reused, or make a line too long, become variables."""
        order = postorder((root,), lambda e: () if self.known(e) else e.args)
        users = {a: e for e in order for a in e.args}
        found: dict[Element, Expr] = {}
        for element in order:
            made = self.known(element) or self.leaf(element)
            if made is None:
                made = self.operation(element, [found[a] for a in element.args])
                emitted(made, element)
                once = self.uses[element] <= 1
                if element is root:
                    inline = once and not self.is_invariant(element)
                else:
                    inline = once and self.stands_alone(element, made, users[element])
                if not inline:
                    made = self.name(element, made)
            found[element] = made
        return found[root]

    def name(self, element: Element, made: Expr) -> Var:
        """A variable for `element`, in the outermost scope where its operands are available."""
        parts = postorder((element,), lambda e: () if e is not element and self.known(e) else e.args)
        level = max(self.level(element), *(self.scope(e) or 0 for e in parts))
        self.values[level][element] = self.assign(made, level, self.names.get(element, ""))
        return Var(self.values[level][element])

    def stands_alone(self, element: Element, made: Expr, user: Element) -> bool:
        """Whether an element may be inlined in the expression of `user`, its only user."""
        return (
            len(text_of(made)) <= INLINE_WIDTH
            and not (isinstance(element, Read) and isinstance(made, Choice))
            and not (isinstance(user, Apply) and user.op not in DTYPES and repeats(user.op, user.dtype))
            and self.level(user) == self.level(element)
        )

    def is_invariant(self, element: Element) -> bool:
        """Whether an element is costly and loop-invariant. Naming it does not change the order of a sum,
        whether its terms are computed before the loop or read from memory."""
        return self.level(element) < len(self.loops) and costly(element, {})

    def leaf(self, element: Element) -> Expr | None:
        """An element that needs no computation."""
        match element:
            case Const():
                return constant(element)
            case Index(axis=number):
                return Call("np.int64", (Var(axis_name(number)),))
            case Size(number=number):
                return Var(self.use(self.sizes[number]))
            case Read(array=array, args=()):
                made = self.element(array, ()) if array in self.prefixes else Var(self.label(array))
                emitted(made, element)
                return made
        return None

    def operation(self, element: Element, args: Sequence[Expr]) -> Expr:
        """An operation on arguments that have expressions already."""
        match element:
            case Read():
                spot, inside = self.place(element.array, element.args, args)
                return spot if inside is None else Choice(inside, spot, zero(element.dtype))
            case Select():
                return Call("select", tuple(args))
            case Apply(op="strict"):
                return args[0]
            case Apply(op=op) if op in self.intrinsics and self.is_uncontracted(element):
                return Call(self.intrinsics[op], (args[0], args[-1]))
            case Apply(op="bool"):
                return Compare("!=", args[0], literal(0))
            case Apply(op=op) if op in DTYPES:
                return Call(TYPES[element.dtype], (args[0],))
            case Apply(op=op):
                return filled(op, args, element.dtype)
        raise AssertionError(f"no text for {type(element).__name__}")

    def is_uncontracted(self, element: Element) -> bool:
        """Whether a float is rounded before another operation uses it."""
        return element in self.uncontracted and is_float(element.dtype)

    def place(
        self, array: Array, indices: Sequence[Element], made: Sequence[Expr]
    ) -> tuple[Expr, Expr | None]:
        """An element of an array, and the condition that it exists: None if it always does.

        Indices are unsigned: signed ones need wraparound checks and prevent vectorisation.
        """
        found = [self.spot(*one) for one in zip(indices, made, array.shape, strict=True)]
        inside = tuple(condition for _, condition in found if condition is not None)
        spot = self.element(array, [spot for spot, _ in found])
        return spot, all_of(inside) if inside else None

    def row(self, array: Array) -> Row:
        """The leading indices of a row."""
        return self.prefixes.get(array, ())

    def element(self, array: Array, spots: Sequence[Expr]) -> Access:
        """An array's element at some indices."""
        dropped = self.dropped.get(array, ())
        kept = (s for k, s in enumerate(spots) if k not in dropped)
        return Access(self.label(array), (*self.row(array), *kept))

    def spot(self, index: Element, made: Expr, size: Element) -> tuple[Expr, Expr | None]:
        """An index into an axis, and the condition that it is in bounds: None if it always is."""
        spot: Expr
        match index:
            case Index(axis=number):
                spot = Var(axis_name(number))
            case Const(value=value) if value >= 0:
                spot = literal(value)
            case _:
                spot = unsigned(made if isinstance(made, Var) else self.name(index, made))
        if self.fits(index, size):
            return spot, None
        return spot, Compare("<", spot, unsigned(self.written(size)))

    def fits(self, index: Element, size: Element) -> bool:
        """Whether an index is known to be inside an axis: i + 1 is if the loop leaves out the last
        iteration."""
        if (index, size) in self.assured:
            return True
        axis, first = shifted(index)
        whole, less = shifted(size)
        if axis is None:
            return whole is None and 0 <= first < less
        for loop in (*self.around, *self.loops):
            if isinstance(axis, Index) and loop.number == axis.axis:
                iterations, extra = shifted(loop.size)
                if iterations is whole and 0 <= first <= less - extra:
                    return True
        return self.proven(index, size)

    def proven(self, index: Element, size: Element) -> bool:
        """Whether an index is inside an axis by the ranges of the loops that it depends on, and those outside
        of these: a read may stand outside of all other loops, which may have no iteration."""
        at = linear(stood(index, self.stands))
        form = linear(stood(size, self.stands)) - at - linear_constant(1)
        axes = at.axes | form.axes
        loops = [self.known_loop(loop) for loop in (*self.around, *self.loops) if not is_const(loop.size, 0)]
        last = max((k for k, loop in enumerate(loops) if loop.number in axes), default=-1)
        loops = loops[: last + 1]
        if not axes <= {loop.number for loop in loops}:
            return False
        key = index, size, *((loop.number, loop.size, *loop.bounds) for loop in loops)
        if key not in self.inside:
            self.inside[key] = _hold((at, form), loops)
        return self.inside[key]

    def known_loop(self, loop: Loop) -> Loop:
        """A loop with the numbers that its size reads, if these follow from the loops around."""
        size = stood(loop.size, self.stands)
        return loop if size is loop.size else replace(loop, size=size)


def _hold(forms: Sequence[Linear], loops: Sequence[Loop]) -> bool:
    """Whether forms of the loops' indices are never negative in these loops."""
    ranges: dict[Element, Range] = {}
    facts: list[Linear] = []
    for depth, loop in enumerate(loops):
        here = linear(Index(loop.number))
        ranges[Index(loop.number)] = replace(up_to(loop.size), depth=depth)
        facts += [here - linear(value) for side, value in loop.bounds if side == "start"]
        facts += [linear(value) - here - linear_constant(1) for side, value in loop.bounds if side == "stop"]
    return all(never_negative(form, ranges, facts) for form in forms)


def axis_name(number: int) -> str:
    """The variable of a loop over an axis, or over the iterations of a program loop."""
    return f"i{number}" if number >= 0 else f"iteration{-1 - number}"


def zero(dtype: Dtype) -> Expr:
    """Zero."""
    return constant(const(0, dtype))


def constant(element: Const) -> Expr:
    """A constant of its own type; float literals are float64 in numba."""
    found = literal(element.value)
    return Call("np.float32", (found,)) if element.dtype == "f32" else found
