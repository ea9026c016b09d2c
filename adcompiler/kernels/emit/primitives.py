"""Primitives of the rule table in the loop IR."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from adcompiler.ir.types import Dtype
from adcompiler.loopir.nodes import Call, Expr, Verbatim
from adcompiler.loopir.parse import expression
from adcompiler.loopir.precedence import ATOM
from adcompiler.loopir.printer import printed
from adcompiler.loopir.rewrite import Filled
from adcompiler.loopir.walk import walk
from adcompiler.ops.table import TABLE

EXTREMA = {"maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min"}  # of integers: none is NaN


def filled(op: str, args: Sequence[Expr], dtype: Dtype) -> Expr:
    """A primitive of the rule table, as its kernel's text has it."""
    if op in EXTREMA and dtype == "i64":
        return Call(EXTREMA[op], tuple(args))
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


def repeats(op: str, dtype: Dtype) -> bool:
    """Whether a primitive's kernel text names a parameter more than once."""
    entry = TABLE[op]
    if op in EXTREMA and dtype == "i64":
        return False
    return any(entry.kernel.count("{" + p + "}") > 1 for p in entry.params)
