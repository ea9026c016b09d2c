"""Which names of the calls around a definition its body sees: those of its own call, as in Python."""

from __future__ import annotations

from adcompiler.frontend.grammar.control_flow import assigned
from adcompiler.frontend.lowering.break_continue import BROKEN
from adcompiler.frontend.lowering.return_in_loops import RETURNED
from adcompiler.frontend.values.values import RESULT, AnyValue, Closure, Foreign, Frame

OWN = "give it a value first, pass it as an argument, or use another name for what is assigned"


def seen(closure: Closure) -> dict[str, AnyValue]:
    """The names around a definition. What its body binds is its own from the beginning, without a value."""
    names = {n: v for n, v in closure.scope.items() if n not in (BROKEN, RETURNED, RESULT)}
    if isinstance(closure.scope, Frame):
        bound = [n for n in assigned(closure.definition.body, lists=False, stores=False) if n in names]
        own = Foreign(f"assigned in {closure.name}: a name of its own there, without a value yet", OWN)
        names.update(dict.fromkeys(bound, own))
    return names
