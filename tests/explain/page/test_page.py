"""The page of a function: what each expression of the source becomes, at every stage."""

from __future__ import annotations

import json
import re
from functools import cache
from html import unescape
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

import adcompiler as adc
from adcompiler.explain.page.colours import CALL, COMMENT, KEYWORD, NAME, NUMBER, TEXT, TYPE, coloured
from adcompiler.explain.page.explorer import explore
from adcompiler.explain.page.html import document, resource

MISRA = "b1 * (1 - exp(-b2 * x))"
RESIDUALS = "sum((y - X @ w)**2)"
LOOP = """def f(x, rate):
    for _ in range(3):
        s = sin(x)
        x = x + rate * s
    return x if x > 0 else 2.0 * x
"""


NAMED = re.compile(r"(?:math\.)?(exp|log|tanh|sqrt)\(")


def called(text):
    """The function that a text is a call of; None if it is anything else."""
    found = NAMED.match(text)
    depths = accumulate((c == "(") - (c == ")") for c in text)
    ends = [k for k, depth in enumerate(depths) if text[k] == ")" and not depth]
    return found[1] if found and ends[:1] == [len(text) - 1] else None


class Explored:
    """A page, asked for the lines that an expression of the source becomes."""

    def __init__(self, f, *args, **options):
        self.f = f
        self.page = explore(f, f._describe(args, {})[0] if args else f._shown(()), **options)
        self.columns = {c.key: c for c in self.page.columns}

    def lines(self, key, expression, tab=0):
        """The lines of a column that come from an expression, if only in part."""
        places = self.page.places
        wanted = {k for k in places.numbers.values() if places.text(k) == expression}
        assert wanted, f"{expression} is no place"
        return [line.text.strip() for line in self.columns[key].tabs[tab].lines if line.places & wanted]

    def parts(self, key, expression, tab=0):
        """The parts of lines that come from an expression."""
        places = self.page.places
        wanted = {k for k, text in places.numbered.items() if text == expression}
        return [
            line.text[m.start : m.end]
            for line in self.columns[key].tabs[tab].lines
            for m in line.marks
            if wanted & set(m.places)
        ]

    def text(self, key, tab=0):
        return "\n".join(line.text for line in self.columns[key].tabs[tab].lines)


@cache
def misra():
    return Explored(adc.compile(MISRA, name="misra", args="b1, b2, x"), 250.0, 5e-4, np.ones(5))


# -- what an expression becomes ----------


def test_an_expression_lights_up_its_operation_at_every_stage():
    page = misra()
    assert page.parts("source", "exp(-b2 * x)") == ["exp(-b2 * x)"]
    assert page.parts("ir", "exp(-b2 * x)") == ["exp(-(%b2 * %x[i]))"]
    assert page.lines("forward", "exp(-b2 * x)") == ["%t0 = array (i < n) { exp(-(%b2 * %x[i])) }"]
    assert "v0 = math.exp(-(b2 * x[i0]))" in page.lines("kernel", "exp(-b2 * x)", 1)
    assert page.parts("kernel", "exp(-b2 * x)") == ["math.exp(-(b2 * x[i0]))"]


def test_a_parameter_lights_up_where_it_is_read():
    page = misra()
    assert page.parts("source", "b2") == ["b2"]
    assert page.parts("ir", "b2") == ["%b2"]
    assert page.parts("kernel", "x") == ["x[i0]"]
    assert page.parts("propagate", "b2") == ["%db2 = reduce sum (| i < n)", "%b2"]  # its gradient


def test_the_derivative_of_an_expression_is_part_of_what_it_becomes():
    page = misra()
    assert page.parts("propagate", "b1 * (1 - exp(-b2 * x))") == [
        "%db1 = reduce sum (| i < n)", "%dr[i] * %t1[i]", "%dr[i] * %b1",
    ]  # fmt: skip
    assert page.parts("propagate", "exp(-b2 * x)")[-1] == "%1[i] * %t0[i]"
    assert "dx[i0] = v1 * b2" in page.lines("kernel", "-b2 * x", 2)
    heads = [m for line in page.columns["propagate"].tabs[0].lines for m in line.marks]
    assert all(m.derivative for m in heads if max(m.places) <= len(page.page.places.spans))


def test_a_sum_of_contributions_comes_from_the_value_or_from_its_terms():
    """The adjoint of `s` belongs to `sin(x)`; that of a parameter belongs to all that reads it."""
    page = Explored(
        adc.compile("def f(x, y):\n    s = sin(x)\n    return s * s + s * y + exp(y)"), assembles=False
    )
    assert "%dr * %y + u0 + u0" in page.parts("propagate", "sin(x)")
    assert page.parts("propagate", "exp(y)") == ["%dy = array ()", "%dr * %s + %dr * %t1", "%dr * %t1"]
    assert page.parts("propagate", "s * y")[-2:] == ["%dr * %s + %dr * %t1", "%dr * %s"]


def test_programs_whose_inputs_have_other_positions_have_their_own_places():
    """Propagate reads `h` where the function has its parameter `v`: `h * h` does not come from `v * v`."""
    page = Explored(adc.compile("def f(w, v):\n    h = tan(w)\n    return h + v * v"), assembles=False)
    assert "%h * %h" in page.parts("propagate", "tan(w)")
    assert "%h * %h" not in page.parts("propagate", "v * v")


def test_a_branch_of_a_condition_has_its_adjoint():
    page = Explored(adc.compile("where(x > 0, sin(x), -x) * x"), assembles=False)
    assert page.parts("propagate", "where(x > 0, sin(x), -x)") == ["%0 = array ()"]


def test_reductions_and_products_of_matrices():
    f = adc.compile(RESIDUALS, args="w, X, y")
    page = Explored(f, np.ones(2), np.ones((3, 2)), np.ones(3))
    assert page.parts("ir", "X @ w")[0] == "%0 = reduce sum (i < m, j < 1 | k < n)"
    (total,) = page.parts("ir", RESIDUALS)
    assert total.startswith("%r = reduce sum (| i < m)")
    assert page.lines("kernel", "X @ w", 0)[0].startswith("t_sum = 0.0")
    assert all("reduce_add" in x or "=" in x for x in page.lines("kernel", RESIDUALS, 0))


def test_loops_and_conditions():
    page = Explored(adc.compile(LOOP))
    assert [p for p in page.parts("ir", "sin(x)") if "sin" in p]
    assert [p for p in page.parts("propagate", "sin(x)") if "cos" in p]
    assert any("math.sin" in line for line in page.lines("kernel", "sin(x)"))
    assert page.parts("ir", "x > 0")


def test_a_name_lights_up_where_its_value_was_computed():
    page = Explored(adc.compile("def f(x):\n    s = sin(x)\n    return s * s"))
    line = page.columns["source"].tabs[0].lines[2]
    name = next(m for m in line.marks if line.text[m.start : m.end] == "s")
    assert [page.page.places.text(p) for p in name.values] == ["sin(x)"]


def test_an_expression_that_is_written_twice_is_computed_once():
    page = Explored(adc.compile("def f(x):\n    return sin(x) + 2.0 * sin(x)"))
    both = [p for k, p in page.page.places.values.items() if page.page.places.text(k) == "sin(x)"]
    assert both
    assert len(page.parts("source", "sin(x)")) == 2
    assert len([p for p in page.parts("ir", "sin(x)") if p == "sin(%x)"]) == 1


def test_definitions_that_are_called():
    page = Explored(adc.compile("def half(x):\n    return x / 2.0\ndef f(x):\n    return half(x) + 1.0"))
    assert page.parts("ir", "x / 2.0") == ["%x / 2.0"]


@pytest.mark.slow
def test_functions_of_the_prelude_are_at_their_call():
    page = Explored(adc.compile("sum(expm(A))"), np.ones((2, 2)))
    assert page.parts("ir", "expm(A)")


FUSED = {
    "inlined": """def f(x, w, v):
    h = tan(x * w)
    g = exp(-h) + sqrt(v * v + 1.0)
    return sum(log(1.0 + g) * h)
""",
    "products": """def f(x, w, v):
    A = outer(x, w)
    u = A @ A
    h = 0.5 * u * (1.0 + tan(0.8 * (u + 0.04 * u**3)))
    return sum((h @ A) * v)
""",
    "softmax": """def f(x, w, v):
    p = exp(x - max(x))
    q = p / sum(p)
    return -sum(log(q) * tan(w)), sum(q * v)
""",
    "loop": """def f(x, w, v):
    h = tan(v)
    for k in range(3):
        h = tan(h * w + x) * exp(-h)
    return sum(sqrt(h * h + v * v))
""",
    "rows": """def f(x, w, v):
    total = 0.0
    for k in range(len(x)):
        total = log(exp(total * 0.5) + exp(x[k] * v[k]))
    return total * tan(w[0])
""",
}


@pytest.mark.parametrize("text", FUSED.values(), ids=FUSED)
def test_every_operation_of_a_derivative_comes_from_somewhere(text):
    page = Explored(adc.compile(text), *[np.ones(3)] * 3, assembles=False)
    for line in page.columns["propagate"].tabs[0].lines[1:]:
        marked = {k for mark in line.marks for k in range(mark.start, mark.end)}
        signs = {k for k, c in enumerate(line.text) if c in "+*/"}
        assert signs <= marked, line.text


@pytest.mark.parametrize("text", FUSED.values(), ids=FUSED)
def test_functions_come_from_where_they_are_written(text):
    """However the program is rewritten, an `exp` of a kernel lights up for an expression with an `exp`."""
    page = Explored(adc.compile(text), *[np.ones(3)] * 3, assembles=False)
    for key in ("ir", "forward", "propagate", "kernel"):
        for tab in page.columns[key].tabs:
            for line in tab.lines:
                for mark in line.marks:
                    name = called(line.text[mark.start : mark.end])
                    if name and not mark.derivative:
                        places = [page.page.places.text(place) for place in mark.places]
                        assert any(name in p for p in places), (key, tab.title, line.text, places)


def test_the_assembly_has_the_places_of_its_statements():
    page = misra()
    tab = page.columns["assembly"].tabs[0]
    assert tab.lines[0].text.endswith(":")
    lit = page.lines("assembly", "exp(-b2 * x)")
    assert lit
    assert len(lit) < len(tab.lines)
    assert not any(line.marks for line in tab.lines if line.text.endswith(":"))


@pytest.mark.thinned(2)
@pytest.mark.parametrize("stage", ["ir", "forward"])
@pytest.mark.parametrize("text", [MISRA, LOOP, "where(a > 0, a**2, -a) * 2.0**(-b)"])
def test_programs_are_printed_as_show_prints_them(text, stage):
    f = adc.compile(text)
    assert Explored(f).text(stage) == f.show(stage).rstrip("\n")


# -- columns ----------


def test_propagate_has_a_tab_for_each_pattern_of_none():
    page = Explored(adc.compile("def f(x, y):\n    return x * y, sin(x)"), assembles=False)
    titles = [tab.title for tab in page.columns["propagate"].tabs]
    assert titles == ["dr0, dr1", "dr0, dr1 = None", "dr0 = None, dr1"]
    assert "cos" not in page.text("propagate", 1)
    kernels = [tab.title for tab in page.columns["kernel"].tabs]
    assert kernels == ["value", "forward", *titles]


def test_many_results_have_some_of_their_patterns():
    page = Explored(adc.compile("def f(x):\n    return x, 2.0 * x, 3.0 * x, 4.0 * x"), assembles=False)
    assert len(page.columns["propagate"].tabs) == 8


def test_without_a_gradient_there_is_a_reason():
    page = Explored(adc.compile("def f(k: i64):\n    return k + 1"))
    assert "no gradient" in page.columns["propagate"].missing
    assert "k + 1" in "".join(page.lines("source", "k + 1"))


@pytest.mark.parametrize(
    ("backend", "missing"), [("cuda", "ptx"), ("numpy", "another way"), ("cpu-precise", "")]
)
def test_back_ends(backend, missing):
    page = Explored(adc.compile("sum(exp(x))", backend=backend), np.ones(3))
    assert missing in page.columns["assembly"].missing
    assert "exp" in page.text("kernel")
    assert page.parts("ir", "exp(x)") == ["exp(%x[i])"]


def test_kernels_of_a_device_have_the_places_of_their_lines():
    page = Explored(adc.compile("sum(exp(x) * y)", backend="cuda"), *[np.ones(3)] * 2)
    assert page.columns["kernel"].title == "CUDA"
    assert page.lines("kernel", "exp(x)", 0)
    assert all("exp" in line for line in page.lines("kernel", "exp(x)", 0))
    assert any(line.startswith("dx[i0] = ") for line in page.lines("kernel", "exp(x)", 2))
    assert not any(line.startswith(("#", "from", "while")) for line in page.lines("kernel", "exp(x)", 2))


def test_a_page_for_the_cpu_has_kernels_of_a_device_where_they_can_be_compiled(monkeypatch):
    monkeypatch.setattr("adcompiler.explain.page.explorer.find_spec", lambda name: name)
    page = Explored(adc.compile("sum(exp(x))"), np.ones(3))
    assert [c.key for c in page.page.columns][-3:] == ["kernel", "assembly", "cuda"]
    assert page.lines("cuda", "exp(x)", 0)


def test_derivatives_have_pages():
    page = Explored(adc.grad(adc.compile("x * sin(x)")))
    assert any("cos" in p for p in page.parts("ir", "sin(x)"))


# -- what becomes of values ----------


def test_saved_and_fused_values_have_reasons():
    text = "def f(x, y):\n    p = exp(x)\n    q = p + y\n    return sum(p * q)"
    page = Explored(adc.compile(text), np.ones(3), np.ones(3), assembles=False).page
    fates = {fate.name: fate for fate in page.fates}
    assert fates["p"].propagate == "saved"
    assert "`p * q`" in fates["p"].why
    assert fates["p"].kernel == "fused"
    assert [page.places.text(p) for p in fates["p"].places] == ["exp(x)"]


def test_stored_values_have_readers():
    text = "def f(x):\n    p = exp(x)\n    m = sum(p)\n    q = p / m\n    return q, sum(q * q)"
    page = Explored(adc.compile(text), np.ones(3), assembles=False).page
    fates = {fate.name: (fate.kernel, fate.why_kernel) for fate in page.fates}
    assert fates == {
        "p": ("stored", "another loop nest reads it"),
        "m": ("a number", ""),
        "q": ("a result", ""),
    }


def test_values_over_pairs_are_computed_again():
    f = adc.compile("sum(exp(-c * (a - b)**2) for a in x for b in x)", args="x, c")
    page = Explored(f, np.ones(3), 2.0, assembles=False).page
    assert "exp" in page.again


# -- the page ----------


class Reader(HTMLParser):
    """Checks that tags are balanced; collects texts of elements, scripts, and attributes."""

    VOID = ("br", "meta")

    def __init__(self, page):
        super().__init__()
        self.open, self.scripts, self.attributes, self.words = [], [], [], {}
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.attributes += given.items()
        if tag not in self.VOID:
            self.open.append((tag, given.get("id", "")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "script":
            self.scripts.append(data)
        for _, name in self.open:
            self.words[name] = self.words.get(name, "") + data


HOSTILE = '''def f(x):
    """</script><script>alert(1)</script> "quoted" & <img src=x onerror='alert(2)'>"""
    # </style></pre><svg onload=alert(3)> \u2028 \ue0000\ue001
    return x * 2.0 if x < 1.0 else x
'''


def test_texts_are_no_markup():
    f = adc.compile(HOSTILE, name="f")
    page = document(Explored(f, assembles=False).page)
    found = Reader(page)
    assert found.scripts == [resource("page.js")]
    names = {name for name, _ in found.attributes}
    assert not [n for n in names if n.startswith("on") or n in ("src", "href", "style")]
    assert found.words["source-0"].rstrip("\n") == HOSTILE.rstrip("\n")
    assert "<script>alert" not in page


def test_the_page_asks_for_nothing_from_elsewhere():
    page = document(misra().page)
    Reader(page)
    policy = next(v for k, v in Reader(page).attributes if k == "content" and "default-src" in v)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "://" not in page.replace("http-equiv", "")


def test_marks_name_the_places_of_the_source():
    page = misra().page
    found = Reader(document(page))
    places = json.loads(dict(found.attributes)["data-places"])
    assert [p["text"] for p in places.values()][:2] == [MISRA, "b1"]
    named = {int(n) for k, v in found.attributes if k in ("data-at", "data-values") for n in v.split()}
    assert named == {int(k) for k in places}


@adc.function
def decorated(x):
    return exp(-x) * 2.0  # noqa: F821


def test_lines_of_decorated_functions_have_the_numbers_of_their_file():
    page = Explored(decorated, assembles=False).page
    line = decorated._closure.source.first_line
    found = Reader(document(page))
    numbers = [int(v) for k, v in found.attributes if k == "data-n"][:2]
    assert numbers == [line, line + 1]
    (place,) = [k for k in page.places.numbers.values() if page.places.text(k) == "exp(-x)"]
    assert "exp(-x)" in Path(__file__).read_text("utf-8").splitlines()[page.places.line(place) - 1]


def test_show_returns_the_page():
    f = adc.compile("sin(x) * y", name="wave")
    assert "from source to machine code" in f.show("html")
    with pytest.raises(adc.Error, match="ptx, html"):
        f.show("htm")


def test_rooflines_are_those_of_the_report(monkeypatch):
    monkeypatch.setattr("adcompiler.runtime.reports.cost.KERNEL_SECONDS", 0.001)
    f = adc.compile("sum(exp(x) * y)", name="f")
    found = Reader(f.show("html", np.ones(8), np.ones(8)))
    text = found.words["costs"]
    assert "For n = 8" in text
    assert "value and grad" in text
    assert "roofline" in text


# -- colours ----------


def words(column, *lines):
    """The coloured words of lines, each with its kind."""
    found = coloured(column, lines)
    return [
        (line[a:b].strip(), kind) for line, spans in zip(lines, found, strict=True) for a, b, kind in spans
    ]


def test_python_has_colours():
    assert words("source", "def f(x: f64[n]):", "    return exp(-x1) if x > 1e-3 else 2  # not a 'text'") == [
        ("def", "kw"), ("f", "fn"), ("f64", "ty"), ("return", "kw"), ("exp", "fn"), ("if", "kw"),
        ("1e-3", "num"), ("else", "kw"), ("2", "num"), ("# not a 'text'", "com"),
    ]  # fmt: skip
    assert words("kernel", "@jit", 'x = p["for # 3"]') == [("@jit", "kw"), ('"for # 3"', "str")]


def test_texts_of_several_lines_are_texts():
    """Words in them are none; a comment or another text opens none."""
    lines = ['"""Not for', "# this 3", 'end""" + f(1)  # """', 'x = \'"""\'', "return"]
    assert words("source", *lines) == [
        ('"""', "str"), ("Not for", "str"), ("# this 3", "str"), ('end"""', "str"), ("f", "fn"),
        ("1", "num"), ('# """', "com"), ("'\"\"\"'", "str"), ("return", "kw"),
    ]  # fmt: skip


def test_ir_and_assembly_have_colours():
    assert words("ir", "  %r = reduce sum (| i < n) { exp(%x[i]) * 2.5 }") == [
        ("%r", "var"), ("reduce", "kw"), ("exp", "fn"), ("%x", "var"), ("2.5", "num"),
    ]  # fmt: skip
    assert words("assembly", "share0:", "    vmovupd  $16, 8(%rax)  # a load", "    fmul  v0.2d, v1.2d") == [
        ("share0:", "fn"), ("vmovupd", "kw"), ("$16", "num"), ("8", "num"), ("%rax", "var"),
        ("# a load", "com"), ("fmul", "kw"), ("v0.2d", "var"), ("v1.2d", "var"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", [MISRA, LOOP])
def test_colours_leave_texts_and_marks_as_they_are(text):
    """The page has the same texts, and a coloured word stands in the innermost mark."""
    explored = Explored(adc.compile(text), assembles=False)
    page = document(explored.page)
    for column in explored.page.columns:
        for k, tab in enumerate(column.tabs):
            panel = page.partition(f'id="{column.key}-{k}"')[2].partition("<pre>")[2].partition("</pre>")[0]
            plain = unescape(re.sub(r"<[^>]*>", "", panel))
            assert plain == "".join(f"{line.text}\n" for line in tab.lines)
            assert panel.count("data-at=") == sum(len(line.marks) for line in tab.lines)
            assert "<i class=" in panel


@pytest.mark.parametrize("scheme", [0, 1])
def test_colours_are_legible(scheme):
    """Every word has a contrast of 4.5 with its ground, also where it is lit."""
    found = re.findall(r"--([\w-]+): (#\w{6});", resource("page.css"))
    names = [name for name, _ in found]
    second = names.index("ground", 1)
    values = dict(found[:second]) | (dict(found[second:]) if scheme else {})

    def light(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for kind in (KEYWORD, CALL, NUMBER, COMMENT, TEXT, NAME, TYPE):
        for ground in ("raised", "lit", "part"):
            low, high = sorted((light(values[kind]), light(values[ground])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, f"--{kind} on --{ground}"
