"""Random adc programs for Hypothesis: bare expressions and defs, with arguments that suit them.

Every value stays finite by construction: a term knows a bound of its magnitude, and what takes only small
operands squeezes large ones through tanh, sin or erf first. Inputs are odd thousandths of magnitude 0.301
to 1.999, no two of the same magnitude, and the constants are even thousandths: so an input never meets
a kink at a constant or at another input. With `smooth=True` kinks stand at inputs only, and derivatives
by finite differences are valid everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike, DTypeLike

Shape = tuple[int, ...]
Bound = Callable[..., float]
Draw = Callable[[st.SearchStrategy[Any]], Any]  # as st.composite gives it

NAMES = (
    "x",
    "y",
    "w",
    "exp",
    "lambda",
    "T",
    "sum",
    "a_1",
)  # builtins and Python's keywords are variables too
CONSTANTS = ("0.5", "2", "1.25", "3.0", "-0.7", "1e-1", "pi")
THRESHOLDS = ("0", "0.1", "-0.25", "1.25")
ANY = math.inf


@dataclass(frozen=True)
class Rule:
    """A template of operands; each is at most `limit` in magnitude, the result at most `bound(*bounds)`."""

    text: str
    limit: float
    bound: Bound
    kink: bool = False

    @property
    def count(self) -> int:
        return 2 if "{1}" in self.text else 1


RULES = (
    Rule("(-{0})", ANY, lambda a: a),
    Rule("exp({0})", 2, math.exp),
    Rule("expm1({0})", 2, math.exp),
    Rule("log(square({0}) + 0.5)", 1e4, lambda a: 1 + math.log(a * a + 0.5)),
    Rule("log1p({0} ** 2)", 1e4, lambda a: 1 + math.log1p(a * a)),
    Rule("sqrt(1.0 + {0} * {0})", 1e3, lambda a: 1 + a),
    Rule("((1 + square({0}))**0.5)", 1e3, lambda a: 1 + a),
    Rule("sin({0})", 100, lambda a: 1.0),
    Rule("np.cos({0})", 100, lambda a: 1.0),
    Rule("tan({0})", 1, math.tan),
    Rule("sinh({0})", 3, math.sinh),
    Rule("math.cosh({0})", 3, math.cosh),
    Rule("tanh({0})", 8, lambda a: 1.0),
    Rule("erf({0})", 3, lambda a: 1.0),
    Rule("sigmoid({0})", 30, lambda a: 1.0),
    Rule("softplus({0})", 30, lambda a: a + 1),
    Rule("square({0})", 30, lambda a: a * a),
    Rule("({0}**3)", 8, lambda a: a**3),
    Rule("reciprocal(1.5 + square({0}))", 1e3, lambda a: 1.0),
    Rule("({0} + {1})", 1e3, lambda a, b: a + b),
    Rule("({0} - {1})", 1e3, lambda a, b: a + b),
    Rule("({0} * {1})", 30, lambda a, b: a * b),
    Rule("({0} / (1.5 + sin({1})))", 100, lambda a, b: 2 * a),
    Rule("({0} / (square({1}) + 0.5))", 100, lambda a, b: 2 * a),
    Rule("pow(1.5 + square({0}), {1})", 2, lambda a, b: (1.5 + a * a) ** b),
    Rule("((1 + exp({0}))**{1})", 2, lambda a, b: (1 + math.exp(a)) ** b),
    Rule("atan2({0}, 1.5 + {1}**2)", 100, lambda a, b: 3.2),
    Rule("hypot({0}, 1 + square({1}))", 30, lambda a, b: a + b * b + 1),
    Rule("logaddexp({0}, {1})", 30, lambda a, b: max(a, b) + 1),
    Rule("abs({0})", ANY, lambda a: a, kink=True),
    Rule("relu({0})", ANY, lambda a: a, kink=True),
    Rule("sign({0})", ANY, lambda a: 1.0, kink=True),
    Rule("floor({0})", ANY, lambda a: a + 1, kink=True),
    Rule("minimum({0}, {1})", ANY, max, kink=True),
    Rule("maximum({0}, {1})", ANY, max, kink=True),
)
# Of inputs alone: poles, precedence and association, and branches that are nan where not chosen.
INPUT_RULES = (
    Rule("({0}**-2.0)", ANY, lambda a: 16.0),
    Rule("reciprocal({0})", ANY, lambda a: 4.0),
    Rule("({0} + {1} * {0})", ANY, lambda a, b: a + a * b),
    Rule("({0} - {1} - 0.5)", ANY, lambda a, b: a + b + 1),
    Rule("({0} / {1} / 2)", ANY, lambda a, b: 4 * a),
    Rule("(-{0}**2 * {1})", ANY, lambda a, b: a * a * b),
    Rule("(2**-{0}**2 / {1})", ANY, lambda a, b: 4.0),
    Rule("where({0} > 0, sqrt({0}), {1})", ANY, lambda a, b: a + b),
    Rule("(log({0}) if {0} > 0 else {1} / {0})", ANY, lambda a, b: 2 + 4 * b),
)
REDUCTIONS = {"sum": 1e3, "np.sum": 1e3, "mean": 1e4, "logsumexp": 100.0, "prod": 1.0, "max": ANY, "min": ANY}
SQUEEZES = ("tanh({0})", "sin({0})", "erf({0})")


@dataclass(frozen=True)
class Term:
    """An expression: its text, shape, a bound of its magnitude, and whether it is an input as given."""

    text: str
    shape: Shape
    bound: float
    raw: bool = False


@dataclass(frozen=True)
class Program:
    """A source, and arguments for it by position; `evaluate(p.source, *p.args)` runs it."""

    source: str
    args: tuple[Any, ...]

    def __repr__(self) -> str:
        args = ", ".join(map(spelled, self.args))
        return f'Program("""\n{self.source}\n""", ({args},))'

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # Hypothesis prints a failing example by this


def spelled(value: ArrayLike) -> str:
    """An argument as Python text that gives it back."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    dtype = f"dtype=np.{value.dtype}"
    return f"np.array({value.tolist()}, {dtype})" if value.size else f"np.zeros({value.shape}, {dtype})"


@dataclass
class Builder:
    """Draws the terms and statements of one function; `terms` are the variables in scope."""

    draw: Draw
    terms: dict[str, Term]
    smooth: bool
    elementwise: bool = False
    helper: tuple[Term, ...] = ()  # what `helper(p, q)` returns for operands within 2
    lines: list[str] = field(default_factory=list)

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    # Operands

    def leaf(self) -> Term:
        """A variable, the latest likeliest, or now and then a constant."""
        if self.draw(st.integers(0, 5)) == 5:
            return Term(self.pick(CONSTANTS), (), 4.0)
        variables = list(self.terms.values())
        term: Term = self.pick([*variables, *variables[-2:], *variables[-1:]])
        return term

    def inputs(self) -> list[Term]:
        return [term for term in self.terms.values() if term.raw]

    def input_operands(self, count: int) -> list[Term]:
        """Inputs, the second another one than the first, or a constant where there is no other."""
        first: Term = self.pick(self.inputs())
        others = [term for term in self.inputs() if term != first]
        return [first, self.pick(others or [Term("1.25", (), 1.25)])][:count]

    def within(self, term: Term, limit: float) -> Term:
        """The term if it is small enough, else a squeezed one."""
        return term if term.bound <= limit else Term(self.pick(SQUEEZES).format(term.text), term.shape, 1.0)

    def joined(self, operands: Sequence[Term]) -> tuple[list[Term], Shape]:
        """The operands and the shape they broadcast to; one that does not fit is summed."""
        shape: Shape = ()
        fitted = []
        for term in operands:
            fitted.append(term if fits(term.shape, shape) else total(term))
            shape = np.broadcast_shapes(shape, fitted[-1].shape)
        return fitted, shape

    # Expressions

    def expression(self, depth: int) -> Term:
        if depth == 0:
            return self.leaf()
        kinds = [self.applied, self.applied]
        if not self.elementwise:
            kinds.append(self.reduced)
        if self.inputs():
            kinds += [self.applied_to_inputs, self.chosen]
        if len(self.helper) == 1:
            kinds.append(self.called)
        term: Term = self.pick(kinds)(depth)
        return term

    def applied(self, depth: int) -> Term:
        rule: Rule = self.pick(r for r in RULES if not r.kink or self.inputs() or not self.smooth)
        if rule.kink and self.smooth:
            return self.filled(rule, self.input_operands(rule.count))
        return self.filled(rule, [self.expression(depth - 1) for _ in range(rule.count)])

    def applied_to_inputs(self, depth: int) -> Term:
        rule: Rule = self.pick(INPUT_RULES)
        return self.filled(rule, self.input_operands(rule.count))

    def filled(self, rule: Rule, operands: Sequence[Term]) -> Term:
        fitted, shape = self.joined(operands)
        fitted = [self.within(term, rule.limit) for term in fitted]
        text = rule.text.format(*(term.text for term in fitted))
        return Term(text, shape, rule.bound(*(term.bound for term in fitted)))

    def reduced(self, depth: int) -> Term:
        """`sum(u, axis=0, keepdims=True)` and its like."""
        of_input = self.smooth and self.inputs() and self.draw(st.booleans())
        term = self.input_operands(1)[0] if of_input else self.expression(depth - 1)
        if not term.shape:
            return term
        kinked = () if term.raw or not self.smooth else ("max", "min")
        names = [name for name in REDUCTIONS if math.prod(term.shape) or name in ("sum", "prod")]
        name: str = self.pick([name for name in names if name not in kinked])
        term = self.within(term, REDUCTIONS[name])
        rank = len(term.shape)
        axes = [None, *range(-rank, rank), *([(0, 1), (-1, 0)] if rank > 1 else [])]
        axis, keepdims = self.pick(axes), self.draw(st.booleans())
        options = ("" if axis is None else f", axis={axis}") + ", keepdims=True" * keepdims
        shape = np.zeros(term.shape).sum(axis=axis, keepdims=keepdims).shape
        bound = max(1.0, term.bound) * max(1, math.prod(term.shape))
        return Term(f"{name}({term.text}{options})", shape, bound)

    def condition(self, left: Term, *right: Term) -> str:
        """A comparison of an input with another or with constants, and combinations of those."""
        low, high = sorted(self.draw(st.permutations(THRESHOLDS))[:2], key=float)
        plain = [f"{left.text} > {low}", f"{low} < {left.text} <= {high}"]
        if right:
            plain = [f"{left.text} {op} {right[0].text}" for op in ("<", "<=", ">", ">=", "!=")]
        text = self.pick([*plain, f"not {plain[0]}"])
        against = f"{left.text} > {high}"
        combined: str = self.pick([text, f"({text}) and {against}", f"{against} or {text}"])
        return combined

    def chosen(self, depth: int) -> Term:
        """`where(c, u, v)` or `u if c else v`; of an array test, one branch at least is an array."""
        operands = self.input_operands(self.draw(st.integers(1, 2)))
        test = self.condition(*operands)
        first, second = self.expression(depth - 1), self.expression(depth - 1)
        arrays = [term for term in operands if term.shape]
        if arrays and not first.shape and not second.shape:  # would be float64, whatever the inputs are
            first = arrays[0]
        (*_, then, other), shape = self.joined([*operands, first, second])
        form = self.pick(["where({0}, {1}, {2})", "({1} if {0} else {2})"])
        if then.text.isidentifier() or other.text.isidentifier():  # += would change the variable chosen
            form = form.replace("({1} if", "+({1} if")
        return Term(form.format(test, then.text, other.text), shape, max(then.bound, other.bound))

    def called(self, depth: int) -> Term:
        """A call of the helper; it is elementwise, so its result broadcasts its operands."""
        operands, shape = self.joined([self.expression(depth - 1) for _ in range(2)])
        p, q = (self.within(term, 2.0).text for term in operands)
        form = self.pick(["helper({0}, {1})", "helper({0}, q={1})", "helper(q={1}, p={0})"])
        return Term(form.format(p, q), shape, self.helper[0].bound)

    # Statements

    def bind(self, name: str, term: Term) -> str:
        self.terms.pop(name, None)  # so that the latest stands last
        self.terms[name] = Term(name, term.shape, term.bound)
        return name

    def fresh(self) -> str:
        """A new temporary, or now and then a variable that is there already."""
        new = f"t{len(self.lines)}"
        name: str = self.pick([new, new, *self.terms])
        return name

    def statement(self) -> None:
        kinds = [self.assignment, self.assignment, self.swap, self.augmented, self.printed]
        line: str = self.pick([*kinds, self.unpacked] if len(self.helper) == 2 else kinds)()
        self.lines.append(line)

    def assignment(self) -> str:
        term = self.expression(2)
        return f"{self.bind(self.fresh(), term)} = {term.text}"

    def unpacked(self) -> str:
        """A call of a helper with two results."""
        (p, q), shape = self.joined([self.expression(1), self.expression(1)])
        names = [f"{letter}{len(self.lines)}" for letter in "uv"]
        for name, result in zip(names, self.helper, strict=True):
            self.bind(name, replace(result, shape=shape))
        return f"{', '.join(names)} = helper({self.within(p, 2.0).text}, {self.within(q, 2.0).text})"

    def swap(self) -> str:
        """A tuple: both values are taken before either name is bound."""
        first, second = self.expression(1), self.expression(1)
        one = self.fresh()
        two = self.pick([name for name in (*self.terms, f"s{len(self.lines)}") if name != one])
        return f"{self.bind(one, first)}, {self.bind(two, second)} = {first.text}, {second.text}"

    def augmented(self) -> str:
        """`t += u`; as in NumPy, `u` broadcasts to the shape of `t`."""
        target: Term = self.pick(self.terms.values())
        term = self.expression(1)
        fitting = fits(term.shape, target.shape)
        if not fitting or np.broadcast_shapes(term.shape, target.shape) != target.shape:
            term = total(term)
        self.bind(target.text, replace(target, bound=target.bound + term.bound))
        return f"{target.text} {self.pick(['+=', '-='])} {term.text}"

    def printed(self) -> str:
        """A line that changes nothing."""
        return f"print('{len(self.lines)}:', {self.pick(self.terms)})"


def fits(a: Shape, b: Shape) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


def total(term: Term) -> Term:
    return Term(f"sum({term.text})", (), term.bound * max(1, math.prod(term.shape)))


# ---- Strategies ----


def shapes(draw: Draw, empty: bool) -> list[Shape]:
    """Shapes of one to four inputs that broadcast together: leading axes missing, some sizes 1."""
    whole = draw(st.lists(st.integers(0 if empty else 1, 3), max_size=3))
    result = []
    for _ in range(draw(st.integers(1, 4))):
        tail = whole[draw(st.integers(0, len(whole))) :]
        result.append(tuple(1 if draw(st.integers(0, 3)) == 0 else size for size in tail))
    return result


def values(draw: Draw, shape_list: Sequence[Shape], dtype: DTypeLike) -> list[Any]:
    """Arrays, and Python floats for (): odd thousandths, no two of the same magnitude."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    pool = iter(random.permutation(np.arange(301, 2000, 2)) / 1000)
    signed = ([next(pool) * random.choice((-1, 1)) for _ in range(math.prod(s))] for s in shape_list)
    arrays = [np.array(v, dtype).reshape(s) for v, s in zip(signed, shape_list, strict=True)]
    return [array if array.shape else float(array) for array in arrays]


def helper(draw: Draw, smooth: bool) -> tuple[list[str], tuple[Term, ...]]:
    """An elementwise def of two operands that knows nothing of their shapes, and what it returns."""
    builder = Builder(draw, {name: Term(name, (), 2.0) for name in "pq"}, smooth, elementwise=True)
    term = builder.expression(2)
    lines = ["def helper(p, q):", f"    r = {term.text}"]
    results = [Term("r + 0.5 * p * q", (), term.bound + 2)]
    if draw(st.booleans()):
        results.append(Term("p - q", (), 4.0))
    return [*lines, f"    return {', '.join(term.text for term in results)}", ""], tuple(results)


def bare(builder: Builder, names: Sequence[str]) -> tuple[str, list[str]]:
    """A bare expression, and its parameters in order of first appearance."""
    text = builder.expression(3).text
    found = re.findall(rf"\b(?:{'|'.join(names)})\b(?!\()", text)
    return (text, list(dict.fromkeys(found))) if found else (f"{text} * {names[0]}", [names[0]])


def annotated(draw: Draw, name: str, shape: Shape, dtype: str) -> str:
    """A parameter, perhaps with what it is: `n3` is the name of a length of 3."""
    if not draw(st.booleans()):
        return name
    if not shape:
        return f"{name}: {'float' if dtype == 'f32' else draw(st.sampled_from(('float', 'f64', 'Any')))}"

    def length(n: int) -> str:
        forms = [f"n{n}", f"n{n}", str(n), f"n{n + 1} - 1"]
        forms += [f"n{n - 1} + 1"] * (n > 0) + [f"2 * n{n // 2}"] * (n % 2 == 0)
        return draw(st.sampled_from(forms))

    lengths = ", ".join(map(length, shape))
    return f"{name}: {draw(st.sampled_from((f'{dtype}[{lengths}]', f'{dtype}[{lengths}]', 'np.ndarray')))}"


def function(builder: Builder, parameters: Sequence[str], statements: int) -> str:
    """A def of up to `statements` assignments and one to three results."""
    for _ in range(builder.draw(st.integers(0, statements))):
        builder.statement()
    results = [builder.expression(1).text for _ in range(builder.draw(st.integers(1, 3)))]
    lines = [*builder.lines, f"return {', '.join(results)}"]
    return "\n    ".join([f"def main({', '.join(parameters)}):", *lines])


@st.composite
def programs(
    draw: Draw,
    *,
    statements: int = 4,
    dtype: DTypeLike = np.float64,
    scalar_only: bool = False,
    smooth: bool = False,
    empty: bool = True,
) -> Program:
    """A bare expression, or a def with perhaps a helper before it, and arguments.

    `statements`: at most so many in a def. `scalar_only`: every argument is a Python float. `smooth`: no
    kinks but at inputs. `empty`: sizes may be 0.
    """
    sizes = [()] * draw(st.integers(1, 3)) if scalar_only else shapes(draw, empty)
    inputs = {name: Term(name, shape, 2.0, raw=True) for name, shape in zip(NAMES, sizes, strict=False)}
    builder = Builder(draw, dict(inputs), smooth)
    names = list(inputs)
    if draw(st.booleans()):
        source, names = bare(builder, names)
    else:
        lines, builder.helper = helper(draw, smooth) if draw(st.booleans()) else ([], ())
        kind = "f64" if dtype is np.float64 else "f32"
        parameters = [annotated(draw, name, term.shape, kind) for name, term in inputs.items()]
        source = "\n".join([*lines, function(builder, parameters, statements)])
    return Program(source, tuple(values(draw, [inputs[name].shape for name in names], dtype)))
