"""Loops of one function in a form that LLVM vectorises (whole vectors and a remainder), unrolled short loops,
and data for polls."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from math import prod

from adcompiler.loopir.low_trips import LANES, are_unordered
from adcompiler.loopir.nodes import Assign, Binary, Call, For, If, Invoke, Literal, Stmt
from adcompiler.loopir.short_loops import has_loops, short
from adcompiler.loopir.vector_statements import LANE
from adcompiler.loopir.walk import assigned, read_by, statements, variables, walk
from adcompiler.targets.llvm.tables import BYTES
from adcompiler.targets.llvm.values import ArrayValue, Needs, UnsupportedError, Value, literal
from adcompiler.targets.llvm.variables import Variables
from adcompiler.targets.llvm.vectors import total, vectorises

# -- memory ------------------------------------------------------------------------------------------
# Memory of one function: arrays on the stack or the heap, and private copies for lanes.


STACK_ELEMENTS = 64  # elements of an array on the stack


class Memory(Variables):
    """Variables of a function that allocates arrays; vectors have `lanes`."""

    def __init__(self, needs: Needs, lanes: int) -> None:
        super().__init__(needs)
        self.lanes = lanes
        self.widened: set[str] = set()  # rows with adjacent lanes

    def allocate(self, name: str, lengths: Sequence[Value], kind: str) -> None:
        """Allocate an array: on the stack if it is small, so that LLVM may keep it in registers."""
        known = all(n.text.isdigit() for n in lengths)
        count = prod(int(n.text) for n in lengths) if known else STACK_ELEMENTS + 1
        if count > STACK_ELEMENTS:
            self.from_heap(name, lengths, kind)
        elif name not in self.arrays:
            self.on_stack(name, lengths, kind)
            if name in self.widened and self.lanes > 1:
                last = literal(int(lengths[-1].text) * self.lanes)
                self.on_stack(name + LANE, [*lengths[:-1], last], kind)

    def on_stack(self, name: str, lengths: Sequence[Value], kind: str) -> None:
        """Allocate a small array on the stack."""
        count = prod(int(n.text) for n in lengths)
        self.arrays[name] = ArrayValue(Value(f"%own_{name}", "ptr"), kind, tuple(lengths), None)
        self.stack.append(f"%own_{name} = alloca [{count} x {self.arrays[name].stored}], align 64")

    def from_heap(self, name: str, lengths: Sequence[Value], kind: str) -> None:
        """Allocate an array of computed lengths; the name's earlier memory is freed.

        If allocation fails, the function gives up.
        """
        if self.heap.setdefault(name, (kind, len(lengths))) != (kind, len(lengths)):
            raise UnsupportedError
        place = f"%heap_{name}"
        slots = [f"{place}_{d}" for d in range(len(lengths))]
        if place[1:] not in self.held:
            self.held.append(place[1:])
            self.stack += [f"{slot} = alloca i64" for slot in slots]
        size = literal(BYTES[kind])
        for slot, n in zip(slots, lengths, strict=True):
            self.lines.append(f"store {n}, ptr {slot}")
            size = self.product(size, n)
        self.free(name)
        data = self.call("PyMem_RawMalloc", "ptr", [size])
        self.lines.append(f"store {data}, ptr {place}")
        with self.when(self.emit(f"icmp eq {data}, null", "i1")):
            self.gives_up = True
            self.lines.append("br label %given_up")
            self.begin(f"{self.label()}_never")

    def free(self, name: str) -> None:
        """Free the memory of an array, if it has any."""
        self.call("PyMem_RawFree", "void", [self.emit(f"load ptr, ptr %heap_{name}", "ptr")])

    def copy_of(self, name: str, axes: Sequence[int]) -> Value:
        """Allocate private copies of some axes of an array for each lane; returns whether that succeeded."""
        array = self.known(name)
        *others, last = (array.shape[axis] for axis in axes)
        shape = (*others, self.integers("mul", last, literal(self.width)))
        size = literal(BYTES[array.type] * self.width)
        for n in (*others, last):
            size = self.product(size, n)
        data = self.call("PyMem_RawMalloc", "ptr", [size])
        self.held += [] if (held := f"lanes_{name}") in self.held else [held]
        self.lines.append(f"store {data}, ptr %{held}")
        self.arrays[name + LANE] = ArrayValue(data, array.type, shape, None)
        return self.emit(f"icmp ne {data}, null", "i1")


UNKNOWN_ITERATIONS = 1 << 10  # assumed iterations of a loop of unknown length
VECTORS_OF_CALLS = 2  # vectors at a time in loops that call functions
INTERLEAVED = {4: 12, 2: 32}  # vectors at a time in reduction loops, by their maximum number of operations


class Loops(Memory):
    """Loops over statements; `body` lowers the statements."""

    def __init__(self, needs: Needs, lanes: int) -> None:
        super().__init__(needs, lanes)
        self.depth = 0  # the depth of loops whose iterations end with a poll
        self.low_trips = False  # whether loops inside these are short

    def body(self, statements: Sequence[Stmt]) -> None:
        """Statements in order."""
        raise NotImplementedError

    def unrolled(self, name: str, iterations: range, body: Sequence[Stmt]) -> None:
        """The unrolled iterations of a short loop."""
        for k in iterations:
            self.values[name] = literal(k)._replace(unsigned=True)
            self.body(body)
        self.values.pop(name, None)

    def loop(self, loop: For, first: Value, stop: Value) -> None:
        """A loop from `first` to `stop`."""
        for start, end, hint in self.parts(loop, first, stop):
            with self.iterations(start, end, hint) as iteration:
                self.iteration(loop.axis, iteration, loop.body)

    def iteration(self, name: str, iteration: Value, body: Sequence[Stmt]) -> None:
        self.values[name] = iteration
        self.body(body)
        del self.values[name]

    def weight(self, body: Sequence[Stmt], own: Collection[str] = ()) -> Value:
        """The approximate number of elements of the loops in an iteration. Lengths that depend on the
        iteration's `own` variables, or those of enclosing loops, count as `UNKNOWN_ITERATIONS`."""
        most, own = literal(1), {*own, *assigned(*body)}
        for statement in body:
            if isinstance(statement, If):
                inner = self.weight(statement.body, own)
            elif isinstance(statement, For) and short(statement) is None:
                inner = self.product(self.length(statement, own), self.weight(statement.body, own))
            elif isinstance(statement, Invoke):  # a routine on matrices
                inner = literal(UNKNOWN_ITERATIONS**2)
            else:
                continue
            most = self.call("llvm.umax.i64", "i64", [most, inner])
        return most

    def length(self, loop: For, own: Collection[str]) -> Value:
        """The iterations of an inner loop, if known before: `own` are variables of the iteration."""
        names = variables(loop.stop)
        known = {*self.values, *self.arrays}.difference(own) >= names and not any(LANE in n for n in names)
        return self.value(loop.stop) if known else literal(UNKNOWN_ITERATIONS)

    @contextmanager
    def polled(self, cost: int) -> Iterator[None]:
        """An iteration of a loop that ends with a poll."""
        self.depth += 1
        yield
        self.depth -= 1
        self.poll_after(cost)

    def parts(self, loop: For, first: Value, stop: Value) -> list[tuple[Value, Value, str]]:
        """Split a vectorised loop in two: whole vectors, two at a time, and a masked remainder.

        Functions of two vectors overlap: each is a long dependency chain that would stall the processor.
        Masks cost a little everywhere, and much where masked stores are slow.
        """
        vectors = self.needs.vectors
        if vectors is None or self.width > 1 or not vectorises(loop.body, self.changing):
            return [(first, stop, self.hint(loop))]
        # Prevent loop unswitching: LLVM would hoist the tests for empty parts out of the enclosing loops and
        # compile these three times.
        hidden = self.emit(f'call i64 asm sideeffect "", "=r,0"({stop})', "i64")
        stop = hidden._replace(unsigned=first.unsigned)
        iterations = self.call(
            "llvm.usub.sat.i64", "i64", [stop, first]
        ).text  # none if it ends before it begins
        whole = self.emit(f"and i64 {iterations}, {-VECTORS_OF_CALLS * vectors.lanes('float')}", "i64").text
        middle = self.emit(f"add {first}, {whole}", "i64")._replace(unsigned=first.unsigned)
        pairs, alone = (f'interleave.count", i32 {n}' for n in (VECTORS_OF_CALLS, 1))
        masked = 'vectorize.predicate.enable", i1 true'
        return [(first, middle, self.needs.hint(pairs)), (middle, stop, self.needs.hint(alone, masked))]

    def hint(self, loop: For) -> str:
        """The hint for an innermost loop: that it is short, in a kernel for short loops (`low_trips.py`), or
        how to interleave its reductions."""
        if has_loops(loop.body):
            return ""
        if not (self.low_trips and self.depth) or loop.kind == "program":
            count = interleaving(loop.body)
            return self.needs.hint(f'interleave.count", i32 {count}') if count else ""
        free = are_unordered(loop, self.changing)
        wide = [f'vectorize.width", i32 {LANES}'] if free else []
        return self.needs.hint(*wide, 'interleave.count", i32 1', 'unroll.disable"')


def interleaving(body: Sequence[Stmt]) -> int:
    """The number of vectors of partial sums in an innermost loop; 0 if it reduces nothing.

    It determines the order of additions. LLVM would consider the whole body; here stores do not count, so a
    sum does not depend on whether a backward pass reads its terms. Remainders and quotients by varying values
    have no vector form, and LLVM 22 aborts (a VPlan assertion, "only extract elements from vectors") when it
    interleaves such a loop with conditional loads.
    """
    if not any(map(total, body)):
        return 0
    if any(map(divides, body)):
        return 1
    parts = [s.value for s in body if isinstance(s, Assign)]
    cost = sum(isinstance(n, Binary | Call) for n in walk(*parts))
    return next((count for count, most in INTERLEAVED.items() if cost <= most), 1)


def divides(statement: Stmt) -> bool:
    """Whether a statement has a remainder or floored quotient by a non-constant."""
    return any(
        isinstance(n, Binary) and n.op in ("%", "//") and not isinstance(n.right, Literal)
        for s in statements([statement])
        for n in read_by(s)
    )
