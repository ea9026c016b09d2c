"""C99 source of functions and their derivatives: what it promises, and that it computes what kernels do."""

from __future__ import annotations

import ctypes
import re
import resource
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from judges.c_files import COMPILERS, LIBM, STRICT, Exported

import adcompiler as adc
from adcompiler.cli import main

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 1.5, 7)
SPECIAL = """
def formula(a: f64, b: f64):
    return gamma(a) * erf(b) + j0(a * b) * digamma(a) + exp(-b) * log_ndtr(a - 3) + ndtri(0.3 + 0.1 * b)
"""
LOOP = """
def walk(x: f64[n], steps: i64, rate: f64):
    s = rate
    for k in range(steps):
        if s > 1:
            s = s * rate - sum(x) / n
        else:
            s = s + x[k % n] ** 2 * rate
    return s
"""
CHAIN = """
def chain(x: f64[n], y: f64[n]):
    return sum((x[i + 1] - x[i] ** 2) ** 2 * y[i] for i in range(n - 1)) + sum(exp(x) * y) / n
"""
SOLVE = """
def fit(a: f64[n, n], b: f64[n]):
    s = a @ a.T + 3 * eye(n)
    return sum(solve(s, b) ** 2) + sum(log(diag(cholesky(s))))
"""
WHATS = ("value", "value_and_grad", "hessian")
MODELS = {
    "special functions": (SPECIAL, (1.7, 0.4), WHATS),
    "a loop with a condition": (LOOP, (X, 40, 0.9), WHATS),
    "neighbours": (CHAIN, (X, X[::-1] + 1), WHATS),
    "linear algebra": (SOLVE, (RNG.normal(size=(4, 4)), RNG.normal(size=4)), WHATS[:2]),
}


def jit(source: str, what: str, args: tuple[object, ...]) -> list[np.ndarray]:
    """What compiled kernels compute."""
    f = adc.compile(source)
    transforms = {"value": lambda f: f, "jacobian": adc.jacobian, "hessian": adc.hessian, "grad": adc.grad}
    transforms |= {"value_and_grad": adc.value_and_grad}
    return flat(transforms[what](f)(*args))


def flat(found: object) -> list[np.ndarray]:
    return [a for part in found for a in flat(part)] if isinstance(found, tuple) else [np.asarray(found)]


@pytest.mark.slow_when(lambda model: model == "linear algebra")
@pytest.mark.parametrize("model", MODELS)
def test_values_and_derivatives_are_those_of_kernels(tmp_path, model):
    """To 16 units in the last place of the largest entry: orders of sums and functions differ."""
    source, args, whats = MODELS[model]
    exported = Exported(tmp_path, source, ",".join(whats))
    library = exported.library()
    for what in whats:
        status, found = exported.called(library, what, *args)
        assert status == 0
        for got, want in zip(found, jit(source, what, args), strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=16 * np.spacing(np.abs(want).max()))


def test_float32_and_every_type_of_number(tmp_path):
    source = """
def f(x: f32[n], k: i64, flag: bool, double: f64[n, 3], m: i64[n]):
    y = x * k
    a, b, c = m // k, m % k, m ** 2 + m << 3
    return y, exp(y) * sum(x), x, flag, x > 1, k, double.sum(axis=0), a, b, c, sum(m)
"""
    x, z = np.array([0.5, 2.0], np.float32), np.arange(6.0).reshape(2, 3)
    exported = Exported(tmp_path, source)
    head = (
        "int f(int64_t n, const float *x, int64_t k, uint8_t flag, const double *_double, const int64_t *m, "
    )
    assert head in exported.texts["f.h"]
    library = exported.library()
    for k in (-3, 0, 2):
        args = x, k, True, z, np.array([7, -(2**62)])
        status, found = exported.called(library, "value", *args)
        assert status == 0
        for got, want in zip(found, jit(source, "value", args), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=2e-7 if got.dtype == np.float32 else 1e-15)


def test_derivatives_in_float32(tmp_path):
    source = "def f(x: f32[n], a: f32):\n    return sum(tanh(a * x) ** 2) + erf(a) * digamma(x[0])"
    exported = Exported(tmp_path, source, ",".join(WHATS))
    library, args = exported.library(), (X.astype(np.float32), np.float32(0.7))
    for what in WHATS:
        for got, want in zip(exported.called(library, what, *args)[1], jit(source, what, args), strict=True):
            assert got.dtype == want.dtype == np.float32
            np.testing.assert_allclose(got, want, rtol=0, atol=8 * np.spacing(np.abs(want).max()))


@pytest.mark.parametrize("h", [0, 2])
def test_axes_with_lengths_made_of_others(tmp_path, h):
    """An axis annotated 2 * h is no parameter of its own."""
    source = "def f(x: f64[h], W: f64[h, 2 * h]):\n    z = x @ W\n    return sum(tanh(z[:h]) * z[h:])"
    exported = Exported(tmp_path, source, "value_and_grad")
    args = np.arange(1.0, 1 + h), np.linspace(-1, 1, 2 * h * h).reshape(h, 2 * h)
    status, found = exported.called(exported.library(), "value_and_grad", *args)
    assert status == 0
    for got, want in zip(found, jit(source, "value_and_grad", args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_empty_arrays(tmp_path):
    exported = Exported(tmp_path, CHAIN.replace(" / n", ""), ",".join(WHATS))
    library = exported.library()
    for what in WHATS:
        status, found = exported.called(library, what, np.zeros(0), np.zeros(0))
        assert status == 0
        assert all(not a.size or a == 0 for a in found)


def test_lengths_and_values_that_do_not_fit_have_a_status(tmp_path):
    source = """
def f(x: f64[n], y: f64[n], i: i64, k: i64):
    return sum([x[2 * j] * y[j] for j in range(k)]) * x[i % 5]
"""
    exported = Exported(tmp_path, source)
    library, x = exported.library(), np.arange(4.0)
    calls = {(3, 1): 0, (3, 2): 0, (3, 3): 1, (4, 2): 2, (-1, 2): 2}
    assert {case: exported.called(library, "value", x, x, *case)[0] for case in calls} == calls


def test_how_often_a_loop_runs_does_not_change_the_code(tmp_path):
    """2,000 iterations are a loop of 2,000 iterations, also backwards."""
    sizes = []
    for count in (200, 2000):
        source = f"def f(x: f64):\n    for k in range({count}):\n        x = sin(x) * 1.01\n    return x"
        (folder := tmp_path / str(count)).mkdir()
        exported = Exported(folder, source, "value,grad,hessian")
        sizes.append(len(exported.texts["f.c"].splitlines()))
        library = exported.library()
        for what in ("value", "grad", "hessian"):
            found = exported.called(library, what, 0.5)[1]
            np.testing.assert_allclose(found[0], jit(source, what, (0.5,))[0], rtol=1e-12)
    assert sizes[0] == sizes[1]


def test_sums_need_no_memory(tmp_path):
    """Partial sums of long arrays are added up as they come: in the order of kernels, and as accurate."""
    exported = Exported(tmp_path, "def f(x: f32[n]):\n    return sum(x), max(x), (x[1:] * x[:-1]).sum()\n")
    library, x = exported.library(), np.full(3_000_000, 0.1, np.float32)
    library.f_work_size.restype = ctypes.c_size_t
    assert library.f_work_size(ctypes.c_int64(x.size)) == 0
    found = exported.called(library, "value", x)[1]
    np.testing.assert_allclose(found, [x.sum(dtype=float), x[0], (x[1:] ** 2).sum(dtype=float)], rtol=2e-4)


def test_the_same_text_every_time(tmp_path):
    texts = [Exported(tmp_path, SOLVE, "value,hessian").texts for _ in range(2)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("model", MODELS)
def test_object_code_calls_only_the_mathematical_library_and_has_no_state(tmp_path, model):
    source, _, whats = MODELS[model]
    symbols = Exported(tmp_path, source, ",".join(whats)).symbols()
    assert symbols.get("U", set()) <= LIBM | COMPILERS
    assert not symbols.keys() & set("BbCDdGgSs")


@pytest.mark.slow_when(lambda model: model != "neighbours")
@pytest.mark.parametrize("model", MODELS)
def test_the_same_bits_at_every_level_of_optimisation(tmp_path, model):
    """Also for processors that fuse products and sums, and for the dialect of GNU, which allows it."""
    source, args, whats = MODELS[model]
    exported = Exported(tmp_path, source, ",".join(whats))
    found = []
    for k, options in enumerate((("-O0",), ("-O2",), ("-O3", "-march=native", "-std=gnu11"))):
        library = ctypes.CDLL(str(exported.compile("-fPIC", "-shared", *options, output=f"{k}.so")))
        found.append([a.tobytes() for what in whats for a in exported.called(library, what, *args)[1]])
    assert found[0] == found[1] == found[2]


# The sanitizer of addresses maps terabytes, which `ulimit -v` forbids.
IS_UNLIMITED = resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
SANITIZERS = "address,undefined" if IS_UNLIMITED else "undefined"
SANITIZED = ("-g", "-O1", f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=all")


@pytest.mark.slow_when(lambda model: model != "neighbours")
@pytest.mark.parametrize("model", MODELS)
def test_sanitizers_find_nothing_and_nothing_is_allocated(tmp_path, model):
    """With arrays that have no element too many; another build ends if it allocates."""
    source, args, whats = MODELS[model]
    exported = Exported(tmp_path, source, ",".join(whats))
    for what in whats:
        want = np.concatenate([np.ravel(a) for a in jit(source, what, args)])
        for options, interposed in ((SANITIZED, False), (("-O2",), True)):
            found = exported.run_alone(what, *args, options=options, interposed=interposed)
            np.testing.assert_allclose(found, want, rtol=0, atol=16 * np.spacing(np.abs(want).max()))


THREADS = """
#include <pthread.h>
#include <stdlib.h>
#include "fit.h"

static const double a[16] = {1, 0.5, 0.25, 2, 0, 1, 0.75, 0.5, 1, 1, 2, 0.25, 0.5, 0, 1, 3};
static const double b[4] = {1, 2, 3, 4};
static double slopes[2][20];

static void *called(void *slope)
{
    double r, *da = slope;
    void *work = malloc(fit_value_and_grad_work_size(4));
    for (int k = 0; k < 100; k++)
        fit_value_and_grad(4, a, b, &r, da, da + 16, work);
    free(work);
    return 0;
}

int main(void)
{
    pthread_t threads[2];
    for (int k = 0; k < 2; k++)
        pthread_create(&threads[k], 0, called, slopes[k]);
    for (int k = 0; k < 2; k++)
        pthread_join(threads[k], 0);
    for (int k = 0; k < 20; k++)
        if (slopes[0][k] != slopes[1][k])
            return 1;
    return 0;
}
"""


@pytest.mark.slow
def test_threads_that_call_a_function_at_once_share_nothing(tmp_path):
    exported = Exported(tmp_path, SOLVE, "value_and_grad")
    (tmp_path / "main.c").write_text(THREADS)
    made = exported.compile("-g", "-O1", "-fsanitize=thread", "-pthread", output="main", sources=["main.c"])
    done = subprocess.run([made], capture_output=True, text=True)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the sanitizer does not run under this kernel")
    assert not done.returncode, done.stderr


def test_memory_of_unknown_size_is_refused_with_its_place(tmp_path):
    source = "def f(x: f64, k: i64):\n    s = x\n    while s < 9:\n        s = exp(s)\n    return s"
    with pytest.raises(adc.Error, match=r"length depends on values.*\n.*while s < 9") as caught:
        Exported(tmp_path, source, "grad")
    assert caught.value.line == 3
    with pytest.raises(adc.Error, match=r"expm(.|\n)*help: use --emit library"):
        Exported(tmp_path, "def f(x: f64):\n    return expm([[x, 1], [1, x]])[0, 1]", "grad")
    remedied = source.replace("while s < 9:", "for i in range(k):\n        if s >= 9:\n            break")
    exported = Exported(tmp_path, remedied, "grad")
    library = exported.library()
    for k in (0, 1, 6):
        found = exported.called(library, "grad", 0.5, k)[1]
        np.testing.assert_allclose(found[0], jit(remedied, "grad", (0.5, k))[0], rtol=1e-14)


def test_the_page_about_it(tmp_path, monkeypatch):
    """Its declarations are those of the headers, and its program prints what the page says."""
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[3] / "docs" / "c_export.md").read_text("utf-8")
    model = re.search(r'write_text\("""(.*?)"""\)', page, re.DOTALL)
    program = re.search(r"```c\n(#include.*?)```", page, re.DOTALL)
    says = re.search(r"\./main\n(.*?)\n", page)
    assert model
    assert program
    assert says
    Path("model.adc").write_text(model[1])
    Path("main.c").write_text(program[1])
    for command in re.findall(r"^\$ adc (.*)$", page, re.MULTILINE):
        assert main(shlex.split(command)) == 0
    headers = "".join(file.read_text() for file in Path("src").glob("*.h"))
    declared = re.findall(r"^(?:int|size_t|enum|extern) .*;$", page, re.MULTILINE)
    assert len(declared) == 10
    assert not [line for line in declared if line not in headers]
    command = ["gcc", *STRICT, "-O2", "-Isrc", "main.c", "src/loss.c", "-o", "main", "-lm"]
    subprocess.run(command, check=True)
    assert subprocess.run(["./main"], capture_output=True, text=True, check=True).stdout.strip() == says[1]


def test_products_with_directions(tmp_path):
    """Of several results, with lengths that a call compares."""
    source = "def f(x: f64[n], k: i64, a: f64):\n    return x * sin(a), sum(x[:k]) * a\n"
    exported = Exported(tmp_path, source, "jvp,vjp")
    library, f, args = exported.library(), adc.compile(source), (X, 3, 0.7)
    status, found = exported.called(library, "jvp", *args, X[::-1], 0.5)
    assert status == 0
    tangents = adc.jvp(f, args, (X[::-1], None, 0.5))[1]
    for got, want in zip(found, tangents, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)
    found = exported.called(library, "vjp", *args, X[::-1], 0.5)[1]
    cotangents = adc.vjp(f, *args)[1]((X[::-1], 0.5))
    for got, want in zip(found, (cotangents[0], cotangents[-1]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-14)
    assert (
        exported.called(library, "vjp", X, 8, 0.7, X, 0.5)[0]
        == exported.called(library, "jvp", X, 8, 0.7, X, 1)[0]
    )


ELIMINATION = """
def det(a: f64[n, n]):
    m = a
    for k in range(n):
        for i in range(k + 1, n):
            m[i] = m[i] - (m[i, k] / m[k, k]) * m[k]
    return prod(m[k, k] for k in range(n))
"""


def test_lengths_that_change_from_iteration_to_iteration(tmp_path):
    """Their memory is that of the longest; what it held before does not matter."""
    exported = Exported(tmp_path, ELIMINATION, "value,value_and_grad")
    library, a = exported.library(), RNG.uniform(-0.5, 0.5, (5, 5)) + 2 * np.eye(5)
    for what in ("value", "value_and_grad"):
        for size in (5, 1, 0):
            args = (a[:size, :size],)
            status, found = exported.called(library, what, *args)
            assert status == 0
            for got, want in zip(found, jit(ELIMINATION, what, args), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
