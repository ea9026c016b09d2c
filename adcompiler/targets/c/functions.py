"""Functions of the loop IR as static C functions: those of a kernel, and routines written in Python.

Each function is written for the types of its arguments, as in `targets/llvm/functions.py` and
`python_functions.py`. The types of its variables, and of its result, only widen: it is written again until
they no longer change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from adcompiler.loopir.nodes import (
    Access,
    Allocate,
    Assign,
    AssignAll,
    Break,
    Call,
    Comment,
    Expr,
    For,
    Function,
    If,
    Invoke,
    Literal,
    Return,
    Stmt,
    Store,
    Update,
    Var,
    While,
)
from adcompiler.loopir.walk import mentions, sets, statements, walk
from adcompiler.targets.c.expressions import Expressions, UnknownError
from adcompiler.targets.c.helpers import helper_lines
from adcompiler.targets.c.scopes import Scopes, scopes
from adcompiler.targets.c.values import (
    INDEX_BITS,
    LETTERS,
    STORED,
    SUM,
    TYPES,
    CArray,
    CValue,
    cast,
    number,
    wider,
)
from adcompiler.targets.llvm.python_functions import source
from adcompiler.targets.llvm.tables import SOURCES

MATRICES = "library"
WHOLE = "whole"
ORDER = "n"  # the parameter of a special function that is its order
INDENT = "    "
BLOCK_BITS = 11  # of the number of a block
Argument = CValue | CArray


class CFunction(NamedTuple):
    """A written function: its name, the type of its result ("" for none), and what a call passes: the
    parameters that it uses, by their numbers, then lengths, each a name or the array and the axis that it
    belongs to. It stores in the arrays `written`."""

    name: str
    result: str
    used: tuple[int, ...]
    lengths: tuple[str | tuple[int, int], ...]
    written: frozenset[int]


@dataclass
class CFile:
    """The static functions of a C file, in the order of their definitions."""

    helpers: set[str] = field(default_factory=set)
    functions: dict[str, CFunction] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # of tables and functions
    needs: dict[str, set[str]] = field(default_factory=dict)  # the tables and functions that each needs

    def lines(self, roots: Iterable[str], texts: Iterable[str]) -> list[str]:
        """The definitions that the functions `roots` need, and other functions whose texts these are."""
        found, waiting = set[str](), [*roots]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.needs.get(name, ())
        needed = [text for name, text in self.texts.items() if name in found]
        words = set(re.findall(r"\w+", " ".join([*needed, *texts])))
        return [*helper_lines(self.helpers & words), *needed]

    def kernel_function(
        self,
        prefix: str,
        function: Function,
        others: Mapping[str, Function],
        args: Sequence[Argument],
        results: Sequence[str] = (),
    ) -> CFunction:
        """A function of a kernel, called with these arguments: it is written once. It stores its `results`,
        numbers of these types."""

        def body(kinds: dict[str, str], result: str) -> Body:
            return KernelBody(self, prefix, function, others, args, kinds, results)

        return self._written(f"{prefix}_{function.name}", body)

    def routine(self, module: str, function: str, args: Sequence[Argument]) -> CFunction:
        """A function of one of our Python modules for arguments of these types."""
        letters = "".join(
            LETTERS[a.type] if isinstance(a, CValue) else f"{LETTERS[a.dtype]}{len(a.lengths)}" for a in args
        )
        name = f"adc_{module}_{function.removeprefix('library_').strip('_')}_{letters}"
        if function not in source(module).definitions:
            raise UnknownError(f"{module}.{function}")

        def body(kinds: dict[str, str], result: str) -> Body:
            return RoutineBody(self, module, function, args, kinds, result)

        return self._written(name, body)

    def _written(self, name: str, make: Callable[[dict[str, str], str], Body]) -> CFunction:
        if name not in self.functions:
            kinds: dict[str, str] = {}
            result = ""
            while True:
                body = make(dict(kinds), result)
                body.run()
                if (body.kinds, body.result) == (kinds, result):
                    break
                kinds, result = dict(body.kinds), body.result
            self.functions[name] = body.described(name)
            self.texts[name], self.needs[name] = body.text(name), body.needs
        return self.functions[name]


class Body(Expressions):
    """The statements of one function, for arguments of given types."""

    def __init__(
        self, file: CFile, function: Function, args: Sequence[Argument], kinds: dict[str, str], result: str
    ) -> None:
        super().__init__(file.helpers)
        self.file, self.function_of, self.args, self.result = file, function, args, result
        self.kinds = kinds
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
            else:
                self.kinds[param] = wider(self.kinds.get(param, ""), arg.type)
                if self.is_constant(param):
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
        declared = [f"{INDENT}{TYPES[self.kinds[n]]} {self.name(n)} = 0;" for n in top if n in self.kinds]
        arrays = [f"{INDENT}{line}" for line in self.local_arrays]
        arrays += [f"{INDENT}int64_t {n} = 0;" for n, is_read in self.local_lengths.items() if is_read]
        unread = tuple(f"{n} = " for n, is_read in self.local_lengths.items() if not is_read)
        lines = [line for line in self.lines if not line.lstrip().startswith(unread)]
        last = [f"{INDENT}return 0;"] * (bool(self.result) and not self.ends_with_return())
        head = f"static {result} {name}({', '.join(self.parameters()) or 'void'})"
        return "\n".join([head, "{", *arrays, *declared, *lines, *last, "}", ""])

    def ends_with_return(self) -> bool:
        body = self.function_of.body
        return bool(body) and isinstance(body[-1], Return)

    # -- statements ----------------------------------------------------------------------------

    def line(self, text: str) -> None:
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

    def body(self, statements: Sequence[Stmt]) -> None:
        """Statements in order."""
        for statement in statements:
            self.statement(statement)

    def statement(self, s: Stmt) -> None:
        match s:
            case Assign(name=name, value=value):
                self.assign(s, name, self.value(value))
            case AssignAll():
                self.assign_all(s)
            case Store(at=at, value=value):
                self.store(at, self.value(value))
            case Update(at=at, op=op, value=value):
                self.update(at, op, self.value(value))
            case Allocate(name=name, dtype=dtype, shape=shape) if all(isinstance(n, Literal) for n in shape):
                lengths = tuple(str(n.value) for n in shape if isinstance(n, Literal))
                self.arrays[name] = CArray(self.name(name), dtype, lengths)
                size = " * ".join(max(n, "1") if n == "0" else n for n in lengths)
                self.local_arrays.append(f"{STORED[dtype]} {self.name(name)}[{size or 1}];")
            case Allocate(name=name, dtype=dtype, shape=shape) if name in self.arrays:
                self.arrays[name] = CArray(self.name(name), dtype, tuple(map(self.local_length, shape)))
            case For():
                self.loop(s)
            case While(test=Literal(value=True), body=body):
                with self.block("for (;;)"):
                    self.body(body)
            case While(test=test, body=body):
                with self.block(f"while ({cast(self.value(test), 'bool').text})"):
                    self.body(body)
            case If(test=test, body=body, otherwise=otherwise):
                with self.block(f"if ({cast(self.value(test), 'bool').text})"):
                    self.body(body)
                if otherwise:
                    with self.block("else"):
                        self.body(otherwise)
            case Break():
                self.line("break;")
            case Return(values=values):
                self.give(values)
            case Invoke(name=name, args=args):
                self.line(f"{self.call(name, [self.argument(a) for a in args]).text};")
            case Comment(text=text):
                self.line(f"/* {text.replace('*/', '* /').replace('/*', '/ *')} */")
            case _:
                raise UnknownError(type(s).__name__)

    def assign(self, s: Stmt, name: str, value: CValue) -> None:
        """Assign to a variable, which is declared here if possible."""
        kind = wider(self.kinds.get(name, ""), value.type)
        self.kinds[name] = kind
        if name in self.scopes.unread:
            return
        constant = name in self.scopes.constant
        if constant and not value.is_float:
            self.bits[name] = value.bits
        text = f"{self.name(name)} = {self.converted(value, kind).text};"
        if id(s) in self.scopes.there:
            text = f"{'const ' * constant}{TYPES[kind]} {text}"
        self.line(text)

    def assign_all(self, s: AssignAll) -> None:
        """Assign several values, all of which are computed first."""
        later = [any(mentions({_target(t)}, v) for v in s.values[k + 1 :]) for k, t in enumerate(s.targets)]
        values = [self.value(v) for v in s.values]
        if any(later):
            names = [self.fresh("new") for _ in values]
            with self.block(""):
                for name, value in zip(names, values, strict=True):
                    self.line(f"const {TYPES[value.type]} {name} = {value.text};")
                found = [
                    v._replace(text=n, level=CValue("", "").level) for n, v in zip(names, values, strict=True)
                ]
                self.assign_each(s, found)
        else:
            self.assign_each(s, values)

    def assign_each(self, s: AssignAll, values: Sequence[CValue]) -> None:
        for target, value in zip(s.targets, values, strict=True):
            if isinstance(target, Var):
                self.assign(s, target.name, value)
            else:
                self.store(target, value)

    def place_of(self, at: Access) -> str:
        array = self.arrays[at.array]
        self.use(at.array, stored=True)
        return f"{array.address}[{self.place(array, at.indices)}]"

    def store(self, at: Access, value: CValue) -> None:
        """Set an element."""
        found = self.converted(value, self.arrays[at.array].dtype)
        self.line(f"{self.place_of(at)} = {found.text};")

    def update(self, at: Access, op: str, value: CValue) -> None:
        """Combine an element with a value."""
        old = self.element(at.array, at.indices)
        new = self.binary(op, old, value)
        if op in ("+", "-", "*") and old.type == new.type and new.is_float:
            self.line(f"{self.place_of(at)} {op}= {cast(value, old.type).text};")
        else:
            self.store(at, new)

    def local_length(self, length: Expr) -> str:
        """A length that the function computes: the name of a variable, which exists everywhere."""
        found = self.fresh("len")
        self.local_lengths[found] = False
        self.line(f"{found} = {cast(self.value(length), 'i64').text};")
        return found

    def loop(self, loop: For) -> None:
        """A loop over a range."""
        if isinstance(loop.stop, Call) and loop.stop.args == (Literal(0, "i64"),):
            return  # without iterations
        start, stop = self.value(loop.start), self.value(loop.stop)
        step = number(1) if loop.step is None else self.value(loop.step)
        kind = "u64" if "u64" in (start.type, stop.type) else "i64"
        start, stop = (self.converted(v, kind) for v in (start, stop))
        down = step.literal is not None and step.literal < 0
        if not self.is_fixed(loop):
            end = self.fresh("stop")
            self.line(f"const {TYPES[kind]} {end} = {stop.text};")
            stop = CValue(end, kind)
        plain = id(loop) in self.scopes.plain
        self.kinds[loop.axis] = wider(self.kinds.get(loop.axis, ""), kind)
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

    def value(self, node: Expr) -> CValue:
        if isinstance(node, Var):
            self.use(node.name)
        if isinstance(node, Access):
            self.use(node.array)
        return super().value(node)

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


class KernelBody(Body):
    """A function of a kernel. Its arrays have the lengths of the arrays that it is called with, under the
    same names."""

    def __init__(
        self,
        file: CFile,
        prefix: str,
        function: Function,
        others: Mapping[str, Function],
        args: Sequence[Argument],
        kinds: dict[str, str],
        results: Sequence[str] = (),
    ) -> None:
        self.prefix, self.others, self.results = prefix, others, results
        super().__init__(file, function, args, kinds, "")

    def lengths_of(self, param: str, arg: CArray) -> tuple[str, ...]:
        return arg.lengths

    def length(self, text: str) -> CValue:
        own = next((p for p in self.function_of.params if p in self.kinds and self.name(p) == text), None)
        if own is not None:  # a parameter is this length
            self.use(own)
            return CValue(text, "i64", bits=INDEX_BITS)
        if text in self.local_lengths:
            self.local_lengths[text] = True
            return CValue(text, "i64", bits=INDEX_BITS)
        return super().length(text)

    def lengths_passed(self) -> tuple[str | tuple[int, int], ...]:
        return tuple(self.lengths)

    def parameters(self) -> list[str]:
        return [*super().parameters(), *(f"{TYPES[r]} *_out{k}" for k, r in enumerate(self.results))]

    def give(self, values: Sequence[Expr]) -> None:
        for k, (value, kind) in enumerate(zip(values, self.results, strict=True)):
            self.line(f"*_out{k} = {self.converted(self.value(value), kind).text};")

    def function(self, name: str, args: list[CValue]) -> CValue:
        module, dot, function = name.partition(".")
        if dot and module in SOURCES:
            return self.special(module, function, args)
        return super().function(name, args)

    def special(self, module: str, function: str, args: list[CValue]) -> CValue:
        """A special function: it computes in float64."""
        definition = source(module).definitions[function]
        ordered = definition.params[0] == ORDER and args[0].type == "i64"
        points = self.together(*(a if a.is_float else cast(a, "f64") for a in args[ordered:]))
        given = [*args[:ordered], *(cast(p, "f64") for p in points)]
        found = self.called(self.file.routine(module, function, given), given)
        return cast(cast(found, "f64"), points[0].type)

    def call(self, name: str, args: Sequence[Argument]) -> CValue:
        if name.startswith("library_"):
            return self.called(self.file.routine(MATRICES, name, args), args)
        if name not in self.others:
            raise UnknownError(name)
        found = self.file.kernel_function(self.prefix, self.others[name], self.others, args)
        return self.called(found, args)


class RoutineBody(Body):
    """A function of one of our Python modules. Its numbers are so small that integers do not overflow, except
    in powers."""

    def __init__(
        self,
        file: CFile,
        module: str,
        function: str,
        args: Sequence[Argument],
        kinds: dict[str, str],
        result: str,
    ) -> None:
        self.module = module
        self.definitions, self.constants = source(module)
        self.small = module != WHOLE
        super().__init__(file, self.definitions[function], args, kinds, result)

    def lengths_of(self, param: str, arg: CArray) -> tuple[str, ...]:
        return tuple(f"{self.name(param)}_len{k}" for k in range(len(arg.lengths)))

    def lengths_passed(self) -> tuple[str | tuple[int, int], ...]:
        params = self.function_of.params
        places = {
            length: (k, axis)
            for k, p in enumerate(params)
            if p in self.arrays
            for axis, length in enumerate(self.arrays[p].lengths)
        }
        return tuple(places[length] for length in self.lengths)

    def value(self, node: Expr) -> CValue:
        match node:
            case Var(name=name) if name not in self.kinds and name in self.constants:
                found = self.constants[name]
                assert isinstance(found, int | float)
                return number(found)
            case Access(array=name, indices=(index,)) if isinstance(self.constants.get(name), tuple):
                return CValue(f"{self.table(name)}[{self.value(index).text}]", "f64")
            case Call(name="len", args=(Var(name=name),)) if isinstance(self.constants.get(name), tuple):
                return number(len(self.entries(name)))
            case Call(name=name, args=args) if name in self.definitions:
                return self.call(name, [self.argument(a) for a in args])
        return super().value(node)

    def entries(self, name: str) -> tuple[float, ...]:
        table = self.constants[name]
        assert isinstance(table, tuple)
        return table

    def table(self, name: str) -> str:
        """A table of coefficients."""
        own = f"adc_{self.module}_{name}"
        numbers = ", ".join(number(float(v)).text for v in self.entries(name))
        text = f"static const double {own}[{len(self.entries(name))}] = {{{numbers}}};\n"
        self.file.texts.setdefault(own, text)
        self.needs.add(own)
        return own

    def give(self, values: Sequence[Expr]) -> None:
        if not values:
            self.line("return;")
            return
        found = self.value(values[0])
        self.result = wider(self.result, found.type)
        self.line(f"return {self.converted(found, self.result).text};")

    def call(self, name: str, args: Sequence[Argument]) -> CValue:
        if name not in self.definitions:
            raise UnknownError(name)
        return self.called(self.file.routine(self.module, name, args), args)


def _target(target: Expr) -> str:
    return target.name if isinstance(target, Var) else target.array if isinstance(target, Access) else ""
