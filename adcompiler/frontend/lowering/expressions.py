"""Lowers expressions from the syntax tree to values.

Expressions may be deeper than Python's stack, so each lowering function is a generator: it yields the subtree
it needs and is resumed with that subtree's value. `evaluated` keeps the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, NoReturn, TypeAlias

from adcompiler.errors import ParseError, ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.other_languages import ATTRIBUTES
from adcompiler.frontend.indexing import selections
from adcompiler.frontend.indexing.comprehensions import comprehension
from adcompiler.frontend.indexing.scattering import is_many
from adcompiler.frontend.indexing.sequences import combined, is_display, refuse_comparison
from adcompiler.frontend.indexing.struct_rows import field
from adcompiler.frontend.indexing.subscripts import subscript
from adcompiler.frontend.library.builtins import (
    BUILTINS,
    CONSTANTS,
    METHODS,
    PREFIXES,
    TYPED,
    as_value,
    joins,
    library,
    takes_functions,
)
from adcompiler.frontend.library.conversions import dtype_named
from adcompiler.frontend.library.distributions import of_scipy
from adcompiler.frontend.library.functionals import differentiated, is_partial
from adcompiler.frontend.library.moving import imag, matrix_transpose, real
from adcompiler.frontend.library.numpy_names import function_of
from adcompiler.frontend.library.suggestions import instead, missing, ours, similar
from adcompiler.frontend.lowering.origins_of_trees import located
from adcompiler.frontend.values.aliases import shared
from adcompiler.frontend.values.builtin_arguments import Builtin
from adcompiler.frontend.values.modules import NO_PART, ModuleValue, dotted, part_of
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.operators import BINARY, COMPARE, LOGICAL, OTHERWISE
from adcompiler.frontend.values.rearranging import listed, transpose
from adcompiler.frontend.values.reductions import count
from adcompiler.frontend.values.slices import SliceValue, place_of
from adcompiler.frontend.values.values import (
    LOCAL,
    UNSET,
    AnyValue,
    AppendedList,
    Closure,
    Foreign,
    FunctionValue,
    Listed,
    Masked,
    Value,
    as_array,
    describe,
    instead_of,
    is_number,
)
from adcompiler.ir.nodes import Element
from adcompiler.ir.origins import tracked
from adcompiler.ops.build import apply, cast, settled
from adcompiler.pytree.containers import Container

# A subtree whose value is needed, with its scope if that differs.
Scope: TypeAlias = dict[str, AnyValue]
Steps: TypeAlias = Generator[tree.Expression | tuple[tree.Expression, Scope], AnyValue, AnyValue]
Arguments: TypeAlias = Generator[
    tree.Expression | tuple[tree.Expression, Scope], AnyValue, tuple[list[Any], dict[str, Any]]
]
Step: TypeAlias = Callable[..., Steps]  # of a context, a node of one kind, and the visible names


# Builtins that read only the lengths of an array, which stores through other names do not change.
MEASURES = tuple(BUILTINS[name] for name in ("len", "zeros_like", "ones_like", "empty_like"))


def measured(node: tree.Expression, scope: Mapping[str, AnyValue]) -> Value | None:
    """The array with a name, if only its lengths are needed."""
    value = scope.get(node.id) if isinstance(node, tree.Name) else None
    return value if isinstance(value, Value) else None


def run(context: Context, steps: Generator[Any, AnyValue, Any], scope: Scope) -> Any:
    """The result of a generator that requests values of expressions."""
    context.frame.scope = scope
    value: AnyValue = None
    while True:
        try:
            wanted = steps.send(value)
        except StopIteration as done:
            return done.value
        value = context.expression(*(wanted if isinstance(wanted, tuple) else (wanted, scope)))


def unsupported(context: Context, node: tree.Tree, scope: Scope | None = None) -> NoReturn:
    """Refuse syntax that lowering does not support."""
    kind = type(node).__name__.lower()
    context.fail(ParseError, f"{kind}: this construct is not supported yet", node.span)


def evaluated(
    context: Context, steps: Mapping[type[tree.Tree], Step], root: tree.Expression, scope: Scope
) -> AnyValue:
    """The value of an expression, by the steps for each kind of node."""

    def started(node: tree.Expression, scope: Scope) -> Steps:
        return steps.get(type(node), unsupported)(context, node, scope)

    stack = [(started(root, scope), scope, root)]
    tracking = tracked() is not None
    value: AnyValue = None
    while stack:
        running, here, lowered = stack[-1]
        try:
            wanted = running.send(value)
        except StopIteration as done:
            stack.pop()
            value = done.value
            if tracking:
                located(context, lowered, value)
            continue
        node, inner = wanted if isinstance(wanted, tuple) else (wanted, here)
        stack.append((started(node, inner), inner, node))
        value = None
    return value


def literal(context: Context, node: tree.Number | tree.Text, scope: Scope) -> Steps:
    """A number or a text."""
    return node.value
    yield node  # unreachable: makes this function a generator


def name(context: Context, node: tree.Name, scope: Scope) -> Steps:
    """The value of a name."""
    if node.id in scope:
        value = scope[node.id]
        if value is UNSET:
            value = LOCAL
        if isinstance(value, Foreign | ModuleValue):
            context.fail(ParseError, f"{node.id!r} is {value.what}", node.span, value.remedy)
        if isinstance(value, AppendedList) and value.key in scope:
            for held in value.kept:
                context.aliases.read_held(held, node.id, node.span)
            array = scope[value.key] = context.aliases.own(scope[value.key])
            return replace(value, buffer=array) if value.around else array
        return context.aliases.read(value, node.id, node.span)
    if node.id in CONSTANTS:
        return CONSTANTS[node.id]
    remedy = f"{node.id} is a function: call it: {node.id}(...)" if node.id in BUILTINS else None
    context.fail(ParseError, f"unknown name {node.id!r}", node.span, remedy or similar(node.id, scope))
    yield node


def unary(context: Context, node: tree.Unary, scope: Scope) -> Steps:
    """An operator with one operand."""
    operand = yield node.operand
    match node.op:
        case "+":
            return shared(
                context.elementwise("multiply", (1, operand), node.span) if _is_bool(operand) else operand
            )
        case "-":
            return context.elementwise("negative", (operand,), node.span)
        case "~":
            op = "logical_not" if _is_bool(operand) else "invert"
            return context.elementwise(op, (operand,), node.span)
    return context.elementwise("logical_not", (operand,), node.span)


def subscripted(context: Context, node: tree.Subscript, scope: Scope) -> Steps:
    """A subscript."""
    if (join := joins(node, scope)) is not None:
        return (yield from joined(context, join, node))
    value = yield node.value
    places = yield from indices(context, node)
    context.aliases.read(value, named(node), node.span)
    found = subscript(context, value, places, node.span)
    array = as_array(value)
    if isinstance(array, Value):
        is_copy = any(map(is_many, places))
        return shared(found) if is_copy else context.aliases.part(found, array, place_of(places))
    return context.aliases.read(found, named(node), node.span)


def joined(context: Context, join: Builtin, node: tree.Subscript) -> Steps:
    """`np.r_[a, b, 0:n]`: a slice is a range of numbers."""
    parts = yield from indices(context, node)
    for k, part in enumerate(parts):
        if isinstance(part, SliceValue):
            bounds = [0 if part.start is None else part.start, part.stop, part.step or 1]
            parts[k] = context.invoke(BUILTINS["arange"], bounds, {}, node.span)
    return context.invoke(join, [tuple(parts)], {}, node.span)


def indices(context: Context, node: tree.Subscript) -> Steps:
    """The values of a subscript's indices."""
    found: list[Any] = []
    for index in node.indices:
        if isinstance(index, tree.Ellipsis):
            found.append(...)
        elif isinstance(index, tree.Slice):
            parts = []
            for part in (index.start, index.stop, index.step):
                parts.append(None if part is None else (yield part))
            found.append(SliceValue(*parts))
        else:
            given = yield index
            tuples = isinstance(given, tuple) and not isinstance(given, Listed)
            found.extend(given if tuples else (given,))
    return found


def binary(context: Context, node: tree.Binary, scope: Scope) -> Steps:
    """An operator with two operands."""
    left = yield node.left
    right = yield node.right
    context.aliases.read(left, named(node.left), node.left.span)  # the right side may have stored to it
    displays = is_display(node.left, context.repeated), is_display(node.right, context.repeated)
    if node.op == "*" and any(displays):
        context.repeated.add(node)
    return operated(context, node.op, left, right, node.span, displays)


def operated(
    context: Context, symbol: str, left: AnyValue, right: AnyValue, span: Span, displays: tuple[bool, bool]
) -> AnyValue:
    """The value of `left symbol right`; `displays` marks operands that are list displays."""
    if symbol == "@":
        return selections.product(context, left, right, span)
    op = operator(context, symbol, span)
    sequence = combined(context, symbol, left, right, displays, span)
    if sequence is not None:
        return sequence
    if op in LOGICAL and _is_bool(left) and _is_bool(right):
        op = LOGICAL[op]
    return context.elementwise(op, (left, right), span)


def operator(context: Context, symbol: str, span: Span) -> str:
    """The primitive of a binary operator."""
    if symbol not in BINARY:
        context.fail(ParseError, f"the operator {symbol} is not supported yet", span)
    return BINARY[symbol]


def compare(context: Context, node: tree.Compare, scope: Scope) -> Steps:
    """A chain of comparisons."""
    left = yield node.operands[0]
    result: AnyValue = None
    displays = [is_display(operand, context.repeated) for operand in node.operands]
    for k, (symbol, operand) in enumerate(zip(node.ops, node.operands[1:], strict=True)):
        right = yield operand
        context.aliases.read(left, "", node.span)
        if symbol in ("in", "not in"):
            here: AnyValue = member(context, left, right, node.span)
            here = here if symbol == "in" else context.elementwise("logical_not", (here,), node.span)
        elif symbol in ("==", "!=") and (is_static(left) or is_static(right)):
            here = (left == right) == (symbol == "==")
        elif symbol in ("==", "!=") and type(left) is type(right) is tuple:
            here = same(context, left, right, node.span)
            here = here if symbol == "==" else context.elementwise("logical_not", (here,), node.span)
        else:
            refuse_comparison(context, left, right, (displays[k], displays[k + 1]), node.span)
            here = context.elementwise(COMPARE[symbol], (left, right), node.span)
        result = here if result is None else context.elementwise("logical_and", (result, here), node.span)
        left = right
    return result


def same(context: Context, left: tuple[AnyValue, ...], right: tuple[AnyValue, ...], span: Span) -> AnyValue:
    """Whether tuples are equal, such as `x.shape == (3, 3)`."""
    found: AnyValue = len(left) == len(right)
    for one, other in zip(left, right, strict=False):
        static = is_static(one) or is_static(other)
        here = one == other if static else context.elementwise("equal", (one, other), span)
        found = context.elementwise("logical_and", (found, here), span)
    return found


def member(context: Context, item: AnyValue, items: AnyValue, span: Span) -> AnyValue:
    """`item in items`: whether any of a tuple, or any element of an array, is equal."""
    if isinstance(items, Value) and items.rank:
        return BUILTINS["any"](context, [context.elementwise("equal", (item, items), span)], {}, span)
    if not isinstance(items, tuple):
        context.fail(
            ParseError, f"in {describe(items)}", span, "compare with ==, or with a tuple: k in (0, 1)"
        )
    found: AnyValue = False
    for other in items:
        static = is_static(item) or is_static(other)
        same = item == other if static else context.elementwise("equal", (item, other), span)
        found = context.elementwise("logical_or", (found, same), span)
    return found


def boolean(context: Context, node: tree.Boolean, scope: Scope) -> Steps:
    """`and`, `or`: one of the operands, as in Python; of booleans a boolean, of arrays element by element."""
    result = yield node.operands[0]
    for operand in node.operands[1:]:
        known = decided(result)
        if is_known(known):
            if bool(known) == (node.op == "or"):
                return result
            result = yield operand
            continue
        with context.binders.under(*reached(node.op, result)):
            right = yield operand
        result = either(context, node, result, right)
    return result


def either(context: Context, node: tree.Boolean, left: AnyValue, right: AnyValue) -> AnyValue:
    """The value of `left and right` or `left or right` where the values of a call decide."""
    if _is_bool(left) and _is_bool(right):
        return context.elementwise(f"logical_{node.op}", (left, right), node.span)
    for operand in (left, right):
        if isinstance(operand, Value) and operand.rank:
            cause = f"'{node.op}' of {describe(operand)}: it chooses one of two numbers, as in Python"
            chosen = "x, y" if node.op == "or" else "y, x"
            remedy = f"write where(x != 0, {chosen}) for numbers, or compare: x != 0 {node.op} y != 0"
            context.fail(ShapeError, cause, node.span, remedy)
    truth = context.elementwise("not_equal", (left, 0), node.span) if not _is_bool(left) else left
    then, otherwise = (left, right) if node.op == "or" else (right, left)
    return context.where(truth, then, otherwise, node.span)


def is_known(value: AnyValue) -> bool:
    """Whether the truth of a value is known at compile time: of numbers, strings, None and tuples."""
    return is_number(value) or is_static(value) or (isinstance(value, tuple) and as_array(value) is value)


def decided(value: AnyValue) -> AnyValue:
    """A condition on lengths as a number, if axes of length 1 decide it; other values unchanged."""
    if not isinstance(value, Value) or value.rank or value.dtype != "bool":
        return value
    known = settled(value.element)
    return value if known is None else bool(known.value)


def reached(op: str, left: AnyValue) -> tuple[Element, ...]:
    """The condition under which the second operand of `left and` or `left or` is evaluated."""
    if not isinstance(left, Value) or left.rank:
        return ()
    condition = cast(left.element, "bool")
    return (condition if op == "and" else apply("logical_not", condition),)


def ternary(context: Context, node: tree.Ternary, scope: Scope) -> Steps:
    """`a if b else c`."""
    test = decided((yield node.test))
    if not isinstance(test, Value):
        return (yield node.then if test else node.otherwise)
    condition = () if test.rank else (cast(test.element, "bool"),)
    with context.binders.under(*condition):
        then = yield node.then
    with context.binders.under(*(apply("logical_not", c) for c in condition)):
        otherwise = yield node.otherwise
    then, otherwise = as_array(then), as_array(otherwise)
    if isinstance(then, tuple) and isinstance(otherwise, tuple) and len(then) == len(otherwise):
        pairs = zip(then, otherwise, strict=True)
        return tuple(context.aliases.either(context.where(test, a, b, node.span), a, b) for a, b in pairs)
    return context.aliases.either(context.where(test, then, otherwise, node.span), then, otherwise)


def sequence(context: Context, node: tree.Sequence, scope: Scope) -> Steps:
    """A list or a tuple."""
    items = []
    for item in node.items:
        items.append((yield item))
    return listed(context, items, node.span) if node.kind == "list" else tuple(items)


def attribute(context: Context, node: tree.Attribute, scope: Scope) -> Steps:
    """An attribute of a value."""
    if (captured := part_of(node, scope)) is not NO_PART:
        text = dotted(node) or ""
        return (yield tree.Name(node.span, text), {text: captured})
    if (prefix := library(node, scope)) is not None:
        if prefix not in PREFIXES:
            foreign(context, prefix, node)
        if node.name in CONSTANTS or node.name == "newaxis":
            return CONSTANTS.get(node.name)
        whole = dotted(node)
        remedy = f"call it: {whole}(...)" if node.name in BUILTINS else similar(node.name, {})
        context.fail(ParseError, f"unknown name {whole}", node.span, remedy)
    value = measured(node.value, scope) if node.name in ("shape", "ndim", "size") else None
    if value is not None:
        return part(context, value, node)
    value = yield node.value
    found = part(context, value, node)
    if isinstance(value, Value):
        return shared(found, value)
    return context.aliases.read(found, named(node), node.span)


def part(context: Context, value: AnyValue, node: tree.Attribute) -> AnyValue:
    """The attribute of a value."""
    if isinstance(value, Value):
        if node.name == "T":
            return transpose(context, value, None, node.span)
        if node.name == "mT":
            return matrix_transpose(context, value, node.span)
        if node.name == "shape":
            return tuple(Value((), context.sizes.find(n), weak=True) for n in value.shape)
        if node.name == "ndim":
            return value.rank
        if node.name == "size":
            return count(context, value, None, node.span)
        if node.name in ("real", "imag"):
            return real(context, value, node.span) if node.name == "real" else imag(context, value, node.span)
    if isinstance(value, Masked) and node.name == "size":
        return selections.size(context, value, node.span)
    if isinstance(value, Container) and value.kind is not dict:
        return field(context, value, node)
    own = ATTRIBUTES.get(node.name, "an array has shape, ndim, size, T, mT, real and imag")
    remedy = f"call it: .{node.name}()" if node.name in METHODS else own
    remedy = 'write p["name"]' if isinstance(value, Container) else remedy
    cause = f"{describe(value)} has no attribute {node.name!r} in this language"
    context.fail(ParseError, cause, node.span, instead_of(value, remedy))


def call_of(context: Context, node: tree.Call, scope: Scope) -> Steps:
    """A call."""
    if is_partial(node, scope):
        function = function_named(node.arguments[0], scope)
        return (yield from differentiated(context, node, function, scope, context.body))
    target = callee(context, node, scope)
    if target is None:
        target = yield node.function
        refuse_call(context, node, target)
    args, keywords = yield from passed(context, node, target, scope)
    return context.invoke(target, args, keywords, node.span)


def refuse_call(context: Context, node: tree.Call, target: AnyValue) -> None:
    """Refuse calls of what is not a function."""
    if not isinstance(target, Closure | FunctionValue):
        cause = f"{describe(target)} is not a function"
        context.fail(ParseError, cause, node.function.span, "write * to multiply")


def passed(context: Context, node: tree.Call, target: AnyValue, scope: Scope) -> Arguments:
    """The arguments of a call, by position and by name."""
    args: list[AnyValue] = []
    keywords: dict[str, AnyValue] = {}
    owner: tree.Expression | None = None  # for a method, the array, passed as first argument
    if isinstance(node.function, tree.Attribute) and part_of(node.function, scope) is NO_PART:
        owner = node.function.value if library(node.function, scope) is None else None
    if owner is not None:
        args.append((yield owner))
    for k, argument in enumerate(node.arguments):
        if isinstance(argument, tree.Starred):
            args += unpacked(context, argument, (yield argument.value))
            continue
        if (
            (k or owner is not None)
            and target in TYPED
            and (kind := (yield from type_named(context, argument, scope))) is not None
        ):
            keywords["dtype"] = kind
            continue
        found = function_named(argument, scope) if takes_functions(target) else None
        if found is None and target in MEASURES:
            found = measured(argument, scope)
        args.append((yield argument) if found is None else found)
    for name, argument in node.keywords:
        if name in keywords:
            context.fail(ParseError, f"the argument {name!r} is given twice", node.span)
        known = (yield from type_named(context, argument, scope)) if name == "dtype" else None
        keywords[name] = (yield argument) if known is None else known
    return args, keywords


def type_named(context: Context, node: tree.Expression, scope: Scope) -> Steps:
    """The type that an expression names: `np.float32`, `x.dtype`; None for other expressions."""
    if isinstance(node, tree.Attribute) and node.name == "dtype":
        return getattr(as_array((yield node.value)), "dtype", "float")
    return dtype_named(node, scope)


def unpacked(context: Context, node: tree.Starred, value: AnyValue) -> tuple[AnyValue, ...]:
    """The arguments given by `*value`."""
    if not isinstance(value, tuple):
        remedy = "its length must be known at compile time: write out each argument, such as x[0], x[1]"
        context.fail(ParseError, f"'*' unpacks a tuple here, not {describe(value)}", node.span, remedy)
    return value


def function_named(node: tree.Expression, scope: Mapping[str, AnyValue]) -> AnyValue:
    """The function that an expression names: a def, or a builtin not shadowed by a variable; else
    None."""
    if not isinstance(node, tree.Name):
        return None
    if node.id in scope:
        return scope[node.id] if isinstance(scope[node.id], Closure | FunctionValue) else None
    return as_value(node.id) if node.id in BUILTINS and node.id not in CONSTANTS else None


def callee(context: Context, node: tree.Call, scope: Scope) -> Any:
    """The target of a call: a def, another compiled function, a builtin, or a method of an array; None
    for the result of a call."""
    match node.function:
        case tree.Call():
            return None
        case tree.Attribute() if (captured := part_of(node.function, scope)) is not NO_PART:
            whole = dotted(node.function) or ""
            return callee(
                context, replace(node, function=tree.Name(node.function.span, whole)), {whole: captured}
            )
        case tree.Name(id=name):
            match scope.get(name):
                case FunctionValue(library=True, call=call):
                    return call
                case Closure() | FunctionValue():
                    return scope[name]
                case Foreign() | ModuleValue() as other:
                    context.fail(ParseError, f"{name!r} is {other.what}", node.function.span, other.remedy)
            if name in BUILTINS:
                return BUILTINS[name]
            if name in CONSTANTS:
                context.fail(
                    ParseError,
                    f"{name} is a number",
                    node.function.span,
                    f"write * to multiply: {name} * (...)",
                )
            if name in scope:
                context.fail(
                    ParseError,
                    f"{name!r} is {describe(scope[name])}, not a function",
                    node.function.span,
                    f"write * to multiply: {name} * (...)",
                )
            context.fail(ParseError, f"unknown function {name!r}", node.function.span, similar(name, scope))
        case tree.Attribute(name=name) as whole if prefix := library(whole, scope):
            if prefix not in PREFIXES:
                foreign(context, prefix, node.function)
            if (prefix, name) in OTHERWISE:
                context.fail(ParseError, f"unknown name {prefix}.{name}", node.span, OTHERWISE[prefix, name])
            if (function := function_of(prefix, name)) is not None:
                return function
            remedy = of_scipy(f"{prefix}.{name}") or similar(name, {})
            context.fail(ParseError, f"unknown function {prefix}.{name}", node.function.span, remedy)
        case tree.Attribute(name=name):
            if name in METHODS:
                return METHODS[name]
            owner: str = getattr(node.function.value, "id", "")
            if isinstance(value := scope.get(owner), Foreign):
                context.fail(ParseError, f"{owner!r} is {value.what}", node.function.value.span, value.remedy)
            if owner and name in BUILTINS and owner not in (*scope, *CONSTANTS):
                remedy = f"write {name}(...), or np.{name}(...)"
                context.fail(ParseError, f"unknown name {owner!r}", node.function.value.span, remedy)
            if (advice := missing(node.function, scope)) is not None:
                cause = f"{dotted(node.function)} is not part of the language"
                context.fail(ParseError, cause, node.function.span, advice)
            cause = f"arrays have no method .{name}()"
            context.fail(ParseError, cause, node.function.span, instead(name))
    context.fail(ParseError, "only a function's name can be called", node.function.span)


def foreign(context: Context, prefix: str, node: tree.Attribute) -> NoReturn:
    """Refuse a name of an unsupported library."""
    context.fail(
        ParseError, f"{dotted(node)} is not part of the language", node.span, ours(prefix, node.name)
    )


def named(node: tree.Expression) -> str:
    """The name whose element or part is read."""
    while isinstance(node, tree.Subscript | tree.Attribute):
        node = node.value
    return node.id if isinstance(node, tree.Name) else ""


def _is_bool(value: AnyValue) -> bool:
    return value.dtype == "bool" if isinstance(value, Value) else isinstance(value, bool)


def is_static(value: AnyValue) -> bool:
    """Whether a value is compared at compile time: a string or None, as in a container."""
    return value is None or isinstance(value, str)


STEPS: dict[type[tree.Tree], Step] = {
    tree.Number: literal,
    tree.Text: literal,
    tree.Name: name,
    tree.Unary: unary,
    tree.Binary: binary,
    tree.Compare: compare,
    tree.Boolean: boolean,
    tree.Ternary: ternary,
    tree.Call: call_of,
    tree.Attribute: attribute,
    tree.Sequence: sequence,
    tree.Subscript: subscripted,
    tree.Comprehension: comprehension,
}
