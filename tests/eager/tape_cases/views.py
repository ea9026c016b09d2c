"""Views: a change of a part is one of the whole, and the other way round, in values and in gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.eager.tape_cases.registry import CASES, case

STATEMENTS = [
    "v = b[0]; v += 1.0",
    "v = b[0]; v *= c",
    "v = b[0]; b += 1.0",
    "v = b[0]; b *= c",
    "v = b[0]; b[0] = c",
    "v = b[1]; b[0] = c",
    "v = b.T; v += 1.0",
    "v = b.T; b *= c",
    "v = b.T; v[0] = 2.0",
    "v = b.reshape(6); v += 1.0",
    "v = b.reshape(6); v[2] = c[0]",
    "v = b.reshape(3, 2); b[1] = c",
    "v = b[0][1]; v += c[0]",
    "v = b[0][1:]; v *= 2.0",
    "v = b[0, 1:]; b += 1.0",
    "v = b[:, 1]; v += c[0]; v *= 2.0",
    "v = b[:, 1]; w = b[0]; w += c",
    "v = b[0]; w = b[0]; w += c; v *= 2.0",
    "v = b[..., 0]; v += c[1]",
    "v = b[None]; v += 1.0",
    "v = b[0].clone(); v += 1.0",
    "v = b.clone()[0]; v += 1.0",
    "v = b[t.whole([0, 0])]; v += 1.0",
    "v = b[b > 1.0]; v += 1.0",
    "v = b.T[1]; b *= 2.0; v += c[:2]",
    "v = b.reshape(6)[1:4]; v *= c",
    "v = b[0]; v.zero_()",
    "v = b[0]; v.exp_()",
    "v = b[0]; v.copy_(c)",
    "v = b[0]; v[1] = c[2]",
    "v = b[0]; v[:] = c",
    "v = b[0]; b.zero_(); v += c",
    "v = b[0]; v += b[1]",
    "b[0] += b[1]",
    "b[0] += c",
    "b[:, 0] *= c[1]",
    "b[1:] -= c",
    "b.T[0] = 3.0",
    "b[0][1] = c[0]",
    "b.reshape(6)[1] = c[0]",
    "b[0][1:][0] = c[0]",
    "v = b.expand(2, 2, 3); b += 1.0",
    "v = b[0]; x = v * 2.0; b += 1.0; v = x",
    "b[0] = b[1]",
    "b[0] = b[1] * c; b[1] = b[0] * 2.0",
    "d = t.const([0.0, 0.0]); v = d[1:]; d[1] = c[0]; b = b * v",
    "d = t.const([0.0, 0.0]); v = d[1:]; v += c[0]; b = b * d[1]",
    "d = t.const([1.0, 2.0]); v = d[0]\nwith t.no_grad():\n    d += 1.0\nb = b * v",
    "v = b[0]\nwith t.no_grad():\n    b += 1.0",
    "v = b[0]\nwith t.no_grad():\n    v += 1.0",
    "v = b[0]; v.retain_grad(); b += 1.0",
    "v = b[0]; v = v + 1.0; v += c",
    "for k in range(3):\n    b[0] = b[0] * c\nv = b",
    "v = b[0]; b = b + 1.0; v += c",
    "v = b.T.T; v += 1.0",
    "v = b.T.reshape(6); v += 1.0",
    "v = b[0]; v **= 2; b[1] = v",
    "v = b[1:]; b[0] = v[0]; v *= c",
    "row = b[0]\nfor k in range(3):\n    row[k] = c[k] * a[1, k]\nv = row",
    "v = b[::1]; v += 1.0",
    "v = b[0:0]; v += 1.0",
    "v = b[0]; w = v[1:]; b *= 2.0; w += 1.0",
    "v = t.np.transpose(b, (1, 0)); v += 1.0",
    "v = t.np.swapaxes(b, 0, 1); b *= 2.0",
    "v = t.np.squeeze(b[:1]); v += c",
    "v = t.np.expand_dims(b, 0); v *= 2.0",
    "v = t.np.moveaxis(b, 0, 1)[0]; v += 1.0",
    "v = t.np.split(b, 2)[1]; v += c",
    "v = t.np.flip(b, 0); v += 1.0",
    "v = t.np.roll(b, 1, 0); v += 1.0",
    "v = t.np.tile(b, (1, 1)); v += 1.0",
    "v = t.np.repeat(b, 1); v += 1.0",
    "v = t.np.take(b, t.whole([0]), 0); v += 1.0",
    "v = t.np.concatenate([b], 0); v += 1.0",
    "v = t.np.diag(b[:, :2]); v += 1.0",
    "v = t.np.tril(b); v += 1.0",
]


def viewed(source: str) -> Callable[[Any], Any]:
    """`v` shows a part of `b`, which was computed from `a`: values and gradients of two orders of both."""

    def run(t: Any) -> Any:
        a, c = t.leaf([[0.7, 1.6, 0.4], [1.2, 0.9, 2.0]]), t.leaf([1.2, 0.9, 0.3])
        scope = {"t": t, "a": a, "b": a * 1.0, "c": c}
        exec(source, scope)
        b, v = scope["b"], scope.get("v", scope["b"])
        first = t.grad((b * b).sum() + (v * v * v).sum(), [a, c], create_graph=True)
        total = sum((g * g).sum() for g in first if g is not None)
        second = t.grad(total, [a, c]) if total.requires_grad else None
        return [b, v, b.is_leaf, v.is_leaf, b.requires_grad, v.requires_grad, first, second]

    return run


for _source in STATEMENTS:
    CASES[f"viewed {_source}"] = viewed(_source)


@case
def a_view_of_a_leaf_is_not_changed_in_place(t):
    a = t.leaf([1.0, 2.0])
    v = a[0]
    v += 1.0


@case
def a_view_of_a_leaf_is_changed_under_no_grad(t):
    a = t.leaf([1.0, 2.0])
    with t.no_grad():
        v = a[0]
        v += 1.0
    (a * a).sum().backward()
    return [a, v, a.grad]


@case
def an_element_of_a_leaf_is_changed_under_no_grad(t):
    a = t.leaf([1.0, 2.0])
    with t.no_grad():
        a[0] += 1.0
        a[1:] *= 3.0
    (a * a).sum().backward()
    return [a, a.grad, a.is_leaf]


@case
def a_view_that_was_read_before_its_base_was_changed(t):
    a = t.leaf([1.0, 2.0])
    b = a * 1.0
    v = b[0]
    x = v * v
    b += 1.0
    x.backward()


@case
def a_base_that_was_read_before_its_view_was_changed(t):
    a = t.leaf([1.0, 2.0])
    b = a * 1.0
    x = (b * b).sum()
    v = b[0]
    v += 1.0
    x.backward()


@case
def a_base_that_was_read_harmlessly_before_its_view_was_changed(t):
    a = t.leaf([1.0, 2.0])
    b = a * 1.0
    x = (b + b).sum()
    v = b[0]
    v += 1.0
    x.backward()
    return [a.grad, b, v]


@case
def filling_from_the_element_before(t):
    a = t.leaf(2.0)
    out = t.const([1.0, 0.0, 0.0])
    for k in range(2):
        out[k + 1] = out[k] * a
    out.sum().backward()
    return a.grad


@case
def filling_from_a_clone_of_the_element_before(t):
    a = t.leaf(2.0)
    out = t.const([1.0, 0.0, 0.0])
    for k in range(2):
        out[k + 1] = out[k].clone() * a
    out.sum().backward()
    return [a.grad, out]


@case
def filling_from_the_element_before_by_adding(t):
    a = t.leaf(2.0)
    out = t.const([1.0, 0.0, 0.0])
    for k in range(2):
        out[k + 1] = out[k] + a
    out.sum().backward()
    return [a.grad, out]


@case
def a_gradient_with_views(t):
    a = t.leaf([1.0, 2.0])
    (a * a).sum().backward()
    g = a.grad[0]
    (a * a).sum().backward()
    return [g, a.grad]


@case
def a_part_of_a_gradient_is_zeroed(t):
    a = t.leaf([1.0, 2.0])
    (a * a).sum().backward()
    a.grad[0] = 0.0
    v = a.grad[1:]
    v *= 2.0
    return a.grad


@case
def a_view_of_a_leaf_after_a_step(t):
    a = t.leaf([[1.0, 2.0], [3.0, 4.0]])
    w = a.T
    (w[0] * w[1]).sum().backward()
    with t.no_grad():
        a -= 0.1 * a.grad
    return [w, w.is_leaf, w.requires_grad]


@case
def training_through_a_view_kept(t):
    a = t.leaf([[1.0, 2.0], [3.0, 4.0]])
    w = a.T
    got = []
    for _ in range(3):
        loss = (w[0] * w[1]).sum()
        loss.backward()
        got.append(loss.item())
        with t.no_grad():
            a -= 0.1 * a.grad
        a.grad = None
    return [got, a]


@case
def versions_of_views(t):
    b = t.const([1.0, 2.0])
    v = b[0]
    b += 1.0
    v += 1.0
    return [b._version, v._version, b, v]


@case
def a_view_that_requires_a_gradient_itself(t):
    c = t.const([1.0, 2.0])
    v = c[0].requires_grad_()
    (v * v).backward()
    return [v.grad, v.is_leaf, c.requires_grad]


@case
def a_view_is_detached(t):
    a = t.leaf([1.0, 2.0])
    v = (a * 1.0)[0].detach()
    return [v.requires_grad, v.is_leaf]
