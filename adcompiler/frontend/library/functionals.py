"""Functions of functions: `diff`, `grad`, `value_and_grad` and `jvp` as written in programs.

`diff(u, x)` is the partial derivative of the definition u with respect to its parameter x, at the current
values of its parameters' names; `diff(u(x, t), x)` is that of an expression with respect to a name in it,
with the other names held constant. With names in quotes it is a function: `diff(u, "x", 2)(x, t)`, like
`grad(u)(x, t)`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial as bound
from typing import Any

from adcompiler.errors import DtypeError, LimitError, ParseError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.limits import MOST_ORDERS
from adcompiler.frontend.values.derivatives import Variables, gradient, partial, pushed
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import (
    AnyValue,
    Closure,
    FunctionValue,
    Masked,
    Value,
    as_array,
    describe,
    is_number,
)
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import postorder

FORMS = 'write diff(u, x), diff(u, x, 2), diff(u(x, t), x) or diff(u, "x")(x, t)'
Steps = Generator[Any, AnyValue, AnyValue]
Function = Closure | FunctionValue


# -- diff ----------------------------------------------------------------------------------------------


def is_partial(node: tree.Call, scope: Mapping[str, AnyValue]) -> bool:
    """Whether a call is `diff` with respect to names of variables, rather than values."""
    named = isinstance(node.function, tree.Name) and node.function.id == "diff"
    variables = any(isinstance(a, tree.Name) for a in node.arguments[1:2])
    return named and variables and not isinstance(scope.get("diff"), Closure | FunctionValue)


def differentiated(
    context: Context, node: tree.Call, function: Function | None, scope: dict[str, AnyValue],
    body: Sequence[tree.Tree],
) -> Steps:  # fmt: skip
    """`diff(u, x, k, t)` of a definition, or of an expression if `function` is None."""
    if node.keywords:
        context.fail(ParseError, "diff takes its arguments by position", node.span, FORMS)
    variables = yield from _variables(context, node, function, scope)
    if function is not None:
        names = parameters(function)
        args = [_argument(context, function, p, scope, node.span) for p in names]
        return partial(context, _calling(context, function, node.span), args, variables, names, node.span)
    expression = node.arguments[0]
    _check_free(context, expression, variables, body, node.span)
    names = tuple(dict.fromkeys(name for name, _ in variables))

    def value(*given: AnyValue) -> AnyValue:
        return context.expression(expression, {**scope, **dict(zip(names, given, strict=True))})

    return partial(context, value, [scope[n] for n in names], variables, names, node.span)


def _variables(
    context: Context, node: tree.Call, function: Function | None, scope: Mapping[str, AnyValue]
) -> Generator[Any, AnyValue, Variables]:
    """The variables of `diff`, with the order of each."""
    known = parameters(function) if function is not None else tuple(scope)
    found: list[tuple[str, int]] = []
    for argument in node.arguments[1:]:
        name = argument.id if isinstance(argument, tree.Name) else None
        if name in known and (function is not None or not _is_count(scope[name])):
            found.append((name, 1))
            continue
        if name is not None and not _is_count(scope.get(name)):
            cause = f"diff by {name}, which is not a parameter of {function.name if function else 'it'}"
            context.fail(ParseError, cause, argument.span, _similar(function))
        count = checked_order(context, (yield argument), argument.span)
        if not found or found[-1][1] != 1:
            context.fail(ParseError, "an order must follow its variable", argument.span, FORMS)
        found[-1] = (found[-1][0], count)
    return found


def _is_count(value: AnyValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _similar(function: Function | None) -> str:
    names = ", ".join(parameters(function)) if function is not None else ""
    return f"it takes ({names})" if function is not None else "use a name in the expression"


def _argument(
    context: Context, function: Function, name: str, scope: Mapping[str, AnyValue], span: Span
) -> AnyValue:
    """The value of a parameter's name where `diff(u, x)` is written."""
    if name not in scope or isinstance(scope[name], Function):
        shown = ", ".join(parameters(function))
        context.fail(
            ParseError,
            f"diff of {function.name}({shown}), but there is no {name} here",
            span,
            f"give the point: diff({function.name}, {parameters(function)[0]!r})(...) takes the arguments",
        )
    return scope[name]


def _check_free(
    context: Context, expression: tree.Expression, variables: Variables, body: Sequence[tree.Tree],
    span: Span,
) -> None:  # fmt: skip
    """Refuse an expression with names computed from the variable: it is ambiguous whether to hold them
    constant."""
    names = _names_in(expression)
    for variable, _ in variables:
        if variable not in _bound_in(body):
            remedy = "make it a parameter of the def that contains the derivative"
            context.fail(ParseError, f"diff by {variable}, a name from outside this def", span, remedy)
        found = sorted(names & _made_from(variable, body))
        if found:
            context.fail(
                ParseError,
                f"diff by {variable} of an expression with {found[0]}, which depends on {variable}",
                span,
                "write the differentiated expression as a def of its variables, and call it",
            )


def _names_in(root: tree.Tree) -> set[str]:
    return {n.id for n in postorder([root], tree.children) if isinstance(n, tree.Name)}


def _bound_in(body: Sequence[tree.Tree]) -> set[str]:
    """The names that statements bind, including parameters of their definition."""
    return {name for targets, _ in _bindings(body) for name in targets}


def _made_from(variable: str, body: Sequence[tree.Tree]) -> set[str]:
    """The names that statements compute from a variable, directly or indirectly."""
    bindings = [(t, s) for t, s in _bindings(body) if s]
    made = {variable}
    while True:
        more = {name for targets, sources in bindings if made & sources for name in targets} | made
        if more == made:
            return made - {variable}
        made = more


def _bindings(body: Sequence[tree.Tree]) -> list[tuple[set[str], set[str]]]:
    """The names that each statement or clause binds, and those it reads."""
    found: list[tuple[set[str], set[str]]] = []
    for node in postorder(body, tree.children):
        match node:
            case tree.Assign():
                found += [(_names_in(t), _names_in(node.value) | _indices_in(t)) for t in node.targets]
            case tree.Augmented():
                found.append((_names_in(node.target), _names_in(node.value) | _names_in(node.target)))
            case tree.For():
                found.append((_names_in(node.target), _names_in(node.iterable)))
            case tree.Clause():
                found.append((set(node.targets), _names_in(node.iterable)))
            case tree.Def():
                inner = set[str]().union(*(_names_in(s) for s in node.body))
                found.append(({node.name}, inner - {p.name for p in node.parameters}))
            case tree.Parameter():
                found.append(({node.name}, set()))
    return found


def _indices_in(target: tree.Expression) -> set[str]:
    return _names_in(target) if isinstance(target, tree.Subscript) else set()


# -- functions made of functions -----------------------------------------------------------------------


def diff(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    """`diff(u, "x", 2)`: the partial derivative as a function of the same parameters."""
    if keywords or len(args) < 2 or not isinstance(args[0], Function):
        what = describe(args[0]) if args else "nothing"
        remedy = f"{FORMS}; for differences of neighbours write diff(x) or np.diff(x, 2)"
        context.fail(ParseError, f"diff takes a function and its variables, not {what}", span, remedy)
    function, *rest = args
    names = parameters(function)
    variables: list[tuple[str, int]] = []
    for one in rest:
        if isinstance(one, str):
            if one not in names:
                cause = f"{function.name} has no parameter {one!r}"
                context.fail(ParseError, cause, span, f"it takes ({', '.join(names)})")
            variables.append((one, 1))
        elif variables:
            variables[-1] = (variables[-1][0], checked_order(context, one, span))
        else:
            context.fail(ParseError, "an order must follow its variable", span, FORMS)

    call = bound(_partial_of, function, tuple(variables))
    return FunctionValue(f"diff({function.name})", names, call)


def _partial_of(
    function: Function, variables: Variables, context: Context, args: list[Any], keywords: dict[str, Any],
    span: Span,
) -> AnyValue:  # fmt: skip
    """The partial derivative of a function at these arguments."""
    given = ordered(context, function, args, keywords, span)
    return partial(context, _calling(context, function, span), given, variables, parameters(function), span)


def _of(name: str, with_value: bool) -> Callable[..., AnyValue]:
    def make(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        named = dict(zip(("f", "wrt"), args, strict=False)) | keywords
        if len(args) > 2 or set(named) - {"f", "wrt"} or not isinstance(named.get("f"), Function):
            remedy = f'write {name}(f)(x, y), or {name}(f, wrt="x")(x, y)'
            context.fail(ParseError, f"{name} takes a function and wrt=", span, remedy)
        return gradient_of(named["f"], named.get("wrt"), with_value, name)

    return make


def gradient_of(function: Function, wrt: Any, with_value: bool, name: str) -> FunctionValue:
    """The gradient of a function as a function of the same parameters, structured by `wrt`."""

    call = bound(_gradient_at, function, wrt, with_value)
    return FunctionValue(f"{name}({function.name})", parameters(function), call)


def _gradient_at(
    function: Function, wrt: Any, with_value: bool, context: Context, args: list[Any],
    keywords: dict[str, Any], span: Span,
) -> AnyValue:  # fmt: skip
    """The gradient of a function at these arguments."""
    given = ordered(context, function, args, keywords, span)
    wanted = positions(context, function, wrt, given, span)
    names = parameters(function)
    value, grads = gradient(context, _calling(context, function, span), given, wanted, names, span)
    bare = len(grads) == 1 and not isinstance(wrt, tuple | list)
    found = grads[0] if bare else tuple(grads)
    return (value, found) if with_value else found


grad, value_and_grad = _of("grad", False), _of("value_and_grad", True)


def jvp(context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
    """`jvp(f, (x, y), (dx, dy))`: the value and its derivative along a direction."""
    right = len(args) == 3 and not keywords and isinstance(args[0], Function)
    if not (right and all(isinstance(a, tuple) for a in args[1:]) and len(args[1]) == len(args[2])):
        context.fail(ParseError, "jvp takes a function, a tuple of arguments and one of tangents", span,
                     "write jvp(f, (x, y), (dx, dy)); None stands for zero")  # fmt: skip
    function, given, tangents = args
    return pushed(context, _calling(context, function, span), given, tangents, span)


def _calling(context: Context, function: Function, span: Span) -> Callable[..., AnyValue]:
    return lambda *args: context.invoke(function, list(args), {}, span)


def parameters(function: Function) -> tuple[str, ...]:
    """The names of a function's parameters."""
    if isinstance(function, Closure):
        return tuple(p.name for p in function.definition.parameters)
    return function.parameters


def ordered(context: Context, function: Function, args: Sequence[Any], keywords: Mapping[str, Any],
            span: Span) -> list[Any]:  # fmt: skip
    """Arguments by position."""
    names = parameters(function)
    bound = dict(zip(names, args, strict=False))
    if len(args) + len(keywords) != len(names) or set(bound) | set(keywords) != set(names):
        context.fail(ParseError, f"{function.name} takes ({', '.join(names)})", span, "pass each once")
    return [{**bound, **keywords}[n] for n in names]


def checked_order(context: Context, order: AnyValue, span: Span) -> int:
    """The order of differentiation: an integer known at compile time."""
    if not isinstance(order, int) or isinstance(order, bool) or order < 0:
        given = describe(order)
        remedy = "write an integer of 0 or more, or make it a static parameter"
        context.fail(DtypeError, f"the order of diff is {given}", span, remedy)
    if order > MOST_ORDERS:
        context.fail(LimitError, f"a derivative of order {order}", span, f"use {MOST_ORDERS} at most")
    return order


def positions(context: Context, function: Function, wrt: AnyValue, args: Sequence[AnyValue],
              span: Span) -> list[int]:  # fmt: skip
    """The arguments that `wrt` names, or all float arguments."""
    names = parameters(function)
    if wrt is None:
        given = [as_array(a) for a in args]
        for arg in given:
            if not isinstance(arg, Value | Function | str | None) and not is_number(arg):
                remedy = "name float parameters: grad(f, wrt=...)"
                if isinstance(arg, Masked):
                    remedy = "differentiate by all of x: pass x to the function, and select inside"
                context.fail(DtypeError, f"{function.name} got {describe(arg)}", span, remedy)
        return [k for k, a in enumerate(given) if _is_float(a)]
    found = []
    for one in wrt if isinstance(wrt, tuple) else (wrt,):
        k = names.index(one) if one in names else one
        if not isinstance(k, int) or isinstance(k, bool) or not -len(names) <= k < len(names):
            cause = f"{function.name} has no parameter {one!r}"
            context.fail(ParseError, cause, span, f"it takes ({', '.join(names)})")
        found.append(k % len(names))
    return found


def _is_float(value: AnyValue) -> bool:
    if isinstance(value, Value):
        return is_float(value.dtype)
    return is_number(value) and not isinstance(value, bool)
