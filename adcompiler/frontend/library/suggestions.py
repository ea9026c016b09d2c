"""Suggestions for names that are not in the language."""

from __future__ import annotations

import builtins
import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np

from adcompiler.frontend.grammar import other_languages, tree
from adcompiler.frontend.grammar.scipy_names import SPECIAL
from adcompiler.frontend.library.builtins import BUILTINS, CONSTANTS, METHODS
from adcompiler.frontend.library.distributions import of_scipy
from adcompiler.frontend.library.numpy_names import PREFIXED
from adcompiler.frontend.values.modules import dotted
from adcompiler.frontend.values.operators import ELSEWHERE, OTHERWISE

UNKNOWN = "assign it first, make it a parameter, or define it: def name(x): ..."
UNUSED = "assign it to a name or return it"


def missing(node: tree.Expression, scope: Mapping[str, Any]) -> str | None:
    """A suggestion for a function of an unsupported module, such as `np.random.rand`; None for a method."""
    whole, root = dotted(node) or "", node
    while isinstance(root, tree.Attribute):
        root = root.value
    if not isinstance(root, tree.Name) or root.id in scope or root.id in CONSTANTS:
        return None
    return elsewhere(whole)


def elsewhere(whole: str) -> str:
    """A suggestion for a function of another library, by its name with dots."""
    prefix, _, last = whole.rpartition(".")
    if (formula := of_scipy(whole) or OTHERWISE.get((prefix, last))) is not None:
        return formula
    *before, name = whole.split(".")
    for count in range(len(before), 0, -1):
        if (found := other_languages.MODULES.get(".".join(before[:count]))) is not None:
            return found
    return similar(name, {})


def ours(prefix: str, name: str) -> str:
    """A suggestion for a name of another library, such as `torch.sum`."""
    if prefix == "torch" and name in ("std", "var"):
        return f"write {name}(x, ddof=1)"
    if ("np", name) in PREFIXED:
        return f"write np.{name}(...)"
    if name in CONSTANTS:
        return f"write {name}"
    if name in BUILTINS:
        return f"write {name}(...), or np.{name}(...)"
    found = (other_languages.MODULES.get(words) for words in (f"{prefix}.{name}", prefix))
    return next(filter(None, found), None) or similar(name, {})


def alone(node: tree.Expression) -> str:
    """A suggestion for an expression whose value is not used."""
    called = node.function if isinstance(node, tree.Call) else node
    name = called.name if isinstance(called, tree.Attribute) else getattr(called, "id", "")
    table = (
        other_languages.METHODS
        if isinstance(called, tree.Attribute)
        else other_languages.FUNCTIONS | ELSEWHERE
    )
    modules = [
        words
        for prefix, words in other_languages.MODULES.items()
        if (dotted(called) or "").startswith(f"{prefix}.")
    ]
    if isinstance(called, tree.Attribute) and name in ("sort", "clip", "round", "repeat") and not modules:
        return f"arrays change in place only by x[i] = v: write x = {name}(...)"
    return next(iter(modules), None) or table.get(name) or other_languages.NAMES.get(name) or UNUSED


def instead(method: str) -> str:
    """A suggestion for an unknown method."""
    if method in other_languages.METHODS:
        return other_languages.METHODS[method]
    if method.endswith("_") and method.rstrip("_"):
        return f"arrays change in place only by x[i] = v: write x = ... without {method}"
    if method in BUILTINS:
        return f"write {method}(x) instead of x.{method}()"
    near = difflib.get_close_matches(method, METHODS, n=1, cutoff=0.7)
    return f"did you mean .{near[0]}()?" if near else f"there are {', '.join(sorted(METHODS))}"


def similar(name: str, scope: Mapping[str, Any]) -> str:
    """A suggestion for an unknown name. A name that exists in NumPy or Python is not a misspelling."""
    own = [n for n in scope if len(n) > 1]
    if near := difflib.get_close_matches(name, own, n=1, cutoff=0.8):
        return f"did you mean {near[0]}?"
    for table in (ELSEWHERE, other_languages.FUNCTIONS, other_languages.NAMES, SPECIAL):
        if name in table:
            return table[name]
    if name in CONSTANTS:
        return f"{name} is a number: write {name} * (...) to multiply"
    if any(name in dir(module) for module in (np, np.linalg, builtins)):
        return "it is not part of the language: see docs/language.md"
    known = [n for n in (*scope, *BUILTINS, *CONSTANTS) if len(n) > 1]
    close_names = difflib.get_close_matches(name, known, n=2, cutoff=0.7)
    return f"did you mean {' or '.join(close_names)}?" if close_names else UNKNOWN
