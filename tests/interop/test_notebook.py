"""What notebooks show of functions, and cells of the language."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.interpreter.indexed import to_indexed

WAVE = "x**2 * y + sin(x * y)"
LOOP = "def f(x, n: i64):\n    for k in range(n):\n        x = sin(x)\n    return x"


# -- equations ----------


def test_a_formula_is_shown_with_its_gradient():
    latex = adc.compile(WAVE, name="wave")._repr_latex_()
    assert latex.startswith("$$\\begin{aligned}")
    value, by_x, by_y = latex.splitlines()[1:4]
    assert value == r"\operatorname{wave}\left(x, y\right) &= x^{2} y + \sin{\left(x y \right)} \\"
    assert by_x == (
        r"\frac{\partial \operatorname{wave}}{\partial x} &= 2 x y + y \cos{\left(x y \right)} \\"
    )
    assert by_y.startswith(r"\frac{\partial \operatorname{wave}}{\partial y} &= x^{2}")


def test_one_parameter_several_results_and_derivatives():
    assert r"{\partial x} &= \cos" in adc.compile("sin(x)")._repr_latex_()
    assert r"\partial" not in adc.compile("x, x * y")._repr_latex_()
    assert "grad(f)" in adc.grad(adc.compile(WAVE))._repr_latex_()


@pytest.mark.parametrize(
    "text",
    [
        LOOP,
        "def f(x, k):\n    return x if isnan(x) else k",
        "def f(x):\n" + "    x = x * x + sin(x)\n" * 60 + "    return x",
    ],
    ids=["a loop", "no form in SymPy", "too long"],
)
def test_what_has_no_formula_shows_its_source(text):
    f = adc.compile(text)
    assert f._repr_latex_() is None
    assert "aligned" not in f._repr_html_()
    assert "def" in f._repr_html_()


def lines_of(f):
    return f._repr_latex_().splitlines()[1:-1]


def test_arrays_have_indices_and_sums_as_last_called():
    f = adc.compile("sum((y - X @ w)**2)", name="loss", args="w, X, y")
    f(np.ones(2), np.ones((3, 2)), np.ones(3))
    value, by_w, by_x, by_y = lines_of(f)
    assert r"\sum_{i=0}^{m - 1} \left({y}_{i} - \sum_{j=0}^{n - 1} {X}_{i,j} {w}_{j}\right)^{2}" in value
    assert by_w.startswith(r"\frac{\partial \operatorname{loss}}{\partial {w}_{i}} &= \sum_{j=0}^{m - 1}")
    assert r"\partial {X}_{i,j}" in by_x
    assert by_y.endswith(r"2 {y}_{i} - 2 \sum_{j=0}^{n - 1} {X}_{i,j} {w}_{j}")


def test_latex_is_the_formula_alone_or_equations():
    f = adc.compile("sum((y - X @ w)**2)", name="loss", args="w, X, y")
    args = np.ones(2), np.ones((3, 2)), np.ones(3, np.float32)
    value, by_w, *_ = f.latex(*args, gradient=True).splitlines()[1:-1]
    assert value == rf"\operatorname{{loss}}\left(w, X, y\right) &= {f.latex(*args)} \\"
    assert r"\partial {w}_{i}" in by_w
    assert f._repr_latex_() != f"$${f.latex(*args, gradient=True)}$$"  # which no call was like
    f(*args)
    assert f._repr_latex_() == f"$${f.latex(gradient=True)}$$"
    assert adc.grad(f, "y").latex(*args) == by_y(f, args)
    assert adc.compile("x, x * y").latex() == r"\left( x, \  x y\right)"
    assert adc.compile("2 * x").latex(np.ones(0)) == "2 {x}_{i}"


def by_y(f, args):
    return f.latex(*args, gradient=True).splitlines()[-2].partition("&= ")[2]


def test_latex_of_what_has_no_formula_says_why():
    with pytest.raises(adc.DtypeError, match="only maps, sums and products"):
        adc.compile(LOOP).latex(1.0, 3)
    with pytest.raises(adc.LimitError, match="operations; the limit is 2000"):
        adc.compile("def f(x):\n" + "    x = x * x + sin(x)\n" * 60 + "    return x").latex()
    with pytest.raises(adc.ShapeError, match="not a scalar"):
        adc.compile("2 * x").latex(np.ones(3), gradient=True)


def test_an_index_of_a_sum_is_not_that_of_the_element():
    f = adc.compile("exp(x) / sum(exp(x))", name="softmax")
    f(np.ones(3))
    assert lines_of(f) == [
        r"{\operatorname{softmax}\left(x\right)}_{i} &= \frac{e^{{x}_{i}}}{\sum_{j=0}^{n - 1} e^{{x}_{j}}}"
    ]


INDEXED = {
    "sum((y - X @ w)**2)": (np.array([3.0, 0.0, 1.0]), np.arange(6.0).reshape(3, 2), np.array([1.0, -2.0])),
    "exp(x) / sum(exp(x))": (np.array([0.1, 0.2, 0.7]),),
    "logsumexp(x * b)": (np.array([0.1, 0.2, 0.7]), 2.0),
    "sum(x[1:] * x[:-1])": (np.array([1.0, 2.0, 4.0]),),
    "x[0] * mean(x)": (np.array([1.0, 2.0, 4.0]),),
    "where(x > 1, x**2, -x)[::-1]": (np.array([1.0, 2.0, 4.0]),),
    "tanh(X @ W + b)": (np.arange(6.0).reshape(2, 3), np.ones((3, 2)) / 9, np.array([0.5, -0.5])),
    "[sum(m[i] * m[j] for i in range(j)) for j in range(len(m))]": (np.array([1.0, 2.0, 4.0]),),
}


def test_products():
    f = adc.compile("prod(x)")
    f(np.ones(3))
    assert lines_of(f) == [r"\operatorname{f}\left(x\right) &= \prod_{i=0}^{n - 1} {x}_{i}"]


@pytest.mark.thinned(4)
@pytest.mark.parametrize("text", INDEXED)
@pytest.mark.parametrize("derive", [lambda f: f, lambda f: adc.jacobian(f)], ids=["value", "derivative"])
def test_indexed_forms_are_what_is_computed(text, derive):
    """Evaluated element by element in Python, at the indices of each result."""
    import sympy

    f, args = derive(adc.compile(text)), INDEXED[text]
    results = f(*args)
    types, values, *_ = f._describe(args)
    found = f._specialise(types)
    func, sizes = found.func, found.sizes(values)
    known = dict(zip(func.input_names, args, strict=True)) | dict(zip(func.size_names, sizes, strict=False))
    each = results if isinstance(results, tuple) else (results,)
    for (indices, form), result in zip(to_indexed(func), each, strict=True):
        evaluate = sympy.lambdify([*indices, *known], form, "math")
        for at in np.ndindex(np.shape(result)):
            assert evaluate(*at, *known.values()) == pytest.approx(np.asarray(result)[at], rel=1e-12)


# -- HTML ----------


class Reader(HTMLParser):
    """The words of a page; its tags must be closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.words = [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


def test_a_page_has_signature_source_equations_and_gradients():
    text = Reader(adc.compile(f"def wave(x, y):\n    return {WAVE}")._repr_html_()).text
    assert "wave(x: f64, y: f64) -> (r: f64)" in text
    assert "return x**2 * y + sin(x * y)" in text
    assert r"\frac{\partial \operatorname{wave}}{\partial x}" in text
    assert "x: flows" in text


def test_the_signature_is_that_of_the_last_call():
    f = adc.compile("sum((a + b) * b) if k else 0.0", name="f", args="a, b, k", static="k")
    assert Reader(f._repr_html_()).text.startswith("f(a, b, k)")
    f(np.ones(3, np.float32), 2.0, True)
    assert Reader(f._repr_html_()).text.startswith("f(a: f32[n], b: f64) -> (r: f32)")
    assert r"\sum_{i=0}^{n - 1}" in f._repr_latex_()


def test_a_derivative_is_shown_as_its_function_was_called():
    f = adc.compile("sum(x * x)")
    f(np.ones(3))
    assert Reader(adc.grad(f)._repr_html_()).text.startswith("grad(f)(x: f64[n])")
    assert "2 {x}_{i}" in adc.grad(f)._repr_latex_()
    assert Reader(adc.hessian(f)._repr_html_()).text.startswith("hessian(f)(x: f64[n])")


def test_a_page_has_the_explorer_folded():
    page = adc.compile(WAVE)._repr_html_()
    assert "<details><summary>from source to kernel</summary><iframe srcdoc=" in page
    assert "<script" not in page  # of the explorer it is in an attribute
    assert "iframe" not in adc.compile(LOOP)._repr_html_()


def test_source_is_text_and_no_markup():
    text = 'def f(x, y):\n    """<b>bold</b> & more"""\n    return where(x < y, x, y)'
    page = adc.compile(text)._repr_html_()
    assert "<b>" not in page
    assert "<b>bold</b> & more" in Reader(page).text


def test_without_pygments_the_source_is_plain(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygments", None)
    page = adc.compile("x < y", name="f")._repr_html_()
    assert "<pre>x &lt; y</pre>" in page


def test_derivatives_of_arrays_have_pages():
    g = adc.grad(adc.compile("sum(x * x)"))
    g(np.ones(3))
    assert "x: f64[n]" in Reader(g._repr_html_()).text


# -- magics ----------


@pytest.fixture
def shell():
    """IPython's, with the extension."""
    shells = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    made = shells.InteractiveShell.instance()
    made.user_ns.clear()
    made.run_line_magic("load_ext", "adcompiler")
    yield made
    shells.InteractiveShell.clear_instance()


CELL = """
scale = 3.0

def half(x):
    return x / 2

def wave(x, y):
    return scale * half(x)**2 * y
"""


def test_each_definition_of_a_cell_is_a_function(shell):
    shown = shell.run_cell_magic("adc", "", CELL)
    assert shown is shell.user_ns["wave"]
    assert shell.user_ns["wave"](2.0, 5.0) == 15.0
    assert shell.user_ns["half"](3.0) == 1.5
    assert shell.user_ns["scale"] == 3.0
    assert shell.run_cell_magic("adc", "half", CELL) is shell.user_ns["half"]


def test_an_expression_is_called_as_the_line_says(shell):
    shell.run_cell_magic("adc", "wave", WAVE)
    assert shell.user_ns["wave"](1.0, 0.0) == 0.0
    with pytest.raises(adc.ParseError, match="%%adc f"):
        shell.run_cell_magic("adc", "", WAVE)


def test_a_line_is_a_function(shell):
    assert shell.run_line_magic("adc", "x * y")(2.0, 3.0) == 6.0


def test_help_lists_the_options(shell):
    text = shell.find_cell_magic("adc").__doc__
    assert all(option in text for option in ("--static", "--memory", "--backend", "each `def`"))


def test_options(shell):
    text = "def power(x, n, steps):\n    for _ in range(steps):\n        x = x**n\n    return x"
    shell.run_cell_magic("adc", "--static n,steps --backend numpy --memory 64MB", text)
    power = shell.user_ns["power"]
    assert power(2.0, 2, 3) == 256.0
    assert power._backend == "numpy"
    assert [p.name for p in power._parameters if p.static] == ["n", "steps"]
    with pytest.raises(adc.Error, match="static names 'm'"):
        shell.run_cell_magic("adc", "--static m", text)
    shell.run_cell_magic("adc", "total --save t", "def total(x):\n    t = x * x\n    return sum(t * t)")
    assert shell.user_ns["total"]._save == ("t",)


def test_cells_know_the_numbers_and_functions_of_others(shell):
    shell.run_cell_magic("adc", "wave", WAVE)
    shell.user_ns["gain"] = 2.0
    shell.run_cell_magic("adc", "", "def louder(x):\n    return gain * wave(x, 1.0)")
    assert shell.user_ns["louder"](1.0) == 2 * (1 + np.sin(1.0))
    shell.user_ns["data"] = np.ones(3)
    with pytest.raises(adc.Error, match="make data a parameter"):
        shell.run_cell_magic("adc", "", "def total(x):\n    return sum(x * data)")


def test_an_error_names_the_line_of_the_cell(shell):
    with pytest.raises(adc.ParseError) as caught:
        shell.run_cell_magic("adc", "", "def f(x):\n    return y\n")
    assert caught.value.line == 3  # below the line of the magic
    with pytest.raises(adc.Error, match="defines no 'g'"):
        shell.run_cell_magic("adc", "g", "def f(x):\n    return x\n")


def test_errors_of_a_cell_point_at_the_place_and_show_no_frames_of_the_package(shell):
    with pytest.raises(adc.ParseError) as caught:
        shell.run_cell_magic("adc", "", "def f(x):\n    return x * yy\n")
    assert "    return x * yy\n" + " " * 19 + "^^" in str(caught.value)
    frames = [frame.path.name for frame in caught.traceback if "adcompiler" in str(frame.path.parent)]
    assert set(frames) <= {"test_notebook.py", "notebook.py", "frames.py"}


def test_a_cell_can_be_run_again(shell):
    for _ in range(2):
        shell.run_cell_magic("adc", "", CELL)
    assert shell.user_ns["wave"](2.0, 5.0) == 15.0


def test_ipython_shows_functions(shell):
    shell.run_cell_magic("adc", "wave", WAVE)
    formats, _ = shell.display_formatter.format(shell.user_ns["wave"])
    assert {"text/plain", "text/html", "text/latex"} <= formats.keys()


def test_nothing_of_ipython_is_imported_without_it():
    script = (
        "import sys, adcompiler as adc; adc.compile('x * x')._repr_html_(); print('IPython' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_notebook_runs():
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    client = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    texts = [
        "%load_ext adcompiler\nimport time\nfrom adcompiler import progress",
        f"%%adc wave\n{WAVE}",
        "with progress.showing('fitting'):\n    time.sleep(1.5)",
        "%%adc\ndef broken(x):\n    return x * yy",
    ]
    book = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, texts)))
    client.NotebookClient(book, timeout=120, allow_errors=True).execute()
    _, shown, line, broken = [cell.outputs for cell in book.cells]
    assert {"text/html", "text/latex"} <= shown[0].data.keys()
    assert line  # what was written there while it took long
    assert broken[0].ename == "ParseError"
    assert "unknown name 'yy'" in broken[0].evalue
