"""Batching: one program over additional leading axes, as many independent programs at once.

Several directions of a derivative are one such axis, not copies of the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from adcompiler.errors import ShapeError
from adcompiler.ir.bodies import Body, Carried, Replace, build, closed_rule, fresh, like, opened, roots_of
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Const,
    Element,
    Func,
    Index,
    Input,
    Map,
    Put,
    Read,
    Reduce,
    Shape,
    Size,
    const,
    element_of,
    identity,
    is_const,
    neutral,
    select,
)
from adcompiler.ir.origins import follow
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of, inputs_of_rule, read_by, with_args

# -- upper bounds ------------------------------------------------------------------------------------
# Upper bounds of lengths that vary from case to case of a batch: the longest of them.


def longest(length: Element, axes: Shape) -> Element:
    """The largest value of a length over the points of `axes`: by arithmetic if it tells, else computed."""
    bound = _bound(length, axes, True)
    return Read(Reduce("max", (), axes, length), ()) if bound is None else bound


def _bound(element: Element, axes: Shape, high: bool) -> Element | None:
    """An upper bound of an integer over the points of `axes`, or a lower one."""
    if not element.axes:
        return element
    match element:
        case Index(axis=axis):
            return _apply("subtract", axes[axis], const(1, "i64")) if high else const(0, "i64")
        case Apply(op="minimum" | "maximum" as op, args=(x, y)) if high == (op == "minimum"):
            found = [bound for bound in (_bound(x, axes, high), _bound(y, axes, high)) if bound is not None]
            return reduce(partial(_apply, op), found) if found else None
        case Apply(op="add" | "maximum" | "minimum" as op, args=(x, y)):
            return _both(op, _bound(x, axes, high), _bound(y, axes, high))
        case Apply(op="subtract", args=(x, y)):
            return _both("subtract", _bound(x, axes, high), _bound(y, axes, not high))
        case Apply(op="multiply", args=(Const() as c, x)) | Apply(op="multiply", args=(x, Const() as c)):
            return _both("multiply", c, _bound(x, axes, high if c.value >= 0 else not high))
        case Apply(op="floor_divide", args=(x, Const(value=value) as c)) if value > 0:
            return _both("floor_divide", _bound(x, axes, high), c)
    return None


def _both(op: str, x: Element | None, y: Element | None) -> Element | None:
    return None if x is None or y is None else _apply(op, x, y)


def _apply(op: str, x: Element, y: Element) -> Element:
    return Apply(op, (x, y), "i64")


ZERO, ONE = const(0, "i64"), const(1, "i64")


def batch(results: Sequence[Array], batched: Mapping[Array, Array], axes: Shape) -> list[Array]:
    """`results` with leading axes of lengths `axes`, where the arrays `batched` are replaced by arrays
    that have those leading axes. A result that depends on none of them stays as it is."""
    found: dict[Array, Array] = dict(batched)
    same: dict[Array, Array] = {}  # what loops give that does not depend on the case
    for array in arrays_of(results):
        if array not in found and any(a in found for a in arrays_read(array)):
            assert not isinstance(array, Input)
            if isinstance(array, Item):
                same |= _loop(array.loop, found, axes)
                continue
            found[array] = (
                _ruled(array, found, axes) if isinstance(array, Ruled) else _array(array, found, axes)
            )
    follow(found)
    made = [found.get(result, result) for result in results]
    if not same:
        return made
    # Results of a loop that do not depend on the case now come from the loop for all cases. They are
    # repeated, since a result that stays as it is says that nothing has changed.
    now = Replace(same).run(made)
    return [
        new if old is new or old in found else spread(new, axes)
        for old, new in zip(results, now, strict=True)
    ]


def _array(array: Array, found: Mapping[Array, Array], axes: Shape) -> Array:
    elements = shifted(array.elements, found, identity(axes))
    domain, inside = _domain(array.domain, found, axes)
    shape = axes + domain[: array.rank]
    match array:
        case Map():
            return Map(shape, elements[-1])
        case Reduce(op=op):
            body = elements[-1]
            for condition in inside:
                body = select(condition, body, neutral(op, body.dtype))
            return Reduce(op, shape, domain[array.rank :], body)
        case Accumulate():
            *indices, body = elements
            for condition in inside:
                body = select(condition, body, const(0, body.dtype))
            shape = axes + tuple(_longest(n, found, axes) for n in array.shape)
            return Accumulate(shape, axes + domain, (*identity(axes), *indices), body)
        case Put(base=base, op=op):
            *indices, guard, value = elements
            base = found[base] if base in found else spread(base, axes)
            for condition in inside:
                guard = Apply("logical_and", (condition, guard), "bool")
            return Put(base, op, axes + domain, (*identity(axes), *indices), guard, value)
        case Call():
            if inside:
                raise ShapeError(
                    f"{array.op} of matrices whose lengths differ from case to case",
                    remedy="give all cases matrices of the same shape",
                )
            return _call(array, found, axes)
    raise AssertionError(f"cannot batch {type(array).__name__}")


def _call(call: Call, found: Mapping[Array, Array], axes: Shape) -> Call:
    """A call for all cases; an operand that is the same for all of them is shared."""
    operands = []
    for operand in call.operands:
        if operand in found:
            own = call.cases[: len(call.cases) + 2 - operand.rank]
            operand = found[operand] if not own else spread(found[operand], own, len(axes))
        operands.append(operand)
    return Call(call.op, tuple(operands), call.dtype, axes + call.shape)


def _domain(domain: Shape, found: Mapping[Array, Array], axes: Shape) -> tuple[Shape, list[Element]]:
    """The lengths of a domain for all cases, the longest where they differ, and what holds inside each."""
    inside: list[Element] = [
        Apply("less", (Index(k), _each(length, found, axes)), "bool")
        for k, length in enumerate(domain, len(axes))
        if _batched(length, found)
    ]
    return tuple(_longest(n, found, axes) for n in domain), inside


def _ruled(array: Ruled, found: Mapping[Array, Array], axes: Shape) -> Array:
    """The value of all cases, with the rule of all cases."""
    args = tuple(found[a] if a in found else spread(a, axes) for a in array.args)
    value = found[array.value] if array.value in found else spread(array.value, axes)
    places = [like(a) for a in (*args, value, value)]
    stand: dict[Array, Array] = dict(zip(inputs_of_rule(array), places, strict=True))
    pulled = batch(array.pulled, stand, axes)
    roots = [spread(p, axes) if p is old else p for p, old in zip(pulled, array.pulled, strict=True)]
    inside = [_domain(old.shape, stand, axes)[1] for old in array.pulled]
    return closed_rule(value, args, places, [_cut(p, i) for p, i in zip(roots, inside, strict=True)])


def _cut(array: Array, inside: Sequence[Element]) -> Array:
    """An array that is zero outside the length of each case."""
    body: Element = element_of(array)
    for condition in inside:
        body = select(condition, body, const(0, array.dtype))
    return Map(array.shape, body) if inside else array


def shifted(
    elements: Sequence[Element], found: Mapping[Array, Array], lead: tuple[Element, ...]
) -> tuple[Element, ...]:
    """Elements behind the axes `lead`; reads of batched arrays read at those axes."""
    new: dict[Element, Element] = {}
    for element in elements_of(elements):
        args = tuple(new[a] for a in element.args)
        match element:
            case Index(axis=axis):
                new[element] = Index(axis + len(lead))
            case Read(array=array) if array in found:
                whole = found[array]
                plain = isinstance(whole, Map) and isinstance(whole.body, Index) and whole.rank == len(lead)
                new[element] = lead[whole.body.axis] if plain else Read(whole, lead + args)  # type: ignore
            case _:
                new[element] = with_args(element, args)
    follow(new)
    return tuple(new[e] for e in elements)


def spread(array: Array, axes: Shape, lead: int = 0) -> Array:
    """An array repeated along axes behind its `lead` first ones."""
    whole = array.shape[:lead] + axes + array.shape[lead:]
    at = identity(whole)
    return Map(whole, Read(array, at[:lead] + at[lead + len(axes) :]))


def moved(array: Array, first: int, second: int) -> Array:
    """An array whose `first` leading axes change places with the `second` ones behind them."""
    shape = array.shape[first : first + second] + array.shape[:first] + array.shape[first + second :]
    at = identity(shape)
    return Map(shape, Read(array, at[second : second + first] + at[:second] + at[second + first :]))


# -- loops ---------------------------------------------------------------------------------------------


def _loop(loop: Loop, found: dict[Array, Array], axes: Shape) -> dict[Array, Array]:
    """Add to `found` what a loop gives for all cases at once; cases that are done early stay as they are.
    Returns what it gives that does not depend on the case, now by the loop for all cases."""
    body = opened(loop)
    rows = {row: found[whole] for whole, row in body.rows if whole in found}
    places: dict[Array, Array] = {row: _place(row, found, axes) for row in rows}
    places |= {a: b for a, b in found.items() if a in loop.consts}
    slots = {c.slot: _place(c.slot, found, axes) for c in body.carried if c.init in found}
    while True:
        made = batch(roots_of(body), {**places, **slots}, axes)
        active = _active(body, made, found, axes)
        pairs = zip(body.carried, made, strict=False)
        open_ones = [c for c, r in pairs if r is not c.result or active is not None]
        more = [c.slot for c in open_ones if c.slot not in slots]
        if not more:
            break
        slots |= {slot: _place(slot, found, axes) for slot in more}
    count = len(body.carried)
    carried = [
        _carried(c, r, slots[c.slot], found, active, axes) if c.slot in slots else c
        for c, r in zip(body.carried, made, strict=False)
    ]
    outs = [_masked(o, old, active, axes) for o, old in zip(made[count:], body.outs, strict=False)]
    scanned = tuple((moved(rows[r], len(axes), 1), places[r]) if r in rows else (w, r) for w, r in body.rows)
    test = body.test
    if test is not None and active is not None:
        test = Map((), _any(active, axes))
        iterations = fresh("i64", axes)
        here = select(active, ONE, ZERO)
        more_iterations = Apply("add", (Read(iterations, identity(axes)), here), "i64")
        carried.append(Carried(Map(axes, ZERO), iterations, Map(axes, more_iterations)))
    length = None if body.length is None else _longest(body.length, found, axes)
    built = build(Body(length, body.step, tuple(carried), scanned, tuple(outs), test, body.backward))
    same: dict[Array, Array] = {}
    for item, final, c in zip(loop.items, built.finals, body.carried, strict=False):
        (found if c.slot in slots else same)[item] = final
    for item, stack, out, old in zip(loop.items[count:], built.outs, outs, body.outs, strict=False):
        if out is not old:
            found[item] = moved(stack, 1, len(axes))
        else:
            same[item] = stack
    if len(built.finals) > count:
        found[loop.items[-1]] = built.finals[-1]
    elif built.count is not None:
        same[loop.items[-1]] = built.count
    return same


def _place(slot: Array, found: Mapping[Array, Array], axes: Shape) -> Array:
    """A placeholder for all cases of what one stands for, as long as the longest of them."""
    return fresh(slot.dtype, axes + tuple(_longest(n, found, axes) for n in slot.shape))


def _active(body: Body, made: Sequence[Array], found: Mapping[Array, Array], axes: Shape) -> Element | None:
    """Which cases still take part in an iteration; None for all."""
    if body.test is not None and made[-1] is not body.test:
        return Read(made[-1], identity(axes))
    if body.length is not None and _batched(body.length, found):
        return Apply("less", (Read(body.step, ()), _each(body.length, found, axes)), "bool")
    return None


def _batched(length: Element, found: Mapping[Array, Array]) -> bool:
    return any(a in found for a in read_by((length,)))


def _each(length: Element, found: Mapping[Array, Array], axes: Shape) -> Element:
    """The length for each case."""
    return shifted((length,), found, identity(axes))[0]


def _longest(length: Element, found: Mapping[Array, Array], axes: Shape) -> Element:
    """The length of the longest case; 0 if there is none."""
    if not _batched(length, found):
        return length
    bound = longest(_each(length, found, axes), axes)
    return bound if is_const(bound) else Apply("maximum", (bound, ZERO), "i64")


def _carried(
    old: Carried,
    result: Array,
    slot: Array,
    found: Mapping[Array, Array],
    active: Element | None,
    axes: Shape,
) -> Carried:
    """What is carried for all cases."""
    init = found[old.init] if old.init in found else spread(old.init, axes)
    result = spread(result, axes) if result is old.result else result
    if active is not None:
        at = identity(slot.shape)
        result = Map(slot.shape, select(active, Read(result, at), Read(slot, at)))
    return Carried(init, slot, result)


def _masked(out: Array, old: Array, active: Element | None, axes: Shape) -> Array:
    """A row for all cases; zeros where a case takes no part."""
    if active is None:
        return out
    out = spread(out, axes) if out is old else out
    return Map(out.shape, select(active, element_of(out), const(0, out.dtype)))


def _any(active: Element, axes: Shape) -> Element:
    most = Reduce("max", (), axes, select(active, ONE, ZERO))
    return Apply("greater", (Read(most, ()), ZERO), "bool")


# -- programs of many cases --------------------------------------------------------------------------


def over(func: Func, axes: Sequence[int | None], count: Element, name: str) -> Func:
    """A program of `count` cases, which lie along an axis of each input that `axes` names; the first one of
    each result. A `count` that is a size is that behind all others."""
    inputs = [_input(i, axis, count) for i, axis in zip(func.inputs, axes, strict=True)]
    cases: dict[Array, Array] = {
        old: moved(new, axis, 1)
        for old, new, axis in zip(func.inputs, inputs, axes, strict=True)
        if axis is not None
    }
    for _, position in func.counts:
        if axes[position] is not None:
            _refuse_count(func.input_names[position])
    found = batch(func.results, cases, (count,))
    checks = tuple(replace(c, holds=of_all_cases(batch((c.holds,), cases, (count,))[0])) for c in func.checks)
    results = tuple(
        spread(r, (count,)) if r is old else r for r, old in zip(found, func.results, strict=True)
    )
    sizes = func.size_names + (("cases",) if isinstance(count, Size) else ())
    return func.with_(
        name=name,
        inputs=tuple(inputs),
        results=results,
        checks=checks,
        size_names=distinct(sizes),
        names={},
        spans={},
    )


def _input(single: Input, axis: int | None, count: Element) -> Input:
    if axis is None:
        return single
    return Input(single.position, single.dtype, (*single.shape[:axis], count, *single.shape[axis:]))


def _refuse_count(name: str) -> None:
    """Refuse an integer, one for each case, that is a number of iterations or a length."""
    raise ShapeError(
        f"vmap: {name} is a number of iterations or a length, which would differ from case to case",
        remedy=f"count iterations with `while`: `i = 0`, `while i < {name}:` and `i += 1`, so that each case "
        f"ends on its own, or write a condition, `for i in range(n) if i < {name}`; lengths are equal "
        f"for all cases: use None in in_axes for {name}",
    )


def of_all_cases(holds: Array) -> Array:
    """A check of one case as one of all cases."""
    return Reduce("min", (), holds.shape, element_of(holds)) if holds.rank else holds
