"""torch.compile and torch.export: programs are one operator, `adcompiler::run`, whose shapes they know.

What PyTorch itself refuses, to differentiate twice what torch.compile made, is asserted to be refused.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from interop.functions import CASES
from interop.torch.test_torch_table import assert_same, cases, compiled, tensors, weighted

import adcompiler as adc

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

BACKEND = "aot_eager"  # traces forward and backward as inductor does, and needs no C++ compiler


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


def whole(f):
    return torch.compile(f, fullgraph=True, backend=BACKEND)


@cases
def test_value_and_gradient_in_one_graph(case):
    f = compiled(case).torch()
    ours, theirs = (lambda *a: weighted(f(*a)), lambda *a: weighted(case.of(torch)(*a)))
    given = tensors(case)
    leaves = [t.requires_grad_() for t in given if t.is_floating_point()]
    one, other = whole(ours)(*given), theirs(*given)
    assert_same([one], [other])
    assert_same(torch.autograd.grad(one, leaves), torch.autograd.grad(other, leaves))


PRODUCT = next(case for case in CASES if case.name == "scalars")


def test_second_order_through_the_compiled_graph_is_refused_by_pytorch():
    f = PRODUCT.of(torch)
    for g in (compiled(PRODUCT).torch(), f):  # as it refuses its own
        a, b = (t.requires_grad_() for t in tensors(PRODUCT))
        (first,) = torch.autograd.grad(whole(g)(a, b), a, create_graph=True)
        with pytest.raises(RuntimeError, match="does not currently support double backward"):
            torch.autograd.grad(first, b)


def test_second_order_inside_of_the_graph_is_compiled():
    f, given = compiled(PRODUCT).torch(), tensors(PRODUCT)
    twice = torch.func.grad(torch.func.grad(f, 1), 1)
    theirs = torch.func.grad(torch.func.grad(PRODUCT.of(torch), 1), 1)
    assert_same([whole(lambda a, b: twice(a, b))(*given)], [theirs(*given)])


@pytest.mark.parametrize("transform", ["grad", "jacrev", "jacfwd", "hessian"])
def test_functions_of_functions_inside_of_the_graph(transform):
    f, made = compiled(PRODUCT).torch(), getattr(torch.func, transform)
    given = tensors(PRODUCT)
    assert_same([whole(lambda *a: made(f)(*a))(*given)], [made(PRODUCT.of(torch))(*given)])


def test_vmap_inside_of_the_graph():
    f, given = compiled(PRODUCT).torch(), tensors(PRODUCT, cases=3)
    assert_same(
        [whole(lambda *a: torch.func.vmap(torch.func.grad(f))(*a))(*given)],
        [torch.func.vmap(torch.func.grad(PRODUCT.of(torch)))(*given)],
    )


def test_other_lengths_do_not_compile_again():
    f = adc.compile("sum(a[1:] * a[:-1]) * b").torch()  # of which the lengths are computed, and demanded
    counter = torch._dynamo.testing.CompileCounterWithBackend(BACKEND)
    g = torch.compile(f, fullgraph=True, backend=counter, dynamic=True)
    for n in (5, 9, 31):
        a, b = torch.linspace(1, 2, n, requires_grad=True), torch.tensor(2.0)
        value = g(a, b)
        assert_same([value], [(a[1:] * a[:-1]).sum() * b])
        assert_same(torch.autograd.grad(value, a), torch.autograd.grad((a[1:] * a[:-1]).sum() * b, a))
    assert counter.frame_count == 1


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.f = adc.compile("sum((a + b) * b)").torch()
        self.scale = torch.nn.Parameter(torch.tensor(3.0, dtype=torch.float64))

    def forward(self, a, b):
        return self.f(self.scale * a, b)


def exported():
    n = torch.export.Dim("n", min=2)
    a, b = torch.ones(2, 4, dtype=torch.float64)
    return torch.export.export(Model(), (a, b), dynamic_shapes=({0: n}, {0: n}))


def test_export_is_for_any_length_and_trains():
    program = exported().module()
    a, b = torch.arange(7.0, dtype=torch.float64), torch.ones(7, dtype=torch.float64)
    value = program(a, b)
    assert_same([value], [((3 * a + b) * b).sum()])
    value.backward()
    assert_same([program.scale.grad], [a.sum()])


def test_what_was_exported_runs_in_another_process(tmp_path):
    torch.export.save(exported(), tmp_path / "model.pt2")
    script = (
        "import sys, torch, adcompiler.interop.torch\n"
        "f = torch.export.load(sys.argv[1]).module()\n"
        "print(f(torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)).item())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "model.pt2"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "12.0\n"


def test_a_length_that_values_decide_is_refused():
    f = adc.compile("def f(x, n: i64):\n    return [x * i for i in range(n)]").torch()
    with pytest.raises(Exception, match=r"length|dynamic|data"):
        whole(f)(torch.tensor(2.0), torch.tensor(3))


def test_the_operator_is_mapped_and_differentiated_where_it_stands_alone():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    names = []
    a = torch.ones(3, dtype=torch.float64, requires_grad=True)
    with Seen():
        value = adc.compile("sum(a**3)")(a)
        value.backward()
    assert names.count("adcompiler.run.default") == 2  # forward and backward
    assert_same([a.grad], [3 * torch.ones(3, dtype=torch.float64)])
