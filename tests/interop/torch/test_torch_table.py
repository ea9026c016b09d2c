"""Forty functions through PyTorch, values and two orders of derivatives, against PyTorch's own.

Each is called as it is with tensors. What a test takes the derivative of is a weighted sum of all results, so
that every entry of a Jacobian counts; for the second order it is the sum of squares of the first.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from interop.functions import CASES

import adcompiler as adc

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

CLOSE = {torch.float64: {"rtol": 1e-9, "atol": 1e-10}, torch.float32: {"rtol": 3e-3, "atol": 2e-4}}
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@cache
def compiled(case):
    return adc.compile(case.source)


def tensors(case, dtype=np.float64, cases=None):
    """The arguments of a case as tensors; the floats with `cases` of them along a first axis."""
    given = case.arguments(dtype)
    if cases is not None:
        more = [case.arguments(dtype, seed) for seed in range(cases)]
        given = [
            np.stack(a) if isinstance(s, tuple) else a[0] for s, *a in zip(case.shapes, *more, strict=True)
        ]
    return [torch.from_numpy(np.asarray(a)) for a in given]


def weighted(results):
    """A number that depends on every entry of the results, on each in another way."""
    results = results if isinstance(results, tuple) else (results,)
    return sum((r * torch.linspace(1, 2, r.numel(), dtype=r.dtype).reshape(r.shape)).sum() for r in results)


def orders(f, given, leaves):
    """Results, first derivatives by the leaves, and those of the sum of their squares."""
    results = f(*given)
    loss = weighted(results)
    first = torch.autograd.grad(loss, leaves, create_graph=True)
    squares = sum((g * g).sum() for g in first)
    second = (
        torch.autograd.grad(squares, leaves, allow_unused=True)
        if squares.requires_grad
        else [None] * len(leaves)
    )
    pairs = zip(second, leaves, strict=True)
    second = [torch.zeros_like(leaf) if g is None else g for g, leaf in pairs]
    return [*(results if isinstance(results, tuple) else (results,)), *first, *second]


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        torch.testing.assert_close(one, other, **CLOSE[one.dtype])


@cases
def test_two_orders_eagerly(case):
    given = tensors(case)
    leaves = [t.requires_grad_() for t in given if t.is_floating_point()]
    assert_same(orders(compiled(case), given, leaves), orders(case.of(torch), given, leaves))


@cases
def test_two_orders_in_float32_of_what_is_not_contiguous_and_has_no_gradient_last(case):
    given = [t.T.contiguous().T if t.ndim == 2 else t for t in tensors(case, np.float32)]
    leaves = [t.requires_grad_() for t in given if t.is_floating_point()]
    if len(leaves) > 1:
        leaves.pop().requires_grad_(False)
    assert_same(orders(compiled(case), given, leaves), orders(case.of(torch), given, leaves))


@cases
def test_two_orders_by_functions_of_functions_under_vmap(case):
    """vmap(jvp(grad)): a Hessian times a vector, for three cases at once."""
    given = tensors(case, cases=3)
    wanted = [k for k, t in enumerate(given) if t.is_floating_point()]

    def product(f):
        def of_floats(*floats):
            whole = list(given)
            for k, t in zip(wanted, floats, strict=True):
                whole[k] = t
            return weighted(f(*whole))

        def along_itself(*floats):
            gradient = torch.func.grad(of_floats, argnums=tuple(range(len(floats))))
            return torch.func.jvp(gradient, floats, floats)

        return torch.func.vmap(along_itself)(*(given[k] for k in wanted))

    ours, theirs = product(compiled(case)), product(case.of(torch))
    for order in (0, 1):
        assert_same(ours[order], theirs[order])


@cases
@pytest.mark.parametrize("mode", ["jacrev", "jacfwd", "hessian"])
def test_jacobians_and_hessians(case, mode):
    given = tensors(case)
    wanted = tuple(k for k, t in enumerate(given) if t.is_floating_point())
    mode = getattr(torch.func, mode)
    both = compiled(case), case.of(torch)
    if mode is torch.func.hessian:
        both = [lambda *a, f=f: weighted(f(*a)) for f in both]
    ours, theirs = (torch.utils._pytree.tree_leaves(mode(f, argnums=wanted)(*given)) for f in both)
    assert_same(ours, theirs)
