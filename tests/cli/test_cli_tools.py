"""`adc explain`, `adc bench`, `adc cache`, and completion in the shell."""

from __future__ import annotations

import re
from unittest import mock

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import store
from adcompiler.cli import main
from adcompiler.cli.samples import lengths

GUARDED = """
def f(x: f64[n], y: f64[n], k: i64, rest: f64):
    return sum(where(x > y, sqrt(x * y), 0)) * k
"""


def test_explain_says_why_what_and_how_much():
    lines = [line.strip() for line in adc.compile(GUARDED).explain().splitlines()]
    assert lines[:5] == [
        "f: gradients",
        "x: flows",
        "y: flows",
        "k: None: i64 has no derivative",
        "rest: None: no result depends on it through a differentiable path (grad gives zeros)",
    ]
    assert "reverse: from r back to 2 inputs, at once" in lines
    saved = lines[
        lines.index("saved by forward for propagate") + 1 : lines.index("computed again by propagate")
    ]
    assert saved == [
        "x: input, f64[n], 8 * n bytes",
        "y: input, f64[n], 8 * n bytes",
        "k: input, i64, 8 bytes",
        "t0: temporary, f64[n], 8 * n bytes",
    ]
    assert lines[-1] == "greater, line 3"


def test_explain_leaves_out_what_wrt_leaves_out():
    text = adc.compile("x * y").explain("x")
    assert "y: not asked for: wrt omits it" in text
    assert re.search(r"saved by forward for propagate\n  y: input, f64, 8 bytes\n", text)
    nothing = adc.compile("floor(x)").explain()
    assert "mode\n  nothing\nsaved by forward for propagate\n  nothing" in nothing


def test_a_gradient_explains_itself():
    assert "reverse: from dx back to 1 input, at once" in adc.grad(adc.compile("x**3")).explain()


def test_lengths_that_are_long_to_write_are_short_in_messages():
    """The length of a slice is an expression of ten operations: its bounds may be negative, or too large."""
    part = adc.compile("def part(x: f64[n, 3], k: i64):\n    return exp(x[k:k + 5] * x[0, 0])")
    x = np.ones((20, 3))
    with pytest.raises(adc.ShapeError) as caught:
        adc.grad(part)(x, 2)
    assert caught.value.cause == "part returns an array of shape (?, 3), not a scalar"
    row = adc.compile("def row(x: f64[n], y: f64[n], k: i64):\n    return exp(x[k:k + 5] * y[0])")
    text = adc.jacobian(row).explain(None, x[:, 0], x[:, 1], 2)
    assert "one cotangent per entry of r[?], at once" in text
    part.split().forward(x, 2)
    lines = [line.strip() for line in part.explain().splitlines()]
    assert "x: input, f64[n, 3], 8 * n * 3 bytes (480 B in the first call)" in lines
    assert "r: temporary, f64[len(r), 3], 8 * len(r) * 3 bytes (120 B in the first call)" in lines


def test_adc_explain(capsys):
    assert main(["explain", "x * y", "--wrt", "x"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == adc.compile("x * y").explain("x")
    assert main(["explain", "sum(x)", "--arg", "x=[1,2]"]) == 0
    assert "x: flows" in capsys.readouterr().out
    assert main(["explain", "x", "--wrt", "z"]) == 2


def test_adc_bench_times_each_program(capsys, tmp_path):
    file = tmp_path / "model.adc"
    file.write_text("def loss(x: f64[n, 3], k: i64, a):\n    return x.sum() * a * k\n")
    assert main(["bench", str(file), "--size", "4", "--seconds", "0"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["first", "call", "median", "fastest", "calls"]
    names = ["value", "value and grad", "forward", "propagate"]
    time = r" +[\d.e+]+ (s|ms|us|ns)"
    for name, row in zip(names, rows, strict=True):
        assert re.fullmatch(f"{name}{time}{time}{time} +5", row)


def test_adc_bench_says_what_it_takes_for_numbers(capsys, tmp_path):
    assert main(["bench", "sum(x * y)", "--size", "100", "--seconds", "0"]) == 0
    assert (
        "note: x, y have no types and are numbers here; for an array write x: f64[n]"
        in capsys.readouterr().err
    )
    np.save(tmp_path / "x.npy", np.ones(3))
    assert main(["bench", "sum(x * y)", "--arg", f"x=@{tmp_path / 'x.npy'}", "--seconds", "0"]) == 0
    assert "note: y has no type and is a number here" in capsys.readouterr().err
    file = tmp_path / "model.adc"
    file.write_text("def f(x: f64[n], y: f64):\n    return sum(x * y)")
    assert main(["bench", str(file), "--size", "100", "--seconds", "0"]) == 0
    assert capsys.readouterr().err == ""


def test_adc_bench_of_types_on_the_command_line(capsys):
    assert main(["bench", "x * y", "--types", "f64[n], f64", "--size", "7", "--seconds", "0"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "value and grad" not in out  # the result is an array
    assert main(["bench", "x * y", "--types", "f64", "--seconds", "0"]) == 2


def answered(capsys, *words):
    """What a command prints, which it does without an error."""
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_show_and_explain_of_types_on_the_command_line(capsys):
    formula = "sum(x**2 * y)"
    assert "(%x: f64[n], %y: f32) ->" in answered(capsys, "show", formula, "--types", "f64[n], f32")
    assert answered(capsys, "show", formula, "--types", "f64[n], f32", "--stage", "source") == f"{formula}\n"
    assert "y: input, f64[n]" in answered(capsys, "explain", formula, "--types", "f64[n], f64[n]")
    assert "for n = 1,000" in answered(capsys, "explain", formula, "--types", "f64[n], f64", "--cost",
                                       "--size", "n=1e3")  # fmt: skip


@pytest.mark.parametrize("written", ["1000", "1e3", "1.5E+3", "n=1_000", "n = 1000"])
def test_lengths_as_they_are_written(written):
    assert lengths([written])[("n" if "n" in written else "")] in (1000, 1500)


@pytest.mark.parametrize("written", ["0", "-5", "1.5", "1e-3", "many", "n=", "1e30"])
def test_what_is_no_length(written):
    with pytest.raises(adc.Error, match="is not a length"):
        lengths([written])


def test_every_backend_can_be_named(capsys):
    for backend in ("cpu", "numpy", "numba"):
        assert answered(capsys, "run", "x**2", "--arg", "x=3", "--backend", backend) == "value = 9.0\n"
    assert "value and grad" in answered(capsys, "bench", "x", "--backend", "numpy", "--seconds", "0")


def test_adc_bench_of_what_has_no_gradient(capsys):
    assert main(["bench", "x > y", "--arg", "x=1", "--seconds", "0"]) == 0
    out = capsys.readouterr().out
    assert "value and grad" not in out
    assert main(["bench", "x * arange(3)", "--seconds", "0"]) == 0  # no scalar: split only
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["value", "forward", "propagate"]


def test_adc_cache_shows_and_clears(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ADC_CACHE_DIR", str(tmp_path))
    kept = tmp_path / "mine.txt"
    kept.write_text("not a kernel")
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: 0 kernels, 0 bytes\n"
    assert adc.compile("x * 1.25 + 7")(2.0) == 9.5
    assert store.contents()[0] == 1
    assert main(["cache"]) == 0
    assert re.fullmatch(rf"{re.escape(str(tmp_path))}: 1 kernel, [\d.]+ KiB\n", capsys.readouterr().out)
    assert main(["cache", "--clear"]) == 0
    assert "removed 1 kernel" in capsys.readouterr().out
    assert (store.contents(), kept.read_text()) == ((0, 0), "not a kernel")
    assert adc.compile("x * 1.25 + 8")(2.0) == 10.5  # compiled again


@pytest.mark.parametrize(("words", "found"), [("adc ch", ["check"]), ("adc run --gr", ["--grad"])])
def test_the_shell_completes_verbs_and_options(words, found, capsys):
    asked = {"_ADC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    with mock.patch.dict("os.environ", asked):
        main([])
    out, errors = capsys.readouterr()
    assert (out.split(), errors) == (found, "")


def test_the_completion_script_is_shown(capsys):
    assert main(["--show-completion", "bash"]) == 0
    assert "complete -o default -F _adc_completion adc" in capsys.readouterr().out
