"""Corners: short programs, of which `r` is the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.eager.tape_cases.registry import CASES

# `x` is a leaf of two numbers, `b` its square, `k` a constant.
PROGRAMS = {
    # -- versions: a view and what it shows have one count, and an assignment counts
    "a slice is increased": "k[:1] += 1.0; r = [k, k._version]",
    "an element is increased": "k[0] += x[0]; r = [k._version, t.grad((k * k).sum(), x)]",
    "an element of a computed array is multiplied": "b[1] *= x[0]; r = [b._version, t.grad(b.sum(), x)]",
    "an element of a view is increased": "v = k[:]; v[0] += 1.0; r = [k._version, v._version]",
    "two slices are changed": "k[:1] *= 2.0; k[1:] -= 1.0; r = [k, k._version]",
    "chosen elements are increased": "k[[0, 1]] += 1.0; r = k._version",
    "a view made after changes": "k += 1.0; k *= 2.0; v = k[0]; r = [v._version, k._version]",
    "a view of a view made after changes": "k += 1.0; v = k[:]; v += 1.0; w = v[0]; r = w._version",
    "a copy has its own count": "k += 1.0; c = k.clone(); c += 1.0; r = [c._version, k._version]",
    "the product that read an element is still refused": "y = b[0] * b[1]; b[0] += 1.0; r = t.grad(y, x)",
    "the sum that read an element is not": "y = b[0] + b[1]; b[0] += 1.0; r = t.grad(y, x)",
    # -- gradients that are attributes
    "del of a gradient": "b.sum().backward(); del x.grad; r = x.grad",
    "del of no gradient": "del x.grad; r = x.grad",
    "backward after del": "b.sum().backward(retain_graph=True); del x.grad; b.sum().backward(); r = x.grad",
    "a deep copy has the gradient": "b.sum().backward(); c = copy.deepcopy(x); r = [c.grad, c.requires_grad]",
    "the gradient of a deep copy is its own": "b.sum().backward(); c = copy.deepcopy(x)\n"
    "with t.no_grad(): c.grad *= 2.0\n"
    "r = [x.grad, c.grad]",
    "a deep copy twice in a list": "c, d = copy.deepcopy([x, x]); r = c is d",
    # -- zeros in place of None
    "zeros may be differentiated": "g = t.grad(b.sum(), [x, k.requires_grad_()], materialize_grads=True, "
    "create_graph=True); r = [[v, v.requires_grad] for v in g]",
    "zeros are constants": "g = t.grad(b.sum(), k.requires_grad_(), materialize_grads=True)\n"
    "r = g.requires_grad",
    "zeros, and no unused input": "t.grad(b.sum(), x, materialize_grads=True, allow_unused=False)",
    # -- detach_() and views
    "detach_ of a view": "b[0].detach_()",
    "detach_ of a transposed view": "b.reshape(2, 1).T.detach_()",
    "detach_ of a gathered copy": "v = b[[0, 1]].detach_(); r = [v.requires_grad, v.is_leaf]",
    "detach_ of what has views": "v = b[0]; b.detach_(); r = [b.requires_grad, b.is_leaf, b]",
    # -- integers and truth values
    "an integer as an index": "r = [5, 6, 7][t.whole(1)]",
    "an integer in an array as an index": "r = [5, 6, 7][t.whole([2])]",
    "a range of an integer": "r = list(range(t.whole(3)))",
    "a float as an index": "[5, 6, 7][x[0]]",
    "several integers as an index": "[5, 6, 7][t.whole([1, 2])]",
    "bits": "i = t.whole([6, 3]); r = [i & 2, i | 1, i ^ 1, i << 1, i >> 1, ~i]",
    "truth values": "m = t.whole([True, False]); r = [m & True, m | True, m ^ m, ~m]",
    "bits of floats": "k & 1",
    "a mask of two": "m = t.whole([True, False]); n = t.whole([True, True]); r = t.grad(b[m & n].sum(), x)",
    "a list of numbers": "r = [b.tolist(), t.whole([1, 2]).tolist(), b[0].tolist()]",
    # -- optimisers
    "zero_grad leaves the gradient's object": "o = t.optim.SGD([x], lr=0.1); b.sum().backward(); g = x.grad\n"
    "o.zero_grad(set_to_none=False); r = [g is x.grad, g]",
    "zero_grad of a gradient with a graph": "o = t.optim.SGD([x], lr=0.1)\n"
    "b.sum().backward(create_graph=True)\n"
    "o.zero_grad(set_to_none=False); r = [x.grad, x.grad.requires_grad, x.grad.is_leaf]",
    "zero_grad where there is none": "o = t.optim.Adam([x], lr=0.1)\n"
    "o.zero_grad(set_to_none=False); r = x.grad",
    "a step after zero_grad": "o = t.optim.SGD([x], lr=0.1, momentum=0.9); b.sum().backward(); o.step()\n"
    "o.zero_grad(set_to_none=False); o.step(); r = x",
    # -- gradients of several targets
    "a leaf of two graphs": "(x * k).sum().backward(); b.sum().backward(); r = x.grad",
    "an output is among the targets": "y = b.sum(); r = t.grad(y * 2.0, [y, x])",
    "a target was changed after its use": "y = (b * 3.0).sum(); b *= 2.0; r = t.grad(y, b)",
    "a view is the target, and its root changed": "v = b[0]; y = v * 3.0; b *= 2.0; r = t.grad(y, v)",
    "the second derivative of an unused input": "g = t.grad((b * x).sum(), x, create_graph=True)\n"
    "r = t.grad(g.sum(), [x, t.leaf(1.0)])",
    "a gradient as a function of its weights": "w = t.leaf([0.0, 0.0])\n"
    "g = t.grad(b * x, x, w, create_graph=True); r = t.grad(g, w, t.const([1.0, 2.0]))",
    "through two steps of descent": "u, lr = x, t.leaf(0.1)\n"
    "for _ in range(2): u = u - lr * t.grad((u**4).sum(), u, create_graph=True)\n"
    "r = t.grad((u * u).sum(), [x, lr])",
    # -- buffers
    "a buffer filled by elements": "out = t.const([0.0, 0.0])\nfor i in range(2): out[i] = x[i] ** 2\n"
    "r = [out, t.grad((out * out).sum(), x)]",
    "a buffer of a recurrence": "out = t.const([1.0, 0.0, 0.0])\n"
    "for i in range(1, 3): out[i] = out[i - 1] * x[0]\nt.grad(out.sum(), x)",
    "a buffer of a recurrence, cloned": "out = t.const([1.0, 0.0, 0.0])\n"
    "for i in range(1, 3): out[i] = out[i - 1].clone() * x[0]\nr = t.grad(out.sum(), x)",
    "a buffer of a linear recurrence": "out = t.const([1.0, 0.0, 0.0])\n"
    "for i in range(1, 3): out[i] = out[i - 1] + x[0]\nr = t.grad(out.sum(), x)",
    # -- a part of a buffer that is replaced keeps its graph until a backward pass
    "a buffer is walked again": "k[:1] = x[1:]; k.sum().backward(); k.sum().backward()",
    "a whole buffer is walked again": "k[:] = x; k.sum().backward(); k.sum().backward(); r = x.grad",
    "a copied buffer is walked again": "k.copy_(x); k.sum().backward(); k.sum().backward(); r = x.grad",
    "a view of a buffer is walked again": "k[0] = x[1]; v = k[1:]; k.sum().backward(); v.sum().backward()",
    "a buffer that is filled again": "for i in range(2):\n    k[:1] += x[1:]\n    k.sum().backward()",
    "a buffer that begins anew": "for i in range(2):\n    k = k.detach().clone(); k[:1] += x[1:]\n"
    "    k.sum().backward()\nr = x.grad",
    "a number is assigned to a part": "k += x; k[0] = 3.0; k.sum().backward(); k.sum().backward()",
    "zeros in place of a gradient are a leaf": "k.requires_grad_()\n"
    "g = t.grad(b.sum(), k, materialize_grads=True, create_graph=True); r = [g.is_leaf, g.requires_grad]",
}


def ran(source: str) -> Callable[[Any], Any]:
    def run(t: Any) -> Any:
        x = t.leaf([2.0, 3.0])
        scope = {"t": t, "x": x, "b": x * x, "k": t.const([4.0, 5.0])}
        exec(f"import copy\n{source}", scope)
        return scope.get("r")

    return run


for _name, _source in PROGRAMS.items():
    CASES[f"corner: {_name}"] = ran(_source)


def norm(order: float, values: Any, axis: int | None) -> Callable[[Any], Any]:
    """A norm of vectors, and its gradient: 0 where the norm, or the element of a low order, is 0."""

    def run(t: Any) -> Any:
        a = t.leaf(values)
        found = t.np.linalg.norm(a, order, axis)
        return [found, t.grad(found.sum(), a)]

    return run


for _order in (3, 4, 2.5, 1.5, 0.5, -1, -2):
    CASES[f"norm of order {_order} of zeros"] = norm(_order, [0.0, 0.0], None)
    CASES[f"norm of order {_order} of rows, one of which is zero"] = norm(_order, [[3.0, 0.0], [0.0, 0.0]], 1)
    CASES[f"norm of order {_order} of columns"] = norm(_order, [[3.0, -1.0], [2.0, 0.5]], 0)


# What is a view of a matrix `k`, and of that in turn: where elements are not one behind the other reshape and
# ravel copy.
PARTS = (
    "k[:, 1:]", "k[:, ::2]", "k.T", "k.swapaxes(0, 1)", "k[1:]", "k[:, 0]", "k[..., None]", "k.T[1:][:, 0]",
    "k.T.ravel()", "k[0].expand(2, 3)", "k[:, 1:].clone()", "k.T * 1.0", "t.np.split(k, 2)[1]",
)  # fmt: skip


def seen(part: str, again: str, changed: str) -> Callable[[Any], Any]:
    def run(t: Any) -> Any:
        a = t.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        scope = {"t": t, "k": (k := a * a)}
        v = scope["v"] = eval(part, scope)
        w = scope["w"] = eval(again, scope)
        exec(f"{changed} *= 10.0", scope)
        counts = [one._version for one in (k, v, w)]
        return [k, v, w, counts, t.grad((k * k).sum() + (v * v * v).sum() + w.sum(), a)]

    return run


for _part in PARTS:
    for _again in ("v.reshape(-1)", "v.ravel()", "v.T.reshape(-1)", "v.reshape(-1, 1)[1:].reshape(-1)"):
        for _changed in "kw":
            CASES[f"{_part}, {_again}, {_changed} changes"] = seen(_part, _again, _changed)
