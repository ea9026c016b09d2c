"""`adc.vjp`, `jvp`, `hvp` and others of tensors: tensors come back, and PyTorch differentiates them."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

PRODUCT = adc.compile("exp(a) * b")
LOSS = adc.compile("sum(a * a * b)")
STRUCT = adc.compile("p['x'] * p['y'][0]")
TWO = adc.compile("def f(a, b):\n    return a * b, sum(a)")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def drawn(count=3, dtype=torch.float64, requires_grad=False):
    generator = torch.Generator().manual_seed(0)
    return [
        torch.rand(3, dtype=dtype, generator=generator, requires_grad=requires_grad) for _ in range(count)
    ]


@DTYPES
def test_vjp_gives_tensors_of_the_arguments_dtype(dtype):
    a, b, c = drawn(dtype=dtype)
    value, pullback = adc.vjp(PRODUCT, a, b)
    expected = torch.func.vjp(lambda a, b: torch.exp(a) * b, a, b)
    torch.testing.assert_close(value, expected[0])
    torch.testing.assert_close(pullback(c), expected[1](c))
    torch.testing.assert_close(adc.vjp(PRODUCT, a, b, wrt="b")[1](c.double()), expected[1](c)[1:])


@DTYPES
def test_jvp_and_hvp_give_tensors_of_the_arguments_dtype(dtype):
    a, b, c = drawn(dtype=dtype)
    torch.testing.assert_close(
        adc.jvp(PRODUCT, (a, b), (c, None)),
        torch.func.jvp(lambda a: torch.exp(a) * b, (a,), (c,)),
    )
    torch.testing.assert_close(adc.hvp(LOSS)((a, b), (c, None)), (2 * b * c, 2 * a * c))


def test_gradients_hessians_and_jacobians_are_tensors():
    a, b, _ = drawn()
    value, gradient = adc.value_and_grad(LOSS, "a")(a, b)
    torch.testing.assert_close((value, gradient), ((a * a * b).sum(), 2 * a * b))
    torch.testing.assert_close(adc.hessian(LOSS, "a")(a, b), torch.diag(2 * b))
    torch.testing.assert_close(adc.jacobian(PRODUCT, "b")(a, b), torch.diag(torch.exp(a)))


@pytest.mark.parametrize(
    "of",
    [
        lambda a, b, c: adc.vjp(PRODUCT, a, b)[0],
        lambda a, b, c: adc.vjp(PRODUCT, a, b)[1](c),
        lambda a, b, c: adc.vjp(LOSS, a, b)[1](c[0]),
        lambda a, b, c: adc.jvp(PRODUCT, (a, b), (c, a)),
        lambda a, b, c: adc.hvp(LOSS)((a, b), (c, b)),
        lambda a, b, c: adc.value_and_grad(LOSS)(a, b)[1],
        lambda a, b, c: adc.hessian(LOSS, "a")(a, b),
        lambda a, b, c: adc.jacobian(PRODUCT)(a, b),
    ],
    ids=["vjp's value", "pullback", "pullback of a loss", "jvp", "hvp", "gradient", "hessian", "jacobian"],
)
def test_what_comes_back_is_differentiable_twice(of):
    """Whatever requires a gradient, directions too, is followed."""
    given = drawn(requires_grad=True)
    assert torch.autograd.gradcheck(of, given)
    assert torch.autograd.gradgradcheck(of, given)


def test_transforms_of_both_nest():
    a, b, _ = drawn()

    def along_itself(a, b):
        return adc.vjp(PRODUCT, a, b)[1](a)[1]

    def theirs(a, b):
        return torch.exp(a) * a

    torch.testing.assert_close(torch.func.jacrev(along_itself)(a, b), torch.func.jacrev(theirs)(a, b))
    torch.testing.assert_close(torch.func.jacfwd(along_itself)(a, b), torch.func.jacfwd(theirs)(a, b))
    stacked = torch.stack([a, b]), torch.stack([b, a])
    torch.testing.assert_close(torch.func.vmap(along_itself)(*stacked), torch.func.vmap(theirs)(*stacked))


def test_containers_and_several_results():
    a, b, c = drawn()
    (found,) = adc.vjp(STRUCT, {"x": a, "y": [b]})[1](c)
    torch.testing.assert_close((found["x"], found["y"][0]), (b * c, a * c))
    pushed = adc.jvp(STRUCT, ({"x": a, "y": [b]},), ({"x": c, "y": [None]},))
    torch.testing.assert_close(pushed, (a * b, b * c))
    pullback = adc.vjp(TWO, a, b)[1]
    torch.testing.assert_close(pullback((c, None)), (b * c, a * c))
    assert pullback((None, torch.tensor(2.0)))[1] is None
    assert pullback(None) == (None, None)


def test_arrays_beside_tensors_are_copied():
    a, _, c = drawn()
    b = np.ones(3)
    _, pullback = adc.vjp(PRODUCT, a, b)
    b[:] = 7
    torch.testing.assert_close(pullback(c.numpy()), (torch.exp(a) * c, torch.exp(a) * c))


def test_empty_tensors():
    a = torch.ones(0, requires_grad=True)
    assert [g.shape for g in adc.vjp(PRODUCT, a, a)[1](a)] == [(0,), (0,)]
    assert adc.hvp(LOSS, "a")((a, a), a).shape == (0,)


@pytest.mark.parametrize("which", [0, 1])
def test_a_pullback_refuses_what_was_written_to(which):
    given = drawn(2)
    _, pullback = adc.vjp(adc.compile("a * b"), *given)
    given[which].add_(1)
    with pytest.raises(adc.GraphError, match=f"{'ab'[which]} was written to"):
        pullback(torch.ones(3))


def test_directions_must_fit():
    a, b, c = drawn()
    with pytest.raises(adc.ShapeError, match="cotangent of r has shape"):
        adc.vjp(PRODUCT, a, b)[1](c[:2])
    with pytest.raises(adc.ShapeError, match="tangent of a has shape"):
        adc.jvp(PRODUCT, (a, b), (c[:2], None))
    with pytest.raises(adc.DtypeError, match="complex"):
        adc.jvp(PRODUCT, (a, b), (1j * c, None))
    with pytest.raises(adc.DtypeError, match="several devices"):
        adc.vjp(PRODUCT, a, b)[1](c.to("meta"))
    with pytest.raises(adc.DtypeError, match="several devices"):
        adc.jvp(PRODUCT, (a, b), (c.to("meta"), None))


# -- buffers, and what gives NumPy's arrays ---------------------------------------------------------


def test_results_are_written_into_tensors():
    a, b, _ = drawn()
    whole = torch.zeros(6, dtype=torch.float64)
    torch.testing.assert_close(PRODUCT.into(whole[::2], a, b), torch.exp(a) * b)
    assert whole[1::2].tolist() == [0, 0, 0]
    buffer = torch.empty_like(a)
    assert PRODUCT(a, b, _result=buffer) is buffer


def test_pytorch_knows_that_a_buffer_was_written_to():
    a = torch.ones(3, dtype=torch.float64, requires_grad=True)
    b = torch.ones(3, dtype=torch.float64)
    late = (a * b).sum()
    PRODUCT.into(b, b, b)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        late.backward()


@pytest.mark.parametrize(
    "buffer",
    [
        torch.empty(3, dtype=torch.float64, requires_grad=True),
        torch.empty(3),
        torch.empty(3, dtype=torch.float64, device="meta"),
        torch.empty(1, dtype=torch.float64).expand(3),
        torch.ones(3, dtype=torch.complex128).conj().imag,
    ],
    ids=["requires a gradient", "float32", "meta", "expanded", "negative"],
)
def test_buffers_that_cannot_be_written_are_refused(buffer):
    with pytest.raises(adc.Error, match="buffer"):
        PRODUCT.into(buffer, *drawn(2))


@DTYPES
def test_split_functions_and_pairs_give_tensors(dtype):
    a, b, c = drawn(dtype=dtype)
    expected = torch.func.vjp(lambda a, b: torch.exp(a) * b, a, b)
    split = PRODUCT.split()
    value, saved = split.forward(a, b)
    torch.testing.assert_close((value, split.propagate(saved, c)), (expected[0], expected[1](c)))
    pair = PRODUCT.forward(adc.DiffPair(a, c), b)
    torch.testing.assert_close((pair.p, pair.d), (value, torch.exp(a) * b * c))
    gathered = adc.DiffPair(a, torch.ones(3, dtype=dtype))
    found, nothing = PRODUCT.backward(gathered, b, c)
    torch.testing.assert_close((found, gathered.d), (expected[1](c)[0], 1 + expected[1](c)[0]))
    assert nothing is None


def test_what_pytorch_does_not_follow_refuses_to_lose_a_gradient():
    a, b = drawn(2, requires_grad=True)
    for call in (adc.jacobian(PRODUCT, sparse=True), PRODUCT.split().forward, PRODUCT.forward, adc.Variable):
        given = (a,) if call is adc.Variable else (a, b)
        with pytest.raises(adc.DtypeError, match=r"gradient, which is lost here[^$]*detach"):
            call(*given)
        with torch.no_grad():
            call(*given)
