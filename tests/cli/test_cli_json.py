"""`--json`: each verb prints one object with the fields that docs/cli.md names, and so does each error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

import adcompiler
from adcompiler.cli import main

SUM = ["sum(a * x)", "--arg", "a=2", "--arg", "x=[1,2,3]"]


@pytest.fixture
def answer(capsys, tmp_path, monkeypatch):
    """What a command prints, which is one object on one line; it ends with `code`."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str, code: int = 0) -> dict[str, Any]:
        assert main([*args, "--json"]) == code
        out = capsys.readouterr().out
        assert out.count("\n") == 1
        return json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))

    return run


VERBS: dict[str, tuple[list[str], set[str]]] = {
    "run": (SUM, {"value"}),
    "check": (SUM, {"function", "order", "worst", "comparisons", "notes"}),
    "show": (["a * b"], {"function", "stage", "text"}),
    "explain": (["a * b"], {"function", "gradients", "made_by", "mode", "saved", "made_again"}),
    "bench": (["a * b", "--seconds", "0"], {"function", "programs"}),
    "cache": ([], {"folder", "kernels", "bytes", "removed"}),
}


@pytest.mark.parametrize("verb", VERBS)
def test_the_fields_of_each_verb(answer, verb):
    args, fields = VERBS[verb]
    assert answer(verb, *args).keys() == fields


def documented(row: str) -> set[str]:
    """The words in code on a row of the table of fields."""
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    return set(
        re.findall(r"`(\w+)`", re.search(rf"^\| {row} \|(.*)$", page.read_text("utf-8"), re.MULTILINE)[1])
    )


def every_field(value: Any) -> Iterator[str]:
    """The fields of an object and of all objects in its lists."""
    if isinstance(value, list):
        for part in value:
            yield from every_field(part)
    elif isinstance(value, dict):
        yield from value
        yield from every_field([part for part in value.values() if isinstance(part, list)])


TABLE = {f"`{verb}`": [verb, *args] for verb, (args, _) in VERBS.items()} | {
    "`explain --why-none`": ["explain", "floor(m)", "--why-none", "m"],
    "`explain --cost`": ["explain", "sum(a * x)", "--cost", "--arg", "a=2", "--arg", "x=[1,2]"],
    "`explain --nan`": ["explain", "sqrt(x)", "--nan", "--arg", "x=0"],
    "an error": ["run", "1 + sine(2)"],
}  # fmt: skip


@pytest.mark.parametrize("row", TABLE)
def test_every_field_is_documented(answer, row, monkeypatch):
    for name in ("ceilings.CEILING_SECONDS", "cost.KERNEL_SECONDS"):
        monkeypatch.setattr(f"adcompiler.runtime.reports.{name}", 0.0)
    found = answer(*TABLE[row], code=int(row == "an error"))
    if row == "an error":
        found = {"error": [found["error"]]}
    assert set(every_field(found)) <= documented(row)


def test_run_has_the_value_and_the_gradient_by_parameter(answer):
    assert answer("run", *SUM, "--grad") == {"value": 12.0, "grad": {"a": 6.0, "x": [2.0, 2.0, 2.0]}}
    assert answer("run", "1 / x, -1 / x, x / x", "-a", "x=0") == {"value": ["inf", "-inf", "nan"]}


def test_check_has_each_comparison_with_both_numbers(answer):
    found = answer("check", "x**3 * y", "-a", "x=2", "-a", "y=1", "--order", "1")
    assert found["worst"] == max(c["error"] for c in found["comparisons"])
    assert {c["reference"] for c in found["comparisons"]} == {"finite differences", "complex step"}
    for c in found["comparisons"]:
        assert c["value"] == pytest.approx(c["expected"], rel=1e-6)
    wrong = answer("check", "floor(x) * x", "-a", "x=1.0", code=1)["error"]
    assert (wrong["kind"], wrong["exit_code"]) == ("GradientError", 1)


def test_explain_has_what_is_saved_in_fields(answer):
    found = answer("explain", "def f(x: f64[n], k: i64):\n    return sum(exp(x) * x) * k")
    assert found["gradients"] == [
        {"name": "x", "flows": True, "why": None},
        {"name": "k", "flows": False, "why": "None: i64 has no derivative"},
    ]
    assert {(s["name"], s["kind"], s["dtype"], *s["lengths"]) for s in found["saved"]} >= {
        ("x", "input", "f64", "n"),
        ("k", "input", "i64"),
    }


def test_explain_nan_and_why_none_have_their_fields(answer):
    found = answer("explain", "sqrt(x) * y", "--nan", "-a", "x=0", "-a", "y=0")
    assert (found["found"], found["operation"], found["line"], found["column"]) == (True, "sqrt", 1, 1)
    assert found["operands"] == {"x": 0.0}
    why = answer("explain", "floor(m) * x", "--why-none", "m")
    assert why["parameter"] == "m"
    assert why["message"].startswith("the gradient of f with respect to m is None")


def test_show_has_the_text_that_is_printed(answer):
    assert answer("show", "a * b", "--stage", "forward") == {
        "function": "f",
        "stage": "forward",
        "text": adcompiler.compile("a * b").show("forward").rstrip("\n"),
    }


def test_bench_has_seconds(answer):
    rows = answer("bench", "a * b", "--seconds", "0")["programs"]
    assert [row["name"] for row in rows] == ["value", "value and grad", "forward", "propagate"]
    assert all(0 < row["fastest"] <= row["median"] < 60 for row in rows)
    assert {row["calls"] for row in rows} == {5}


# -- errors ------------------------------------------------------------------------------------------

ERRORS: list[tuple[list[str], int, dict[str, Any]]] = [
    (["run", "1 + sine(2)"], 1, {"kind": "ParseError", "message": "unknown function 'sine'", "line": 1,
                                 "column": 5, "file": "<expression>", "remedy": "did you mean sin or sinh?"}),
    (["show", "m.adc"], 1, {"file": "m.adc", "line": 2, "column": 16}),
    (["run", "a"], 2, {"kind": "UsageError", "message": "f(a) is missing a", "line": None}),
    (["run", "x", "-a", "x=@t.csv"], 1, {"file": "t.csv", "line": 3, "column": 1}),
    (["run", "gone.adc"], 1, {"message": "there is no file gone.adc", "file": None}),
    (["bench", "a", "--size", "zero"], 2, {"message": "--size zero is not a length"}),
    (["check", "a", "--order", "x"], 2, {"remedy": "adc check --help", "kind": "UsageError"}),
    (["explain"], 2, {"message": "Missing argument 'SOURCE'.", "kind": "UsageError"}),
    (["rnu", "a"], 2, {"kind": "UsageError"}),
    (["build", "x", "--types", "f65"], 1, {"column": 10}),
    (["cache", "--what"], 2, {"exit_code": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("args", "code", "fields"), ERRORS)
def test_an_error_is_an_object_too(answer, tmp_path, args, code, fields):
    (tmp_path / "m.adc").write_text("def f(a):\n    return a + sine(a)\n", "utf-8")
    (tmp_path / "t.csv").write_text("x\n1\none\n", "utf-8")
    error = answer(*args, code=code)["error"]
    assert list(error) == ["kind", "message", "file", "line", "column", "remedy", "exit_code"]
    assert error["exit_code"] == code
    assert {name: error[name] for name in fields} == fields


def test_a_fault_of_ours_is_one_too(answer, monkeypatch):
    monkeypatch.setattr("adcompiler.cli.show.function_of", lambda *_: 1 / 0)
    error = answer("show", "a", code=70)["error"]
    assert (error["kind"], error["exit_code"]) == ("ZeroDivisionError", 70)
    assert "ADC_TRACEBACK=full" in error["remedy"]


def test_notes_and_what_a_python_file_prints_go_to_stderr(capsys, tmp_path):
    file = tmp_path / "m.py"
    file.write_text("import adcompiler as adc\nprint('hello')\nf = adc.compile('2 * x')\ng = adc.grad(f)\n")
    assert main(["run", str(file), "--arg", "x=3", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"value": 6.0}
    assert err == f"hello\nnote: using {file}:f, which no other one calls; others: g\n"


def test_an_expression_behind_two_dashes_asks_for_nothing(capsys):
    assert main(["run", "-a", "x=3", "--", "-x**2"]) == 0
    assert capsys.readouterr().out == "value = -9.0\n"
    assert main(["run", "-a", "x=3", "--json", "--", "-x**2"]) == 0
    assert json.loads(capsys.readouterr().out) == {"value": -9.0}
