"""From the text of a kernel to LLVM: its functions, statements and arrays.

A variable that is assigned once is a register; one that changes has a place on the stack, which LLVM
makes a register again.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import nullcontext

from adcompiler.codegen.llvm.across import LANE, TOTALS, Alone, Kept, Lane, Lanes, Total
from adcompiler.codegen.llvm.blocks import ADDING, ASK, FUEL, LEAST
from adcompiler.codegen.llvm.jam import Jam
from adcompiler.codegen.llvm.lanes import functions_of
from adcompiler.codegen.llvm.loops import Loops
from adcompiler.codegen.llvm.routines import call, routine, special
from adcompiler.codegen.llvm.short import has_loops, short
from adcompiler.codegen.llvm.tables import CASTS, SOURCES
from adcompiler.codegen.llvm.tiled import TILE, Tiled
from adcompiler.codegen.llvm.turns import array_of, is_of_program, turn_of
from adcompiler.codegen.llvm.values import ArrayValue, Needs, UnsupportedError, Value, literal, typed
from adcompiler.codegen.llvm.variables import indices_of
from adcompiler.codegen.trees import walk


class Module:
    """The functions of a text, compiled for the types of a call when one is compiled.

    The loops over the blocks of the nests `shared` may be divided among threads, and each turn of a nest has
    `rows` for itself. What the functions need is added to `needs`.
    """

    def __init__(
        self, text: str, shared: Sequence[str] = (), needs: Needs | None = None, rows: Collection[str] = ()
    ) -> None:
        self.shared = shared
        self.heavy = False  # whether turns of nests take so long that loops inside them poll
        self.low_trips = False  # whether loops in turns of the program are short
        self.definitions = {d.tree.name: d for d in functions_of(text, frozenset(rows))}
        self.needs = needs or Needs()
        self.compiled: dict[str, str] = {}
        self.asking: set[str] = set()  # functions that may give up
        vectors = self.needs.vectors
        self.lanes = 1 if vectors is None else vectors.lanes("double" if self.needs.doubles else "float")

    def call(self, caller: Function, name: str, args: Sequence[Value | ArrayValue]) -> None:
        """A call of a function that returns nothing; each is called with one list of types only."""
        parts = [p for a in args for p in a.parts]
        if name not in self.compiled:
            self.compiled[name] = ""
            if name not in self.definitions:
                raise UnsupportedError
            names = iter([f"%p{k}" for k in range(len(parts))])
            inside = Function(self)
            for param, arg in zip(self.definitions[name].tree.args.args, args, strict=True):
                inside.bind(param.arg, arg.named(names))
            inside.run(name)
            if inside.heap:
                raise UnsupportedError  # nobody would give it back
            # An array that is written has one name only, whatever a program does: see `cpu.py`.
            types = ("ptr noalias" if p.type == "ptr" else p.type for p in parts)
            params = ", ".join([*(f"{t} %p{k}" for k, t in enumerate(types)), "ptr %context"])
            self.compiled[name] = inside.definition(f"internal void @{name}({params})", "ret void")
            self.asking |= {name} if inside.gives_up else set()
        caller.lines.append(f"call void @{name}({', '.join([*map(str, parts), 'ptr %context'])})")
        if name in self.asking:
            caller.unless_stopped()

    def share(self, caller: Function, statement: ast.For) -> None:
        """A loop over blocks as a function of its own that does some of them, from a first one to before
        another, and returns whether the call shall end; the threads of a parallel region call it (`pool.py`).
        """
        used = {n.id for n in walk(statement) if isinstance(n, ast.Name)}
        known = {n: caller.bound(n) for n in sorted(used) if caller.knows(n)}
        parts = [p for v in known.values() for p in v.parts]
        name = f"share{len(self.compiled)}"
        self.compiled[name] = ""
        inside = Function(self)
        slots = [inside.load("%data", k, p.type) for k, p in enumerate(parts)]
        inside.lines.append(f"%context = load ptr, ptr {inside.slot('%data', len(parts))}")
        names = iter([s.text for s in slots])
        for variable, value in known.items():
            inside.bind(variable, value.named(names))
        assert isinstance(statement.target, ast.Name)
        start, stop = Value("%first", "i64"), Value("%stop", "i64")
        inside.over_blocks(statement.target.id, start, stop, statement.body)
        head = f"internal i1 @{name}(i64 %first, i64 %stop, ptr %data) noinline"
        self.compiled[name] = inside.definition(head, "ret i1 false", "ret i1 true")
        assert isinstance(statement.iter, ast.Call)
        caller.launch(name, parts, caller.value(statement.iter.args[0]))

    def text(self, entry: str) -> str:
        """The module in LLVM's language."""
        return "\n".join([*self.needs.head, ASK, *self.compiled.values(), entry, *self.needs.hints, ""])

    def is_coarse(self, body: Sequence[ast.stmt]) -> bool:
        """Whether a turn of a loop may take long: it has loops, or calls functions."""
        nodes = (n for s in body for n in walk(s) if isinstance(n, ast.Expr))
        calls = (n.value.func for n in nodes if isinstance(n.value, ast.Call))
        return has_loops(body) or any(isinstance(f, ast.Name) for f in calls)


class Function(Loops):
    """One function of a module: its statements."""

    def __init__(self, module: Module) -> None:
        super().__init__(module.needs, module.lanes)
        self.module, self.low_trips = module, module.low_trips
        self.exits: list[str] = []
        self.inside = False  # a loop over elements
        self.results: list[Value | ArrayValue] = []
        self.kept: set[str] = set()  # arrays that are results, whose memory is the caller's

    # -- statements ----------------------------------------------------------------------------

    def run(self, name: str) -> None:
        """The body of a function of the module."""
        tree, self.rounded = self.module.definitions[name]
        statements = tree.body
        nodes = [n for s in statements for n in walk(s)]
        stored = Counter(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        loops = {n.target.id for n in nodes if isinstance(n, ast.For) and isinstance(n.target, ast.Name)}
        totals = {n + LANE for s in statements if isinstance(s, Lanes) for n in s.totals}
        self.changing = {name for name, count in stored.items() if count > 1} - loops | totals
        self.widened = {array_of(n) for n in nodes if isinstance(n, Lane) and n.row}
        self.body(statements)

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Statements in order."""
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: ast.stmt) -> None:
        shared = self.module.shared
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(attr="empty"), args=[ast.Tuple(elts=lengths), dtype]),
            ):
                self.allocate(name, [self.value(n) for n in lengths], CASTS[ast.unparse(dtype)])
            case Total(targets=[ast.Subscript() as target], value=ast.Call(func=how, args=[_, value])):
                self.total(target, ast.unparse(how), self.value(value))
            case Kept(targets=[ast.Subscript() as target], value=value):
                assert self.mask is not None
                self.store(target, self.select(self.mask, self.value(value), self.value(target)))
            case Alone():
                self.one_by_one(statement)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.bind(name, self.value(value))
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=parts)):
                found = [self.value(p) for p in parts]
                for variable, part in zip(targets, found, strict=True):
                    self.bind(ast.unparse(variable), part)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                self.bind(name, self.binary(op, self.value(target), self.value(value)))
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                self.store(target, self.value(value))
            case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value):
                self.store(target, self.binary(op, self.value(target), self.value(value)))
            case ast.For(body=[ast.Expr(value=ast.Call(func=ast.Name(id=nest)))]) if nest in shared:
                self.module.share(self, statement)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=args)):
                bounds = [self.value(a) for a in args]
                first = bounds[0] if len(bounds) == 2 else literal(0)
                if any(b.type != "i64" or b.unsigned != first.unsigned for b in bounds):
                    raise UnsupportedError
                turns = short(statement)
                if turns is not None:
                    self.written_out(name, turns, statement.body)
                    return
                if is_of_program(name):
                    self.of_program(statement, first, bounds[-1])
                elif name == "block" and self.module.is_coarse(statement.body):
                    self.over_blocks(name, first, bounds[-1], statement.body)
                else:
                    self.of_arrays(statement, first, bounds[-1])
            case ast.While(test=ast.Constant(value=True), body=body):
                self.forever(body)
            case ast.Break() if self.exits:
                self.lines.append(f"br label %{self.exits[-1]}")
                self.begin(f"{self.label()}_never")  # what follows is not reached
            case ast.If(test=test, body=body, orelse=[]):
                with self.when(self.cast(self.value(test), "i1")):
                    self.body(body)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=args)) if name.startswith("library_"):
                given = [self.argument(a) for a in args]
                call(self, routine(self.needs, "library", name, given), given)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=args)):
                self.module.call(self, name, [self.argument(a) for a in args])
            case ast.Return(value=ast.Tuple(elts=results)):
                self.results = [self.argument(r) for r in results]
                self.kept = {r.id for r in results if isinstance(r, ast.Name)} & set(self.heap)
            case ast.Pass():
                pass
            case _:
                raise UnsupportedError

    def of_program(self, loop: ast.For, first: Value, stop: Value) -> None:
        """A loop of the program: each turn ends with a poll, or each strip of turns without loops inside."""
        if self.module.is_coarse(loop.body):
            if isinstance(loop, Jam):
                first = self.several(loop, first, stop)
            with self.turns(first, stop) as turn, self.polled(1):
                self.turn(turn_of(loop), turn, loop.body)
            return
        with self.strips(first, stop, literal(1)) as (begin, end):
            self.elements(loop, begin, end)

    def over_blocks(self, name: str, first: Value, stop: Value, body: Sequence[ast.stmt]) -> None:
        """A loop whose turns call the function of a nest."""
        with self.turns(first, stop) as turn, self.polled(FUEL // 4):
            self.turn(name, turn, body)

    def of_arrays(self, loop: ast.For, first: Value, stop: Value) -> None:
        """A loop over elements. An outermost one is done in strips, or, in a turn of the program, after which
        there is a poll, says how much it does; others know of no polls, unless turns are `heavy`."""
        if self.inside:
            self.elements(loop, first, stop)
            return
        self.inside, weight = not self.module.heavy, self.weight(loop.body)
        if self.depth and self.inside:
            turns = self.emit(f"sub {stop}, {first.text}", "i64")
            self.spend(self.call("llvm.umin.i64", "i64", [self.product(turns, weight), literal(1 << 40)]))
            self.elements(loop, first, stop)
        else:
            fewest = LEAST if isinstance(loop, Lanes | Jam | Tiled) else 1
            if isinstance(loop, Lanes) and loop.sums:
                fewest = ADDING
            with self.strips(first, stop, weight, fewest) as (begin, end):
                self.elements(loop, begin, end)
        self.inside = False

    def elements(self, loop: ast.For, first: Value, stop: Value) -> None:
        """A loop over elements: turns as lanes of vectors, several turns at once, and the rest one by one."""
        if isinstance(loop, Lanes):
            first = self.across(loop, first, stop)
        if isinstance(loop, Jam):
            first = self.several(loop, first, stop)
        if isinstance(loop, Tiled):
            self.tiles(loop, first, stop)
        else:
            self.loop(turn_of(loop), first, stop, loop.body)

    def tiles(self, loop: Tiled, first: Value, stop: Value) -> None:
        """A loop for one tile of its innermost loop after the other."""
        assert isinstance(loop.inner.iter, ast.Call)
        inner_first, inner_stop = (self.value(n) for n in loop.inner.iter.args)
        begin, end = (f"{turn_of(loop.inner)}.{k}" for k in ("begin", "end"))
        with self.tile(inner_first, inner_stop, literal(TILE)) as (self.values[begin], self.values[end]):
            self.loop(turn_of(loop), first, stop, loop.over(begin, end))
        del self.values[begin], self.values[end]

    def several(self, loop: Jam, first: Value, stop: Value) -> Value:
        """Several turns at once, as long as there are enough; the first turn that is left."""
        step = len(loop.turns)
        turns = self.call("llvm.usub.sat.i64", "i64", [stop, first])
        whole = self.emit(f"and {turns}, {-step}", "i64")
        rest = self.emit(f"add {first}, {whole.text}", "i64")._replace(unsigned=first.unsigned)
        polled = self.polled(step) if is_of_program(turn_of(loop)) else nullcontext()
        with self.turns(first, rest, step=step) as turn, polled:
            for k, name in enumerate(loop.turns):
                self.values[name] = self.emit(f"add {turn}, {k}", "i64")._replace(unsigned=first.unsigned)
            self.body(loop.together)
        return rest

    def across(self, loop: Lanes, first: Value, stop: Value) -> Value:
        """The turns of a loop as lanes; the first turn that is left."""
        lines, stack, block = len(self.lines), len(self.stack), self.block
        values, places, factors = dict(self.values), dict(self.places), dict(self.factors)
        try:
            return self.vectors(loop, first, stop)
        except UnsupportedError:  # turn by turn it may be possible
            del self.lines[lines:], self.stack[stack:]
            self.block, self.values, self.places, self.factors = block, values, places, factors
            return first
        finally:
            self.width, self.mask = 1, None

    def vectors(self, loop: Lanes, first: Value, stop: Value) -> Value:
        """A loop over vectors of turns; lanes beyond its end do nothing.

        All turns of a nest are lanes, or none: else what is the same in two turns would have other last bits.
        So it asks whether the blocks of the nest are large enough, not what is left of this one.
        """
        self.width = self.wide = lanes = self.module.lanes
        if lanes == 1:
            return first
        assert isinstance(loop.target, ast.Name)
        name = loop.target.id
        least = self.product(self.value(ast.Name("block")), literal(lanes))
        allowed = [
            self.emit(f"icmp uge {first}, {least.text}", "i1"),
            self.emit(f"icmp uge {stop}, {lanes}", "i1"),
        ]
        allowed += [self.copy_of(array, [axis]) for array, axis in loop.copies.items()]
        allowed += [self.copy_of(array, range(1, len(self.known(array).shape))) for array in loop.sums]
        end = self.select(self.both("and", allowed), stop, first)._replace(unsigned=first.unsigned)
        kinds = {n: self.value(ast.Name(n)).type for n in loop.totals}
        for n, how in loop.totals.items():
            self.bind(n + LANE, literal(TOTALS[how], kinds[n]))
        if loop.sums:
            begins = self.emit(f"icmp ult {first}, {end.text}", "i1")
            with self.when(begins):
                self.body(loop.before)
        with self.turns(first, end, step=lanes) as turn:
            steps = ", ".join(f"i64 {k}" for k in range(lanes))
            self.values[name] = turn
            each = self.integers("add", turn, Value(f"<{steps}>", typed("i64", lanes)))
            self.values[name + LANE] = each
            self.mask = self.emit(f"icmp ult {each}, {self.spread(stop, lanes).text}", each.typed("i1"))
            self.summed = {n + LANE for n in loop.totals}
            self.body(loop.together)
            self.summed = set()
            del self.values[name], self.values[name + LANE]
        for n, how in loop.totals.items():
            found = self.added_up(how, self.value(ast.Name(n + LANE)))
            self.bind(n, self.function(how, [self.value(ast.Name(n)), found]))
        self.mask = None
        if loop.sums:
            with self.when(begins):
                self.body(loop.after)
        for array in (*loop.copies, *loop.sums):
            self.call("PyMem_RawFree", "void", [self.arrays[array + LANE].data])
            self.lines.append(f"store ptr null, ptr %lanes_{array}")
        return end

    def one_by_one(self, statement: Alone) -> None:
        """A loop that each lane does for itself."""
        assert self.mask is not None
        width, mask, values = self.width, self.mask, dict(self.values)
        start, stop = (self.spread(self.value(n), width) for n in statement.head.args)
        less = "ult" if start.unsigned else "slt"
        begins = self.both("and", [mask, self.emit(f"icmp {less} {start}, {stop.text}", mask.type)])
        with self.one_of(begins) as lane:
            for name in statement.names:
                found = self.value(ast.Name(name + LANE))
                one = self.emit(f"extractelement {found}, {lane}", found.element)
                self.values.pop(name, None)
                self.bind(name, one._replace(unsigned=found.unsigned))
            self.width, self.mask, self.lane = 1, None, lane
            self.statement(statement.loop)
        self.width, self.mask, self.lane, self.values = width, mask, None, values

    def total(self, target: ast.Subscript, how: str, value: Value) -> None:
        """Add what all lanes have to one element."""
        value = self.spread(value, self.width)
        if self.mask is not None:
            value = self.select(self.mask, value, literal(TOTALS[how], value.type))
        self.store(target, self.function(how, [self.value(target), self.added_up(how, value)]))

    def forever(self, body: Sequence[ast.stmt]) -> None:
        """`while True`, which something inside leaves."""
        turn = self.label()
        self.exits.append(f"{turn}_exit")
        self.lines.append(f"br label %{turn}")
        self.begin(turn)
        with self.polled(1):
            self.body(body)
        self.lines.append(f"br label %{turn}")
        self.begin(self.exits.pop())

    def function(self, name: str, args: list[Value]) -> Value:
        if name.partition(".")[0] in SOURCES:
            return special(self, name, args)
        return super().function(name, args)

    def binary(self, op: ast.operator, x: Value, y: Value) -> Value:
        if isinstance(op, ast.Pow) and x.type == y.type == "i64":
            return call(self, routine(self.needs, "whole", "power", [x, y]), [x, y])
        return super().binary(op, x, y)

    def argument(self, node: ast.expr) -> Value | ArrayValue:
        """What is passed to a function of the module."""
        match node:
            case ast.Name(id=name) if found := self.array(name):
                return found
            case ast.Subscript(value=ast.Name(id=name)) if len(indices_of(node)) < len(
                self.known(name).shape
            ):
                return self.part_of(self.known(name), node)
        return self.value(node)
