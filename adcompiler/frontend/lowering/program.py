"""From a definition and the types of its arguments to a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NoReturn

import numpy as np

from adcompiler.errors import DtypeError, Error, LimitError, ParseError, Source, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import assigned
from adcompiler.frontend.indexing.dimensions import CONSTANTS as OF_TEXT
from adcompiler.frontend.indexing.iterables import ITERATORS
from adcompiler.frontend.indexing.ragged import rows_of
from adcompiler.frontend.indexing.struct_rows import equally_long
from adcompiler.frontend.library.builtins import CONSTANTS, TYPED_NAMES, library
from adcompiler.frontend.library.conversions import dtype_named
from adcompiler.frontend.library.distributions import of_scipy
from adcompiler.frontend.limits import MOST_RESULTS
from adcompiler.frontend.lowering.expressions import callee, is_static
from adcompiler.frontend.lowering.printing import shown
from adcompiler.frontend.lowering.statements import Lowering, UnrollError
from adcompiler.frontend.values.modules import dotted
from adcompiler.frontend.values.operations import ONE, Calculus, Context, close
from adcompiler.frontend.values.sizes import Constraint, settle
from adcompiler.frontend.values.values import (
    AnyValue,
    Closure,
    FunctionValue,
    Value,
    as_array,
    describe,
    instead_of,
    is_number,
    value_of_array,
)
from adcompiler.ir.bodies import Replace
from adcompiler.ir.loop import Item
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Element, Func, Input, Map, Read, const, select
from adcompiler.ir.walk import arrays_of, postorder, read_by
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply
from adcompiler.pytree.containers import Container, Ragged, Rows
from adcompiler.pytree.kinds import Kind, Static
from adcompiler.pytree.records import Records

ZERO = const(0, "i64")


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program for arguments of given types.

    constraints  equalities of sizes that a call must satisfy, in terms of one symbol for each axis
                 that is not of length 1, in the order of the inputs
    structure    the nesting of results: None for one array, or nested tuples of it
    """

    func: Func
    constraints: tuple[Constraint, ...]
    structure: Any
    prints: bool = False
    lines: tuple[Any, ...] = ()  # for a program that prints: see printing.py


def scope_of(module: tree.Module, outer: Mapping[str, Any]) -> dict[str, Any]:
    """The names that a module defines, added to those around it: constants and definitions."""
    scope = dict(outer)
    Lowering(module.source).block(module.statements, scope)
    scope[OF_TEXT] = tuple(assigned([s for s in module.statements if isinstance(s, tree.Assign)]))
    return scope


def free_names(expression: tree.Expression) -> list[str]:
    """The variables of an expression in order of appearance, without constants and called functions."""
    nodes = _walk(expression)
    called = {id(n.function) for n in nodes if isinstance(n, tree.Call)}
    prefixes = {
        id(name)
        for n in nodes
        if isinstance(n, tree.Attribute) and library(n) is not None
        for name in _walk(n.value)
    }
    calls = [n for n in nodes if isinstance(n, tree.Call)]
    types = {id(v) for n in calls for v in types_in(n)}
    bound = {name for n in nodes if isinstance(n, tree.Clause) for name in n.targets}
    named = [n.function for n in calls if of_scipy(dotted(n.function) or "") is not None]
    prefixes |= {id(name) for function in named for name in _walk(function)}  # refused by lowering
    skipped = called | prefixes | types
    found = [n for n in nodes if isinstance(n, tree.Name) and id(n) not in skipped]
    found.sort(key=lambda n: (n.span.line, n.span.column))
    return [
        name for name in dict.fromkeys(n.id for n in found) if name not in CONSTANTS and name not in bound
    ]


def types_in(call: tree.Call) -> list[tree.Expression]:
    """The arguments of a call that name types: `float` in `x.astype(float)`, `zeros(3, float)`."""
    function = call.function
    name = function.name if isinstance(function, tree.Attribute) else getattr(function, "id", "")
    method = isinstance(function, tree.Attribute) and library(function) is None
    placed = call.arguments[0 if method else 1 :] if name in TYPED_NAMES else ()
    given = (*placed, *(v for k, v in call.keywords if k == "dtype"))
    return [v for v in given if dtype_named(v, ())]


def _walk(expression: tree.Tree) -> list[tree.Tree]:
    return postorder([expression], tree.children)


def definition_of(expression: tree.Expression, name: str, args: Sequence[str] | None) -> tree.Def:
    """A bare expression as a definition; its parameters are its variables unless `args` names them."""
    span = expression.span
    parameters = free_names(expression) if args is None else list(args)
    return tree.Def(
        span,
        name,
        tuple(tree.Parameter(span, p, None) for p in parameters),
        (tree.Return(span, expression),),
        None,
    )


def lower(
    closure: Closure, types: Sequence[Kind], *, calculus: Calculus | None = None, observed: bool = False
) -> Lowered:
    """Lower a definition for arguments of these types, one per parameter; if `observed`, as a program whose
    results are its printed values.

    `calculus` differentiates in `diff` and `grad`. Raises the errors of the language, with their positions.
    """
    unrolled, first = frozenset[Any](), None
    while True:
        try:
            return _lowered(closure, types, calculus, observed, unrolled)
        except UnrollError as loop:
            first, unrolled = first or loop.error, unrolled | {loop.place}
        except Error as error:
            raise first or error from None


def _lowered(
    closure: Closure,
    types: Sequence[Kind],
    calculus: Calculus | None,
    observed: bool,
    unrolled: frozenset[Any],
) -> Lowered:
    """The program in which the loops `unrolled` are written out."""
    definition = closure.definition
    lowering = Lowering(closure.source, calculus)
    lowering.binders.observed, lowering.unrolled = observed, unrolled
    inputs: list[Input] = []
    pairs = zip(definition.parameters, types, strict=True)
    args = [_argument(lowering, parameter.name, given, inputs) for parameter, given in pairs]
    names = distinct(lowering.names[i] for i in inputs)
    try:
        value = lowering.call(closure, args, {}, definition.span)
    except RecursionError:
        remedy = "use fewer nested calls and derivatives"
        lowering.fail(LimitError, "calls and derivatives are nested too deeply", definition.span, remedy)
    leaves: list[Value] = []
    structure = _flatten(lowering, value, leaves, result_span(definition))
    results = tuple(close(leaf) for leaf in leaves)
    lines: tuple[Any, ...] = ()
    if observed:
        found, tallies = shown(lowering.binders.tallies, inputs)
        results, lines, structure = tuple(t.array for t in tallies), (found, tallies), (None,) * len(tallies)
    func = Func(
        name=definition.name,
        inputs=tuple(inputs),
        input_names=names,
        results=results,
        result_names=_result_names(names, len(results)),
        checks=tuple(lowering.binders.checks),
        names=lowering.names,
        spans=lowering.spans,
        source=closure.source,
    )
    settled = settle(without_refused_lengths(func), lowering.sizes)
    constraints = tuple(lowering.sizes.constraints)
    return Lowered(settled, constraints, structure, lowering.prints, lines)


def _argument(lowering: Lowering, name: str, given: Kind, inputs: list[Input]) -> Any:
    """The value of an argument; each array in it is an input."""
    if isinstance(given, Static):
        return given.value
    if isinstance(given, Container):
        parts = [
            _argument(lowering, name + given.path(key), part, inputs)
            for key, part in zip(given.keys, given.parts, strict=True)
        ]
        if isinstance(given, Ragged):
            return rows_of(lowering, parts, name)
        if isinstance(given, Rows):
            return equally_long(lowering, Rows.of(given.kind, parts[0]), name)
        if issubclass(given.kind, Records):
            return equally_long(lowering, Container(given.kind, given.keys, tuple(parts)), name)
        plain = given.kind in (tuple, list)
        return tuple(parts) if plain else Container(given.kind, given.keys, tuple(parts))
    shape = tuple(
        ONE if one else lowering.sizes.fresh(f"axis {k} of {name}") for k, one in enumerate(given.ones)
    )
    inputs.append(Input(len(inputs), given.dtype, shape))
    lowering.names[inputs[-1]] = name
    if given.dtype == "i64" and (given.width or given.weak):
        lowering.widths[inputs[-1]] = np.dtype(given.width) if given.width else None
    if given.dtype == "i64" and not shape:
        lowering.sizes.whole[inputs[-1]] = name
    return value_of_array(inputs[-1], given.weak)


def _result_names(taken: Sequence[str], count: int) -> tuple[str, ...]:
    """Names of results distinct from all inputs."""
    wanted = ["r"] if count == 1 else [f"r{k}" for k in range(count)]
    while not set(wanted).isdisjoint(taken):
        wanted = [name + "_" for name in wanted]
    return tuple(wanted)


def result_span(definition: tree.Def) -> Span:
    """The span of a definition's result."""
    last = definition.body[-1] if definition.body else definition
    return last.value.span if isinstance(last, tree.Return) else definition.span


def _flatten(lowering: Lowering, value: AnyValue, leaves: list[Value], span: Span) -> Any:
    """Collect the arrays of a result, and return their nesting."""
    value = as_array(value)
    if isinstance(value, tuple):
        return tuple(_flatten(lowering, part, leaves, span) for part in value)
    if isinstance(value, Container):
        return value.map(
            lambda part: Static(part) if is_static(part) else _flatten(lowering, part, leaves, span)
        )
    if is_number(value):
        value = Value((), const(value, lowering.meet((value,))[0]), weak=True)
    if len(leaves) >= MOST_RESULTS:
        lowering.fail(LimitError, f"more than {MOST_RESULTS} results", span, "return arrays")
    if not isinstance(value, Value):
        no_result(lowering, value, span)
    leaves.append(value)
    return None


def no_result(context: Context, value: AnyValue, span: Span) -> NoReturn:
    """A function returns a value that callers cannot receive."""
    remedy = instead_of(value, "return numbers or arrays")
    context.fail(DtypeError, f"the result is {describe(value)}", span, remedy)


def main_of(definitions: Sequence[tree.Def], source: Source) -> tree.Def:
    """The main definition among several: the last one that no other names."""
    named = {name for d in definitions for name in _names_of(d)}
    found = [d for d in definitions if d.name not in named]
    if not found:
        name = definitions[-1].name
        raise ParseError(
            f"which definition is meant? {', '.join(d.name for d in definitions)} call each other",
            remedy=f'choose one: compile(..., name="{name}"), or file.adc:{name}',
            source=source, span=definitions[-1].span,
        )  # fmt: skip
    return found[-1]


def _names_of(definition: tree.Def) -> set[str]:
    """The names that a definition reads, without its own and those it binds."""
    nodes = _walk(definition)
    own = {definition.name, *assigned(definition.body)}
    own |= {n.name for n in nodes if isinstance(n, tree.Parameter)}
    own |= {name for n in nodes if isinstance(n, tree.Clause) for name in n.targets}
    return {n.id for n in nodes if isinstance(n, tree.Name)} - own


def closure_of(
    module: tree.Module, name: str | None, args: Sequence[str] | None, outer: Mapping[str, Any]
) -> Closure:
    """The definition of a source: its expression, the one called `name`, or its main one."""
    source: Source = module.source
    if module.expression is not None:
        definition = definition_of(module.expression, name or "f", args)
        known = {p.name for p in definition.parameters}
        unknown = [n for n in free_names(module.expression) if n not in known and n not in outer]
        if unknown:
            raise ParseError(
                f"args does not contain {', '.join(unknown)}",
                remedy="name every variable",
                source=source,
                span=module.span,
            )
        known |= set(ITERATORS)  # lowering reports their use elsewhere
        scope = dict(outer) | dict.fromkeys(known)
        for call in _walk(module.expression):
            if isinstance(call, tree.Call) and getattr(call.function, "id", None) not in known:
                callee(Lowering(source), call, scope)  # report unknown functions at once
        return Closure(definition, dict(outer), source)
    defined = [s for s in module.statements if isinstance(s, tree.Def)]
    if not defined and isinstance(last := module.statements[-1], tree.Assign):
        raise ParseError(
            "the source defines no function, only a name", source=source, span=last.span,
            remedy="write only the expression, without the name, or def f(x): return ...",
        )  # fmt: skip
    scope = scope_of(module, outer)
    found = [d for d in defined if name in (None, d.name)]
    if not found:
        raise ParseError(
            f"no definition {name!r} in {source.name}" if defined else "the source defines no function",
            remedy=f"it defines {', '.join(d.name for d in defined)}"
            if defined
            else "write an expression or a def",
            source=source,
            span=module.span,
        )
    definition = found[-1] if name is not None else main_of(found, source)
    if args is not None and list(args) != [p.name for p in definition.parameters]:
        raise ParseError(
            f"args names {', '.join(args)}, but {definition.name} takes "
            f"{', '.join(p.name for p in definition.parameters)}",
            remedy="omit args: a def names its own parameters",
            source=source,
            span=definition.span,
        )
    return calling(definition, scope[definition.name], source)


def calling(definition: tree.Def, value: AnyValue, source: Source) -> Closure:
    """What the decorators of a definition made of it, as a definition; others are unchanged."""
    if isinstance(value, Closure):
        return value
    if not isinstance(value, FunctionValue) or not value.parameters:
        cause = f"the decorators of {definition.name} make {describe(value)} of it"
        remedy = "call the other function in a def of its own"
        raise ParseError(cause, remedy=remedy, source=source, span=definition.decorators[0].span)
    span, inner = definition.span, f"def {definition.name}"
    names = tuple(tree.Name(span, name) for name in value.parameters)
    call = tree.Call(span, tree.Name(span, inner), names, ())
    parameters = tuple(tree.Parameter(span, name, None) for name in value.parameters)
    made = tree.Def(span, definition.name, parameters, (tree.Return(span, call),), definition.docstring)
    return Closure(made, {inner: value}, source)


def without_refused_lengths(func: Func) -> Func:
    """`func` with each length that depends on values set to 0 if a check without loops fails.

    `linspace(0, 1, k[0]) * x[: k[1]]` is then refused at once if k[0] is 2**40, since its loop is empty.
    Lengths in loop bodies are unchanged.
    """
    numbers = [a for a in _lengths(func) if _is_scalar(a)]
    early = [c for c in func.checks if _is_scalar(c.holds)]
    if not numbers or not early:
        return func
    holds = (apply("not_equal", Read(c.holds, ()), ZERO) for c in early)
    sound = Read(Map((), reduce(lambda x, y: apply("logical_and", x, y), holds)), ())
    guarded: dict[Array, Array] = {a: Map((), select(sound, Read(a, ()), const(0, a.dtype))) for a in numbers}
    made = Replace(guarded).func(func)
    checks = (old if old in early else new for old, new in zip(func.checks, made.checks, strict=True))
    return made.with_(checks=tuple(checks))


def _lengths(func: Func) -> tuple[Array, ...]:
    """The arrays read by lengths of a program's arrays, sums and loops."""
    lengths: list[Element] = []
    for array in arrays_of(func.roots):
        lengths += [*array.shape, *array.domain]
        if isinstance(array, Item) and array.loop.length is not None:
            lengths.append(array.loop.length)
    return read_by(lengths)


def _is_scalar(array: Array) -> bool:
    """Whether an array is computed without loops: a scalar, computed from scalars and elements of inputs."""
    return all(isinstance(a, Input) or (isinstance(a, Map) and not a.rank) for a in arrays_of((array,)))
