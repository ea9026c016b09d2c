"""Functions written in Python to LLVM: special functions (`ops/series.py`, `bessel.py`) and the routines on
matrices (`codegen/library.py`).

They are one source for all backends: Python runs them as they stand, and numba compiles them. Here they are
read as kernels are, by the text; beyond that they have branches with two sides, `while`, early returns,
steps, tables of coefficients and calls of each other. A variable has one type, the widest of what is assigned
to it, as numba has it; it and the type of the result are found by translating until nothing changes. Each
becomes one function of LLVM's for each list of types. They call the scalar functions of the C library.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, reduce
from importlib import import_module
from typing import NamedTuple

from adcompiler.codegen.llvm.blas import Factor, product
from adcompiler.codegen.llvm.tables import CONSTANTS, RANKS, SOURCES
from adcompiler.codegen.llvm.values import ArrayValue, Needs, UnsupportedError, Value, literal
from adcompiler.codegen.llvm.variables import Variables
from adcompiler.codegen.llvm.vectors import PURE, own_call
from adcompiler.codegen.trees import walk

LETTERS = {"double": "d", "float": "f", "i64": "i", "i1": "b"}
ORDER = "n"  # the parameter of a special function that is its order
INTRINSIC = "reduce_add"  # which is an instruction here
MATRICES = "library"  # the module whose functions may run for long, so that they poll
Argument = Value | ArrayValue


class Source(NamedTuple):
    """A module of functions: their definitions, and what its other names stand for."""

    definitions: Mapping[str, ast.FunctionDef]
    names: Mapping[str, object]


@cache
def source(module: str) -> Source:
    """The functions of one of our modules, or of several with one name, read from their text."""
    found = [import_module(name) for name in SOURCES[module].split()]
    nodes = [n for m in found for n in ast.parse(inspect.getsource(m)).body if isinstance(n, ast.FunctionDef)]
    names = {name: value for m in found for name, value in vars(m).items()}
    return Source({n.name: n for n in nodes if n.name != INTRINSIC}, names)


class Routine(NamedTuple):
    """A function of LLVM's: its name, the type of its result, what a call says about its effects, and whether
    it takes the context of the kernel's call (`polls.py`)."""

    name: str
    result: str
    attributes: str
    polls: bool = False


def routine(needs: Needs, module: str, function: str, args: Sequence[Argument]) -> Routine:
    """The function of a module for arguments of these types, translated when it is first called."""
    letters = "".join(_letters(a) for a in args)
    name = f"adc_{module}_{function}_{letters}"
    if name not in needs.results:
        if function not in source(module).definitions:
            raise UnsupportedError
        kinds: dict[str, str] = {}
        result = ""
        while True:  # types only widen
            body = _Body(needs, module, function, args, dict(kinds), result)
            body.run()
            if (body.kinds, body.result) == (kinds, result):
                break
            kinds, result = body.kinds, body.result
        needs.results[name] = result or "void"
        needs.declared[name] = body.text(name)
        needs.asking |= {name} if body.gives_up else set()
    pure = all(isinstance(a, Value) for a in args)
    return Routine(name, needs.results[name], PURE if pure else "nounwind", module == MATRICES)


def _letters(arg: Argument) -> str:
    """What a function's name has for the type of an argument."""
    if isinstance(arg, Value):
        return LETTERS[arg.type]
    return f"{LETTERS[arg.type]}{len(arg.shape)}{'s' * (arg.strides is not None)}"


def _wider(one: str, other: str) -> str:
    """The type in which two meet; an integer meets a float in float64."""
    if {one, other} == {"i64", "float"}:
        return "double"
    return max(one, other, key=RANKS.index) if one in RANKS and other in RANKS else one or other


class _Body(Variables):
    """The body of a function, given the types of its variables and of its result as far as they are known."""

    def __init__(
        self,
        needs: Needs,
        module: str,
        function: str,
        args: Sequence[Argument],
        kinds: dict[str, str],
        result: str,
    ) -> None:
        super().__init__(replace(needs, vectors=None))
        self.module, self.given, self.kinds, self.result = module, needs, kinds, result
        self.definitions, self.names = source(module)
        self.apart = found if isinstance(found := self.names.get("APART"), frozenset) else frozenset()
        self.tree = self.definitions[function]
        nodes = walk(self.tree)
        self.changing = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self.exits: list[str] = []
        self.polls, self.counting = module == MATRICES, False  # inside a loop that polls
        parts = [p for a in args for p in a.parts]
        self.params = ", ".join(
            [f"{p.type}{' noalias' * (p.type == 'ptr')} %p{k}" for k, p in enumerate(parts)]
            + ["ptr %context"] * self.polls
        )  # what is written has one name only
        self.pure = len(parts) == len(args)
        names = iter([f"%p{k}" for k in range(len(parts))])
        for param, arg in zip(self.tree.args.args, args, strict=True):
            self.bind(param.arg, _general(arg).named(names))

    def run(self) -> None:
        """Translate the statements."""
        self.body(self.tree.body)

    def text(self, name: str) -> str:
        """The function; one that comes to its end without a result has none."""
        self.needs = self.given
        effects = PURE if self.pure else "nounwind"
        apart = " noinline" if self.tree.name in self.apart or self.tree.name.startswith("library_") else ""
        head = f"internal {self.result or 'void'} @{name}({self.params}) {effects}{apart}"
        if not self.result:
            return self.definition(head, "ret void")
        return self.definition(head, "unreachable", f"ret {self.result} zeroinitializer")

    # -- statements ----------------------------------------------------------------------------

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Statements in order."""
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=parts)):
                for target, value in zip(targets, [self.value(p) for p in parts], strict=True):
                    self.assign(target, value)
            case ast.Assign(targets=[target], value=value):
                self.assign(target, self.value(value))
            case ast.AugAssign(target=ast.Name() | ast.Subscript() as target, op=op, value=value):
                self.assign(target, self.binary(op, self.value(target), self.value(value)))
            case ast.If(test=test, body=body, orelse=otherwise):
                self.choice(test, body, otherwise)
            case ast.While(test=test, body=body):
                self.while_loop(test, body)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=args)):
                self.counted(name, [self.value(a) for a in args], statement.body)
            case ast.Break():
                self.leave(f"br label %{self.exits[-1]}")
            case ast.Return(value=value):
                self.give(value)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="dot"), args=[a, b, ast.Name(id=c)])):
                product(self, self.factor(a), self.factor(b), self.known(c))
            case ast.Expr(value=ast.Call(func=function, args=args)):
                self.invoke(ast.unparse(function), [self.argument(a) for a in args])
            case _:
                raise UnsupportedError

    def factor(self, node: ast.expr) -> Factor:
        """A matrix that is multiplied, or its transpose."""
        transposed = isinstance(node, ast.Attribute)
        return Factor(self.known(ast.unparse(node).removesuffix(".T")), transposed)

    def assign(self, target: ast.expr, value: Value) -> None:
        """Set a variable, or an element of an array."""
        if isinstance(target, ast.Subscript):
            self.store(target, value)
        else:
            self.bind(ast.unparse(target), value)

    def bind(self, name: str, value: Argument) -> None:
        if isinstance(value, Value) and name in self.changing:
            self.kinds[name] = _wider(self.kinds.get(name, ""), value.type)
            value = self.cast(value, self.places[name].type if name in self.places else self.kinds[name])
        super().bind(name, value)

    def give(self, value: ast.expr | None) -> None:
        """Return from the function."""
        if value is None:
            self.leave("ret void")
            return
        found = self.value(value)
        self.result = _wider(self.result, found.type)
        self.leave(f"ret {self.cast(found, self.result)}")

    def leave(self, how: str) -> None:
        """Go elsewhere; what follows is not reached."""
        self.lines.append(how)
        self.begin(f"{self.label()}_never")

    def choice(self, test: ast.expr, body: Sequence[ast.stmt], otherwise: Sequence[ast.stmt]) -> None:
        """`if` with both its sides."""
        guard, label = self.cast(self.value(test), "i1"), self.label()
        self.lines.append(f"br {guard}, label %{label}_then, label %{label}_else")
        for side, statements in (("then", body), ("else", otherwise)):
            self.begin(f"{label}_{side}")
            self.body(statements)
            self.lines.append(f"br label %{label}_after")
        self.begin(f"{label}_after")

    def while_loop(self, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        label = self.head()
        with self.looped(label, self.cast(self.value(test), "i1")), self.polled(body):
            self.body(body)

    def counted(self, name: str, bounds: Sequence[Value], body: Sequence[ast.stmt]) -> None:
        """`for name in range(...)`; the count is not the variable, to which the body may assign."""
        first, stop, step = (
            (literal(0), *bounds, literal(1)) if len(bounds) == 1 else (*bounds, literal(1))[:3]
        )
        place = f"%count{len(self.lines)}"
        self.stack.append(f"{place} = alloca i64")
        self.lines.append(f"store {first}, ptr {place}")
        if self.counting and not self.depth(body):  # an innermost loop
            self.spend(self.call("llvm.usub.sat.i64", "i64", [stop, first]))
        label = self.head()
        at = self.emit(f"load i64, ptr {place}", "i64")
        less = "sgt" if step.text.startswith("-") else "slt"
        with self.looped(label, self.emit(f"icmp {less} {at}, {stop.text}", "i1"), self.hint(body)):
            self.bind(name, at)
            with self.polled(body):
                self.body(body)
            self.lines.append(f"store {self.emit(f'add nsw {at}, {step.text}', 'i64')}, ptr {place}")

    def head(self) -> str:
        """The block in which a loop asks whether it goes on."""
        label = self.label()
        self.lines.append(f"br label %{label}")
        self.begin(label)
        return label

    @contextmanager
    def looped(self, head: str, guard: Value, hint: str = "") -> Iterator[None]:
        """What is written inside, again and again from `head` while `guard` holds. LLVM has `hint`."""
        self.exits.append(f"{head}_exit")
        self.lines.append(f"br {guard}, label %{head}_body, label %{head}_exit")
        self.begin(f"{head}_body")
        yield
        self.lines.append(f"br label %{head}{hint}")
        self.begin(self.exits.pop())

    def hint(self, body: Sequence[ast.stmt]) -> str:
        """What LLVM is told of a loop: in routines on matrices, one vector at a time, but for sums, in which
        each addition waits for the last. Several at a time are more code, which costs more time to compile
        than it saves."""
        adds = any(isinstance(n, ast.Name) and n.id == "reduce_add" for s in body for n in walk(s))
        if adds or not self.apart:
            return ""
        return self.needs.hint('interleave.count", i32 1', 'unroll.disable"')

    @contextmanager
    def polled(self, body: Sequence[ast.stmt]) -> Iterator[None]:
        """An iteration of a loop. The outermost of three ends it with a poll, if there was much to do: the
        elements of the loops inside, and of the matrices for which functions are called."""
        polls = self.polls and not self.counting and self.depth(body) > 1
        self.counting = self.counting or polls
        yield
        if polls:
            self.counting = False
            self.poll_after(1)

    def depth(self, body: Sequence[ast.stmt]) -> int:
        """How many loops stand in each other, also in functions that are called."""
        most = 0
        for node in body:
            match node:
                case ast.For() | ast.While():
                    most = max(most, 1 + self.depth(node.body))
                case ast.If():
                    most = max(most, self.depth([*node.body, *node.orelse]))
                case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in self.definitions:
                    most = max(most, self.depth(self.definitions[name].body))
        return most

    # -- expressions ---------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Name(id=name) if name not in self.places and name not in self.values:
                return literal(self.names[name])
            case ast.Attribute() if (name := ast.unparse(node)) in CONSTANTS:
                return literal(CONSTANTS[name])
            case ast.Subscript(value=ast.Name(id=name), slice=index) if isinstance(
                self.names.get(name), tuple
            ):
                return self.entry(name, self.value(index))
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
                table = self.names[name]
                assert isinstance(table, tuple)
                return literal(len(table))
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return self.either(node, test, body, otherwise)
            case ast.Call(func=ast.Name(id=name), args=args) if name in self.definitions:
                return self.invoke(name, [self.argument(a) for a in args])
        return super().value(node)

    def either(self, node: ast.expr, test: ast.expr, body: ast.expr, otherwise: ast.expr) -> Value:
        """A choice of which only one side is computed: a variable without a name."""
        name = f"choice{node.lineno}_{node.col_offset}"
        self.changing.add(name)
        sides = [[ast.Assign([ast.Name(name, ast.Store())], side)] for side in (body, otherwise)]
        self.choice(test, *sides)
        return self.value(ast.Name(name))

    def entry(self, name: str, index: Value) -> Value:
        """A coefficient of a table."""
        table = self.names[name]
        assert isinstance(table, tuple)
        numbers = ", ".join(str(literal(float(v))) for v in table)
        kind, place = f"[{len(table)} x double]", f"adc_{self.module}_{name}"
        self.needs.declared[place] = f"@{place} = private unnamed_addr constant {kind} [{numbers}]"
        at = self.emit(f"getelementptr inbounds {kind}, ptr @{place}, i64 0, {index}", "ptr")
        return self.emit(f"load double, {at}", "double")

    def argument(self, node: ast.expr) -> Argument:
        """What is passed to another function."""
        found = self.array(node.id) if isinstance(node, ast.Name) else None
        return found or self.value(node)

    def invoke(self, name: str, args: Sequence[Argument]) -> Value:
        """A call of another function of the module."""
        if name not in self.definitions:
            raise UnsupportedError
        if self.counting and (arrays := [a for a in args if isinstance(a, ArrayValue)]):
            self.spend(reduce(self.product, arrays[-1].shape))  # it writes the last one
        return call(self, routine(self.given, self.module, name, args), args)


def call(code: Variables, found: Routine, args: Sequence[Argument]) -> Value:
    """A call of a function; where that has given up, the one that calls it does."""
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


def special(code: Variables, name: str, args: Sequence[Value]) -> Value:
    """A special function of floats, whose orders are constants, at `module.name`.

    It computes in float64. What kernels call is a function of one type that stays one until loops are
    vectorised; for vectors it is called lane by lane, and all else in the loop is vectorised nevertheless.
    """
    module, _, function = name.partition(".")
    ordered = source(module).definitions[function].args.args[0].arg == ORDER and not args[0].text.startswith(
        "%"
    )
    orders = [literal(int(args[0].number))] if ordered else []
    points = code.together(*args[len(orders) :])
    scalar = _scalar(code.needs, module, function, orders, points)
    if code.needs.vectors is None:
        return call(code, Routine(scalar, points[0].type, PURE), points)
    return code.emit(own_call(code.needs, code.needs.vectors, scalar, points), points[0].type)


def _scalar(
    needs: Needs, module: str, function: str, orders: Sequence[Value], points: Sequence[Value]
) -> str:
    """The function of a kind of floats, and of an order, as a kernel calls it."""
    kind = points[0].element
    own = "_".join([f"adc_{function}", *(o.text.replace("-", "m") for o in orders), LETTERS[kind]])
    if own not in needs.declared:
        code = Variables(needs)
        given = [Value(f"%{x}", kind) for x in "xyz"[: len(points)]]
        wide = [*orders, *(code.cast(x, "double") for x in given)]
        found = call(code, routine(needs, module, function, wide), wide)
        head = f"internal {kind} @{own}({', '.join(map(str, given))}) noinline {PURE}"
        needs.declared[own] = code.definition(head, f"ret {code.cast(found, kind)}")
    return own


def _general(arg: Argument) -> Argument:
    """The argument for any lengths: constants among them are parameters as well."""
    if isinstance(arg, Value):
        return arg
    return replace(arg, shape=tuple(n._replace(text="%") for n in arg.shape))
