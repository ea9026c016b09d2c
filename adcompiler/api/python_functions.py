"""Plain Python functions: their text, the objects around them, and one compiled function for each."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from threading import local
from types import CodeType, FunctionType
from typing import Any
from weakref import ref

import numpy as np

from adcompiler import provided
from adcompiler.errors import Error, ParseError, Source, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.parse import parse
from adcompiler.frontend.grammar.recovery import parse_all
from adcompiler.ir.walk import postorder
from adcompiler.lazy import WeakMemo

LAMBDA = "lambda_"  # the name of a lambda in the language
CACHED = type(lru_cache(len))
ARBITRARY = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
# Libraries whose functions have no source in the language.
LIBRARIES = frozenset(
    ("numpy", "scipy", "jax", "torch", "autograd", "cupy", "sympy", "numba", "casadi", "adcompiler")
)
COMPILING = local()  # `functions`: those that this thread compiles


# -- text ----------------------------------------------------------------------------------------------


def parsed(f: FunctionType) -> tuple[tree.Module, str, list[Error]]:
    """The text of a function as a tree, the name of its definition there, and the lines that are outside the
    language. What the code of `f` runs counts: around a function, `functools.wraps` only has its name."""
    if f.__code__.co_flags & ARBITRARY and f.__code__.co_qualname.rpartition(".")[0]:
        _refuse_wrapper(f)
    try:
        lines, first = inspect.getsourcelines(f.__code__)
    except (OSError, TypeError, IndexError) as error:
        raise _without_text(f, error) from None
    if f.__code__.co_name == "<lambda>":
        return _lambda(f), LAMBDA, []
    above = _decorators(lines)
    lines, first = lines[above:], first + above
    indent = len(lines[0]) - len(lines[0].lstrip())
    module, errors = parse_all(textwrap.dedent("".join(lines)), f.__code__.co_filename, first, indent)
    return module, f.__code__.co_name, errors


def _decorators(lines: Sequence[str]) -> int:
    """The number of lines above the `def` of a function's source: decorators may hold any Python."""
    try:
        definition = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except SyntaxError:
        return 0
    return definition.lineno - 1


def _without_text(f: FunctionType, error: Exception) -> Error:
    """Why the text of a function is not there."""
    place = f.__code__.co_filename
    typed = place.startswith("<")  # <stdin>, <string>
    why = f"Python keeps no source of code typed at its prompt or run by exec ({place})" if typed else error
    where = "write it in a file, a notebook or IPython" if typed else f"make sure that {place} exists"
    return Error(
        f"the source of {f.__name__} cannot be read: {why}", remedy=f"{where}; or pass adc.compile the text"
    )


def _refuse_wrapper(f: FunctionType) -> None:
    """Refuse the function that a decorator puts in place of another one, if it takes any arguments."""
    code, decorated = f.__code__, getattr(f, "__wrapped__", None)
    decorator = code.co_qualname.partition(".")[0]
    if not isinstance(decorated, FunctionType):
        return
    remedy = (
        f"give {code.co_name} the parameters of {f.__name__}, or write what {decorator} does in {f.__name__}"
    )
    source, span = _place(decorated, decorator)
    raise ParseError(
        f"the decorator {decorator} makes a function of any arguments, {code.co_name}(*args, **kwargs)",
        remedy=remedy,
        source=source,
        span=span,
    )


def _place(f: FunctionType, decorator: str) -> tuple[Source | None, Span | None]:
    """Where a function has a decorator of this name, else where its text begins."""
    try:
        lines, first = inspect.getsourcelines(f.__code__)
    except (OSError, TypeError, IndexError):
        return None, None
    source = Source("".join(lines), f.__code__.co_filename, first)
    for number, line in enumerate(lines, 1):
        column = line.find(decorator) + 1
        if line.lstrip().startswith("@") and column:
            return source, Span(number, column, number, column + len(decorator))
    return source, Span(1, 1, 1, len(lines[0].rstrip()) + 1)


def undecorated(value: Any) -> str | None:
    """What to write instead of the object that a decorator makes of a function; None for other objects."""
    if not isinstance(getattr(value, "__wrapped__", None), FunctionType):
        return None
    return f"write what the decorator {type(value).__name__} does in the function, and remove the decorator"


# -- lambdas -------------------------------------------------------------------------------------------


def _lambda(f: FunctionType) -> tree.Module:
    """A lambda as a module of one definition."""
    code = f.__code__
    text, _ = inspect.findsource(code)
    found = _lambda_at(code, "".join(text))
    body, args = found.body, found.args
    if args.vararg or args.kwarg or args.kwonlyargs:
        raise _of_lambda(code, "a lambda takes *, *args or **kwargs", "write a def with named parameters")
    start, end = body.lineno, body.end_lineno or body.lineno
    lines = [line.rstrip("\n") for line in text[start - 1 : end]]
    cut = list(lines)
    cut[-1] = _characters(cut[-1], body.end_col_offset or 0)
    column = len(_characters(lines[0], body.col_offset))
    cut[0] = " " * column + cut[0][column:]
    module = parse("\n".join(("(", *cut, ")")), code.co_filename, start - 1)
    expression = module.expression
    if expression is None:
        raise _of_lambda(code, "the body of a lambda is not an expression here", "write a def")
    named = [*args.posonlyargs, *args.args]
    optional = [a.arg for a in named[len(named) - len(args.defaults) :]] if args.defaults else []
    none = tree.Name(expression.span, "None")  # in place of the default that Python has computed
    parameters = tuple(
        tree.Parameter(expression.span, a.arg, None, none if a.arg in optional else None) for a in named
    )
    definition = tree.Def(
        expression.span, LAMBDA, parameters, (tree.Return(expression.span, expression),), None
    )
    source = replace(module.source, text="\n".join(("", *lines)))
    return replace(module, source=source, expression=None, statements=(definition,))


def _characters(line: str, bytes_before: int) -> str:
    """The start of a line that has so many bytes."""
    return line.encode()[:bytes_before].decode(errors="ignore")


def _lambda_at(code: CodeType, text: str) -> ast.Lambda:
    """The lambda in a text to which code belongs, by the columns of its instructions."""
    try:
        nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Lambda)]
    except SyntaxError:
        nodes = []
    here = [n for n in nodes if n.lineno == code.co_firstlineno]
    spans = [(a, c, b, d) for a, b, c, d in code.co_positions() if a and b and c is not None and d]
    around = [n for n in here if spans and all(_holds(n.body, span) for span in spans)]
    inner = [n for n in around if not any(m is not n and m in ast.walk(n) for m in around)]
    if len(inner or here) != 1:
        cause = "the source of a lambda cannot be found in its line"
        raise _of_lambda(code, cause, "write a def, or one lambda in a line")
    return (inner or here)[0]


def _holds(node: ast.expr, span: tuple[int, int, int, int]) -> bool:
    """Whether a stretch of code, from line and column to line and column, is inside of an expression."""
    ends = node.end_lineno or node.lineno, node.end_col_offset or 0
    return (node.lineno, node.col_offset) <= span[:2] and span[2:] <= ends


def _of_lambda(code: CodeType, cause: str, remedy: str) -> ParseError:
    """An error at the line where a lambda begins."""
    lines, _ = inspect.findsource(code)
    line = lines[code.co_firstlineno - 1].rstrip()
    source = Source(line, code.co_filename, code.co_firstlineno)
    column = max(line.find("lambda"), 0) + 1
    return ParseError(cause, remedy=remedy, source=source, span=Span(1, column, 1, column + 6))


# -- what is around --------------------------------------------------------------------------------------


def objects_around(f: FunctionType) -> dict[str, Any]:
    """The objects that the names around a function are bound to now, without itself."""
    cells = {
        name: cell.cell_contents
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        if _filled(cell)
    }
    found = {n: f.__globals__[n] for n in _names_used(f.__code__) if n in f.__globals__} | cells
    return {n: v for n, v in found.items() if v is not f and getattr(v, "__wrapped__", None) is not f}


def _names_used(code: CodeType) -> list[str]:
    """The global names in a function's code, and in that of the comprehensions and functions inside."""
    codes = postorder([code], lambda c: [k for k in c.co_consts if isinstance(k, CodeType)])
    return [name for c in codes for name in c.co_names]


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


# -- one compiled function for each ------------------------------------------------------------------------

_MADE: WeakMemo[FunctionType, list[tuple[Mapping[tuple[int, str], Any], Any]]] = WeakMemo()


def is_plain(value: Any) -> bool:
    """Whether a value is a Python function of the user's."""
    if type(value) is not FunctionType:
        return False
    root = (value.__module__ or "").partition(".")[0]
    return root not in LIBRARIES and root not in sys.stdlib_module_names


def compiled_plain(f: FunctionType) -> Any:
    """The compiled function of a plain Python function; another one if the objects around it have changed."""
    state = _state(f)
    made = _MADE.made(f, list)
    for before, function in made:
        if before.keys() == state.keys() and all(_same(before[k], state[k]) for k in state):
            return function
    stack: list[FunctionType] = COMPILING.__dict__.setdefault("functions", [])
    if f in stack:
        names = " and ".join(dict.fromkeys(g.__name__ for g in stack[stack.index(f) :]))
        raise Error(f"{names} call each other", remedy="write one function, or a loop")
    stack.append(f)
    try:
        found = provided.compile(f)
    finally:
        stack.pop()
    made[:] = [(state, found)]
    return found


def _state(f: FunctionType) -> dict[tuple[int, str], Any]:
    """The objects around a function and the functions that it names, and their defaults."""
    functions = postorder([f], lambda g: [v for v in objects_around(g).values() if is_plain(v)])
    found: dict[tuple[int, str], Any] = {}
    for number, g in enumerate(functions):
        found |= {(number, name): _frozen(value) for name, value in objects_around(g).items()}
        found[number, ""] = tuple(map(_frozen, g.__defaults__ or ()))
    return found


def _frozen(value: Any) -> Any:
    """A value to compare later: arrays and lists may change, and functions must not be kept."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) is FunctionType:
        return ref(value)
    return list(value) if type(value) is list else value


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, ref):
        return one() is other()
    return one is other or (isinstance(one, bool | int | float | str) and repr(one) == repr(other))
