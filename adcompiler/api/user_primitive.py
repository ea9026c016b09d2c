"""`primitive`: a user-defined scalar function in the rule table, with its partial derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, product
from typing import Any

import numpy as np

from adcompiler.api.compile import compile
from adcompiler.api.finite_differences import slopes
from adcompiler.api.function import Function
from adcompiler.api.limits import RTOL, SAMPLES
from adcompiler.errors import Error, GradientError
from adcompiler.frames import public
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.parse import parse_expression
from adcompiler.frontend.library.builtins import BUILTINS, CONSTANTS, name_primitive
from adcompiler.frontend.lowering.rule_texts import names_in
from adcompiler.ir.walk import postorder
from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.rules.shorthand import ANY
from adcompiler.ops.table import TABLE, add_entry
from adcompiler.public_types import AnyFunction

Interval = tuple[float, float]
_mine: dict[str, str] = {}  # the names that are the user's, and the primitives that they mean


@public
def primitive(
    name: str,
    params: str | Sequence[str],
    partials: str | Sequence[str],
    expand: str,
    *,
    numpy: Callable[..., AnyFunction] | None = None,
    domain: Sequence[Interval] | None = None,
    doc: str = "",
    check: bool = True,
) -> Function:
    """Define a scalar function with its partial derivatives. From now on any program can use it by name.

    name      a new name, or one defined by an earlier call of `primitive`
    params    the names of its parameters: a sequence, or one string "x y"
    partials  for each parameter the partial derivative: an expression in the language, in the parameters
              and the result `r`. Higher orders differentiate it. It must be right at edges too, where the
              derivative of `expand` may not be
    expand    the value: an expression of the parameters, from which kernels are made
    numpy     a function of arrays that the NumPy backend uses instead of `expand`
    domain    for each parameter an interval to sample in; by default (-2, 2) without 0
    check     compare the partials with finite differences of the value, and `numpy` with `expand`

    Returns it as an elementwise function. Raises GradientError for a partial that is wrong at a sample,
    ParseError for invalid text, Error for a name that is taken.
    """
    names = tuple(params.replace(",", " ").split() if isinstance(params, str) else params)
    texts = (partials,) if isinstance(partials, str) else tuple(partials)
    _check_names(name, names, texts, expand)
    entry = Primitive(
        name=_free(name),
        params=names,
        doc=doc,
        kind="float",
        partials=texts,
        numpy=numpy or _Reference(expand, names),
        sympy=None,
        domain=tuple((interval,) for interval in domain) if domain else (ANY,) * len(names),
        expand=expand,
    )
    before = _mine.get(name)
    if check:
        _check(name, entry)
    add_entry(entry)
    if before is not None:
        name_primitive(name, None)
    name_primitive(name, entry.name)
    _mine[name] = entry.name
    function = compile(f"{name}({', '.join(names)})", name=name, args=names)
    function.__doc__ = doc or None
    return function


class _Reference:
    """The value on arrays, by the NumPy backend."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self.function = compile(text, args=names, backend="numpy")

    @public
    def __call__(self, *args: Any) -> Any:
        return self.function(*args)


def _free(name: str) -> str:
    """A name that no primitive has: programs that stand keep the one that they were made with."""
    tried = (name if k == 1 else f"{name}_{k}" for k in count(1))
    return next(n for n in tried if n not in TABLE)


def _check_names(name: str, names: Sequence[str], texts: Sequence[str], expand: str) -> None:
    """Raise for names that are taken or unknown, and for texts that do not parse."""
    if not name.isidentifier() or name in CONSTANTS or (name in BUILTINS and name not in _mine):
        raise Error(
            f"{name!r} is already taken, or is not a valid name",
            remedy="choose another name",
        )
    if not names or len(set(names)) < len(names) or "r" in names or not all(map(str.isidentifier, names)):
        raise Error(f"the parameters of {name} are {', '.join(names)}", remedy="use each once, and not r")
    if len(texts) != len(names):
        raise Error(
            f"{name} has {len(names)} parameters and {len(texts)} partials",
            remedy="pass one for each, in order",
        )
    for text, known in ((expand, set(names)), *((t, {*names, "r"}) for t in texts)):
        unknown = sorted(names_in(text) - known)
        if unknown:
            raise Error(f"{name}: {text!r} uses {unknown[0]}", remedy=f"use {', '.join(sorted(known))}")
        if name in _called(text):
            raise Error(f"{name}: {text!r} calls {name} itself", remedy="in a partial, r is the result")


def _called(text: str) -> set[str]:
    root: tree.Tree = parse_expression(text)
    nodes = postorder([root], tree.children)
    calls = [n.function for n in nodes if isinstance(n, tree.Call)]
    return {f.id for f in calls if isinstance(f, tree.Name)}


def _check(name: str, entry: Primitive) -> None:
    """Compare partials with finite differences of the value at samples."""
    value = _Reference(entry.expand, entry.params)
    found = [compile(t, args=(*entry.params, "r"), backend="numpy") for t in entry.partials]
    for point in _samples(entry):
        r = float(value(*point))
        given = float(entry.numpy(*map(np.float64, point)))
        if not _close(given, r):
            raise GradientError(
                f"{name}: numpy gives {given!r} at {_at(entry, point)}, expand {r!r}",
                remedy="make both compute the same",
            )
        for k, partial in enumerate(found):
            slope = float(partial(*point, r))
            expected = float(slopes(lambda p: np.float64(value(*map(float, p))), point, k))
            if not _close(slope, expected):
                raise GradientError(
                    f"{name}: the partial by {entry.params[k]} is {slope:.6g} at {_at(entry, point)}, "
                    f"finite differences give {expected:.6g}",
                    remedy="correct the partial, or give a domain where the function is smooth",
                )


def _samples(entry: Primitive) -> list[tuple[float, ...]]:
    """Points of the domain: every combination where that is few, else along the diagonal."""
    ways = [[a + (b - a) * (k + 0.5) / SAMPLES for a, b in d for k in range(SAMPLES)] for d in entry.domain]
    if len(ways) <= 2:
        return list(product(*ways))
    return list(zip(*(_rotated(w, k) for k, w in enumerate(ways)), strict=False))


def _rotated(values: list[float], k: int) -> list[float]:
    """The same values from another one on, so that parameters differ."""
    return values[k:] + values[:k]


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= RTOL * max(1.0, abs(b)) or a == b


def _at(entry: Primitive, point: Sequence[float]) -> str:
    return ", ".join(f"{n} = {x:g}" for n, x in zip(entry.params, point, strict=True))
