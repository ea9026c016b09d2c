"""`adc.optim`: PyTorch's numbers, on Variables and on containers of arrays; groups, state, mistakes.

PyTorch's answers stand in optim_torch.json; where PyTorch is installed they are computed again.
"""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from optim.cases import ANSWERS, CASES, STEPS, begin, by_torch, gradient

import adcompiler as adc
from adcompiler import DtypeError, Error, GraphError, ShapeError
from adcompiler.optim.update_kernels import _kernel

SGD, Adam, AdamW = adc.optim.SGD, adc.optim.Adam, adc.optim.AdamW

TABLE = json.loads(ANSWERS.read_text("utf-8"))
EVERY = [(name, dtype) for name in CASES for dtype in "df"]
TOLERANCE = {"d": 1e-12, "f": 2e-5}


def optimiser(name: str, params: Any = None) -> Any:
    kind, options = CASES[name]
    return getattr(adc.optim, kind)(params, **options)


def leaf(value, name=None):
    return adc.Variable(value, requires_grad=True, name=name)


def set_gradients(params, step):
    grads = gradient({name: p.numpy() for name, p in params.items()}, step)
    for name, p in params.items():
        p.grad = None if grads[name] is None else adc.Variable(np.asarray(grads[name], p.dtype))


def run(params, opt, steps=range(STEPS)):
    for step in steps:
        set_gradients(params, step)
        opt.step()


def near(found, answer, dtype):
    assert found.dtype == dtype
    assert_allclose(found, np.reshape(np.asarray(answer, dtype), found.shape), TOLERANCE[dtype], 1e-7)


# -- PyTorch's numbers -------------------------------------------------------------------------


@pytest.mark.thinned(4)
@pytest.mark.slow_when(lambda name, dtype: dtype == "f" and [*CASES].index(name) % 4)
@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_variables_have_pytorchs_numbers(name, dtype):
    params = {key: leaf(p) for key, p in begin(dtype).items()}
    opt = optimiser(name, params.values())
    run(params, opt)
    answer = TABLE[name][dtype]
    for key, p in params.items():
        near(p.value, answer["params"][key], dtype)
        theirs = answer["state"].get(key, {})
        assert opt.state.get(p, {}).keys() == theirs.keys()
        for part, value in opt.state.get(p, {}).items():
            near(np.asarray(value, dtype), theirs[part], dtype)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_containers_have_pytorchs_numbers(name, dtype):
    params, opt = begin(dtype), optimiser(name)
    state = opt.init(params)
    for step in range(STEPS):
        grads = {k: None if g is None else np.asarray(g, dtype) for k, g in gradient(params, step).items()}
        params, state = opt.update(grads, params, state)
    for key, p in params.items():
        near(p, TABLE[name][dtype]["params"][key], dtype)


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_the_table_is_what_pytorch_says(name, dtype):
    found, committed = by_torch(*CASES[name], dtype), TABLE[name][dtype]
    assert found["state"].keys() == committed["state"].keys()
    for key, value in found["params"].items():
        assert_allclose(value, committed["params"][key], TOLERANCE[dtype], 1e-7)


# -- on Variables ------------------------------------------------------------------------------


def test_a_fit_by_the_tape():
    w, x = leaf([0.0, 0.0]), np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]])
    residual = adc.compile("def f(w, x, y):\n    return sum((x @ w - y)**2)")
    opt = Adam([w], lr=0.1)
    for _ in range(400):
        opt.zero_grad()
        residual(w, x, x @ [2.0, -1.0]).backward()
        opt.step()
    assert_allclose(w.value, [2.0, -1.0], 1e-3)


def test_what_a_graph_has_read_is_not_changed_behind_its_back():
    w = leaf([1.0, 2.0], "w")
    before = w.value
    y = (w * w).sum()
    y.backward(retain_graph=True)
    SGD([w], lr=0.1).step()
    assert_allclose(w.value, [0.8, 1.6])
    assert_allclose(before, [1.0, 2.0])
    with pytest.raises(GraphError, match="w was given another value"):
        y.backward()


def test_gradients_of_none_are_skipped():
    used, unused = leaf(1.0), leaf(1.0)
    opt = AdamW([used, unused])
    used.sin().backward()
    opt.step()
    assert unused.value == 1.0
    assert unused not in opt.state
    assert used.value < 1.0


def test_zero_grad_begins_anew():
    w = leaf([1.0, 2.0])
    opt = SGD([w])
    w.sum().backward()
    opt.zero_grad(set_to_none=False)
    assert_array_equal(w.grad.value, [0.0, 0.0])
    opt.zero_grad()
    assert w.grad is None


def test_a_closure_is_called_with_recording_and_its_loss_returned():
    w = leaf(3.0)
    opt = SGD([w], lr=0.25)

    def closure():
        opt.zero_grad()
        loss = w * w
        loss.backward()
        return loss

    with adc.tape.recording(False):
        assert opt.step(closure).item() == 9.0
    assert w.item() == 1.5


def test_groups_have_hyperparameters_of_their_own():
    a, b, c = leaf(1.0), leaf(1.0), leaf(1.0)
    opt = SGD([{"params": [a]}, {"params": b, "lr": 0.5, "name": "second"}], lr=0.1)
    opt.add_param_group({"params": [c], "momentum": 0.9})
    for p in (a, b, c):
        p.grad = adc.Variable(1.0)
    opt.step()
    assert [p.item() for p in (a, b, c)] == [0.9, 0.5, 0.9]
    opt.param_groups[0]["lr"] = 0.2
    opt.step()
    assert_allclose([p.item() for p in (a, b, c)], [0.7, 0.0, 0.9 - 0.19])
    assert [group["lr"] for group in opt.param_groups] == [0.2, 0.5, 0.1]


def test_groups_have_pytorchs_keys():
    assert set(SGD([leaf(1.0)]).param_groups[0]) == {
        *("params", "lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"),
        *("foreach", "differentiable", "fused"),
    }
    assert set(AdamW([leaf(1.0)]).param_groups[0]) == {
        *("params", "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach", "capturable"),
        *("differentiable", "fused", "decoupled_weight_decay"),
    }


def test_hyperparameters_may_change_what_state_there_is():
    """amsgrad and momentum are turned on after the first step."""
    w = leaf([1.0, 2.0])
    for opt, change in ((Adam([w]), {"amsgrad": True}), (SGD([w]), {"momentum": 0.5})):
        for _ in range(2):
            w.grad = adc.Variable([1.0, 1.0])
            opt.step()
            opt.param_groups[0].update(change)
    assert "max_exp_avg_sq" not in opt.state[w]
    assert_array_equal(opt.state[w]["momentum_buffer"], [1.0, 1.0])


@pytest.mark.parametrize("name", ["sgd, all", "adam, amsgrad", "adamw, all"])
def test_an_optimiser_goes_on_from_a_state_dict(name):
    params = {key: leaf(p) for key, p in begin("d").items()}
    opt = optimiser(name, params.values())
    run(params, opt, range(3))
    saved, others = pickle.loads(pickle.dumps(opt.state_dict())), copy.deepcopy(params)
    run(params, opt, range(3, STEPS))
    again = getattr(adc.optim, CASES[name][0])(others.values())
    again.load_state_dict(saved)
    run(others, again, range(3, STEPS))
    for key in params:
        assert_array_equal(others[key].value, params[key].value)


def test_a_state_dict_is_no_longer_changed():
    w = leaf([1.0])
    opt = Adam([w])
    w.grad = adc.Variable([1.0])
    opt.step()
    saved = opt.state_dict()
    opt.step()
    assert saved["state"][0]["step"] == 1
    assert saved["state"][0]["exp_avg"] == pytest.approx(0.1)
    assert saved["param_groups"][0]["params"] == [0]


@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_state_dict_of_pytorch_is_loaded():
    import torch

    theirs = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    opt = torch.optim.Adam([theirs], lr=0.1)
    theirs.grad = torch.ones(2, dtype=torch.float64)
    opt.step()
    ours = leaf(theirs.detach().numpy())
    again = Adam([ours])
    again.load_state_dict(opt.state_dict())
    ours.grad = adc.Variable([2.0, -1.0])
    theirs.grad = torch.tensor([2.0, -1.0], dtype=torch.float64)
    opt.step()
    again.step()
    assert_allclose(ours.value, theirs.detach().numpy(), 1e-14)


def test_state_that_does_not_fit_is_refused():
    opt = Adam([leaf([1.0, 2.0])])
    opt.param_groups[0]["params"][0].grad = adc.Variable([1.0, 1.0])
    opt.step()
    saved = opt.state_dict()
    with pytest.raises(ShapeError, match=r"groups of \[1\] parameters"):
        Adam([leaf(1.0), leaf(2.0)]).load_state_dict(saved)
    with pytest.raises(ShapeError, match=r"'exp_avg' of w has shape \(2,\)"):
        Adam([leaf([1.0], "w")]).load_state_dict(saved)


def test_an_optimiser_is_pickled_with_its_variables():
    w = leaf([1.0, 2.0])
    opt = Adam([w], lr=0.1)
    w.grad = adc.Variable([1.0, -1.0])
    opt.step()
    again = pickle.loads(pickle.dumps(opt))
    (other,) = again.param_groups[0]["params"]
    for p, o in ((w, opt), (other, again)):
        p.grad = adc.Variable([0.5, 2.0])
        o.step()
    assert_array_equal(other.value, w.value)


def test_it_prints_as_pytorchs():
    text = repr(SGD([leaf(1.0)], lr=0.5))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "    lr: 0.5\n" in text


# -- on containers -----------------------------------------------------------------------------


@dataclass
class Layer:
    w: Any
    b: Any
    width: int = 2
    kind: str = "tanh"


class Pair(NamedTuple):
    x: Any
    y: Any


def test_containers_keep_their_classes_shapes_and_dtypes():
    params = {
        "layers": [Layer(np.ones((2, 2), "f"), 0.5), Layer(np.ones(2), np.float32(1.5))],
        "pair": Pair((1, None), [1.0, 2.0]),
        "number": np.array(3),
    }
    grads = {
        "layers": [Layer(np.ones((2, 2), "f"), 1.0, None, None), None],
        "pair": Pair((2.0, None), [1.0, 0.0]),
        "number": None,
    }
    opt = SGD(params, lr=0.5, momentum=0.9)
    state = opt.init(params)
    new, state = opt.update(grads, params, state)
    first, second = new["layers"]
    assert_array_equal(first.w, np.full((2, 2), 0.5, "f"), strict=True)
    assert (first.b, first.width, first.kind) == (0.0, 2, "tanh")
    assert second == params["layers"][1]
    assert new["pair"] == Pair((0.0, None), [0.5, 2.0])
    assert new["number"] is params["number"]
    assert state["momentum_buffer"]["pair"] == Pair((2.0, None), [1.0, 0.0])
    assert_array_equal(params["layers"][0].w, np.ones((2, 2)))


def test_a_fit_by_compiled_gradients():
    f = adc.compile("def loss(p, x, y):\n    return sum((x @ p['w'] + p['b'] - y)**2)")
    x = np.random.default_rng(1).normal(size=(20, 2))
    params, opt = {"w": np.zeros(2), "b": 0.0}, Adam(lr=0.1)
    state, gradient = opt.init(params), adc.grad(f, "p")
    for _ in range(400):
        params, state = opt.update(gradient(params, x, x @ [2.0, -1.0] + 0.5), params, state)
    assert_allclose(params["w"], [2.0, -1.0], 1e-3)
    assert params["b"] == pytest.approx(0.5, 1e-3)
    assert type(params["b"]) is float


def test_a_step_may_have_hyperparameters_of_its_own():
    opt = SGD(lr=0.1)
    assert opt.update(1.0, 2.0, {}, lr=0.5) == (1.5, {})
    assert opt.update(1.0, 2.0, {}) == (1.9, {})


def test_arrays_in_any_layout():
    p = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    new, _ = SGD(lr=1.0).update(np.arange(12.0)[::2].reshape(2, 3), p, {})
    assert_array_equal(new, p - 2 * np.arange(6.0).reshape(2, 3))
    new, _ = SGD(lr=1.0).update(p.T, p.T, {})
    assert_array_equal(new, np.zeros((3, 2)))


def test_without_decay_infinite_parameters_stay():
    """0 * inf is NaN: what is not asked for is not computed."""
    for opt in (SGD(), Adam(), AdamW(weight_decay=0)):
        p = np.array([np.inf, 1.0])
        assert opt.update(np.ones(2), p, opt.init(p))[0][0] == np.inf


@pytest.mark.parametrize("opt", [SGD(momentum=0.9), Adam(), AdamW(amsgrad=True)])
def test_nan_gradients_are_seen(opt):
    p = np.ones(2)
    new, _ = opt.update(np.array([np.nan, 1.0]), p, opt.init(p))
    assert np.isnan(new[0])
    assert np.isfinite(new[1])


def test_a_schedule_compiles_nothing_anew():
    """Hyperparameters are inputs of the kernel: only options, and what is 0, say which one it is."""
    p, opt = np.ones(3), AdamW()
    state = opt.init(p)
    p, state = opt.update(p, p, state)
    before = _kernel.cache_info().misses
    for k in range(5):
        p, state = opt.update(p, p, state, lr=0.1 / (k + 1), eps=0.1 * k, weight_decay=0.1 + k)
    assert _kernel.cache_info().misses == before


# -- mistakes ----------------------------------------------------------------------------------

OUTSIDE = [
    (SGD, {"lr": -0.1}, "lr >= 0"),
    (SGD, {"lr": float("nan")}, "lr >= 0"),
    (SGD, {"momentum": -1}, "momentum >= 0"),
    (SGD, {"weight_decay": -1}, "weight_decay >= 0"),
    (SGD, {"nesterov": True}, "momentum > 0 and dampening = 0"),
    (SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "momentum > 0 and dampening = 0"),
    (SGD, {"differentiable": True}, "write it with Variables"),
    (Adam, {"lr": -0.1}, "lr >= 0"),
    (Adam, {"eps": -1e-8}, "eps >= 0"),
    (Adam, {"betas": (1.0, 0.9)}, r"0 <= betas\[0\] < 1"),
    (Adam, {"betas": (0.9, -0.1)}, r"0 <= betas\[1\] < 1"),
    (Adam, {"betas": 0.9}, r"betas=\(0.9, 0.999\)"),
    (AdamW, {"weight_decay": -1e-2}, "weight_decay >= 0"),
    (AdamW, {"capturable": True}, "no CUDA graph"),
]


@pytest.mark.parametrize(("kind", "options", "message"), OUTSIDE)
def test_hyperparameters_out_of_range(kind, options, message):
    """They are refused where they are given: for all, for a group, for a step, and where they are changed."""
    for given in (None, [leaf(1.0)]):
        with pytest.raises(Error, match=message):
            kind(given, **options)
    with pytest.raises(ValueError, match=message):
        kind([{"params": [leaf(1.0)], **options}])
    with pytest.raises(Error, match=message):
        kind().update(1.0, 1.0, kind().init(1.0), **options)
    opt = kind([leaf(1.0)])
    opt.param_groups[0].update(options)
    with pytest.raises(Error, match=message):
        opt.step()


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (lambda: SGD([leaf(1.0)], lr="0.1"), DtypeError, "lr is a str"),
        (lambda: SGD([leaf(1.0)], lr=True), DtypeError, "lr is a bool"),
        (lambda: SGD(0.1), DtypeError, r"SGD\(lr=0.1\)"),
        (lambda: SGD(leaf(1.0, "w")), DtypeError, r"SGD\(\[w\], ...\)"),
        (lambda: SGD([]), ValueError, "adc.parameters"),
        (lambda: SGD([leaf(1.0), np.ones(2)]), DtypeError, "a ndarray among its Variables"),
        (lambda: SGD([leaf(1.0), "w"]), DtypeError, "a str among its Variables"),
        (lambda: SGD([{"w": leaf(1.0)}]), DtypeError, r"params\[0\]\['w'\] is a Variable"),
        (lambda: SGD({"w": leaf(1.0)}), DtypeError, "pass a list of Variables"),
        (lambda: SGD([(leaf(1.0), leaf(2.0))]), DtypeError, r"adc.parameters\(model\)"),
        (lambda: SGD(object()), DtypeError, r"adc.parameters\(model\)"),
        (lambda: SGD([leaf(1.0)]).load_state_dict({0: 1}), DtypeError, "not a state_dict"),
        (lambda: SGD([leaf(1.0, "w").sin()]), GraphError, "was computed"),
        (lambda: SGD([w := leaf(1.0, "w"), w]), GraphError, "w is given twice"),
        (lambda: SGD([{"params": [w := leaf(1.0)]}, {"params": [w]}]), GraphError, "given twice"),
        (lambda: SGD([leaf(1.0)]).add_param_group([leaf(1.0)]), DtypeError, "a dict with 'params'"),
        (lambda: SGD([{"params": {leaf(1.0)}}]), DtypeError, "no order"),
        (lambda: SGD().step(), GraphError, "no Variables"),
        (lambda: SGD({"w": 1j}), DtypeError, r"params\['w'\] is a complex"),
        (lambda: SGD().init({"w": object()}), DtypeError, r"params\['w'\]"),
        (lambda: SGD().init({"w": leaf(1.0)}), DtypeError, r"params\['w'\].value"),
        (lambda: SGD().update([1.0], [1.0, 2.0], {}), ShapeError, "grads"),
        (lambda: SGD().update({"b": 1.0}, {"w": 1.0}, {}), ShapeError, "grads is a dict with the keys 'b'"),
        (lambda: SGD().update({"w": [1.0]}, {"w": 1.0}, {}), ShapeError, r"grads\['w'\] has shape \(1,\)"),
        (lambda: SGD().update({"w": True}, {"w": 1.0}, {}), DtypeError, r"grads\['w'\]"),
        (lambda: SGD().update({"w": 1.0}, {"w": "a"}, {}), DtypeError, "has no floats"),
        (lambda: SGD().update(1.0, 1.0, {}, rate=1), ValueError, "has no 'rate'"),
        (lambda: Adam().update(1.0, {}, 1.0), ShapeError, "opt.init"),
        (lambda: Adam().update(1.0, 1.0, SGD(momentum=0.9).init(1.0)), ShapeError, "'exp_avg_sq'"),
        (
            lambda: Adam().update({"w": 1.0}, {"w": 1.0}, Adam().init({"v": 1.0})),
            ShapeError,
            r"state\['step'\]",
        ),
    ],
)
def test_mistakes(wrong, kind, message):
    with pytest.raises(kind, match=message) as caught:
        wrong()
    assert isinstance(caught.value, Error)
    assert caught.value.remedy
