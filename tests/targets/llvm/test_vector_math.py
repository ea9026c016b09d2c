"""Mathematics on vectors: values, edges, that loops are vectorised, and that nothing else changes a bit."""

from __future__ import annotations

import math
import re
from itertools import product

import numpy as np
import pytest
from judges.threads import same_bits
from ops.rules.accuracy import CASES, PATH, points, ulps

import adcompiler as adc
from adcompiler.loopir.intrinsics import FUNCTIONS
from adcompiler.targets.llvm import libmvec as vectormath
from adcompiler.targets.llvm.libmvec import vectors
from adcompiler.targets.llvm.runtime.entry import translated
from adcompiler.targets.llvm.runtime.machine_code import optimised
from adcompiler.targets.llvm.vectormath.elementary import ELEMENTARY

FLOATS = (np.float64, np.float32)
needs_vectors = pytest.mark.skipif(vectors() is None, reason="this C library has no functions of vectors")
OF_LOOPS = r"(?!.*%x[st]\b)"  # not the calls that stand for one number, whose arguments are so called


CHOICES = {"widest": "", "256": "256", "scalar": "0"}
each_choice = pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES, indirect=True)
WAYS = list(product(CHOICES.values(), FLOATS))
one_way_each = pytest.mark.slow_when(
    lambda case, dtype, choice: (choice, dtype) != WAYS[CASES.index(case) % len(WAYS)]
)


@pytest.fixture
def choice(request, monkeypatch):
    """The vectors that kernels take: the widest, those of AVX2, or none."""
    monkeypatch.setenv("ADC_VECTOR_MATH", request.param)
    return request.param


def executable(f):
    """What the last call of a function ran."""
    return f._specialise(f._last).executable.general


def code(f, *args) -> str:
    """The kernel of a call as LLVM makes it, after vectorising, with the functions that loops then call."""
    f(*args)
    return str(optimised(translated(executable(f).source, True).text, second=False))


def edges(dtype) -> np.ndarray:
    limits = np.finfo(dtype)
    tiny, least, largest = limits.tiny, limits.smallest_subnormal, limits.max
    positive = [0, np.inf, largest, tiny, least, tiny * dtype(0.7), 1, 2, 0.5, 3, 1e-10, 30, 100, 1e3, 1e30]
    positive += [
        1 + limits.eps,
        1 - limits.epsneg,
        87,
        89,
        103.9,
        104.1,
        709,
        710,
        745,
        745.2,
        746,
        1022.5,
        1024,
    ]
    return np.array([*positive, *(-dtype(p) for p in positive), np.nan], dtype)


def agree(found: np.ndarray, expected: np.ndarray, ulp: int = 4) -> bool:
    """Whether results are equal to some ulp, infinities, NaN and signs of zero included."""
    limits = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        near = np.abs(found - expected) <= ulp * np.maximum(
            np.abs(expected) * limits.eps, limits.smallest_subnormal
        )
    same = (found == expected) | (np.isfinite(expected) & near)
    same &= (np.signbit(found) == np.signbit(expected)) | (found != expected)
    return bool(np.all(same | (np.isnan(found) & np.isnan(expected))))


# -- values --------------------------------------------------------------------------------------


@pytest.mark.thinned(4)
@one_way_each
@each_choice
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.text)
def test_errors_are_small(case, dtype, choice):
    args = points(case, dtype, 150, seed=1)
    found = adc.compile(case.text, args=case.params)(*args)
    assert ulps(case, args, found).max() <= 4


@pytest.mark.thinned(4)
@one_way_each
@each_choice
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.text)
def test_edges_are_those_of_the_scalar_functions(case, dtype, choice):
    args = [edges(dtype)]
    if len(case.params) == 2:
        args = [a.ravel() for a in np.meshgrid(args[0], args[0])]
    found = adc.compile(case.text, args=case.params)(*args)
    expected = adc.compile(case.text, args=case.params, precise=True)(*args)
    if case.text == "x ** 2.5":  # the square of a subnormal number is 0
        found[np.abs(found) < np.finfo(dtype).tiny] = expected[np.abs(found) < np.finfo(dtype).tiny]
    assert agree(found, expected)


@pytest.mark.parametrize("exponent", [-1.5, -0.5, 1.5, 2.5])
def test_half_powers_at_the_edges(exponent):
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 4.0, -4.0])
    with np.errstate(all="ignore"):
        expected = np.power(x, np.full(len(x), exponent))
    np.testing.assert_array_equal(adc.compile(f"x ** {exponent}")(x), expected)


def test_every_function_is_in_the_document():
    page = PATH.read_text()
    for name in (f.name for f in FUNCTIONS if f.libmvec):
        assert (f"`{name}(" in page) or (name == "pow" and "`x ** y`" in page)


def test_the_table_names_what_is_written_out_for_the_widest_vectors():
    assert {f.name for f in FUNCTIONS if f.inlined} == {*ELEMENTARY, "rsqrt"}
    assert len({text for f in FUNCTIONS for text in f.texts}) == sum(len(f.texts) for f in FUNCTIONS)


@needs_vectors
def test_stencils_that_call_functions_are_vectorised():
    """What the next iteration reads again is read again: in a register it would tie iterations together."""
    f = adc.compile(
        "def f(u: f64[n], v: f64[n]):\n"
        "    r = exp(0.5 * u[1:-1] * (u[2:] - u[:-2]) + v[1:-1] * (v[2:] - v[:-2]))\n"
        "    return r * (u[2:] - u[1:-1]), r * (v[2:] - v[1:-1])"
    )
    u, v = np.linspace(0, 1, 200), np.linspace(1, 2, 200)
    text = code(f, u, v)
    assert re.search(r"call <\d+ x double> @\S*exp", text)
    loads = re.findall(r"^  (%\S+) = phi double ", text, re.MULTILINE)
    assert not [name for name in loads if f"{name}.pre" in text]


# -- the bits ------------------------------------------------------------------------------------

TEXTS = ("exp(x)", "tanh(x)", "log(abs(x))", "abs(x) ** 1.7", "atan2(x, 1 + x * x)", "lgamma(x)", "erf(x)")


@pytest.mark.thinned(9)
@each_choice
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_value_depends_on_its_argument_only(text, dtype, choice):
    f = adc.compile(text)
    x = np.random.default_rng(0).normal(size=101).astype(dtype)
    whole = f(x)
    for n in (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 100):
        np.testing.assert_array_equal(f(x[:n]), whole[:n])
        np.testing.assert_array_equal(f(x[-n:]), whole[-n:])
    np.testing.assert_array_equal(f(np.repeat(x, 3)[::3]), whole)
    np.testing.assert_array_equal(f(x[::-1]), whole[::-1])
    np.testing.assert_array_equal(f(np.stack([x, x], axis=1)[:, :1].T)[0], whole)


@each_choice
@pytest.mark.parametrize("dtype", FLOATS)
def test_threads_change_no_bit(dtype, choice):
    x = np.random.default_rng(0).normal(size=200_003).astype(dtype)
    f = adc.value_and_grad(adc.compile("sum(gelu(x) * exp(-x * x)) + sum(log1p(abs(x)))"))
    value, gradient = same_bits(lambda: f(x))
    kernel = executable(f)
    kernel.parallel = kernel.serial
    again, other = f(x)
    assert value == again
    np.testing.assert_array_equal(gradient, other)


@pytest.mark.slow_when(lambda choice: choice)
@each_choice
def test_what_is_computed_twice_is_equal(choice):
    """The adjoint of a maximum looks for the elements that are equal to it, in a loop of another kind."""
    x = np.random.default_rng(0).uniform(0.1, 1, size=(5, 37))
    text = "sum(max(tanh(x), axis=0)) + prod(tanh(x)) + sum(max(tanh(x), axis=1))"
    for f, reference in (
        (adc.grad(adc.compile(text)), adc.grad(adc.compile(text, backend="numpy"))),
        (adc.compile("argmax(tanh(x), axis=1)"), adc.compile("argmax(tanh(x), axis=1)", backend="numpy")),
    ):
        np.testing.assert_allclose(f(x), reference(x), rtol=1e-13)


def test_float32_among_float64():
    x, y, k = np.linspace(0, 1, 103), np.linspace(1, 2, 103, dtype="f4"), np.arange(103)
    for text, args in (("exp(x) * sin(y)", "x, y"), ("tanh(y) * k", "y, k"), ("cos(k) + exp(x)", "k, x")):
        given = [{"x": x, "y": y, "k": k}[a] for a in args.split(", ")]
        found, expected = (adc.compile(text, args=args, **o)(*given) for o in ({}, {"precise": True}))
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=3e-7)


# -- that loops are vectorised -------------------------------------------------------------------

VECTORISED = (
    ("exp(x)", "exp"), ("where(x > 0, log(x), 0)", "log"), ("sum(exp(x))", "exp"), ("exp(x.T)", "exp"),
    ("max(sin(x), axis=1)", "sin"), ("sigmoid(x)", "exp"), ("softplus(x)", "log1p"), ("gelu(x)", "erfc"),
    ("mish(x)", "log1p"), ("silu(x)", "exp"), ("log_sigmoid(x)", "log1p"), ("ndtr(x)", "erfc"),
    ("logsumexp(x, axis=1)", "exp"), ("exp(x) + lgamma(x)", "exp"), ("abs(x) ** 1.7", "pow"),
    ("x[:, 1:] * exp(x[:, :-1])", "exp"), ("mean(exp(x) > 1)", "exp"),
)  # fmt: skip


@pytest.mark.thinned(12)
@needs_vectors
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("text", "name"), VECTORISED)
def test_loops_are_vectorised(text, name, dtype):
    kind = "double" if dtype is np.float64 else "float"
    symbol = vectors().symbol(name, kind)
    made = code(adc.compile(text), np.ones((3, 40), dtype))
    loops = re.findall(rf"call <\d+ x {kind}> @{symbol}\({OF_LOOPS}", made)
    assert len(loops) >= 2  # the whole vectors, and the rest under a mask


def vector_calls(made: str, name: str) -> int:
    """How many calls of a function loops make for vectors of float64."""
    lanes, symbol = vectors().lanes("double"), vectors().symbol(name, "double")
    return len(re.findall(rf"call <{lanes} x double> @{symbol}\({OF_LOOPS}", made))


@needs_vectors
@pytest.mark.parametrize(("function", "name"), [("log", "log"), ("log1p", "log1p"), ("arcsin", "asin")])
def test_sums_of_products_of_functions_that_are_nan_somewhere_are_vectorised(function, name, capfd):
    f = adc.compile(f"sum(y * {function}(x))")
    x = np.linspace(0.1, 0.9, 40)
    assert vector_calls(code(f, x, x), name) >= 2
    assert np.isnan(f(x, x - 2))
    assert not capfd.readouterr().err  # LLVM says what it does not vectorise


GATHER = """
def f(x: f64[n, 2], at: i64[m], p):
    total = 0.0
    for k in range(m):
        total += (x[at[k], 0] ** 2 + x[at[k], 1] ** 2) ** p
    return total"""
SCATTER = """
def f(x: f64[n], at: i64[m, k], p: f64[m, k]):
    out = zeros(n)
    for i in range(m):
        for j in range(k):
            out[at[i, j]] += erf(x[at[i, j]] * p[i, j])
    return sum(out ** 2)"""


@needs_vectors
@pytest.mark.parametrize(("text", "name"), [(GATHER, "pow"), (SCATTER, "erf")])
def test_functions_beside_reads_and_stores_at_computed_places_are_vectorised(text, name, capfd):
    rng = np.random.default_rng(1)
    p = rng.random((9, 20))
    at = rng.integers(0, 5, p.shape)
    f = adc.compile(text)
    args = (p[:5, :2].copy(), at[0], 0.7) if text == GATHER else (p[0, :5].copy(), at, p)
    g = adc.value_and_grad(f, wrt=("x", "p"))
    assert vector_calls(code(f, *args), name) >= 2
    assert vector_calls(code(g, *args), name) >= 2
    expected = adc.value_and_grad(adc.compile(text, backend="numpy"), wrt=("x", "p"))(*args)
    for one, other in zip(tree(g(*args)), tree(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert not capfd.readouterr().err


def tree(found) -> list:
    value, gradients = found
    return [value, *gradients]


@needs_vectors
def test_gradients_are_vectorised():
    f = adc.grad(adc.compile("sum(where(x > 0, log(x) * exp(-x), gelu(x)) + x ** 1.5)"))
    made = code(f, np.ones(40))
    for name in ("log", "exp", "erfc"):
        assert f"call <{vectors().lanes('double')} x double> @{vectors().symbol(name, 'double')}" in made
    assert f"@llvm.sqrt.v{vectors().lanes('double')}f64" in made


@needs_vectors
def test_functions_without_vectors_are_called_lane_by_lane():
    x = np.linspace(0.1, 9, 53)
    f = adc.compile("lgamma(x)")
    assert f"@adc_lgamma_{vectors().lanes('double')}(" in code(f, x)
    np.testing.assert_array_equal(f(x), adc.compile("lgamma(x)", precise=True)(x))


@needs_vectors
def test_an_old_library_has_few_functions(monkeypatch):
    """glibc before 2.35 has exp but not atan."""
    known = vectormath.known
    monkeypatch.setattr(
        "adcompiler.targets.llvm.vectors.known",
        lambda found, name, kind: name != "atan" and known(found, name, kind),
    )
    x = np.linspace(-2, 2, 45)
    f = adc.compile("arctan(x) + exp(x)")
    made = code(f, x)
    lanes = vectors().lanes("double")
    assert vectors().symbol("atan", "double") not in made
    assert f"call <{lanes} x double> @{vectors().symbol('exp', 'double')}(" in made
    np.testing.assert_allclose(f(x), np.arctan(x) + np.exp(x), rtol=1e-14)


@needs_vectors
def test_masked_elements_do_not_reach_the_slow_way():
    """Where a guard fails, the function is not asked for arguments outside of its domain."""
    made = code(adc.compile("where(x > 0, acosh(x), 0)"), np.ones(40))
    call = re.search(
        rf"call <\d+ x double> @{vectors().symbol('acosh', 'double')}\({OF_LOOPS}(.*?) (%\S+)\)", made
    )
    assert call
    assert re.search(rf"{call[2]} = select ", made)


# -- the choice ----------------------------------------------------------------------------------


@each_choice
def test_the_choice_is_in_the_code_that_is_kept(choice):
    f = adc.compile("sum(exp(x))")
    f(np.ones(20))
    text = translated(executable(f).source, True).text
    used = set(re.findall(r"_ZGV[bcde]", text))
    found = vectors()
    assert used == ({f"_ZGV{found.letter}"} if found else set())
    assert found is None or choice != "256" or found.bits == 256


@pytest.mark.thinned(6)
@pytest.mark.parametrize(
    "derive",
    [
        lambda f: f,
        adc.grad,
        adc.value_and_grad,
        adc.hessian,
        lambda f: lambda x: adc.vjp(f, x)[1](1.0),
        lambda f: lambda x: adc.jvp(f, (x,), (x,)),
        lambda f: lambda x: adc.vmap(f)(np.stack([x, x])),
    ],
    ids=["itself", "grad", "value_and_grad", "hessian", "vjp", "jvp", "vmap"],
)
def test_precise_goes_with_the_function(derive, monkeypatch):
    x = np.random.default_rng(0).normal(size=41)
    text = "sum(exp(sin(x)) * tanh(x))"
    precise = flat(derive(adc.compile(text, precise=True))(x))
    vectorised = flat(derive(adc.compile(text))(x))
    monkeypatch.setenv("ADC_VECTOR_MATH", "0")
    np.testing.assert_array_equal(precise, flat(derive(adc.compile(text))(x)))
    if vectors() is not None:
        assert np.any(precise != vectorised)


def flat(found) -> np.ndarray:
    """All numbers of a result."""
    parts = found if isinstance(found, tuple) else (found,)
    return np.concatenate([np.ravel(part) for part in parts])


@needs_vectors
def test_precise_has_the_bits_of_the_c_library():
    x = np.random.default_rng(0).normal(size=2000)
    expected = [math.sin(v) for v in x]

    @adc.function(precise=True)
    def exact(x):
        return sin(x)  # noqa: F821

    np.testing.assert_array_equal(exact(x), expected)
    np.testing.assert_array_equal(adc.compile("sin(x)", backend="cpu-precise")(x), expected)
    assert np.any(adc.compile("sin(x)")(x) != expected)


def test_numbers_alone_have_the_bits_of_the_c_library():
    f = adc.compile("exp(x) * sin(x)")
    for x in np.random.default_rng(0).normal(size=50).tolist():
        assert f(x) == math.exp(x) * math.sin(x)


def test_precise_means_nothing_to_the_interpreter():
    f = adc.compile("exp(x)", backend="numpy", precise=True)
    assert f._backend == "numpy"
    assert f(1.0) == math.exp(1.0)


# -- second order --------------------------------------------------------------------------------


@pytest.mark.thinned(4)
@each_choice
@pytest.mark.parametrize(
    "text",
    [
        "where(x > 0, log(x) * x ** 1.5, exp(x))",
        "gelu(x) * softplus(x)",
        "sigmoid(x) ** 2.5",
        "atan2(x, 2) * acosh(2 + x * x)",
    ],
)
def test_second_derivatives_agree_with_the_interpreter(text, choice):
    x = np.random.default_rng(0).normal(size=37)
    f, reference = (
        adc.vmap(adc.grad(adc.grad(adc.compile(text, backend=backend)))) for backend in ("cpu", "numpy")
    )
    np.testing.assert_allclose(f(x), reference(x), rtol=1e-11, atol=1e-13)
