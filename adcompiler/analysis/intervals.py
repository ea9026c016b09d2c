"""Intervals of affine forms: what is known of an index before a program runs.

A form is nonnegative if its minimum over the ranges of its axes is, given that sizes are nonnegative and that
every loop around it iterates. It is also nonnegative if it is the sum of a condition that holds here and
something nonnegative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from adcompiler.analysis.affine import Linear, linear, linear_constant
from adcompiler.analysis.limits import MOST_TERMS
from adcompiler.analysis.predicates import opposite
from adcompiler.ir.nodes import Apply, Const, Element, Size, const, is_const
from adcompiler.ir.walk import elements_of
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply


@dataclass(frozen=True, slots=True)
class Range:
    """The range of an index: `step` times it is at most `last`, if its loop iterates at all; `depth` counts
    the loops around it."""

    last: Linear
    step: int = 1
    depth: int = 0


Ranges = Mapping[Element, Range]  # of axes, and of the numbers of iterations


def up_to(length: Element) -> Range:
    """The range of a loop's index: since the loop iterates, a length of max(n, 0) is n."""
    match length:
        case Apply(op="maximum", args=(n, zero)) if is_const(zero, 0):
            length = n
    return Range(linear(length) - linear_constant(1))


def never_negative(form: Linear, ranges: Ranges, facts: Iterable[Linear]) -> bool:
    """Whether a form is provably nonnegative if the `facts` are nonnegative."""
    facts = list(facts)
    known = facts + _iterations(form, ranges)
    positive = frozenset(
        m for m in _moduli(form) if never_negative(linear(m) - linear_constant(1), ranges, known)
    )
    for one in (form, *(form - fact for fact in facts if _is_akin(form, fact))):
        for low in lower_bounds(one, ranges, positive):
            for least in (low, *_without_maxima(low)):
                if _is_nonnegative(least):
                    return True
                for fact in known:
                    if not _is_akin(least, fact):
                        continue
                    bound = lowest(least - fact, ranges, positive)
                    if bound is not None and _is_nonnegative(bound):
                        return True
    return False


def _without_maxima(form: Linear) -> Iterator[Linear]:
    """A smaller form with x instead of max(x, 0), if there is any."""
    made = form
    for atom, factor in form.terms.items():
        if isinstance(atom, Apply) and atom.op == "maximum" and factor > 0:
            rest = [a for a in atom.args if not is_const(a)]
            if len(rest) == 1:
                made = made - Linear({atom: factor}) + linear(rest[0]) * factor
    if made is not form:
        yield made


def _is_akin(form: Linear, fact: Linear) -> bool:
    """Whether two forms have an atom with the same sign: only then may one less the other be simpler."""
    others = form.terms
    return any(a is not None and f * others.get(a, 0) > 0 for a, f in fact.terms.items())


def _iterations(form: Linear, ranges: Ranges) -> list[Linear]:
    """Forms that are nonnegative because the loops of the indices in `form`, and those around them,
    iterate."""
    found: dict[Element, Linear] = {}
    work = list(form.terms)
    while work:
        atom = work.pop()
        if atom is None or atom in found:
            continue
        if atom in ranges:
            found[atom] = ranges[atom].last
            work.extend(found[atom].terms)
        elif _remainder(atom) or _scaled(atom) or _quotient(atom):
            work.extend(e for e in elements_of((atom,)) if e in ranges)
    return [*found.values(), *(f for last in found.values() for f in factors(last))]


def factors(last: Linear) -> Iterator[Linear]:
    """Forms that are nonnegative because a loop over several axes at once iterates: each is one or longer."""
    for atom, factor in last.terms.items():
        if last.terms.get(None) == -1 and factor == 1 and len(last.terms) == 2:
            work = [atom]
            for part in work:
                if isinstance(part, Apply) and part.op == "multiply":
                    work += part.args
                elif part is not None and part is not atom and _is_length(part):
                    yield linear(part) - linear_constant(1)


def _moduli(form: Linear) -> set[Element]:
    """The sizes that are moduli of remainders in a form."""
    found = (_remainder(atom) for atom in form.terms if atom is not None)
    return {modulus for modulus in found if isinstance(modulus, Size)}


def lowest(form: Linear, ranges: Ranges, positive: frozenset[Element] = frozenset()) -> Linear | None:
    """A lower bound without indices; None if it is unknown. The range of an inner index may depend on outer
    ones, and some moduli are known to be `positive`."""
    for _ in range(MOST_TERMS):
        atom = _innermost(form, ranges)
        bounded = form if atom is None else _bounded(form, atom, ranges, positive)
        if atom is None or bounded is None:
            return bounded
        form = bounded
    return None


def lower_bounds(form: Linear, ranges: Ranges, positive: frozenset[Element]) -> Iterator[Linear]:
    """Lower bounds without indices: that of `lowest`, and others where the range of an index ends at the
    least of several numbers, since each of them bounds it."""
    low = lowest(form, ranges, positive)
    if low is not None:
        yield low
    work, has_least = [form], False
    for _ in range(MOST_TERMS):
        if not work:
            break
        form = work.pop()
        least = next((a for a, f in form.terms.items() if _is_minimum(a) and f < 0), None)
        if least is not None:
            factor, has_least = form.terms[least], True
            rest = form - Linear({least: factor})
            work += [rest + linear(x) * factor for x in reversed(least.args)]
            continue
        atom = _innermost(form, ranges)
        bounded = None if atom is None else _bounded(form, atom, ranges, positive)
        if bounded is not None:
            work.append(bounded)
        elif atom is None and has_least:
            yield form


def _is_minimum(atom: Element | None) -> bool:
    return isinstance(atom, Apply) and atom.op == "minimum"


def _innermost(form: Linear, ranges: Ranges) -> Element | None:
    """The index of the innermost loop in a form."""
    indices = [a for a in form.atoms if a.axes or a in ranges or _numerator(a)]
    return max(indices, key=lambda a: ranges[a].depth if a in ranges else 0, default=None)


def _bounded(form: Linear, atom: Element, ranges: Ranges, positive: frozenset[Element]) -> Linear | None:
    """A lower bound of a form without one of its indices."""
    factor = form.terms[atom]
    bound = _least(atom, ranges) if factor > 0 else _most(atom, ranges, positive)
    known = ranges[atom].step if factor < 0 and atom in ranges else 1
    if bound is None or factor % known:
        return None
    return form - Linear({atom: factor}) + bound * (factor // known)


def _least(atom: Element, ranges: Ranges) -> Linear | None:
    """A lower bound of an index, or of a remainder: that of -2 by n is n - 2 or greater."""
    modulus, numerator = _remainder(atom), _numerator(atom)
    if modulus is not None and numerator is not None and numerator.value < 0:
        return linear(modulus) + linear(numerator)
    if (parts := _scaled(atom)) is not None:
        least = lowest(linear(parts[0]), ranges)
        return None if least is None else _times(least, parts[1])
    if (parts := _quotient(atom)) is not None:
        least = lowest(linear(parts[0]), ranges)
        return linear_constant(0) if least is not None and _is_nonnegative(least) else None
    return linear_constant(0) if atom in ranges or modulus else None


def _most(atom: Element, ranges: Ranges, positive: frozenset[Element]) -> Linear | None:
    """An upper bound of an index (times its step), or of a remainder: a remainder by 0 is 0."""
    if atom in ranges:
        return ranges[atom].last
    for parts, times in ((_scaled(atom), _times), (_quotient(atom), _over)):
        if parts is not None:
            least = lowest(linear(parts[0]) * -1, ranges, positive)
            return None if least is None else times(least * -1, parts[1])
    modulus = _remainder(atom)
    if modulus is None:
        return None
    numerator = _numerator(atom)
    if numerator is not None and numerator.value >= 0:
        return linear(numerator)
    most = linear(modulus) - linear_constant(1)
    if is_const(modulus) or modulus in positive:
        return most
    return Linear({apply("maximum", most.element(), const(0, "i64")): 1})


def _remainder(atom: Element) -> Element | None:
    """The modulus of a remainder by a positive number, or by a size."""
    if isinstance(atom, Apply) and atom.op == "remainder":
        modulus = atom.args[1]
        if isinstance(modulus, Size) or (is_const(modulus) and modulus.value > 0):
            return modulus
    return None


def _scaled(atom: Element) -> tuple[Element, Element] | None:
    """An index and the length by which it is multiplied, as in places on several axes at once."""
    match atom:
        case Apply(op="multiply", args=(x, y)) if x.axes and not y.axes and _is_length(y):
            return x, y
        case Apply(op="multiply", args=(x, y)) if y.axes and not x.axes and _is_length(x):
            return y, x
    return None


def _quotient(atom: Element) -> tuple[Element, Element] | None:
    """An index and the size, or the positive number, by which it is divided."""
    match atom:
        case Apply(op="floor_divide", args=(x, Size() as y)) if x.axes:
            return x, y
        case Apply(op="floor_divide", args=(x, Const(value=value) as y)) if x.axes and value > 0:
            return x, y
    return None


def _times(form: Linear, length: Element) -> Linear:
    """A form of sizes times a length."""
    made = linear_constant(0)
    for atom, factor in form.terms.items():
        made += linear(length if atom is None else apply("multiply", atom, length)) * factor
    return made


def _over(form: Linear, size: Element) -> Linear | None:
    """The most that the quotient of an index below q times a size, the last of a loop that iterates, and that
    size may be: q - 1. The same for a number instead of a size."""
    if isinstance(size, Const):
        by = int(size.value)
        whole = all(a is None or f % by == 0 for a, f in form.terms.items())
        return Linear({a: f // by for a, f in form.terms.items()}) if whole else None
    for atom in form.atoms:
        match atom:
            case Apply(op="multiply", args=(q, last)) if last is size:
                rest = form - Linear({atom: 1})
                return linear(q) - linear_constant(1) if rest.constant == -1 else None
    return None


def _numerator(atom: Element) -> Const | None:
    """The numerator of the remainder of a constant by a size."""
    numerator = atom.args[0] if isinstance(atom, Apply) and _remainder(atom) else None
    return numerator if isinstance(numerator, Const) else None


def _is_nonnegative(form: Linear) -> bool:
    """Whether a form of sizes is provably nonnegative, since sizes are, and 4 * (n // 4) is at most n, for
    any n; 3 * (n // 4) is, if n is nonnegative."""
    for atom, factor in form.terms.items():
        match atom:
            case Apply(op="floor_divide", args=(x, Const(value=value))) if factor < 0 < value:
                if factor % int(value) == 0 or _is_length(atom):
                    form = form - Linear({atom: factor}) + linear(x) * (factor // int(value))
    return all(f >= 0 and (a is None or _is_length(a)) for a, f in form.terms.items())


def _is_length(atom: Element) -> bool:
    """Whether an atom is a length, or a part of one."""
    match atom:
        case Size():
            return True
        case Apply(op="maximum", args=args):
            return any(is_const(a, 0) for a in args)
        case Apply(op="floor_divide", args=(x, Const(value=value))):
            return value > 0 and _is_nonnegative(linear(x))
    return False


def facts_of(condition: Element) -> list[Linear]:
    """The forms that are nonnegative if a condition holds."""
    if not isinstance(condition, Apply):
        return []
    if condition.op == "logical_not":
        comparison = opposite(condition.args[0])
        return [] if comparison is None else facts_of(comparison)
    if condition.op == "logical_and":
        return [f for part in condition.args for f in facts_of(part)]
    if len(condition.args) != 2 or condition.args[0].dtype != "i64":
        return []
    x, y = (linear(a) for a in condition.args)
    match condition.op:
        case "less":
            return [y - x - linear_constant(1)]
        case "less_equal":
            return [y - x]
        case "greater":
            return [x - y - linear_constant(1)]
        case "greater_equal":
            return [x - y]
        case "equal":
            return [x - y, y - x]
    return []


def always_holds(condition: Element, ranges: Ranges, facts: Iterable[Linear] = ()) -> bool:
    """Whether a comparison of integers provably holds if the `facts` are nonnegative."""
    forms = facts_of(condition)
    return bool(forms) and all(never_negative(form, ranges, facts) for form in forms)


def never_holds(condition: Element, ranges: Ranges, facts: Iterable[Linear] = ()) -> bool:
    """Whether a comparison of integers provably does not hold if the `facts` are nonnegative."""
    match condition:
        case Apply(op="equal", args=(x, y)) if x.dtype == "i64":
            distance, one = linear(x) - linear(y), linear_constant(1)
            return any(never_negative(side - one, ranges, facts) for side in (distance, distance * -1))
    comparison = opposite(condition)
    return comparison is not None and always_holds(comparison, ranges, facts)
