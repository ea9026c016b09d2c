"""A length that is a constant has the kernel that it has as a symbol: only short loops are written out."""

import re
from collections import Counter

import numpy as np
import pytest

import adcompiler as adc

LENGTHS = {"n": 200, "m": 40, "p": 10, "k": 12}

PROGRAMS = {
    "rows and an extremum": """
        def f(X: f64[n, p], b: f64[p], y: f64[n]):
            eta = X @ b
            return sum(exp(eta - max(eta)) * y)
    """,
    "layers and a softmax": """
        def f(X: f64[n, m], W: f64[m, k], V: f64[k, p]):
            return sum(log_softmax(maximum(X @ W, 0.0) @ V, axis=1)**2)
    """,
    "gathered rows": """
        def f(U: f64[m, k], V: f64[p, k], row: i64[n], col: i64[n]):
            return sum(sum(U[row[e], i] * V[col[e], i] for i in range(k))**2 for e in range(n))
    """,
    "pairs": """
        def f(x: f64[n], y: f64[n], w: f64[n]):
            total = 0.0
            for i in range(n):
                force = 0.0
                for j in range(n):
                    if i != j:
                        force += w[j] * (x[i] - x[j]) / (0.1 + (x[i] - x[j])**2 + (y[i] - y[j])**2)**1.5
                total += force**2
            return total
    """,
    "rows of neighbours": """
        def f(x: f64[p, k]):
            return sum((x[i, j] - x[i, j - 1])**2 for i in range(p) for j in range(1, k))
    """,
    "digits of places": """
        def f(x: f64[n, k], y: f64[n, p], W: f64[k * p, m]):
            z = [[x[s, i // p] * y[s, i % p] for i in range(k * p)] for s in range(n)]
            return sum((z @ W)**2)
    """,
}


def written(source: str, lengths: dict[str, int], derivative: bool) -> Counter[str]:
    """The ranges of the loops of a kernel, and its roundings and calls of functions, with how often each
    occurs; sizes are numbers."""
    program = adc.compile(source)
    by = re.findall(r"(\w+): f64", source)
    kernel = (adc.grad(program, tuple(by)) if derivative else program).show("kernel")
    body = kernel[kernel.index("\njit = ") :]
    for name, length in lengths.items():
        body = re.sub(rf"\b{name}\b", str(length), body)
    found = re.findall(r"in range\((.*)\):|(math\.\w+|mul_rn|library_\w+)", body)
    return Counter(evaluated(bounds) if bounds else call for bounds, call in found)


def evaluated(bounds: str) -> str:
    """The bounds of a loop, as numbers unless they depend on a block or on another loop."""
    names = {"min": min, "max": max, "uint64": int}
    return bounds if set(re.findall(r"[a-z_]\w*", bounds)) - {*names} else str(eval(f"({bounds},)", names))


@pytest.mark.parametrize("derivative", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_kernel_of_constant_lengths_has_the_loops_of_symbolic_lengths(name, derivative):
    source = PROGRAMS[name]
    fixed = source
    for size, length in LENGTHS.items():
        fixed = re.sub(rf"\b{size}\b", str(length), fixed)
    symbolic, constant = (written(text, LENGTHS, derivative) for text in (source, fixed))
    assert constant == symbolic


COLOURS = """
def f(x: f64[3, h, w], k: f64[o, 3, 3, 3], y: f64[o, h - 2, w - 2]):
    total = 0.0
    for a in range(o):
        for i in range(h - 2):
            for j in range(w - 2):
                s = 0.0
                for c in range(3):
                    s += sum(x[c, i + u, j + v] * k[a, c, u, v] for u in range(3) for v in range(3))
                total += (maximum(s, 0.0) - y[a, i, j])**2
    return total
"""


def test_a_short_axis_that_would_repeat_a_sum_of_many_terms_is_innermost():
    f = adc.compile(COLOURS)
    lines = adc.grad(f, ("x", "k")).show("kernel").splitlines()
    colours = [
        n for n, line in enumerate(lines) if re.search(r"for i\d+ in range\(uint64\(0\), uint64\(3\)\)", line)
    ]
    assert colours
    for n in colours:
        depth = re.match(" *", lines[n]).end()
        inside = lines[
            n + 1 : next(k for k in range(n + 1, len(lines)) if re.match(" *", lines[k]).end() <= depth)
        ]
        assert not any("w" in line and "for " in line for line in inside)
    rng = np.random.default_rng(0)
    for o, h, w in (2, 9, 11), (1, 3, 3), (9, 8, 12):
        args = rng.normal(size=(3, h, w)), rng.normal(size=(o, 3, 3, 3)), rng.normal(size=(o, h - 2, w - 2))
        slow = adc.grad(adc.compile(COLOURS, backend="numpy"))(*args)
        for one, other in zip(adc.grad(f)(*args), slow, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
