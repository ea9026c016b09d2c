"""The generated `propagate`: all branches on None stand at its top, each calls a specialised program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from adcompiler.ad.programs.split import Pattern, pattern_text
from adcompiler.kernels.emit.names import Names

WRITTEN_OUT = 3  # cotangents up to which every pattern has a branch of its own

Program = Callable[..., tuple[Any, ...]]


def dispatch_source(
    name: str, cotangents: Sequence[str], wanted: Sequence[str], seen: Sequence[Pattern]
) -> str:
    """The source of `propagate(saved, *cotangents)`: Python, one branch for each pattern of None.

    With many cotangents only the patterns seen so far have a branch; the last line finds the others.
    """
    names = Names()
    saved, *params = (names.fresh(n) for n in ("saved", *cotangents))
    patterns = seen if len(params) > WRITTEN_OUT else list(product((True, False), repeat=len(params)))
    lines = [
        f"def propagate({', '.join((saved, *params))}):",
        f'    """Gradients of {", ".join(wanted)} in {name}; None stands for zero, in and out."""',
    ]
    asked = "1" * len(wanted)
    for pattern in patterns:
        tests = [f"{p} is {'not ' * here}None" for p, here in zip(params, pattern, strict=True)]
        given = ", ".join((saved, *(p for p, here in zip(params, pattern, strict=True) if here)))
        lines.append(f"    if {' and '.join(tests) or 'True'}:")
        lines.append(f'        return programs["{pattern_text(pattern)}|{asked}"]({given})')
    if len(params) > WRITTEN_OUT:
        lines.append(f"    return programs.for_others({', '.join((saved, *params))})")
    return "\n".join(lines) + "\n"


def dispatcher(source: str, programs: Mapping[str, Program]) -> Program:
    """The function that `dispatch_source` wrote; its names are mangled, none is a user's."""
    namespace: dict[str, Any] = {"programs": programs}
    exec(compile(source, "<generated propagate>", "exec"), namespace)
    made: Program = namespace["propagate"]
    return made
