"""From the text of a kernel to LLVM: its functions, statements and arrays.

A variable that is assigned once is a register; one that changes has a place on the stack, which LLVM
makes a register again.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from math import prod

from adcompiler.codegen.llvm.blocks import Blocks
from adcompiler.codegen.llvm.jam import Jam, jammed
from adcompiler.codegen.llvm.short import short
from adcompiler.codegen.llvm.tables import BYTES, CASTS
from adcompiler.codegen.llvm.values import ArrayValue, Needs, UnsupportedError, Value, literal
from adcompiler.codegen.llvm.vectors import vectorises

SMALL = 64  # elements of an array on the stack
PAIR = 2  # vectors at a time in loops that call functions


class Module:
    """The functions of a text, compiled for the types of a call when one is compiled.

    The loops over the blocks of the nests `shared` may be divided among threads. What they need is
    added to `needs`.
    """

    def __init__(self, text: str, shared: Sequence[str] = (), needs: Needs | None = None) -> None:
        self.shared = shared
        found = [jammed(n) for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
        self.definitions = {n.name: n for n in found}
        self.needs = needs or Needs()
        self.compiled: dict[str, str] = {}

    def call(self, caller: Function, name: str, args: Sequence[Value | ArrayValue]) -> None:
        """A call of a function that returns nothing; each is called with one list of types only."""
        parts = [p for a in args for p in a.parts]
        if name not in self.compiled:
            self.compiled[name] = ""
            if name not in self.definitions:
                raise UnsupportedError
            names = iter([f"%p{k}" for k in range(len(parts))])
            inside = Function(self)
            for param, arg in zip(self.definitions[name].args.args, args, strict=True):
                inside.bind(param.arg, arg.named(names))
            inside.run(name)
            if inside.heap:
                raise UnsupportedError  # nobody would give it back
            # An array that is written has one name only, whatever a program does: see `cpu.py`.
            types = ("ptr noalias" if p.type == "ptr" else p.type for p in parts)
            params = ", ".join(f"{t} %p{k}" for k, t in enumerate(types))
            self.compiled[name] = inside.definition(f"internal void @{name}({params})", "ret void")
        caller.lines.append(f"call void @{name}({', '.join(map(str, parts))})")

    def share(self, caller: Function, statement: ast.For) -> None:
        """A loop over blocks as a function of its own that does a part of the turns.

        It is called once, or by `%launch` from `%threads` threads; that has the interface of numba's
        `parallel_for`, which passes each thread the number of its first part and how many there are.
        """
        used = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        known = {n: caller.bound(n) for n in sorted(used) if caller.knows(n)}
        parts = [p for v in known.values() for p in v.parts]
        name = f"share{len(self.compiled)}"
        self.compiled[name] = ""
        inside = Function(self)
        slots = [inside.load("%data", k, p.type) for k, p in enumerate((*parts, literal(0)))]
        names = iter([s.text for s in slots])
        for variable, value in known.items():
            inside.bind(variable, value.named(names))
        first = inside.load("%args", 0, "i64")
        last = inside.emit(f"add {first}, {inside.load('%dims', 0, 'i64').text}", "i64")
        assert isinstance(statement.iter, ast.Call)
        turns = inside.value(statement.iter.args[0])
        start, stop = (inside.part(number, turns, slots[-1]) for number in (first, last))
        assert isinstance(statement.target, ast.Name)
        inside.loop(statement.target.id, start, stop, statement.body)
        head = f"internal void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %data) noinline"
        self.compiled[name] = inside.definition(head, "ret void")
        caller.launch(name, parts)

    def text(self, entry: str) -> str:
        """The module in LLVM's language."""
        return "\n".join([*self.needs.head, *self.compiled.values(), entry, *self.needs.hints, ""])


class Function(Blocks):
    """One function of a module: statements and arrays."""

    def __init__(self, module: Module) -> None:
        super().__init__(module.needs)
        self.module = module
        self.arrays: dict[str, ArrayValue] = {}
        self.heap: dict[str, tuple[str, int]] = {}  # types and ranks of arrays that the function allocates
        self.places: dict[str, Value] = {}
        self.changing: set[str] = set()
        self.exits: list[str] = []
        self.results: list[Value] = []

    def bind(self, name: str, value: Value | ArrayValue) -> None:
        """Give a variable its value."""
        if isinstance(value, ArrayValue):
            self.arrays[name] = value
        elif name not in self.changing:
            self.values[name] = value
        else:
            if name not in self.places:
                self.places[name] = Value(f"%place_{name}", value.type, value.unsigned)
                self.stack.append(f"%place_{name} = alloca {value.type}")
            if (value.type, value.unsigned) != self.places[name][1:]:
                raise UnsupportedError
            self.lines.append(f"store {value}, ptr {self.places[name].text}")

    def knows(self, name: str) -> bool:
        """Whether a variable has a value."""
        return any(name in known for known in (self.values, self.places, self.arrays, self.heap))

    def bound(self, name: str) -> Value | ArrayValue:
        """The value of a variable."""
        return self.array(name) or self.value(ast.Name(name))

    def array(self, name: str) -> ArrayValue | None:
        """The array of a name, if it is one."""
        if name not in self.heap:
            return self.arrays.get(name)
        kind, rank = self.heap[name]
        data = self.emit(f"load ptr, ptr %heap_{name}", "ptr")
        shape = (self.emit(f"load i64, ptr %heap_{name}_{d}", "i64") for d in range(rank))
        return ArrayValue(data, kind, tuple(shape), None)

    # -- statements ----------------------------------------------------------------------------

    def run(self, name: str) -> None:
        """The body of a function of the module."""
        statements = self.module.definitions[name].body
        nodes = [n for s in statements for n in ast.walk(s)]
        stored = Counter(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        loops = {n.target.id for n in nodes if isinstance(n, ast.For) and isinstance(n.target, ast.Name)}
        self.changing = {name for name, count in stored.items() if count > 1} - loops
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
                if isinstance(statement, Jam):
                    first = self.several(statement, first, bounds[-1])
                self.loop(name, first, bounds[-1], statement.body)
            case ast.While(test=ast.Constant(value=True), body=body):
                self.forever(body)
            case ast.Break() if self.exits:
                self.lines.append(f"br label %{self.exits[-1]}")
                self.begin(f"{self.label()}_never")  # what follows is not reached
            case ast.If(test=test, body=body, orelse=[]):
                with self.when(self.cast(self.value(test), "i1")):
                    self.body(body)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=args)):
                self.module.call(self, name, [self.argument(a) for a in args])
            case ast.Return(value=ast.Tuple(elts=results)):
                self.results = [self.value(r) for r in results]
            case ast.Pass():
                pass
            case _:
                raise UnsupportedError

    def allocate(self, name: str, lengths: Sequence[Value], kind: str) -> None:
        """Memory for an array: the stack if it is small, so that LLVM may keep it in registers."""
        known = all(n.text.isdigit() for n in lengths)
        count = prod(int(n.text) for n in lengths) if known else SMALL + 1
        if count > SMALL:
            self.from_heap(name, lengths, kind)
        elif name not in self.arrays:
            self.arrays[name] = ArrayValue(Value(f"%own_{name}", "ptr"), kind, tuple(lengths), None)
            self.stack.append(f"%own_{name} = alloca [{count} x {self.arrays[name].stored}], align 64")

    def from_heap(self, name: str, lengths: Sequence[Value], kind: str) -> None:
        """Memory for an array whose lengths the kernel computes; what the name had before is given back.

        Where there is none, the function goes on at `no_memory`.
        """
        if self.heap.setdefault(name, (kind, len(lengths))) != (kind, len(lengths)):
            raise UnsupportedError
        place = f"%heap_{name}"
        slots = [f"{place}_{d}" for d in range(len(lengths))]
        if (own := f"{place} = alloca ptr") not in self.stack:
            self.stack += [own, f"store ptr null, ptr {place}", *(f"{slot} = alloca i64" for slot in slots)]
        size = literal(BYTES[kind])
        for slot, n in zip(slots, lengths, strict=True):
            self.lines.append(f"store {n}, ptr {slot}")
            size = self.product(size, n)
        self.free(name)
        data = self.call("PyMem_RawMalloc", "ptr", [size])
        self.lines.append(f"store {data}, ptr {place}")
        with self.when(self.emit(f"icmp eq {data}, null", "i1")):
            self.lines.append("br label %no_memory")
            self.begin(f"{self.label()}_never")

    def free(self, name: str) -> None:
        """Give the memory of an array back, if it has any."""
        self.call("PyMem_RawFree", "void", [self.emit(f"load ptr, ptr %heap_{name}", "ptr")])

    def written_out(self, name: str, turns: range, body: Sequence[ast.stmt]) -> None:
        """The turns of a short loop, one after the other."""
        for k in turns:
            self.values[name] = literal(k)._replace(unsigned=True)
            self.body(body)
        self.values.pop(name, None)

    def loop(self, name: str, first: Value, stop: Value, body: Sequence[ast.stmt]) -> None:
        """`for name in range(first, stop)`."""
        if any(isinstance(n, ast.Break) for s in body for n in ast.walk(s)):
            raise UnsupportedError
        for start, end, hint in self.parts(first, stop, body):
            with self.turns(start, end, hint) as turn:
                self.values[name] = turn
                self.body(body)
                del self.values[name]

    def several(self, loop: Jam, first: Value, stop: Value) -> Value:
        """Several turns at once, as long as there are enough; the first turn that is left."""
        step = len(loop.turns)
        turns = self.emit(f"call i64 @llvm.usub.sat.i64({stop}, {first})", "i64")
        self.needs.declared["llvm.usub.sat.i64"] = "declare i64 @llvm.usub.sat.i64(i64, i64)"
        whole = self.emit(f"and {turns}, {-step}", "i64")
        rest = self.emit(f"add {first}, {whole.text}", "i64")._replace(unsigned=first.unsigned)
        with self.turns(first, rest, step=step) as turn:
            for k, name in enumerate(loop.turns):
                self.values[name] = self.emit(f"add {turn}, {k}", "i64")._replace(unsigned=first.unsigned)
            self.body(loop.together)
        return rest

    def parts(self, first: Value, stop: Value, body: Sequence[ast.stmt]) -> list[tuple[Value, Value, str]]:
        """A loop that is vectorised as two: whole vectors, two at a time, and the rest in one that is masked.

        Functions of two vectors overlap: each is a long chain, in which the processor would wait. Masks cost
        a little everywhere, and much where the processor stores slowly with them.
        """
        vectors = self.needs.vectors
        if vectors is None or not vectorises(body, self.changing):
            return [(first, stop, "")]
        # LLVM shall not see that it could ask once, before the loops around, which of the two has no turns:
        # it would compile these loops three times.
        hidden = self.emit(f'call i64 asm sideeffect "", "=r,0"({stop})', "i64")
        stop = hidden._replace(unsigned=first.unsigned)
        turns = self.emit(f"sub {stop}, {first.text}", "i64").text
        whole = self.emit(f"and i64 {turns}, {-PAIR * vectors.lanes('float')}", "i64").text
        middle = self.emit(f"add {first}, {whole}", "i64")._replace(unsigned=first.unsigned)
        pairs, alone = (f'interleave.count", i32 {n}' for n in (PAIR, 1))
        masked = 'vectorize.predicate.enable", i1 true'
        return [(first, middle, self.needs.hint(pairs)), (middle, stop, self.needs.hint(alone, masked))]

    def forever(self, body: Sequence[ast.stmt]) -> None:
        """`while True`, which something inside leaves."""
        turn = self.label()
        self.exits.append(f"{turn}_exit")
        self.lines.append(f"br label %{turn}")
        self.begin(turn)
        self.body(body)
        self.lines.append(f"br label %{turn}")
        self.begin(self.exits.pop())

    def argument(self, node: ast.expr) -> Value | ArrayValue:
        """What is passed to a function of the module."""
        found = self.array(node.id) if isinstance(node, ast.Name) else None
        return found or self.value(node)

    # -- expressions ---------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Name(id=name) if name in self.places:
                place = self.places[name]
                return self.emit(f"load {place.type}, ptr {place.text}", place.type)._replace(
                    unsigned=place.unsigned
                )
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=n)), slice=ast.Constant(value=int(d))):
                return self.known(n).shape[d]
            case ast.Subscript(value=ast.Name(id=name)):
                array = self.known(name)
                at = self.element(array, node)
                found = self.emit(f"load {array.stored}, ptr {at}{array.align}", array.stored)
                return self.emit(f"icmp ne {found}, 0", "i1") if array.type == "i1" else found
            case ast.IfExp() if any(isinstance(n, ast.Subscript) for n in ast.walk(node)):
                return self.branches(node)
        return super().value(node)

    def branches(self, node: ast.IfExp) -> Value:
        """A choice of which only one side may be computed: the other may read outside of an array."""
        test = self.cast(self.value(node.test), "i1")
        label = self.label()
        self.lines.append(f"br {test}, label %{label}_then, label %{label}_else")
        self.begin(f"{label}_then")
        then, before = self.value(node.body), self.block
        self.lines.append(f"br label %{label}_after")
        self.begin(f"{label}_else")
        otherwise, other = self.value(node.orelse), self.block
        self.lines.append(f"br label %{label}_after")
        self.begin(f"{label}_after")
        if then.type != otherwise.type:
            raise UnsupportedError
        sides = f"[ {then.text}, %{before} ], [ {otherwise.text}, %{other} ]"
        return self.emit(f"phi {then.type} {sides}", then.type)

    def known(self, name: str) -> ArrayValue:
        """The array of a name that is one."""
        found = self.array(name)
        assert found is not None
        return found

    def element(self, array: ArrayValue, node: ast.Subscript) -> str:
        """The address of an array's element."""
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        indices = [self.value(n) for n in nodes]
        if any(i.type != "i64" for i in indices) or len(indices) != len(array.shape):
            raise UnsupportedError
        place = literal(0)
        for k, index in enumerate(indices):
            if array.strides is not None:
                index = self.emit(f"mul i64 {index.text}, {array.strides[k].text}", "i64")
            elif k:
                place = self.emit(f"mul i64 {place.text}, {array.shape[k].text}", "i64")
            place = index if k == 0 else self.emit(f"add i64 {place.text}, {index.text}", "i64")
        unit = "i8" if array.strides is not None else array.stored
        return self.emit(f"getelementptr inbounds {unit}, {array.data}, i64 {place.text}", "ptr").text

    def store(self, target: ast.Subscript, value: Value) -> None:
        """Set an element of an array."""
        assert isinstance(target.value, ast.Name)
        array = self.known(target.value.id)
        value = self.cast(value, array.type)
        if array.type == "i1":
            value = self.emit(f"zext {value} to i8", "i8")
        self.lines.append(f"store {value}, ptr {self.element(array, target)}{array.align}")
