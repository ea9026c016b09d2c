"""The statements of one C function, for arguments of given types.

`loopir/types.py` says which types its variables and its result have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from adcompiler.loopir.nodes import (
    Access,
    Allocate,
    AssignAll,
    Call,
    Expr,
    For,
    Function,
    Literal,
    Return,
    Stmt,
    UnsupportedError,
    Update,
    Var,
)
from adcompiler.loopir.types import ArrayType, Number, Type, Types
from adcompiler.loopir.walk import mentions, sets, statements, walk
from adcompiler.targets.c.expressions import Expressions
from adcompiler.targets.c.scopes import Scopes, scopes
from adcompiler.targets.c.values import (
    ATOM,
    INDEX_BITS,
    STORED,
    SUM,
    TYPES,
    CArray,
    CValue,
    cast,
    number,
)

WHOLE = "whole"  # the module of powers of integers
INDENT = "    "
BLOCK_BITS = 11  # of the number of a block
Argument = CValue | CArray


def type_of(arg: Argument) -> Type:
    """The type of an argument in the loop IR."""
    return arg.type if isinstance(arg, CValue) else ArrayType(arg.dtype, len(arg.lengths))


class CFunction(NamedTuple):
    """A written function: its name, the type of its result, if any, and what a call passes: the parameters
    that it uses, by their numbers, then lengths, each a name or the array and the axis that it belongs to. It
    stores in the arrays `written`."""

    name: str
    result: Number | None
    used: tuple[int, ...]
    lengths: tuple[str | tuple[int, int], ...]
    written: frozenset[int]


class Functions(Protocol):
    """The functions of a file, as bodies use them."""

    helpers: set[str]
    texts: dict[str, str]

    def kernel_function(
        self, prefix: str, function: Function, others: Mapping[str, Function], args: Sequence[Argument]
    ) -> CFunction: ...

    def routine(self, module: str, function: str, args: Sequence[Argument]) -> CFunction: ...


class Body(Expressions):
    """The statements of one function, for arguments of given types."""

    def __init__(
        self,
        file: Functions,
        function: Function,
        args: Sequence[Argument],
        types: Types,
    ) -> None:
        super().__init__(file.helpers)
        self.file, self.function_of, self.args = file, function, args
        self.result = types.result if isinstance(types.result, str) else None
        self.kinds = {n: kind for n, kind in types.variables.items() if isinstance(kind, str)}
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.used: set[str] = set()
        self.written: set[str] = set()
        self.needs: set[str] = set()
        self.local_arrays: list[str] = []
        self.local_lengths: dict[str, bool] = {}  # and whether they are read
        self.scopes: Scopes = scopes(function)
        self.returned = False
        for param, arg in zip(function.params, args, strict=True):
            if isinstance(arg, CArray):
                self.arrays[param] = CArray(self.name(param), arg.dtype, self.lengths_of(param, arg))
            elif self.is_constant(param):
                self.bits[param] = arg.bits

    def lengths_of(self, param: str, arg: CArray) -> tuple[str, ...]:
        """The lengths of a parameter inside of the function."""
        raise NotImplementedError

    def is_constant(self, name: str) -> bool:
        """Whether a parameter is never assigned to."""
        return name not in self.scopes.assigned

    # -- the function --------------------------------------------------------------------------

    def run(self) -> None:
        """Write the statements."""
        self.body(self.function_of.body)

    def described(self, name: str) -> CFunction:
        """How the function is called."""
        params = self.function_of.params
        used = tuple(k for k, p in enumerate(params) if p in self.used)
        written = frozenset(k for k, p in enumerate(params) if p in self.written)
        return CFunction(name, self.result, used, self.lengths_passed(), written)

    def lengths_passed(self) -> tuple[str | tuple[int, int], ...]:
        """The lengths that a call passes."""
        raise NotImplementedError

    def parameters(self) -> list[str]:
        """The declarations of the parameters that are used."""
        found = []
        for param in self.function_of.params:
            if param not in self.used:
                continue
            if param in self.arrays:
                const = "" if param in self.written else "const "
                found.append(f"{const}{STORED[self.arrays[param].dtype]} *restrict {self.name(param)}")
            else:
                found.append(f"{TYPES[self.kinds[param]]} {self.name(param)}")
        return [*found, *(f"int64_t {n}" for n in self.lengths)]

    def text(self, name: str) -> str:
        """The definition."""
        result = TYPES[self.result] if self.result else "void"
        top = [n for n in self.scopes.top if n not in self.function_of.params]
        declared = [f"{INDENT}{TYPES[self.kinds[n]]} {self.name(n)} = 0;" for n in top]
        arrays = [f"{INDENT}{line}" for line in self.local_arrays]
        arrays += [f"{INDENT}int64_t {n} = 0;" for n, is_read in self.local_lengths.items() if is_read]
        unread = tuple(f"{n} = " for n, is_read in self.local_lengths.items() if not is_read)
        lines = [line for line in self.lines if not line.lstrip().startswith(unread)]
        last = [f"{INDENT}return 0;"] * (bool(self.result) and not self.ends_with_return())
        head = f"static {result} {name}({', '.join(self.parameters()) or 'void'})"
        return "\n".join([head, "{", *arrays, *declared, *lines, *last, "}", ""])

    def ends_with_return(self) -> bool:
        """Whether the last statement returns."""
        body = self.function_of.body
        return bool(body) and isinstance(body[-1], Return)

    # -- statements ----------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Write a line."""
        self.lines.append(INDENT * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A block in braces behind a head."""
        self.line(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def fresh(self, what: str) -> str:
        """A name for a value of the printer's own."""
        self.count += 1
        return f"_{what}{self.count}"

    def repeat(self, test: Expr | None, body: Sequence[Stmt]) -> None:
        condition = None if test is None else cast(self.value(test), "bool").text
        with self.block("for (;;)" if condition is None else f"while ({condition})"):
            self.body(body)

    def branch(self, test: CValue, body: Sequence[Stmt], otherwise: Sequence[Stmt]) -> None:
        with self.block(f"if ({cast(test, 'bool').text})"):
            self.body(body)
        if otherwise:
            with self.block("else"):
                self.body(otherwise)

    def leave_loop(self) -> None:
        self.line("break;")

    def invoke(self, name: str, args: Sequence[Expr]) -> None:
        self.line(f"{self.call(name, [self.argument(a) for a in args]).text};")

    def comment(self, text: str) -> None:
        self.line(f"/* {text.replace('*/', '* /').replace('/*', '/ *')} */")

    def allocate(self, s: Allocate) -> None:
        """An array in the function if its lengths are constants, else in the memory of the caller."""
        if all(isinstance(n, Literal) for n in s.shape):
            lengths = tuple(str(n.value) for n in s.shape if isinstance(n, Literal))
            size = " * ".join(max(n, "1") if n == "0" else n for n in lengths)
            self.local_arrays.append(f"{STORED[s.dtype]} {self.name(s.name)}[{size or 1}];")
        elif s.name in self.arrays:
            lengths = tuple(map(self.local_length, s.shape))
        else:
            raise UnsupportedError("Allocate")
        self.arrays[s.name] = CArray(self.name(s.name), s.dtype, lengths)

    def set(self, s: Stmt, name: str, value: CValue) -> None:
        """Assign to a variable, which is declared here if possible."""
        kind = self.kinds[name]
        if name in self.scopes.unread:
            return
        constant = name in self.scopes.constant
        if constant and not value.is_float:
            self.bits[name] = value.bits
        text = f"{self.name(name)} = {self.converted(value, kind).text};"
        if id(s) in self.scopes.there:
            text = f"{'const ' * constant}{TYPES[kind]} {text}"
        self.line(text)

    def assign_all(self, s: AssignAll, values: Sequence[CValue]) -> None:
        """Assign several values, all of which are computed first."""
        later = [any(mentions({_target(t)}, v) for v in s.values[k + 1 :]) for k, t in enumerate(s.targets)]
        if not any(later):
            super().assign_all(s, values)
            return
        with self.block(""):
            names = [self.fresh("new") for _ in values]
            for name, value in zip(names, values, strict=True):
                self.line(f"const {TYPES[value.type]} {name} = {value.text};")
            found = [v._replace(text=n, level=ATOM) for n, v in zip(names, values, strict=True)]
            super().assign_all(s, found)

    def place_of(self, at: Access) -> str:
        """The address of an element."""
        array = self.arrays[at.array]
        self.use(at.array, stored=True)
        return f"{array.address}[{self.place(array, at.indices)}]"

    def store(self, at: Access, value: CValue) -> None:
        """Set an element."""
        found = self.converted(value, self.arrays[at.array].dtype)
        self.line(f"{self.place_of(at)} = {found.text};")

    def update(self, s: Update) -> None:
        value, old = self.value(s.value), self.element(s.at.array, s.at.indices)
        new = self.binary(s.op, old, value)
        if s.op in ("+", "-", "*") and old.type == new.type and new.is_float:
            self.line(f"{self.place_of(s.at)} {s.op}= {cast(value, old.type).text};")
        else:
            self.store(s.at, new)

    def local_length(self, length: Expr) -> str:
        """A length that the function computes: the name of a variable, which exists everywhere."""
        found = self.fresh("len")
        self.local_lengths[found] = False
        self.line(f"{found} = {cast(self.value(length), 'i64').text};")
        return found

    def counted(self, loop: For) -> None:
        """A loop over a range."""
        if isinstance(loop.stop, Call) and loop.stop.args == (Literal(0, "i64"),):
            return  # without iterations
        start, stop = self.value(loop.start), self.value(loop.stop)
        step = number(1) if loop.step is None else self.value(loop.step)
        kind: Number = "u64" if "u64" in (start.type, stop.type) else "i64"
        start, stop = (self.converted(v, kind) for v in (start, stop))
        down = step.literal is not None and step.literal < 0
        if not self.is_fixed(loop):
            end = self.fresh("stop")
            self.line(f"const {TYPES[kind]} {end} = {stop.text};")
            stop = CValue(end, kind)
        plain = id(loop) in self.scopes.plain
        if plain and self.kinds[loop.axis] == kind:
            self.bits[loop.axis] = BLOCK_BITS if loop.kind == "blocks" else INDEX_BITS
        axis = self.name(loop.axis) if plain else self.fresh("count")
        by = f"{axis}{'--' if down else '++'}"
        if step.literal not in (1, -1):
            by = f"{axis} += {step.text}"
        test = f"{axis} {'>' if down else '<'} {stop.within(SUM)}"
        with self.block(f"for ({TYPES[kind]} {axis} = {start.text}; {test}; {by})"):
            if not plain and loop.axis not in self.scopes.unread:
                self.line(f"{self.name(loop.axis)} = {axis};")
            self.body(loop.body)

    def is_fixed(self, loop: For) -> bool:
        """Whether the end of a range is cheap, and does not change in the loop."""
        nodes = walk(loop.stop)
        changing = {n for s in statements(loop.body) for n in sets(s)}
        return len(nodes) <= 4 and not any(
            isinstance(n, Access) or (isinstance(n, Var) and n.name in changing) for n in nodes
        )

    def give(self, values: Sequence[Expr]) -> None:
        """Return from the function."""
        raise NotImplementedError

    # -- calls ---------------------------------------------------------------------------------

    def variable(self, name: str) -> CValue:
        self.use(name)
        return super().variable(name)

    def access(self, at: Access) -> CValue:
        self.use(at.array)
        return super().access(at)

    def use(self, name: str, stored: bool = False) -> None:
        """Note that a parameter is used."""
        self.used.add(name)
        if stored:
            self.written.add(name)

    def argument(self, node: Expr) -> Argument:
        """An argument of another function: a number, an array, or a part of one."""
        match node:
            case Var(name=name) if name in self.arrays:
                return self.arrays[name]
            case Access(array=name, indices=indices) if len(indices) < len(self.arrays[name].lengths):
                array = self.arrays[name]
                address = f"{array.address} + {self.place(array, indices)}"
                return CArray(address, array.dtype, array.lengths[len(indices) :])
        return self.value(node)

    def called(self, found: CFunction, args: Sequence[Argument]) -> CValue:
        """A call of a written function."""
        given = []
        for k in found.used:
            arg = args[k]
            if isinstance(arg, CArray):
                given.append(arg.address)
                self.use(self.array_at(arg.address), stored=k in found.written)
            else:
                given.append(arg.text)
        for length in found.lengths:
            if isinstance(length, tuple):
                array = args[length[0]]
                assert isinstance(array, CArray)
                length = array.lengths[length[1]]
            given.append(self.length(length).text)
        self.needs.add(found.name)
        return CValue(f"{found.name}({', '.join(given)})", found.result or "i64")

    def array_at(self, address: str) -> str:
        """The name of the array that an address is in."""
        c_name = address.partition(" ")[0]
        return next(n for n, a in self.arrays.items() if a.address == c_name)

    def call(self, name: str, args: Sequence[Argument]) -> CValue:
        """A call of a function by its name."""
        raise NotImplementedError

    def power(self, x: CValue, y: CValue) -> CValue:
        found = self.file.routine(WHOLE, "power", [x, y])
        return self.called(found, [x, y])


def _target(target: Expr) -> str:
    return target.name if isinstance(target, Var) else target.array if isinstance(target, Access) else ""
