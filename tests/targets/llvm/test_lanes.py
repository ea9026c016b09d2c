"""Iterations of a nest as lanes of vectors: where that is done, and that values and derivatives stay the
same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from judges.threads import same_bits

import adcompiler as adc
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.loopir.dependence import updated
from adcompiler.loopir.limits import MOST_LANES
from adcompiler.loopir.nodes import Binary, Call, Store, Var
from adcompiler.loopir.parse import functions
from adcompiler.loopir.transformed_loops import Lane, LaneByLane, Lanes, LaneUpdate
from adcompiler.loopir.transforms.pipeline import transformed
from adcompiler.loopir.walk import accesses, statements
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.llvm import functions as llvm_functions

NEAREST = """
def f(x: f64[n, d], w: f64[k, d]):
    return sum(min(sum((x[i, a] - w[j, a])**2 for a in range(d)) for j in range(k)) for i in range(n))
"""
LAYERS = """
def f(x: f64[n, d], w: f64[d, k], u: f64[k, k]):
    h = [[tanh(sum(x[i, a] * w[a, l] for a in range(d))) for l in range(k)] for i in range(n)]
    return sum(sum(tanh(sum(h[i, l] * u[l, m] for l in range(k))) for m in range(k))**2 for i in range(n))
"""
SINGLE = """
def f(x: f32[n, d], w: f32[d, k], v: f32[k]):
    y = [[sum(x[i, a] * w[a, l] for a in range(d)) for l in range(k)] for i in range(n)]
    return sum(sum(exp(-abs(y[i, l])) * v[l] for l in range(k)) for i in range(n))
"""
MIXED = """
def f(x: f32[n, d], w: f64[d, k], q: i64[n], on: bool[n]):
    y = [[sum(x[i, a] * w[a, l] * q[i] for a in range(d)) for l in range(k)] for i in range(n)]
    return sum(sum(where(on[i], tanh(y[i, l]), 0.5) for l in range(k))**2 for i in range(n))
"""
CLASSES = """
def f(x: f64[n, d], w: f64[d, k], q: i64[n]):
    y = [[sum(x[i, a] * w[a, l] for a in range(d)) for l in range(k)] for i in range(n)]
    return sum(logsumexp(y[i, l] for l in range(k)) - y[i, q[i]] for i in range(n))
"""
HIGHEST = """
def f(x: f64[n, d], w: f64[d, k]):
    return max(max(sum(x[i, a] * w[a, l] * (a > l) for a in range(d)) for l in range(k)) for i in range(n))
"""
RANGE = """
def f(x: f64[n, d], w: f64[d, k], q: i64[n]):
    y = [sum(tanh(sum(x[i, a] * w[a, l] for a in range(d))) for l in range(k)) for i in range(n)]
    return sum(y) + min(q[i] for i in range(n)) / 4 + max(q[i] * 3 for i in range(n))
"""
GAMMA = """
def f(x: f64[n, d], w: f64[d, k]):
    y = [[sum(x[i, a] * w[a, l] for a in range(d)) for l in range(k)] for i in range(n)]
    return sum(sum(gamma(1.5 + y[i, l]**2) for l in range(k)) for i in range(n))
"""
LABELS = """
def f(x: f64[n, d], w: f64[d, k], q: i64[n]):
    y = log_softmax([[x[i, a] + w[a, 0] for a in range(d)] for i in range(n)], axis=1)
    return sum(y[i, q[i] % d] for i in range(n))
"""
UNITS = """
def f(x: f64[n, d], w: f64[d, k], v: f64[k]):
    return [[tanh(sum(x[i, a] * w[a, l] for a in range(d))) * v[l] for l in range(k)] for i in range(n)]
"""
D, K = 6, 9


def arguments(source, n, seed=0):
    random = np.random.default_rng(seed)
    made = {
        "x": random.normal(size=(n, D)), "w": random.normal(size=(D, K)), "u": random.normal(size=(K, K)),
        "v": random.normal(size=K), "q": random.integers(0, K, n), "on": random.random(n) > 0.5,
    }  # fmt: skip
    if source is NEAREST:
        made["w"] = made["w"].T.copy()
    single = {"x", "w", "v"} if source is SINGLE else {"x"} if source is MIXED else set()
    names = [p.name for p in adc.compile(source)._parameters]
    return [made[name].astype(np.float32) if name in single else made[name] for name in names]


def near(actual, expected, slack):
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=slack, atol=slack)


SUMS = {
    "nearest": NEAREST, "layers": LAYERS, "single": SINGLE, "mixed": MIXED, "classes": CLASSES,
    "highest": HIGHEST, "range": RANGE, "gamma": GAMMA, "labels": LABELS,
}  # fmt: skip


@pytest.mark.thinned(9)
@pytest.mark.parametrize("lengths", [(0, 7, 8, 17, 40), (1,)], ids=str)  # one row is a program of its own
@pytest.mark.parametrize("name", SUMS)
def test_values_and_gradients_are_those_of_the_reference(name, lengths):
    source = SUMS[name]
    ours, numpy = (adc.value_and_grad(adc.compile(source, backend=b), (0, 1)) for b in ("cpu", "numpy"))
    slack = 2e-4 if source in (SINGLE, MIXED) else 1e-11
    for n in (n for n in lengths if n or source not in (HIGHEST, RANGE)):  # which have no value of no rows
        args = arguments(source, n, n)
        (value, gradient), (expected, slope) = ours(*args), numpy(*args)
        near([value, *gradient], [expected, *slope], slack)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", ["nearest", "layers", "classes", "gamma"])
def test_second_order(name):
    source = SUMS[name]
    args = arguments(source, 43)
    direction = np.random.default_rng(1).normal(size=args[1].shape)
    ours, numpy = (adc.hvp(adc.compile(source, backend=b), 1)(args, direction) for b in ("cpu", "numpy"))
    near([ours], [numpy], 1e-10)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_any_layout(order):
    f, numpy = (adc.compile(UNITS, backend=b) for b in ("cpu", "numpy"))
    x, w, v = arguments(UNITS, 50)
    for points in (np.asarray(x, order=order), np.repeat(x, 2, axis=0)[::2], x[::-1]):
        near([f(points, w, v)], [numpy(points, w, v)], 1e-12)


def test_threads_do_not_change_bits():
    f = adc.value_and_grad(adc.compile(LAYERS), (0, 1, 2))
    args = arguments(LAYERS, 3000)
    same_bits(lambda: f(*args))


def test_what_is_the_same_in_two_iterations_has_the_same_bits():
    f, numpy = (adc.grad(adc.compile(HIGHEST, backend=b), "x") for b in ("cpu", "numpy"))
    for n in (2, 9, 11, 30):
        x, w = arguments(HIGHEST, n)
        x[-1] = x[0] = 10 * x[0]
        near(f(x, w), numpy(x, w), 1e-12)  # the two highest share the gradient


CAMERA = """
def f(c: f64[n, 6], p: f64[n, 3], w: f64[n]):
    def image(c, p, w):
        v = [c[a] * p[a] + c[a + 3] / (1 + w**2) for a in range(3)]
        return [w * v[0] / v[2], w * v[1] * exp(-v[2]**2)]
    return [image(c[i], p[i], w[i]) for i in range(n)]
"""


def test_records_of_many_numbers():
    f, numpy = (adc.compile(CAMERA, backend=b) for b in ("cpu", "numpy"))
    for n in (0, 1, 5, 8, 30):
        random = np.random.default_rng(n)
        args = random.normal(size=(n, 6)), random.normal(size=(n, 3)), random.normal(size=n)
        near([f(*args)], [numpy(*args)], 1e-12)
        ours, expected = (adc.vjp(g, *args)[1](np.ones((n, 2))) for g in (f, numpy))
        near(ours, expected, 1e-11)


@pytest.mark.thinned(8)
@pytest.mark.parametrize("name", SUMS)
def test_all_of_these_have_lanes(name, monkeypatch):
    loops = []
    across = llvm_functions.Function.across

    def counted(self, loop, first, stop):
        loops.append(loop)
        return across(self, loop, first, stop)

    monkeypatch.setattr(llvm_functions.Function, "across", counted)
    f = adc.compile(SUMS[name])
    if name != "labels":  # its gradients are sums of the block
        f = adc.value_and_grad(f, "w")
    f(*arguments(SUMS[name], 300))
    assert loops


def test_extrema_of_integers_are_those_of_all_lanes(monkeypatch):
    totals = []
    across = llvm_functions.Function.across

    def kept(self, loop, first, stop):
        totals.append(loop.totals)
        return across(self, loop, first, stop)

    monkeypatch.setattr(llvm_functions.Function, "across", kept)
    f, numpy = (adc.compile(RANGE, backend=b) for b in ("cpu", "numpy"))
    for sign in (1, -1):
        x, w, q = arguments(RANGE, 43)
        near([f(x, w, sign * (q + 1))], [numpy(x, w, sign * (q + 1))], 1e-12)
    assert {"min", "max"} <= {*totals[0].values()}


# -- where it is done ----------------------------------------------------------------------------

PRODUCT = """
def nest0(block, start, stop, d, k, x, w, y, h):
    for i in range(uint64(start), uint64(stop)):
        for l in range(uint64(0), uint64(k)):
            s = 0.0
            for a in range(uint64(0), uint64(d)):
                s = reduce_add(s, x[i, a] * w[a, l])
            h[block, l] = s
        for l in range(uint64(0), uint64(k)):
            y[i, l] = h[block, l]
"""
TOTAL = """
def nest0(block, start, stop, part, d, k, x, w):
    t = 0.0
    for i in range(uint64(start), uint64(stop)):
        for l in range(uint64(0), uint64(k)):
            s = 0.0
            for a in range(uint64(0), uint64(d)):
                s = reduce_add(s, x[a, i] * w[a, l])
            t = reduce_add(t, s)
            part[block, l] = reduce_add(part[block, l], s)
"""


DEEP_TOTAL = (
    TOTAL
    + """
            for a in range(uint64(0), uint64(d)):
                both[block, a, l] = reduce_add(both[block, a, l], x[a, i] * s)
"""
)
ALONE = (
    PRODUCT
    + """
        for l in range(uint64(0), uint64(k)):
            for c in range(uint64(0), uint64(d if h[block, l] == s else 0)):
                part[block, l, c] = reduce_add(part[block, l, c], x[i, c] * h[block, c] + i)
"""
)


def nest(text, rows=()):
    (function,) = functions(text)
    (made,) = transformed([replace(function, rows=frozenset(rows))])
    return made


def lanes_of(text, rows=()):
    (loop,) = (s for s in nest(text, rows).body if isinstance(s, Lanes))
    return loop


def test_lanes_have_sums_of_their_own_in_loops_in_loops():
    loop = lanes_of(DEEP_TOTAL)
    assert loop.sums == ["both"]
    assert nest(DEEP_TOTAL).adding
    kept = [s.at for s in statements(loop.together) if isinstance(s, LaneUpdate)]
    assert kept
    assert all(isinstance(target, Lane) and target.row for target in kept)


def test_a_loop_with_bounds_of_a_iteration_is_done_by_each_lane():
    loop = lanes_of(ALONE, {"h"})
    (alone,) = (s for s in statements(loop.together) if isinstance(s, LaneByLane))
    assert alone.names == ["i", "s"]
    assert not loop.sums, "one lane after the other adds to the sums of the block"
    assert {at.alone for at, _ in accesses(alone.loop) if isinstance(at, Lane)} == {True}


@pytest.mark.parametrize(
    "last",
    ["s = reduce_add(s, x[i, c])", "h[0, c] = x[i, c]", "y[i, c] = x[i, c]\n                s = 1.0"],
    ids=["a sum of the iteration", "what others read", "a variable of the iteration"],
)
def test_other_bounds_of_iterations_are_left_alone(last):
    text = "\n".join([*ALONE.rstrip().split("\n")[:-1], " " * 16 + last, ""])
    rows = {"h"} if "h[0" not in last else set()
    assert nest(ALONE, {"h"}).lanes
    assert not nest(text, rows).lanes


@pytest.mark.parametrize(
    ("text", "rows", "wide", "copies"),
    [
        (PRODUCT, {"h"}, {"h"}, {"x": 1}),
        (TOTAL, set(), set(), {}),
        (TOTAL.replace("x[a, i]", "x[i, a]"), set(), set(), {"x": 1}),
    ],
    ids=["product", "total", "far"],
)
def test_rows_and_copies_have_the_lanes_side_by_side(text, rows, wide, copies):
    assert nest(text, rows).lanes
    assert nest(text, rows).wide == wide
    assert lanes_of(text, rows).copies == copies


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for a in range(uint64(0), uint64(d))", "for a in range(uint64(0), uint64(3))"),
        ("y[i, l] = h[block, l]", "y[i, l] = y[i - 1, l]"),
        ("y[i, l] = h[block, l]", "y[0, l] = h[block, l]"),
        ("y[i, l] = h[block, l]", "y[i, l] += h[block, l]"),
        ("uint64(d)", "uint64(i)"),
        ("x[i, a] * w[a, l]", "x[i, a] * x[a, i]"),
        ("x[i, a] * w[a, l]", "h[block, a] * w[x[i, a], l]"),
        ("x[i, a] * w[a, l]", "w[i, a, l]"),
        ("x[i, a] * w[a, l]", "(x[i, a] if i < d else 0.0)"),
        ("h[block, l] = s", "h[block, l, l] = s"),
        ("y[i, l] = h[block, l]", "h[block, q[i]] = y[i, l]"),
    ],
    ids=["one loop only", "what another iteration wrote", "one place of all", "a scatter",
         "bounds of an iteration", "two axes of one array", "gathered", "three axes",
         "no row for all iterations", "rows of two axes", "different elements of rows"],
)  # fmt: skip
def test_other_loops_stay_as_they_are(old, new):
    if "h[block, l, l]" in new:
        text = PRODUCT.replace("s = reduce_add(s, x[i, a] * w[a, l])", "h[block, a, l] = x[i, a]")
    else:
        text = PRODUCT.replace(old, new)
    assert text != PRODUCT
    assert not nest(text, {"h"}).lanes


RECORDS = """
def nest0(block, start, stop, x, q, part):
    t = 0.0
    for i in range(uint64(start), uint64(stop)):
        p = uint64(q[i])
        for a in range(uint64(0), uint64(6)):
            t = reduce_add(t, x[i, a] * w[i, a])
    part[block] = t
"""


def test_records_are_lanes_unless_they_are_read_at_computed_places():
    assert nest(RECORDS).lanes
    assert not nest(RECORDS.replace("w[i, a]", "w[p, a]")).lanes


CLASS = """
def nest0(block, start, stop, c, x, y, h, q):
    for i in range(uint64(start), uint64(stop)):
        s = 0.0
        for a in range(uint64(0), uint64(c)):
            s = reduce_add(s, math.exp(x[i, a]))
            h[block, a] = x[i, a]
        y[i] = s * h[block, q[i]]
"""


def test_short_loops_that_sum_functions_are_lanes():
    """If they are no longer than 16 iterations, which the lengths of a call tell."""
    (loop,) = (s for s in nest(CLASS, {"h"}).body if isinstance(s, Lanes))
    assert loop.few == [Call("uint64", (Var("c"),))]
    apart = [at for at, _ in accesses(*loop.together) if isinstance(at, Lane) and at.apart]
    assert [at.array for at in apart] == ["h"]


HEAD = "    for i in range(uint64(start), uint64(stop)):\n"
OTHER_SHORT_LOOPS = {
    "no function": CLASS.replace("math.exp(x[i, a])", "x[i, a]"),
    "bounds of an iteration": CLASS.replace("uint64(c)", "uint64(q[i])"),
    "places of all": CLASS.replace("h[block, a] = x[i, a]", "y[a] = reduce_add(y[a], x[i, a])"),
    "a sum of the block": CLASS.replace(f"{HEAD}        s = 0.0\n", f"    s = 0.0\n{HEAD}").replace(
        "s * h", "h"
    ),
}


@pytest.mark.parametrize("name", OTHER_SHORT_LOOPS)
def test_other_short_loops_stay_as_they_are(name):
    text = OTHER_SHORT_LOOPS[name]
    assert text != CLASS
    assert not nest(text, {"h"}).lanes


def test_loops_outside_of_nests_stay_as_they_are():
    """As of a copy of matrices, before a routine that factors them in place."""
    assert not nest(TOTAL.replace("nest0(block, ", "run(").replace("block", "0")).lanes
    f, numpy = (adc.compile("def f(x: f64[n, 3, 3]): return inv(x)", backend=b) for b in ("cpu", "numpy"))
    x = np.random.default_rng(0).normal(size=(40, 3, 3))
    near([f(x)], [numpy(x)], 1e-10)


def test_rows_have_place_for_all_lanes_and_blocks_are_whole_vectors():
    f = adc.compile(LAYERS)
    func = f._trace(f._describe(arguments(LAYERS, 3), {})[0]).func
    kernel = CpuKernel(scheduled(run((*OPTIMISE, *KERNEL), func)))
    sizes = (2000, D, K)
    assert kernel.kernel.wide
    wide = [p for p, b in enumerate(kernel.plan.buffers) if b.name in kernel.kernel.wide]
    _, _, needed, _ = kernel.layout(sizes)
    assert all(needed[p][0][-1] == K * MOST_LANES for p in wide)
    nests = kernel.kernel.transformed
    cut = [p for k, p in enumerate(kernel.partitions) if nests[f"nest{k}"].lanes]
    rows = [partition.plan(sizes)[1] for partition in cut]
    assert all(r % MOST_LANES == 0 for r in rows)


TERMS = {
    "powers of integers": "q[i] ** (l + 1)",
    "places that another array may lack": "(z[i] if i < m else 1.0)",
    "a number, and elements elsewhere": "(1.0 if l < 3 else x[i, 0])",
    "float32 among float64": "tanh(float32(x[i, 0]))",
}


@pytest.mark.parametrize("term", TERMS.values(), ids=TERMS)
def test_what_iterations_compute_is_known_of_lanes_too(term):
    text = f"""def f(x: f64[n, d], w: f64[d, k], q: i64[n], z: f64[m]):
    return [[sum(x[i, a] * w[a, l] for a in range(d)) * {term} for l in range(k)] for i in range(n)]"""
    random = np.random.default_rng(0)
    args = random.normal(size=(53, 5)), random.normal(size=(5, 7)), np.arange(53) % 4, np.ones(4)
    ours, numpy = (adc.compile(text, backend=b) for b in ("cpu", "numpy"))
    near([ours(*args)], [numpy(*args)], 1e-6)
    assert any(f.lanes for f in ours._specialise(ours._last).executable.general.kernel.transformed.values())


def test_iterations_that_share_a_row_are_not_jammed_inside_lanes():
    """Several iterations of j at once would fill the row of k for the last of them only."""
    text = """def f(p: f64[m, n]):
    y = [sum(tanh(sum(p[-1, i] for k in range(0, j + 1, 2))) for j in range(n)) for i in range(n)]
    return sum(maximum(0.2, y))"""
    kernel, reference = (adc.grad(adc.compile(text, backend=b)) for b in ("cpu", "numpy"))
    for n in (4, 9, 31):
        p = np.random.default_rng(0).normal(size=(3, n))
        np.testing.assert_allclose(kernel(p), reference(p), rtol=1e-12, atol=1e-12)


def test_elements_of_lanes_are_told_apart():
    def element(name):
        return Lane(name, (Var("k"),))

    def sum_with(old):
        return Store(element("t"), Binary("*", element(old), Var("v")))

    assert (updated(sum_with("t")), updated(sum_with("u"))) == ("t", "")


DIAGONALS = {
    "sum": """
def f(A: f64[n, n], B: f64[n, n], x: f64[n]):
    C = A @ B
    s = sum(C[i, i] * x[i]**2 for i in range(n))
    v = [sum(C[i, j] * x[j] for j in range(n)) for i in range(n)]
    return s + sum(v * v)
""",
    "array": """
def f(A: f64[n, n], B: f64[n, n], x: f64[n]):
    C = [[sum(A[i, k] * B[j, k] for k in range(n)) for j in range(n)] for i in range(n)]
    return [sum(C[i, j] * x[j] for j in range(n)) - C[i, i] * x[i] for i in range(n)]
""",
}


@pytest.mark.parametrize("text", DIAGONALS.values(), ids=DIAGONALS)
def test_lanes_that_read_an_element_each_of_their_rows(text):
    """Such nests are done iteration by iteration."""
    ours, plain = (adc.compile(text, backend=backend) for backend in ("cpu", "numpy"))
    for n in (1, 5, 20):
        random = np.random.default_rng(n)
        args = random.standard_normal((n, n)), random.standard_normal((n, n)), random.standard_normal(n)
        np.testing.assert_allclose(ours(*args), plain(*args), rtol=1e-11, atol=1e-11)


WINDOWS = {
    "a filter": "return sum(sum(k[u] * x[i + u] for u in range(m))**3 for i in range(n - m + 1))",
    "single": "return sum(sum(k[u] * x[i + u] for u in range(m))**3 for i in range(n - m + 1))",
    "a function of it": "return sum(tanh(sum(k[u] * x[i + u] for u in range(m))) for i in range(n - m + 1))",
    "zeros around": """
    def y(i): return sum(k[u] * (x[i + u - 2] if 2 <= i + u and i + u < n + 2 else 0.0) for u in range(m))
    return sum(y(i)**3 for i in range(n))""",
    "in two dimensions": """
    def z(i, j): return sum(k[u] * k[v] * (x[i + u] + x[j + v]) for u in range(m) for v in range(m))
    return sum(z(i, j)**3 for i in range(n - m + 1) for j in range(n - m + 1))""",
    "a triangle": "return sum(sum(x[i - j] * k[j] for j in range(min(i + 1, m)))**3 for i in range(n))",
}


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_are_those_of_the_reference(name):
    kind = "f32" if name == "single" else "f64"
    source = f"def f(x: {kind}[n], k: {kind}[m]):\n    {WINDOWS[name].strip()}"
    ours, numpy = (adc.value_and_grad(adc.compile(source, backend=b), (0, 1)) for b in ("cpu", "numpy"))
    for n in (9, 33, 70):
        random = np.random.default_rng(n)
        args = [random.normal(size=size).astype(np.float32 if kind == "f32" else float) for size in (n, 5)]
        (value, gradient), (expected, slope) = ours(*args), numpy(*args)
        near([value, *gradient], [expected, *slope], 2e-3 if kind == "f32" else 1e-9)


@pytest.mark.parametrize("how", ["sum", "max"])
def test_iterations_that_others_have_change_nothing(how):
    """Not even if they would make infinite numbers or higher ones: `0 * inf` is NaN."""
    body = f"[{how}(x[i - j] * k[j] for j in range(min(i + 1, m))) for i in range(n)]"
    ours, numpy = (
        adc.compile(f"def f(x: f64[n], k: f64[m]):\n    return {body}", backend=b) for b in ("cpu", "numpy")
    )
    x, k = -np.linspace(1, 2, 70), np.array([1.0, 2.0, 3.0, 4.0, np.inf])
    near([ours(x, k)], [numpy(x, k)], 1e-12)


def test_a_window_near_an_end_has_the_bits_of_any_other():
    f = adc.compile(f"def f(x: f64[n], k: f64[m]):\n    {WINDOWS['zeros around'].strip()}".replace(
        "return sum(y(i)**3 for i in range(n))", "return [y(i) for i in range(n)]"
    ))  # fmt: skip
    random = np.random.default_rng(1)
    k, part = random.normal(size=5), random.normal(size=7)
    found = []
    for start in (0, 40, 93):
        x = np.zeros(100)
        x[start : start + 7] = part
        found.append(f(x, k)[start : start + 7])
    assert (found[0] == found[1]).all()
    assert (found[1] == found[2]).all()
