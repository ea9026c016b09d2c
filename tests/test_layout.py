"""The layout is a promise: imports go one way, a folder is a concept, and importing adcompiler is cheap."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

import pytest

import adcompiler

# Folders and modules of the package in order: each may import itself and those before it.
ORDER = (
    "lazy_dataclass limits public_types errors fork frames lazy progress provided store",
    "ir ops/rules ops ir/textform analysis frontend/grammar pytree",
    "frontend/values frontend/linalg frontend/indexing frontend/library frontend/lowering",
    "ad passes/algebra passes/order passes/arrays passes/recurrences passes ad/programs passes/chunks",
    "interpreter targets kernels/routines loopir loopir/transforms kernels/schedule kernels/emit",
    "targets/numba targets/llvm targets/llvm/vectormath targets/llvm/runtime targets/c",
    "targets/cuda/device targets/cuda/emit targets/cuda targets/cpu",
    "runtime/arguments runtime/programs runtime/reports",
    "eager/graph eager/variable eager/aggregates explain/why explain/page api/pairs api",
    "explain/nan explain/tape tape",
    "optim fit interop interop/torch interop/jax interop/dask",
    "frontend kernels runtime eager explain dask torch . cli",  # of folders, what holds no module
)
LAYERS = [folder for floor in ORDER for folder in floor.split()]
MOST_MODULES = 20  # of a folder, other than `cli`, which has a module for each verb
MOST_LINES = 900  # of a file
LAZY = {"numba", "llvmlite", "sympy", "scipy", "lark", "typer", "rich"}
LAZY |= {"torch", "jax", "dask", "pandas", "xarray", "IPython", "tqdm"}

MOST = re.compile("MOST_|FEWEST_|LONGEST_|LARGEST_|SHORTEST_|LEAST_")
WITHOUT_LIMITS = {"pytree"}  # folders that keep them in modules

PACKAGE = Path(find_spec("adcompiler").origin).parent


def module_name(path: Path) -> str:
    parts = ("adcompiler", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def layer(module: str) -> str:
    """The folder of a module; a module beside the folders, and one of limits, stands for itself."""
    path = FILES[module].relative_to(PACKAGE)
    if path.stem == "limits":
        return "limits"
    return path.stem if path.parent == Path() and path.stem != "__init__" else path.parent.as_posix()


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


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements, without the expressions in them."""
    work = [tree]
    while work:
        yield (node := work.pop())
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            work += getattr(node, part, ())


def imports(module: str, source: str, is_package: bool = False) -> set[str]:
    """Every module of adcompiler that `source` imports, inside functions as well."""
    package = module if is_package else module.rpartition(".")[0]
    tree = ast.parse(source)
    by_name = "import_module(" in source or "__import__(" in source
    found = [name for node in (ast.walk if by_name else statements)(tree) for name in named(node, package)]
    known = {name if name in FILES else name.rpartition(".")[0] for name in found}
    return known & FILES.keys() - {module}


@cache
def graph() -> dict[str, set[str]]:
    """What each module imports."""
    return {
        name: imports(name, path.read_text("utf-8"), path.stem == "__init__") for name, path in FILES.items()
    }


def test_every_folder_has_a_place():
    assert {layer(module) for module in FILES} == set(LAYERS)


def test_imports_go_one_way():
    print("the folders in order:", *ORDER, sep="\n    ")
    backwards = []
    for module, targets in graph().items():
        place = LAYERS.index(layer(module))
        backwards += [f"{module} imports {t}" for t in targets if LAYERS.index(layer(t)) > place]
    assert not backwards


def test_folders_are_concepts():
    """A folder says in a sentence what it is, and has a number of modules that one can read."""
    for folder in {path.parent for path in FILES.values()}:
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))), folder
        modules = [path for path in folder.glob("*.py") if path.stem != "limits"]
        assert len(modules) <= MOST_MODULES or folder.name == "cli", folder


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


def test_files_are_as_long_as_a_concept():
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in FILES.items()}
    assert not {name: length for name, length in lengths.items() if length > MOST_LINES}


def test_limits_have_a_place_and_a_reason():
    """A limit stands in the `limits` of its folder, which import nothing, with a comment beside it."""
    for name, path in FILES.items():
        text = path.read_text("utf-8")
        lines = text.splitlines()
        own = path.stem == "limits"
        assert not (own and graph()[name]), name
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign) and (own or MOST.match(ast.unparse(node.targets[0]))):
                assert own or path.parent.name in WITHOUT_LIMITS, f"{name}:{node.lineno}"
                line, above = lines[node.lineno - 1], lines[node.lineno - 2]
                assert "  # " in line or above.startswith("# "), f"{name}:{node.lineno}"


# -- faces ----------------------------------------------------------------------------------------

MOST_NAMES = 15  # of a compiled function; what the compiler asks of it begins with an underscore
NAMED_BY_RULES = {"Builder"}  # whose methods are what Lark does for the rules of the grammar with their names


def classes() -> dict[str, list[ast.ClassDef]]:
    """The classes of the package by name."""
    found: dict[str, list[ast.ClassDef]] = {}
    for path in FILES.values():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(node)
    return found


def functions(body: list[ast.stmt], of: ast.ClassDef | None = None) -> Iterator[Any]:
    """The public functions and methods in a body, each with its class."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node.body, node)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            words = {ast.unparse(d).rpartition(".")[2] for d in node.decorator_list}
            if not words & {"overload", "setter", "deleter"} and ast.unparse(node.body[0]) != "...":
                yield of, node


def is_inherited(name: str, of: ast.ClassDef, known: dict[str, list[ast.ClassDef]]) -> bool:
    """Whether a class above one documents a method."""
    names = (ast.unparse(b).partition("[")[0].rpartition(".")[2] for b in of.bases)
    above = [found for n in names if n != of.name for found in known.get(n, ())]
    own = [(getattr(m, "name", ""), m) for one in above for m in one.body]
    documented = any(n == name and ast.get_docstring(m) for n, m in own)
    return documented or any(is_inherited(name, one, known) for one in above)


def test_every_public_function_has_a_docstring():
    known = classes()
    missing = []
    for module, path in FILES.items():
        for of, node in functions(ast.parse(path.read_text("utf-8")).body):
            by_class = of and (of.name in NAMED_BY_RULES or is_inherited(node.name, of, known))
            if not (by_class or ast.get_docstring(node)):
                missing.append(f"{module}:{node.lineno} {node.name}")
    assert not missing


def test_annotations_of_public_names_say_why_they_cannot_say_more():
    """They have no `Any`, but names of `public_types`, where the reason stands."""
    vague = []
    for home, names in adcompiler._HOMES.items():
        if home in FILES and home != "adcompiler":
            body = ast.parse(FILES[home].read_text("utf-8")).body
            public = [n for n in body if getattr(n, "name", None) in names]
            for _, node in functions(public):
                given = [a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg)]
                texts = [ast.unparse(a) for a in (*given, node.returns) if a is not None]
                vague += [f"{home}.{node.name}: {text}" for text in texts if re.search(r"\bAny\b", text)]
    assert not vague


def test_compiled_functions_have_few_names():
    names = [name for name in dir(adcompiler.compile("x * x")) if not name.startswith("_")]
    assert len(names) <= MOST_NAMES, names


def test_importing_adcompiler_is_cheap():
    script = "import sys; before = set(sys.modules); import adcompiler; print(*set(sys.modules) - before)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], cwd=PACKAGE.parent, capture_output=True, text=True
    )
    assert loaded.returncode == 0, loaded.stderr
    assert not LAZY & set(loaded.stdout.split())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes where no name was ever used")
def test_modules_among_the_names_are_imported_as_modules():
    """As `import adcompiler.tape`, or the error says what is missing."""
    script = """
import os, sys, adcompiler as adc
for name in adc._MODULES:
    if not os.fork():
        exec(f"import adcompiler.{name} as m; assert m is adc.{name}; print(m.__name__)")
        sys.exit()
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=PACKAGE.parent, capture_output=True, text=True)
    for name in adcompiler._MODULES:
        missing = f'help: pip install "adcompiler[{name}]"' in done.stderr
        assert missing or f".{name}\n" in done.stdout, done.stderr
