"""An error shows the user's own lines and the message; of ours one frame, which says how to see the rest."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback

import numpy as np
import pytest

import adcompiler as adc

BROKEN = "def f(x):\n    return x +\n"
X = np.ones(3)


def scalar(text="sum(x * x)"):
    return adc.compile(text)


def leaf():
    return adc.Variable(X, requires_grad=True, name="w")


CALLS = {
    "compile": lambda: adc.compile(BROKEN),
    "load": lambda: adc.load("/nowhere/at/all.adc"),
    "function": lambda: adc.function(len),
    "call": lambda: adc.compile("x @ y")(np.ones(3), np.ones(4)),
    "call with names": lambda: adc.compile("x @ y")(x=np.ones(3), y=np.ones(4)),
    "call of a type": lambda: adc.compile("x + 1")("text"),
    "index": lambda: adc.compile("def f(x: f64[n], i: i64):\n    return x[i]")(X, 5),
    "grad": lambda: adc.grad(1),
    "call of a gradient": lambda: adc.grad(adc.compile("x * 2"))(X),
    "wrt": lambda: adc.grad(scalar(), "z")(X),
    "hessian": lambda: adc.hessian(adc.compile("x * 2"))(X),
    "hvp": lambda: adc.hvp(scalar())(X, X),
    "jvp": lambda: adc.jvp(scalar(), (X,), (np.ones(4),)),
    "vjp": lambda: adc.vjp(scalar("x * 2"), X)[1](np.ones(4)),
    "vmap": lambda: adc.vmap(scalar())(1.0),
    "taylor": lambda: adc.taylor(scalar(), X, np.ones(4), 2),
    "check_grad": lambda: adc.check_grad(scalar(), "text"),
    "split": lambda: scalar().split(save=["nothing"]).forward(X),
    "propagate": lambda: scalar().split().propagate(None, (1.0,)),
    "into": lambda: scalar().into(np.ones(4), X),
    "show": lambda: scalar().show("nothing"),
    "decorator": lambda: adc.function(static="n")(len),
    "threads": lambda: adc.set_num_threads(0),
    "recycle": lambda: adc.recycle("much"),
    "pair": lambda: adc.DiffPair(1.0, None, "mean"),
    "sparse": lambda: adc.hessian(scalar(), "z", sparse=True)(X),
    "record": lambda: adc.tape.record(1, 2, 3),
    "Variable": lambda: adc.Variable("text"),
    "Variable of integers": lambda: adc.Variable(np.arange(3), requires_grad=True, name="k"),
    "flag": lambda: leaf().requires_grad_(3),
    "hook": lambda: leaf().register_hook(3),
    "value": lambda: setattr(leaf(), "value", np.ones(5)),
    "gradient": lambda: setattr(leaf(), "grad", 3.0),
    "pickle": lambda: pickle.dumps(leaf().sum(name="s")),
    "length": lambda: len(leaf().sum(name="s")),
    "number": lambda: float(leaf()),
    "truth": lambda: bool(leaf()),
    "operator": lambda: leaf() * np.ones(4),
    "bits": lambda: leaf() & 1,
    "negative bits": lambda: ~leaf(),
    "reflected": lambda: np.ones(4).tolist() + leaf(),
    "comparison": lambda: leaf() < "text",
    "in place": lambda: leaf().__iadd__(1.0),
    "product": lambda: leaf() @ np.ones(4),
    "item": lambda: leaf()[5],
    "assignment": lambda: leaf().__setitem__(0, 1.0),
    "method": lambda: leaf().exp(1, 2),
    "method in place": lambda: leaf().exp_(),
    "method of an axis": lambda: leaf().max(axis=4),
    "sum": lambda: leaf().sum(axis=4),
    "shape": lambda: leaf().reshape(7),
    "transpose": lambda: leaf().transpose(3),
    "ufunc": lambda: np.add(leaf(), np.ones(4)),
    "numpy": lambda: np.concatenate([leaf(), np.ones((2, 2))]),
    "move": lambda: np.take(leaf(), [7]),
    "unknown to us": lambda: np.fft.fft(leaf()),
    "negative": lambda: adc.compile("def f(x: f64[n], k: i64):\n    return x[k:]")(X, -1),
}


def frames(error):
    """Whose frames an error has, outermost first."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return ["ours" if os.sep + "adcompiler" + os.sep in f else "theirs" for f in files]


@pytest.mark.parametrize("name", CALLS)
def test_the_users_frames_and_one_of_ours(name, monkeypatch):
    monkeypatch.delenv("ADC_TRACEBACK", raising=False)
    with pytest.raises(adc.Error) as caught:
        CALLS[name]()
    found = frames(caught.value)
    assert found == ["theirs"] * (len(found) - 1) + ["ours"]
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    monkeypatch.setenv("ADC_TRACEBACK", "full")
    with pytest.raises(adc.Error) as whole:
        CALLS[name]()
    assert len(frames(whole.value)) >= len(found)
    assert str(whole.value) == str(caught.value)


def test_a_script_shows_its_own_line_last(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import adcompiler as adc\nimport numpy as np\n\nf = adc.compile('x @ y')\n\n\ndef mine():\n"
        "    return f(np.ones(3), np.ones(4))\n\n\nmine()\n"
    )
    env = {k: v for k, v in os.environ.items() if k != "ADC_TRACEBACK"}

    def shown(**more: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=False, env=env | more
        )
        return done.stderr.splitlines()

    last = shown()
    files = [line for line in last if line.lstrip().startswith("File ")]
    assert [str(script) in line for line in files] == [True, True, False]
    assert "    raise shown(error) from error.__cause__  # ADC_TRACEBACK=full shows all frames" in last
    assert len([line for line in shown(ADC_TRACEBACK="full") if "File " in line]) > 5


def test_frames_of_a_users_function_that_we_call_stay():
    class Mine:
        """An argument that computes calls with it by itself."""

        def __adc_call__(self, f, args):
            return adc.compile(BROKEN)

    with pytest.raises(adc.Error) as caught:
        scalar()(Mine())
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert "__adc_call__" in names


def test_other_errors_keep_all_their_frames():
    with pytest.raises(TypeError) as caught:
        adc.compile()
    assert len(frames(caught.value)) == 2


def test_an_error_holds_no_arguments_in_a_cycle():
    import gc
    import weakref

    class Kept(np.ndarray):
        """An array that can be watched."""

    f, x = adc.compile("x @ y"), np.ones(3).view(Kept)
    watch = weakref.ref(x)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(adc.ShapeError):
            f(x, np.ones(4))
        del x
        assert watch() is None
    finally:
        gc.enable()


def test_signatures_and_pickles_are_those_of_the_functions():
    assert pickle.loads(pickle.dumps(adc.compile)) is adc.compile
    assert adc.load.__doc__.startswith("The definitions of an .adc file")
