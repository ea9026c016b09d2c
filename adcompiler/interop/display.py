"""What a notebook shows of a function: its signature and source, and in LaTeX its value and its gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from adcompiler.codegen.indexed import Written, length, symbol, to_indexed
from adcompiler.errors import Error
from adcompiler.ir.nodes import Func
from adcompiler.runtime.transforms import Derived, grad

LONGEST = 120  # operations of a formula that is still read


def latex(f: Any) -> str | None:
    """The value of a function, and its gradient if it has one, as equations; None for a function that has no
    form in SymPy, or whose formulas are too long to be read."""
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
    found = _written(f, f)
    if found is None:
        return
    from sympy import Symbol, latex

    func, forms = found
    head = f"\\operatorname{{{_plain(f.__name__)}}}"
    names = ", ".join(latex(Symbol(symbol(n))) for n in func.input_names)
    if len(forms) > 1 and not any(indices for indices, _ in forms):
        forms = [((), tuple(form for _, form in forms))]
    for name, (indices, form) in zip(func.result_names, forms, strict=False):
        left = f"{head}\\left({names}\\right)" if len(forms) == 1 else latex(Symbol(symbol(name)))
        yield f"{_indexed(left, indices)} &= {latex(form)}"
    if len(func.results) > 1 or func.results[0].rank or isinstance(f, Derived):
        return
    slopes = _written(grad(f), f)
    for k, (indices, form) in zip(_wanted(f), slopes[1] if slopes else (), strict=False):
        by = _indexed(latex(Symbol(symbol(func.input_names[k]))), indices)
        yield f"\\frac{{\\partial {head}}}{{\\partial {by}}} &= {latex(form)}"


def _indexed(name: str, indices: Sequence[Any]) -> str:
    return f"{{{name}}}_{{{','.join(map(str, indices))}}}" if indices else name


def _plain(name: str) -> str:
    return name.replace("_", "\\_")


def _wanted(f: Any) -> Sequence[int]:
    """The inputs that a gradient is by."""
    types = f._shown(())
    return tuple(f.inputs_of(f.positions(None, types), types))


def _written(f: Any, called: Any) -> tuple[Func, list[Written]] | None:
    """The program of a function and its results in SymPy, for arguments as in the last call of another; None
    where there is no such form, or it is too long."""
    try:
        func = f.trace(called._shown(())).func
        return (func, to_indexed(func)) if func.results and length(func) <= LONGEST else None
    except Error:
        return None
