"""The display of a function in a notebook: signature, source, value and gradient in LaTeX, and its stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import escape
from math import inf
from typing import Any

from adcompiler.api.modes import Hessian, Jacobian
from adcompiler.api.transforms import Derived, Gradient, grad
from adcompiler.errors import Error, LimitError
from adcompiler.explain.page.html import embedded
from adcompiler.interop.limits import MOST_OPERATIONS, MOST_SHOWN_OPERATIONS
from adcompiler.interpreter.indexed import Written, length, symbol, to_indexed
from adcompiler.ir.nodes import Func
from adcompiler.pytree.kinds import Types
from adcompiler.runtime.reports.show import show


def latex(f: Any) -> str | None:
    """The value of a function, and its gradient if it has one, as equations; None for a function that has no
    form in SymPy, or whose formulas are too long to read."""
    try:
        types = _types(f, ())
        lines = list(_values(f, types, MOST_SHOWN_OPERATIONS))
    except Error:
        return None
    if not isinstance(f, Derived):
        with suppress(Error):
            lines += _gradient(f, types, MOST_SHOWN_OPERATIONS)
    return f"$${_aligned(lines)}$$" if lines else None


def formula(f: Any, args: Sequence[Any], gradient: bool) -> str:
    """The elements of the results, or equations of value and gradient, for arguments of these types.

    Raises DtypeError for functions without such a form, LimitError if it is too long.
    """
    types = _types(f, args)
    if gradient:
        return _aligned([*_values(f, types, MOST_OPERATIONS), *_gradient(f, types, MOST_OPERATIONS)])
    from sympy import latex

    forms = [form for _, form in _symbolic(f, types, MOST_OPERATIONS)[1]]
    text: str = latex(forms[0] if len(forms) == 1 else tuple(forms))
    return text


def html(f: Any) -> str:
    """The signature, the highlighted source, the equations; folded, an explanation of the gradients and the
    explorer."""
    parts = [f"<p><code>{escape(signature(f))}</code></p>"]
    if (source := _source(f)) is not None:
        parts.append(_highlighted(source))
    if (equations := latex(f)) is not None:
        parts.append(f"<div>{escape(equations)}</div>")
    if (text := _explanation(f)) is not None:
        parts.append(f"<details><summary>gradients</summary><pre>{escape(text)}</pre></details>")
    if (page := _page(f)) is not None:
        parts.append(page)
    return f'<div class="adc-function">{"".join(parts)}</div>'


def signature(f: Any) -> str:
    """Parameters and results with their types: those of the last call, else the annotations."""
    try:
        head = show(f, "ir", _types(f, ()), None).splitlines()[0]
    except Error:  # the types are not known yet
        return f"{f.__name__}({', '.join(f._names)})"
    types: str = head[head.index("(%" if f._parameters else "() ") :]
    return str(f.__name__) + types.removesuffix(" {").replace("%", "")


def _types(f: Any, args: Sequence[Any]) -> Types:
    """The types of arguments, else those of the last call, of the differentiated function if need be."""
    if not args and f._last is None and isinstance(f, Gradient | Jacobian | Hessian):
        return _types(f._of, args)
    return f._shown(args)  # type: ignore[no-any-return]


def _source(f: Any) -> str | None:
    return None if f._closure is None else str(f._closure.source.text).strip("\n")


def _explanation(f: Any) -> str | None:
    if isinstance(f, Derived):
        return None
    try:
        return str(f.explain())
    except Error:
        return None


def _page(f: Any) -> str | None:
    """The explorer, folded."""
    if f._closure is None:
        return None
    try:
        return embedded(f, _types(f, ()))
    except Error:
        return None


def _highlighted(text: str) -> str:
    """Code as HTML, by Pygments if it is installed, as it is with IPython."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import PythonLexer
    except ImportError:
        return f"<pre>{escape(text)}</pre>"
    return str(highlight(text, PythonLexer(), HtmlFormatter(noclasses=True, nobackground=True)))


# -- equations ----------


def _aligned(lines: Sequence[str]) -> str:
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def _values(f: Any, types: Types, longest: int) -> Iterator[str]:
    """`f(x, y) = ...`, or an equation for each of several results."""
    from sympy import latex

    func, forms = _symbolic(f, types, longest)
    names = ", ".join(_name(n) for n in func.input_names)
    if len(forms) > 1 and not any(indices for indices, _ in forms):
        forms = [((), tuple(form for _, form in forms))]
    for name, (indices, form) in zip(func.result_names, forms, strict=False):
        left = f"{_head(f)}\\left({names}\\right)" if len(forms) == 1 else _name(name)
        yield f"{_indexed(left, indices)} &= {latex(form)}"


def _gradient(f: Any, types: Types, longest: int) -> Iterator[str]:
    """An equation for the derivative by each parameter."""
    from sympy import latex

    func, forms = _symbolic(grad(f), types, longest)
    for k, (indices, form) in zip(f._wanted(None, types)[1], forms, strict=True):
        by = _indexed(_name(func.input_names[k]), indices)
        yield f"\\frac{{\\partial {_head(f)}}}{{\\partial {by}}} &= {latex(form)}"


def _head(f: Any) -> str:
    name = str(f.__name__).replace("_", "\\_")
    return f"\\operatorname{{{name}}}"


def _name(name: str) -> str:
    from sympy import Symbol, latex

    text: str = latex(Symbol(symbol(name)))
    return text


def _indexed(name: str, indices: Sequence[Any]) -> str:
    return f"{{{name}}}_{{{','.join(map(str, indices))}}}" if indices else name


def _symbolic(f: Any, types: Types, longest: int) -> tuple[Func, list[Written]]:
    """The program of a function and its results in SymPy."""
    func = f._trace(types).func
    count = length(func)
    if longest < count < inf:
        raise LimitError(
            f"written out, {f.__name__} has {count:.0f} operations; the limit is {longest}",
            remedy='show("ir") has each operation once',
        )
    return func, to_indexed(func)
