"""The answer of `adc.explain_nan`, as fields and as a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from adcompiler.errors import Source, Span
from adcompiler.explain.nan.nan_places import Iteration, NanPlace
from adcompiler.explain.nan.nan_words import Operand, SourceWords, arithmetic, number, operation
from adcompiler.explain.nan.remedies import Failure, Matrix, Remedy, measured, remedy
from adcompiler.interpreter.history import Frame
from adcompiler.interpreter.nonfinite import Cause, Event
from adcompiler.ir.loop import Item
from adcompiler.ir.nodes import Apply, Array, Call, Func, Input, Node, Reduce
from adcompiler.ir.origins import Origin, Origins
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.table import TABLE

MEANS = ("mean", "average", "var", "std", "median")
ORDINALS = ("", "the", "a second", "a third")


@dataclass(frozen=True)
class NanExplanation:
    """Why something is NaN or infinite. Its text is the message; it is false if everything is finite.

    phase         "forward", "backward" (the operation is part of a derivative), "input" (an argument is
                  not finite), or None if everything is finite or the operation is not known
    operation     the operation's name, as in docs/rules.md; in a derivative the function that is
                  differentiated
    line, column  its place in the user's source, from 1; None without a source
    element       its index; () for a scalar
    iterations    the iterations of the loops around it, from 0, the outermost first; `iteration` is the last
    operands      their values, by their text: {"x[3]": 0.0}
    partial       the partial derivative, as a formula with its value
    suggestion    what to write instead; `guard`, if given, can replace the operation
    reproduced    whether the compiled kernels agree with the interpreter
    """

    message: str
    found: bool = True
    phase: str | None = None
    operation: str | None = None
    value: float | None = None
    source: str | None = None
    line: int | None = None
    column: int | None = None
    span: Span | None = None
    element: tuple[int, ...] | None = None
    iterations: tuple[int, ...] = ()
    operands: Mapping[str, float] = field(default_factory=dict)
    partial: str | None = None
    suggestion: str | None = None
    guard: str | None = None
    reproduced: bool = True

    @property
    def iteration(self) -> int | None:
        """The iteration of the innermost loop, from 0; None outside loops."""
        return self.iterations[-1] if self.iterations else None

    def __str__(self) -> str:
        return self.message

    def __bool__(self) -> bool:
        return self.found


def finite(name: str) -> NanExplanation:
    """Nothing is NaN or infinite."""
    return NanExplanation(f"{name}: all results and gradients are finite", found=False)


def not_reproduced(func: Func, k: int, kernel: Sequence[Any]) -> NanExplanation:
    """A kernel gave what the interpreter did not."""
    name = func.result_names[k] if k < len(func.result_names) else "a result"
    value = np.asarray(kernel[k])
    index = tuple(int(i) for i in np.argwhere(~np.isfinite(value))[0])
    shown = Operand(name, index, float(value[index]))
    return NanExplanation(
        f"{shown.label} is {number(shown.value)} in the compiled kernel, but finite where the program is "
        "interpreted operation by operation: this NaN cannot be reproduced, so no operation can be named.\n"
        "  Kernels sum in another order and share divisions (x / d and y / d are products with 1 / d), which "
        "may overflow where single operations do not.\n"
        '  help: scale what is very large or very small; backend="numpy" computes as interpreted',
        value=shown.value,
        element=index,
        reproduced=False,
    )


@dataclass(frozen=True)
class Finding:
    """What a finder knows of the operation that is not finite, in a program or on the tape.

    The fields are those of `NanExplanation`, and the parts of its message: the `head`, lines on `where` it
    is, the operands if they are `listed`, the partial derivative, and lines on what came `then`.
    """

    head: str
    phase: str
    operation: str
    value: float
    element: tuple[int, ...]
    operands: Sequence[Operand]
    remedy: Remedy
    source: Source | None = None
    span: Span | None = None
    where: Iterable[str] = ()
    listed: bool = True
    partial: str | None = None
    then: Iterable[str] = ()
    iterations: tuple[int, ...] = ()
    reproduced: bool = True

    def explained(self) -> NanExplanation:
        """The finding in words."""
        head, line, column = self.head, None, None
        if self.source is not None and self.span is not None:
            line, column = self.source.at(self.span)
            source = self.source.of(self.span)
            head = f"{source.name}:{line}:{column}: {head}\n{source.excerpt(self.span)}".rstrip()
        listed = self.operands if self.listed else ()
        lines = [
            head,
            *self.where,
            *(f"{o.label} = {number(o.value)}{_at_index(o)}" for o in listed),
            *([f"partial derivative: {self.partial}"] if self.partial else []),
            *self.then,
            f"help: {self.remedy.text}",
        ]
        return NanExplanation(
            "\n  ".join(lines),
            phase=self.phase,
            operation=self.operation,
            value=float(self.value),
            source=None if self.source is None else self.source.of(self.span).name,
            line=line,
            column=column,
            span=self.span,
            element=self.element,
            iterations=self.iterations,
            operands={o.label: float(o.value) for o in self.operands},
            partial=self.partial,
            suggestion=self.remedy.text,
            guard=self.remedy.guard,
            reproduced=self.reproduced,
        )


UNUSED = (
    "the cotangent is 0: nothing uses this value (a factor 0, a mask, the branch of a where "
    "that is not taken),",
    "yet 0 * inf is NaN; so make the argument safe before the operation, not its result",
)


def numbers(texts: Sequence[str], operands: Sequence[Operand]) -> list[float]:
    """The values of operands, of which some are written as numbers; none if one is not known."""
    known = {o.text: o.value for o in operands}
    found = [known[t] if t in known else float(t) for t in texts if t in known or is_number(t)]
    return found if len(found) == len(texts) else []


def corrected(name: str, prefix: str = "") -> Remedy:
    """What to do about an argument that is not finite."""
    guard = f"{prefix}where({prefix}isfinite({name}), {name}, 0)"
    return Remedy(f"correct the data: {guard}, or omit these elements", guard)


def report(func: Func, count: int, table: Origins, cause: Cause, agrees: bool) -> NanExplanation:
    """The explanation of a cause."""
    return _Report(SourceWords(func, table), count, cause, agrees).made()


class _Report:
    """What is said of one cause; the first `count` results of the program are its own."""

    def __init__(self, words: SourceWords, count: int, cause: Cause, agrees: bool) -> None:
        self.words, self.count, self.cause, self.agrees = words, count, cause, agrees
        self.event = cause.event
        self.origin = words.origin(self.event)
        self.base = None if self.origin is None else words.base(self.origin)
        self.lines: list[str] = []

    def made(self) -> NanExplanation:
        if self.cause.kind == "input":
            return self._input()
        operands = self._operands()
        standing = self.words.standing(self.base if self.base is not None else self.event.element, self.event)
        place = NanPlace(self.words.table, self.cause, self.origin, standing)
        source, span = (None, None) if self.origin is None else (self.origin.source, self.origin.span)
        what = f"{self._subject()} is {number(self.event.value)}"
        return Finding(
            f"{what}: the first operation of the {self._phase()} pass that is not finite",
            self._phase(),
            self._operation(),
            self.event.value,
            place.element,
            operands,
            self._remedy(operands),
            source,
            span,
            where=self._where(place),
            partial=self._partial(),
            then=self._then(),
            iterations=tuple(i.number for i in place.iterations),
            reproduced=self.agrees,
        ).explained()

    # -- the parts ---------------------------------------------------------------------------------

    def _phase(self) -> str:
        """Whether the operation is one of the program, or of a derivative."""
        if self.base is not None:
            return "backward"
        frame, array = self.event.frame, self.event.array
        while frame.inside is not None:
            outer, loop, _, _ = frame.inside
            frame, array = outer, loop.items[0]
        own = arrays_of(self.words.func.results[: self.count])
        loops = {a.loop for a in own if isinstance(a, Item)}
        inside = array.loop in loops if isinstance(array, Item) else array in own
        # A program computes some of its operations again for its derivative, in other arrays.
        again = self.event.element in elements_of(e for a in own for e in a.elements)
        return "forward" if inside or again else "backward"

    def _operation(self) -> str:
        return operation(self.event) if self.base is None else _name(self.base)

    def _subject(self) -> str:
        origin = self.origin
        if origin is None:
            return operation(self.event)
        written = self.words.text(origin.source, origin.span)
        if not 0 < len(written) <= 80 or written.startswith(("for ", "while ")):
            written = self._operation()
        if self.base is None:
            return written
        ordinal = ORDINALS[min(origin.order, 3)]
        texts = self.words.written(origin)
        by = ""
        if origin.argument is not None and origin.argument < len(texts) and len(texts) > 1:
            by = f" by {texts[origin.argument]}"
        return f"{ordinal} derivative of {written}{by}"

    def _where(self, place: NanPlace) -> Iterator[str]:
        parts = [f"element {list(place.element)}"] if place.element else []
        parts += [f"iteration {i.number} of {self._loop(i)}" for i in place.iterations]
        if parts:
            yield "at " + ", ".join(parts)
        for source, span in place.calls:
            yield f"in the call {self.words.text(source, span)} in line {_line(source, span)}"

    def _loop(self, iteration: Iteration) -> str:
        if iteration.place is None:
            return "a loop"
        source, span = iteration.place
        written = self.words.text(source, span)
        if written.startswith(("for ", "while ")):
            return f"the loop in line {_line(source, span)}"
        return f"{written} in line {_line(source, span)}"

    def _operands(self) -> list[Operand]:
        if self._matrix is not None and self.origin is not None:
            text = (self.words.written(self.origin) or ["the matrix"])[0]
            return [Operand(f"{self._matrix.what} of {text}", (), self._matrix.least)]
        node: Node | None = self.base if self.base is not None else self.event.element
        found = self.words.operands(node, self.event) if node is not None else []
        known: dict[str, Operand] = {}
        for operand in found:
            if not is_number(operand.text):
                known.setdefault(operand.label, operand)
        return list(known.values())

    def _partial(self) -> str | None:
        """The partial derivative that the operation is part of."""
        base, origin = self.base, self.origin
        if not isinstance(base, Apply) or origin is None or base.op not in TABLE:
            return arithmetic(self.event) if base is not None else None
        entry = TABLE[base.op]
        k = origin.argument
        formula = entry.partials[k] if k is not None and k < len(entry.partials) else None
        said = arithmetic(self.event)
        if formula is None or formula in ("0", "1") or origin.order > 1:
            return said
        result = ", r the result" if "r" in formula.replace("(", " ").split() else ""
        names = ", ".join(entry.params)
        return f"d {base.op}({names}) / d {entry.params[k or 0]} = {formula}{result}; here {said}"

    def _then(self) -> Iterator[str]:
        """What became of it on the way to the result."""
        for birth in self.cause.births:
            origin = self.words.origin(birth)
            line = "" if origin is None or origin.source is None else self._line(origin)
            yield f"then {arithmetic(birth)}{line}"
            if self._phase() == "backward" and self._is_unused(birth):
                yield from UNUSED
                break
        name = self.words.func.result_names[self.cause.result]
        yield f"so {Operand(name, self.cause.index, 0.0).label} is {self._result()}"
        if not self.agrees:
            yield "the compiled kernel returns finite numbers here: its algebra avoids this operation"

    def _line(self, origin: Origin) -> str:
        assert origin.source is not None
        if self.origin is not None and origin.span.line == self.origin.span.line:
            return ""
        return f" in line {_line(origin.source, origin.span)}"

    def _is_unused(self, birth: Event) -> bool:
        """Whether a cotangent that is zero met an infinite partial derivative."""
        if not isinstance(birth.element, Apply) or birth.element.op != "multiply":
            return False
        origin = self.words.table.nodes.get(birth.element)
        cotangent = birth.element.args[0]  # so are products made: `partials.times`
        return origin is not None and origin.of is not None and bool(birth.values[cotangent] == 0)

    def _result(self) -> str:
        result = self.words.func.results[self.cause.result]
        frame = self.event.frame
        while frame.inside is not None:
            frame = frame.inside[0]
        return number(_at(frame, result, self.cause.index))

    def _remedy(self, operands: Sequence[Operand]) -> Remedy:
        origin, name = self.origin, self._operation()
        texts: Sequence[str] = [] if origin is None else self.words.written(origin)
        source = "" if origin is None else self.words.text(origin.source, origin.span)
        called = source.partition("(")[0] if source.endswith(")") else ""
        if name == "divide" and called.rpartition(".")[2] in MEANS:
            name = "mean"
        if name == "divide" and called.rpartition(".")[2] in ("lstsq", "pinv"):
            name = "pinv"
        texts = texts or [o.text for o in operands]
        found = remedy(
            Failure(
                name,
                texts,
                numbers(texts, operands),
                float(self.event.value),
                self._phase() == "backward",
                source,
                called,
                None if origin is None else origin.argument,
                self.event.array.dtype == "f32",
                self._matrix,
            )
        )
        return found.assigned(None if origin is None else self.words.target(origin))

    @cached_property
    def _matrix(self) -> Matrix | None:
        """How the routine finds the matrix that it is given."""
        call = next((n for n in (self.event.array, self.base) if isinstance(n, Call)), None)
        if call is None or call.operands[0] not in self.event.frame.values:
            return None
        stack = self.event.frame.values[call.operands[0]]
        case = self.event.point[: stack.ndim - 2] if call is self.event.array else ()
        found = stack[case].astype(float)
        return measured(call.op, found) if found.ndim == 2 and found.size else None

    # -- an argument ---------------------------------------------------------------------------------

    def _input(self) -> NanExplanation:
        """An argument is not finite already."""
        array, index, value = self.event.array, self.event.point, self.event.value
        assert isinstance(array, Input)
        name = self.words.named_input(array)
        shown = Operand(name, index, value)
        head = f"{shown.label} is {number(value)}: the argument {name} is not finite from the start"
        return Finding(
            head, "input", "input", value, index, [shown], corrected(name), listed=False,
            then=self._then(), reproduced=self.agrees,
        ).explained()  # fmt: skip


def _name(node: Node) -> str:
    if isinstance(node, Apply):
        return node.op
    op = getattr(node, "op", None)
    return op if isinstance(op, str) else "sum" if isinstance(node, Reduce) else type(node).__name__.lower()


def _line(source: Source | None, span: Span) -> int:
    return span.line if source is None else source.at(span)[0]


def _at_index(operand: Operand) -> str:
    """The index of an element that the user's text leaves to a variable: x[i]."""
    return f", element {list(operand.index)}" if operand.index and operand.text.endswith("]") else ""


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _at(frame: Frame, array: Array, index: tuple[int, ...]) -> float:
    return float(frame.values[array][index])
