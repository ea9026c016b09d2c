"""Tensors of every kind: what programs take, on which device, in which mode; the rest is refused."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import adcompiler as adc

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

PRODUCT = adc.compile("a * b")
LOSS = adc.compile("sum(a * a * b)")
ONE = torch.ones(3)
TWICE = pytest.mark.parametrize("before", [False, True], ids=["first call", "after a plain call"])


@TWICE
@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda: torch.eye(3).to_sparse(), "to_dense"),
        (lambda: torch.eye(3).to_sparse_csr(), "to_dense"),
        (lambda: torch.quantize_per_tensor(ONE, 0.1, 0, torch.quint8), "dequantize"),
        (lambda: torch.ones(3, dtype=torch.complex64), "float32 or float64"),
        (lambda: ONE.half(), "x.float()"),
        (lambda: ONE.bfloat16(), "x.float()"),
        (lambda: torch.ones(3, dtype=torch.uint64), "integers to int64"),
        (lambda: torch.nested.nested_tensor([ONE, torch.ones(2)]), "unbind"),
        (lambda: torch.nested.nested_tensor([ONE, torch.ones(2)], layout=torch.jagged), "unbind"),
    ],
    ids=["coo", "csr", "quantized", "complex", "half", "bfloat16", "uint64", "nested", "jagged"],
)
@pytest.mark.filterwarnings("ignore")  # PyTorch's own, of what it calls beta or deprecated
def test_other_kinds_are_refused_with_a_remedy(make, remedy, before):
    f, given = adc.compile("a * b"), make()
    if before:
        f(ONE, ONE)
    for call in (lambda: f(given, ONE), lambda: f(ONE, given), lambda: adc.vjp(f, given, ONE)):
        with pytest.raises(adc.DtypeError) as told:
            call()
        assert remedy in str(told.value)


class Marked(torch.Tensor):
    """A class of tensors without operators of its own."""


@pytest.mark.parametrize(
    "given",
    [
        torch.nn.Parameter(ONE.clone()),
        torch.nn.Buffer(ONE.clone()),
        ONE.as_subclass(Marked),
        torch.ones(1).expand(3),
        -torch.ones(3, dtype=torch.complex64).mul(1j).conj().imag,
        torch.ones(3, dtype=torch.bool),
        torch.ones(6)[::2],
        torch.tensor(1.0),
    ],
    ids=["parameter", "buffer", "subclass", "expanded", "negative view", "bool", "strided", "rank 0"],
)
def test_what_holds_real_numbers_is_taken(given):
    b = torch.arange(3.0, requires_grad=True)
    found = PRODUCT(given, b)
    assert found.tolist() == [0.0, 1.0, 2.0]
    assert torch.autograd.grad(found.sum(), b)[0].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32]
)
def test_integers_are_int64(dtype):
    assert PRODUCT(torch.tensor([2, 3], dtype=dtype), torch.tensor([4, 5])).tolist() == [8, 15]


# -- devices ---------------------------------------------------------------------------------------


@TWICE
def test_tensors_on_several_devices_are_refused(before):
    f = adc.compile("a * b")
    if before:
        f(ONE, ONE)
    for given in ((ONE.to("meta"), ONE), (ONE, ONE.to("meta"))):
        with pytest.raises(adc.DtypeError, match=r"several devices: a on (cpu|meta), b on (cpu|meta)"):
            f(*given)


def test_a_tensor_of_a_gpu_is_refused_by_what_is_compiled_for_the_cpu():
    with torch._subclasses.FakeTensorMode():  # a device that need not be there
        there, here = torch.ones(3, device="cuda"), torch.ones(3)
        with pytest.raises(adc.DtypeError, match=r"on cuda:0, but f is compiled for the CPU[^$]*cpu\(\)"):
            PRODUCT(there, there)
        with pytest.raises(adc.DtypeError, match=r"several devices[^$]*b\.to\(a\.device\)"):
            PRODUCT(there, here)


def test_without_values_there_are_shapes():
    """As everywhere in PyTorch, on the device "meta" and with fake tensors."""
    a = torch.ones(3, 1, device="meta", requires_grad=True)
    found = PRODUCT(a, torch.ones(4, device="meta"))
    found.sum().backward()
    assert (found.shape, found.device.type, a.grad.shape) == ((3, 4), "meta", (3, 1))
    pulled = adc.vjp(PRODUCT, found, found)[1](found)
    assert [g.device.type for g in pulled] == ["meta", "meta"]
    with torch._subclasses.FakeTensorMode():
        assert PRODUCT(torch.ones(2), torch.ones(2)).shape == (2,)
    with pytest.raises(adc.DtypeError, match="without values"):
        adc.Variable(a.detach())


# -- other libraries --------------------------------------------------------------------------------


def test_arrays_of_numpy_go_with_tensors_and_variables_do_not():
    assert PRODUCT(ONE, np.arange(3, dtype=np.float32)).tolist() == [0.0, 1.0, 2.0]
    assert PRODUCT(np.arange(3.0), ONE).dtype == torch.float64
    with pytest.raises(adc.DtypeError, match="masked"):
        PRODUCT(ONE, np.ma.masked_array(np.ones(3), [True, False, False]))
    with pytest.raises(adc.DtypeError, match="Variable"):
        PRODUCT(ONE, adc.Variable(2.0))


def test_an_array_of_jax_beside_a_tensor_is_a_constant():
    jnp = pytest.importorskip("jax.numpy", reason="JAX is not installed: pip install jax")
    a = torch.ones(3, requires_grad=True)
    found = PRODUCT(a, 2 * jnp.ones(3, "float32"))
    assert torch.autograd.grad(found.sum(), a)[0].tolist() == [2.0, 2.0, 2.0]


# -- modes of PyTorch -------------------------------------------------------------------------------


def test_without_gradients_nothing_is_followed():
    a = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert not PRODUCT(a, ONE).requires_grad
    with torch.inference_mode():
        found = PRODUCT(a, ONE)
        assert found.is_inference()
        assert adc.vjp(PRODUCT, a, found)[1](found)[0].tolist() == [1.0, 1.0, 1.0]
    assert PRODUCT(found, ONE).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):  # as PyTorch's product
        PRODUCT(found, a)


@TWICE
@pytest.mark.filterwarnings("ignore")  # it is deprecated
def test_a_trace_of_torch_jit_is_refused(before):
    f = adc.compile("a * b").torch()
    if before:
        f(ONE, ONE)
    with pytest.raises(adc.LimitError, match=r"torch\.export"):
        torch.jit.trace(f, (ONE, ONE))


def test_a_trace_of_make_fx_has_the_operator():
    traced = torch.fx.experimental.proxy_tensor.make_fx(lambda a: PRODUCT(a, ONE))(2 * ONE)
    assert traced(3 * ONE).tolist() == [3.0, 3.0, 3.0]


def test_the_first_vmap_of_pytorch_is_refused():
    a = torch.ones(3, requires_grad=True)
    with pytest.raises(adc.LimitError, match=r"torch\.func"):
        torch.autograd.grad(PRODUCT(a, a), a, torch.eye(3), is_grads_batched=True)


def test_checkpoints_and_hooks_of_saved_tensors():
    from torch.utils.checkpoint import checkpoint

    a = torch.ones(3, requires_grad=True)
    found = checkpoint(lambda a: PRODUCT(PRODUCT(a, a), a), a, use_reentrant=False)
    assert torch.autograd.grad(found.sum(), a)[0].tolist() == [3.0, 3.0, 3.0]
    with torch.autograd.graph.save_on_cpu():
        found = PRODUCT(a, a)
    assert torch.autograd.grad(found.sum(), a)[0].tolist() == [2.0, 2.0, 2.0]


# -- the graph --------------------------------------------------------------------------------------


def test_a_graph_is_used_once_unless_it_is_retained():
    a = torch.ones(3, requires_grad=True)
    value = LOSS(a, ONE)
    value.backward(retain_graph=True)
    value.backward()
    assert a.grad.tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(RuntimeError, match="a second time"):
        value.backward()


def test_create_graph_gives_higher_orders():
    a = torch.full((3,), 2.0, requires_grad=True)
    value = adc.compile("sum(a**4)")(a)
    for order in range(1, 5):
        (value,) = torch.autograd.grad(value.sum(), a, create_graph=order < 4)
    assert value.tolist() == [24.0, 24.0, 24.0]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("f", [PRODUCT, LOSS], ids=["product", "loss"])
def test_what_was_saved_may_not_be_changed(f, which):
    leaves = [torch.ones(3, requires_grad=True) for _ in range(2)]
    given = [t * 1 for t in leaves]
    late = f(*given).sum()
    given[which].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        late.backward()


def test_hooks_see_and_change_gradients():
    a, seen = torch.ones(3, requires_grad=True), []
    found = PRODUCT(a, ONE)
    found.register_hook(lambda g: 2 * g)
    found.register_hook(lambda g: seen.append(g.tolist()))
    found.sum().backward()
    assert seen == [[2.0, 2.0, 2.0]]
    assert a.grad.tolist() == [2.0, 2.0, 2.0]


def test_threads_share_a_function():
    f, wrong = adc.compile("sum(exp(a) * a)"), []

    def work(n):
        for k in range(30):
            a = torch.full((n + k % 3,), 0.5, dtype=torch.float64, requires_grad=True)
            f(a).backward()
            if not torch.allclose(a.grad, torch.exp(a.detach()) * 1.5):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3, 50)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_a_function_for_pytorch_is_pickled_and_copied():
    f = PRODUCT.torch()
    assert copy.deepcopy(f) is f
    assert pickle.loads(pickle.dumps(f))(ONE, ONE).tolist() == [1.0, 1.0, 1.0]
