"""Entry points: text, a file, or a decorated Python function."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, overload

from adcompiler.api.function import Function, SourceFunction
from adcompiler.api.numba_functions import (
    NumbaFunction,
    fitted,
    of_numba,
    why_refused,
)
from adcompiler.api.python_functions import CACHED, parsed, undecorated
from adcompiler.api.surroundings import captured, meanings
from adcompiler.errors import DtypeError, Error, FileError, MissingFileError, ParseError
from adcompiler.frames import public
from adcompiler.frontend.grammar.parse import parse
from adcompiler.frontend.grammar.recovery import UNKNOWN
from adcompiler.frontend.grammar.tree import Module
from adcompiler.frontend.lowering.early_checks import ANY, check, mistakes
from adcompiler.frontend.lowering.from_sympy import closure_from_sympy, is_sympy
from adcompiler.frontend.lowering.procedures import with_procedures
from adcompiler.frontend.lowering.program import closure_of, scope_of
from adcompiler.frontend.values.values import Closure, FunctionValue
from adcompiler.public_types import AnyFunction
from adcompiler.runtime.programs.options import Options, options
from adcompiler.runtime.programs.python_constants import with_defaults


@public
def compile(
    source: AnyFunction,
    name: str | None = None,
    args: Sequence[str] | str | None = None,
    static: Sequence[str] | str = (),
    broadcasting: str = "numpy",
    backend: str = "cpu",
    memory: int | str | None = None,
    precise: bool = False,
    save: str | Sequence[str] = "partials",
    unchecked: bool = False,
    threads: int | None = None,
) -> Function:
    """Compile a function from text: one expression, or constants and `def`s.

    source        the text (str, or bytes in UTF-8), a Python function or a function of numba, whose source is
                  read, or a SymPy expression or matrix, whose parameters are its symbols sorted by name
    name          the definition to compile, if there are several (by default the last one that no other
                  one calls), or the name of an expression
    args          parameters of an expression, in order: a sequence, or one string "x, y". By default its
                  variables in order of first appearance
    static        parameters known at compile time: each value has a separate program
    broadcasting  "numpy", or "strict": operands are scalars or have identical shapes
    backend       "cpu" (machine code); "numpy" (an interpreter, which compiles nothing); "numba" (numba
                  compiles the source shown by `show("kernel")`, for one thread); "cuda",
                  "cuda-atomics" and "cuda-fast" (NVIDIA devices, docs/cuda.md)
    memory        a limit for the saved values of a loop in reverse mode: bytes, or a string such as "64MB".
                  A loop that needs more runs in segments, which run again in the backward pass. Carried
                  values have the same bits; sums over an axis, and matrix products that a whole loop
                  collects, may add in another order
    precise       use the scalar C library for mathematical functions in loops, also in derivatives: slower
                  than vectors, with smaller errors (docs/accuracy.md). The same as
                  backend="cpu-precise"
    save          the values that a forward pass saves if the backward pass is separate (split, vjp, the
                  tape): "partials", "auto" or names of temporaries, see `Function.split`
    unchecked     omit checks of indices that depend on values (`x[idx[i]]`): out of range they read 0 and
                  store nothing, without an error. Memory outside an array is never accessed
    threads       the number of threads that share long loops, also in derivatives; by default that of
                  `adc.get_num_threads()`. The bits are the same for any number

    Raises ParseError, LimitError and other errors that are independent of arguments (unknown names, wrong
    calls, strings as operands). Errors of shapes and types are raised at the call.
    """
    chosen = options(broadcasting, backend, memory, precise, save, unchecked, threads)
    if isinstance(source, FunctionType | CACHED) or of_numba(source) is not None:
        return _from_python(source, _names(static), chosen)
    given = _names(args) if args is not None else None
    if is_sympy(source):
        return _made(closure_from_sympy(source, name, given), _names(static), chosen)
    module = parse(source)
    closure = closure_of(module, name, given, {})
    return _made(closure, _names(static), chosen)


@public
def load(
    path: str | Path,
    broadcasting: str = "numpy",
    backend: str = "cpu",
    memory: int | str | None = None,
    precise: bool = False,
    save: str | Sequence[str] = "partials",
    unchecked: bool = False,
    threads: int | None = None,
) -> SimpleNamespace:
    """The definitions of an .adc file as attributes.

    Raises FileError if the file cannot be read, and the errors of `compile`.
    """
    path, text = _read(path)
    chosen = options(broadcasting, backend, memory, precise, save, unchecked, threads)
    return SimpleNamespace(**loaded(text, str(path), path.stem, chosen))


def loaded(text: bytes, name: str, stem: str, chosen: Options) -> dict[str, Any]:
    """The definitions in a text, which messages call `name`; an expression is a definition called `stem`."""
    return _definitions(parse(text, name=name), stem, {}, (), chosen)


def cell(text: str, name: str | None, around: Mapping[str, Any], static: str, **given: Any) -> dict[str, Any]:
    """The definitions of a notebook cell, which may use the numbers and compiled functions in `around`.

    An expression needs a `name`. Lines count from the one above the text. Raises the errors of `compile`.
    """
    module = parse("\n" + text, name="<cell>")
    if module.expression is not None and name is None:
        raise ParseError("the cell is an expression without a name", remedy="name it: %%adc f")
    return _definitions(module, name or "", meanings(around, module), _names(static), options(**given))


def composed(
    text: str, name: str, around: Mapping[str, Any], static: Sequence[str], like: Function
) -> SourceFunction:
    """The definition in a text that calls functions, compiled with the options of one of them."""
    chosen = like._options if isinstance(like, SourceFunction) else Options(backend=like._backend)
    module = parse(text, name="<composed>")
    return _made(closure_of(module, name, None, meanings(around, module)), static, chosen)


def _definitions(
    module: Module, name: str, around: Mapping[str, Any], static: Sequence[str], chosen: Options
) -> dict[str, Any]:
    """What a text defines; an expression is a definition called `name`. `static` are parameters of any."""
    if module.expression is not None:
        return {name: _made(closure_of(module, name, None, around), static, chosen)}
    scope = scope_of(module, around)
    found = {n: _callable(n, v) for n, v in scope.items() if n not in around or around[n] is not v}
    taken = {n: _parameters(v) for n, v in found.items() if isinstance(v, Closure)}
    for one in set(static).difference(*taken.values()):
        raise Error(f"static contains {one!r}, which no definition takes", remedy="name a parameter")
    return {
        n: _made(v, [s for s in static if s in taken[n]], chosen) if n in taken else v
        for n, v in found.items()
    }


def _parameters(closure: Closure) -> list[str]:
    return [p.name for p in closure.definition.parameters]


def _read(given: str | Path) -> tuple[Path, bytes]:
    """A path and what its file holds; raises FileError."""
    try:
        path = Path(given)
    except TypeError:
        cause = f"load takes a path, not {type(given).__name__}"
        raise DtypeError(cause, remedy="compile takes a string, function a Python function") from None
    try:
        return path, path.read_bytes()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError | ValueError) -> FileError:
    """What is wrong with a path whose file cannot be read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        files = [p.name for p in path.parent.glob("*.adc")] if path.parent.is_dir() else []
        near = get_close_matches(path.name, files, 1)
        remedy = f"did you mean {path.with_name(near[0])}?" if near else f"the folder here is {Path.cwd()}"
        if not path.suffix:
            remedy += "; for a program as text use compile"
        return MissingFileError(f"there is no file {path}", remedy=remedy)
    if os.path.isdir(path):
        return FileError(f"{path} is a folder", remedy="name a file in it")
    cause = getattr(error, "strerror", None) or str(error)
    return FileError(f"cannot read {path}: {cause}", remedy="choose a file that you can read")


def _callable(name: str, value: Any) -> Any:
    """A derivative that a file names, such as `du = grad(u)`, as a definition."""
    if not isinstance(value, FunctionValue):
        return value
    return closure_of(parse(f"{name}({', '.join(value.parameters)})"), name, value.parameters, {name: value})


@overload
def function(f: Callable[..., AnyFunction], /) -> Function: ...
@overload
def function(
    *,
    static: Sequence[str] | str = (),
    broadcasting: str = "numpy",
    backend: str = "cpu",
    memory: int | str | None = None,
    precise: bool = False,
    save: str | Sequence[str] = "partials",
    unchecked: bool = False,
    threads: int | None = None,
) -> Callable[[Callable[..., AnyFunction]], Function]: ...
@public
def function(
    f: Callable[..., AnyFunction] | None = None,
    /,
    *,
    static: Sequence[str] | str = (),
    broadcasting: str = "numpy",
    backend: str = "cpu",
    memory: int | str | None = None,
    precise: bool = False,
    save: str | Sequence[str] = "partials",
    unchecked: bool = False,
    threads: int | None = None,
) -> Function | Callable[[Callable[..., AnyFunction]], Function]:
    """Decorate a Python function, or one of numba: its source is compiled; Python never runs it.

    Numbers and functions that it uses (closures, module constants) are captured now. Python functions among
    them are compiled too. Options are those of `compile`.
    """
    chosen = options(broadcasting, backend, memory, precise, save, unchecked, threads)
    if f is None:
        return public(lambda g: _from_python(g, _names(static), chosen))
    return _from_python(f, _names(static), chosen)


def _from_python(f: Any, static: Sequence[str], chosen: Options) -> Function:
    """A function from a Python function, or from one of numba."""
    while isinstance(f, CACHED):  # a cache changes no result
        f = f.__wrapped__
    found = of_numba(f)
    python = f if found is None else found.python
    if not isinstance(python, FunctionType):
        remedy = why_refused(f) or undecorated(f) or "pass a string or a Python function"
        raise DtypeError(f"cannot compile a {type(f).__name__}", remedy=remedy)
    made = _made(_closure_of(python, found), static, chosen)
    made.__module__, made.__qualname__ = python.__module__, python.__qualname__
    return made


def _closure_of(f: FunctionType, found: NumbaFunction | None = None) -> Closure:
    """The definition of a Python function, with the names around it as they are now. Raises all that is wrong
    with it, and with the functions of numba that it calls, as one error."""
    module, name, errors = parsed(f)
    around = captured(f, module, errors)
    if errors:
        around[UNKNOWN] = ANY
    closure = closure_of(with_defaults(module, name, f), name, None, around)
    try:
        closure = with_procedures(closure, found is not None and found.kind == "jit")
    except Error as error:
        raise Error.together((*errors, error)) from None
    if found is not None:
        closure = fitted(found, closure)
    if errors:
        raise Error.together(mistakes(closure, errors))
    return closure


def _made(closure: Closure, static: Sequence[str], chosen: Options) -> SourceFunction:
    names = _parameters(closure)
    for name in static:
        if name not in names:
            raise Error(
                f"static names {name!r}, which {closure.name} does not take",
                remedy=f"it takes {', '.join(names)}",
            )
    check(closure)
    return SourceFunction(closure, static, chosen)


def _names(given: Any) -> tuple[str, ...]:
    """Names from a sequence (of texts or SymPy symbols), or from one text with commas or blanks."""
    if not isinstance(given, str | tuple | list):
        raise ParseError(f"the names of parameters are a {type(given).__name__}", remedy='write args="x, y"')
    listed = given.replace(",", " ").split() if isinstance(given, str) else given
    names: list[str] = [getattr(n, "name", n) for n in listed]
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise ParseError(
                f"{name!r} is not a parameter name",
                remedy="write letters, digits and _; a def has annotations: def f(x: f64[n]): return ...",
            )
    if len(set(names)) < len(names):
        raise ParseError("args names a parameter twice", remedy="name each parameter once")
    return tuple(names)
