"""The tool for GradBench answers its protocol, with the results of plain NumPy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import gradbench_reference as reference
import numpy as np
import pytest
from judges import growth

import adcompiler as adc

TOOL = Path(__file__).parents[2] / "examples" / "gradbench" / "tool.py"


class Conversation:
    """A running tool: messages in, responses out."""

    def __init__(self) -> None:
        self.count = 0
        paths = (str(Path(adc.__file__).parents[1]), os.environ.get("PYTHONPATH", ""))
        self.process = subprocess.Popen(
            [sys.executable, str(TOOL)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )  # fmt: skip

    def say(self, line: str) -> Any:
        """The response to a line of any text."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def ask(self, kind: str, **rest: Any) -> Any:
        """The response to a message, which must bear its id."""
        self.count += 1
        response = self.say(json.dumps({"id": self.count, "kind": kind, **rest}))
        assert response.pop("id") == self.count
        return response


@pytest.fixture(scope="module")
def tool():
    conversation = Conversation()
    yield conversation
    out, _ = conversation.process.communicate(timeout=60)
    assert (conversation.process.returncode, out) == (0, "")


def same(found: Any, true: Any, where: str = "") -> None:
    """Compare an output with what it should be, as deep as both go, to 1e-8."""
    if isinstance(true, dict):
        assert found.keys() == true.keys()
        for name in true:
            same(found[name], true[name], f"{where}.{name}")
        return
    found, true = np.array(found, float), np.array(true, float)
    assert found.shape == true.shape, where
    assert np.abs(found - true).max() <= 1e-8 * max(1.0, np.abs(true).max()), where


MODES = ("ff", "fr", "rf", "rr")
RNG = np.random.default_rng(20240)
QUICK = ("lse", "kmeans", "ode", "det", "particle")  # modules that compile in a second or two
MIRRORED = [reference.ht_input(RNG, 20, 7, False, True)]
CASES = [
    ("lse", ("primal", "gradient"), [reference.lse_input(RNG, n) for n in (1, 50)]),
    ("llsq", ("primal", "gradient"), [reference.llsq_input(RNG, 9, 4), reference.llsq_input(RNG, 40, 12)]),
    (
        "kmeans",
        ("cost", "dir"),
        [reference.kmeans_input(RNG, 30, 4, 3), reference.kmeans_input(RNG, 9, 1, 1)],
    ),
    (
        "gmm",
        ("objective", "jacobian"),
        [reference.gmm_input(RNG, 3, 4, 6), reference.gmm_input(RNG, 2, 5, 4, 3, 0.5)],
    ),
    ("ode", ("primal", "gradient"), [reference.ode_input(RNG, 6, 3), reference.ode_input(RNG, 12, 30)]),
    (
        "lstm",
        ("objective", "jacobian"),
        [reference.lstm_input(RNG, 2, 6, 3), reference.lstm_input(RNG, 6, 4, 2)],
    ),
    ("det", ("primal", "gradient"), [reference.det_input(RNG, 4)]),
    ("ba", ("objective", "jacobian"), [reference.ba_input(RNG, 3, 4, 11), reference.ba_input(RNG, 2, 5, 40)]),
    ("ht", ("objective", "jacobian"), [reference.ht_input(RNG, 20, 7, True, False)]),
    ("ht", ("objective", "jacobian"), MIRRORED),
    ("particle", MODES, [{"w": 0.0}, {"w": 0.3}]),
    ("saddle", MODES, [{"start": [1.0, 1.0]}, {"start": [0.4, -0.3]}]),
]


@pytest.mark.thinned(3)
@pytest.mark.slow_when(lambda inputs, module: inputs is MIRRORED or module not in QUICK)
@pytest.mark.parametrize(("module", "functions", "inputs"), CASES, ids=[case[0] for case in CASES])
def test_an_eval_gives_what_numpy_gives(tool, module, functions, inputs):
    assert tool.ask("define", module=module)["success"]
    for function in functions:
        for given in inputs:
            runs = {"min_runs": 2, "min_seconds": 0}
            response = tool.ask("evaluate", module=module, function=function, input=given | runs)
            assert response["success"], response
            same(response["output"], getattr(reference, module)(function, given))
            assert [t["name"] for t in response["timings"]] == ["prepare", "evaluate", "evaluate"]
            assert all(t["nanoseconds"] > 0 for t in response["timings"])


@pytest.mark.parametrize(("function", "output"), [("square", 12.25), ("double", 7)])
def test_hello_takes_a_bare_number_and_runs_once(tool, function, output):
    response = tool.ask("evaluate", module="hello", function=function, input=3.5)
    assert (response["success"], response["output"]) == (True, output)
    assert [t["name"] for t in response["timings"]] == ["prepare", "evaluate"]


def test_a_camera_that_is_not_turned_has_derivatives(tool):
    given = reference.ba_input(RNG, 1, 1, 11)
    given["cam"][:3] = [0.0, 0.0, 0.0]
    found = tool.ask("evaluate", module="ba", function="objective", input=given)["output"]
    same(found, reference.ba("objective", given))
    vals = tool.ask("evaluate", module="ba", function="jacobian", input=given)["output"]["vals"]
    one = [np.array(given[name], float) for name in ("cam", "x", "w", "feat")]
    for k in range(3):  # central differences: the reference has no complex step here
        h = np.zeros(11)
        h[k] = 1e-5
        ahead, behind = (reference.reprojection(one[0] + s * h, *one[1:]) for s in (1, -1))
        assert np.allclose([vals[k], vals[15 + k]], (ahead - behind) / 2e-5, rtol=1e-7, atol=1e-7)


def test_it_runs_for_as_long_as_it_is_asked_to(tool):
    given = reference.lse_input(RNG, 10) | {"min_runs": 1, "min_seconds": 0.05}
    timings = tool.ask("evaluate", module="lse", function="primal", input=given)["timings"]
    spent = sum(t["nanoseconds"] for t in timings if t["name"] == "evaluate")
    assert spent >= 0.05e9
    assert spent - timings[-1]["nanoseconds"] < 0.05e9


def test_other_messages_are_acknowledged(tool):
    assert tool.ask("start", eval="lse") == {"tool": "adcompiler"}
    assert tool.ask("analysis", of=1, valid=True) == {}
    assert tool.ask("something new") == {}


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"kind": "define", "module": "nothing"}, "unknown module 'nothing'"),
        ({"kind": "define", "module": ["lse"]}, "unknown module ['lse']"),
        ({"kind": "evaluate", "module": "nothing", "function": "f", "input": {}}, "unknown module"),
        ({"kind": "evaluate", "module": "lse", "function": "f", "input": {}}, "unknown function 'f' of lse"),
        ({"kind": "evaluate", "module": "lse", "function": "primal", "input": {}}, "KeyError: 'x'"),
        ({"kind": "evaluate", "module": "lse", "function": "primal", "input": {"x": ["a"]}}, "ValueError"),
        ({"kind": "evaluate", "module": "hello", "function": "square", "input": 1e200}, "not JSON compliant"),
    ],
)
def test_what_cannot_be_answered_says_why(tool, message, says):
    response = tool.ask(**message)
    assert not response["success"]
    assert says in response["error"]


@pytest.mark.parametrize(("line", "says"), [("{", "JSONDecodeError"), ("[]", "an id"), ("{}", "an id")])
def test_a_line_that_is_no_message_is_answered_and_the_next_one_is_read(tool, line, says):
    response = tool.say(line)
    assert (response["id"], response["success"]) == (None, False)
    assert says in response["error"]
    assert tool.ask("start") == {"tool": "adcompiler"}


# Inputs of the sizes that GradBench sends, and the most functions that may run until the first result: for
# `det`, for each row of the matrix.
REAL = [
    *(("det", ("primal", "gradient"), n * 1_300_000, reference.det_input(RNG, n)) for n in range(5, 12)),
    ("lse", ("primal", "gradient"), 1_000_000, reference.lse_input(RNG, 2500)),
    ("llsq", ("primal", "gradient"), 1_000_000, reference.llsq_input(RNG, 16, 128)),
    ("kmeans", ("cost", "dir"), 1_000_000, reference.kmeans_input(RNG, 1000, 100, 8)),
    ("ode", ("primal", "gradient"), 1_500_000, reference.ode_input(RNG, 1000, 100)),
    ("gmm", ("objective", "jacobian"), 3_000_000, reference.gmm_input(RNG, 2, 5, 1000)),
    ("gmm", ("objective", "jacobian"), 3_000_000, reference.gmm_input(RNG, 64, 100, 1000)),
    ("lstm", ("objective", "jacobian"), 4_000_000, reference.lstm_input(RNG, 2, 1024, 14)),
    ("ba", ("objective", "jacobian"), 4_000_000, reference.ba_input(RNG, 49, 7776, 31843)),
    ("ht", ("objective", "jacobian"), 9_000_000, reference.ht_input(RNG, 544, 100, True, False)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "functions", "most", "given"), REAL, ids=[case[0] for case in REAL])
def test_the_first_result_of_a_real_size_takes_a_bounded_number_of_steps(
    module, functions, most, given, monkeypatch, tmp_path
):
    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path))
    monkeypatch.syspath_prepend(TOOL.parent)
    for function in functions:
        case = import_module(f"evals.{module}").FUNCTIONS[function]
        args = case.prepare(given)
        found = growth.calls(lambda case=case, args=args: case.run(*args))
        assert found.total() <= most, f"{function}: {found.total()}\n{growth.frequent(found)}"
