"""Variables and arrays of one function: where their values are, and elements of arrays.

A variable that is assigned once is a register; one that changes is an alloca, which LLVM turns into a
register. If iterations are lanes (`loopir/transforms/outer_vectorisation.py`), the variables of an iteration
are vectors, and so are elements of arrays private to lanes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from adcompiler.loopir.intrinsics import BY_TEXT, INTEGER_EXTREMA
from adcompiler.loopir.nodes import (
    Access,
    Choice,
    Expr,
    Stmt,
    UnsupportedError,
    Var,
)
from adcompiler.loopir.rewrite import Rewriter
from adcompiler.loopir.transformed_loops import LANE, Lane
from adcompiler.loopir.translator import Translator
from adcompiler.loopir.types import ArrayType, Type
from adcompiler.loopir.walk import named, walk
from adcompiler.targets.llvm.instructions import EITHER_ZERO, Instructions, folded
from adcompiler.targets.llvm.tables import BYTES, TYPES
from adcompiler.targets.llvm.values import ArrayValue, Needs, Value, literal, suffix, typed

Argument = Value | ArrayValue

KINDS = {kind: dtype for dtype, kind in TYPES.items()}
_PARAMETER = re.compile(r"%p\d+")
HIDDEN = '%nothing = call i64 asm "", "=r,0"(i64 0)'


def type_of(value: Argument) -> Type:
    """The type of a value in the loop IR."""
    if isinstance(value, Value):
        return "u64" if value.unsigned else KINDS[value.type]
    return ArrayType(KINDS[value.type], len(value.shape))


class _FirstLane(Rewriter):
    """Expressions with the iteration of the first lane."""

    def name(self, name: str) -> str:
        return name.removesuffix(LANE)


class Variables(Instructions, Translator[Value, ArrayValue]):
    """Translates a function with named variables and arrays; `width` iterations are lanes."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self.values: dict[str, Value] = {}  # of variables that are assigned once
        self.arrays: dict[str, ArrayValue] = {}
        self.heap: dict[str, tuple[str, int]] = {}  # types and ranks of arrays that the function allocates
        self.places: dict[str, Value] = {}
        self.changing: set[str] = set()
        self.types: dict[str, Type] = {}  # of those
        self.rounded: Collection[str] = ()  # variables whose products no sum contracts
        self.width = 1
        self.wide = 1  # the number of adjacent lanes of rows
        self.mask: Value | None = None  # the active lanes
        self.summed: set[str] = set()  # vectors of partial sums
        self.lane: Value | None = None  # the lane that runs alone
        self.exits: list[str] = []  # of the loops around

    # -- statements ----------------------------------------------------------------------------

    def set(self, s: Stmt, name: str, value: Value) -> None:
        self.bind(name, value)

    def bind(self, name: str, value: Argument) -> None:
        """Assign a value to a variable."""
        if isinstance(value, ArrayValue):
            self.arrays[name] = value
            return
        if LANE in name:
            value = self.spread(value, self.width)
        if name in self.summed and self.mask is not None:
            value = self.select(self.mask, value, self.value(Var(name)))
        if name not in self.changing:
            if name.partition(".")[0] in self.rounded:
                self.factors.pop(value.text, None)
            self.values[name] = value
            return
        if name not in self.places:
            kind = self.types[name]
            assert isinstance(kind, str)
            element = "i64" if kind == "u64" else TYPES[kind]
            place = self.places[name] = Value(f"%place_{name}", value.typed(element), kind == "u64")
            self.stack.append(f"{place.text} = alloca {place.type}")
        if value.element != self.places[name].element:
            value = self.cast(value, self.places[name].element)
        self.lines.append(f"store {value}, ptr {self.places[name].text}")
        self.loaded[name] = value

    def branch(self, test: Value, body: Sequence[Stmt], otherwise: Sequence[Stmt]) -> None:
        guard = self.cast(test, "i1")
        if not otherwise:
            with self.when(guard):
                self.body(body)
            return
        label, known = self.label(), self.once
        self.lines.append(f"br {guard}, label %{label}_then, label %{label}_else")
        for side, statements in (("then", body), ("else", otherwise)):
            self.begin(f"{label}_{side}", known)
            self.body(statements)
            self.lines.append(f"br label %{label}_after")
        self.begin(f"{label}_after", known)

    def repeat(self, test: Expr | None, body: Sequence[Stmt]) -> None:
        label = self.head()
        guard = None if test is None else self.cast(self.value(test), "i1")
        with self.looped(label, guard):
            self.iterated(body)

    def iterated(self, body: Sequence[Stmt]) -> None:
        """An iteration of a loop without a trip count."""
        raise NotImplementedError

    def leave_loop(self) -> None:
        self.leave(f"br label %{self.exits[-1]}")

    def leave(self, how: str) -> None:
        """Write a jump; code after it is unreachable."""
        self.lines.append(how)
        self.begin(f"{self.label()}_never")

    def head(self) -> str:
        """The block that tests a loop's condition."""
        label = self.label()
        self.lines.append(f"br label %{label}")
        self.begin(label)
        return label

    @contextmanager
    def looped(self, head: str, guard: Value | None, hint: str = "") -> Iterator[None]:
        """Repeat the body from `head` while `guard` holds; `hint` is metadata for LLVM."""
        self.exits.append(f"{head}_exit")
        if guard is not None:
            self.lines.append(f"br {guard}, label %{head}_body, label %{head}_exit")
            self.begin(f"{head}_body")
        yield
        self.lines.append(f"br label %{head}{hint}")
        self.begin(self.exits.pop())

    # -- variables -----------------------------------------------------------------------------

    def knows(self, name: str) -> bool:
        """Whether a variable has a value."""
        return any(name in known for known in (self.values, self.places, self.arrays, self.heap))

    def bound(self, name: str) -> Argument:
        """The value of a variable."""
        return self.array(name) or self.value(Var(name))

    def array(self, name: str) -> ArrayValue | None:
        """The array with a name, or None."""
        if name not in self.heap:
            return self.arrays.get(name)
        kind, rank = self.heap[name]
        data = self.emit(f"load ptr, ptr %heap_{name}", "ptr")
        shape = (self.emit(f"load i64, ptr %heap_{name}_{d}", "i64") for d in range(rank))
        return ArrayValue(data, kind, tuple(shape), None)

    def known(self, name: str) -> ArrayValue:
        """The array with a name that exists."""
        found = self.array(name)
        assert found is not None
        return found

    # -- expressions ---------------------------------------------------------------------------

    def variable(self, name: str) -> Value:
        if name in self.places:
            place = self.places[name]
            found = self.loaded.get(name)
            if found is None:
                found = self.loaded[name] = self.emit(f"load {place.type}, ptr {place.text}", place.type)
            return found._replace(unsigned=place.unsigned)
        if name not in self.values:
            raise UnsupportedError(f"the name {name}")
        return self.values[name]

    def constant(self, value: float) -> Value:
        return literal(value)

    def access(self, at: Access) -> Value:
        return self.element(self.accessed(at.array, at), at)

    def extent(self, array: str, axis: int) -> Value:
        return self.known(array).shape[axis]

    def logical(self, op: str, args: Sequence[Value]) -> Value:
        return self.both(op, [self.cast(a, "i1") for a in args])

    def choice(self, node: Choice) -> Value:
        if any(isinstance(n, Access) for n in walk(node)):
            return self.branches(node)
        return self.select(*map(self.value, (node.test, node.then, node.otherwise)))

    def argument(self, node: Expr) -> Argument:
        """An argument of another function."""
        match node:
            case Var(name=name) if found := self.array(name):
                return found
            case Access(array=name) if self.knows(name) and len(node.indices) < len(self.known(name).shape):
                return self.part_of(self.known(name), node)
        return self.value(node)

    def branches(self, node: Choice) -> Value:
        """A choice that must compute only one side, because the other may read outside an array."""
        test = self.cast(self.value(node.test), "i1")
        if test.lanes > 1:
            return self.sides(node, test)
        if test.is_literal:
            return self.value(node.then if test.text == "true" else node.otherwise)
        label, known = self.label(), self.once
        self.lines.append(f"br {test}, label %{label}_then, label %{label}_else")
        self.begin(f"{label}_then", known)
        lanes = self.width if any(LANE in named(n) or isinstance(n, Lane) for n in walk(node)) else 1
        then, before = self.spread(self.value(node.then), lanes), self.block
        self.lines.append(f"br label %{label}_after")
        self.begin(f"{label}_else", known)
        otherwise = self.spread(self.value(node.otherwise), lanes)
        other = self.block
        self.lines.append(f"br label %{label}_after")
        self.begin(f"{label}_after", known)
        if then.type != otherwise.type:
            raise UnsupportedError("a choice of values of different types")

        def either(x: Value, y: Value) -> Value:
            return self.emit(f"phi {x.type} [ {x.text}, %{before} ], [ {y.text}, %{other} ]", x.type)

        return self.chosen(either, then, otherwise)

    def sides(self, node: Choice, test: Value) -> Value:
        """A choice per lane: no lane reads for the side that it does not take."""
        whole = self.mask
        assert whole is not None
        self.mask = self.both("and", [whole, test])
        then = self.value(node.then)
        self.mask = self.both("and", [whole, self.unary("not", test)])
        otherwise = self.value(node.otherwise)
        self.mask = whole
        return self.select(test, then, otherwise)

    # -- elements of arrays --------------------------------------------------------------------

    def accessed(self, name: str, node: Access) -> ArrayValue:
        """The array of an access; small rows have a widened copy for lanes."""
        wide = self.arrays.get(name + LANE) if isinstance(node, Lane) and node.row else None
        return wide or self.known(name)

    def element(self, array: ArrayValue, node: Access) -> Value:
        """An element of an array, or one per lane."""
        at, kind = self.address(array, node)
        if self.mask is None or not self.is_masked(node):
            found = self.emit(f"load {kind}, {at}{self.aligned(array, kind)}", kind)
        else:
            kind, how = typed(array.stored, self.width), "gather" if at.lanes > 1 else "load"
            args = [at, self.alignment(array), self.mask, Value("zeroinitializer", kind)]
            found = self.call(f"llvm.masked.{how}.{suffix(args[-1])}.{suffix(at)}", kind, args)
        truths = found.typed("i1")
        nothing = "zeroinitializer" if found.lanes > 1 else "0"
        return self.emit(f"icmp ne {found}, {nothing}", truths) if array.type == "i1" else found

    def store(self, target: Access, value: Value) -> None:
        """Set an element of an array, or one per lane."""
        array = self.accessed(target.array, target)
        value = self.cast(value, array.type)
        if array.type == "i1":
            value = self.emit(f"zext {value} to {value.typed('i8')}", value.typed("i8"))
        at, kind = self.address(array, target)
        if self.mask is None or not self.is_masked(target):
            value = self.spread(value, Value("", kind).lanes)
            self.lines.append(f"store {value}, {at}{self.aligned(array, kind)}")
        else:
            value, how = self.spread(value, self.width), "scatter" if at.lanes > 1 else "store"
            args = [value, at, self.alignment(array), self.mask]
            self.call(f"llvm.masked.{how}.{suffix(value)}.{suffix(at)}", "void", args)

    def is_masked(self, node: Access) -> bool:
        """Whether inactive lanes have no element there; in rows all lanes do, if it is the same."""
        return isinstance(node, Lane) and (node.apart or not node.row)

    def address(self, array: ArrayValue, node: Access) -> tuple[Value, str]:
        """The address of an element, or one per lane, and the type there. Elements of adjacent lanes are one
        vector at one address."""
        *others, last = node.indices
        row = isinstance(node, Lane) and node.row
        apart = isinstance(node, Lane) and node.apart
        beside = isinstance(node, Lane) and node.beside and array.strides is None and not row
        if beside:
            last = _FirstLane().expr(last)
        indices = [self.value(n) for n in (*others, last)]
        if any(i.element != "i64" for i in indices):
            raise UnsupportedError(f"an index of {node.array} that is no integer")
        if row:
            indices[-1] = self.integers("mul", indices[-1], literal(self.wide))
        if apart:
            indices[-1] = self.integers("add", indices[-1], self.lane_numbers())
        if isinstance(node, Lane) and node.alone:
            assert self.lane is not None
            indices[-1] = self.integers("add", indices[-1], self.lane)
        found = self.located(array, indices, "" if beside else " inbounds")
        return found, typed(array.stored, self.width if (row and not apart) or beside else 1)

    def lane_numbers(self) -> Value:
        """The number of each lane."""
        numbers = ", ".join(f"i64 {k}" for k in range(self.width))
        return Value(f"<{numbers}>", typed("i64", self.width))

    def located(self, array: ArrayValue, indices: Sequence[Value], inside: str = " inbounds") -> Value:
        """The address of an element, or of the start of a part of an array; or one per lane. That of the
        first of adjacent lanes need not be in the array: the lane may be inactive."""
        at = literal(0)
        for k, length in enumerate(array.shape):
            index = indices[k] if k < len(indices) else literal(0)
            if array.strides is not None:
                index = self.integers("mul", index, self.step(array.strides[k]))
            elif k:
                at = self.integers("mul", at, self.step(length))
            at = index if k == 0 else self.integers("add", at, index)
        unit = "i8" if array.strides is not None else array.stored
        instruction = f"getelementptr{inside} {unit}, {array.data}, {at.type} {at.text}"
        return self.shared(instruction, at.typed("ptr"))

    def part_of(self, array: ArrayValue, node: Access) -> ArrayValue:
        """The part of an array at some leading indices."""
        indices = [self.value(n) for n in node.indices]
        first = len(indices)
        strides = array.strides and array.strides[first:]
        return ArrayValue(self.located(array, indices), array.type, array.shape[first:], strides)

    def step(self, distance: Value) -> Value:
        """The stride between adjacent elements, hidden from LLVM: otherwise it would version the loop for a
        stride of one, which does not occur."""
        if distance.text.isdigit():
            return distance
        if HIDDEN not in self.stack:
            self.stack.append(HIDDEN)
        if not _PARAMETER.fullmatch(distance.text):
            return self.shared(f"add i64 {distance.text}, %nothing", "i64")
        found = f"%hidden_{distance.text[1:]}"
        if (made := f"{found} = add i64 {distance.text}, %nothing") not in self.stack:
            self.stack.append(made)
        return Value(found, "i64")

    def integers(self, how: str, x: Value, y: Value) -> Value:
        """An unsigned operation on indices."""
        x, y = (self.spread(v, max(x.lanes, y.lanes)) for v in (x, y))
        if x.type == "i64" and (known := folded(how, x, y)) is not None:
            return known._replace(unsigned=False)
        return self.shared(f"{how} {x.type} {x.text}, {y.text}", x.type)

    def alignment(self, array: ArrayValue) -> Value:
        """The alignment of an element's address."""
        return Value("1" if array.strides is not None else str(BYTES[array.type]), "i32")

    def aligned(self, array: ArrayValue, kind: str) -> str:
        """The alignment suffix of an access, if it is not LLVM's default."""
        return "" if array.strides is None and kind[0] != "<" else f", align {self.alignment(array).text}"

    # -- lanes ---------------------------------------------------------------------------------

    def added_up(self, how: str, value: Value) -> Value:
        """The horizontal sum or extremum of all lanes."""
        if how in INTEGER_EXTREMA:
            return self.call(f"llvm.vector.reduce.s{how}.{suffix(value)}", value.element, [value])
        kind, name = value.element, f"llvm.vector.reduce.{BY_TEXT[how].horizontal}.{suffix(value)}"
        if how != "reduce_add":
            return self.call(name, kind, [value], flags=EITHER_ZERO)
        zero = literal(-0.0, kind)
        self.needs.declared[name] = f"declare {kind} @{name}({kind}, {value.type})"
        return self.emit(f"call reassoc {kind} @{name}({zero}, {value})", kind)
