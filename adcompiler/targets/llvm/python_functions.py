"""Lowers functions written in Python to LLVM.

They are special functions and routines on matrices, read as loop IR (`loopir/python_modules.py`). Unlike
kernels they have branches with two sides, `while`, early returns, steps, tables of coefficients and calls of
each other. Each becomes one LLVM function per list of types. They call the scalar functions of the C library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

from adcompiler.loopir.intrinsics import REDUCTIONS
from adcompiler.loopir.nodes import (
    Access,
    Assign,
    Break,
    Call,
    Choice,
    Expr,
    For,
    If,
    Invoke,
    Return,
    Stmt,
    Var,
    While,
)
from adcompiler.loopir.python_modules import MATRICES, source
from adcompiler.loopir.types import Types, types_of_routine
from adcompiler.loopir.walk import assigned, walk
from adcompiler.targets.llvm.blas import Factor, product, tile
from adcompiler.targets.llvm.tables import TYPES
from adcompiler.targets.llvm.values import ArrayValue, Needs, UnsupportedError, Value, literal
from adcompiler.targets.llvm.variables import Argument, Variables, fitting, type_of
from adcompiler.targets.llvm.vectors import PURE

LETTERS = {"double": "d", "float": "f", "i64": "i", "i1": "b"}


class Routine(NamedTuple):
    """An LLVM function: its name, result type, attributes of calls, and whether it takes the context of the
    kernel's call (`polls.py`)."""

    name: str
    result: str
    attributes: str
    polls: bool = False


def routine(needs: Needs, module: str, function: str, args: Sequence[Argument]) -> Routine:
    """The function of a module for arguments of these types, translated on the first call."""
    letters = "".join(_letters(a) for a in args)
    name = f"adc_{module}_{function}_{letters}"
    if name not in needs.results:
        types = fitting(types_of_routine, module, function, tuple(map(type_of, args)))
        body = _Body(needs, module, function, args, types)
        body.run()
        needs.results[name] = body.result or "void"
        needs.declared[name] = body.text(name)
        needs.asking |= {name} if body.gives_up else set()
    pure = all(isinstance(a, Value) for a in args)
    return Routine(name, needs.results[name], PURE if pure else "nounwind", module == MATRICES)


def _letters(arg: Argument) -> str:
    """The encoding of an argument's type in a function's name."""
    if isinstance(arg, Value):
        return LETTERS[arg.type]
    return f"{LETTERS[arg.type]}{len(arg.shape)}{'s' * (arg.strides is not None)}"


class _Body(Variables):
    """The body of a function."""

    def __init__(
        self,
        needs: Needs,
        module: str,
        function: str,
        args: Sequence[Argument],
        types: Types,
    ) -> None:
        super().__init__(replace(needs, vectors=None))
        self.module, self.given, self.typed, self.types = module, needs, types, dict(types.variables)
        kind = types.result
        self.result = TYPES[kind] if isinstance(kind, str) and kind != "u64" else ""
        self.definitions, self.names = source(module)
        self.not_inlined = (
            found if isinstance(found := self.names.get("NOT_INLINED"), frozenset) else frozenset()
        )
        self.routine = self.definitions[function]
        self.changing = {*assigned(*self.routine.body)}
        self.exits: list[str] = []
        self.polls, self.counting = module == MATRICES, False  # inside a loop that polls
        parts = [p for a in args for p in a.parts]
        self.params = ", ".join(
            [f"{p.type}{' noalias' * (p.type == 'ptr')} %p{k}" for k, p in enumerate(parts)]
            + ["ptr %context"] * self.polls
        )  # written arrays have no aliases
        self.pure = len(parts) == len(args)
        names = iter([f"%p{k}" for k in range(len(parts))])
        for param, arg in zip(self.routine.params, args, strict=True):
            self.bind(param, _general(arg).named(names))

    def run(self) -> None:
        """Translate the statements."""
        self.body(self.routine.body)

    def text(self, name: str) -> str:
        """The function; its result is void if it ends without one."""
        self.needs = self.given
        effects = PURE if self.pure else "nounwind"
        noinline = (
            " noinline"
            if self.routine.name in self.not_inlined or self.routine.name.startswith("library_")
            else ""
        )
        head = f"internal {self.result or 'void'} @{name}({self.params}) {effects}{noinline}"
        if not self.result:
            return self.definition(head, "ret void")
        return self.definition(head, "unreachable", f"ret {self.result} zeroinitializer")

    # -- statements ----------------------------------------------------------------------------

    def statement(self, statement: Stmt) -> None:
        match statement:
            case If(test=test, body=body, otherwise=otherwise):
                self.choice(test, body, otherwise)
            case While(test=test, body=body):
                self.while_loop(test, body)
            case For():
                self.counted(statement)
            case Break():
                self.leave(f"br label %{self.exits[-1]}")
            case Return(values=values):
                self.give(*values)
            case Invoke(name="_multiply", args=(a, b, Var(name=c), *corner)):
                i, j, k = (self.value(e) for e in corner)
                tile(self, self.factor(a), self.factor(b), self.known(c), (i, j, k))
            case Invoke(name="np.dot", args=(a, b, Var(name=c))):
                product(self, self.factor(a), self.factor(b), self.known(c))
            case Invoke(name=name, args=args):
                self.invoke(name, [self.argument(a) for a in args])
            case _:
                super().statement(statement)

    def factor(self, node: Expr) -> Factor:
        """A factor of a matrix product, or its transpose."""
        match node:
            case Call(name="transpose", args=(Var(name=name),)):
                return Factor(self.known(name), True)
            case Var(name=name):
                return Factor(self.known(name), False)
        raise UnsupportedError("a factor of a product that is computed")

    def give(self, value: Expr | None = None) -> None:
        """Return from the function."""
        if value is None:
            self.leave("ret void")
            return
        self.leave(f"ret {self.cast(self.value(value), self.result)}")

    def leave(self, how: str) -> None:
        """Write a jump; code after it is unreachable."""
        self.lines.append(how)
        self.begin(f"{self.label()}_never")

    def choice(self, test: Expr, body: Sequence[Stmt], otherwise: Sequence[Stmt]) -> None:
        """`if` with both sides."""
        guard, label = self.cast(self.value(test), "i1"), self.label()
        self.lines.append(f"br {guard}, label %{label}_then, label %{label}_else")
        for side, statements in (("then", body), ("else", otherwise)):
            self.begin(f"{label}_{side}")
            self.body(statements)
            self.lines.append(f"br label %{label}_after")
        self.begin(f"{label}_after")

    def while_loop(self, test: Expr, body: Sequence[Stmt]) -> None:
        label = self.head()
        with self.looped(label, self.cast(self.value(test), "i1")), self.polled(body):
            self.body(body)

    def counted(self, loop: For) -> None:
        """`for axis in range(...)`; a separate counter is used, because the body may assign to the
        variable."""
        body, first, stop = loop.body, self.value(loop.start), self.value(loop.stop)
        step = literal(1) if loop.step is None else self.value(loop.step)
        place = f"%count{len(self.lines)}"
        self.stack.append(f"{place} = alloca i64")
        self.lines.append(f"store {first}, ptr {place}")
        if self.counting and not self.depth(body):  # an innermost loop
            self.spend(self.call("llvm.usub.sat.i64", "i64", [stop, first]))
        label = self.head()
        at = self.emit(f"load i64, ptr {place}", "i64")
        less = "sgt" if step.text.startswith("-") else "slt"
        with self.looped(label, self.emit(f"icmp {less} {at}, {stop.text}", "i1"), self.hint(body)):
            self.bind(loop.axis, at)
            with self.polled(body):
                self.body(body)
            self.lines.append(f"store {self.emit(f'add nsw {at}, {step.text}', 'i64')}, ptr {place}")

    def head(self) -> str:
        """The block that tests a loop's condition."""
        label = self.label()
        self.lines.append(f"br label %{label}")
        self.begin(label)
        return label

    @contextmanager
    def looped(self, head: str, guard: Value, hint: str = "") -> Iterator[None]:
        """Repeat the body from `head` while `guard` holds; `hint` is metadata for LLVM."""
        self.exits.append(f"{head}_exit")
        self.lines.append(f"br {guard}, label %{head}_body, label %{head}_exit")
        self.begin(f"{head}_body")
        yield
        self.lines.append(f"br label %{head}{hint}")
        self.begin(self.exits.pop())

    def hint(self, body: Sequence[Stmt]) -> str:
        """Loop hints for LLVM: one vector at a time in matrix routines, except for sums, where each addition
        depends on the last. More interleaving costs more compile time than it saves."""
        adds = any(isinstance(n, Call) and n.name in REDUCTIONS for n in walk(*body))
        if adds or not self.not_inlined:
            return ""
        return self.needs.hint('interleave.count", i32 1', 'unroll.disable"')

    @contextmanager
    def polled(self, body: Sequence[Stmt]) -> Iterator[None]:
        """An iteration of a loop. The outermost of three loops ends it with a poll, if there was enough work:
        the elements of inner loops, and of matrices passed to functions."""
        polls = self.polls and not self.counting and self.depth(body) > 1
        self.counting = self.counting or polls
        yield
        if polls:
            self.counting = False
            self.poll_after(1)

    def depth(self, body: Sequence[Stmt]) -> int:
        """The nesting depth of loops, including called functions."""
        most = 0
        for node in body:
            match node:
                case For() | While():
                    most = max(most, 1 + self.depth(node.body))
                case If():
                    most = max(most, self.depth([*node.body, *node.otherwise]))
                case Invoke(name=name) if name in self.definitions:
                    most = max(most, self.depth(self.definitions[name].body))
        return most

    # -- expressions ---------------------------------------------------------------------------

    def value(self, node: Expr) -> Value:
        match node:
            case Var(name=name) if name not in self.places and name not in self.values:
                return literal(self.names[name])
            case Access(array=name, indices=(index,)) if isinstance(self.names.get(name), tuple):
                return self.entry(name, self.value(index))
            case Call(name="len", args=(Var(name=name),)):
                return literal(len(source(self.module).table(name)))
            case Choice():
                return self.either(node)
            case Call(name=name, args=args) if name in self.definitions:
                return self.invoke(name, [self.argument(a) for a in args])
        return super().value(node)

    def either(self, node: Choice) -> Value:
        """A choice that computes only one side, through an anonymous variable."""
        name = f"choice{len(self.changing)}"
        self.changing.add(name)
        self.types[name] = self.typed.number(node)
        self.choice(node.test, [Assign(name, node.then)], [Assign(name, node.otherwise)])
        return self.value(Var(name))

    def entry(self, name: str, index: Value) -> Value:
        """A coefficient of a table."""
        table = source(self.module).table(name)
        numbers = ", ".join(str(literal(float(v))) for v in table)
        kind, place = f"[{len(table)} x double]", f"adc_{self.module}_{name}"
        self.needs.declared[place] = f"@{place} = private unnamed_addr constant {kind} [{numbers}]"
        at = self.emit(f"getelementptr inbounds {kind}, ptr @{place}, i64 0, {index}", "ptr")
        return self.emit(f"load double, {at}", "double")

    def invoke(self, name: str, args: Sequence[Argument]) -> Value:
        """A call of another function of the module."""
        if name not in self.definitions:
            raise UnsupportedError(f"the function {name}")
        if self.counting and (arrays := [a for a in args if isinstance(a, ArrayValue)]):
            self.spend(reduce(self.product, arrays[-1].shape))  # the call writes the last one
        return call(self, routine(self.given, self.module, name, args), args)


def call(code: Variables, found: Routine, args: Sequence[Argument]) -> Value:
    """A call of a function; the caller gives up if the callee has."""
    given = ", ".join([*(str(p) for a in args for p in a.parts), *["ptr %context"] * found.polls])
    text = f"call {found.result} @{found.name}({given}) {found.attributes}"
    result = Value("", "void")
    if found.result != "void":
        result = code.emit(text, found.result)
    else:
        code.lines.append(text)
    if found.name in code.needs.asking:
        code.unless_stopped()
    return result


def _general(arg: Argument) -> Argument:
    """The argument for any lengths: constant lengths become parameters as well."""
    if isinstance(arg, Value):
        return arg
    return replace(arg, shape=tuple(n._replace(text="%") for n in arg.shape))
