"""Signals reach a program while a kernel runs: what a handler raises ends the call, and nothing is broken.

Each case runs in a process of its own, which would else not end at all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

HERE = Path(__file__)

# What runs for minutes or for ever, with arguments for which it does, and for which it does not.
CASES = {
    "while": ("t = 1.0\nwhile t < 2.0:\n    t = t * 0.5 + x\nreturn t", "x", "(0.1,)", "(1.5,)"),
    "for": ("for i in range(k):\n    x = sin(x) + 0.5\nreturn x", "x, k: i64", "(0.5, 10**14)", "(0.5, 3)"),
    "nested": (
        "for i in range(k):\n    for j in range(i):\n        x = sin(x + j)\nreturn x",
        "x, k: i64",
        "(0.5, 10**9)",
        "(0.5, 4)",
    ),
    "inner": (
        "t = 1.0\nwhile t < 2.0:\n    for j in range(k):\n        t = t * 0.5 + x\nreturn t",
        "x, k: i64",
        "(0.1, 3)",
        "(1.5, 3)",
    ),
    "arrays": (
        "while sum(x) < 100.0:\n    x = x * 0.5 + 1.0 / n\nreturn sum(x)",
        "x: f64[n]",
        "(ones(7),)",
        "(ones(200),)",
    ),
    "points": (
        "return sum(sin(x[0] * i) for i in range(k))",
        "x: f64[n], k: i64",
        "(ones(3), 10**13)",
        "(ones(3), 1000)",
    ),
    "pairs": (
        "return sum(sum(exp(-(x[i] - x[j])**2) for j in range(n)) for i in range(n))",
        "x: f64[n]",
        "(ones(2_000_000),)",
        "(ones(30),)",
    ),
    "long blocks": (
        "return sum(sum(sum(sin(x[i] * y[j] * y[k]) for k in range(m)) for j in range(m)) for i in range(n))",
        "x: f64[n], y: f64[m]",
        "(ones(3), ones(2_000_000))",
        "(ones(3), ones(20))",
    ),
    "element by element": (
        "for t in range(k):\n    x = sin(x) + 0.5\nreturn sum(x)",
        "x: f64[n], k: i64",
        "(ones(5000), 10**12)",
        "(ones(5000), 3)",
    ),
    "steps": (
        "for t in range(k):\n    x = tanh(A @ x)\nreturn sum(x)",
        "A: f64[n, n], x: f64[n], k: i64",
        "(ones((90, 90)), ones(90), 10**12)",
        "(ones((9, 9)), ones(9), 4)",
    ),
    "large steps": (
        "for t in range(k):\n    x = tanh(A @ x)\nreturn sum(x)",
        "A: f64[n, n], x: f64[n], k: i64",
        "(ones((900, 900)), ones(900), 10**12)",
        "(ones((9, 9)), ones(9), 4)",
    ),
    "scatter": (
        "r = zeros(n)\nfor t in range(k):\n    for i in range(n):\n        r[(i * i + t) % n] += x[i]\n"
        "return sum(r)",
        "x: f64[n], k: i64",
        "(ones(500), 10**12)",
        "(ones(500), 3)",
    ),
}


def interrupted(body: str, params: str, long: str, short: str, threads: int, transform: str) -> None:
    """In a process of its own: a call that is interrupted, between two that are not."""
    import numpy as np

    import adcompiler as adc

    adc.set_num_threads(threads)
    source = f"def f({params}):\n{indent(body, '    ')}"
    f = getattr(adc, transform)(adc.compile(source)) if transform else adc.compile(source)
    few, many = (eval(text, {"ones": np.ones}) for text in (short, long))
    expected = f(*few)

    class AlarmError(Exception):
        pass

    def handler(*_: object) -> None:
        raise AlarmError

    signal.signal(signal.SIGALRM, handler)
    for _ in range(2):  # the general path and the fast path
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(AlarmError):
            f(*many)
        for found in (f(*few), f(*few)):
            np.testing.assert_equal(found, expected)


def run(text: str, *arguments: str, seconds: float = 100) -> str:
    """What a process prints."""
    path = os.pathsep.join([str(HERE.parent), str(HERE.parents[2]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


QUICK = ("while", "scatter")
SHARED = ("points", "pairs", "long blocks", "steps", "scatter")  # what threads share


@pytest.mark.slow_when(lambda name, threads: threads != 1 + (name in SHARED) or name not in QUICK)
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_what_a_handler_raises_ends_a_kernel(name: str, threads: int) -> None:
    run(f"import test_interrupts as t; t.interrupted(*t.CASES[{name!r}], {threads}, '')")


@pytest.mark.thinned(2)
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
@pytest.mark.parametrize("name", ["points", "long blocks"])
def test_a_gradient_is_interrupted_too(name: str) -> None:
    run(f"import test_interrupts as t; t.interrupted(*t.CASES[{name!r}], 2, 'value_and_grad')")


# Routines on matrices that take seconds, of which a vector is made: programs, and a length.
MATRICES = {
    "solve": ("solve(a, b)", 4000),
    "det": ("slogdet(a)[1] + b", 4500),
    "triangular": ("solve_triangular(a, a + 1, lower=True)[1] + b", 3000),
}


def unfinished(text: str, n: int) -> None:
    """In a process of its own: a call that is interrupted has not written its result."""
    import numpy as np

    import adcompiler as adc

    class AlarmError(Exception):
        pass

    def handler(*_: object) -> None:
        raise AlarmError

    f = adc.compile(text, args="a, b")
    few, many = ((np.ones((k, k)) + k * np.eye(k), np.ones(k)) for k in (3, n))
    expected, out = f(*few), np.full(n, 7.0)
    f.into(np.empty(3), *few)  # so that nothing is compiled below
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(AlarmError):
        f.into(out, *many)
    assert (out == 7).any()
    np.testing.assert_array_equal(f(*few), expected)


@pytest.mark.thinned(3)
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
@pytest.mark.parametrize("name", MATRICES)
def test_routines_on_matrices_end_before_they_are_done(name: str) -> None:
    run(f"import test_interrupts as t; t.unfinished(*t.MATRICES[{name!r}])")


OTHERS = """
import threading, time, adcompiler as adc
f = adc.compile('''
def f(x):
    t = 1.0
    while t < 2.0:
        t = t * 0.5 + x
    return t
''')
f(1.5)
threading.Thread(target=f, args=(0.1,), daemon=True).start()
time.sleep(0.3)
print("still here", flush=True)
import os
os._exit(0)
"""


def test_an_endless_loop_of_scalars_lets_other_threads_run() -> None:
    assert run(OTHERS) == "still here\n"


HANDLERS = """
import signal, numpy as np, adcompiler as adc

class AlarmError(Exception):
    pass

raised = seen = 0

def handler(*_):
    global raised
    raised += 1
    raise AlarmError

f = adc.compile("x * y + 1")
x = np.ones(30_000)
f(x, x)
signal.signal(signal.SIGALRM, handler)
for _ in range(200):
    before = raised
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        while raised == before:
            f(x, x)
    except AlarmError:
        seen += 1
assert seen == raised == 200, (seen, raised)
assert (f(x, x) == 2).all()
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_no_exception_of_a_handler_is_lost_in_calls_with_large_results() -> None:
    run(HANDLERS)
