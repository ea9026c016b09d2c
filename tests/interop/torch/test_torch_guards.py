"""A graph of torch.compile is for one function: another one that comes to the same place gets its own.

Dynamo tells Python functions apart by their code, which all compiled functions share.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import adcompiler as adc

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

X = torch.linspace(0.5, 2.0, 4, dtype=torch.float64)


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()


def captured(k):
    def f(x):
        return k * x

    return adc.function(f)


def ruled(k):
    def rule(x, y, dy):
        return k * dy

    @adc.custom_vjp(rule, check=False)
    def f(x):
        return 2 * x

    return f


CUBE = adc.compile("x**3")
PAIR = adc.compile("sum(x**2 * y)")
TEXTS = [adc.compile(t) for t in ("x * 2", "x * 3", "x + 1", "sin(x)")]
FAMILIES = {
    "texts": ([f.torch() for f in TEXTS], [2 * X, 3 * X, X + 1, X.sin()]),
    "captured values": ([captured(k).torch() for k in (2.0, 5.0)], [2 * X, 5 * X]),
    "derivatives": (
        [
            f.torch()
            for f in (CUBE, adc.vmap(adc.grad(CUBE)), adc.vmap(adc.grad(adc.grad(CUBE))), adc.jacobian(CUBE))
        ],
        [X**3, 3 * X**2, 6 * X, torch.diag(3 * X**2)],
    ),
    "wrt": (
        [
            (lambda g: lambda x: g(x, 2 * x))(adc.grad(PAIR, wrt).torch()) for wrt in ("x", "y")
        ],  # one lambda, of which the captured value differs
        [4 * X**2, X**2],
    ),
    "backends": ([adc.compile("x * 2", backend=b).torch() for b in ("cpu", "numpy")], [2 * X, 2 * X]),
    "modules": (
        [adc.torch.Module(adc.compile(t), w=2.0) for t in ("w * x", "w + x", "w * x")],
        [2 * X, 2 + X, 2 * X],
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_one_step_for_several_functions(family):
    step = torch.compile(lambda f, x: f(x), backend="aot_eager", fullgraph=True)
    for _ in range(2):  # graphs that are there are found again
        for f, expected in zip(*FAMILIES[family], strict=True):
            torch.testing.assert_close(step(f, X), expected)


def test_one_lambda_in_a_loop():
    for f, expected in zip(*FAMILIES["texts"], strict=True):
        step = torch.compile(lambda x: f(x), backend="aot_eager", fullgraph=True)  # noqa: B023
        torch.testing.assert_close(step(X), expected)


def test_gradients_through_graphs_are_those_of_their_functions():
    step = torch.compile(lambda f, x: f(x).sum(), backend="aot_eager", fullgraph=True)
    functions = [*(f.torch() for f in TEXTS), *(ruled(k).torch() for k in (7.0, 9.0))]
    one = torch.ones_like(X)
    for f, expected in zip(functions, [2 * one, 3 * one, one, X.cos(), 7 * one, 9 * one], strict=True):
        x = X.clone().requires_grad_()
        step(f, x).backward()
        torch.testing.assert_close(x.grad, expected)


def test_transforms_of_pytorch_inside_of_the_graph():
    def slope(f, x):
        return torch.func.vmap(torch.func.grad(f))(x)

    step = torch.compile(slope, backend="aot_eager", fullgraph=True)
    for f, expected in zip(TEXTS, [2, 3, 1, X.cos()], strict=True):
        torch.testing.assert_close(step(f.torch(), X), expected + 0 * X)


def test_a_call_again_is_no_other_graph():
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    step = torch.compile(lambda f, x: f(x), backend=counter, fullgraph=True)
    f = adc.compile("x * 2")
    for _ in range(3):
        step(f.torch(), X)  # always the same object
    assert counter.frame_count == 1
    step(adc.compile("x * 3").torch(), X)
    assert counter.frame_count == 2


def test_exported_programs_are_of_their_functions():
    for f, expected in zip(*FAMILIES["texts"], strict=True):

        class Model(torch.nn.Module):
            def forward(self, x, f=f):
                return f(x)

        exported = torch.export.export(Model(), (X,))
        torch.testing.assert_close(exported.module()(X), expected)


# -- compiled functions themselves, which break graphs -------------------------------------------------


def test_functions_that_are_not_for_pytorch_break_the_graph():
    step = torch.compile(lambda f, x: f(x), backend="aot_eager")
    for f, expected in zip(TEXTS, [2 * X, 3 * X, X + 1, X.sin()], strict=True):
        torch.testing.assert_close(step(f, X), expected)
    f = adc.compile("sum(x * y)")
    step = torch.compile(lambda x: adc.grad(f)(x, 2 * x), backend="aot_eager")
    for n in (3, 4, 3):
        x = torch.ones(n)
        torch.testing.assert_close(step(x), (2 * x, x))


def test_a_full_graph_tells_what_to_make_outside():
    with pytest.raises(Exception, match=r"adc\.grad\(f\)\.torch\(\), made outside"):
        torch.compile(lambda x: adc.grad(PAIR)(x, x), fullgraph=True, backend="aot_eager")(X)
    fast = adc.grad(PAIR).torch()  # as it says
    found = torch.compile(lambda x: fast(x, x), fullgraph=True, backend="aot_eager")(X)
    torch.testing.assert_close(found, (2 * X**2, X**2))


QUIET = """
import torch, adcompiler as adc
f = adc.compile("sum(sin(x * y) * x) * x")
step = torch.compile(lambda x: f(x, x), backend="eager")
for n in (3, 4, 5):
    x = torch.ones(n, requires_grad=True)
    step(x).sum().backward()
"""


def test_dynamo_compiles_nothing_of_ours():
    done = subprocess.run([sys.executable, "-W", "always", "-c", QUIET], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_functions_for_pytorch_are_compared_by_identity():
    f, g = adc.compile("x * 2"), adc.compile("x * 2")
    assert f.torch() == f.torch()
    assert f.torch() != g.torch()
    assert len({f.torch(), f.torch(), g.torch()}) == 2
    assert f.torch()(np.ones(2)).tolist() == [2.0, 2.0]
