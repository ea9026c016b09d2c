"""`f.why_none("m")`: why a compiled function has no derivative with respect to a parameter, in its source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from adcompiler.ad.programs.calculus import CALCULUS
from adcompiler.ad.programs.ends import End, ends
from adcompiler.ad.vjp import vjp
from adcompiler.errors import Source, Span
from adcompiler.frames import public
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.lowering.program import lower
from adcompiler.frontend.values.values import Closure
from adcompiler.ir.nodes import Apply, Func, Input
from adcompiler.ir.types import is_float
from adcompiler.ops.table import ALIASES
from adcompiler.pytree.kinds import Static, Types
from adcompiler.pytree.trees import leaves_by_path
from adcompiler.runtime.limits import MOST_CUTS
from adcompiler.runtime.programs.wrt import ArgumentNameError
from adcompiler.runtime.reports.cut_words import words

NAMES = {**ALIASES, "around": "rint"}  # of operations in a source
REMEDIES = {
    "comparison": "a comparison is a step, and so is its effect: use a smooth step, such as "
    "sigmoid((x - c) / width)",
    "integer": "integers and indices have no derivative: keep floats; to read between elements "
    "interpolate, as in (1 - t) * x[i] + t * x[i + 1]",
    "zero": "remove it, or use a smooth function, "
    "such as tanh(x / width) for sign, x - sin(2 * pi * x) / (2 * pi) for floor",
}


@public
def why_none(f: Any, name: str, *args: Any) -> str:
    """Why a parameter, or a part of it (`p['w']`), has no derivative: where in the source, and what to write.

    It is explained for arguments like `args`, else as last called, else as annotated, for scalars. Raises
    Error for a value that is not a parameter.
    """
    types = f._shown(args)
    kinds = {n: k for p, t in zip(f._parameters, types, strict=True) for n, k in leaves_by_path(p.name, t)}
    parts = [n for n in kinds if n == name or n.startswith((f"{name}[", f"{name}."))]
    if not parts and not args and f._last is None and _stem(name) in kinds:
        call = f"{f.__name__}.why_none({name!r}, {', '.join(f._names)})"
        cause = f"the parts of {_stem(name)} are not known before the first call of {f.__name__}"
        raise ArgumentNameError(cause, remedy=f"pass the arguments of a call: {call}")
    if not parts:
        listed = ", ".join(kinds)
        raise ArgumentNameError(f"{f.__name__} has no parameter {name!r}", remedy=f"it takes ({listed})")
    return "\n".join(_of_part(f, part, kinds[part], types) for part in parts)


def _of_part(f: Any, name: str, kind: Any, types: Types) -> str:
    title = f"the gradient of {f.__name__} with respect to {name}"
    if isinstance(kind, Static):
        return f"{title} is None: {name} is static, known while compiling\n  help: leave it out of static="
    if not is_float(kind.dtype):
        return f"{title} is None: {name} is {kind.dtype}, which has no derivative{_declared(f, name)}"
    func = f._trace(types).func
    array = func.inputs[func.input_names.index(name)]
    if vjp(func.results, list(func.results), [array])[0] is not None:
        return f"{title} is not None: it flows; f.explain() says what forward saves for it"
    whole = func if f._closure is None else lower(f._closure, types, calculus=CALCULUS).func
    return f"{title} is None: {of_program(whole, name, f._closure)}"


Shows = Callable[[Source, Span, str], str]  # a place in a source, and what is said of it


def shown(source: Source, span: Span, what: str) -> str:
    """A place with its line."""
    return f"{_at(source, span)}: {what}\n{source.excerpt(span)}"


def of_program(
    func: Func, name: str, closure: Closure | None = None, count: int | None = None, show: Shows = shown
) -> str:
    """The places where derivatives of the first `count` results with respect to an input end."""
    array: Input = func.inputs[func.input_names.index(name)]
    results = func.results[:count]
    if not any(is_float(r.dtype) for r in results):
        dtypes = ", ".join(r.dtype for r in results)
        return f"the results are {dtypes}, which have no derivative\n  help: return floats"
    found = _in_source(ends(results, [array]), func)
    if found:
        lines = list(dict.fromkeys(_of_end(end, func, show) for end in found))[:MOST_CUTS]
        kinds = dict.fromkeys(end.kind for end in found)
        head = next(_called(end, span, func) for end in found for span in _spans(end, func) or (None,))
        return "\n".join([f"the derivative ends at {head}", *lines, *map(_help, kinds)])
    return _not_read(name, closure)


def _help(kind: str) -> str:
    return f"  help: {REMEDIES[kind]}"


def _of_end(end: End, func: Func, show: Shows) -> str:
    what = words("integer" if end.kind == "integer" else end.kind).what
    spans = _spans(end, func)
    if not spans or func.source is None:
        return f"  {end.element.op}: {what}"
    return "\n".join([show(func.source, s, f"{_called(end, s, func)}: {what}") for s in spans])


def _in_source(found: Sequence[End], func: Func) -> list[End]:
    """The ends without those inside a function of the library that has another name: of the operations of
    `round(x, 2)` only the rounding."""
    named = {
        span: end.element
        for end in found
        for span in _spans(end, func)
        if _called(end, span, func) != end.element.op
    }
    return [
        end for end in found if all(named.get(s, end.element).op == end.element.op for s in _spans(end, func))
    ]


def _called(end: End, span: Span | None, func: Func) -> str:
    """The name of an operation as the source calls it: `round` for `rint`."""
    op = end.element.op
    if span is None or func.source is None:
        return op
    words = re.findall(r"(\w+)\(", func.source.text_of(span))
    return next((word for word in words if NAMES.get(word) == op), op)


def _spans(end: End, func: Func) -> list[Span]:
    """Where an operation stands. Inside of loops and comprehensions it is another node than the one that was
    lowered there: those of the same sort are all there are to choose from."""
    span = func.spans.get(end.element)
    if span is not None:
        return [span]
    alike = {s: None for n, s in func.spans.items() if isinstance(n, Apply) and n.op == end.element.op}
    return list(alike)[:MOST_CUTS]


def _at(source: Source, span: Span) -> str:
    line, column = source.at(span)
    return f"{source.of(span).name}:{line}:{column}"


# -- what is not read --------------------------------------------------------------------------


def _not_read(name: str, closure: Closure | None) -> str:
    """Where an input is read although nothing of it reaches a result; or that it is not."""
    if closure is None:
        return "no result depends on it"
    stem = _stem(name)
    spans = list(_reads(closure.definition, stem))
    if not spans:
        (span,) = [p.span for p in closure.definition.parameters if p.name == stem]
        text = f"{name} is not read"
        return f"{text}\n{_shown(closure.source, [span])}\n  help: compute a result from it, or remove it"
    again = [
        s
        for s in _assigned(closure.definition, stem)
        if (s.line, s.column) < (spans[0].line, spans[0].column)
    ]
    if again:
        return (
            f"{name} is given another value before it is read\n{_shown(closure.source, again[:1])}\n"
            "  help: give the other value another name"
        )
    return (
        f"{name} is read, but what is computed from it reaches no result\n{_shown(closure.source, spans)}\n"
        "  help: return what is computed from its values; a length or a shape carries no derivative"
    )


def _stem(name: str) -> str:
    """The parameter that a part belongs to."""
    return name.partition("[")[0].partition(".")[0]


def _shown(source: Source, spans: Sequence[Span]) -> str:
    return "\n".join(f"{_at(source, s)}:\n{source.excerpt(s)}" for s in spans[:MOST_CUTS])


def _reads(definition: tree.Def, name: str) -> Iterator[Span]:
    """The places where a definition names its parameter, except for those that assign it."""
    work: list[tree.Tree] = list(reversed(definition.body))
    while work:
        one = work.pop()
        if isinstance(one, tree.Name) and one.id == name:
            yield one.span
        parts = tree.children(one)
        if isinstance(one, tree.Assign):
            parts = [p for p in parts if not (isinstance(p, tree.Name) and p is not one.value)]
        work += reversed(parts)


def _assigned(definition: tree.Def, name: str) -> Iterator[Span]:
    """The places where a definition gives its parameter another value, outside branches and loops."""
    for one in definition.body:
        if isinstance(one, tree.Assign):
            yield from (t.span for t in one.targets if isinstance(t, tree.Name) and t.id == name)


def _declared(f: Any, name: str) -> str:
    """The parameter in the source, and what to write."""
    help_ = f"\n  help: pass floats: {name}=2.0, or an array .astype(float); annotate it f64, not i64"
    if f._closure is None:
        return help_
    spans = [p.span for p in f._closure.definition.parameters if p.name == name]
    return (f"\n{_shown(f._closure.source, spans)}" if spans else "") + help_
