"""`adc.why_none`: the path from the output to a gradient that is None, where it is cut, and what to write."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any
from weakref import ref

import numpy as np

from adcompiler.eager.aggregates.aggregate import Aggregate
from adcompiler.eager.aggregates.fusion_plan import Fused
from adcompiler.eager.graph.graph import Entry, Variable, is_variable, live, state
from adcompiler.eager.graph.holders import leaves_of
from adcompiler.eager.graph.provenance import identity, taken
from adcompiler.eager.graph.user_lines import OURS, UserLine, by, locals_of
from adcompiler.errors import Source, Span
from adcompiler.explain.limits import MOST_CUTS, MOST_STEPS, STEP_COLUMNS
from adcompiler.explain.why.cut_search import Cut, Search, Step, blocked, unnamed
from adcompiler.frames import public
from adcompiler.public_types import Values
from adcompiler.runtime.reports.cut_words import words
from adcompiler.runtime.reports.why_compiled import of_program, shown


class Why(str):
    """An explanation: a text, which is also what a prompt shows.

    cuts  where paths were cut, each with `how`, `place` (its `line`, and the file in `code.co_filename`)
    """

    cuts: Sequence[Cut] = ()

    def __repr__(self) -> str:
        return str(self)


@public
def why_none(output: Values, input: Values) -> Why:
    """Explain why the gradient of `output` with respect to `input` is None: where the path was cut, by which
    line, and what to write instead; or that it is not None.

    Both are Variables. If one is a value computed from Variables, such as a loss after `.item()`, the
    explanation says so. The graph may have been freed by a backward pass. "Perhaps" means that only an equal
    value, or a conversion nearby, suggests the cut: the last 256 conversions to numbers and arrays are
    remembered.
    """
    names = _names()
    for what, value in (("output", output), ("input", input)):
        if not is_variable(value):
            return Why(_no_variable(what, value))
    if not input.differentiable or not output.differentiable:
        return Why(_no_float(output if input.differentiable else input, names))
    search = Search(output, input)
    search.names = names
    title = f"the gradient of {_named(output, names)} with respect to {_named(input, names)}"
    if search.found:
        return Why(_there(title, output, input, search))
    return because(f"{title} is None", search)


def because(title: str, search: Search) -> Why:
    """The explanation of a gradient that is None, which the title says."""
    cuts = _chosen(search.cuts())
    other = None if any(cut.certain for _, cut in cuts) else _too_late(search)
    if other is not None or not cuts:
        return Why(f"{title}: {other or _not_read(search)}")
    text = _cuts_text(title, cuts, search)
    made = Why(text)
    made.cuts = [cut for _, cut in cuts]
    return made


def unused(title: str, output: Variable, input: Variable) -> Why:
    """The explanation of an output that does not depend on an input."""
    return because(title, Search(output, input))


# -- cuts --------------------------------------------------------------------------------------

Found = tuple[Step | None, Cut]


def _chosen(found: list[Found]) -> list[Found]:
    """The cuts that are shown: one of each line, and none that is uncertain beside certain ones."""
    if any(cut.certain for _, cut in found):
        found = [(step, cut) for step, cut in found if cut.certain]
    lines: dict[Any, Found] = {}
    for step, cut in found:
        lines.setdefault((cut.how, str(cut.place)), (step, cut))
    return list(lines.values())[:MOST_CUTS]


def _cuts_text(title: str, cuts: Sequence[Found], search: Search) -> str:
    first = cuts[0][1]
    where = f" at {first.place.short}" if first.place is not None else ""
    perhaps = "" if first.certain else "perhaps "
    lines = [f"{title}: {perhaps}{words(first.how).headline} cuts the path{where}"]
    for step, cut in cuts:
        path = search.path(step)
        lines += _path(path, cut)
        if cut.how == "compiled":
            lines += _in_program(path[-1], search)
            continue
        lines.append(f"  {cut.name}: {'' if cut.certain else 'perhaps '}{words(cut.how).what}")
        lines.append(f"  help: {words(cut.how).remedy}")
    return "\n".join(lines)


def _in_program(entry: Entry, search: Search) -> list[str]:
    """Where the derivatives end in the source of a compiled function that was called."""
    assert isinstance(entry, Aggregate)
    parts = entry.program.parts
    title = f"  {entry.name} has no derivative with respect to"
    show = partial(_of_line, entry) if isinstance(entry, Fused) else shown
    lines = []
    for k, edge in enumerate(entry.edges):
        if blocked(entry, k) == "compiled" and search.leads(edge.serial, edge.entry):
            name = parts.forward.input_names[parts.wanted[k]]
            given = search.name(edge.serial)
            both = name if given == name or unnamed(given) else f"{name}, which is {given}"
            what = given if isinstance(entry, Fused) else both
            text = of_program(parts.forward, name, None, parts.count, show)
            lines.append(f"{title} {what}: {text}")
    return lines


def _of_line(entry: Fused, source: Source, span: Span, what: str) -> str:
    """An operation of a fused graph, by the user's line: the text has one line for each, below its head."""
    return f"    {what}  {entry.places[span.line - 2]}"


def _path(path: Sequence[Entry], cut: Cut) -> list[str]:
    """The operations from the output to the cut, a line each, with the lines of the source."""
    rows = [(entry.line(), entry.place) for entry in path]
    if cut.link:
        rows.append((cut.link, cut.place))
    if len(rows) > MOST_STEPS:
        half = MOST_STEPS // 2
        rows = [*rows[:half], (f"... {len(rows) - 2 * half} more operations", None), *rows[-half:]]
    width = min(STEP_COLUMNS, max((len(left) for left, _ in rows), default=0))
    return [_row(left, place, width, k == len(rows) - 1) for k, (left, place) in enumerate(rows)]


def _row(left: str, place: UserLine | None, width: int, last: bool) -> str:
    mark = "  <-- cut here" if last else ""
    return f"    {left:{width}}  {place or ''}{mark}".rstrip()


# -- no cut ------------------------------------------------------------------------------------


def _too_late(search: Search) -> str | None:
    """What is said where the output read what the input was before, or was made from."""
    target, origin = search.target, search.target.origin
    if target.entry is None and origin is not None and any(s in search.via for s in origin.sources):
        return _later(search, origin.how, origin.place)
    shared = _before(search)
    if shared is None:
        return None
    if shared == search.output.serial:
        return _swapped(search)
    if target.place is not None:
        return _later(search, "changed", target.place)
    return _another_object(search, shared)


def _swapped(search: Search) -> str:
    """The input was computed from the output."""
    target, output, entry = search.called(search.target), search.called(search.output), search.target.entry
    assert entry is not None
    return (
        f"{target} was computed from {output}, not {output} from {target}\n"
        f"    {entry.line()}  {entry.place or ''}\n"
        f"  help: ask the other way round: adc.why_none({target}, {output})"
    )


def _not_read(search: Search) -> str:
    """What is said where nothing connects the input with the output."""
    output, target = search.called(search.output), search.target
    lines = [f"nothing on the way to {output} reads {search.called(target)}", *_readers(target)]
    perhaps = search.perhaps()[:MOST_CUTS]
    if perhaps:
        lines.append("  perhaps one of these values was used instead:")
        lines += [f"    {cut.link}  {cut.place}" for cut in perhaps]
        lines += [f"  help: {words(how).remedy}" for how in dict.fromkeys(cut.how for cut in perhaps)]
        return "\n".join(lines)
    lines.append(f"  help: compute {output} from this Variable, or ask for one that it reads:")
    return "\n".join([*lines, *(_leaves(search) or ["    it reads none"])])


def _later(search: Search, how: str, place: UserLine | None) -> str:
    """The output read the input before something made another value of it."""
    found, name = words(how), search.called(search.target)
    return f"{found.headline} came too late\n    {name}  {place}\n  {found.what}\n  help: {found.remedy}"


def _before(search: Search) -> int | None:
    """A value that the input was computed from, and the output too: the nearest, by its serial number."""
    work = [] if search.target.entry is None else [search.target.entry]
    seen: set[int] = set()
    for entry in work:
        for edge in entry.edges:
            serial: int = edge.serial
            if serial in search.via:
                return serial
            if edge.entry is not None and edge.serial not in seen:
                seen.add(edge.serial)
                work.append(edge.entry)
    return None


def _another_object(search: Search, serial: int) -> str:
    """The input was computed, beside the output, from what the output reads: it is another object."""
    target, output, entry = search.called(search.target), search.called(search.output), search.target.entry
    assert entry is not None
    read = [search.called(v) for v in entry.inputs if is_variable(v) and v.serial == serial]
    made = [e.origin.name for _, e, _ in search.ends if e.serial == serial and e.origin is not None]
    name = (read or made or [search.name(serial)])[0]
    return (
        f"{target} is another object than what {output} reads\n"
        f"    {entry.line()}  {entry.place or ''}  <-- a new object is made here\n"
        f"    {output} was computed from {name}, not from {target}\n"
        f"  help: ask for the gradient with respect to {name}, or make {target} once and compute with "
        "it; a step of training changes the leaf itself: `with adc.no_grad(): w -= lr * w.grad`"
    )


def _readers(target: Variable) -> list[str]:
    """The operations, still referenced, that read the input."""
    found = [e for e in live() if any(edge.serial == target.serial for edge in e.edges)]
    return [f"    it is read by {e.line()}  {e.place or ''}" for e in found[-MOST_CUTS:]]


def _leaves(search: Search) -> list[str]:
    """The leaves that the output reads."""
    seen = {edge.serial: edge.origin for _, edge, why in search.ends if why == "leaf" and edge.origin}
    return [f"    {o.name}  {o.place or ''}" for o in list(seen.values())[: 2 * MOST_CUTS]]


# -- gradients that there are ------------------------------------------------------------------


def _there(title: str, output: Variable, target: Variable, search: Search) -> str:
    """A derivative passes: why `.grad` may be None all the same."""
    if target is output:
        return f"{title} is not None: it is 1"
    entries = search.path(search.via[target.serial])
    rows = [f"    {e.line()}  {e.place or ''}".rstrip() for e in entries]
    path = "\n".join(rows if len(rows) <= MOST_STEPS else [*rows[:4], "    ...", *rows[-4:]])
    if any(e in search.unknown for e in entries):
        return (
            f"{title} is not None, if the propagate that was recorded gives one\n{path}\n"
            "  help: ask again after a backward pass, which runs it"
        )
    kept = _no_grad_kept(search.called(output), search.called(target), target)
    return f"{title} is not None: adc.tape.grad gives it\n{path}\n  {kept}"


def _no_grad_kept(output: str, name: str, target: Variable) -> str:
    if not target.requires_grad:
        return (
            f"{name}.grad stays None because {name} requires no gradient\n"
            f"  help: create it with adc.Variable(value, requires_grad=True)"
        )
    if not target.is_leaf and not target.retains_grad:
        place = target.entry.place if target.entry is not None else None
        return (
            f"{name}.grad is None because {name} is no leaf: it was computed by {place}\n"
            f"  help: call {name}.retain_grad() before backward(), or read .grad of the leaf"
        )
    if target._grad is None:
        return f"{name}.grad is None\n  help: call {output}.backward(); zero_grad() empties it"
    return f"{name}.grad holds the sum of the gradients that backward() computed"


def unfilled(v: Variable) -> str | None:
    """Why `.grad` is None, for a warning; None where that is as it should be: there was no backward pass
    since the Variable was made, or since its gradient was taken away."""
    title = f".grad of {v.name} is None"
    if not v.is_leaf:
        return (
            f"{title} because it is not a leaf: it was computed{by(v.entry.place)}. Call "
            f"{v.name}.retain_grad() before backward(), or read .grad of the leaf it was computed from"
            f"{leaves_of(v)}"
        )
    last = state.last
    if last is None or last.number < max(v.serial, v._assigned):
        return None
    output = last.output()
    if output is None:
        return (
            f"{title} after the last backward(), which did not reach it; adc.why_none(loss, {v.name}) "
            "says where the path was cut, with the loss that backward() was called on"
        )
    search = Search(output, v)
    search.names = _names()
    name = _named(output, search.names)
    return None if search.found else because(f"{title} after backward() of {name}", search)


# -- what is no Variable -----------------------------------------------------------------------


def _no_variable(what: str, value: Any) -> str:
    text = f"the {what} is a {type(value).__name__}, which is not part of a graph: there is no gradient"
    same = identity(value)
    for t in taken():
        if t.was(same):
            return f"{text}\n    {t.call}  {t.place}\n  help: {words(t.how).remedy}"
    hint = (
        "pass the adc.Variable it was computed from"
        if what == "output"
        else ("make it an adc.Variable before anything is computed from it")
    )
    return f"{text}\n  help: {hint}"


def _no_float(v: Variable, names: dict[int, str]) -> str:
    place = f"\n    {v.origin.name}  {v.origin.place}" if v.origin is not None and v.origin.place else ""
    return (
        f"{_named(v, names)} holds {v.dtype}: integers have no derivative{place}\n"
        f"  help: {words('integer').remedy}; start with floats"
    )


# -- names -------------------------------------------------------------------------------------


def _names() -> dict[int, str]:
    """What the user's line calls Variables, by id."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OURS):
        frame = frame.f_back
    if frame is None:
        return {}
    return {id(v): n for n, v in (*frame.f_globals.items(), *locals_of(frame).items()) if is_variable(v)}


def _named(v: Variable, names: dict[int, str]) -> str:
    local = names.get(id(v))
    return str(v.name) if local is None or local == v.name else f"{local} ({v.name})"


def ended(output: Variable) -> str:
    """For an output behind which nothing requires a gradient: where graphs were cut."""
    lines: dict[str, None] = {}
    for _, edge, _ in Search(output, type(output).made(np.zeros(()))).ends:
        origin = edge.origin
        if origin is not None and (origin.sources or isinstance(origin.given, float | ref | np.generic)):
            found = words(origin.how)
            made = any(t.was(origin.given) for t in taken())
            if origin.sources or made:
                lines[f"\n    {origin.name}  {origin.place}\n  {found.what}: {found.remedy}"] = None
    return "".join(list(lines)[:MOST_CUTS])
