"""Parameters that a program may need as integers: a Python int for one of them is an integer if the program
needs one there, and a float otherwise (`runtime/programs/integer_lists.py`)."""

from __future__ import annotations

from collections.abc import Iterable

from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import assigned
from adcompiler.ir.walk import postorder
from adcompiler.ops.table import ALIASES, TABLE

BITS = frozenset(("&", "|", "^", "<<", ">>", "%", "//"))


def counting(definition: tree.Def) -> frozenset[str]:
    """The names of a definition that may be indices, lengths or bounds, or from which such names are made."""
    nodes = postorder(list[tree.Tree](definition.body), tree.children)
    found: set[str] = set()
    for node in nodes:
        match node:
            case tree.Subscript(indices=indices):
                found |= _names(indices)
            case tree.Call(function=function, arguments=arguments, keywords=keywords):
                name = getattr(function, "id", getattr(function, "name", ""))
                if name not in TABLE and name not in ALIASES:
                    found |= _names((*arguments, *(value for _, value in keywords)))
            case tree.Binary(op=op, left=left, right=right) if op in BITS:
                found |= _names((left, right))
            case tree.Sequence(items=items):
                found |= _names(items)
    stores = [n for n in nodes if isinstance(n, tree.Assign | tree.Augmented)]
    while True:
        more = {n for s in stores if found & set(assigned((s,))) for n in _names((s.value,))} - found
        if not more:
            return frozenset(found)
        found |= more


def _names(nodes: Iterable[tree.Tree]) -> set[str]:
    return {n.id for n in postorder(list(nodes), tree.children) if isinstance(n, tree.Name)}
