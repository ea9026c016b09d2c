"""Primitives of the rule table in the loop IR."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from adcompiler.loopir.nodes import Expr, Verbatim
from adcompiler.loopir.parse import expression
from adcompiler.loopir.precedence import ATOM
from adcompiler.loopir.printer import printed
from adcompiler.loopir.rewrite import Filled
from adcompiler.loopir.walk import walk
from adcompiler.ops.table import TABLE


def filled(op: str, args: Sequence[Expr]) -> Expr:
    """A primitive of the rule table, as its kernel's text has it."""
    entry = TABLE[op]
    made = template(entry.kernel, entry.params)
    if made is None:
        texts = {p: printed(a).within(ATOM) for p, a in zip(entry.params, args, strict=True)}
        return Verbatim(entry.kernel.format(**texts))
    return Filled(dict(zip(entry.params, args, strict=True))).expr(made)


@cache
def template(kernel: str, params: tuple[str, ...]) -> Expr | None:
    """The expression of a kernel's text, in which parameters are variables; None if the IR has none."""
    made = expression(kernel.format(**{p: p for p in params}))
    return None if any(isinstance(e, Verbatim) for e in walk(made)) else made


def repeats(op: str) -> bool:
    """Whether a primitive's kernel text names a parameter more than once."""
    entry = TABLE[op]
    return any(entry.kernel.count("{" + p + "}") > 1 for p in entry.params)
