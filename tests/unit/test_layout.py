"""The layout is a promise: imports go one way, files stay short, and importing adcompiler is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import find_spec, resolve_name
from pathlib import Path

import pytest

import adcompiler

# Each may import those before it; `adcompiler` is the package's own __init__, which gathers the public names.
LAYERS = ["errors", "fork", "frames", "lazy", "progress", "store", "ir", "ops", "analysis", "syntax", "ad"]
LAYERS += [
    "passes",
    "loopir",
    "codegen",
    "runtime",
    "interop",
    "optim",
    "tape",
    "dask",
    "torch",
    "adcompiler",
]
LAYERS += ["cli", "__main__"]
LAZY = {"numba", "llvmlite", "sympy", "scipy", "lark", "typer", "rich"}
LAZY |= {"torch", "jax", "dask", "pandas", "xarray", "IPython", "tqdm"}

PACKAGE = Path(find_spec("adcompiler").origin).parent


def module_name(path: Path) -> str:
    parts = ("adcompiler", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def layer(module: str) -> str:
    """The layer's name; the package's own `__init__` is the layer `adcompiler`."""
    return f"{module}.".split(".")[1] or "adcompiler"


def named(node: ast.AST, package: str) -> Iterator[str]:
    """The modules (or names in them) that one statement or `import_module("...")` imports."""
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom():
            base = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        case ast.Call(func=ast.Name(id=call) | ast.Attribute(attr=call), args=[ast.Constant(str(name)), *_]):
            if call in ("import_module", "__import__"):
                yield resolve_name(name, package)


def imports(module: str, source: str, is_package: bool = False) -> set[str]:
    """Every module of adcompiler that `source` imports, inside functions as well."""
    package = module if is_package else module.rpartition(".")[0]
    found = [name for node in ast.walk(ast.parse(source)) for name in named(node, package)]
    known = {name if name in FILES else name.rpartition(".")[0] for name in found}
    return known & FILES.keys() - {module}


@cache
def graph() -> dict[str, set[str]]:
    """What each module imports."""
    return {
        name: imports(name, path.read_text("utf-8"), path.stem == "__init__") for name, path in FILES.items()
    }


def test_every_module_has_a_layer():
    assert {layer(module) for module in FILES} <= set(LAYERS)


def test_imports_go_one_way():
    backwards = [
        f"{module} imports {target}"
        for module, targets in graph().items()
        for target in sorted(targets)
        if LAYERS.index(layer(target)) > LAYERS.index(layer(module))
    ]
    assert not backwards


def test_no_import_cycles():
    TopologicalSorter(graph()).prepare()  # its CycleError names the cycle


@pytest.mark.parametrize(
    "source",
    [
        "import adcompiler.errors",
        "from adcompiler import errors",
        "from adcompiler.errors import Span",
        "from .. import errors",
        "from ..errors import Span, Error as E",
        "def f():\n    from adcompiler.errors import Span",
        "import_module('adcompiler.errors')",
        "importlib.import_module('..errors', __package__)",
    ],
)
def test_every_way_to_import_is_seen(source):
    assert imports("adcompiler.ir.nodes", source) == {"adcompiler.errors"}


def test_files_are_short():
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in FILES.items()}
    assert not {name: length for name, length in lengths.items() if length > 900}


def test_importing_adcompiler_is_cheap():
    script = "import sys; before = set(sys.modules); import adcompiler; print(*set(sys.modules) - before)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], cwd=PACKAGE.parent, capture_output=True, text=True
    )
    assert loaded.returncode == 0, loaded.stderr
    assert not LAZY & set(loaded.stdout.split())


@pytest.mark.parametrize("name", adcompiler._MODULES)
def test_modules_among_the_names_are_imported_as_modules(name):
    """As `import adcompiler.tape`, and before the name was ever used; or told what is missing."""
    script = f"import adcompiler.{name} as m, adcompiler as adc; assert m is adc.{name}; print(m.__name__)"
    done = subprocess.run([sys.executable, "-c", script], cwd=PACKAGE.parent, capture_output=True, text=True)
    assert done.stdout.endswith(f".{name}\n") or f'help: pip install "adcompiler[{name}]"' in done.stderr
