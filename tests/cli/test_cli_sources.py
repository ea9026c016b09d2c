"""What the command line reads: standard input as `-`, Python files; and what the shell completes of them."""

from __future__ import annotations

import io
import re
import shutil
import sys
from contextlib import suppress
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

import adcompiler
from adcompiler.cli import main
from adcompiler.cli.completion import join_words

PROGRAM = "def half(x):\n    return x / 2\n\ndef area(r):\n    return pi * r**2\n"
PYTHON = """\
import adcompiler as adc
from beside import SCALE


@adc.function
def loss(x, y):
    return SCALE * sum((x - y)**2)


@adc.function(static=("k",), backend="numpy")
def power(x, k):
    return x**k


slope = adc.grad(loss, "x")
number = 3
def plain(x):
    return x
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program and a Python file, in which commands run."""
    (tmp_path / "m.adc").write_text(PROGRAM)
    (tmp_path / "m.py").write_text(PYTHON)
    (tmp_path / "beside.py").write_text("SCALE = 10.0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    return tmp_path


@pytest.fixture
def piped(capsys, monkeypatch, folder):
    """Run a command with bytes on its standard input; its output, and its errors if it fails."""

    def run(data: bytes, *args: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert main(list(args)) == code
        return capsys.readouterr()[code > 0]

    return run


# -- standard input ----------------------------------------------------------------------------------

VERBS = (["run", "-a", "r=1"], ["check", "-a", "r=1"], ["show"], ["explain"], ["bench", "--seconds", "0"],
         ["build", "-o", "lib"])  # fmt: skip


@pytest.mark.parametrize("verb", VERBS, ids=lambda words: words[0])
@pytest.mark.parametrize("source", ["-", "-:area"])
def test_each_verb_reads_a_program_from_standard_input(piped, verb, source):
    if verb[0] == "build" and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    assert piped(PROGRAM.encode(), verb[0], source, *verb[1:])


def test_a_program_from_standard_input_is_as_in_a_file(piped):
    assert piped(PROGRAM.encode(), "run", "-", "-a", "r=1") == f"value = {np.pi}\n"
    assert piped(PROGRAM.encode(), "run", "-:half", "-a", "x=1") == "value = 0.5\n"
    assert piped(b"2 * x", "run", "-", "-a", "x=4", "--grad", "x") == "value = 8.0\ngrad_x = 2.0\n"
    said = piped(PROGRAM.encode(), "run", "-:volume", code=1)
    assert said == "adc: <stdin> defines no function volume\n  help: write one of -:half, -:area\n"
    said = piped(b"def f(x):\n    return sine(x)\n", "run", "-", "-a", "x=1", code=1)
    assert said.startswith("<stdin>:2:12: unknown function 'sine'\n        return sine(x)\n")


def saved(save, *arrays, **named) -> bytes:
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


X, Y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
DATA = {
    "a table": (b"label,y,x\na,4,1\nb,5,2\nc,6,3\n", ["-a", "x=@-:x", "-a", "y=@-:y"]),
    "all of a table": (b"\xef\xbb\xbfy x\r\n4 1\r\n5 2\r\n6 3\r\n", ["-a", "@-"]),
    "one column": (b"1\n2\n3\n", ["-a", "x=@-", "-a", "y=[4,5,6]"]),
    "an array": (saved(np.save, X), ["-a", "x=@-", "-a", "y=[4,5,6]"]),
    "an archive": (saved(np.savez, x=X, y=Y), ["-a", "@-"]),
    "arrays of an archive": (saved(np.savez, p=X, q=Y), ["-a", "x=@-:p", "-a", "y=@-:q"]),
}


@pytest.mark.parametrize("kind", DATA)
def test_data_from_standard_input(piped, kind):
    data, args = DATA[kind]
    assert piped(data, "run", "sum(x * y)", *args) == "value = 32.0\n"


@pytest.mark.parametrize(
    ("data", "args", "says"),
    [
        (b"", ["x", "-a", "x=@-"], "adc: <stdin> is empty"),
        (b"a,b\n1,2\n", ["x", "-a", "x=@-"], "--arg x=@-:a"),
        (b"a\none\n", ["a", "-a", "@-"], "<stdin>:2:1: 'one' is not a number"),
        (saved(np.save, X), ["x", "-a", "@-"], "give its parameter: --arg x=@-"),
        (b"\x93NUMPY\x01", ["x", "-a", "x=@-"], "<stdin> contains no array of numbers"),
        (b"\xff\xfe", ["x", "-a", "x=@-"], "<stdin> is not UTF-8 text"),
    ],
)
def test_what_is_wrong_with_data_from_standard_input(piped, data, args, says):
    assert says in piped(data, "run", *args, code=1)


def test_it_is_the_program_or_data(piped):
    for arg in ("x=@-", "@-", "x=@-:x"):
        said = piped(b"sum(x)", "run", "-", "-a", arg, code=2)
        assert said.startswith(f"adc: --arg {arg}: the program was read from standard input\n  help: put one")


# -- Python files ------------------------------------------------------------------------------------


def test_a_decorated_function_runs_and_explains_itself_as_in_a_program(piped, capsys):
    assert piped(b"", "run", "m.py:loss", "-a", "x=[1,2]", "-a", "y=[0,0]", "--grad", "x") == (
        "value = 50.0\ngrad_x = [20. 40.]\n"
    )
    assert piped(b"", "run", "m.py:slope", "-a", "x=[1,2]", "-a", "y=[0,0]") == "value = [20. 40.]\n"
    assert piped(b"", "run", "m.py:power", "-a", "x=3", "-a", "k=2") == "value = 9.0\n"
    text = piped(b"", "explain", "m.py:loss", "-a", "x=[1,2]", "-a", "y=[0,0]")
    written = adcompiler.compile("def loss(x, y):\n    return 10.0 * sum((x - y)**2)\n")
    assert text == written.explain(None, X, Y) + "\n"


def test_a_derivative_in_a_python_file_has_the_annotations_of_its_function(piped, folder):
    text = "from __future__ import annotations\nimport adcompiler as adc\n"
    text += "@adc.function\ndef f(x: f64[n], k: int):\n    return sum(x)**k\n"
    (folder / "g.py").write_text(text + "g = adc.grad(f)\n")
    assert piped(b"", "run", "g.py:g", "-a", "x=[1,2]", "-a", "k=2") == "value = [6. 6.]\n"
    assert "\nnest 0: n = 50:" in piped(b"", "explain", "g.py:g", "--cost", "--size", "50").replace("  ", "")


def test_a_python_file_names_its_compiled_functions_only(piped):
    said = piped(b"", "run", "m.py:plain", code=1)
    assert said == (
        "adc: m.py defines no function plain\n  help: write one of m.py:loss, m.py:power, m.py:slope\n"
    )


@pytest.mark.parametrize(
    "written",
    [
        "@adc.function\ndef area(x):\n    return x**2\nslope = adc.grad(area)\n",
        "@adc.function\ndef half(x):\n    return x / 2\n"
        "@adc.function\ndef area(x):\n    return (2 * half(x))**2\n"
        "both, slope = adc.value_and_grad(area), adc.grad(area)\n",
        "half = adc.compile('x / 2')\narea = adc.compile('x**2')\nslope = adc.vmap(adc.grad(area))\n",
    ],
)
def test_the_main_definition_of_a_python_file_is_no_derivative(piped, folder, written):
    (folder / "d.py").write_text(f"import adcompiler as adc\n{written}")
    assert piped(b"", "run", "d.py", "-a", "x=3") == "value = 9.0\n"


def test_the_only_function_of_a_python_file_may_be_a_derivative(piped, folder):
    (folder / "d.py").write_text("import adcompiler as adc\nslope = adc.grad(adc.compile('x**2'))\n")
    assert piped(b"", "run", "d.py", "-a", "x=3") == "value = 6.0\n"


def test_the_backend_is_that_of_the_decorator_unless_told(piped):
    piped(b"", "run", "m.py:power", "-a", "x=3", "-a", "k=2", "--backend", "cpu")
    said = piped(b"", "run", "m.py:slope", "--backend", "numpy", code=2)
    assert said.startswith("adc: grad(loss) is compiled for cpu, as a derivative of another function\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "x = 1\ny = x / 0\n",
            "bad.py:2:1: ZeroDivisionError: division by zero\n    y = x / 0\n    ^^^^^^^^^\n",
        ),
        ("def f(:\n", "bad.py:1:1: SyntaxError: "),
        ("import nowhere\n", "bad.py:1:1: ModuleNotFoundError: No module named 'nowhere'\n"),
        ("import sys\nif True:\n    sys.exit(3)\n", "bad.py:3:5: SystemExit: 3\n"),
        (
            "import adcompiler as adc\n@adc.function\ndef f(x):\n    return sine(x)\n",
            "unknown function 'sine'",
        ),
        ("x = 1\n", "adc: bad.py defines no function\n  help: decorate one with @adc.function\n"),
    ],
)
def test_what_is_wrong_with_a_python_file_is_said_at_its_line(piped, folder, text, says):
    (folder / "bad.py").write_text(text)
    assert says in piped(b"", "run", "bad.py", code=1)


# -- completion --------------------------------------------------------------------------------------

COMPLETED = [
    ("m.adc:", ["m.adc:half", "m.adc:area"]),
    ("m.adc:a", ["m.adc:area"]),
    ("m.adc:x", []),
    ("./m.py:", ["./m.py:loss", "./m.py:power", "./m.py:slope"]),
    ("m.py:s", ["m.py:slope"]),
    ("one.adc:", ["one.adc:one"]),
    ("broken.py:", []),
    ("gone.adc:", []),
    ("m", []),  # the shell completes files
]


@pytest.fixture
def completed(folder, capsys):
    """What the command line answers a shell that asks for completions."""
    (folder / "one.adc").write_text("2 * x\n")
    (folder / "two.adc").write_text("def pair(alpha, beta, gamma):\n    return alpha * beta * gamma\n")
    (folder / "broken.py").write_text("def f(:\n")

    def answer(environment: dict[str, str]) -> list[str]:
        with mock.patch.dict("os.environ", environment), suppress(SystemExit):
            main([])
        out, errors = capsys.readouterr()
        assert errors == ""
        return out.split()

    return answer


@pytest.mark.parametrize(("typed", "found"), COMPLETED)
def test_names_are_completed_in_fish_as_they_are_typed(completed, typed, found):
    asked = {"_ADC_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    assert completed(asked | {"_TYPER_COMPLETE_ARGS": f"adc run {typed}"}) == found


@pytest.mark.parametrize(("typed", "found"), COMPLETED[:3])
def test_names_are_completed_in_zsh_with_colons_escaped(completed, typed, found):
    told = completed({"_ADC_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"adc show {typed}"})
    escaped = [name.replace(":", r"\\:") for name in found]
    assert all(f'"{name}"' in " ".join(told) for name in escaped)
    assert bool(found) == (told != ["_files"])


@pytest.mark.parametrize(("typed", "found"), COMPLETED[::3])
def test_bash_splits_words_at_colons_and_is_given_what_stands_behind(completed, typed, found):
    words = ["adc", "check", *[part for part in typed.replace(":", "\n:\n").split("\n") if part]]
    asked = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    assert completed({"_ADC_COMPLETE": "complete_bash"} | asked) == [name.split(":")[1] for name in found]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("run m.py:loss --grad |", ["x", "y"]),
        ("show m.py:loss --wrt x,|", ["x,y"]),
        ("check two.adc:pair --wrt alpha,b|", ["alpha,beta"]),
        ("explain two.adc --why-none |", ["alpha", "beta", "gamma"]),
        ("build one.adc --wrt |", ["x"]),
        ("run 'sin(b)*a' --arg b=2 --grad |", ["b", "a"]),
        ("run m.py:slope --grad |", []),  # only running it would tell
        ("run broken.py:f --grad |", []),
        ("run sin(+ --grad |", []),
    ],
)
def test_lists_of_parameters_are_completed(completed, words, found):
    typed = f"adc {words[:-1]}"
    asked = {"_ADC_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    assert completed(asked | {"_TYPER_COMPLETE_ARGS": typed}) == found
    if "," not in words:
        return
    broken = [p for word in typed.split(" ") for p in re.split("([:=])", word) if p or not word]
    asked = {"_ADC_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(broken)}
    assert completed(asked | {"COMP_CWORD": str(len(broken) - 1)}) == found


def test_words_of_bash_are_joined_at_colons_that_stand_before_the_cursor():
    def joined(*words: str) -> tuple[str, str, str]:
        asked = {"_ADC_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words)}
        asked["COMP_CWORD"] = str(len(words) - 1)
        join_words(asked)
        return asked["_ADC_COMPLETES_BEHIND"], asked["COMP_WORDS"].replace("\n", " "), asked["COMP_CWORD"]

    assert joined("adc", "run", "a", ":", "b.adc", ":", "lo") == ("a:b.adc:", "adc run lo", "2")
    assert joined("adc", "run", "m.adc", ":") == ("m.adc:", "adc run ", "2")
    assert joined("adc", "run", "m.adc") == ("", "adc run m.adc", "2")
    assert joined("adc", "run", "m.adc", ":", "f", "-a", "x", "=", "2", "") == (
        "",
        "adc run m.adc:f -a x=2 ",
        "5",
    )
    assert joined("adc", "run", "x", "-a", "x", "=") == ("x=", "adc run x -a ", "4")
