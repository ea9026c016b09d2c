"""Every snippet of "Leaf that requires grad" (seed 002), in its order, with Variables in place of tensors."""

from __future__ import annotations

import gc
import warnings
import weakref

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import Variable
from adcompiler.tape import grad

# -- basic terms -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3)])
def test_a_tensor_is_an_array_of_any_rank(shape):
    """On "A multidimensional array", single numbers included."""
    a = Variable(np.full(shape, 3.0), requires_grad=True)
    (a * a).sum().backward()
    assert a.ndim == len(shape)
    np.testing.assert_array_equal(a.grad.value, np.full(shape, 6.0))


# -- leaf tensors ------------------------------------------------------------------------------


def test_leaves():
    """The first snippet; d is a leaf for it requires no gradient ("sic!")."""
    a = Variable([3.0], requires_grad=True)
    b = a * a
    c = Variable([5.0])
    d = c * c
    assert a.requires_grad is True
    assert a.is_leaf is True
    assert b.requires_grad is True
    assert b.is_leaf is False
    assert c.requires_grad is False
    assert c.is_leaf is True
    assert d.requires_grad is False
    assert d.is_leaf is True


def test_an_image_after_mean_removal_is_a_leaf():
    """The document's own example of a computed leaf."""
    image = Variable(np.arange(6.0).reshape(2, 3))
    centred = image - image.mean()
    assert centred.is_leaf
    assert not centred.requires_grad


@pytest.mark.parametrize("flags", [(True, True, False), (True, False, False), (False, False, False)])
def test_requires_grad_is_inherited(flags):
    """sin(a * b * c) requires a gradient if any of the three does."""
    a, b, c = (Variable([5.0], requires_grad=flag) for flag in flags)
    d = np.sin(a * b * c)
    assert d.requires_grad == any(x.requires_grad for x in (a, b, c))


# -- grad retention ----------------------------------------------------------------------------


def test_only_leaves_retain_their_gradient():
    """b.grad is None, and reading it warns: the warning says why and what to do."""
    a = Variable([3.0], requires_grad=True)
    b = a * a
    b.backward()
    assert a.grad is not None
    with pytest.warns(UserWarning, match=r"not a leaf(.|\n)*retain_grad\(\)(.|\n)*leaf"):
        assert b.grad is None


def test_retain_grad():
    """On "Fix it by forcing b to retain its gradient": no warning, and a value."""
    a = Variable([3.0], requires_grad=True)
    b = a * a
    b.retain_grad()
    b.backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (a.grad.item(), b.grad.item()) == (6.0, 1.0)


# -- mysteries of grad -------------------------------------------------------------------------


def test_what_a_gradient_is():
    """A tensor, a leaf, that neither requires nor retains a gradient."""
    a = Variable([3.0], requires_grad=True)
    b = a * a
    b.retain_grad()
    b.backward()
    assert isinstance(a.grad, Variable)
    assert a.grad.requires_grad is False
    assert a.grad.retains_grad is False
    assert a.grad.is_leaf is True
    assert b.grad.requires_grad is False
    assert b.grad.retains_grad is False
    assert b.grad.is_leaf is True


def test_backward_twice_is_an_error_that_explains():
    """On "The error message explains it all": what was freed, by what, and the flag to set."""
    a = Variable([3.0], requires_grad=True)
    b = a * a
    b.retain_grad()
    b.backward()
    with pytest.raises(RuntimeError, match=r"b = a \* a(.|\n)*freed by an earlier backward") as caught:
        b.backward()
    assert isinstance(caught.value, adc.GraphError)
    assert "retain_graph=True" in str(caught.value)


def test_retain_graph_and_accumulation():
    """It prints 6, 12 and 18; the fourth call is the error again."""
    a = Variable([3.0], requires_grad=True)
    b = a * a
    b.retain_grad()
    seen = []
    for retain in (True, True, False):
        b.backward(retain_graph=retain)
        seen.append(a.grad.item())
    assert seen == [6.0, 12.0, 18.0]
    with pytest.raises(adc.GraphError, match="freed"):
        b.backward(retain_graph=False)


def test_create_graph():
    """Now a.grad requires a gradient, and b.grad does not: the derivative of b by b is 1."""
    a = Variable([5.0], requires_grad=True)
    b = a * a
    b.retain_grad()
    b.backward(create_graph=True)
    assert a.grad.requires_grad is True
    assert a.grad.is_leaf is False
    assert b.grad.requires_grad is False
    assert b.grad.is_leaf is True
    assert grad(a.grad, a).item() == 2.0


def test_create_graph_sets_retain_graph():
    """Side note 1: unless it is set explicitly."""
    a = Variable([3.0], requires_grad=True)
    b = a * a
    b.backward(create_graph=True)
    b.backward(create_graph=True, retain_graph=False)
    with pytest.raises(adc.GraphError, match="freed"):
        b.backward()


def test_backward_with_create_graph_does_not_leak():
    """Side note 2: PyTorch warns of a cycle between parameter and gradient.

    Here it would be one as well, as long as .grad is there: with .grad = None, the advice, nothing is left.
    """
    a = Variable([3.0], requires_grad=True)
    b = a * a
    b.backward(create_graph=True)
    graph = weakref.ref(a.grad)
    a.grad = None
    del b
    assert graph() is None
    b = a * a
    b.backward(create_graph=True)
    graph = weakref.ref(a)
    del a, b
    gc.collect()
    assert graph() is None


# -- grad --------------------------------------------------------------------------------------


def test_grad_of_a_cube():
    """db/da requires a gradient, and is 3 a**2."""
    a = Variable([3.0], requires_grad=True)
    b = a * a * a
    db_da = grad(b, a, create_graph=True)
    assert db_da.requires_grad is True
    assert db_da.item() == 27.0
    assert a.grad is None


def test_second_derivative_of_a_cube():
    """It is 18, and still differentiable: the third derivative is 6."""
    a = Variable([3.0], requires_grad=True)
    db_da = grad(a * a * a, a, create_graph=True)
    d2b_da2 = grad(db_da, a, create_graph=True)
    assert d2b_da2.item() == 18
    assert d2b_da2.requires_grad is True
    assert grad(d2b_da2, a).item() == 6


def test_second_derivative_by_finite_differences():
    """The same in numbers that do not come from a graph, with the compiled function beside it."""
    cube, step = adc.compile("a * a * a"), 1e-4
    numeric = (cube(3.0 + step) - 2 * cube(3.0) + cube(3.0 - step)) / step**2
    assert adc.grad(adc.grad(cube))(3.0) == pytest.approx(numeric, rel=1e-5)


def test_what_else_grad_could_return():
    """The document's TODO: one entry for each input that was asked for, None for one that is not used."""
    a, b = Variable([3.0], requires_grad=True), Variable([2.0], requires_grad=True)
    (only,) = grad(a * a, [a])
    first, second = grad(a * a, [a, b])
    assert only.item() == first.item() == 6.0
    assert second is None
    assert grad(a * a, b, materialize_grads=True).item() == 0.0
    with pytest.raises(adc.GraphError, match=r"does not depend on(.|\n)*materialize_grads"):
        grad(a * a, [a, b], allow_unused=False)


def test_a_gradient_without_create_graph_cannot_be_differentiated():
    """What a reader tries first: the second derivative without the flag. The message names it."""
    a = Variable([3.0], requires_grad=True)
    first = grad(a * a * a, a)
    with pytest.raises(adc.GraphError, match="depends on nothing that requires a gradient"):
        first.backward()


# -- physics-informed networks -----------------------------------------------------------------


def test_derivatives_of_a_network_inside_its_loss():
    """What the document is for: u' of a network stands in the loss, on the tape and compiled."""
    random = np.random.default_rng(0)
    w, v = random.normal(size=5), random.normal(size=5)
    x = np.linspace(-1.0, 1.0, 7)

    def loss(w, v):
        points = Variable(x)
        u = (np.tanh(points[:, None] * w) * v).sum(1)
        (slope,) = grad(u, [points], create_graph=True)  # u' at each point: the points do not mix
        return ((slope + u) ** 2).mean()

    ours = [Variable(p, requires_grad=True) for p in (w, v)]
    loss(*ours).backward()
    compiled = adc.compile(
        """
    def residual(x, w, v):
        def u(x):
            return sum(tanh(x * w[k]) * v[k] for k in range(len(w)))
        return diff(u, x) + u(x)
    def loss(w, v, x):
        return mean([residual(point, w, v)**2 for point in x])
    """,
        name="loss",
    )
    dw, dv = adc.grad(compiled, ("w", "v"))(w, v, x)
    np.testing.assert_allclose(ours[0].grad.value, dw, rtol=1e-10)
    np.testing.assert_allclose(ours[1].grad.value, dv, rtol=1e-10)
    adc.check_grad(compiled, w, v, x, order=2)
