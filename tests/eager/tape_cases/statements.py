"""Statements that change `b`, computed from `a`, in place: values, versions, and gradients of two orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.eager.tape_cases.registry import CASES

STATEMENTS = [
    "b += c",
    "b -= c*c",
    "b *= c",
    "b /= c",
    "b **= 2",
    "b **= c",
    "b %= 1.0",
    "b += 1.0",
    "b *= b",
    "b -= b",
    "b += b*b",
    "b += c[0]",
    "b *= c.sum()",
    "b[0] = c[1]",
    "b[0] = b[1]",
    "b[:] = c",
    "b[...] = c*c",
    "b[1:] = b[:1]",
    "b[::1] = c",
    "b[t.whole([True, False])] = c[0]",
    "b[t.whole([1, 0])] = c",
    "b[b > 1.0] = 0.0",
    "b[b > 1.0] = c[b > 1.0]",
    "b.zero_(); b += c",
    "b.fill_(3.0); b *= c",
    "b.copy_(c); b *= a",
    "b.copy_(c[0])",
    "b.exp_(); b *= c",
    "b.sin_()",
    "b.sqrt_()",
    "b.tanh_()",
    "b.sigmoid_()",
    "b.neg_()",
    "b.negative_()",
    "b.abs_()",
    "b.add_(c)",
    "b.mul_(c)",
    "b.multiply_(c)",
    "b.sub_(c)",
    "b.subtract_(c)",
    "b.div_(c)",
    "b.divide_(c)",
    "b.pow_(2)",
    "b.reciprocal_()",
    "b.log_()",
    "b.relu_()",
    "b.square_()",
    "b.clip_(0.0, 1.0)",
    "d = b; d += c",
    "d = b.clone(); b += c; b *= d",
    "d = b + c; b += 1.0; b *= d",
    "d = b.detach(); b = b * d",
    "b = b.clone(); b += c",
    "b[0], b[1] = b[1].clone(), b[0].clone()",
    "b = -b; b += c; b = b*b",
    "b = b + c\nwith t.no_grad():\n    b2 = b*b\nb = b*b2",
    "b[0] = 0.0; b += a",
    "b[0] = c[0]; b[0] = a[1]",
    "b = t.const([0.0, 0.0]); b += a; b[0] = c[0]*a[1]",
    "b = t.const([0.0, 0.0]); b[1] = a[0]; b[0] = c[0]",
    "b.requires_grad_(); b += c",
    "b = b + 0.0; b.retain_grad(); b *= c",
]


def changed(source: str) -> Callable[[Any], Any]:
    def run(t: Any) -> Any:
        a, c = t.leaf([0.7, 1.6]), t.leaf([1.2, 0.9])
        scope = {"t": t, "a": a, "b": a * 1.0, "c": c}
        exec(source, scope)
        b = scope["b"]
        first = t.grad((b * b * t.const([1.0, 3.0])).sum(), [a, c], create_graph=True)
        total = sum((g * g).sum() for g in first if g is not None)
        second = t.grad(total, [a, c]) if total.requires_grad else None
        return [b, b.is_leaf, b._version, first, second]

    return run


for _source in STATEMENTS:
    CASES[f"after {_source}"] = changed(_source)
