"""`adc build --emit latex,dot`: texts for readers."""

from __future__ import annotations

from adcompiler.cli import main

LOOP = (
    "def f(x: f64[n], a: f64):\n    s = a\n    for i in range(n):\n        s = tanh(s) + x[i]\n    return s\n"
)


def test_equations_of_the_value_and_the_gradient(tmp_path):
    command = ["build", "sum(a * x**2)", "--types", "f64, f64[n]", "--name", "cost", "--emit", "latex"]
    assert main([*command, "-o", str(tmp_path)]) == 0
    text = (tmp_path / "cost.tex").read_text()
    assert text.startswith("\\[\n\\begin{aligned}")
    assert "\\frac{\\partial \\operatorname{f}}{\\partial {x}_{i}} &= 2 a {x}_{i}" in text


def test_equations_of_a_function_without_a_gradient(tmp_path):
    command = ["build", "x * sin(x)", "--types", "f64[n]", "--name", "wave", "--emit", "latex"]
    assert main([*command, "-o", str(tmp_path)]) == 0
    assert (tmp_path / "wave.tex").read_text() == "\\[\n\\sin{\\left({x}_{i} \\right)} {x}_{i}\n\\]\n"


def test_a_function_without_equations(tmp_path, capsys):
    (tmp_path / "f.adc").write_text(LOOP)
    assert main(["build", str(tmp_path / "f.adc"), "--emit", "latex", "-o", str(tmp_path / "texts")]) == 1
    assert "help:" in capsys.readouterr().err
    assert not (tmp_path / "texts").exists()


def test_the_graph_of_each_program(tmp_path):
    """A loop reads what it begins with and what it runs over; names in its body are its own."""
    (tmp_path / "f.adc").write_text(LOOP)
    command = ["build", str(tmp_path / "f.adc"), "--emit", "dot", "--what", "value,grad", "-o", str(tmp_path)]
    assert main(command) == 0
    lines = (tmp_path / "f.dot").read_text().splitlines()
    assert lines[0] == "digraph f {"
    assert '  "%x" [label="x: f64[n]", shape=ellipse];' in lines
    assert next(line for line in lines if "peripheries=2" in line).startswith('  "%r" [label="%r = loop ')
    assert lines[-3:] == ['  "%a" -> "%r";', '  "%x" -> "%r";', "}"]
    assert "digraph f_grad {" in (tmp_path / "f_grad.dot").read_text()
