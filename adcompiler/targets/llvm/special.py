"""Special functions of numbers (`ops/rules/series.py`, `bessel.py`) in LLVM: one a type and an order."""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.targets.llvm.python_functions import LETTERS, Routine, call, routine, source
from adcompiler.targets.llvm.values import Needs, Value, literal
from adcompiler.targets.llvm.variables import Variables
from adcompiler.targets.llvm.vectors import PURE, own_call

ORDER = "n"  # the parameter of a special function that is its order


def special(code: Variables, name: str, args: Sequence[Value]) -> Value:
    """A special function of floats, whose orders are constants, at `module.name`.

    It computes in float64. What kernels call is a function of one type that stays one until loops are
    vectorised; for vectors it is called lane by lane, and all else in the loop is vectorised nevertheless.
    """
    module, _, function = name.partition(".")
    ordered = source(module).definitions[function].params[0] == ORDER and not args[0].text.startswith("%")
    orders = [literal(int(args[0].number))] if ordered else []
    points = code.together(*args[len(orders) :])
    scalar = _scalar(code.needs, module, function, orders, points)
    if code.needs.vectors is None:
        return call(code, Routine(scalar, points[0].type, PURE), points)
    return code.emit(own_call(code.needs, code.needs.vectors, scalar, points), points[0].type)


def _scalar(
    needs: Needs, module: str, function: str, orders: Sequence[Value], points: Sequence[Value]
) -> str:
    """The function of a kind of floats, and of an order, as a kernel calls it."""
    kind = points[0].element
    own = "_".join([f"adc_{function}", *(o.text.replace("-", "m") for o in orders), LETTERS[kind]])
    if own not in needs.declared:
        code = Variables(needs)
        given = [Value(f"%{x}", kind) for x in "xyz"[: len(points)]]
        wide = [*orders, *(code.cast(x, "double") for x in given)]
        found = call(code, routine(needs, module, function, wide), wide)
        head = f"internal {kind} @{own}({', '.join(map(str, given))}) noinline {PURE}"
        needs.declared[own] = code.definition(head, f"ret {code.cast(found, kind)}")
    return own
