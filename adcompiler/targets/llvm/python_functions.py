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
    Assign,
    Call,
    Choice,
    Expr,
    For,
    If,
    Invoke,
    Stmt,
    UnsupportedError,
    Var,
    While,
)
from adcompiler.loopir.python_modules import MATRICES, source
from adcompiler.loopir.types import Types, types_of_routine
from adcompiler.loopir.walk import assigned, walk
from adcompiler.targets.llvm.blas import Factor, add_product, product, tile
from adcompiler.targets.llvm.instructions import Instructions
from adcompiler.targets.llvm.tables import TYPES
from adcompiler.targets.llvm.values import ArrayValue, Needs, Value, literal
from adcompiler.targets.llvm.variables import Argument, Variables, type_of
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
        types = types_of_routine(module, function, tuple(map(type_of, args)))
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
        self.python = source(module)
        self.not_inlined = (
            found if isinstance(found := self.python.names.get("NOT_INLINED"), frozenset) else frozenset()
        )
        self.routine = self.python.definitions[function]
        self.changing = {*assigned(*self.routine.body)}
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

    def invoke(self, name: str, args: Sequence[Expr]) -> None:
        match name, args:
            case "_multiply", [a, b, Var(name=c), *corner]:
                i, j, k = (self.value(e) for e in corner)
                tile(self, self.factor(a), self.factor(b), self.known(c), (i, j, k))
            case "_add_product", [a, b, Var(name=c), *lengths, first]:
                counts = tuple(self.value(n) for n in lengths)
                whole = (self.factor(a), self.factor(b), self.known(c))
                add_product(self, *whole, counts, self.value(first))
            case "np.dot", [a, b, Var(name=c)]:
                product(self, self.factor(a), self.factor(b), self.known(c))
            case _:
                self.own(name, [self.argument(a) for a in args])

    def factor(self, node: Expr) -> Factor:
        """A factor of a matrix product, or its transpose."""
        match node:
            case Call(name="transpose", args=(Var(name=name),)):
                return Factor(self.known(name), True)
            case Var(name=name):
                return Factor(self.known(name), False)
        raise UnsupportedError("a factor of a product that is computed")

    def give(self, values: Sequence[Expr]) -> None:
        if values:
            self.leave(f"ret {self.cast(self.value(values[0]), self.result)}")
        else:
            self.leave("ret void")

    def iterated(self, body: Sequence[Stmt]) -> None:
        with self.polled(body):
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
                case Invoke(name=name) if name in self.python.definitions:
                    most = max(most, self.depth(self.python.definitions[name].body))
        return most

    # -- expressions ---------------------------------------------------------------------------

    def choice(self, node: Choice) -> Value:
        """A choice that computes only one side, through an anonymous variable."""
        name = f"choice{len(self.changing)}"
        self.changing.add(name)
        self.types[name] = self.typed.number(node)
        self.branch(self.value(node.test), [Assign(name, node.then)], [Assign(name, node.otherwise)])
        return self.value(Var(name))

    def entry(self, table: str, index: Value) -> Value:
        entries = self.python.table(table)
        numbers = ", ".join(str(literal(float(v))) for v in entries)
        kind, place = f"[{len(entries)} x double]", f"adc_{self.module}_{table}"
        self.needs.declared[place] = f"@{place} = private unnamed_addr constant {kind} [{numbers}]"
        at = self.emit(f"getelementptr inbounds {kind}, ptr @{place}, i64 0, {index}", "ptr")
        return self.emit(f"load double, {at}", "double")

    def own(self, name: str, args: Sequence[Argument]) -> Value:
        if self.counting and (arrays := [a for a in args if isinstance(a, ArrayValue)]):
            self.spend(reduce(self.product, arrays[-1].shape))  # the call writes the last one
        return call(self, routine(self.given, self.module, name, args), args)


def call(code: Instructions, found: Routine, args: Sequence[Argument]) -> Value:
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
