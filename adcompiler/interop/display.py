"""What a notebook shows of a function: its signature and source, and in LaTeX its value and its gradient."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from adcompiler.errors import Error
from adcompiler.ir.nodes import Element, Func, Map, Read
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.passes.pipeline import OPTIMISE, run
from adcompiler.runtime.signature import FLOAT
from adcompiler.runtime.transforms import Derived, grad
from adcompiler.syntax.structures import arrays_in

LONGEST = 120  # operations of a formula that is still read


def latex(f: Any) -> str | None:
    """The value of a function of numbers, and its gradient if it has one, as equations; None for a function
    that SymPy has no form of, or whose formulas are too long to be read."""
    lines = list(_equations(f))
    return "$$\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}$$" if lines else None


def html(f: Any) -> str:
    """The signature, the source with its words in colors, the equations, and which gradients there are."""
    parts = [f"<p><code>{escape(signature(f))}</code></p>"]
    if (source := _source(f)) is not None:
        parts.append(_highlighted(source))
    if (equations := latex(f)) is not None:
        parts.append(f"<div>{escape(equations)}</div>")
    if (text := _explanation(f)) is not None:
        parts.append(f"<details><summary>gradients</summary><pre>{escape(text)}</pre></details>")
    return f'<div class="adc-function">{"".join(parts)}</div>'


def signature(f: Any) -> str:
    """Parameters and results with their types: as last called, else as annotated."""
    try:
        head = f.show("ir").splitlines()[0]
    except Error:  # of types that are not known yet
        return f"{f.__name__}({', '.join(p.name for p in f.parameters)})"
    types: str = head[head.index("(%" if f.parameters else "() ") :]
    return str(f.__name__) + types.removesuffix(" {").replace("%", "")


def _source(f: Any) -> str | None:
    return None if f.closure is None else str(f.closure.source.text).strip("\n")


def _explanation(f: Any) -> str | None:
    if isinstance(f, Derived):
        return None
    try:
        return str(f.explain())
    except Error:
        return None


def _highlighted(text: str) -> str:
    """Code as HTML, by Pygments where that is installed, as it is with IPython."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer
    except ImportError:
        return f"<pre>{escape(text)}</pre>"
    return str(highlight(text, PythonLexer(), HtmlFormatter(noclasses=True, nobackground=True)))


# -- equations ----------


def _equations(f: Any) -> Iterator[str]:
    """`f(x, y) = ...`, then a derivative by each parameter."""
    value = _form(f)
    if value is None:
        return
    from sympy import Symbol, latex

    names = [latex(Symbol(p.name)) for p in f.parameters]
    head = f"\\operatorname{{{_plain(f.__name__)}}}"
    yield f"{head}\\left({', '.join(names)}\\right) &= {latex(value)}"
    if isinstance(f, Derived) or isinstance(value, tuple | list | dict) or (slopes := _form(grad(f))) is None:
        return
    each = slopes if isinstance(slopes, tuple) else (slopes,)
    for name, slope in zip(names, each, strict=True):
        yield f"\\frac{{\\partial {head}}}{{\\partial {name}}} &= {latex(slope)}"


def _plain(name: str) -> str:
    return name.replace("_", "\\_")


def _form(f: Any) -> Any:
    """A function of numbers in SymPy; None where there is none, it is too long, or arguments are arrays."""
    try:
        if any(a.ones for a in arrays_in(f._shown(()))):
            return None
        func = run(OPTIMISE, f.trace(tuple(FLOAT for _ in f.parameters)).func)
        return f.sympy() if _length(func) <= LONGEST else None
    except Error:
        return None


def _length(func: Func) -> float:
    """How many operations formulas have in which what is shared is written out; infinite with arrays."""
    of: dict[Any, float] = {}

    def length(element: Element) -> float:
        return (
            of.get(element.array, 1.0) if isinstance(element, Read) else 1 + sum(of[a] for a in element.args)
        )

    for array in arrays_of(func.results):
        if array.rank:
            return float("inf")
        for element in elements_of(array.elements):
            of[element] = length(element)
        of[array] = of[array.body] if isinstance(array, Map) else 1.0
    return sum(of[r] for r in func.results)
