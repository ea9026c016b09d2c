"""The compiled functions of a Python file: it is run as a module, as `python -c "import file"` would."""

from __future__ import annotations

import sys
import traceback
from contextlib import redirect_stdout
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from adcompiler.api.function import Function, SourceFunction
from adcompiler.cli.errors import UsageError
from adcompiler.cli.inputs import Input
from adcompiler.errors import Error, Source, Span


def functions_in(given: Input, backend: str | None) -> dict[str, Function]:
    """Those that the file names, decorated or made by `adc.compile` and transforms; compiled for `backend`,
    else for their own. What the file prints goes to stderr. Raises Error with the line at which it fails."""
    module = _run(given)
    found = {name: f for name, f in vars(module).items() if isinstance(f, Function)}
    return found if backend is None else {name: _on(f, backend) for name, f in found.items()}


def _on(f: Function, backend: str) -> Function:
    """The function, compiled for a backend."""
    if f._backend == backend:
        return f
    if not isinstance(f, SourceFunction):
        cause = f"{f.__name__} is compiled for {f._backend}, as a derivative of another function"
        raise UsageError(cause, remedy="omit --backend, or use that function")
    static = [p.name for p in f._parameters if p.static]
    return SourceFunction(f._closure, static, replace(f._options, backend=backend))


def _run(given: Input) -> ModuleType:
    """The module; modules beside it can be imported from it."""
    path = Path(given.name).resolve()
    name = f"_adc_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except Error:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(given, path, error) from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _failed(given: Input, path: Path, error: BaseException) -> Error:
    """What went wrong while the file ran, at its own line."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    source = Source(given.text(), given.name)
    text = source.text.split("\n")[line - 1] if line else ""
    start = len(text) - len(text.lstrip()) + 1
    return Error(
        f"{type(error).__name__}: {error}",
        remedy=f"make sure that python {given.written} runs",
        source=source,
        span=Span(line, start, line, len(text) + 1) if line else None,
    )
