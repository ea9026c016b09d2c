"""The invariants of the IR, as tables: every pass may rely on them and must keep them.

`verify` is for tests and debugging: a violation is a bug in the compiler, never in a user's program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    PUTS,
    REDUCERS,
    Accumulate,
    Apply,
    Array,
    Call,
    Contraction,
    Element,
    Func,
    Index,
    Input,
    Put,
    Read,
    Reduce,
    Select,
    Size,
    is_const,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.textform.notation import BOOLEAN
from adcompiler.ir.textform.printer import elements_in, show, show_name
from adcompiler.ir.types import DTYPES, is_float
from adcompiler.ir.walk import arrays_of, arrays_read, elements_of, inputs_of_rule, postorder, read_by

Ops = Mapping[str, Any]


class VerifyError(AssertionError):
    """An invariant is broken: `invariant` is its sentence, `where` the array or the statement, and `text` the
    program or the function."""

    def __init__(self, invariant: str, where: str, text: str) -> None:
        super().__init__(invariant, where, text)
        self.invariant, self.where, self.text = invariant, where, text

    def __str__(self) -> str:
        return f"{self.where} breaks the invariant: {self.invariant}\n{self.text}"


def verify(func: Func, ops: Ops | None = None) -> None:
    """Raise `VerifyError` at the first broken invariant; `ops` is the rule table, if it is at hand."""
    for sentence, of_func in FUNC_INVARIANTS:
        _require(of_func(func), sentence, func)
    for array, place in _places(func):
        if isinstance(array, Item):
            for sentence, of_loop in LOOP_INVARIANTS:
                _require(of_loop(array.loop), sentence, func, place)
        for sentence, of_array in ARRAY_INVARIANTS:
            _require(of_array(array), sentence, func, place)
        for element in elements_of(elements_in(array)):
            for sentence, of_element in ELEMENT_INVARIANTS:
                _require(of_element(element), sentence, func, place)
            if ops is not None and isinstance(element, Apply) and element.op not in DTYPES:
                for sentence, of_apply in TABLE_INVARIANTS:
                    _require(of_apply(element, ops), sentence, func, place)


def _require(holds: bool, sentence: str, func: Func, array: Array | None = None) -> None:
    if not holds:
        where = f"@{func.name}" if array is None else show_name(func, array)
        raise VerifyError(sentence, where, show(func))


def _arrays(func: Func) -> list[Array]:
    return postorder((*func.inputs, *func.roots), arrays_read)


def _places(func: Func) -> Iterator[tuple[Array, Array]]:
    """Each array, also those in the bodies of loops, with the array of the program that it belongs to."""
    for place in _arrays(func):
        work, seen = [place], set[Loop]()
        while work:
            array = work.pop()
            yield array, place
            if isinstance(array, Item) and array.loop not in seen:
                seen.add(array.loop)
                work += postorder(array.loop.roots, arrays_read)


def _named(nodes: tuple[Array, ...], names: tuple[str, ...]) -> bool:
    return len(nodes) == len(names) == len(set(names))


def _sizes_have_names(func: Func) -> bool:
    elements = elements_of(e for array, _ in _places(func) for e in elements_in(array))
    count = len(func.size_names) if func.size_names else float("inf")
    return all(0 <= e.number < count for e in elements if isinstance(e, Size))


def _inputs_in_order(func: Func) -> bool:
    return all(isinstance(a, Input) and a.position == k for k, a in enumerate(func.inputs))


def _inputs_listed(func: Func) -> bool:
    return all(a in func.inputs for a in _arrays(func) if isinstance(a, Input))


def _lengths_known(func: Func) -> bool:
    return all(set(arrays_read(a)) <= set(func.inputs[:k]) for k, a in enumerate(func.inputs))


FUNC_INVARIANTS: Final[tuple[tuple[str, Callable[[Func], bool]], ...]] = (
    ("each input has a name of its own", lambda f: _named(f.inputs, f.input_names)),
    ("each result has a name of its own", lambda f: _named(f.results, f.result_names)),
    ("no two sizes share a name", lambda f: len(f.size_names) == len(set(f.size_names))),
    ("every size has a name, if any has", _sizes_have_names),
    ("the inputs stand in the order of their positions, from 0", _inputs_in_order),
    ("every input that is read is listed", _inputs_listed),
    ("the lengths of an input read only inputs before it", _lengths_known),
)


def _is_length(size: Element) -> bool:
    return size.dtype == "i64" and not size.axes and all(a.rank == 0 for a in read_by((size,)))


def _not_negative(size: Element) -> bool:
    return not is_const(size) or size.value >= 0


def _axes_inside(array: Array) -> bool:
    return all(e.axes <= frozenset(range(len(array.domain))) for e in array.elements)


def _are_indices(indices: Iterable[Element], array: Array) -> bool:
    return [i.dtype for i in indices] == ["i64"] * array.rank


def _is_put(array: Array) -> bool:
    return not isinstance(array, Put) or (
        array.op in PUTS
        and _are_indices(array.indices, array)
        and (array.guard.dtype, array.value.dtype) == ("bool", array.dtype)
    )


def _sets_apart(array: Array) -> bool:
    """Whether each axis of what an array sets decides one of its indices alone, by a factor and an offset."""
    if not isinstance(array, Put) or array.op == "add":
        return True
    return all(
        is_const(n, 1) or any(_is_decided(i, k) for i in array.indices) for k, n in enumerate(array.domain)
    )


def _is_decided(index: Element, axis: int) -> bool:
    """Whether different positions along an axis, and nothing but the position, give different indices."""
    match index:
        case Index():
            return index.axis == axis
        case Apply(op="add" | "subtract", args=(x, y)) if axis not in x.axes or axis not in y.axes:
            return _is_decided(x if axis in x.axes else y, axis) and index.axes == {axis}
        case Apply(op="multiply", args=(x, y)) if is_const(x) or is_const(y):
            factor, rest = (x, y) if is_const(x) else (y, x)
            return not is_const(factor, 0) and _is_decided(rest, axis)
    return False


def _is_closed(array: Array) -> bool:
    if not isinstance(array, Ruled):
        return True
    inputs = inputs_of_rule(array)
    read = (a for a in arrays_of(array.pulled) if isinstance(a, Input))
    return len(array.pulled) == len(array.args) and all(a in inputs for a in read)


def _matrices(call: Call) -> bool:
    ranked = all(a.rank > 1 and a.dtype == call.dtype for a in call.operands)
    return bool(call.operands) and ranked and is_float(call.dtype)


def _shares_cases(call: Call) -> bool:
    cases = call.cases
    own = [a.shape[:-2] for a in call.operands]
    return call.shape[: len(cases)] == cases and all(s == cases[len(cases) - len(s) :] for s in own)


ARRAY_INVARIANTS: Final[tuple[tuple[str, Callable[[Array], bool]], ...]] = (
    (
        "lengths are int64, without axes, and read only arrays of rank 0",
        lambda a: all(_is_length(size) for size in (*a.shape, *a.domain)),
    ),
    (
        "constant lengths are not negative",
        lambda a: all(_not_negative(size) for size in (*a.shape, *a.domain)),
    ),
    ("the axes of its elements lie inside the domain", _axes_inside),
    ("a rule reads its inputs alone, and gives a cotangent for each argument", _is_closed),
    (
        "a call takes matrices of its own float type",
        lambda a: not isinstance(a, Call) or _matrices(a),
    ),
    (
        "the leading axes of a call are those of its operands",
        lambda a: not isinstance(a, Call) or _shares_cases(a),
    ),
    (
        "a reduce has a known operation",
        lambda a: not isinstance(a, Reduce) or a.op in REDUCERS,
    ),
    (
        "a reduce has a reduced axis",
        lambda a: not isinstance(a, Reduce) or len(a.reduced) > 0,
    ),
    (
        "sums and products are of numbers",
        lambda a: not isinstance(a, Reduce) or a.op not in ("sum", "prod") or a.dtype != "bool",
    ),
    (
        "the factors of a contraction are floats of one type",
        lambda a: not isinstance(a, Contraction) or (is_float(a.dtype) and a.left.dtype == a.right.dtype),
    ),
    (
        "an accumulate adds numbers",
        lambda a: not isinstance(a, Accumulate) or a.dtype != "bool",
    ),
    (
        "a put stores values of its array's type at one int64 index for each axis",
        _is_put,
    ),
    ("a put sets no element twice", _sets_apart),
    ("a put adds numbers", lambda a: not isinstance(a, Put) or a.op == "set" or a.dtype != "bool"),
    (
        "an accumulate has one int64 index for each axis of its shape",
        lambda a: not isinstance(a, Accumulate) or _are_indices(a.indices, a),
    ),
)

ELEMENT_INVARIANTS: Final[tuple[tuple[str, Callable[[Element], bool]], ...]] = (
    (
        "a read has one int64 index for each axis of its array",
        lambda e: not isinstance(e, Read) or _are_indices(e.indices, e.array),
    ),
    (
        "a select has a guard and two branches",
        lambda e: not isinstance(e, Select) or len(e.args) == 3,
    ),
    (
        "the guard of a select is bool",
        lambda e: not isinstance(e, Select) or e.guard.dtype == "bool",
    ),
    (
        "the branches of a select have one type",
        lambda e: not isinstance(e, Select) or e.then.dtype == e.otherwise.dtype,
    ),
    (
        "the operands of an application have one type",
        lambda e: not isinstance(e, Apply) or len({a.dtype for a in e.args}) == 1,
    ),
    (
        "a conversion has one operand and the type it bears the name of",
        lambda e: not isinstance(e, Apply) or e.op not in DTYPES or (len(e.args), e.dtype) == (1, e.op),
    ),
    (
        "comparisons and logic give bool",
        lambda e: not isinstance(e, Apply) or e.op not in BOOLEAN or e.dtype == "bool",
    ),
)


def _keeps_types(loop: Loop) -> bool:
    pairs = zip(loop.slots[1:], loop.results, strict=False)  # lengths read slots inside, consts outside
    return all((a.dtype, a.shape) == (b.dtype, b.shape) for a, b in pairs)


def _reads_slots(loop: Loop) -> bool:
    slots = set(loop.slots)
    return all(a in slots for a in postorder(loop.roots, arrays_read) if isinstance(a, Input))


LOOP_INVARIANTS: Final[tuple[tuple[str, Callable[[Loop], bool]], ...]] = (
    (
        "a loop has a length or a test, and not both",
        lambda p: (p.length is None) != (p.test is None),
    ),
    (
        "the length of a loop is int64, without axes, and reads only arrays of rank 0",
        lambda p: p.length is None or _is_length(p.length),
    ),
    (
        "the test of a loop is a bool of rank 0",
        lambda p: p.test is None or (p.test.dtype, p.test.rank) == ("bool", 0),
    ),
    ("only a loop of a known length runs backward or collects", lambda p: not p.test or _is_plain(p)),
    ("a loop carries on what it starts with", lambda p: len(p.inits) == len(p.results)),
    ("what a loop carries keeps its type and shape", _keeps_types),
    ("what is scanned has an axis for the iterations", lambda p: all(a.rank for a in p.scanned)),
    ("the body of a loop reads no inputs but its slots", _reads_slots),
)


def _is_plain(loop: Loop) -> bool:
    return not loop.backward and not loop.outs


def _fits_kind(element: Apply, ops: Ops) -> bool:
    """Whether the types of an application are those that the kind of its primitive takes and gives."""
    operand = element.args[0].dtype
    match ops[element.op].kind:
        case "arithmetic":
            return operand != "bool" and element.dtype == operand
        case "float":
            return is_float(operand) and element.dtype == operand
        case "bool":
            return element.dtype == "bool"
        case "logical":
            return operand == element.dtype == "bool"
        case "integer":
            return operand == element.dtype == "i64"
    return False


TABLE_INVARIANTS: Final[tuple[tuple[str, Callable[[Apply, Ops], bool]], ...]] = (
    ("every operation is in the rule table", lambda e, ops: e.op in ops),
    ("an operation has one operand for each parameter", lambda e, ops: len(e.args) == len(ops[e.op].params)),
    ("an operation takes and gives the types of its kind", _fits_kind),
)
