"""`adc` as a user meets it: what it prints, writes and returns."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from adcompiler.cli import app, main
from adcompiler.cli.run import run_source
from adcompiler.cli.show import Stage
from adcompiler.cli.source import Backend

MISRA = Path(__file__).parents[2] / "examples" / "misra1a"
ADC = [sys.executable, "-m", "adcompiler.cli"]
COLOURS = ("FORCE_COLOR", "NO_COLOR", "PY_COLORS", "TERM")
ENV = {name: value for name, value in os.environ.items() if name not in COLOURS}
ENV |= {"PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm-256color"}
POINT = ["--arg", "b1=250", "--arg", "b2=0.0005", "--arg", f"@{MISRA}/misra1a.csv"]


class Done(NamedTuple):
    code: int
    out: str
    err: str

    def values(self) -> dict[str, float]:
        """The lines `name = value`."""
        return {name: float(value) for name, value in (line.split(" = ") for line in self.out.splitlines())}


@pytest.fixture
def adc(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*args: object) -> Done:
        code = main([str(arg) for arg in args])
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def failing(adc):
    """Run a command that prints nothing but an error, which starts and ends as given."""

    def run(code: int, start: str, remedy: str, *args: object) -> str:
        done = adc(*args)
        assert (done.code, done.out) == (code, "")
        assert done.err.startswith(start), done.err
        assert remedy in done.err.split("\n  help: ")[1], done.err
        return done.err

    return run


# -- the main job ----------------------------------------------------------------------------------


def misra_by_hand(b1: float, b2: float) -> dict[str, float]:
    y, x = np.loadtxt(MISRA / "misra1a.csv", delimiter=",", skiprows=1, unpack=True)
    decay = np.exp(-b2 * x)
    residual = y - b1 * (1 - decay)
    return {
        "value": np.sum(residual**2),
        "grad_b1": np.sum(-2 * residual * (1 - decay)),
        "grad_b2": np.sum(-2 * residual * b1 * x * decay),
    }


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_value_and_gradient_of_a_file(adc, backend):
    done = adc("run", f"{MISRA}/misra1a.adc:loss", *POINT, "--grad", "b1,b2", "--backend", backend)
    assert (done.code, done.err) == (0, "")
    assert done.values() == pytest.approx(misra_by_hand(250, 0.0005), rel=1e-12)


def test_grad_alone_is_of_every_float_parameter(adc):
    done = adc("run", "--grad", "a * sin(b) + sum(x)", "-a", "a=2", "-a", "b=0.5", "-a", "x=[1,2]", "--json")
    grad = json.loads(done.out)["grad"]
    assert grad == {"a": pytest.approx(np.sin(0.5)), "b": pytest.approx(2 * np.cos(0.5)), "x": [1.0, 1.0]}


def test_grad_leaves_out_what_is_static_or_integer(adc):
    done = adc(
        "run",
        "def f(x, n: static, k: i64):\n return k * x**n",
        "--grad",
        "-a",
        "x=2",
        "-a",
        "n=3",
        "-a",
        "k=5",
    )
    assert done.values() == {"value": 40, "grad_x": 60}


# -- SOURCE ----------------------------------------------------------------------------------------


def test_the_last_definition_of_a_file_and_a_note_that_says_so(adc):
    done = adc("run", MISRA / "misra1a.adc", *POINT)
    assert done.values() == pytest.approx({"value": misra_by_hand(250, 0.0005)["value"]})
    assert done.err == f"note: using {MISRA}/misra1a.adc:loss, which no other one calls; others: model\n"


def test_a_file_of_one_expression(adc, tmp_path):
    (tmp_path / "area.adc").write_text("pi * r**2\n", "utf-8")
    for source in ("area.adc", "area.adc:area"):
        assert adc("run", source, "--arg", "r=1") == (0, f"value = {np.pi}\n", "")


def test_an_expression_that_starts_with_a_minus(adc):
    assert adc("run", "-a", "x=3", "--", "-x**2") == (0, "value = -9.0\n", "")


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2.5", 2.5), ("1e-3", 0.001), ("-3", -3.0), ("0.1", 0.1), ("5e-324", 5e-324), (" 1_000 ", 1000.0),
        ("inf", "inf"), ("-inf", "-inf"), ("nan", "nan"), ("true", True), ("False", False),
        ("[1, 2, 3]", [1.0, 2.0, 3.0]), ("[]", []), ("[[1,2],[3,.5]]", [[1.0, 2.0], [3.0, 0.5]]),
        ("[1., inf, -nan]", [1.0, "inf", "nan"]), ("[true, False]", [True, False]),
    ],
)  # fmt: skip
def test_numbers_and_lists(adc, text, value):
    done = adc("run", "x", "--arg", f"x={text}", "--json")
    assert json.loads(done.out) == {"value": value}


def test_integers_where_the_annotation_asks_for_them(adc, tmp_path):
    (tmp_path / "k.csv").write_text("k\n4\n5\n", "utf-8")
    for whole in ("i64", "int"):
        source = f"def f(n: {whole}, x: i64[m], k: i64[m], flag: bool):\n return n if flag else 0, x, k"
        args = ("-a", f"n={2**62 + 1}", "-a", "x=[1,2]", "-a", "@k.csv", "-a", "flag=true")
        assert json.loads(adc("run", source, *args, "--json").out) == {"value": [2**62 + 1, [1, 2], [4, 5]]}


@pytest.fixture
def data(tmp_path):
    """Files that hold x = 1, 2, 3 and y = 4, 5, 6, each in its own way."""
    x, y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "xy.npz", x=x, y=y, label=np.array(["a"]))
    np.savez(tmp_path / "one.npz", anything=x)
    texts = {
        "xy.csv": "label,y, x\na,4, 1\nb,5,2.0\nc,6,3\n",
        "bom.csv": "\ufeffx\r\n1\r\n2\r\n3\r\n",
        "quoted.csv": '"x","a, b"\n1,"p, q"\n2,"r"\n3,"s"\n',
        "semicolon.csv": "x;y\n1;4\n2;5\n3;6\n",
        "x.txt": "# three\n1\n\n2\n 3e0 \n",
        "x.tsv": "y\tx\n4\t1\n5\t2\n6\t3\n",
        "a:b.csv": "x\n1\n2\n3\n",
        "blanks.txt": "x   y\n1   4\n2   5\n3   6\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")


FORMS = """
    x=@x.npy  x=@xy.npz:x  x=@xy.npz  @xy.npz  x=@one.npz
    x=@xy.csv:x  @xy.csv  x=@bom.csv  @bom.csv  x=@quoted.csv:x  x=@semicolon.csv:x  x=@a:b.csv  x=@a:b.csv:x
    x=@x.txt  x=@./x.txt  @x.tsv  @blanks.txt
"""


@pytest.mark.parametrize("text", FORMS.split())
@pytest.mark.usefixtures("data")
def test_files(adc, text):
    assert adc("run", "x", "--arg", text, "--json") == (0, '{"value": [1.0, 2.0, 3.0]}\n', "")


def test_a_matrix_from_text(adc, tmp_path):
    (tmp_path / "m.txt").write_text("1 2\n3   4\n", "utf-8")
    assert json.loads(adc("run", "m", "-a", "m=@m.txt", "--json").out) == {"value": [[1.0, 2.0], [3.0, 4.0]]}


@pytest.mark.usefixtures("data")
def test_a_named_argument_wins_over_the_column_of_a_whole_file(adc):
    for order in (["@xy.csv", "x=2"], ["x=2", "@xy.csv"]):
        done = adc("run", "x * sum(y)", *(word for text in order for word in ("--arg", text)))
        assert done == (0, "value = 30.0\n", "")


# -- what it prints and writes ---------------------------------------------------------------------


def test_several_results_have_names(adc):
    source = "def f(a, b):\n return a, (b, a * b)"
    done = adc("run", source, "-a", "a=2", "-a", "b=3", "-o", "r.npz")
    assert done.out == "value_0 = 2.0\nvalue_1_0 = 3.0\nvalue_1_1 = 6.0\n"
    with np.load("r.npz") as written:
        assert {name: float(value) for name, value in written.items()} == done.values()
    assert json.loads(adc("run", source, "-a", "a=2", "-a", "b=3", "--json").out) == {
        "value": [2.0, [3.0, 6.0]]
    }


def test_a_large_array_is_summarised(adc):
    numbers = ",".join(map(str, range(100)))
    assert (
        adc("run", "x", "-a", f"x=[{numbers}]").out == "value = [ 0.  1.  2. ... 97. 98. 99.]  # f64[100]\n"
    )
    assert len(json.loads(adc("run", "x", "-a", f"x=[{numbers}]", "--json").out)["value"]) == 100


def test_npz_holds_value_and_gradients(adc, tmp_path):
    done = adc("run", "sum(a * x**2)", "-a", "a=2", "-a", "x=[1,2]", "--grad", "-o", "r.npz", "--json")
    with np.load("r.npz") as written:
        found = {name: value.tolist() for name, value in written.items()}
    assert found == {"value": 10.0, "grad_a": 5.0, "grad_x": [4.0, 8.0]}
    assert json.loads(done.out) == {"value": 10.0, "grad": {"a": 5.0, "x": [4.0, 8.0]}}
    assert os.listdir(tmp_path) == ["r.npz"]


def test_a_failed_write_leaves_the_old_file_alone(failing, tmp_path, monkeypatch):
    (tmp_path / "r.npz").write_text("old", "utf-8")

    def full(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    failing(1, "adc: cannot write r.npz: No space left on device", "folder", "run", "1", "-o", "r.npz")
    assert [(p.name, p.read_text("utf-8")) for p in tmp_path.iterdir()] == [("r.npz", "old")]


@pytest.mark.parametrize("stage", ["source", "ast", "ir", "forward", "propagate", "kernel"])
def test_show(adc, stage):
    done = adc("show", f"{MISRA}/misra1a.adc:loss", "--stage", stage, *POINT, "--wrt", "b1,b2")
    assert (done.code, done.err) == (0, "")
    assert "loss" in done.out
    assert done.out == done.out.rstrip() + "\n"


def test_show_writes_a_page(adc, tmp_path):
    page = tmp_path / "page.html"
    assert adc("show", "a * sin(b)", "--html", str(page)).out == f"wrote {page}\n"
    assert "<title>f: from source to machine code</title>" in page.read_text("utf-8")
    refused = adc("show", "a", "--html", str(tmp_path / "none" / "page.html"))
    assert refused.code == 2
    assert "help: name a file in a folder" in refused.err


def test_show_follows_the_arguments_and_wrt(adc):
    assert "%a: f64[" in adc("show", "a * b", "-a", "a=[1,2]", "-a", "b=2").out
    assert "%a: f64," in adc("show", "a * b").out
    shown = adc("show", "a * b", "--stage", "propagate", "--wrt", "b").out
    assert "%db" in shown
    assert "%da" not in shown


# -- errors ----------------------------------------------------------------------------------------


def test_an_error_in_the_program_has_its_place_and_a_caret(failing, tmp_path):
    (tmp_path / "bad.adc").write_text("def f(a):\n    return a + sine(a)\n", "utf-8")
    said = failing(1, "bad.adc:2:16: unknown function 'sine'\n", "", "run", "bad.adc", "-a", "a=1")
    line, caret = said.splitlines()[1:3]
    assert line[caret.index("^") :].startswith("sine(a)")


@pytest.mark.parametrize(
    ("start", "remedy", "args"),
    [
        ("adc: f(a, b) is missing b", "--arg b=2.5", ["a * b", "-a", "a=1"]),
        ("adc: --arg c=1: f(a) has no parameter c", "name some of a", ["a", "-a", "c=1"]),
        ("adc: --arg a=2: a is given twice", "once", ["a", "-a", "a=1", "-a", "a=2"]),
        ("adc: --arg a has no value", "--arg a=2.5", ["a", "-a", "a"]),
        ("adc: --arg a= has no value", "--arg a=2.5", ["a", "-a", "a="]),
        ("adc: --arg =1 has no parameter name", "--arg x=2.5", ["a", "-a", "=1"]),
        ("adc: --arg a a=1 has no parameter name", "--arg x=2.5", ["a", "-a", "a a=1"]),
        ("adc: --arg a=one: 'one' is not a number", "--arg a=2.5", ["a", "-a", "a=one"]),
        ("adc: --arg a=[1,two]: 'two' is not a number", "list", ["a", "-a", "a=[1,two]"]),
        ("adc: --arg a=[[1],[2,3]]: its rows have different lengths", "list", ["a", "-a", "a=[[1],[2,3]]"]),
        ("adc: --arg a=[1,2: the brackets and commas do not form a list", "list", ["a", "-a", "a=[1,2"]),
        ("adc: --grad: f(a) has no parameter c", "name some of a", ["a", "-a", "a=1", "--grad", "c"]),
        ("adc: -o r.csv does not end in .npz", "r.npz", ["a", "-a", "a=1", "-o", "r.csv"]),
    ],
)  # fmt: skip
def test_wrong_usage(failing, start, remedy, args):
    failing(2, start, remedy, "run", *args)


INTEGER = "def f(n: i64):\n    return 1.0 * n"


@pytest.mark.parametrize(
    ("start", "remedy", "args"),
    [
        ("adc: f returns an array of shape (n", "sum", ["x", "-a", "x=[1,2]", "--grad"]),
        ("adc: n is an integer, which has no derivative", "pass floats", [INTEGER, "-a", "n=1", "--grad"]),
        ("adc: n is i64: there is no derivative", "omit it", [INTEGER, "-a", "n=1", "--grad", "n"]),
        ("adc: cannot write no/r.npz: No such file", "folder", ["1", "-o", "no/r.npz"]),
        ("adc: there is no file x.nyp", "did you mean x.npy?", ["x", "-a", "x=@x.nyp"]),
        ("adc: there is no file gone.adc", "folder", ["gone.adc"]),
        ("adc: . is a folder", "give a file", ["x", "-a", "x=@."]),
        ("adc: empty.csv is empty", "numbers", ["x", "-a", "@empty.csv"]),
        ("adc: xy.npz has no array z", "x, y, label", ["x", "-a", "x=@xy.npz:z"]),
        ("adc: no column of xy.csv has the name of a parameter: it has label", "z", ["z", "-a", "@xy.csv"]),
        ("adc: x.npy contains one array", "--arg x=@x.npy", ["x", "-a", "@x.npy"]),
        ("adc: object.npy contains no array of numbers", "numpy.save", ["x", "-a", "x=@object.npy"]),
        ("adc: half.npz contains no array of numbers", "numpy.save", ["x", "-a", "x=@half.npz"]),
        ("adc: latin.csv is not UTF-8 text", "UTF-8", ["x", "-a", "@latin.csv"]),
        ("xy.csv:1:1: no column has the name z\n    label,y, x\n", "label, y, x", ["x", "-a", "x=@xy.csv:z"]),
        ("xy.csv:1:1: x could be any of 3 columns", "x=@xy.csv:label", ["x", "-a", "x=@xy.csv"]),
        ("xy.csv:2:1: 'a' is not a number\n    a,4, 1\n    ^\n", "nan", ["label", "-a", "@xy.csv"]),
        ("twice.csv:1:1: two columns have the name x", "x, x", ["x", "-a", "@twice.csv"]),
        ("ragged.csv:3:1: the first row has 2 columns, this one 1", "same", ["x", "-a", "@ragged.csv"]),
        ("gap.csv:4:3: a number is missing\n    3,\n      ^\n", "nan", ["y", "-a", "@gap.csv"]),
        ("word.csv:3:4: '5 m' is not a number\n    5, 5 m\n       ^^^\n", "nan", ["y", "-a", "@word.csv"]),
        ("quote.csv:", "quote", ["x", "-a", "@quote.csv"]),
        ("x.txt:2:1: there is no column x", "names", ["x", "-a", "x=@x.txt:x"]),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("data")
def test_errors_in_programs_and_data(failing, tmp_path, start, remedy, args):
    np.save(tmp_path / "object.npy", np.array([{}], object))
    (tmp_path / "half.npz").write_bytes((tmp_path / "xy.npz").read_bytes()[:100])
    (tmp_path / "latin.csv").write_bytes("é\n1\n".encode("latin-1"))
    texts = {
        "empty.csv": "\n# nothing\n",
        "twice.csv": "x,x\n1,2\n",
        "ragged.csv": "x,y\n1,2\n3\n",
        "gap.csv": "x,y\n1,2\n\n3,\n",
        "word.csv": "x,y\n1,2\n5, 5 m\n",
        "quote.csv": 'x\n"1\n' + "2" * 200_000,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    failing(1, start, remedy, "run", *args)


def test_typer_reports_its_own_usage_errors(adc):
    for args in (["run"], ["rnu"], ["run", "a", "--what"], ["show", "a", "--stage", "none"]):
        done = adc(*args)
        assert (done.code, done.out) == (2, "")
        assert "Error: " in done.err


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("run a*b a=1 b=2", "write --arg a=1 --arg b=2"),
        ("run a*b -a a=1 b=2", "write --arg b=2"),
        ("run a + b", "SOURCE must be one word: put an expression in quotes"),
        ("run a*b -a a=1 -a b=2 --grad a b", "write names together: --grad a,b"),
        ("run x**2 --x 3", "write an argument as --arg x=3"),
        ("check x**2 --x=[1,2]", "write an argument as --arg x=[1,2]"),
        ("run x**2 --hessian", "adc run --help lists the options"),
        ("run -x**2 -a x=1", "put an expression that starts with a minus last, after --: -- '-x**2'"),
        ("run -1*x -a x=1", "put an expression that starts with a minus last, after --: -- '-1*x'"),
        ("a*b", "add a command: adc run 'a*b'"),
        ("model.adc:loss --grad", "add a command: adc run model.adc:loss"),
        ("help", "adc --help lists the commands"),
        ("help run", "adc run --help"),
        ("show --html", "adc show --help"),
        ("show", 'add an expression or a file: adc show "x * sin(y)"; adc show --help has examples'),
        # conventional flags
        ("run --version", "adc --version prints the version"),
        ("run a*b -V", "adc --version prints the version"),
        ("version", "did you mean adc --version?"),
        ("-v", "adc --version prints the version"),
        ("-help", "adc --help"),
        ("run -help", "adc run --help"),
        ("run a*b -q", "adc run --help lists the options"),
        ("run a*b -n 3", "adc run --help lists the options"),
        ("build a*b -O3", "adc build --help lists the options"),
        # options of other verbs, other names, and misspelt ones
        ("run a*b --size 3", "--size is an option of adc check, adc explain and adc bench; adc run --help"),
        ("bench a*b --n 3", "did you mean --size?"),
        ("run a*b --gradient", "did you mean --grad?"),
        ("run a*b --args a=1", "did you mean --arg?"),
        ("run a*b --wrt a", "did you mean --grad?"),
        ("check a*b --grad a", "did you mean --wrt?"),
        ("run a*b --jsn", "did you mean --json?"),
        ("show a*b --stages ir", "did you mean --stage?"),
        ("show a*b --ir", "did you mean --stage ir?"),
        ("run a*b --numba", "did you mean --backend numba?"),
        ("show a*b -o x.html", "did you mean --html?"),
        ("build a*b --out lib", "did you mean --output?"),
        ("build a*b --lang c", "did you mean --emit?"),
        ("build a*b --target c", "did you mean --emit?"),
        ("run a*b -a a 1", "write --arg a=1"),
        ("cache clear", "write --clear"),
        # values
        ("show a*b --stage kernle", "did you mean --stage kernel?"),
        ("show a*b --stage asm", "adc show SOURCE --html page.html shows all stages and the assembly"),
        ("run a*b --backend gpu", "did you mean --backend cuda?"),
        # verbs of other tools
        ("compile a*b", "did you mean adc build?"),
        ("grad a*b", "did you mean adc run SOURCE --grad?"),
        ("test a*b", "did you mean adc check?"),
        ("time a*b", "did you mean adc bench?"),
    ],
)
def test_slips_on_the_command_line_are_told_what_to_write(adc, words, remedy):
    done = adc(*words.split())
    assert (done.code, done.out) == (2, "")
    assert f"\n  help: {remedy}" in done.err
    assert done.err.endswith("\n")
    assert done.err.count("help: ") == 1
    assert "Possible options" not in done.err


def test_the_name_of_a_file_without_its_suffix(failing, tmp_path):
    (tmp_path / "model.adc").write_text("def f(a):\n    return a\n", "utf-8")
    failing(
        2, "adc: --arg a=1: f(model) has no parameter a", "the file model.adc?", "run", "model", "-a", "a=1"
    )


def test_every_other_name_means_one_that_there_is():
    """Of verbs, options and values: what a remedy names is accepted."""
    from typer.main import get_command

    from adcompiler.cli import hints

    verbs = get_command(app.app).commands
    options = {option for verb in verbs.values() for one in verb.params for option in one.opts}
    for meant in (*hints.OPTIONS.values(), *hints.OF_VERB.values()):
        assert meant in options
    for (verb, other), meant in hints.OF_VERB.items():
        known = [option for one in verbs[verb].params for option in one.opts]
        assert meant in known
        assert f"--{other}" not in known
    assert {"--stage": tuple(Stage), "--backend": tuple(Backend)} == hints.VALUES
    for meant in hints.VERBS.values():
        assert meant.split()[0] in verbs or meant == "--version"


def test_a_misspelt_verb_has_one_suggestion_and_no_verb_the_help(adc):
    assert adc("rnu", "a").err.endswith(" Did you mean 'run'?\n")
    assert "help: " not in adc().err + adc().out


def test_an_internal_error_is_short(adc, monkeypatch):
    monkeypatch.setattr("adcompiler.cli.run.function_of", lambda *_: 1 / 0)
    done = adc("run", "a")
    assert (done.code, done.out) == (70, "")
    assert done.err.startswith("adc: internal error: ZeroDivisionError: division by zero\n  help: ")
    assert "Traceback" not in done.err
    monkeypatch.setenv("ADC_TRACEBACK", "1")
    assert "Traceback" in adc("run", "a").err


# -- help, colour, pipes ---------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["run", "show"])
def test_help_mentions_every_option_and_gives_examples(adc, verb):
    from typer.main import get_command

    done = adc(verb, "--help")
    assert done.code == 0
    for parameter in get_command(app.app).commands[verb].params:
        for option in [*parameter.opts, *parameter.secondary_opts]:
            assert option in done.out or option.lower() == "source"
    assert done.out.count(f"\n    adc {verb} ") >= 3


def test_help_names_every_verb_and_version_is_ours(adc):
    import adcompiler

    done = adc("--help")
    assert {"run", "show"} <= set(re.findall(r"^  (\w+) ", done.out, re.MULTILINE))
    for flag in ("--version", "-V"):
        assert adc(flag) == (0, f"adcompiler {adcompiler.__version__}\n", "")
    assert run_source.__doc__.partition("\n")[0] in done.out


def test_help_is_quick():
    code = (
        "import sys, adcompiler.cli as c; c.main(['-h']); sys.exit(bool({'numba', 'scipy'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], env=ENV, stdout=subprocess.DEVNULL).returncode == 0


def test_piped_output_has_no_escape_codes(capsys):
    for args in (["run", "a * b", "-a", "a=1", "-a", "b=2", "--grad"], ["show", "a * b"], ["run", "a +"]):
        main(args)
        assert "\x1b" not in "".join(capsys.readouterr())


@pytest.mark.thinned(4)
@pytest.mark.skipif(sys.platform == "win32", reason="no terminals to open")
@pytest.mark.parametrize(
    ("args", "env", "pattern"),
    [
        (["run", "x", "-a", "x=[[1,2],[3,4]]"], {}, r"\x1b.*value.*f64\[2, 2\].*\[\[1\. 2\.\]"),
        (["show", "a * b"], {}, r"func .*\x1b\[.*@f"),
        (["run", "1 + sine(2)"], {}, r"\x1b\[1m<expression>:1:5: unknown .*\x1b\[1;31m +\^"),
        (["run", "1 + sine(2)"], {"NO_COLOR": "1"}, r"^(?!.*\x1b\[[0-9;]*3\d).*<expression>:1:5: "),
    ],
)
def test_on_a_terminal_it_is_coloured(args, env, pattern):
    import pty

    mother, child = pty.openpty()
    with subprocess.Popen([*ADC, *args], env=ENV | env, stdout=child, stderr=child):
        os.close(child)
        text = b""
        try:
            while part := os.read(mother, 4096):
                text += part
        except OSError:  # the other end is closed
            pass
    os.close(mother)
    assert re.search(pattern, text.decode(), re.DOTALL), text


@pytest.mark.skipif(sys.platform == "win32", reason="no such pipes")
def test_a_broken_pipe_is_silent():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*ADC, "show", "a * b"], env=ENV, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def test_without_typer_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "adcompiler.cli.app")
    assert main(["--help"]) == 2
    assert capsys.readouterr() == ("", 'adc needs Typer and Rich: pip install "adcompiler[cli]"\n')


def test_check_compares_with_finite_differences(capsys):
    assert main(["check", "x**3 * y", "--arg", "x=2", "--arg", "y=1"]) == 0
    assert "first and second derivatives agree" in capsys.readouterr().out
    assert main(["check", "abs(x)", "--arg", "x=1e-5", "--order", "1"]) == 0
    assert main(["check", "floor(x) * x", "--arg", "x=1.0"]) == 1
    assert "the gradient of f with respect to x is 1" in capsys.readouterr().err
