"""`adc build`: a C library of a function and its gradient, called from C and through ctypes."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.cli import main

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

MODEL = """
def loss(x: f64[n, d], w: f64[d], y: f64[n], scale: f64):
    r = x @ w - y
    return sum(where(abs(r) < 1, r**2, 2 * abs(r) - 1)) * scale + logsumexp(w) + x.std()
"""
SHORT = """
def loss(x: f64[n, d], w: f64[d], y: f64[n], scale: f64):
    r = x @ w - y
    return sum(where(abs(r) < 1, r**2, 2 * abs(r) - 1)) * scale
"""
PROGRAM = """
#include <stdio.h>
#include "loss.h"

int main(void)
{
    double x[] = {1, 2, 3, 4, 5, 6}, w[] = {0.5, -0.25}, y[] = {0, 3, 1}, r, dx[6], dw[2], dy[3], ds;
    if (loss(3, 2, x, w, y, 2.0, &r) || loss_value_and_grad(3, 2, x, w, y, 2.0, &r, dx, dw, dy, &ds))
        return 1;
    printf("%.17g %.17g %.17g %.17g %.17g\\n", r, dx[5], dw[1], dy[0], ds);
    return 0;
}
"""
DOUBLES, INTEGER = ctypes.POINTER(ctypes.c_double), ctypes.c_int64


def build(folder: Path, source: str, *options: str) -> ctypes.CDLL:
    """The library of a program in a file."""
    file = folder / "model.adc"
    file.write_text(source)
    assert main(["build", str(file), "-o", str(folder / "lib"), *options]) == 0
    return ctypes.CDLL(str(next((folder / "lib").glob("lib*"))))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


@pytest.mark.slow
def test_a_c_program_needs_no_python(tmp_path, capsys):
    build(tmp_path, SHORT)
    header, library = (Path(line) for line in capsys.readouterr().out.splitlines())
    assert (header.name, library.stem) == ("loss.h", "libloss")
    (tmp_path / "main.c").write_text(PROGRAM)
    command = ["cc", "-Wall", "-Werror", f"-I{header.parent}", str(tmp_path / "main.c"), str(library)]
    subprocess.run([*command, "-o", str(tmp_path / "main"), f"-Wl,-rpath,{library.parent}"], check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True, env={})
    f = adc.compile(SHORT)
    args = np.arange(1.0, 7).reshape(3, 2), np.array([0.5, -0.25]), np.array([0.0, 3.0, 1.0]), 2.0
    value, (dx, dw, dy, ds) = adc.value_and_grad(f)(*args)
    want = [value, dx[2, 1], dw[1], dy[0], ds]
    assert [float(word) for word in done.stdout.split()] == pytest.approx(want, rel=1e-14)


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("options", [(), ("--native",)])
def test_large_arrays_in_many_blocks(tmp_path, options):
    library = build(tmp_path, MODEL, *options)
    random = np.random.default_rng(0)
    n, d = 3000, 17
    x, w, y = random.normal(size=(n, d)), random.normal(size=d), random.normal(size=n)
    r, dx, dw, dy, ds = np.zeros(1), np.zeros((n, d)), np.zeros(d), np.zeros(n), np.zeros(1)
    arrays = [pointer(a) for a in (x, w, y)]
    results = [pointer(a) for a in (r, dx, dw, dy, ds)]
    call = library.loss_value_and_grad
    assert call(INTEGER(n), INTEGER(d), *arrays, ctypes.c_double(1.5), *results) == 0
    value, grads = adc.value_and_grad(adc.compile(MODEL))(x, w, y, 1.5)
    assert r[0] == pytest.approx(value, rel=1e-13)
    for got, want in zip((dx, dw, dy, ds[0]), grads, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_coordinates_of_a_iteration(tmp_path):
    """Rows of an iteration are on the stack, as in Python."""
    source = """
def energy(x: f64[n, 3]):
    r = [sqrt(sum(x[i, a]**2 for a in range(3)) + 1) for i in range(n)]
    u = [[x[i, a] / r[i] for a in range(3)] for i in range(n)]
    return sum((u[i, 0] * x[i, 1] - u[i, 2])**2 * u[i, (i + 1) % 3] for i in range(n))
"""
    library = build(tmp_path, source)
    x, r = np.random.default_rng(0).normal(size=(9, 3)), np.zeros(1)
    f = adc.compile(source)
    assert library.energy(INTEGER(9), pointer(x), pointer(r)) == 0
    assert r[0] == pytest.approx(f(x), rel=1e-13)
    assert "np.empty" in f.show("kernel")


@pytest.mark.slow
def test_every_type_and_kind_of_result(tmp_path, capsys):
    source = """
def f(x: f32[n], k: i64, flag: bool, double: f64[n, 3]):
    y = x * k
    return y, y, x, flag, x > 1, k, double.sum(axis=0)
"""
    library = build(tmp_path, source)
    text = (tmp_path / "lib" / "f.h").read_text()
    assert "int f(int64_t n, const float *x, int64_t k, uint8_t flag, const double *_double, " in text
    assert "value_and_grad" not in text
    x, z = np.array([0.5, 2.0], np.float32), np.arange(6.0).reshape(2, 3)
    results = [np.asarray(r) for r in adc.compile(source)(x, -3, True, z)]
    out = [np.zeros(r.shape, r.dtype) for r in results]
    given = INTEGER(2), pointer(x), INTEGER(-3), ctypes.c_uint8(1), pointer(z)
    assert library.f(*given, *map(pointer, out)) == 0
    for got, want in zip(out, results, strict=True):
        np.testing.assert_array_equal(got, want)


POWER = """
def power(x: f64[n], k: i64):
    s = 1.0
    for i in range(k):
        s = s * sum(x)
    return s
"""


@pytest.mark.slow
def test_how_often_a_loop_runs_is_what_the_argument_says(tmp_path):
    library, f = build(tmp_path, POWER), adc.compile(POWER)
    text = (tmp_path / "lib" / "power.h").read_text()
    assert "int power(int64_t n, const double *x, int64_t k, double *r);" in text
    for k in (-1, 0, 1, 3):
        x, r, dx = np.array([0.5, 2.0]), np.full(1, np.nan), np.full(2, np.nan)
        given = INTEGER(2), pointer(x), INTEGER(k), pointer(r)
        assert library.power(*given) == 0
        assert r[0] == f(x, k)
        assert library.power_value_and_grad(*given, pointer(dx)) == 0
        np.testing.assert_allclose(dx, adc.grad(f)(x, k), rtol=1e-14)
        assert r[0] == f(x, k)


@pytest.mark.slow
def test_lengths_that_arguments_give(tmp_path):
    """As those of results, of temporaries and of loops beside each other; the header names them."""
    source = """
def f(m: i64, scale: f64, n: i64):
    y = zeros(m * 2) + scale
    for i in range(n):
        y = y * 2 + sum(y)
    return y, sum(j * scale for j in range(m))
"""
    library = build(tmp_path, source)
    text = (tmp_path / "lib" / "f.h").read_text()
    assert "int f(int64_t m, double scale, int64_t n, double *" in text
    assert "double[m * 2]" in text
    y, r = np.zeros(6), np.zeros(1)
    assert library.f(INTEGER(3), ctypes.c_double(0.5), INTEGER(2), pointer(y), pointer(r)) == 0
    want = adc.compile(source)(3, 0.5, 2)
    np.testing.assert_array_equal(y, want[0])
    assert r[0] == want[1]


@pytest.mark.slow
def test_a_call_that_a_check_refuses_has_a_status(tmp_path):
    library = build(tmp_path, "def f(x: f64[n], i: i64, k: i64):\n    return sum(x[k:]) * x[i % 2]")
    x, r = np.arange(4.0), np.zeros(1)
    assert library.f(INTEGER(4), pointer(x), INTEGER(1), INTEGER(2), pointer(r)) == 0
    assert r[0] == 5
    assert library.f(INTEGER(4), pointer(x), INTEGER(1), INTEGER(-2), pointer(r)) == 1
    assert library.f(INTEGER(1), pointer(x), INTEGER(1), INTEGER(0), pointer(r)) == 1


COMPARED = {  # programs, and lengths n and k that do not fit
    "sum(x[k - 1 - i] * y[i] for i in range(k))": (3, 4),
    "x[k] * y[1]": (3, 3),
    "sum([x[2 * i] * y[i] for i in range(k)])": (4, 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("result", COMPARED)
def test_lengths_that_do_not_fit_have_a_status(tmp_path, result):
    """They are compared before anything is read."""
    source = f"def f(x: f64[n], y: f64[n], k: i64):\n    return {result}\n"
    library, f = build(tmp_path, source), adc.compile(source)
    x, y, r, dx, dy = np.arange(1.0, 9), np.cos(np.arange(8.0)), np.full(1, np.nan), np.zeros(8), np.zeros(8)

    def called(n: int, k: int) -> tuple[int, int]:
        given = INTEGER(n), pointer(x), pointer(y), INTEGER(k), pointer(r)
        return library.f(*given), library.f_value_and_grad(*given, pointer(dx), pointer(dy))

    for n, k in ((8, 3), (5, 2), (3, 1)):
        assert called(n, k) == (0, 0)
        value, slopes = adc.value_and_grad(f)(x[:n], y[:n], k)
        assert r[0] == pytest.approx(value, rel=1e-14)
        np.testing.assert_allclose((dx[:n], dy[:n]), slopes, rtol=1e-14)
    n, k = COMPARED[result]
    assert called(n, k) == (1, 1)
    with pytest.raises(adc.OutOfRangeError):
        f(x[:n], y[:n], k)


LOOPS = {
    "a loop until": "while s < k:\n        s = s * 1.5 + sum(x * x)",
    "loops in a loop": "for i in range(k):\n        for j in range(i):\n            s = s * 0.9 + sum(x) * j",
}


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("loop", LOOPS)
def test_stacks_whose_lengths_the_program_computes(tmp_path, loop):
    source = f"def f(x: f64[n], k: i64):\n    s = 1.0\n    {LOOPS[loop]}\n    return s\n"
    library, f = build(tmp_path, source), adc.compile(source)
    x, r, dx = np.array([0.5, 0.25, 2.0]), np.full(1, np.nan), np.zeros(3)
    for k in (0, 1, 7):
        given = INTEGER(3), pointer(x), INTEGER(k), pointer(r)
        for _ in range(100):  # what is allocated is freed
            assert library.f_value_and_grad(*given, pointer(dx)) == 0
        value, slope = adc.value_and_grad(f)(x, k)
        assert r[0] == pytest.approx(value, rel=1e-14)
        np.testing.assert_allclose(dx, slope, rtol=1e-14)


@pytest.mark.slow
def test_parameters_without_a_type_are_numbers_which_a_note_says(tmp_path, capsys):
    folder = str(tmp_path / "lib")
    assert main(["build", "sum(x * y)", "--name", "cost", "-o", folder]) == 0
    assert "note: x, y have no types and are numbers in C; " in capsys.readouterr().err
    assert main(["build", "sum(x * y)", "--name", "cost", "--types", "f64[n], f64", "-o", folder]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_types_on_the_command_line(tmp_path):
    folder = tmp_path / "lib"
    command = ["build", "sum((a * x - y)**2) * gamma(a)", "--name", "cost", "-o", str(folder), "--wrt", "a"]
    assert main([*command, "--types", "f64, f64[n], f64[n]"]) == 0
    library = ctypes.CDLL(str(next(folder.glob("libcost*"))))
    x, y, r, da = np.array([1.0, 2.0]), np.array([0.5, 3.0]), np.zeros(1), np.zeros(1)
    given = INTEGER(2), ctypes.c_double(1.25), pointer(x), pointer(y), pointer(r), pointer(da)
    assert library.cost_value_and_grad(*given) == 0
    f = adc.compile("sum((a * x - y)**2) * gamma(a)")
    assert (r[0], da[0]) == pytest.approx(adc.value_and_grad(f, "a")(1.25, x, y), rel=1e-13)


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (["x", "--types", "f64, f64"], 2, "--types has 2 types for the parameters x"),
        (["x", "--types", "f65"], 1, "not a type"),
        (["x * y", "--types", "f64[n], f64[n]", "--wrt", "x"], 1, "not a scalar"),
        (["x", "--name", "double"], 1, "'double' cannot be the name of a C function"),
        (
            ["x", "--name", "int"],
            1,
            "C has the name\n  help: give the function another name: adc build --name my_int",
        ),
        (["x", "--name", "expf"], 1, "C has the name"),
        (["x", "--name", "errno"], 1, "C has the name"),
        (["x", "--name", "2x"], 1, "names have letters, digits and _\n"),
        (["x[0]", "--types", "f64[n]", "--emit", "ptx"], 1, "needs lengths checked at each call"),
    ],
)
def test_what_cannot_be_built_is_refused(tmp_path, capsys, command, code, says):
    assert main(["build", *command, "-o", str(tmp_path / "lib")]) == code
    assert says in capsys.readouterr().err
    assert not (tmp_path / "lib").exists()


def test_a_name_that_is_proposed_can_be_had(tmp_path):
    assert main(["build", "x", "--name", "my_int", "-o", str(tmp_path)]) == 0
    assert "int my_int(double x, double *r);" in (tmp_path / "my_int.h").read_text()


def test_without_a_compiler_it_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["build", "x", "-o", str(tmp_path / "lib")]) == 1
    assert "there is no C compiler (cc)" in capsys.readouterr().err


# -- what is built -----------------------------------------------------------------------------------

SMOOTH = """
def loss(x: f64[n, d], w: f64[d], y: f64[n], scale: f64):
    r = x @ w - y
    return sum(log(1 + r**2)) * scale + sum(w**3)
"""
SECOND = """
#include <stdio.h>
#include "loss.h"

int main(void)
{
    const double x[] = {1, 2, 3, 4, 5, 6}, w[] = {0.5, -0.25}, y[] = {0, 3, 1}, v[] = {1, -2};
    double r, g[2], gs, p[2], ps, a[4], b[2], c[2], d, j[2], js;
    if (loss(3, 2, x, w, y, 2.0, &r) || loss_grad(3, 2, x, w, y, 2.0, g, &gs)
        || loss_hvp(3, 2, x, w, y, 2.0, v, 0.5, p, &ps)
        || loss_hessian(3, 2, x, w, y, 2.0, a, b, c, &d) || loss_jacobian(3, 2, x, w, y, 2.0, j, &js))
        return 1;
    printf("%.17g %.17g %.17g %.17g %.17g %.17g %.17g ", r, g[0], g[1], gs, p[0], p[1], ps);
    printf("%.17g %.17g %.17g %.17g ", a[0], a[1], a[2], a[3]);
    printf("%.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g", b[0], b[1], c[0], c[1], d, j[0], j[1], js);
    return 0;
}
"""


@pytest.mark.slow
def test_a_c_program_calls_what_was_listed(tmp_path, capsys):
    """The value, its gradient, the Hessian times a direction, the Hessian, the Jacobian: one library."""
    build(tmp_path, SMOOTH, "--what", "value,grad,hvp,hessian,jacobian", "--wrt", "w,scale")
    header, library = (Path(line) for line in capsys.readouterr().out.splitlines())
    (tmp_path / "main.c").write_text(SECOND)
    command = ["cc", "-Wall", "-Werror", f"-I{header.parent}", str(tmp_path / "main.c"), str(library)]
    subprocess.run([*command, "-o", str(tmp_path / "main"), f"-Wl,-rpath,{library.parent}"], check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True, env={})
    f, wrt = adc.compile(SMOOTH), ("w", "scale")
    args = np.arange(1.0, 7).reshape(3, 2), np.array([0.5, -0.25]), np.array([0.0, 3.0, 1.0]), 2.0
    grads = adc.grad(f, wrt)(*args)
    want = [f(*args), *grads, *adc.hvp(f, wrt)(args, (np.array([1.0, -2.0]), 0.5))]
    want += [block for row in adc.hessian(f, wrt)(*args) for block in row] + [*grads]
    flat = np.concatenate([np.ravel(one) for one in want])
    np.testing.assert_allclose([float(word) for word in done.stdout.split()], flat, rtol=1e-13)


WHATS = {
    "value": "(double a, const double *x, double *r)",
    "grad": "_grad(double a, const double *x, double *da, double *dx)",
    "value_and_grad": "_value_and_grad(double a, const double *x, double *r, double *da, double *dx)",
    "hvp": "_hvp(double a, const double *x, double v_a, const double *v_x, double *hvp_a, double *hvp_x)",
    "jacobian": "_jacobian(double a, const double *x, double *j_a, double *j_x)",
    "hessian": "_hessian(double a, const double *x, double *h_a_a, double *h_a_x, double *h_x_a,"
    " double *h_x_x)",
}


@pytest.mark.thinned(4)
@pytest.mark.parametrize("what", WHATS)
def test_each_is_built_alone_and_declared_with_names_that_tell(tmp_path, what):
    """Sizes first, then the arguments, then directions, then results."""
    build(tmp_path, "def f(a, x: f64[3]):\n    return a**2 * sum(exp(a * x))", "--what", what)
    text = (tmp_path / "lib" / "f.h").read_text()
    assert [line for line in text.splitlines() if line.startswith("int ")] == [f"int f{WHATS[what]};"]


def test_blocks_of_several_results_are_numbered(tmp_path):
    library = build(tmp_path, "def f(a, b):\n    return a * b, a - b**2", "--what", "jacobian")
    text = (tmp_path / "lib" / "f.h").read_text()
    assert "(double a, double b, double *j0_a, double *j0_b, double *j1_a, double *j1_b)" in text
    out = [np.full(1, np.nan) for _ in range(4)]
    assert library.f_jacobian(ctypes.c_double(3), ctypes.c_double(5), *map(pointer, out)) == 0
    assert [float(o[0]) for o in out] == [5, 3, 1, -10]


@pytest.mark.slow
def test_a_product_compares_the_lengths_that_the_function_compares(tmp_path):
    """Directions are inputs more, behind which the value of an integer is found all the same."""
    source = "def f(x: f64[n], y: f64[m], k: i64):\n    return sum(x[i]**3 * y[i] for i in range(k))"
    library = build(tmp_path, source, "--what", "hvp", "--wrt", "x")
    x, y, v, out = np.arange(1.0, 9), np.cos(np.arange(8.0)), np.ones(8), np.full(8, np.nan)
    for n, m, k, code in ((8, 3, 3, 0), (3, 8, 3, 0), (3, 3, 4, 1), (8, 3, 4, 1), (3, 8, 4, 1)):
        given = INTEGER(n), INTEGER(m), pointer(x), pointer(y), INTEGER(k), pointer(v), pointer(out)
        assert library.f_hvp(*given) == code
        if not code:
            want = np.where(np.arange(n) < k, 6 * x[:n] * y[0:1].repeat(n), 0)
            want[:k] = 6 * x[:k] * y[:k]
            np.testing.assert_allclose(out[:n], want, rtol=1e-14)


@pytest.mark.parametrize(
    ("source", "options", "code", "says"),
    [
        (
            "x",
            ["--what", "hvs"],
            2,
            "--what got unknown hvs\n  help: did you mean hvp? it takes value, grad, ",
        ),
        ("x", ["--what", ","], 2, "--what is empty"),
        ("x", ["--what", "value", "--emit", "cuda"], 2, "--emit got unknown cuda"),
        ("x", ["--what", "grad", "--types", "f64[n]"], 1, "not a scalar"),
        ("x", ["--what", "hvp", "--types", "f64[n]"], 1, "not a scalar"),
        ("x", ["--what", "hessian", "--types", "i64"], 1, "has no derivative"),
        ("x", ["--what", "hvp", "--types", "i64"], 1, "x is an integer, which has no derivative"),
        ("1.5", ["--what", "hvp"], 1, "f has no float parameter"),
        ("x", ["--what", "value,grad", "--wrt", "z"], 2, "f(x) has no parameter z"),
    ],
)
def test_what_cannot_be_listed_is_refused(tmp_path, capsys, source, options, code, says):
    assert main(["build", source, *options, "-o", str(tmp_path / "lib")]) == code
    assert says in capsys.readouterr().err
    assert not (tmp_path / "lib").exists()


@pytest.mark.parametrize(
    ("options", "files"),
    [
        (["--emit", "c", "-o", "m.c"], ["m.h", "m.c"]),
        (["--emit", "C", "-o", "new/m-1.c", "--name", "g"], ["new/m-1.h", "new/m-1.c"]),
        (["--emit", "c", "-o", "v1.0"], ["v1.0/f.h", "v1.0/f.c"]),
        (["--emit", "c", "-o", "folder.c"], ["folder.c/f.h", "folder.c/f.c"]),
        (["--emit", "py", "-o", "m.py"], ["m.py"]),
        (["--emit", "latex", "-o", "m.tex"], ["m.tex"]),
    ],
)
def test_output_may_name_the_file(tmp_path, monkeypatch, capsys, options, files):
    """The file of this name is written, and C compiles with the header beside it; a folder stays one."""
    monkeypatch.chdir(tmp_path)
    Path("folder.c").mkdir()
    assert main(["build", "x**2", *options]) == 0
    assert capsys.readouterr().out.splitlines() == files
    assert all(Path(file).is_file() for file in files)
    if files[-1].endswith(".c"):
        subprocess.run(["cc", "-std=c99", "-Wall", "-Werror", "-c", files[-1], "-o", "m.o"], check=True)


def test_a_file_for_casadi_may_have_any_name(tmp_path):
    file = tmp_path / "external.c"
    assert main(["build", "x**2", "--emit", "c", "--abi", "casadi", "-o", str(file)]) == 0
    assert "int f(" in file.read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["-o", "m.c"],
            "-o m.c is a file of --emit c, not of --emit library\n  help: add --emit c, or",
        ),
        (["-o", "libm.so"], "-o libm.so is a file, but --emit library writes several\n  help: give a folder"),
        (["--emit", "c,python", "-o", "m.c"], "-o m.c is a file, but --emit c,python writes several"),
        (
            ["--emit", "c", "-o", "m.h"],
            "-o m.h is a file, but --emit c writes several\n  help: give a",
        ),
        (["--emit", "dot", "-o", "a/m.dot"], "help: give a folder: -o a/lib --name m"),
    ],
)
def test_a_file_that_is_not_the_only_one_is_refused(tmp_path, monkeypatch, capsys, options, says):
    monkeypatch.chdir(tmp_path)
    assert main(["build", "x**2", *options]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_derivatives_have_the_names_of_the_field(tmp_path, capsys):
    assert main(["build", "x**2", "--emit", "c", "--what", "gradient,hess", "-o", str(tmp_path)]) == 0
    capsys.readouterr()
    header = (tmp_path / "f.h").read_text()
    assert "int f_grad(" in header
    assert "int f_hessian(" in header


def test_json_names_files_functions_and_declarations(tmp_path, capsys):
    assert main(["build", "x**2", "--what", "grad,value", "-o", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [Path(file).name for file in found["files"]] == ["f.h", Path(found["files"][1]).name]
    assert found["functions"] == [
        {"name": "f_grad", "what": "grad", "declaration": "int f_grad(double x, double *dx)"},
        {"name": "f", "what": "value", "declaration": "int f(double x, double *r)"},
    ]


def test_without_the_toolkit_of_cuda_it_says_what_to_install(tmp_path, capsys, monkeypatch):
    def missing(*_: object) -> None:
        raise RuntimeError("libnvrtc was not found\nin any place")

    monkeypatch.setattr("adcompiler.cli.build.build", missing)
    command = ["build", "x", "--types", "f64", "--emit", "ptx,cubin", "-o", str(tmp_path / "lib")]
    assert main(command) == 1
    said = "adc: no ptx and cubin available here: libnvrtc was not found\n  help: pip install "
    assert said in capsys.readouterr().err
