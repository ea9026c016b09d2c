"""Translation of the test oracle: Python's tree of an adc source to one that calls `oracle_builtins`."""

from __future__ import annotations

import ast
import copy
import functools
import itertools
import keyword
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oracle.builtins import BUILTINS, INTERNAL, UNARY, Value
from oracle.derivatives import FUNCTIONALS, diff

Function = Callable[..., Value]

CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None}
PREFIXES = ("np", "math", "numpy", "scipy", "special", "linalg", "adc")
RESERVED = (
    "and",
    "or",
    "not",
    "is",
    "if",
    "else",
    "elif",
    "for",
    "while",
    "in",
    "def",
    "return",
    "break",
    "continue",
)
ADC = (*RESERVED, "break", "continue", "True", "False", "None")
KEYWORDS = [word for word in keyword.kwlist if word not in ADC]
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "left_shift",
    ast.RShift: "right_shift",
    ast.UAdd: "positive",
    ast.USub: "negative",
    ast.Not: "logical_not",
    ast.Invert: "invert",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.And: "and",
    ast.Or: "or",
}


def mangled(text: str) -> str:
    """Python's keywords that are ordinary names in adc (`lambda`, `import`) with a dot behind them."""
    return re.sub(rf"\b({'|'.join(KEYWORDS)})\b", r"\1·", text)


def internal(name: str) -> ast.Name:
    """A name that no source can spell, for a builtin."""
    return ast.Name(f"adc·{name}", ast.Load())


def call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(internal(name), list(arguments), [])


def thunk(body: ast.expr, zeros: Sequence[str] = ()) -> ast.Lambda:
    """`lambda: body`, with the names of `zeros` bound to 0."""
    parameters = [ast.arg(name) for name in zeros]
    defaults: list[ast.expr] = [ast.Constant(0) for _ in zeros]
    return ast.Lambda(ast.arguments([], parameters, None, [], [], None, defaults), body)


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def loaded(target: ast.expr) -> ast.expr:
    """A target of an assignment as the expression that reads it."""
    return ast.parse(ast.unparse(target), mode="eval").body


def size_names(annotation: ast.expr | None) -> Iterator[tuple[int, ast.expr]]:
    """The axes and lengths of `f64[n + 1, d]`."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in (
        "f64",
        "f32",
        "i64",
        "bool",
    ):
        index = annotation.slice
        sizes = index.elts if isinstance(index, ast.Tuple) else [index]
        yield from ((axis, size) for axis, size in enumerate(sizes) if not isinstance(size, ast.Constant))


class Translate(ast.NodeTransformer):
    def __init__(
        self, variables: frozenset[str], defs: dict[str, ast.FunctionDef], called: frozenset[str]
    ) -> None:
        self.variables, self.called = variables, called
        self.parameters = {n: [a.arg for a in node.args.args] for n, node in defs.items()}
        self.peeking = False
        self.temporaries = itertools.count()

    def is_prefix(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute) and node.attr in PREFIXES:
            node = node.value
        return isinstance(node, ast.Name) and node.id in PREFIXES and node.id not in self.variables

    # Statements

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        names = {parameter.arg for parameter in node.args.args}
        sizes: dict[str, ast.stmt] = {}
        found = [(p.arg, axis, size) for p in node.args.args for axis, size in size_names(p.annotation)]
        found.sort(key=lambda one: sum(isinstance(node, ast.Name | ast.BinOp) for node in ast.walk(one[2])))
        for name, axis, size in found:
            value: ast.expr = call("size", ast.Name(name, ast.Load()), ast.Constant(axis))
            inside = {n.id for n in ast.walk(size) if isinstance(n, ast.Name)}
            for unknown in inside - names - sizes.keys():
                if not isinstance(size, ast.Name):
                    argument = ast.arguments([], [ast.arg(unknown)], None, [], [], None, [])
                    value = call("solved", ast.Lambda(argument, size), value)
                sizes[unknown] = assign(unknown, value)
        for parameter in node.args.args:
            parameter.annotation = None
        node.decorator_list, node.returns = [], None
        self.generic_visit(node)
        node.body = [*sizes.values(), *node.body]
        return node

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        stores: list[ast.stmt] = []
        value = self.visit(node.value)
        targets = [self.target(target, stores) for target in node.targets]
        return [ast.Assign(targets, value), *stores]

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        value = ast.BinOp(loaded(node.target), node.op, node.value)
        if not isinstance(node.target, ast.Name):
            return self.visit_Assign(ast.Assign([node.target], value))
        before = ast.Name(node.target.id, ast.Load())
        return [assign(node.target.id, call("into", before, self.visit(value)))]

    def visit_For(self, node: ast.For) -> ast.For:
        """A loop over an array, or over enumerate of one, reads its elements when it comes to them."""
        walked = node.iter
        if isinstance(walked, ast.Call) and getattr(walked.func, "id", "") == "enumerate":
            walked = walked.args[0]
        self.generic_visit(node)
        if isinstance(walked, ast.Name):
            live = call("walk", thunk(walked))
            if isinstance(node.iter, ast.Call):
                node.iter.args[0] = live
            else:
                node.iter = live
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        match node.value:
            case ast.Call(ast.Name("print")):
                return ast.Pass()
            case ast.Call(ast.Attribute(ast.Name(name), "append"), [value]):
                return assign(name, call("append", ast.Name(name, ast.Load()), self.visit(value)))
        return node

    def target(self, node: ast.expr, stores: list[ast.stmt]) -> ast.expr:
        """`x[i]` becomes a temporary that one of `stores` then puts into a new x."""
        match node:
            case ast.Tuple(elts):
                return ast.Tuple([self.target(item, stores) for item in elts], ast.Store())
            case ast.Subscript(ast.Name(name), index):
                temporary = f"adc·{next(self.temporaries)}"
                values = [ast.Name(word, ast.Load()) for word in (name, temporary)]
                stores.append(assign(name, call("store", values[0], self.index(index), values[1])))
                return ast.Name(temporary, ast.Store())
        return node

    # Expressions

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return call(OPERATORS[type(node.op)], self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        return call(OPERATORS[type(node.op)], self.visit(node.operand))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return call(OPERATORS[type(node.op)], *(thunk(self.visit(value)) for value in node.values))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if isinstance(node.ops[0], ast.Is | ast.IsNot):
            self.generic_visit(node)
            return node
        names: list[ast.expr] = [ast.Constant(OPERATORS[type(op)]) for op in node.ops]
        operands = [self.visit(operand) for operand in (node.left, *node.comparators)]
        return call("compare", ast.Tuple(names, ast.Load()), *operands)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        branches = (thunk(self.visit(branch)) for branch in (node.body, node.orelse))
        return call("ternary", self.visit(node.test), *branches)

    def visit_List(self, node: ast.List) -> ast.expr:
        return call("listed", *(self.visit(item) for item in node.elts))

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return call("array", self.stream(node))

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return self.stream(node)

    def stream(self, node: ast.ListComp | ast.GeneratorExp) -> ast.expr:
        """The values as a list, and a probe: the element again, with every loop variable 0."""
        names = [
            n.id for clause in node.generators for n in ast.walk(clause.target) if isinstance(n, ast.Name)
        ]
        outside, self.peeking = self.peeking, True
        probe = thunk(self.visit(copy.deepcopy(node.elt)), names)
        self.peeking = outside
        values = ast.ListComp(node.elt, node.generators)
        self.generic_visit(values)
        return call("stream", values, probe)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return call("peek" if self.peeking else "read", self.visit(node.value), self.index(node.slice))

    def index(self, node: ast.expr) -> ast.expr:
        match node:
            case ast.Tuple(elts):
                return ast.Tuple([self.index(item) for item in elts], ast.Load())
            case ast.Slice(lower, upper, step):
                parts = (part or ast.Constant(None) for part in (lower, upper, step))
                return call("slice", *(self.visit(part) for part in parts))
        visited: ast.expr = self.visit(node)
        return visited

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if self.is_prefix(node.value) and node.attr in CONSTANTS:
            return internal(node.attr)
        return call("attribute", self.visit(node.value), ast.Constant(node.attr))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A builtin that is passed on as a function."""
        names = self.variables | self.parameters.keys()
        passed = isinstance(node.ctx, ast.Load) and node.id in BUILTINS and node.id not in names
        return internal(node.id) if passed else node

    def parameters_of(self, node: ast.expr) -> list[str] | None:
        """The parameters of the function that an expression names."""
        if isinstance(node, ast.Name) and node.id in self.parameters:
            return self.parameters[node.id]
        return ["x"] if isinstance(node, ast.Name) and node.id in UNARY else None

    def partial(self, node: ast.Call) -> ast.expr:
        """`diff(u, x, 2, t)` and `diff(u(x, t), x)`, with bare names of variables."""
        known = self.parameters_of(node.args[0])
        inside = [n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)]
        names: list[str] = []
        orders: list[ast.expr] = []
        for argument in node.args[1:]:
            if isinstance(argument, ast.Name) and argument.id in (known or inside):
                names.append(argument.id)
                orders.append(ast.Constant(1))
            else:
                orders[-1] = self.visit(argument)
        body = node.args[0]
        if known is not None:
            body = ast.Call(body, [ast.Name(p, ast.Load()) for p in known], [])
        function = thunk(self.visit(body))
        function.args.args = [ast.arg(name) for name in dict.fromkeys(names)]
        order = {name: k for k, name in enumerate(dict.fromkeys(names))}
        point: list[ast.expr] = [ast.Name(name, ast.Load()) for name in order]
        pairs: list[ast.expr] = [
            ast.Tuple([ast.Constant(order[n]), k], ast.Load()) for n, k in zip(names, orders, strict=True)
        ]
        return call("partial", function, ast.Tuple(point, ast.Load()), ast.Tuple(pairs, ast.Load()))

    def functional(self, name: str, node: ast.Call) -> ast.expr:
        """`grad(f, wrt)`: the function, the names of its parameters, and the rest."""
        names: list[ast.expr] = [ast.Constant(p) for p in self.parameters_of(node.args[0]) or []]
        rest = [self.visit(argument) for argument in node.args[1:]]
        words = [ast.keyword(word.arg, self.visit(word.value)) for word in node.keywords]
        first = self.visit(node.args[0])
        return ast.Call(internal(name), [first, ast.Tuple(names, ast.Load()), *rest], words)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node.func:
            case ast.Name("diff") if any(isinstance(a, ast.Name) for a in node.args[1:2]):
                return self.partial(node)
            case ast.Name("diff") if len(node.args) == 1:
                pass  # that of an array
            case ast.Name(name) if name in FUNCTIONALS and name not in self.parameters:
                return self.functional(name, node)
        arguments = [self.visit(argument) for argument in node.args]
        keywords = [ast.keyword(word.arg, self.visit(word.value)) for word in node.keywords]
        function: ast.expr
        match node.func:
            case ast.Name(name) if name in self.parameters:
                function = node.func
            case ast.Call():
                function = self.visit(node.func)
            case ast.Name("diff") | ast.Attribute(_, "diff"):
                function = internal("differences")
            case ast.Name(name) if name in BUILTINS:
                function = internal(name)
            case ast.Attribute(value, name) if name in BUILTINS:  # np.exp(x), or the method x.sum()
                function = internal({"max": "amax", "min": "amin"}.get(name, name))
                if not self.is_prefix(value):
                    arguments.insert(0, self.visit(value))
            case ast.Name(name) if name in self.called:
                function = node.func
            case _:
                raise NameError(f"the oracle has no function {ast.unparse(node.func)}")
        return ast.Call(function, arguments, keywords)


def free_names(node: ast.AST, bound: frozenset[str]) -> Iterator[ast.Name]:
    """The names that an expression reads and does not bind, in any order."""
    match node:
        case ast.Name(name):
            if name not in bound:
                yield node
        case ast.ListComp() | ast.GeneratorExp():
            targets = (n for clause in node.generators for n in ast.walk(clause.target))
            inner = bound | {n.id for n in targets if isinstance(n, ast.Name)}
            yield from free_names(node.generators[0].iter, bound)
            for part in (node.elt, *node.generators[0].ifs, *node.generators[1:]):
                yield from free_names(part, inner)
        case ast.Call(ast.Name(name), arguments, keywords) if name in BUILTINS or name in FUNCTIONALS:
            for part in (*arguments, *keywords):
                yield from free_names(part, bound)
        case ast.Attribute(ast.Name(name)) if name in PREFIXES and name not in bound:
            return
        case _:
            for part in ast.iter_child_nodes(node):
                yield from free_names(part, bound)


def function_of(expression: ast.expr, order: Sequence[str] | None) -> ast.FunctionDef:
    """A bare expression as a def; its parameters are its free names in order of first appearance."""
    if order is None:
        names = sorted(free_names(expression, frozenset(CONSTANTS)), key=lambda n: (n.lineno, n.col_offset))
        order = list(dict.fromkeys(name.id for name in names))
    else:
        order = [mangled(name) for name in order]
    function = ast.parse(f"def expression({', '.join(order)}): return 0").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = [ast.Return(expression)]
    return function


@dataclass(frozen=True)
class Program:
    """A translated function; `whole` names the parameters whose Python ints stay ints."""

    function: Function
    parameters: tuple[str, ...]
    whole: frozenset[str]


def is_float(annotation: ast.expr) -> bool:
    return re.match(r"'?(list\[)?(f64|f32|float)\b", ast.unparse(annotation)) is not None


@functools.lru_cache(maxsize=256)
def translate(
    source: str | bytes, name: str | None, order: tuple[str, ...] | None, static: tuple[str, ...]
) -> Program:
    text = source.decode() if isinstance(source, bytes) else source
    tree = ast.parse(mangled(textwrap.dedent(text).strip()))
    match tree.body:
        case [ast.Expr(expression)]:
            tree.body = [function_of(expression, order)]
    defs = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    main = defs[name or list(defs)[-1]]
    parameters = tuple(parameter.arg for parameter in main.args.args)
    whole = {p.arg for p in main.args.args if p.annotation and not is_float(p.annotation)}
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    arguments = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    called = stored | arguments if defs.keys() != {"expression"} else set()  # functions given to a def
    tree = Translate(frozenset(stored | arguments), functions, frozenset(called)).visit(tree)
    known = BUILTINS | CONSTANTS | INTERNAL | FUNCTIONALS | {"partial": diff}
    scope: dict[str, Any] = {f"adc·{key}": value for key, value in known.items()}
    scope |= {**CONSTANTS, "__builtins__": {}}
    exec(compile(ast.fix_missing_locations(tree), "<oracle>", "exec"), scope)
    return Program(scope[main.name], parameters, frozenset(whole | set(map(mangled, static))))
