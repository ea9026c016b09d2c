"""The report for a recorded operation that makes NaN: the user's line, operands, the partial derivative."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adcompiler.ad.programs.split import pullback
from adcompiler.eager.graph.graph import Entry, is_variable
from adcompiler.eager.graph.user_lines import UserLine
from adcompiler.eager.variable.elementwise import Elementwise, _value, word
from adcompiler.eager.variable.numpy_functions import is_own
from adcompiler.errors import Source, Span
from adcompiler.explain.nan.nan_program import TracedProgram, explained
from adcompiler.explain.nan.nan_report import UNUSED, Finding, NanExplanation, corrected, is_number, numbers
from adcompiler.explain.nan.nan_words import Operand, number
from adcompiler.explain.nan.remedies import Failure, Matrix, Remedy, formula, measured, remedy
from adcompiler.frontend.grammar.parse import parse_expression
from adcompiler.frontend.lowering.rule_texts import names_in
from adcompiler.ir.origins import tracking
from adcompiler.runtime.programs.program import Program

Values = Sequence[np.ndarray | None]
MORE = "adc.tape.anomaly(infinite=True) shows what made {} infinite"
ROUTINES = {n: n for n in ("solve", "inv", "det", "slogdet", "cholesky")}


class Called(NamedTuple):
    """A call of a compiled function, by the inputs of its program."""

    function: Any
    types: Any
    wanted: Sequence[int]
    values: Sequence[Any]


# -- the explanation ---------------------------------------------------------------------------------


class EagerFinder:
    """What is said of one entry some of whose values are `bad`; `root` is the user's operation of whose
    derivative it is part, if it is."""

    def __init__(
        self,
        bad: Callable[[Any], Any],
        entry: Entry,
        place: UserLine | None,
        called: Called | None,
        root: Entry | None = None,
    ) -> None:
        self.bad, self.entry, self.called, self.root = bad, entry, called, root
        self.written = written(place)
        self.derived = root is not None  # the operation is part of a derivative of what stands there

    def forward(self, results: Sequence[Any]) -> NanExplanation:
        """Why a result of an operation is not finite."""
        k = next(k for k, r in enumerate(results) if has(self.bad, r))
        data = results[k].data
        index = _first(self.bad(data))
        value = float(data[index])
        already = self._already()
        if already is not None:
            return already
        inside = self._inside(None)
        if inside is not None:
            return inside
        operands = self._operands_at(index, data.shape)
        subject = self.written.text or self.entry.line()
        head = f"{subject} made {number(value)}"
        met = [MORE.format("it")] if any(np.isinf(o.value) for o in operands) else []
        return self._explanation("forward", head, value, index, operands, None, met)

    def backward(self, given: Sequence[Any], found: Sequence[Any]) -> NanExplanation:
        """Why a gradient that an operation returned is not finite."""
        k = next(k for k, g in enumerate(found) if g is not None and has(self.bad, g))
        data = found[k].data
        index = _first(self.bad(data))
        value = float(data[index])
        name = self.entry.inputs[k].name if k < len(self.entry.inputs) else "an input"
        for g, output in zip(given, self.entry.outputs, strict=True):
            if g is not None and has(self.bad, g):
                at = _first(self.bad(g.data))
                head = f"the gradient of {output.name} is {number(g.data[at])} before the propagate of"
                return self._explanation("input", f"{head} {self._subject()}", value, at, [], None, [])
        inside = self._inside(given)
        if inside is not None:
            return inside
        if isinstance(self.entry, Elementwise) and given[0] is not None:
            return self._elementwise(self.entry, given[0], k, name)
        head = f"the propagate of {self._subject()} made {number(value)} in the gradient of {name}"
        return self._explanation("backward", head, value, index, [], None, [])

    # -- parts -------------------------------------------------------------------------------------

    def _subject(self) -> str:
        if self.derived and self.written.text:
            return f"`{self.entry.line()}` in the derivative of {self.written.text}"
        return self.written.text or self.entry.line()

    def _already(self) -> NanExplanation | None:
        """An operand that is NaN before."""
        values = self.entry.operands if isinstance(self.entry, Elementwise) else self.entry.inputs
        for k, v in enumerate(values):
            if (is_variable(v) or isinstance(v, np.ndarray | float)) and has(self.bad, v):
                data = np.asarray(v.data if is_variable(v) else v)
                index = _first(self.bad(data))
                shown = Operand(self._name(k, v), index, float(data[index]))
                head = f"{shown.label} is {number(shown.value)} before {self._subject()}"
                return self._explanation("input", head, shown.value, index, [shown], None, [])
        return None

    def _name(self, k: int, v: Any) -> str:
        """An operand as the user wrote it, else its name."""
        entry = self.root or self.entry
        count = len(entry.operands) if isinstance(entry, Elementwise) else len(entry.inputs)
        if len(self.written.operands) == count:
            return self.written.operands[k]
        return word(v)

    def _operands_at(self, index: tuple[int, ...], shape: tuple[int, ...]) -> list[Operand]:
        """The operands of the user's elementwise operation at a point."""
        entry = self.root or self.entry
        if not isinstance(entry, Elementwise):
            return []
        found = []
        for k, v in enumerate(entry.operands):
            if np.ndim(v.data if is_variable(v) else v) > len(shape):
                return []
            data = np.asarray(v.data if is_variable(v) else v)
            own = tuple(0 if n == 1 else i for n, i in zip(data.shape[::-1], index[::-1], strict=False))[::-1]
            text = self._name(k, v)
            if not is_number(text):
                found.append(Operand(text, own, float(np.broadcast_to(data, shape)[index])))
        return found

    def _elementwise(self, entry: Elementwise, cotangent: Any, k: int, name: str) -> NanExplanation:
        """The partial derivative that made NaN, and the cotangent that it was multiplied with."""
        inputs = [p for p, a in enumerate(entry.operands) if is_variable(a)]
        position = inputs[k]
        text = entry.primitive.partials[position]
        scope: dict[str, Any] = {
            n: np.asarray(a.data if is_variable(a) else a)
            for n, a in zip(entry.primitive.params, entry.operands, strict=True)
        }
        if "r" in names_in(text):
            scope["r"] = entry.output(0).data
        with np.errstate(all="ignore"):
            partial = np.asarray(_value(parse_expression(text), scope))
        shape = np.broadcast_shapes(partial.shape, cotangent.shape)
        factor, weight = np.broadcast_to(partial, shape), np.broadcast_to(cotangent.data, shape)
        with np.errstate(all="ignore"):
            product = factor * weight
        bad = self.bad(product)
        index = _first(bad) if bad.any() else (0,) * len(shape)
        slope, weight_here = float(factor[index]), float(weight[index])
        subject = self._subject()
        name = name if self.derived else self._name(position, entry.operands[position])
        head = f"the derivative of {subject} by {name} is {number(slope)}: its propagate made NaN"
        if not np.isnan(product[index]):
            head = f"the derivative of {subject} by {name} is {number(slope)}"
        lines = []
        if weight_here == 0 and not np.isfinite(slope):
            lines = [f"then 0 * {number(slope)} is nan", *UNUSED]
        elif np.isnan(product[index]):
            lines = [f"then {number(weight_here)} * {number(slope)} is nan"]
            if np.isinf(weight_here) and np.isfinite(slope):
                lines.append(MORE.format("the cotangent"))
        params = entry.primitive.params
        result = ", r the result" if "r" in names_in(text) else ""
        said = f"d {formula(entry.primitive.name, params)} / d {params[position]} = {text}{result}"
        operands = self._operands_at(index, shape)
        return self._explanation("backward", head, slope, index, operands, said, lines, position)

    def _explanation(
        self,
        phase: str,
        head: str,
        value: float,
        index: tuple[int, ...],
        operands: list[Operand],
        partial: str | None,
        lines: list[str],
        argument: int | None = None,
        op: str | None = None,
    ) -> NanExplanation:
        entry = self.root or self.entry
        op = entry.primitive.name if isinstance(entry, Elementwise) else op
        found = self._remedy(op, operands, value, phase, argument)
        if lines and lines[-1].startswith(MORE.partition("{")[0]):  # what is wrong is not here
            found = Remedy(lines.pop())
        return Finding(
            head,
            phase,
            op or self.entry.right().partition("(")[0],
            value,
            index,
            operands,
            found,
            self.written.source,
            self.written.span,
            where=[f"at element {list(index)}"] if index else [],
            partial=partial,
            then=lines,
        ).explained()

    def _remedy(
        self, op: str | None, operands: Sequence[Operand], value: float, phase: str, argument: int | None
    ) -> Remedy:
        text = self.written.text
        texts = self.written.operands or [o.text for o in operands]
        if phase == "input":
            return corrected(operands[0].text if operands else "x", "np.")
        float32 = any(v.data.dtype == np.float32 for v in self.entry.inputs)
        values, backward = numbers(texts, operands), phase == "backward"
        failure = Failure(
            op or "", texts, values, value, backward, text, "np.", argument, float32, self._matrix
        )
        target = (
            text.partition("=")[0].rstrip("+-*/%@ ") if re.match(r"[\w.\[\]]+\s*[-+*/%@]+=", text) else None
        )
        return remedy(failure).assigned(target)

    @property
    def _matrix(self) -> Matrix | None:
        """How a routine of NumPy's finds the matrix that it is given."""
        name = self.written.text.partition("(")[0].rpartition(".")[2]
        if self.called is None or name not in ROUTINES:
            return None
        a = np.asarray(self.called.values[0], float)
        return measured(ROUTINES[name], a) if a.ndim == 2 and a.size else None

    # -- calls of compiled functions ---------------------------------------------------------------

    def _inside(self, given: Sequence[Any] | None) -> NanExplanation | None:
        """The explanation of a call of a compiled function from inside; None for another operation."""
        call = self.called
        if call is None:
            return None
        present = None if given is None else [None if g is None else g.data for g in given]
        program, cotangents = _program(call, present)
        found = explained(program, [*call.values, *cotangents], None, call.function.__name__)
        if not found:
            return None
        if is_own(call.function) and self.written.text:
            return self._of_numpys(found)
        where = f"in the call {self._subject()}"
        if self.written.source is not None and self.written.span is not None:
            where += f" ({self.written.source.name}:{self.written.span.line})"
        return _within(found, where)

    def _of_numpys(self, found: NanExplanation) -> NanExplanation:
        """The explanation of one of NumPy's functions, which is the user's operation and no call of a program
        of theirs."""
        names = {f"x{k}": text for k, text in enumerate(self.written.operands)}

        def named(text: str) -> str:
            return re.sub(r"\bx\d+\b", lambda m: names.get(m[0], m[0]), text)

        assert found.value is not None
        operands = [Operand(named(text), (), value) for text, value in found.operands.items()]
        if found.phase == "input":
            head = f"{operands[0].text} is {number(found.value)} before {self._subject()}"
        elif found.phase == "backward":
            head = f"the derivative of {self._subject()} is {number(found.value)}"
        else:
            head = f"{self._subject()} made {number(found.value)}"
        index = found.element or ()
        return self._explanation(
            found.phase or "forward", head, found.value, index, operands, None, [], None, found.operation
        )


def _within(found: NanExplanation, where: str) -> NanExplanation:
    return replace(found, message=f"{where}:\n{found.message}")


def _program(call: Called, given: Values | None) -> tuple[TracedProgram, list[np.ndarray]]:
    """The program of a call; with cotangents of its results also their gradients, and these cotangents."""
    with tracking() as table:
        lowered = call.function._trace(call.types)
        func = lowered.func
        sizes = Program.of(lowered, "numpy").sizes(call.values)
        if given is None:
            return TracedProgram(func, len(func.results), table, sizes), []
        present = [g is not None for g in given]
        present += [False] * (len(func.results) - len(present))
        pulled, _ = pullback(func, call.wanted, present)
    whole = pulled.with_(
        results=(*func.results, *pulled.results), result_names=(*func.result_names, *pulled.result_names)
    )
    return TracedProgram(whole, len(func.results), table, sizes), [g for g in given if g is not None]


def has(bad: Callable[[Any], Any], value: Any) -> bool:
    """Whether some values of an array are `bad`."""
    data = value.data if is_variable(value) else np.asarray(value)
    return data.dtype.kind == "f" and bool(bad(data).any())


def _first(bad: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(bad)[0])


# -- the operation as the user wrote it --------------------------------------------------------------
# A recorded operation as the user wrote it: the expression whose instruction called it, and its
# operands.


class Written(NamedTuple):
    """An operation as the user wrote it: its file, its text, and its operands' texts where they are known."""

    source: Source | None
    span: Span | None
    text: str
    operands: tuple[str, ...]


def written(place: UserLine | None) -> Written:
    """The expression whose instruction called an operation; Python knows its columns."""
    if place is None:
        return Written(None, None, "", ())
    file = place.code.co_filename
    lines = linecache.getlines(file)
    spots = list(place.code.co_positions())
    line, end_line, column, end = spots[place.instruction // 2]
    if not lines or line is None or end_line is None or column is None or end is None:
        return Written(None, None, "", ())
    first, last = lines[line - 1].encode(), lines[end_line - 1].encode()
    span = Span(line, len(first[:column].decode()) + 1, end_line, len(last[:end].decode()) + 1)
    source = Source("".join(lines), Path(file).name)
    text = source.text_of(span)
    return Written(source, span, text, _operands(text))


def _operands(text: str) -> tuple[str, ...]:
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return ()
    match statement.value if isinstance(statement, ast.Expr) else statement:
        case ast.AugAssign(target=target, value=value):
            return ast.unparse(target), ast.unparse(value)
        case ast.BinOp(left=left, right=right):
            return ast.unparse(left), ast.unparse(right)
        case ast.UnaryOp(operand=operand):
            return (ast.unparse(operand),)
        case ast.Call(func=ast.Attribute(value=value), args=args):
            method = ast.unparse(value).partition(".")[0] not in ("np", "numpy", "adc")
            return (*([ast.unparse(value)] if method else ()), *map(ast.unparse, args))
        case ast.Call(args=args):
            return tuple(map(ast.unparse, args))
    return ()
