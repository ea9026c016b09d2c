"""Lowers the loop IR of a kernel to LLVM: its functions, statements and arrays.

A variable that is assigned once is a register; one that changes is an alloca, which LLVM turns into a
register.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from math import prod

from adcompiler.loopir import nodes as loopir
from adcompiler.loopir.dependence import are_unordered, sums_last, total
from adcompiler.loopir.intrinsics import INTEGER_EXTREMA, REDUCTIONS
from adcompiler.loopir.limits import TILE_ITERATIONS
from adcompiler.loopir.nodes import (
    BLOCK,
    Access,
    Allocate,
    Assign,
    Binary,
    Call,
    Expand,
    Expr,
    For,
    If,
    Invoke,
    Literal,
    Stmt,
    UnsupportedError,
    Var,
)
from adcompiler.loopir.python_modules import MATRICES, ORDER, is_special, source
from adcompiler.loopir.short_loops import has_loops, short
from adcompiler.loopir.transformed_loops import (
    LANE,
    Jam,
    LaneByLane,
    LaneRange,
    Lanes,
    LaneTotal,
    LaneUpdate,
    Tiled,
)
from adcompiler.loopir.types import types_of_kernel
from adcompiler.loopir.walk import assigned, names, read_by, statements, variables, walk
from adcompiler.targets.llvm.instructions import (
    ASK,
    Instructions,
)
from adcompiler.targets.llvm.libmvec import Set
from adcompiler.targets.llvm.limits import (
    INTERLEAVED,
    LOW_TRIP_LANES,
    POLL_ELEMENTS,
    STACK_ELEMENTS,
    STRIP_ITERATIONS,
    SUM_STRIP_ITERATIONS,
    UNKNOWN_ITERATIONS,
    VECTORS_OF_CALLS,
)
from adcompiler.targets.llvm.places import located
from adcompiler.targets.llvm.python_functions import LETTERS, Routine, call, routine
from adcompiler.targets.llvm.quotients import Quotient, in_strip, quotients
from adcompiler.targets.llvm.tables import BYTES, TYPES
from adcompiler.targets.llvm.values import ArrayValue, Needs, Value, literal, suffix
from adcompiler.targets.llvm.variables import Argument, Variables, type_of
from adcompiler.targets.llvm.vectors import PARAMETERS, PURE, has_vector_calls, own_call, vectorises


class Module:
    """The functions of a kernel, each compiled for the types of its calls.

    Loops over the blocks of the nests `shared` may be divided among threads. The functions' requirements are
    added to `needs`.
    """

    def __init__(
        self,
        functions: tuple[loopir.Function, ...],
        shared: Sequence[str] = (),
        needs: Needs | None = None,
    ) -> None:
        self.shared = shared
        self.heavy = False  # whether blocks of nests are so long that loops inside them poll
        self.short: Sequence[str] = ()  # nests that poll only after each block, unless blocks are
        self.low_trips = False  # whether loops in iterations of program loops are short
        self.definitions = {f.name: f for f in functions}
        self.needs = needs or Needs()
        self.compiled: dict[str, str] = {}
        self.regions: list[str] = []  # functions that run ranges of blocks
        self.asking: set[str] = set()  # functions that may give up
        self.words: dict[str, int] = {}  # the numbers of the words that hold the parameters of `run`
        vectors = self.needs.vectors
        self.lanes = 1 if vectors is None else vectors.lanes("double" if self.needs.doubles else "float")

    def function(self, name: str) -> Function:
        """A new function of the module, which is not defined yet."""
        return Function(self) if self.needs.places is None else LocatedFunction(self, name)

    def call(self, caller: Function, name: str, args: Sequence[Argument]) -> None:
        """A call of a function without a result; each function has only one list of argument types."""
        parts = [p for a in args for p in a.parts]
        if name not in self.compiled:
            self.compiled[name] = ""
            if name not in self.definitions:
                raise UnsupportedError(f"the function {name}")
            names = iter([f"%p{k}" for k in range(len(parts))])
            inside = self.function(name)
            for param, arg in zip(self.definitions[name].params, args, strict=True):
                inside.bind(param, arg.named(names))
            inside.run(name, args)
            if inside.heap:
                raise UnsupportedError(f"memory that {name} would not free")
            # Arrays that are written have no aliases, whatever the program: see `cpu/compiled.py`.
            types = ("ptr noalias" if p.type == "ptr" else p.type for p in parts)
            params = ", ".join([*(f"{t} %p{k}" for k, t in enumerate(types)), "ptr %context"])
            # LLVM would inline it, and simplify it again as a part of its caller.
            apart = " noinline" if caller.of_blocks else ""
            self.compiled[name] = inside.definition(f"internal void @{name}({params}){apart}", "ret void")
            self.asking |= {name} if inside.gives_up else set()
        caller.lines.append(f"call void @{name}({', '.join([*map(str, parts), 'ptr %context'])})")
        if name in self.asking:
            caller.unless_stopped()

    def share(self, caller: Function, loop: For) -> None:
        """A loop over blocks, outlined as a function that runs a range of blocks and returns whether the call
        must end; the threads of a parallel region call it (`pool.py`)."""
        known = {n: caller.bound(n) for n in sorted(names(loop)) if caller.knows(n)}
        parts = [p for v in known.values() for p in v.parts]
        name = f"share{len(self.compiled)}"
        self.compiled[name] = ""
        self.regions.append(name)
        inside = self.function(name)
        for k, kept in enumerate(("words", "context")):
            inside.lines.append(f"%{kept} = load ptr, ptr {inside.slot('%data', k)}")
        # Arrays are passed: LLVM takes one that is not passed to be unchanged by the call.
        passed = (p for p in parts if p.type == "ptr" or p.text not in self.words)
        own = list(dict.fromkeys(p for p in passed if p.text.startswith("%")))
        given = {p.text: inside.load("%data", k, p.type).text for k, p in enumerate(own, 2)}
        given |= {p.text: p.text for p in parts if not p.text.startswith("%")}
        for p in parts:
            if p.text not in given:
                given[p.text] = inside.load("%words", self.words[p.text], p.type).text
        texts = iter([given[p.text] for p in parts])
        for variable, value in known.items():
            inside.bind(variable, value.named(texts))
        inside.in_program = caller.depth > 0
        inside.over_blocks(loop, Value("%first", "i64"), Value("%stop", "i64"))
        head = f"internal i1 @{name}(i64 %first, i64 %stop, ptr %data) noinline"
        self.compiled[name] = inside.definition(head, "ret i1 false", "ret i1 true")
        caller.launch(name, [Value("%words", "ptr"), Value("%context", "ptr"), *own], caller.value(loop.stop))

    def text(self, entry: str) -> str:
        """The module as LLVM IR."""
        return "\n".join([*self.needs.head, ASK, *self.compiled.values(), entry, *self.needs.hints, ""])

    def is_coarse(self, body: Sequence[Stmt]) -> bool:
        """Whether an iteration of a loop may take long: it contains loops or calls."""
        return has_loops(body) or any(isinstance(s, Invoke) for s in statements(body))


class Function(Variables):
    """One function of a module: its statements, loops and arrays.

    Loops have a form that LLVM vectorises: whole vectors and a remainder. Short loops are unrolled.
    """

    def __init__(self, module: Module) -> None:
        super().__init__(module.needs)
        self.module, self.lanes, self.low_trips = module, module.lanes, module.low_trips
        self.widened: Collection[str] = ()  # rows with adjacent lanes
        self.depth = 0  # the depth of loops whose iterations end with a poll
        self.inside = False  # whether inside a loop over elements
        self.short = False  # whether its caller polls often enough
        self.in_program = False  # whether called in iterations of a program loop
        self.of_blocks = False  # whether in a loop over blocks that runs once
        self.results: list[Argument] = []
        self.kept: set[str] = set()  # results, whose memory belongs to the caller

    # -- statements ----------------------------------------------------------------------------

    def run(self, name: str, args: Sequence[Argument]) -> None:
        """The body of a function of the module, called with these arguments."""
        function = self.module.definitions[name]
        found = statements(function.body)
        axes = {s.axis for s in found if isinstance(s, For)}
        totals = {n + LANE for s in found if isinstance(s, Lanes) for n in s.totals}
        stored = assigned(*function.body)
        self.changing = {name for name, count in stored.items() if count > 1} - axes | totals
        self.rounded, self.widened, self.short = function.rounded, function.wide, name in self.module.short
        if self.changing:
            self.types = types_of_kernel(function, [type_of(a) for a in args]).variables
        self.body(function.body)

    def statement(self, s: Stmt) -> None:
        match s:
            case LaneTotal(at=at, value=Call(name=how, args=(_, value))):
                self.total(at, how, self.value(value))
            case LaneUpdate(at=at, value=value):
                assert self.mask is not None
                self.store(at, self.select(self.mask, self.value(value), self.value(at)))
            case LaneByLane():
                self.one_by_one(s)
            case _:
                super().statement(s)

    def invoke(self, name: str, args: Sequence[Expr]) -> None:
        given = [self.argument(a) for a in args]
        if name.startswith("library_"):
            call(self, routine(self.needs, MATRICES, name, given), given)
        else:
            self.module.call(self, name, given)

    def give(self, values: Sequence[Expr]) -> None:
        self.results = [self.argument(r) for r in values]
        self.kept = {r.name for r in values if isinstance(r, Var)} & set(self.heap)

    def iterated(self, body: Sequence[Stmt]) -> None:
        with self.polled(1):
            self.body(body)

    def counted(self, loop: For) -> None:
        """A loop over elements, program iterations, or blocks."""
        if isinstance(loop, LaneRange):
            self.between(loop)
            return
        shared = self.module.shared
        if len(loop.body) == 1 and isinstance(one := loop.body[0], Invoke) and one.name in shared:
            self.module.share(self, loop)
            return
        first, stop = self.value(loop.start), self.value(loop.stop)
        kinds = {(b.type, b.unsigned) for b in (first, stop)}
        if loop.step is not None or len(kinds) > 1 or first.type != "i64":
            raise UnsupportedError(f"the range of {loop.axis}")
        written = short(loop)
        if written is not None:
            self.unrolled(loop.axis, written, loop.body)
        elif loop.kind == "program":
            self.of_program(loop, first, stop)
        elif loop.kind == "blocks" and self.module.is_coarse(loop.body):
            self.over_blocks(loop, first, stop)
        elif loop.kind == "blocks":
            self.of_partial_sums(loop, first, stop)
        else:
            self.of_arrays(loop, first, stop)

    def of_program(self, loop: For, first: Value, stop: Value) -> None:
        """A program loop: a poll follows each iteration, or each strip of iterations without inner loops."""
        if self.module.is_coarse(loop.body):
            if isinstance(loop, Jam):
                first = self.jammed(loop, first, stop)
            with self.iterations(first, stop) as iteration, self.polled(1):
                self.iteration(loop.axis, iteration, loop.body)
            return
        with self.strips(first, stop, literal(1)) as (begin, end):
            self.elements(loop, begin, end)

    def over_blocks(self, loop: For, first: Value, stop: Value) -> None:
        """A loop whose iterations call the function of a nest."""
        self.of_blocks = not (self.depth or self.in_program)
        with self.iterations(first, stop) as iteration, self.polled(POLL_ELEMENTS // 4):
            self.iteration(loop.axis, iteration, loop.body)
        self.of_blocks = False

    def of_partial_sums(self, loop: For, first: Value, stop: Value) -> None:
        """A loop over the few partial sums of blocks, in order: as one loop, which takes no poll."""
        hint = self.needs.hint('vectorize.enable", i1 false', 'unroll.disable"')
        with self.iterations(first, stop, hint) as iteration:
            self.iteration(loop.axis, iteration, loop.body)

    def of_arrays(self, loop: For, first: Value, stop: Value) -> None:
        """A loop over elements. An outermost one runs in strips; in an iteration of a program loop, which
        ends with a poll, it counts its work instead. Inner loops do not poll, and neither do loops of short
        blocks, unless blocks are `heavy`."""
        if self.inside or (self.short and not self.module.heavy):
            self.elements(loop, first, stop)
            return
        self.inside, weight = not self.module.heavy, self.weight(loop.body, {loop.axis})
        if self.depth and self.inside:
            count = self.integers("sub", stop, first)
            self.spend(self.most("umin", self.product(count, weight), literal(1 << 40)))
            self.elements(loop, first, stop)
        else:
            fewest = STRIP_ITERATIONS if isinstance(loop, Lanes | Jam | Tiled) else 1
            if isinstance(loop, Lanes) and loop.sums:
                fewest = SUM_STRIP_ITERATIONS
            own = self.own_weight(loop.body) if self.module.heavy else None
            with self.strips(first, stop, weight, fewest, own) as (begin, end):
                self.elements(loop, begin, end)
        self.inside = False

    def elements(self, loop: For, first: Value, stop: Value) -> None:
        """A loop over elements: iterations as lanes of vectors, several at once, and the rest one by one."""
        if isinstance(loop, Lanes):
            first = self.across(loop, first, stop)
        if isinstance(loop, Jam):
            first = self.jammed(loop, first, stop)
        if isinstance(loop, Tiled):
            self.tiles(loop, first, stop)
        else:
            self.loop(loop, first, stop)

    def tiles(self, loop: Tiled, first: Value, stop: Value) -> None:
        """A loop that runs tile by tile over its innermost loop."""
        inner_first, inner_stop = self.value(loop.inner.start), self.value(loop.inner.stop)
        begin, end = (f"{loop.inner.axis}.{k}" for k in ("begin", "end"))
        with self.tile(inner_first, inner_stop, literal(TILE_ITERATIONS)) as (
            self.values[begin],
            self.values[end],
        ):
            self.loop(loop.over(begin, end), first, stop)
        del self.values[begin], self.values[end]

    def jammed(self, loop: Jam, first: Value, stop: Value) -> Value:
        """Run several iterations at once while enough remain; returns the first remaining iteration."""
        step = len(loop.axes)
        iterations = self.call("llvm.usub.sat.i64", "i64", [stop, first])
        whole = self.emit(f"and {iterations}, {-step}", "i64")
        rest = self.emit(f"add {first}, {whole.text}", "i64")._replace(unsigned=first.unsigned)
        polled = self.polled(step) if loop.kind == "program" else nullcontext()
        with self.iterations(first, rest, step=step) as iteration, polled:
            for k, name in enumerate(loop.axes):
                self.values[name] = self.emit(f"add {iteration}, {k}", "i64")._replace(
                    unsigned=first.unsigned
                )
            self.body(loop.together)
        return rest

    def across(self, loop: Lanes, first: Value, stop: Value) -> Value:
        """Run the iterations of a loop as lanes; returns the first remaining iteration. The lanes beyond the
        end of the last vector are masked.

        Either all iterations of a nest are lanes or none: otherwise equal values in two iterations would have
        different last bits. So the condition is that the nest's blocks are large enough, not what is left of
        this one.
        """
        least, lanes, name = self.module.lanes, self.module.lanes * loop.vectors, loop.axis
        if least == 1:
            return first
        self.width = self.wide = lanes
        if loop.of_block:
            before = self.product(self.value(BLOCK), literal(least))
            allowed = [
                self.emit(f"icmp uge {first}, {before.text}", "i1"),
                self.emit(f"icmp uge {stop}, {least}", "i1"),
            ]
        else:
            count = self.call("llvm.usub.sat.i64", "i64", [self.value(loop.stop), self.value(loop.start)])
            allowed = [self.emit(f"icmp uge {count}, {least}", "i1")]
        allowed += [self.emit(f"icmp ule {self.value(n)}, {loop.most}", "i1") for n in loop.few]
        allowed += [self.copy_of(array, [axis]) for array, axis in loop.copies.items()]
        allowed += [self.copy_of(array, range(1, len(self.known(array).shape))) for array in loop.sums]
        end = self.select(self.both("and", allowed), stop, first)._replace(unsigned=first.unsigned)
        kinds = {n: self.value(Var(n)).type for n in loop.totals}
        for n, how in loop.totals.items():
            start = INTEGER_EXTREMA[how] if how in INTEGER_EXTREMA else REDUCTIONS[how]
            self.bind(n + LANE, literal(start, kinds[n]))
        if loop.sums:
            begins = self.emit(f"icmp ult {first}, {end.text}", "i1")
            with self.when(begins):
                self.body(loop.before)
        with self.iterations(first, end, step=lanes) as iteration:
            self.values[name] = iteration
            each = self.integers("add", iteration, self.lane_numbers())
            self.values[name + LANE] = each._replace(unsigned=iteration.unsigned)
            self.mask = self.emit(f"icmp ult {each}, {self.spread(stop, lanes).text}", each.typed("i1"))
            self.summed = {n + LANE for n in loop.totals}
            self.body(loop.together)
            self.summed = set()
            del self.values[name], self.values[name + LANE]
        for n, how in loop.totals.items():
            found = self.added_up(how, self.value(Var(n + LANE)))
            self.bind(n, self.function(how, [self.value(Var(n)), found]))
        self.mask = None
        if loop.sums:
            with self.when(begins):
                self.body(loop.after)
        self.width = 1
        for array in (*loop.copies, *loop.sums):
            self.call("PyMem_RawFree", "void", [self.arrays[array + LANE].data])
            self.lines.append(f"store ptr null, ptr %lanes_{array}")
        return end

    def one_by_one(self, statement: LaneByLane) -> None:
        """A loop that runs separately for each lane."""
        assert self.mask is not None
        width, mask, values = self.width, self.mask, dict(self.values)
        start, stop = (self.spread(self.value(n), width) for n in (statement.start, statement.stop))
        less = "ult" if start.unsigned else "slt"
        begins = self.both("and", [mask, self.emit(f"icmp {less} {start}, {stop.text}", mask.type)])
        with self.one_of(begins) as lane:
            for name in statement.names:
                found = self.value(Var(name + LANE))
                one = self.emit(f"extractelement {found}, {lane}", found.element)
                self.values.pop(name, None)
                self.bind(name, one._replace(unsigned=found.unsigned))
            self.width, self.mask, self.lane = 1, None, lane
            self.statement(statement.loop)
        self.width, self.mask, self.lane, self.values = width, mask, None, values

    def between(self, loop: LaneRange) -> None:
        """A loop that lanes run together: in those of its iterations that not all lanes have, the others keep
        their values; those that no lane has are left out."""
        assert self.mask is not None
        whole, width = self.mask, self.width
        start, stop = (self.spread(self.value(n), width) for n in (loop.start, loop.stop))
        less, kind = ("ult", "u") if start.unsigned else ("slt", "s")

        def extreme(how: str, bounds: Value, other: int) -> Value:
            chosen = self.select(whole, bounds, self.spread(literal(other), width))
            found = f"llvm.vector.reduce.{kind}{how}.{suffix(chosen)}"
            return self.call(found, "i64", [chosen])._replace(unsigned=start.unsigned)

        most = 2**63 - 1
        first, last = extreme("min", start, most), extreme("max", stop, 0)
        begin, end = extreme("max", start, 0), extreme("min", stop, most)
        middle = self.most(f"{kind}min", begin, last)
        after = self.most(f"{kind}max", self.most(f"{kind}min", end, last), middle)
        kept = {n for n in assigned(*loop.body) if n in self.changing and n in self.places}
        for a, b, masked in ((first, middle, True), (middle, after, False), (after, last, True)):
            a, b = (v._replace(unsigned=start.unsigned) for v in (a, b))
            with self.iterations(a, b) as iteration:
                if not masked:
                    self.iteration(loop.axis, iteration, loop.body)
                    continue
                each = self.spread(iteration, width)
                before_start = self.emit(f"icmp {less} {each}, {start.text}", whole.type)
                before_stop = self.emit(f"icmp {less} {each}, {stop.text}", whole.type)
                inside = self.both("and", [whole, self.unary("not", before_start), before_stop])
                bits = self.emit(f"bitcast {inside} to i{width}", f"i{width}")
                with self.when(self.emit(f"icmp ne {bits}, 0", "i1")):
                    summed, self.mask, self.summed = self.summed, inside, self.summed | kept
                    self.iteration(loop.axis, iteration, loop.body)
                    self.mask, self.summed = whole, summed

    def total(self, target: Access, how: str, value: Value) -> None:
        """Add the values of all lanes to one element."""
        value = self.spread(value, self.width)
        if self.mask is not None:
            value = self.select(self.mask, value, literal(REDUCTIONS[how], value.type))
        self.store(target, self.function(how, [self.value(target), self.added_up(how, value)]))

    def function(self, name: str, args: list[Value]) -> Value:
        if is_special(name):
            return special(self, name, args)
        return super().function(name, args)

    def binary(self, op: str, x: Value, y: Value) -> Value:
        if op == "**" and x.element == y.element == "i64":
            power = routine(self.needs, "whole", "power", [Value("", "i64")] * 2)
            return self.lane_by_lane(partial(call, self, power), *self.together(x, y))
        return super().binary(op, x, y)

    def lane_by_lane(self, function: Callable[[Sequence[Value]], Value], *args: Value) -> Value:
        """A function of numbers, for each lane."""
        lanes = args[0].lanes
        if lanes == 1:
            return function(args)
        result = Value("poison", args[0].type)
        for k in range(lanes):
            one = function([self.emit(f"extractelement {a}, i64 {k}", a.element) for a in args])
            result = self.emit(f"insertelement {result}, {one}, i64 {k}", result.type)
        return result

    # -- loops -----------------------------------------------------------------------------------

    def unrolled(self, name: str, iterations: range, body: Sequence[Stmt]) -> None:
        """The unrolled iterations of a short loop."""
        for k in iterations:
            self.values[name] = literal(k)._replace(unsigned=True)
            self.body(body)
        self.values.pop(name, None)

    def loop(self, loop: For, first: Value, stop: Value) -> None:
        """A loop from `first` to `stop`; in strips if it divides its counter."""
        if found := self.quotients(loop, first):
            begin = f"{loop.axis}.begin"
            inner, names = in_strip(loop, found, begin)
            with self.strip(loop.axis, [*found], names, begin, first, stop) as (start, end):
                self.plain(inner, start, end)
            return
        self.plain(loop, first, stop)

    def plain(self, loop: For, first: Value, stop: Value) -> None:
        """A loop over all iterations, in the parts that LLVM vectorises."""
        vectors = self.needs.vectors
        body = sums_last(loop.body) if vectors is not None and self.forced(loop, vectors) else loop.body
        for start, end, hint in self.parts(loop, first, stop):
            with self.iterations(start, end, hint) as iteration:
                self.iteration(loop.axis, iteration, body)

    def quotients(self, loop: For, first: Value) -> dict[Quotient, list[Binary]]:
        """The quotients of integers that strips of a loop count."""
        found = quotients(loop) if self.width == 1 and loop.kind != "edges" else {}
        if found:
            self.values[loop.axis] = first
            kinds = {q: {self.value(e).type for e in (q.numerator, q.divisor)} for q in found}
            del self.values[loop.axis]
            found = {q: nodes for q, nodes in found.items() if kinds[q] == {"i64"}}
        return found

    @contextmanager
    def strip(
        self,
        axis: str,
        found: Sequence[Quotient],
        names: Sequence[str],
        begin: str,
        first: Value,
        stop: Value,
    ) -> Iterator[tuple[Value, Value]]:
        """A loop over strips in which no quotient changes: binds `names` and yields the start and end of
        each."""
        less = "ult" if first.unsigned else "slt"
        with self.when(self.emit(f"icmp {less} {first}, {stop.text}", "i1")):
            start = Value(f"%strip{len(self.lines)}", "i64", first.unsigned)
            end = start

            def following() -> tuple[str, Value]:
                return end.text, self.emit(f"icmp {less} {end}, {stop.text}", "i1")

            with self.repeated(start.text, first, following):
                self.values[axis], self.values[begin] = start, start._replace(unsigned=False)
                count = self.emit(f"sub {stop}, {start.text}", "i64")
                for k, quotient in enumerate(found):
                    number, divisor = self.value(quotient.numerator), self.value(quotient.divisor)
                    whole, rest = (self.divided(op, number, divisor) for op in ("//", "%"))
                    self.values[names[2 * k]], self.values[names[2 * k + 1]] = whole, rest
                    left = self.emit(f"sub {divisor}, {rest.text}", "i64") if quotient.step > 0 else rest
                    more = quotient.step - 1 if quotient.step > 0 else -quotient.step
                    left = self.emit(f"add {left}, {more}", "i64")
                    left = self.emit(f"sdiv {left}, {abs(quotient.step)}", "i64")
                    positive = self.emit(f"icmp sgt {divisor}, 0", "i1")
                    left = self.select(positive, left, literal(1))
                    count = self.call("llvm.umin.i64", "i64", [count, left])
                end = self.emit(f"add {start}, {count.text}", "i64")._replace(unsigned=first.unsigned)
                del self.values[axis]
                yield start, end
                for name in (begin, *names):
                    del self.values[name]

    def iteration(self, name: str, iteration: Value, body: Sequence[Stmt]) -> None:
        """One iteration of a loop."""
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
            most = self.most("umax", most, inner)
        return most

    def own_weight(self, body: Sequence[Stmt]) -> int:
        """The same of an iteration without its inner loops, which count theirs."""
        inner = [s for s in body if isinstance(s, If)]
        calls = any(isinstance(s, Invoke) for s in body)
        return max([UNKNOWN_ITERATIONS**2 if calls else 1, *(self.own_weight(s.body) for s in inner)])

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
        few = loop.kind == "edges"
        if few or vectors is None or self.width > 1 or not vectorises(loop.body, self.changing):
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
        wide = self.forced(loop, vectors)
        pairs, alone = (f'interleave.count", i32 {n}' for n in (VECTORS_OF_CALLS, 1))
        masked = 'vectorize.predicate.enable", i1 true'
        hints = self.needs.hint(*wide, pairs), self.needs.hint(*wide, alone, masked)
        return [(first, middle, hints[0]), (middle, stop, hints[1])]

    def forced(self, loop: For, vectors: Set) -> list[str]:
        """The width of vectors, if LLVM must not decide whether they pay: it takes a call of a function to
        cost as much as ten additions, and would rather keep loads under conditions apart."""
        if not has_vector_calls(loop.body) or not are_unordered(loop, self.changing):
            return []
        return [f'vectorize.width", i32 {vectors.lanes("double" if self.needs.doubles else "float")}']

    def hint(self, loop: For) -> str:
        """The hint for an innermost loop: that it is short, in a kernel for low trip counts
        (`short_loops.py`), or how to interleave its reductions."""
        if has_loops(loop.body):
            return ""
        if loop.kind == "edges":
            return self.needs.hint('vectorize.enable", i1 false', 'unroll.disable"')
        if not (self.low_trips and self.depth) or loop.kind == "program":
            count = interleaving(loop.body)
            hints = [f'interleave.count", i32 {count}'] if count else []
            if is_constant(loop):  # LLVM would write out the loop before it vectorises
                hints.append('unroll.disable"')
            return self.needs.hint(*hints) if hints else ""
        free = are_unordered(loop, self.changing)
        wide = [f'vectorize.width", i32 {LOW_TRIP_LANES}'] if free else []
        return self.needs.hint(*wide, 'interleave.count", i32 1', 'unroll.disable"')

    # -- memory ----------------------------------------------------------------------------------

    def allocate(self, s: Allocate) -> None:
        """Allocate an array: on the stack if it is small, so that LLVM may keep it in registers."""
        name, lengths = s.name, [self.value(n) for n in s.shape]
        kind = self.value(Var(s.like)).type if isinstance(s, Expand) else TYPES[s.dtype]
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
        """Allocate an array of computed lengths; the name's earlier memory is used again if large enough.

        If allocation fails, the function gives up.
        """
        if self.heap.setdefault(name, (kind, len(lengths))) != (kind, len(lengths)):
            raise UnsupportedError(f"arrays of different types in {name}")
        place = f"%heap_{name}"
        slots = [f"{place}_{d}" for d in range(len(lengths))]
        if place[1:] not in self.held:
            self.held.append(place[1:])
            self.stack += [f"{slot} = alloca i64" for slot in (*slots, f"{place}_more")]
            self.stack.append(f"store i64 0, ptr {place}_more")  # one more than the bytes of the memory
        size = literal(BYTES[kind])
        for slot, n in zip(slots, lengths, strict=True):
            self.lines.append(f"store {n}, ptr {slot}")
            size = self.product(size, n)
        more = self.emit(f"load i64, ptr {place}_more", "i64")
        with self.when(self.emit(f"icmp uge {size}, {more.text}", "i1")):
            self.free(name)
            data = self.call("PyMem_RawMalloc", "ptr", [size])
            self.lines.append(f"store {data}, ptr {place}")
            more = self.emit(f"add {size}, 1", "i64")
            self.lines.append(f"store {more}, ptr {place}_more")
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


class LocatedFunction(Function):
    """A function of a module that is listed: its instructions have the marks of the loop IR."""

    def __init__(self, module: Module, name: str) -> None:
        super().__init__(module)
        assert self.needs.places is not None
        self.scope = self.needs.places.subprogram(name, self.needs.hints)

    def statement(self, s: Stmt) -> None:
        first = len(self.lines)
        super().statement(s)
        self.locate(first, s.mark)

    def value(self, node: Expr) -> Value:
        first = len(self.lines)
        found = super().value(node)
        if node.mark:
            self.locate(first, node.mark)
        return found

    def locate(self, first: int, mark: int) -> None:
        """Give a mark to the instructions from number `first` on that have none."""
        self.lines[first:] = located(self.lines[first:], mark, self.scope)

    def definition(self, head: str, end: str, otherwise: str = "") -> str:
        first, *lines, last = super().definition(head, end, otherwise).split("\n")
        first = f"{first.removesuffix(' {')} !dbg !{self.scope} {{"
        return "\n".join([first, *located(lines, 0, self.scope), last])


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


def is_constant(loop: For) -> bool:
    """Whether the number of iterations is a constant."""
    ends = (loop.start, loop.stop)
    return all(isinstance(n, Call) and n.name == "uint64" and isinstance(n.args[0], Literal) for n in ends)


def divides(statement: Stmt) -> bool:
    """Whether a statement has a remainder or floored quotient by a non-constant."""
    return any(
        isinstance(n, Binary) and n.op in ("%", "//") and not isinstance(n.right, Literal)
        for s in statements([statement])
        for n in read_by(s)
    )


# -- special -----------------------------------------------------------------------------------------
# Scalar special functions (`ops/rules/series.py`, `bessel.py`) in LLVM: one per type and order.


def special(code: Variables, name: str, args: Sequence[Value]) -> Value:
    """The special function `module.name` of floats; its orders are constants.

    It computes in float64. Kernels call a function of one type that is not inlined until loops are
    vectorised; for vectors it is called lane by lane, and the rest of the loop is still vectorised.
    """
    module, _, function = name.partition(".")
    ordered = source(module).definitions[function].params[0] == ORDER and not args[0].text.startswith("%")
    orders = [literal(int(args[0].number))] if ordered else []
    points = code.together(*args[len(orders) :])
    scalar = _scalar(code.needs, module, function, orders, points)
    if code.needs.vectors is None:
        return call(code, Routine(scalar, points[0].type, PURE), points)
    return code.emit(own_call(code.needs, code.needs.vectors, scalar, points), points[0].type)


def _scalar(
    needs: Needs, module: str, function: str, orders: Sequence[Value], points: Sequence[Value]
) -> str:
    """The function for a float type and an order, as a kernel calls it."""
    kind = points[0].element
    own = "_".join([f"adc_{function}", *(o.text.replace("-", "m") for o in orders), LETTERS[kind]])
    if own not in needs.declared:
        code = Instructions(needs)
        given = [Value(f"%{x}", kind) for x in PARAMETERS[: len(points)]]
        wide = [*orders, *(code.cast(x, "double") for x in given)]
        found = call(code, routine(needs, module, function, wide), wide)
        head = f"internal {kind} @{own}({', '.join(map(str, given))}) noinline {PURE}"
        needs.declared[own] = code.definition(head, f"ret {code.cast(found, kind)}")
    return own
