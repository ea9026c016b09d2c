"""Compiled functions as a user of PyTorch meets them: modules, changes in place, refusals."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

import adcompiler as adc

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

NET = """
def net(p, x):
    h = x
    for layer in p:
        h = tanh(h @ layer['w'] + layer['b'])
    return h
"""


@pytest.fixture
def module():
    rng = np.random.default_rng(0)
    sizes = (3, 4), (4, 2)
    return adc.torch.Module(
        adc.compile(NET), p=[{"w": rng.normal(size=s), "b": np.zeros(s[1])} for s in sizes]
    )


X = torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3)


def by_hand(module, x):
    for layer in module.p.children():
        x = torch.tanh(x @ layer.w + layer.b)
    return x


def test_parameters_are_named_by_their_paths_and_have_gradients(module):
    assert list(module.state_dict()) == ["p.0.w", "p.0.b", "p.1.w", "p.1.b"]
    of = list(module.parameters())
    ours, theirs = (
        torch.autograd.grad(f(X).square().sum(), of) for f in (module, lambda x: by_hand(module, x))
    )
    torch.testing.assert_close(ours, theirs)


def test_a_copy_has_parameters_of_its_own(module):
    other = copy.deepcopy(module)
    before = module(X)
    with torch.no_grad():
        other.p.get_submodule("0").w.zero_()
    torch.testing.assert_close(module(X), before)
    torch.testing.assert_close(other(X), by_hand(other, X))


def test_a_module_is_saved_loaded_converted_and_compiled(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file, weights_only=False)(X), module(X))
    torch.testing.assert_close(torch.compile(module, fullgraph=True, backend="aot_eager")(X), module(X))
    assert module.float()(X.float()).dtype == torch.float32


def test_gradcheck_and_gradgradcheck():
    f = adc.compile("exp(a) * b + a[0]**3")
    given = [torch.rand(3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(f, given, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, given, check_fwd_over_rev=True)


def test_a_static_number_is_part_of_what_is_remembered():
    f = adc.compile("a * k", static=("k",))
    a = torch.ones(2)
    assert [f(a, k).sum().item() for k in (2.0, 3.0, 2.0)] == [4.0, 6.0, 4.0]


def test_calls_with_tensors_and_with_arrays_may_alternate():
    f = adc.compile("sum(a * a)")
    for _ in range(3):
        assert f(np.ones(3)) == 3.0
        assert f(torch.ones(3)).item() == 3.0


def test_what_is_written_to_before_backward_is_refused_or_copied():
    f = adc.compile("a * b")
    a, b = torch.ones(3, dtype=torch.float64, requires_grad=True), torch.full((3,), 2.0, dtype=torch.float64)
    late = f(a, b).sum()
    b.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        late.backward()
    array = np.full(3, 2.0)
    late = f(a, array).sum()
    array[:] = 0
    late.backward()
    assert a.grad.tolist() == [2.0, 2.0, 2.0]


def test_empty_tensors():
    a = torch.ones(0, dtype=torch.float64, requires_grad=True)
    value = adc.compile("sum(a * a)")(a)
    (gradient,) = torch.autograd.grad(value, a)
    assert value.item() == 0.0
    assert gradient.shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64])
def test_other_dtypes_are_refused_with_a_remedy(dtype):
    with pytest.raises(adc.DtypeError, match=r"pass x.float\(\)|pass tensors of bool"):
        adc.compile("a * 2")(torch.ones(3, dtype=dtype))


def test_a_name_that_the_function_does_not_have_is_refused():
    with pytest.raises(adc.Error, match="has no parameter 'q'"):
        adc.torch.Module(adc.compile("a * b"), q=1.0)
